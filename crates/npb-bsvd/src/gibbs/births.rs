//! Births and deaths of components with one side integrated out. Equations: `docs/bsvd.md#births`.

use npb_data::Features;
use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::row_regression::Layout;
use rand::RngExt;

use super::{
    BIRTHS, BsvdSampler, COLUMNS_AFTER, Play, ROWS_AFTER, clear, fill_design, prior_of, regressors,
    roots,
};
use crate::links;
use crate::reduced::Board;
use crate::regression::{Pass, Target, Task, reduced_len};
use crate::side::Side;
use crate::{BsvdConfig, BsvdError, BsvdMove};

/// Turns of birth or death.
const TURNS: usize = 3;

/// Components at most whose scales are drawn.
const DRAWN: usize = 8;

impl BsvdSampler<'_> {
    /// The side that is integrated out in this sweep.
    pub(super) fn births_side(&self) -> Side {
        let every = self.config.every(BsvdMove::Births);
        match (self.sweep / every).is_multiple_of(2) {
            true => Side::Rows,
            false => Side::Columns,
        }
    }

    /// Births, deaths and scales with the factors, intercepts and coefficients of `side` integrated out; then these are drawn (`docs/bsvd.md#births`).
    pub(super) fn births(&mut self, side: Side, play: Play) -> Result<(), BsvdError> {
        let mut rng = self.rng(BIRTHS, u64::from(side == Side::Columns));
        let rank = self.state.rank();
        let turns = TURNS.min(self.state.candidates);
        let layout = Layout::new(rank + turns);
        self.lay_out_candidates(layout);
        // The smallest of them, which may die, some others whose scales are drawn, and the candidates; all else is integrated out.
        let drawn = some(rank, &mut rng);
        let mut kept: Vec<usize> = (0..rank).collect();
        kept.sort_by(|&a, &b| self.state.scales[a].total_cmp(&self.state.scales[b]));
        kept.truncate(turns);
        kept.extend(
            drawn
                .iter()
                .filter(|k| !kept.contains(k))
                .collect::<Vec<_>>(),
        );
        let n_old = kept.len();
        kept.extend(rank..rank + turns);
        self.reduce(side, &kept, layout)?;
        let drawn: Vec<usize> = drawn
            .iter()
            .filter_map(|k| kept.iter().position(|l| l == k))
            .collect();
        let means = self.expected(side, &kept, layout.width);
        let (own, n) = match side {
            Side::Rows => (&self.state.rows, self.data.n_rows()),
            Side::Columns => (&self.state.columns, self.data.n_cols()),
        };
        let weights: Vec<f64> = (0..n).map(|i| own.factor_weight(i)).collect();
        let mut scales: Vec<f64> = kept
            .iter()
            .map(|&k| self.state.scales.get(k).copied().unwrap_or(0.0))
            .collect();
        let elsewhere = (0..rank).filter(|k| !kept.contains(k));
        let mut board = Board {
            reduced: &self.memory.reduced,
            means: &means,
            weights: &weights,
            scales: &mut scales,
            candidates: n_old..kept.len(),
            drawn: &drawn,
            least_elsewhere: elsewhere
                .map(|k| self.state.scales[k])
                .fold(f64::INFINITY, f64::min),
            rank,
            most: self.state.candidates,
            scale_precision: self.state.scale_precision,
            ln_prior_odds: self.config.ln_prior_odds(self.state.candidates),
        };
        play(&mut board, &mut rng);
        let mut all = self.state.scales.clone();
        all.resize(layout.width, 0.0);
        for (&k, &s) in kept.iter().zip(&scales) {
            all[k] = s;
        }
        let on: Vec<bool> = all.iter().map(|s| *s > 0.0).collect();
        self.keep_active(layout, &on, &all);
        let code = match side {
            Side::Rows => ROWS_AFTER,
            Side::Columns => COLUMNS_AFTER,
        };
        self.side(side, Task::DrawAndSum, code)?;
        self.memory.row_means_known = false;
        Ok(())
    }

    /// Writes down, into `memory.reduced`, what is left of each row (or column) when all but these components are integrated out.
    fn reduce(&mut self, side: Side, kept: &[usize], layout: Layout) -> Result<(), BsvdError> {
        let Self {
            data,
            config,
            state,
            memory,
            sweep,
            ..
        } = self;
        let n_side = usize::from(side == Side::Columns);
        let candidates = &memory.candidates;
        let (cells, own, other, theirs, n_other) = match side {
            Side::Rows => (
                &data.rows,
                &state.rows,
                &state.columns,
                &candidates.columns,
                data.n_cols(),
            ),
            Side::Columns => (
                &data.columns,
                &state.columns,
                &state.rows,
                &candidates.rows,
                data.n_rows(),
            ),
        };
        let other_features = side.opposite().features(&data.side);
        let regressors = regressors(layout.width, own, other_features);
        let mut scales = state.scales.clone();
        scales.resize(layout.width, 1.0);
        kept.iter().for_each(|&k| scales[k] = 1.0);
        let lines = theirs.chunks_exact(layout.stride);
        let factors: Vec<f32> = lines
            .flat_map(|line| &line[..layout.width])
            .copied()
            .collect();
        fill_design(
            &regressors,
            &factors,
            &scales,
            other_features,
            &other.noise_weights,
            n_other,
            &mut memory.design,
        );
        prior_of(
            own,
            &candidates.means[n_side],
            &mut memory.prior_precision,
            &mut memory.prior_linear,
        );
        let values = match side {
            _ if !config.likelihood.is_probit() => &cells.values,
            Side::Rows => &memory.latents.rows,
            Side::Columns => &memory.latents.columns,
        };
        clear(&mut memory.block_sums, cells.blocks.len());
        memory.reduced.clear();
        memory
            .reduced
            .resize(cells.len() * reduced_len(kept.len()), 0.0);
        let pass = Pass {
            arch: memory.arch,
            cells,
            values,
            roots: roots(data, side),
            regressors,
            design: &memory.design,
            other,
            features: side.features(&data.side),
            offset: state.offset,
            noise_precision: state.noise_precision,
            prior_precision: &memory.prior_precision,
            prior_linear: &memory.prior_linear,
            links: &candidates.links[n_side],
            factor_weights: &own.factor_weights,
            task: Task::Reduce,
            coordinates: false,
            kept,
            noise_shape: own.noise_shape,
            key: (config.seed, [config.chain, *sweep, BIRTHS]),
            block_name: side.name(),
            pool: &memory.pool,
        };
        let mut weights = own.noise_weights.clone();
        pass.run(Target {
            factors: &mut [],
            intercepts: &mut [],
            coefficients: &mut [],
            weights: &mut weights,
            means: &mut [],
            latents: &mut [],
            reduced: &mut memory.reduced,
            sums: &mut memory.block_sums,
        })
    }

    /// Prior means of the factors of some of the components that are laid out, for each row (or column).
    fn expected(&self, side: Side, kept: &[usize], width: usize) -> Vec<f64> {
        let n_side = usize::from(side == Side::Columns);
        let candidates = &self.memory.candidates;
        let (means, links) = (&candidates.means[n_side], &candidates.links[n_side]);
        let features = side.features(&self.data.side);
        let features = features.filter(|_| self.config.feature_links);
        let n = match side {
            Side::Rows => self.data.n_rows(),
            Side::Columns => self.data.n_cols(),
        };
        let mut known = vec![0.0; features.map_or(0, Features::n_features)];
        let mut of_all = vec![0.0; width];
        let mut out = Vec::with_capacity(n * kept.len());
        for i in 0..n {
            of_all.copy_from_slice(means);
            if let Some(features) = features {
                features.write(i, &mut known);
                links::add_expected(links, &known, &mut of_all);
            }
            out.extend(kept.iter().map(|&k| of_all[k]));
        }
        out
    }
}

/// Some of the components, chosen without looking at them.
fn some(rank: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut all: Vec<usize> = (0..rank).collect();
    let n = DRAWN.min(rank);
    for at in 0..n {
        let other = rng.random_range(at..rank);
        all.swap(at, other);
    }
    all.truncate(n);
    all
}

impl BsvdConfig {
    /// Sweeps from one time that a move is made to the next; 1 when it is not in the schedule.
    fn every(&self, step: BsvdMove) -> u64 {
        let found = self.schedule.iter().find(|s| s.step == step);
        found.map_or(1, |s| s.every)
    }
}
