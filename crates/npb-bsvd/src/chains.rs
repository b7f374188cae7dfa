//! Chains that follow cells, as the runner drives them: the loop over sweeps is `npb_infer::sample`, which asks for one by `Following::step`.

use npb_infer::watch::Checkpoint;
use npb_infer::{Chain, Chains, Sampler, Sweep, Watch, sample};

use crate::data::BsvdData;
use crate::gibbs::BsvdSampler;
use crate::state::BsvdState;
use crate::view::View;
use crate::{BsvdConfig, BsvdError, CellMoments, Cells};

/// A chain: its last state and the moments of the cells that it follows, and its stored draws.
pub(crate) type BsvdChain = Chain<(BsvdState, CellMoments), BsvdState>;

/// Runs the chains of a configuration, each from where `checkpoint` left it, or else from its start, by its number and configuration; what a chain is called, and
/// the share of the work that they are.
pub(crate) fn run<'d>(
    data: &'d BsvdData,
    cells: &'d Cells,
    config: &BsvdConfig,
    (watch, name, share): (&Watch<'_>, &'static str, f64),
    checkpoint: &Checkpoint<BsvdChain>,
    start: impl Fn(u64, BsvdConfig) -> Result<BsvdSampler<'d>, BsvdError> + Sync,
) -> Result<Vec<BsvdChain>, BsvdError> {
    cells.check(data.n_rows(), data.n_cols())?;
    let plan = Chains {
        name,
        chains: config.chains,
        sweeps: config.sweeps,
        stored_draws: config.stored_draws,
    };
    sample::<Following<'_>>(&plan, (watch, share), checkpoint, |number, reached| {
        let config = BsvdConfig {
            chain: config.chain.wrapping_add(number),
            ..config.clone()
        };
        let (sampler, moments) = match reached {
            None => (start(number, config)?, CellMoments::new(cells)),
            Some(Chain {
                state: (state, moments),
                draws,
                trace,
                ..
            }) => {
                moments.check(cells)?;
                let shape = data.shape(&config);
                draws.iter().try_for_each(|draw| draw.check(&shape))?;
                let made = trace.n_sweeps() as u64;
                let sampler = BsvdSampler::resume(data, config, state.clone(), made)?;
                (sampler, moments.clone())
            }
        };
        Ok(Following {
            data,
            cells,
            sampler,
            moments,
        })
    })
}

/// A chain that follows cells.
struct Following<'d> {
    data: &'d BsvdData,
    cells: &'d Cells,
    sampler: BsvdSampler<'d>,
    moments: CellMoments,
}

impl Sampler for Following<'_> {
    type State = (BsvdState, CellMoments);
    type Draw = BsvdState;
    type Error = BsvdError;

    fn names() -> Vec<String> {
        BsvdSampler::scalar_names()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), BsvdError> {
        self.sampler.follow(sweep.kept && !self.cells.is_empty());
        self.sampler.sweep()?;
        self.sampler.scalars(scalars);
        if sweep.kept {
            let view = View {
                state: self.sampler.state(),
                side: &self.data.side,
                likelihood: self.sampler.config().likelihood,
                centre: self.data.centre,
                scale: self.data.scale,
            };
            let given = self.sampler.given_columns();
            self.moments.add(self.cells, &view, given);
        }
        Ok(())
    }

    fn state(&self) -> (BsvdState, CellMoments) {
        (self.sampler.state().clone(), self.moments.clone())
    }

    fn draw(&self) -> BsvdState {
        self.sampler.state().clone()
    }
}
