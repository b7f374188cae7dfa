//! Training the members of an ensemble, each once and again without each fold: watched, stopped and checkpointed in one way.

use std::fmt::Debug;

use npb_infer::storage::fingerprint;
use npb_infer::watch::Checkpoint;
use npb_infer::{Stop, Variational, VbLimits, VbOutcome, VbRun, Watch, maximise, parallel};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::questions::{Kept, Variant};
use crate::config::FeatureScale;
use crate::{IqgmeError, Result};

/// A member that weighs less in held-out prediction of a sample has no part in class probabilities to speak of.
const LEAST_WEIGHT: f64 = 0.01;

/// A kind of fit whose runs are trained until a bound, or an objective, has converged.
pub trait Model: Variant {
    /// Training rows on one scale.
    type Data: Sync;
    /// Where a run starts.
    type Init: Copy + Debug + Serialize + DeserializeOwned + Send + Sync;
    type State: Kept;
    /// One run.
    type Vb<'d>: Variational<State = Self::State, Error = IqgmeError>;
    /// The name in checkpoints.
    const FILE: &'static str;
    /// Iterations of a member without a fold, at most: its held-out prediction has converged before its bound has.
    const FOLD_ITERATIONS: u64;

    /// A run from its start, whose random numbers the second number selects, or from where it was.
    fn begin<'d>(
        data: &'d Self::Data,
        config: Self::Config,
        start: (Self::Init, u64),
        reached: Option<VbRun<Self::State>>,
    ) -> Result<Self::Vb<'d>>;
}

/// A member to be trained: its scale, and where it starts.
pub(crate) type Planned<I> = (FeatureScale, I);

/// Members from every start, so many times each, on the features' own scale and then, if there is another scale, on normal scores.
pub(crate) fn planned<I: Copy>(
    starts: &[I],
    restarts: usize,
    n_scales: usize,
) -> Vec<(Planned<I>, u64)> {
    let scales = FeatureScale::ALL[..n_scales].iter();
    let each = scales.flat_map(|&scale| starts.iter().map(move |&start| (scale, start)));
    each.flat_map(|planned| (0..restarts as u64).map(move |restart| (planned, restart)))
        .collect()
}

/// What a checkpoint holds of a part of the fit: where a member is, or what members say of a fold, by member, label and class.
#[derive(Clone, Serialize, Deserialize)]
enum Place<S> {
    Member(S),
    Fold(Vec<Vec<f64>>),
}

/// A member as the runner keeps it.
struct Placed<V>(V);

impl<V: Variational<Error = IqgmeError>> Variational for Placed<V> {
    type State = Place<V::State>;
    type Error = IqgmeError;

    fn step(&mut self) -> Result<f64> {
        self.0.step()
    }

    fn state(&self) -> Place<V::State> {
        Place::Member(self.0.state())
    }

    fn settle(&mut self) -> Result<()> {
        self.0.settle()
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }
}

/// Members first, then folds.
type Places<M> = Checkpoint<VbRun<Place<<M as Model>::State>>>;

/// How a fit is told of: whoever watches, its checkpoint, and the shares of the work.
pub(crate) struct Watched<'a, 'w, M: Model> {
    watch: &'a Watch<'w>,
    config: &'a M::Config,
    limits: VbLimits,
    /// The members, and which random numbers they start with.
    plan: Vec<(Planned<M::Init>, u64)>,
    checkpoint: Places<M>,
    /// Shares of a member, and of a member without a fold.
    shares: [f64; 2],
}

impl<'a, 'w, M: Model> Watched<'a, 'w, M> {
    /// Of these members, and again without each of so many folds. `data`: fingerprint of the rows and labels.
    pub(crate) fn new(
        watch: &'a Watch<'w>,
        config: &'a M::Config,
        data: u64,
        plan: Vec<(Planned<M::Init>, u64)>,
        n_folds: usize,
        limits: VbLimits,
    ) -> Result<Self> {
        let key = fingerprint(&(config, data, &plan))?;
        let version = env!("CARGO_PKG_VERSION");
        let checkpoint = watch.checkpoint(M::FILE, version, key, plan.len() + n_folds)?;
        let most = limits.max_iterations;
        let each = [most, most.min(M::FOLD_ITERATIONS)].map(|n| n as f64);
        let all = (each[0] + each[1] * n_folds as f64) * plan.len() as f64;
        Ok(Self {
            watch,
            config,
            limits,
            plan,
            checkpoint,
            shares: each.map(|iterations| iterations / all),
        })
    }

    /// Whether cross-validation is to go on.
    pub(crate) fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    pub(super) fn n_members(&self) -> usize {
        self.plan.len()
    }

    /// Members on the features' own scale: those before all others.
    pub(super) fn n_own(&self) -> usize {
        let own = |(planned, _): &&(Planned<M::Init>, u64)| planned.0 == FeatureScale::Standardised;
        self.plan.iter().take_while(own).count()
    }

    /// By member, the iterations over all rows for which weights by held-out labels of a sample ask: members without weight have a part in densities alone, to which
    /// few iterations after those on the sample add what there is, or none on normal scores.
    pub(super) fn iterations(&self, weights: &[f64]) -> Vec<u64> {
        let most = |(k, weight): (usize, &f64)| match *weight {
            LEAST_WEIGHT.. => self.limits.max_iterations,
            _ if k < self.n_own() => self.fold_limits().max_iterations,
            _ => 0,
        };
        weights.iter().enumerate().map(most).collect()
    }

    /// Those of a member without a fold.
    fn fold_limits(&self) -> VbLimits {
        VbLimits {
            max_iterations: self.limits.max_iterations.min(M::FOLD_ITERATIONS),
            ..self.limits
        }
    }

    /// Trains members in parallel, each with so many iterations at most; without any, none is trained; where nothing is said, to the limits. `data`: by scale. `finish` gets a member's plan, and its run when that has ended. Of a fit that was stopped: those that
    /// had begun, the first one always.
    pub(crate) fn train<R: Send>(
        &self,
        data: &[M::Data],
        iterations: &[u64],
        finish: impl Fn(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let one = |k: usize| {
            if k > 0 && self.is_stopped() {
                return Ok(None);
            }
            let (name, place) = (format!("member {k}"), (&self.checkpoint, k));
            let mut limits = self.limits;
            if let Some(&most) = iterations.get(k) {
                limits.max_iterations = most;
            }
            if limits.max_iterations == 0 {
                let mut part = self.watch.part(name, self.shares[0]);
                let _ = part.report(0, 1.0, &[], &[]);
                return Ok(None);
            }
            let (vb, outcome) = self.run((&name, self.shares[0]), k, data, limits, place)?;
            let begun = k == 0 || !outcome.trace.is_empty();
            let member = begun.then(|| finish(self.plan[k].0, outcome, vb));
            member.transpose()
        };
        let members = parallel::try_map(0..self.n_members(), one)?;
        Ok(members.into_iter().flatten().collect())
    }

    /// The same without a fold.
    pub(crate) fn train_without<R: Send>(
        &self,
        fold: usize,
        data: &[M::Data],
        finish: impl Fn(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R> + Sync,
    ) -> Result<Option<Vec<R>>> {
        let one = |k: usize| self.member_without((fold, k), data, &finish);
        let members = parallel::try_map(0..self.n_members(), one)?;
        Ok(members.into_iter().collect())
    }

    /// One member without a fold: no checkpoint but the fold's. None when the fit was stopped.
    pub(crate) fn member_without<R>(
        &self,
        (fold, k): (usize, usize),
        data: &[M::Data],
        finish: impl FnOnce(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        if self.is_stopped() {
            return Ok(None);
        }
        let (name, memory) = (
            format!("fold {fold}, member {k}"),
            Checkpoint::in_memory([None]),
        );
        let (vb, outcome) = self.run(
            (&name, self.shares[1]),
            k,
            data,
            self.fold_limits(),
            (&memory, 0),
        )?;
        let ended = outcome.stop != Stop::Cancelled;
        let said = ended.then(|| finish(self.plan[k].0, outcome, vb));
        said.transpose()
    }

    /// A run of member `k`, from what its place holds or from its start.
    fn run<'d>(
        &self,
        (name, share): (&str, f64),
        k: usize,
        data: &'d [M::Data],
        limits: VbLimits,
        place: (&Places<M>, usize),
    ) -> Result<(M::Vb<'d>, VbOutcome)> {
        let ((scale, init), restart) = self.plan[k];
        let begin = |reached: Option<VbRun<Place<M::State>>>| {
            let reached = reached.and_then(|run| match run.state {
                Place::Member(state) => Some(VbRun {
                    state,
                    trace: run.trace,
                }),
                Place::Fold(_) => None,
            });
            let vb = M::begin(
                &data[scale.index()],
                self.config.clone(),
                (init, restart),
                reached,
            );
            vb.map(Placed)
        };
        let mut part = self.watch.part(name, share);
        let (run, outcome) = maximise(&limits, "elbo", &mut part, place, begin)?;
        Ok((run.0, outcome))
    }

    /// Held-out probabilities of a fold: what the checkpoint holds, or what `make` finds, which then goes there; so many numbers of each member. None when the fit
    /// was stopped.
    pub(super) fn fold(
        &self,
        fold: usize,
        n_numbers: usize,
        make: impl FnOnce() -> Result<Option<Vec<Vec<f64>>>>,
    ) -> Result<Option<Vec<Vec<f64>>>> {
        let place = self.n_members() + fold;
        self.checkpoint.claim(place)?;
        if let Some(Place::Fold(held_out)) = self.checkpoint.reached(place).map(|run| run.state) {
            let possible =
                |of: &Vec<f64>| of.len() == n_numbers && of.iter().all(|p| p.is_finite());
            if held_out.len() != self.n_members() || !held_out.iter().all(possible) {
                let what = format!("checkpoint: held-out predictions of fold {fold}");
                return Err(IqgmeError::saved(what));
            }
            let share = self.shares[1] * self.n_members() as f64;
            let mut part = self.watch.part(format!("fold {fold}"), share);
            let _ = part.report(M::FOLD_ITERATIONS, 1.0, &[], &[]);
            return Ok(Some(held_out));
        }
        let found = make()?;
        if let Some(held_out) = &found {
            self.checkpoint.write(place, || VbRun {
                state: Place::Fold(held_out.clone()),
                trace: Vec::new(),
            })?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Single;
    use crate::{Init, IqgmeConfig};

    #[test]
    fn members_that_labels_give_no_weight_go_over_all_rows_a_few_times_or_never() {
        let (config, watch) = (IqgmeConfig::default(), Watch::none());
        let plan = planned(&[Init::KMeans(1), Init::KMeans(2)], 1, 2);
        let watched = Watched::<Single>::new(&watch, &config, 0, plan, 0, config.limits).unwrap();
        let iterations = watched.iterations(&[0.005, 0.97, 0.0, 0.025]);
        assert_eq!(iterations, [15, 300, 0, 300]);
    }
}
