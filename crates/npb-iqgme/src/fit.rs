//! The result of a fit, and what can be asked of it.

mod further;
mod kept;
mod posterior;
mod training;
mod widths;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use npb_data::{Labels, Table};
use npb_infer::ensemble::Calibration;
use npb_infer::{Interval, VbOutcome, VbRun, Watch, stream};
use npb_priors::dist::pick;
use npb_priors::dp::dominant_count_distribution;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ALL_CLASSES, ComponentSummary, check_draws, check_inside, class_intervals, most_probable_of,
    second, with_first_class,
};
use crate::config::FeatureScale;
use crate::data::{IqgmeData, Task, fingerprint, two_classes};
use crate::ensemble::member::{self, DRAWS, Member, Part, check_members};
use crate::ensemble::members::{Elsewhere, Ensemble, Plan, one_without, rows_left_out, trained};
use crate::ensemble::questions::{
    Completing, Describes, Draws, Fit, OneTable, Stored, Variant, by_draws, taking_turns,
};
use crate::ensemble::scales;
use crate::ensemble::stacking::Without;
use crate::ensemble::train::{Model, Planned};
use crate::laplace;
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::shards::local::LocalShards;
use crate::shards::outline::Outline;
use crate::shards::sample::{OfSample, SampleAsItIs};
use crate::shards::{SAMPLE_ROWS, SHARD_ROWS, Shards, decode, encode};
use crate::start::of_sample;
use crate::state::{check_experts, expect};
use crate::units::Units;
use crate::vb::IqgmeVb;
use crate::{Expert, Init, IqgmeConfig, IqgmeState, Result};
use kept::TrainingRows;

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 2;
const IMPUTE: u64 = 3;
const COUNT: u64 = 4;
const PICK: u64 = 5;

/// Fits the model: prepares the data and trains every member that `config.starts` (or `unlabelled_starts`), `restarts` and `normal_scores` ask for; with labels each of them
/// `config.folds` times more, at most 15 iterations each, to find its stacking weight and its calibration. Of more than 16,384 rows, some of them with labels, members end on a sample of so many first, and
/// those on normal scores to which its held-out labels give no weight are not trained on all rows (`docs/iqgme.md#many-rows`).
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (see [`fit_unlabelled`] for none at all).
/// Classes without a labelled row are left out: see [`IqgmeFit::classes`].
/// Errors: see [`IqgmeData::new`]. Members are trained in parallel on the caller's rayon pool; the result does not depend on the number of threads.
pub fn fit(table: &Table, labels: &Labels, config: &IqgmeConfig) -> Result<IqgmeFit> {
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
) -> Result<IqgmeFit> {
    let sampled = table.n_rows() > SAMPLE_ROWS && !TrainingRows::may_be(table);
    let is_labelled = || labels.codes().iter().any(Option::is_some);
    if table.n_rows() > SHARD_ROWS || sampled && is_labelled() {
        config.validate()?;
        let shards = LocalShards::new(table, labels, SHARD_ROWS)?;
        return fit_shards(Arc::new(shards), config, watch);
    }
    let tables = [Task::only(table, labels)];
    let data = Single::data(&tables, config, None)?;
    let kept = |data: &IqgmeData, n_components: usize| {
        TrainingRows::of_small(table, labels, data, n_components)
    };
    made(&tables, data, (kept, None), (config, config.folds), watch)
}

/// As [`fit_watched`], of rows in shards of [`SHARD_ROWS`], wherever they lie: the bits of a fit of the whole table in one process, if that has more rows than one shard.
///
/// Errors: as [`fit`](crate::fit()); other columns or classes in one shard than in another; what happens on the way to a shard.
pub fn fit_shards(
    shards: Arc<dyn Shards>,
    config: &IqgmeConfig,
    watch: &Watch<'_>,
) -> Result<IqgmeFit> {
    config.validate()?;
    let Outline {
        data,
        table,
        labels,
        folds,
    } = Outline::new(&shards, config)?;
    let of_sample = IqgmeConfig {
        folds,
        ..config.clone()
    };
    let scored = data.len() > 1;
    let n_starts = plan(config, data[0].n_labelled, None).starts.len();
    let n_members = n_starts * config.restarts * data.len();
    let tables = [Task::only(&table, &labels)];
    let question = encode(&OfSample::WithoutFold(Box::new(SampleAsItIs {
        table: table.clone(),
        labels: labels.clone(),
        config: of_sample,
        scored,
    })))?;
    let elsewhere = |fold: usize| {
        let own = (0..n_members).map(|member| encode(&(fold, member)));
        let answers = shards.ask_anyone(&question, &own.collect::<Result<Vec<_>>>()?)?;
        let decoded = |all: Vec<Vec<u8>>| all.iter().map(|one| decode(one)).collect();
        answers.map(decoded).transpose()
    };
    let nothing_kept = |_: &IqgmeData, _| None;
    made(
        &tables,
        data,
        (nothing_kept, Some(&elsewhere)),
        (config, folds),
        watch,
    )
}

/// Trains members on the data (by scale), and holds out rows of the table.
fn made(
    tables: &[Task<'_>],
    data: Vec<IqgmeData>,
    (kept, elsewhere): (
        impl FnOnce(&IqgmeData, usize) -> Option<TrainingRows>,
        Option<&Elsewhere<'_>>,
    ),
    (config, folds): (&IqgmeConfig, usize),
    watch: &Watch<'_>,
) -> Result<IqgmeFit> {
    let settings = Plan {
        folds,
        ..plan(config, data[0].n_labelled, elsewhere)
    };
    let members = trained::<Single>(tables, &data, config, &settings, watch)?;
    let rows = kept(&data[0], members[0].state.components.len());
    let stored = Stored {
        config: config.clone(),
        classes: data[0].classes.clone(),
        trained: Trained {
            training: fingerprint(&data[0])?,
            members,
        },
        units: data.into_iter().map(|data| data.units).collect(),
    };
    Fit::new(stored, rows)
}

fn plan<'a>(
    config: &'a IqgmeConfig,
    n_labelled: usize,
    elsewhere: Option<&'a Elsewhere<'a>>,
) -> Plan<'a, Init> {
    Plan {
        starts: config.starts_for(n_labelled),
        restarts: config.restarts,
        folds: config.folds,
        seed: config.seed,
        elbo_temperature: config.elbo_temperature,
        limits: config.limits,
        elsewhere,
    }
}

/// The answer to a question of [`Shards::ask_anyone`]: where a run starts, or what a member that was trained on the sample without a fold says of it.
pub fn answer_of_sample(question: &[u8], own: &[u8]) -> Result<Vec<u8>> {
    let sample = match decode(question)? {
        OfSample::WithoutFold(sample) => sample,
        OfSample::Start(data, config) => {
            let (start, restart) = decode(own)?;
            return encode(&of_sample(&data, &config, (start, restart))?);
        }
    };
    let config = &sample.config;
    config.validate()?;
    let tables = [Task::only(&sample.table, &sample.labels)];
    let n_labelled = sample.labels.codes().iter().flatten().count();
    let settings = plan(config, n_labelled, None);
    let found = one_without::<Single>(&tables, config, &settings, sample.scored, decode(own)?)?;
    encode(&found)
}

/// Fits a Dirichlet process mixture of Gaussians to rows without labels: clusters, densities, imputation.
pub fn fit_unlabelled(table: &Table, config: &IqgmeConfig) -> Result<IqgmeFit> {
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    fit(table, &Labels::from_strings(&none), config)
}

/// The model of one table.
#[derive(Clone, Debug)]
pub struct Single;

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
pub type IqgmeFit = Fit<Single>;

/// What is stored of a fit, beside settings, units by scale and classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trained {
    /// Fingerprint of the rows and labels of training.
    training: u64,
    /// The best member first; those on normal scores last, the best of them first.
    members: Vec<Member>,
}

/// What a fit keeps to answer questions.
#[derive(Clone, Debug)]
pub struct Derived {
    /// One for each run that has weight.
    predictors: Vec<Predictor>,
    /// Draws of all parameters, by scale, once they were asked for.
    posterior: [OnceLock<Option<Vec<Predictor>>>; 2],
    /// By how much laws of missing cells are widened, once it was asked for.
    stretch: OnceLock<f64>,
}

impl OneTable for Single {}

impl Variant for Single {
    const MODEL: &'static str = "npb-iqgme/fit/2";
    const KEEPS_ROWS: bool = true;
    type Config = IqgmeConfig;
    type Units = Vec<Units>;
    type Trained = Trained;
    /// Where chains on them take seconds.
    type Rows = Option<TrainingRows>;
    type Derived = Derived;

    fn check(stored: &Stored<Self>) -> Result<()> {
        stored.config.validate()?;
        let members = &stored.trained.members;
        check_members(members, stored.classes.len())?;
        let own = |member: &&Member| member.scale == FeatureScale::Standardised;
        let n_own = members.iter().take_while(own).count();
        let in_place = |member: &Member| {
            member.scale == FeatureScale::NormalScores
                && member.elbo_weight == 0.0
                && stored.units.len() == 2
        };
        expect(n_own > 0 && members[0].elbo_weight > 0.0, "best member")?;
        let in_place = members[n_own..].iter().all(in_place);
        expect(in_place, "scales of the members")?;
        for member in members {
            let (state, experts) = (&member.state, &member.derived);
            let truncation = state.sticks.truncation();
            expect(truncation == stored.config.truncation, "truncation")?;
            state.check(stored.n_features(), stored.n_utilities())?;
            expect(experts.len() == state.experts.len(), "number of experts")?;
            check_experts(experts, stored.n_features())?;
        }
        Ok(())
    }

    fn check_rows(stored: &Stored<Self>, rows: &Self::Rows) -> Result<()> {
        let print = stored.trained.training;
        rows.as_ref().map_or(Ok(()), |rows| {
            rows.check(&stored.units[0], &stored.classes, print)
        })
    }

    fn derive(stored: &Stored<Self>) -> Result<Derived> {
        let members = &stored.trained.members;
        let has_part = |run: &Member| run.elbo_weight > 0.0 || run.stacking_weight > 0.0;
        let last = members.iter().rposition(has_part);
        let with_part = members[..last.map_or(0, |last| last + 1)].iter();
        Ok(Derived {
            predictors: with_part.map(predictor).collect::<Result<_, _>>()?,
            posterior: Default::default(),
            stretch: OnceLock::new(),
        })
    }

    fn probabilities(fit: &IqgmeFit, _: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        let rows = scales::rows(&fit.stored.units, table)?;
        let parts = fit.parts(&rows, Experts::Integrated, None)?;
        Ok(member::class_probabilities(&parts))
    }
}

impl Model for Single {
    type Data = IqgmeData;
    type Init = Init;
    type State = IqgmeState;
    type Vb<'d> = IqgmeVb<'d>;
    const FILE: &'static str = "npb-iqgme/run/3";
    const FOLD_ITERATIONS: u64 = 15;

    fn begin<'d>(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        (start, restart): (Init, u64),
        reached: Option<VbRun<IqgmeState>>,
    ) -> Result<IqgmeVb<'d>> {
        match reached {
            None => IqgmeVb::new(data, config, start, restart),
            Some(VbRun { state, trace }) => IqgmeVb::resume(data, config, state, &trace),
        }
    }
}

impl Ensemble for Single {
    type More = Vec<Expert>;
    /// By table, of which there is one, and scale.
    type LeftOut = Vec<Vec<Rows>>;
    const WITHOUT: Without = Without::Bounds;

    fn members(trained: &Trained) -> &[Member] {
        &trained.members
    }

    fn data(
        tables: &[Task<'_>],
        config: &IqgmeConfig,
        scored: Option<bool>,
    ) -> Result<Vec<IqgmeData>> {
        let Task { table, labels, .. } = tables[0];
        let own = IqgmeData::new(table, labels, config)?;
        let wanted = || scales::scores_wanted(tables, &own.units.active, config);
        let scored = scored.unwrap_or_else(wanted);
        let scored = scored.then(|| own.on_scores(table, labels)).transpose()?;
        Ok([own].into_iter().chain(scored).collect())
    }

    fn about(data: &IqgmeData) -> Result<(u64, usize, &[String])> {
        Ok((fingerprint(data)?, data.n_observed(), &data.classes))
    }

    fn ended(planned: Planned<Init>, outcome: VbOutcome, mut vb: IqgmeVb<'_>) -> Result<Member> {
        let experts = laplace::experts(&mut vb)?;
        Ok(Member::new(planned, outcome, vb.into_state(), experts))
    }

    fn left_out(data: &[IqgmeData], tables: &[Table]) -> Result<Vec<Vec<Rows>>> {
        rows_left_out(data.iter().map(|data| &data.units), tables)
    }

    fn predict_left_out(
        planned: Planned<Init>,
        outcome: VbOutcome,
        vb: IqgmeVb<'_>,
        rows: &Vec<Vec<Rows>>,
    ) -> Result<Vec<f64>> {
        let member: Member = Member::new(planned, outcome, vb.into_state(), Vec::new());
        let rows = &rows[0][member.scale.index()];
        let others = predictor(&member)?.probabilities(rows, Experts::Integrated)?;
        Ok(with_first_class(others).concat())
    }
}

fn predictor(member: &Member) -> Result<Predictor> {
    let state = &member.state;
    Predictor::new(state, &state.experts).map_err(member.failed())
}

impl IqgmeFit {
    /// The same fit, whose draws (of missing cells, and behind intervals) are made with other random numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.stored.config.seed = seed;
        self.derived.posterior = Default::default();
        self
    }

    /// What the runs say of rows (by scale).
    fn parts<'a>(
        &'a self,
        rows: &'a [Rows],
        experts: Experts,
        calibration: Option<&'a Calibration>,
    ) -> Result<Vec<Part<'a>>> {
        let part = |(run, predictor): (&'a Member, &'a Predictor)| {
            let rows = &rows[run.scale.index()];
            let calibration = calibration.unwrap_or(&run.calibration);
            let others = predictor.probabilities(rows, experts)?;
            let how = (run.stacking_weight, calibration);
            Ok(Part::new(how, others, move |rng| {
                let drawn = predictor.draw(&run.state, &run.derived, rng)?;
                drawn.probabilities(rows, Experts::AtMeans)
            }))
        };
        let runs = self.members().iter().zip(&self.derived.predictors);
        // Those without weight may be on a scale on which there are no rows.
        let weighed = runs.filter(|(run, _)| run.stacking_weight > 0.0);
        weighed.map(part).collect()
    }

    /// As [`predict_proba`](Self::predict_proba), by the posterior means in place of the parameters (W 3.4.3, incomplete data), runs by their stacking weights but not calibrated.
    pub fn predict_plug_in(&self, table: &Table) -> Result<Vec<f64>> {
        two_classes(self.classes(), "predict_plug_in", ALL_CLASSES)?;
        let rows = scales::rows(&self.stored.units, table)?;
        let as_it_is = Calibration::default();
        let parts = self.parts(&rows, Experts::AtMeans, Some(&as_it_is))?;
        Ok(second(member::class_probabilities(&parts)))
    }

    /// Probabilities of the components given the observed features, one vector for each row, in the order of [`components`](Self::components); one
    /// entry more holds what is left for components without training rows, where the truncation has room for these.
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        self.derived.predictors[0].responsibilities(&self.units().rows(table)?, Gate::Marginal)
    }

    /// The most probable component of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>> {
        Ok(most_probable_of(self.responsibilities(table)?))
    }

    /// Number of components that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        // Sizes are differences: rounding must not lose a component of one row.
        self.sizes().filter(|size| *size > 1.0 - 1e-6).count()
    }

    /// Expected numbers of training rows of the components of the best run.
    fn sizes(&self) -> impl Iterator<Item = f64> {
        let base = self.config().mean_strength;
        let components = self.state().components.iter();
        components.map(move |component| component.strength - base)
    }

    /// All components that the best run keeps, larger ones first, in the order of [`responsibilities`](Self::responsibilities) and numbered as
    /// [`clusters`](Self::clusters) are. Those with a size below one hold no row in effect; [`n_clusters`](Self::n_clusters) counts the others.
    pub fn components(&self) -> Vec<ComponentSummary> {
        let state = self.state();
        let (weights, weight_sds) = (state.sticks.expected_weights(), state.sticks.weight_sd());
        let base = self.config().mean_strength;
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
        let all = 0..state.components.len();
        let kept = all.filter(|&h| state.components[h].strength > base);
        kept.map(summary).collect()
    }

    /// Posterior of the number of components whose weight exceeds `threshold`, by `draws` draws of the weights: entry `k` is the probability of `k`.
    pub fn dominant_components(&self, threshold: f64, draws: usize) -> Result<Vec<f64>> {
        check_inside("threshold", threshold)?;
        check_draws(draws)?;
        let sticks = &self.state().sticks;
        let mut rng = stream(self.config().seed, [0, 0, COUNT, 0]);
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

impl Draws for Single {
    fn intervals(
        fit: &IqgmeFit,
        _: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        let rows = scales::rows(&fit.stored.units, table)?;
        let parts = fit.parts(&rows, Experts::Integrated, None)?;
        match fit.drawn_classes(&rows)? {
            Some(drawn) => {
                let means = member::class_probabilities(&parts);
                Ok(class_intervals(means, &drawn, level))
            }
            None => member::intervals(&parts, level, DRAWS, (fit.config().seed, 0, INTERVAL)),
        }
    }
}

impl Describes for Single {
    const GATE: Gate = Gate::Marginal;

    fn mixtures(fit: &IqgmeFit) -> Vec<(f64, Cow<'_, Predictor>)> {
        let runs = fit.members().iter().zip(&fit.derived.predictors);
        let each = runs.map(|(run, predictor)| (run.elbo_weight, Cow::Borrowed(predictor)));
        each.filter(|(weight, _)| *weight > 0.0).collect()
    }

    fn completing(fit: &IqgmeFit) -> Completing<'_> {
        match fit.posterior_of_few() {
            Some(draws) => by_draws(draws),
            None => (Self::GATE, 0.0, Self::mixtures(fit)),
        }
    }

    fn stretch(fit: &IqgmeFit) -> f64 {
        fit.stretch_of_few()
    }

    /// The parameters of a draw: of the chains, far apart in them, or from `q` of a run, by weight.
    fn drawn(fit: &IqgmeFit, draw: usize, draws: usize) -> Result<(Gate, Cow<'_, Predictor>)> {
        if let Some(all) = fit.posterior(FeatureScale::Standardised) {
            let one = &all[taking_turns(draw, draws, all.len())];
            return Ok((Gate::AtMeans, Cow::Borrowed(one)));
        }
        let mut rng = stream(fit.config().seed, [0, draw as u64, PICK, 0]);
        let weights = fit.members().iter().map(|run| run.elbo_weight);
        // Those that have weight come first.
        let run = pick(weights, rng.random()).unwrap_or(0);
        let state = &fit.members()[run].state;
        let one = fit.derived.predictors[run].draw(state, &[], &mut rng)?;
        Ok((Gate::AtMeans, Cow::Owned(one)))
    }

    fn draw_key(config: &IqgmeConfig) -> (u64, u64) {
        (config.seed, IMPUTE)
    }
}
