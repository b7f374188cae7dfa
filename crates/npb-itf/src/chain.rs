//! Chains, as the runner drives them.

use npb_infer::watch::Checkpoint;
use npb_infer::{Chain, Chains, Sampler, Sweep, Watch, sample};

use crate::draw::Draw;
use crate::gibbs::SCALARS;
use crate::{ItfConfig, ItfData, ItfError, ItfSampler, ItfState};

/// A chain: its last draw, all that it kept, and its trace.
pub type ItfChain = Chain<ItfState, Draw>;

/// Runs the chains of a configuration, each from where `checkpoint` left it; what a chain is called, and the share of the work that they are.
pub(crate) fn run_chains(
    data: &ItfData,
    config: &ItfConfig,
    (watch, name, share): (&Watch<'_>, &'static str, f64),
    checkpoint: &Checkpoint<ItfChain>,
) -> Result<Vec<ItfChain>, ItfError> {
    let plan = Chains {
        name,
        chains: config.chains,
        sweeps: config.sweeps,
        stored_draws: config.sweeps.keep,
    };
    sample::<ItfSampler<'_>>(&plan, (watch, share), checkpoint, |chain, reached| {
        let config = config.clone();
        let Some(reached) = reached else {
            return ItfSampler::new(data, config, chain);
        };
        let [n_rows, n_columns] = [data.n_rows(), data.n_columns()];
        let check = |draw| check_draw(draw, &config, n_rows, n_columns);
        reached.draws.iter().try_for_each(check)?;
        let made = reached.trace.n_sweeps() as u64;
        ItfSampler::resume(data, config, chain, reached.state.clone(), made)
    })
}

impl Sampler for ItfSampler<'_> {
    type State = ItfState;
    type Draw = Draw;
    type Error = ItfError;

    fn names() -> Vec<String> {
        SCALARS.map(str::to_owned).to_vec()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), ItfError> {
        self.sweep();
        self.summarise(scalars);
        if sweep.kept {
            scalars[SCALARS.len() - 1] = mean_information(&self.draw());
        }
        Ok(())
    }

    fn state(&self) -> ItfState {
        self.state().clone()
    }

    fn draw(&self) -> Draw {
        self.draw()
    }
}

/// Mean mutual information over pairs of columns.
fn mean_information(draw: &Draw) -> f64 {
    let p = draw.columns.len();
    let pairs = (0..p).flat_map(|a| (0..a).map(move |b| (a, b)));
    let total: f64 = pairs.map(|(a, b)| draw.mutual_information(a, b)).sum();
    total / ((p * p.saturating_sub(1)) as f64 / 2.0).max(1.0)
}

/// Whether a draw is one of such data.
pub(crate) fn check_draw(
    draw: &Draw,
    config: &ItfConfig,
    n_rows: usize,
    n_columns: usize,
) -> Result<(), ItfError> {
    if draw.columns.len() != n_columns {
        return Err(ItfError::saved("number of columns of a draw"));
    }
    draw.check(n_rows, config.structure.has_lower())
        .map_err(ItfError::saved)
}
