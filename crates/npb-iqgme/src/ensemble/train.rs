//! Training the members of an ensemble, with checkpoints or without: each member and each fold has a file of its own.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::{self, StorageError};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;
use crate::config::FeatureScale;

/// A variational model that members are trained of.
pub(crate) trait Model {
    type Config: Clone + PartialEq + Serialize + DeserializeOwned + Sync;
    /// Training rows on one scale.
    type Data: Sync;
    /// Where a run starts.
    type Init: Copy + PartialEq + Serialize + DeserializeOwned + Sync;
    type State: Serialize + DeserializeOwned;
    /// One run.
    type Vb<'d>;
    /// The name in the files of members.
    const FILE: &'static str;

    fn limits(config: &Self::Config) -> VbLimits;

    fn begin<'d>(
        data: &'d Self::Data,
        config: &Self::Config,
        init: Self::Init,
        restart: u64,
    ) -> Result<Self::Vb<'d>, IqgmeError>;

    fn resume<'d>(
        data: &'d Self::Data,
        config: &Self::Config,
        state: Self::State,
        trace: Vec<VbReport>,
    ) -> Result<Self::Vb<'d>, IqgmeError>;

    fn run(
        vb: &mut Self::Vb<'_>,
        watch: &mut dyn FnMut(&VbReport, &Self::State) -> ControlFlow<()>,
    ) -> Result<VbOutcome, IqgmeError>;

    /// What follows the last iteration of a run that was not stopped, before its state is written.
    fn finalise(_: &mut Self::Vb<'_>) -> Result<(), IqgmeError> {
        Ok(())
    }

    fn state<'a>(vb: &'a Self::Vb<'_>) -> &'a Self::State;
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

/// Trains all members, each so many times, in parallel. `data`: by scale. `finish` gets a member's plan, and its run when that has ended.
pub(crate) fn train<M: Model, R: Send>(
    data: &[M::Data],
    (plan, restarts): (&[Planned<M::Init>], usize),
    config: &M::Config,
    checkpoints: Option<&Checkpoints<'_>>,
    finish: impl Fn(Planned<M::Init>, VbOutcome, M::Vb<'_>) -> Result<R, IqgmeError> + Sync,
) -> Result<Vec<R>, IqgmeError> {
    let one = |k: usize| {
        let (planned, restart) = (plan[k / restarts], (k % restarts) as u64);
        let data = &data[planned.0.index()];
        let (outcome, vb) = match checkpoints {
            None => {
                let mut vb = M::begin(data, config, planned.1, restart)?;
                let outcome = M::run(&mut vb, &mut |_, _| ControlFlow::Continue(()))?;
                (outcome, vb)
            }
            Some(checkpoints) => {
                let key = (planned, restart, checkpoints.data);
                checkpoints.member::<M>(k, data, config, key)?
            }
        };
        finish(planned, outcome, vb)
    };
    (0..plan.len() * restarts)
        .into_par_iter()
        .map(one)
        .collect()
}

/// Where members and folds are written down, and who watches.
pub(crate) struct Checkpoints<'a> {
    pub(crate) path: &'a Path,
    pub(crate) every: Every,
    /// Fingerprint of the data.
    pub(crate) data: u64,
    pub(crate) watch: &'a (dyn Fn(usize, &VbReport) -> ControlFlow<()> + Sync),
}

/// What the file of a member holds, owned or borrowed.
#[derive(Serialize, Deserialize)]
struct SavedMember<C, K, T, S> {
    config: C,
    key: K,
    trace: T,
    state: S,
}

/// What the file of a fold holds, owned or borrowed.
#[derive(Serialize, Deserialize)]
struct SavedFold<C, F> {
    config: C,
    data: u64,
    fold: usize,
    held_out: F,
}

/// Plan, restart, fingerprint of the data.
type Key<I> = (Planned<I>, u64, u64);

impl Checkpoints<'_> {
    fn file(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }

    /// Trains member `k`, from what its file holds or from its start. A file with a whole trace is of a run that has ended: no other checkpoint is written then.
    fn member<'d, M: Model>(
        &self,
        k: usize,
        data: &'d M::Data,
        config: &M::Config,
        key: Key<M::Init>,
    ) -> Result<(VbOutcome, M::Vb<'d>), IqgmeError> {
        type Saved<M> = SavedMember<
            <M as Model>::Config,
            Key<<M as Model>::Init>,
            Vec<VbReport>,
            <M as Model>::State,
        >;
        let path = self.file(&format!(".{k}"));
        let mut trace = Vec::new();
        let mut vb = match checkpoint::resume::<Saved<M>>(&path, M::FILE)? {
            None => M::begin(data, config, key.0.1, key.1)?,
            Some(saved) => {
                let mut numbered = saved.trace.iter().zip(1..);
                let in_order = numbered.all(|(report, number)| report.iteration == number);
                if saved.key != key || saved.config != *config || !in_order {
                    return Err(of_something_else(&path));
                }
                trace.clone_from(&saved.trace);
                M::resume(data, config, saved.state, saved.trace)?
            }
        };
        let limits = M::limits(config);
        let mut writer = Checkpointer::new(&path, M::FILE, env!("CARGO_PKG_VERSION"), self.every);
        let mut failed: Option<StorageError> = None;
        let outcome = M::run(&mut vb, &mut |report, state| {
            trace.push(*report);
            if limits.reached(&trace).is_none() {
                let offered = writer.offer(report.iteration, || SavedMember {
                    config,
                    key: &key,
                    trace: &trace[..],
                    state,
                });
                if let Err(error) = offered {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            (self.watch)(k, report)
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if limits.reached(&trace).is_some() {
            M::finalise(&mut vb)?;
        }
        writer.write(&SavedMember {
            config,
            key: &key,
            trace: &trace[..],
            state: M::state(&vb),
        })?;
        Ok((outcome, vb))
    }

    /// What the file of a fold holds, or what `make` finds, which then goes there: of each of `n_members` so many numbers.
    pub(super) fn fold<C: PartialEq + Serialize + DeserializeOwned>(
        &self,
        fold: usize,
        (model, config): (&'static str, &C),
        [n_members, n_numbers]: [usize; 2],
        make: impl FnOnce() -> Result<Vec<Vec<f64>>, IqgmeError>,
    ) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let path = self.file(&format!(".fold{fold}"));
        if let Some(saved) = checkpoint::resume::<SavedFold<C, Vec<Vec<f64>>>>(&path, model)? {
            let possible =
                |of: &Vec<f64>| of.len() == n_numbers && of.iter().all(|p| p.is_finite());
            return if saved.config == *config
                && (saved.data, saved.fold) == (self.data, fold)
                && saved.held_out.len() == n_members
                && saved.held_out.iter().all(possible)
            {
                Ok(saved.held_out)
            } else {
                Err(of_something_else(&path))
            };
        }
        let held_out = make()?;
        let content = SavedFold {
            config,
            data: self.data,
            fold,
            held_out: &held_out,
        };
        storage::save(&path, model, env!("CARGO_PKG_VERSION"), &content)?;
        Ok(held_out)
    }
}

/// Whether the watcher ended one of these: who stops a fit does not wait for cross-validation.
pub(crate) fn cancelled<'a>(mut stops: impl Iterator<Item = &'a Stop>) -> bool {
    stops.any(|stop| *stop == Stop::Cancelled)
}

fn of_something_else(path: &Path) -> IqgmeError {
    let path = path.display();
    IqgmeError::Saved {
        what: format!(
            "checkpoint {path} is of other data, another configuration or another run: delete it to start again"
        ),
    }
}
