//! Training the members of an ensemble, each once and again without each fold: watched, stopped and checkpointed in one way.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::ControlFlow;

use npb_infer::parallel;
use npb_infer::storage::fingerprint;
use npb_infer::watch::{Checkpoint, CheckpointError};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, Watch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::questions::{Kept, Variant};
use crate::IqgmeError;
use crate::config::FeatureScale;

/// A kind of fit whose runs are trained until a bound, or an objective, has converged.
pub trait Model: Variant {
    /// Training rows on one scale.
    type Data: Sync;
    /// Where a run starts.
    type Init: Copy + Debug + Serialize + DeserializeOwned + Send + Sync;
    type State: Kept;
    /// One run.
    type Vb<'d>;
    /// The name in checkpoints.
    const FILE: &'static str;
    /// Iterations of a member without a fold, at most: its held-out prediction has converged before its bound has.
    const FOLD_ITERATIONS: u64;

    fn limits(config: &mut Self::Config) -> &mut VbLimits;

    fn begin<'d>(
        data: &'d Self::Data,
        config: Self::Config,
        init: Self::Init,
        restart: u64,
    ) -> Result<Self::Vb<'d>, IqgmeError>;

    fn resume<'d>(
        data: &'d Self::Data,
        config: Self::Config,
        state: Self::State,
        trace: Vec<VbReport>,
    ) -> Result<Self::Vb<'d>, IqgmeError>;

    fn run(
        vb: &mut Self::Vb<'_>,
        watch: &mut dyn FnMut(&VbReport, &Self::State) -> ControlFlow<()>,
    ) -> Result<VbOutcome, IqgmeError>;

    /// What follows the last iteration of a run that was not stopped, before its state is written.
    fn finalise(_vb: &mut Self::Vb<'_>) -> Result<(), IqgmeError> {
        Ok(())
    }

    fn state<'a>(vb: &'a Self::Vb<'_>) -> &'a Self::State;
}

fn limits<M: Model>(config: &M::Config) -> VbLimits {
    *M::limits(&mut config.clone())
}

/// The configuration of members without a fold.
pub(crate) fn limited<M: Model>(config: &M::Config) -> M::Config {
    let mut limited = config.clone();
    let limits = M::limits(&mut limited);
    limits.max_iterations = limits.max_iterations.min(M::FOLD_ITERATIONS);
    limited
}

/// A member to be trained: its scale, and where it starts.
pub(crate) type Planned<I> = (FeatureScale, I);

/// Members from every start on the features' own scale and then, if there is another scale, on normal scores.
pub(crate) fn planned<I: Copy>(inits: &[I], n_scales: usize) -> Vec<Planned<I>> {
    let on = |scale: &FeatureScale| {
        let scale = *scale;
        inits.iter().map(move |&init| (scale, init))
    };
    FeatureScale::ALL[..n_scales].iter().flat_map(on).collect()
}

/// What a member or a fold has reached: a trace and a state, or held-out probabilities.
#[derive(Clone, Serialize, Deserialize)]
struct Reached<S> {
    trace: Vec<VbReport>,
    /// None or one.
    state: Vec<S>,
    /// Member; label, class.
    held_out: Vec<Vec<f64>>,
}

/// How a fit is told of: whoever watches, its checkpoint, and the shares of the work.
pub(crate) struct Watched<'a, 'w, M: Model> {
    watch: &'a Watch<'w>,
    checkpoint: Checkpoint<Reached<M::State>>,
    n_members: usize,
    /// Shares of a member, and of a member without a fold.
    shares: [f64; 2],
}

impl<'a, 'w, M: Model> Watched<'a, 'w, M> {
    /// Of these members, each trained so many times, and again without each of so many folds. `data`: fingerprint of the rows and labels.
    pub(crate) fn new(
        watch: &'a Watch<'w>,
        config: &M::Config,
        data: u64,
        (plan, restarts): (&[Planned<M::Init>], usize),
        n_folds: usize,
    ) -> Result<Self, IqgmeError> {
        let n_members = plan.len() * restarts;
        let key = fingerprint(&(config, data, plan))?;
        let version = env!("CARGO_PKG_VERSION");
        let checkpoint = watch.checkpoint(M::FILE, version, key, n_members + n_folds)?;
        let most = limits::<M>(config).max_iterations;
        let each = [most, most.min(M::FOLD_ITERATIONS)].map(|n| n as f64);
        let all = each[0] * n_members as f64 + each[1] * (n_members * n_folds) as f64;
        Ok(Self {
            watch,
            checkpoint,
            n_members,
            shares: each.map(|iterations| iterations / all),
        })
    }

    /// Whether cross-validation is to go on.
    pub(crate) fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    /// Trains all members, each so many times, in parallel. `data`: by scale. `finish` gets a member's plan, and its run when that has ended. Of a fit that was
    /// stopped: those that had begun, the first one always.
    pub(crate) fn train<R: Send>(
        &self,
        data: &[M::Data],
        (plan, restarts): (&[Planned<M::Init>], usize),
        config: &M::Config,
        finish: impl Fn(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R, IqgmeError> + Sync,
    ) -> Result<Vec<R>, IqgmeError> {
        let one = |k: usize| {
            // A fit that is stopped begins no further member.
            if k > 0 && self.is_stopped() {
                return Ok(None);
            }
            let (planned, restart) = (plan[k / restarts], (k % restarts) as u64);
            let data = &data[planned.0.index()];
            let (outcome, vb) = self.member(k, data, config, (planned.1, restart))?;
            finish(planned, outcome, vb).map(Some)
        };
        let members = parallel::try_map(0..plan.len() * restarts, one)?;
        Ok(members.into_iter().flatten().collect())
    }

    /// The same without a fold: no checkpoint but the fold's. None when the fit was stopped.
    pub(crate) fn train_without<R: Send>(
        &self,
        fold: usize,
        data: &[M::Data],
        (plan, restarts): (&[Planned<M::Init>], usize),
        config: &M::Config,
        finish: impl Fn(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R, IqgmeError> + Sync,
    ) -> Result<Option<Vec<R>>, IqgmeError> {
        let one = |k: usize| {
            let (planned, restart) = (plan[k / restarts], (k % restarts) as u64);
            if self.is_stopped() {
                return Ok(None);
            }
            let mut vb = M::begin(&data[planned.0.index()], config.clone(), planned.1, restart)?;
            let name = format!("fold {fold}, member {k}");
            let outcome = self.run(&name, self.shares[1], config, &mut vb, |_, _| Ok(()))?;
            match outcome.stop {
                Stop::Cancelled => Ok(None),
                _ => finish(planned, outcome, vb).map(Some),
            }
        };
        let members = parallel::try_map(0..plan.len() * restarts, one)?;
        Ok(members.into_iter().collect())
    }

    /// Makes the iterations that are left of a run; `after` sees each.
    fn run(
        &self,
        name: &str,
        share: f64,
        config: &M::Config,
        vb: &mut M::Vb<'_>,
        mut after: impl FnMut(&VbReport, &M::State) -> Result<(), CheckpointError>,
    ) -> Result<VbOutcome, IqgmeError> {
        let (limits, names) = (limits::<M>(config), ["elbo".to_owned()]);
        let mut part = self.watch.part(name, share);
        let mut failed = None;
        let outcome = M::run(vb, &mut |report, state| {
            if let Err(error) = after(report, state) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            let done = report.iteration as f64 / limits.max_iterations as f64;
            part.report(report.iteration, done, &names, &[report.elbo])
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if outcome.stop != Stop::Cancelled {
            let last = outcome.trace.last();
            let (step, elbo) = last.map_or((0, f64::NEG_INFINITY), |r| (r.iteration, r.elbo));
            // A stop asked for now is seen by what comes next.
            let _ = part.report(step, 1.0, &names, &[elbo]);
        }
        Ok(outcome)
    }

    /// Trains member `k`, from what the checkpoint holds or from its start.
    fn member<'d>(
        &self,
        k: usize,
        data: &'d M::Data,
        config: &M::Config,
        (init, restart): (M::Init, u64),
    ) -> Result<(VbOutcome, M::Vb<'d>), IqgmeError> {
        let limits = limits::<M>(config);
        let reached = self.checkpoint.reached(k);
        let mut trace = Vec::new();
        let mut vb = match reached.and_then(|mut r| Some((r.state.pop()?, r.trace))) {
            None => M::begin(data, config.clone(), init, restart)?,
            Some((state, so_far)) => {
                let mut numbered = so_far.iter().zip(1..);
                if !numbered.all(|(report, number)| report.iteration == number) {
                    let what = "checkpoint: iterations out of order".to_owned();
                    return Err(IqgmeError::Saved { what });
                }
                trace.clone_from(&so_far);
                M::resume(data, config.clone(), state, so_far)?
            }
        };
        let has_ended = limits.reached(&trace).is_some();
        let trace = RefCell::new(trace);
        let reached = |state: &M::State| Reached {
            trace: trace.borrow().clone(),
            state: vec![state.clone()],
            held_out: Vec::new(),
        };
        let name = format!("member {k}");
        let outcome = self.run(&name, self.shares[0], config, &mut vb, |report, state| {
            let mut trace = trace.borrow_mut();
            trace.push(*report);
            // A checkpoint with a whole trace is of a run that has ended.
            if limits.reached(&trace).is_some() {
                return Ok(());
            }
            drop(trace);
            self.checkpoint
                .offer(k, report.iteration, || reached(state))
        })?;
        if !has_ended && limits.reached(&outcome.trace).is_some() {
            M::finalise(&mut vb)?;
        }
        if !has_ended {
            self.checkpoint.write(k, || reached(M::state(&vb)))?;
        }
        Ok((outcome, vb))
    }

    /// Held-out probabilities of a fold: what the checkpoint holds, or what `make` finds, which then goes there; of each of `n_members` so many numbers. None when
    /// the fit was stopped.
    pub(super) fn fold(
        &self,
        fold: usize,
        [n_members, n_numbers]: [usize; 2],
        make: impl FnOnce() -> Result<Option<Vec<Vec<f64>>>, IqgmeError>,
    ) -> Result<Option<Vec<Vec<f64>>>, IqgmeError> {
        let part = self.n_members + fold;
        if let Some(Reached { held_out, .. }) = self.checkpoint.reached(part) {
            let possible =
                |of: &Vec<f64>| of.len() == n_numbers && of.iter().all(|p| p.is_finite());
            if held_out.len() != n_members || !held_out.iter().all(possible) {
                let what = format!("checkpoint: held-out predictions of fold {fold}");
                return Err(IqgmeError::Saved { what });
            }
            let share = self.shares[1] * n_members as f64;
            let mut part = self.watch.part(format!("fold {fold}"), share);
            let _ = part.report(M::FOLD_ITERATIONS, 1.0, &[], &[]);
            return Ok(Some(held_out));
        }
        let found = make()?;
        if let Some(held_out) = &found {
            self.checkpoint.write(part, || Reached {
                trace: Vec::new(),
                state: Vec::new(),
                held_out: held_out.clone(),
            })?;
        }
        Ok(found)
    }
}
