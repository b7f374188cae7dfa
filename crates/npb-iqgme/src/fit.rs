//! The result of a fit, and what can be asked of it.

mod kept;
mod layout;
mod posterior;
mod training;
mod widths;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, Watch, Xoshiro256PlusPlus, stream};
use npb_priors::dist::pick;
use npb_priors::dp::dominant_count_distribution;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ComponentSummary, check_draws, check_inside, class_intervals, second, with_first_class,
};
use crate::config::FeatureScale;
use crate::data::{IqgmeData, distinct, fingerprint};
use crate::ensemble::crossval::{self, Side, held_out};
use crate::ensemble::member::{self, Member, MixtureView, Part, Predictive, check_members};
use crate::ensemble::questions::{Completing, by_draws, prelude::*, taking_turns};
use crate::ensemble::scales;
use crate::ensemble::stacking::{Without, weighed};
use crate::ensemble::train::{Model, Watched, model, planned};
use crate::laplace;
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::state::{check_experts, expect};
use crate::vb::IqgmeVb;
use crate::{Init, IqgmeConfig, IqgmeState};
use kept::TrainingRows;
use npb_infer::ensemble::Calibration;

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 2;
const IMPUTE: u64 = 3;
const COUNT: u64 = 4;
const PICK: u64 = 5;

/// Fits the model: prepares the data and trains every member that `config.starts` (or `unlabelled_starts`), `restarts` and `normal_scores` ask for; with labels each of them
/// `config.folds` times more, at most 15 iterations each, to find its stacking weight and its calibration.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (see [`fit_unlabelled`] for none at all).
/// Classes without a labelled row are left out: see [`IqgmeFit::classes`].
/// Errors: see [`IqgmeData::new`]. Members are trained in parallel on the caller's rayon pool; the result does not depend on the number of threads.
pub fn fit(table: &Table, labels: &Labels, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    fit_watched(table, labels, config, &Watch::none())
}

/// As [`fit`](crate::fit()), watched: the watcher hears of every iteration of every member and fold, may stop the fit, and a checkpoint lets a fit that was stopped
/// or killed go on to the same bits as if it had never stopped (its start, until the first checkpoint, and members of a fold that has not ended are made again).
///
/// A fit that was stopped is a valid one, and the `stop` of its members says it; if folds are missing, members are weighed by their bounds and nothing is
/// calibrated, so that it is there at once. Errors: as [`fit`](crate::fit()); a checkpoint that cannot be written or read, or that is of another fit.
pub fn fit_watched(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
    watch: &Watch<'_>,
) -> Result<IqgmeFit, IqgmeError> {
    let data = by_scale(table, labels, config)?;
    let starts = match data[0].n_labelled {
        0 => &config.unlabelled_starts,
        _ => &config.starts,
    };
    let plan = (&planned(starts, data.len())[..], config.restarts);
    let n = plan.0.len() * config.restarts;
    let folds = crossval::sides(&[labels], config.folds, config.seed);
    let print = fingerprint(&data[0])?;
    let watched = Watched::<Single>::new(watch, config, print, plan, folds.len())?;
    let members = watched.train(&data, plan, config, |planned, outcome, mut vb| {
        let experts = laplace::experts(&mut vb)?;
        Ok(Member::new(planned, outcome, vb.into_state(), experts))
    })?;
    let weigh = |held_out| {
        let by_bounds = (config.elbo_temperature, data[0].n_observed());
        weighed(members, data.len(), held_out, Without::Bounds, by_bounds)
    };
    if watched.is_stopped() {
        let members = weigh(None);
        return IqgmeFit::new(data, config, members, (table, labels));
    }
    let limited = Single::limited(config, Single::FOLD_ITERATIONS);
    let classes = &data[0].classes;
    let held_out = held_out(&[labels], classes, &folds, n, &watched, |fold, sides| {
        let Side { kept, left_out } = &sides[0];
        let (rows, names) = (table.select_rows(kept), labels.select_rows(kept));
        let mut kept = vec![IqgmeData::new(&rows, &names, &limited)?];
        if data.len() > 1 {
            kept.push(kept[0].on_scores(&rows, &names)?);
        }
        let left_out = table.select_rows(left_out);
        let of_scale = |data: &IqgmeData| data.units.rows_left_out(&left_out);
        let rows = kept.iter().map(of_scale).collect::<Result<Vec<_>, _>>()?;
        watched.train_without(fold, &kept, plan, &limited, |planned, outcome, vb| {
            let member: Member = Member::new(planned, outcome, vb.into_state(), Vec::new());
            let rows = &rows[member.scale.index()];
            let others = predictor(&member)?.probabilities(rows, Experts::Integrated)?;
            Ok(with_first_class(others).concat())
        })
    })?;
    let members = weigh(held_out);
    IqgmeFit::new(data, config, members, (table, labels))
}

/// Fits a Dirichlet process mixture of Gaussians to rows without labels: clusters, densities, imputation.
pub fn fit_unlabelled(table: &Table, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    fit(table, &Labels::from_strings(&none), config)
}

/// Training data on the features' own scale and, if members on them are to be trained, on normal scores.
fn by_scale(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
) -> Result<Vec<IqgmeData>, IqgmeError> {
    let own = IqgmeData::new(table, labels, config)?;
    let wanted = scales::scores_wanted(&[labels], &[table], &own.units.active, config);
    let scored = wanted.then(|| own.on_scores(table, labels)).transpose()?;
    Ok([own].into_iter().chain(scored).collect())
}

// The model of one task.
model!(
    Single,
    IqgmeVb,
    [IqgmeConfig, IqgmeData, Init, IqgmeState],
    limits,
    "npb-iqgme/run/2",
    15,
    |_| Ok(())
);

fn predictor(member: &Member) -> Result<Predictor, IqgmeError> {
    let state = &member.state;
    Predictor::new(state, &state.experts).map_err(|failed| member.failed(failed))
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    config: IqgmeConfig,
    /// By scale.
    units: Vec<Units>,
    classes: Vec<String>,
    /// Fingerprint of the rows and labels of training.
    training: u64,
    /// The best member first; those on normal scores last, the best of them first.
    members: Vec<Member>,
}

/// A fitted model. Questions and answers are in the user's units, columns in the order of training.
///
/// Class probabilities average over the runs by their stacking weights, each calibrated ([`Member::calibration`]); in a run components are weighed as normal densities of the observed features at
/// the posterior means, experts and missing features are integrated out by moment matching. Densities and missing cells average over the runs by their bounds; components, clusters and the concentration are those of the
/// best run.
///
/// What is drawn (completed tables, and intervals of class probabilities) has its parameters drawn first. Where the rows of training are few enough for it to take some ten
/// seconds, they are kept, in files too, and the first question that wants draws runs Gibbs chains on them, from the runs on; so completed tables can be pooled by Rubin's rule. Of a
/// larger table, of a file from before rows were kept, and where chains fail, parameters are drawn from the variational posterior, which is too narrow. With at most 60 rows the chains tell of missing cells
/// in all answers.
#[derive(Clone, Debug)]
pub struct IqgmeFit {
    stored: Stored,
    /// Where chains on them take seconds.
    rows: Option<TrainingRows>,
    /// One for each run that has weight.
    predictors: Vec<Predictor>,
    /// Draws of all parameters, by scale, once they were asked for.
    posterior: [OnceLock<Option<Vec<Predictor>>>; 2],
    /// By how much laws of missing cells are widened, once it was asked for.
    stretch: OnceLock<f64>,
}

impl IqgmeFit {
    fn new(
        data: Vec<IqgmeData>,
        config: &IqgmeConfig,
        members: Vec<Member>,
        (table, labels): (&Table, &Labels),
    ) -> Result<Self, IqgmeError> {
        let n_components = members[0].state.components.len();
        let rows = TrainingRows::of_small(table, labels, &data[0], n_components);
        let stored = Stored {
            config: config.clone(),
            training: fingerprint(&data[0])?,
            classes: data[0].classes.clone(),
            units: data.into_iter().map(|data| data.units).collect(),
            members,
        };
        Ok(Self {
            rows,
            ..Self::from_stored(stored)?
        })
    }

    fn from_stored(stored: Stored) -> Result<Self, IqgmeError> {
        let has_part = |run: &Member| run.elbo_weight > 0.0 || run.stacking_weight > 0.0;
        let last = stored.members.iter().rposition(has_part);
        let predictors = stored.members[..last.map_or(0, |last| last + 1)]
            .iter()
            .map(predictor)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            stored,
            rows: None,
            predictors,
            posterior: Default::default(),
            stretch: OnceLock::new(),
        })
    }

    /// The same fit, whose draws (of missing cells, and behind intervals) are made with other random numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.stored.config.seed = seed;
        self.posterior = Default::default();
        self
    }

    /// The runs as members; `rows`: by scale.
    fn parts<'a>(
        &'a self,
        rows: &'a [Rows],
        experts: Experts,
        calibration: Option<&'a Calibration>,
    ) -> Vec<Part<'a, impl Predictive<Rows = Rows> + 'a>> {
        let part = |(weight, run, predictor): (f64, &'a Member, &'a Predictor)| Part {
            weight,
            calibration: calibration.unwrap_or(&run.calibration),
            rows: &rows[run.scale.index()],
            member: MixtureView {
                predictor: Cow::Borrowed(predictor),
                experts,
                draw: move |rng: &mut Xoshiro256PlusPlus| {
                    predictor.draw(&run.state, &run.derived, rng)
                },
            },
        };
        let runs = self.stored.members.iter().zip(&self.predictors);
        let weighed = runs.map(|(run, predictor)| (run.stacking_weight, run, predictor));
        // Those without weight may be on a scale on which there are no rows.
        weighed.filter(|(w, ..)| *w > 0.0).map(part).collect()
    }

    /// As [`predict_proba`](Self::predict_proba), by the posterior means in place of the parameters (W 3.4.3, incomplete data), runs by their stacking weights but not calibrated.
    pub fn predict_plug_in(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.stored.classes, "predict_plug_in", ALL_CLASSES)?;
        let rows = scales::rows(&self.stored.units, table)?;
        let as_it_is = Calibration::default();
        let parts = self.parts(&rows, Experts::AtMeans, Some(&as_it_is));
        Ok(second(member::class_probabilities(&parts)?))
    }

    /// Probabilities of the components given the observed features, one vector for each row, in the order of [`components`](Self::components); one
    /// entry more holds what is left for components without training rows, where the truncation has room for these.
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.predictors[0].responsibilities(&self.units().rows(table)?, Gate::Marginal)
    }

    /// The most probable component of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>, IqgmeError> {
        Ok(most_probable_of(self.responsibilities(table)?))
    }

    /// Number of components that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        // Sizes are differences: rounding must not lose a component of one row.
        self.sizes().filter(|size| *size > 1.0 - 1e-6).count()
    }

    /// Expected numbers of training rows of the components of the best run.
    fn sizes(&self) -> impl Iterator<Item = f64> {
        let base = self.stored.config.mean_strength;
        let components = self.state().components.iter();
        components.map(move |component| component.strength - base)
    }

    /// All components that the best run keeps, larger ones first, in the order of [`responsibilities`](Self::responsibilities) and numbered as
    /// [`clusters`](Self::clusters) are. Those with a size below one hold no row in effect; [`n_clusters`](Self::n_clusters) counts the others.
    pub fn components(&self) -> Vec<ComponentSummary> {
        let state = self.state();
        let (weights, weight_sds) = (state.sticks.expected_weights(), state.sticks.weight_sd());
        let base = self.stored.config.mean_strength;
        let units = self.units();
        let n_utilities = state.n_utilities();
        let summary = |h: usize| {
            let component = &state.components[h];
            let (mean, covariance) = units.gaussian(component);
            let experts = &self.best().derived[h * n_utilities..][..n_utilities];
            let (classifier, utilities) = units.classifiers(experts);
            ComponentSummary {
                weight: weights[h],
                weight_sd: weight_sds[h],
                size: component.strength - base,
                mean,
                covariance,
                classifier,
                utilities,
            }
        };
        (0..state.components.len())
            .filter(|&h| state.components[h].strength > base)
            .map(summary)
            .collect()
    }

    /// Posterior of the number of components whose weight exceeds `threshold`, by `draws` draws of the weights: entry `k` is the probability of `k`.
    pub fn dominant_components(
        &self,
        threshold: f64,
        draws: usize,
    ) -> Result<Vec<f64>, IqgmeError> {
        check_inside("threshold", threshold)?;
        check_draws(draws, 1)?;
        let sticks = &self.state().sticks;
        let mut rng = stream(self.stored.config.seed, [0, 0, COUNT, 0]);
        let weights = |out: &mut [f64]| sticks.sample_weights(out, &mut rng);
        Ok(dominant_count_distribution(
            sticks.truncation(),
            threshold,
            draws,
            weights,
        ))
    }

    /// Shape and rate of the Gamma posterior of the concentration `alpha`.
    pub fn concentration(&self) -> (f64, f64) {
        let alpha = self.state().sticks.alpha();
        (alpha.shape(), alpha.rate())
    }
}

impl IqgmeFit {
    fn class_probabilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let rows = scales::rows(&self.stored.units, table)?;
        member::class_probabilities(&self.parts(&rows, Experts::Integrated, None))
    }

    fn draw_intervals(
        &self,
        _: usize,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
        check_inside("level", level)?;
        check_draws(draws, 2)?;
        let rows = scales::rows(&self.stored.units, table)?;
        let parts = self.parts(&rows, Experts::Integrated, None);
        match self.drawn_classes(&rows, draws)? {
            Some(drawn) => {
                let means = member::class_probabilities(&parts)?;
                Ok(class_intervals(means, &drawn, level))
            }
            None => member::intervals(&parts, level, draws, (self.stored.config.seed, 0, INTERVAL)),
        }
    }
}

impl Describes for IqgmeFit {
    const GATE: Gate = Gate::Marginal;

    fn mixtures(&self, _: usize) -> Result<Vec<(f64, Cow<'_, Predictor>)>, IqgmeError> {
        let runs = self.stored.members.iter().zip(&self.predictors);
        let each = runs.map(|(run, predictor)| (run.elbo_weight, Cow::Borrowed(predictor)));
        Ok(each.filter(|(weight, _)| *weight > 0.0).collect())
    }

    fn completing(&self, task: usize) -> Result<Completing<'_>, IqgmeError> {
        match self.posterior_of_few() {
            Some(draws) => Ok(by_draws(draws)),
            None => Ok((Self::GATE, 0.0, self.mixtures(task)?)),
        }
    }

    fn stretch(&self) -> f64 {
        self.stretch_of_few()
    }

    /// The parameters of a draw: of the chains, far apart in them, or from `q` of a run, by weight.
    fn drawn(
        &self,
        _: usize,
        draw: usize,
        draws: usize,
    ) -> Result<(Gate, Cow<'_, Predictor>), IqgmeError> {
        if let Some(all) = self.posterior(FeatureScale::Standardised) {
            let one = &all[taking_turns(draw, draws, all.len())];
            return Ok((Gate::AtMeans, Cow::Borrowed(one)));
        }
        let mut rng = stream(self.stored.config.seed, [0, draw as u64, PICK, 0]);
        let weights = self.stored.members.iter().map(|run| run.elbo_weight);
        // Those that have weight come first.
        let run = pick(weights, rng.random()).unwrap_or(0);
        let state = &self.stored.members[run].state;
        let one = self.predictors[run].draw(state, &[], &mut rng)?;
        Ok((Gate::AtMeans, Cow::Owned(one)))
    }

    fn draw_key(&self) -> (u64, u64) {
        (self.stored.config.seed, IMPUTE)
    }
}

described!(IqgmeFit, IqgmeConfig, units[0]);
members!(IqgmeFit, Member, IqgmeState, |members| &members[0]);
classifier!(IqgmeFit);
intervals!(IqgmeFit, [draws: usize]);
features!(IqgmeFit);

impl Stored {
    fn check(&self) -> Result<(), String> {
        scales::check(&self.units)?;
        let (n_classes, members) = (self.classes.len(), &self.members);
        check_members(members, n_classes)?;
        let own = |member: &&Member| member.scale == FeatureScale::Standardised;
        let n_own = members.iter().take_while(own).count();
        let in_place = |member: &Member| {
            member.scale == FeatureScale::NormalScores
                && member.elbo_weight == 0.0
                && self.units.len() == 2
        };
        expect(n_own > 0 && members[0].elbo_weight > 0.0, "best member")?;
        expect(
            members[n_own..].iter().all(in_place),
            "scales of the members",
        )?;
        distinct(&self.classes).map_err(|twice| twice.to_string())?;
        let p = self.units[0].active.len();
        for member in members {
            let (state, experts) = (&member.state, &member.derived);
            let truncation = state.sticks.truncation();
            expect(truncation == self.config.truncation, "truncation")?;
            state.check(p, n_classes.saturating_sub(1))?;
            expect(experts.len() == state.experts.len(), "number of experts")?;
            check_experts(experts, p)?;
        }
        Ok(())
    }
}
