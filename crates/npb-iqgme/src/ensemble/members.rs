//! The one way in which a fit with members is made: they are trained from each start, trained again without each fold, and weighed by what they say of it.

use npb_data::{Labels, Table};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, Watch, parallel};

use super::crossval::{self, HeldOut, Side};
use super::member::Member;
use super::questions::{Fit, Kept};
use super::stacking::{Without, stacked, weighed};
use super::train::{Model, Planned, Watched, planned};
use crate::data::Task;
use crate::rows::Rows;
use crate::units::Units;
use crate::{IqgmeError, Result};

/// Settings of a fit with members.
pub(crate) struct Plan<'a, I> {
    pub(crate) starts: &'a [I],
    pub(crate) restarts: usize,
    pub(crate) folds: usize,
    pub(crate) seed: u64,
    pub(crate) elbo_temperature: f64,
    pub(crate) limits: VbLimits,
    /// Who else may train members without a fold, where tables are a sample of the rows of the data.
    pub(crate) elsewhere: Option<&'a Elsewhere<'a>>,
}

/// Gives what members say of the labels of a fold, member by member; None where nobody else is there.
pub(crate) type Elsewhere<'a> = dyn Fn(usize) -> Result<Option<Vec<Vec<f64>>>> + Sync + 'a;

/// A kind of fit that has members.
pub trait Ensemble: Model {
    /// What follows from a member's posterior and the rows of training.
    type More: Kept;
    /// Rows that a fold leaves out, as members see them.
    type LeftOut: Sync;
    /// What members weigh where labels say nothing.
    const WITHOUT: Without;

    fn members(trained: &Self::Trained) -> &[MemberOf<Self>];

    /// Of members in their order.
    fn best(members: &[MemberOf<Self>]) -> &MemberOf<Self> {
        &members[0]
    }

    /// Training data by scale: one of tables alone, or on normal scores, too; by the data where nothing is said.
    fn data(
        tables: &[Task<'_>],
        config: &Self::Config,
        scored: Option<bool>,
    ) -> Result<Vec<Self::Data>>;

    /// A number that is, but for chance, another one for other rows or labels; the number of observed cells in the model's columns; and the classes.
    fn about(data: &Self::Data) -> Result<(u64, usize, &[String])>;

    /// A member by its run, when that has ended.
    fn ended(
        planned: Planned<Self::Init>,
        outcome: VbOutcome,
        vb: Self::Vb<'_>,
    ) -> Result<MemberOf<Self>>;

    fn left_out(data: &[Self::Data], tables: &[Table]) -> Result<Self::LeftOut>;

    /// Probabilities of the classes of the rows that were left out, row by row, by a run that was told neither row nor class.
    fn predict_left_out(
        planned: Planned<Self::Init>,
        outcome: VbOutcome,
        vb: Self::Vb<'_>,
        rows: &Self::LeftOut,
    ) -> Result<Vec<f64>>;
}

/// A member of such a fit.
pub(crate) type MemberOf<V> =
    Member<<V as Model>::Init, <V as Model>::State, <V as Ensemble>::More>;

/// Trains members on the data (by scale), holds out and weighs; of a fit that was stopped before all folds were there, weighed by their bounds.
pub(crate) fn trained<V: Ensemble>(
    tables: &[Task<'_>],
    data: &[V::Data],
    config: &V::Config,
    settings: &Plan<'_, V::Init>,
    watch: &Watch<'_>,
) -> Result<Vec<MemberOf<V>>> {
    let plan = planned(settings.starts, settings.restarts, data.len());
    let mut folds = crossval::sides(&labels(tables), settings.folds, settings.seed);
    if settings.elsewhere.is_some() {
        crossval::keep_enough(&mut folds);
    }
    let (print, n_observed, _) = V::about(&data[0])?;
    let limits = settings.limits;
    let watched = Watched::<V>::new(watch, config, print, plan, folds.len(), limits)?;
    let held_out = || match watched.is_stopped() {
        true => Ok(None),
        false => held_out(tables, config, data, (&folds, settings.elsewhere), &watched),
    };
    let (members, held_out) = match settings.elsewhere {
        None => (watched.train(data, &[], V::ended)?, held_out()?),
        // A sample says what members weigh before they are trained on all rows.
        Some(_) => {
            let held_out = held_out()?;
            let even = vec![1.0; watched.n_members()];
            let found = held_out
                .as_ref()
                .map(|of| stacked(of, watched.n_own(), &even));
            let weights = found.into_iter().flatten().map(|(weight, _)| weight);
            let iterations = watched.iterations(&weights.collect::<Vec<_>>());
            let members = watched.train(data, &iterations, V::ended)?;
            // Of a fit that was stopped some may be missing.
            let held_out = held_out.map(|of| of.trained(&iterations));
            let held_out = held_out.filter(|of| of.by_member.len() == members.len());
            (members, held_out)
        }
    };
    let by_bounds = (settings.elbo_temperature, n_observed);
    Ok(weighed(
        members,
        data.len(),
        held_out,
        V::WITHOUT,
        by_bounds,
    ))
}

/// What members say of the labels of folds that they were trained without. None when there is no fold, or when the fit was stopped.
fn held_out<V: Ensemble>(
    tables: &[Task<'_>],
    config: &V::Config,
    data: &[V::Data],
    (folds, elsewhere): (&[Vec<Side>], Option<&Elsewhere<'_>>),
    watched: &Watched<'_, '_, V>,
) -> Result<Option<HeldOut>> {
    if folds.is_empty() {
        return Ok(None);
    }
    let (_, _, classes) = V::about(&data[0])?;
    let of_fold = |(fold, sides): (usize, &Vec<Side>)| {
        let n_labels: usize = sides.iter().map(|side| side.left_out.len()).sum();
        watched.fold(fold, n_labels * classes.len(), || {
            let found = elsewhere.map_or(Ok(None), |ask| ask(fold))?;
            match found {
                Some(found) => Ok(Some(found)),
                None => without(tables, config, data.len() > 1, (fold, sides), watched),
            }
        })
    };
    let by_fold = parallel::try_map(folds.iter().enumerate(), of_fold)?;
    let by_fold: Option<Vec<Vec<Vec<f64>>>> = by_fold.into_iter().collect();
    let Some(by_fold) = by_fold else {
        return Ok(None);
    };
    let of_member = |k: usize| by_fold.iter().flat_map(move |fold| fold[k].clone());
    let members = 0..watched.n_members();
    Ok(Some(HeldOut {
        by_member: members.map(|k| of_member(k).collect()).collect(),
        truth: crossval::truth(&labels(tables), classes, folds),
    }))
}

/// Trains all members without a fold; their probabilities, member by member, of each row that it leaves out. `sides`: one for each table.
fn without<V: Ensemble>(
    tables: &[Task<'_>],
    config: &V::Config,
    scored: bool,
    (fold, sides): (usize, &[Side]),
    watched: &Watched<'_, '_, V>,
) -> Result<Option<Vec<Vec<f64>>>> {
    let (data, left_out) = sides_of_fold::<V>(tables, config, scored, sides)?;
    watched.train_without(fold, &data, |planned, outcome, vb| {
        V::predict_left_out(planned, outcome, vb, &left_out)
    })
}

/// What [`without`] finds for one member alone.
pub(crate) fn one_without<V: Ensemble>(
    tables: &[Task<'_>],
    config: &V::Config,
    settings: &Plan<'_, V::Init>,
    scored: bool,
    (fold, member): (usize, usize),
) -> Result<Vec<f64>> {
    let folds = crossval::sides(&labels(tables), settings.folds, settings.seed);
    let nobody = || IqgmeError::Shard(format!("no fold {fold} of member {member}"));
    let sides = folds.get(fold).ok_or_else(nobody)?;
    let plan = planned(settings.starts, settings.restarts, 1 + usize::from(scored));
    if member >= plan.len() {
        return Err(nobody());
    }
    let (data, left_out) = sides_of_fold::<V>(tables, config, scored, sides)?;
    let watch = Watch::none();
    let watched = Watched::<V>::new(&watch, config, 0, plan, folds.len(), settings.limits)?;
    let found = watched.member_without((fold, member), &data, |planned, outcome, vb| {
        V::predict_left_out(planned, outcome, vb, &left_out)
    })?;
    found.ok_or_else(nobody)
}

/// The data that a fold keeps, by scale, and the rows that it leaves out.
fn sides_of_fold<V: Ensemble>(
    tables: &[Task<'_>],
    config: &V::Config,
    scored: bool,
    sides: &[Side],
) -> Result<(Vec<V::Data>, V::LeftOut)> {
    let each = || tables.iter().zip(sides);
    let kept = each().map(|(all, Side { kept, .. })| {
        let labels = all.labels.select_rows(kept);
        (all.name, all.table.select_rows(kept), labels)
    });
    let kept: Vec<(&str, Table, Labels)> = kept.collect();
    let kept = kept.iter().map(|(name, table, labels)| Task {
        name,
        table,
        labels,
    });
    let data = V::data(&kept.collect::<Vec<_>>(), config, Some(scored))?;
    let hidden = each().map(|(all, side)| all.table.select_rows(&side.left_out));
    let left_out = V::left_out(&data, &hidden.collect::<Vec<_>>())?;
    Ok((data, left_out))
}

fn labels<'a>(tables: &[Task<'a>]) -> Vec<&'a Labels> {
    tables.iter().map(|table| table.labels).collect()
}

/// Rows left out of a fold, by table and scale.
pub(crate) fn rows_left_out<'u>(
    units: impl Iterator<Item = &'u Units> + Clone,
    tables: &[Table],
) -> Result<Vec<Vec<Rows>>> {
    let of_table = |table| units.clone().map(|u| u.rows_left_out(table)).collect();
    tables.iter().map(of_table).collect()
}

/// What a fit with members says of them.
impl<V: Ensemble> Fit<V> {
    /// All members, in the order of the type.
    pub fn members(&self) -> &[MemberOf<V>] {
        V::members(&self.stored.trained)
    }

    /// The member that says what is told of one alone: see the type.
    pub fn best(&self) -> &MemberOf<V> {
        V::best(self.members())
    }

    /// The variational posterior of the [best](Self::best) member, in standardised units.
    pub fn state(&self) -> &V::State {
        &self.best().state
    }

    /// Bound and relative change of the [best](Self::best) member, iteration by iteration.
    pub fn trace(&self) -> &[VbReport] {
        &self.best().trace
    }

    /// Why the [best](Self::best) member ended.
    pub fn stop(&self) -> Stop {
        self.best().stop
    }
}
