//! Which components are on: switches, with candidates drawn from the prior. Equations: `docs/bsvd.md#switches`.

use npb_data::Features;
use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::row_regression::Layout;
use rand::RngExt;
use rand_distr::StandardNormal;

use super::{BsvdSampler, SWITCHES, Scan};
use crate::BsvdError;
use crate::links;
use crate::normals::normals;
use crate::products::{ProductPass, parts, total};
use crate::regression::DOUBLE_BEYOND;
use crate::state::SideState;
use crate::switches::Switchboard;

/// Scans of the switches for one pass over the cells: they cost next to nothing.
const SCANS: usize = 3;

/// Rows whose inactive factors are drawn by one generator.
const CANDIDATE_ROWS: usize = 512;
impl BsvdSampler<'_> {
    /// Draws the switches and scales of all candidates, given products over the cells; each `scan` once through all candidates in random order
    /// (`docs/bsvd.md#switches`).
    pub(super) fn switches(&mut self, scan: Scan) -> Result<(), BsvdError> {
        self.memory.residuals = None;
        let rank = self.state.rank();
        let layout = Layout::new(self.state.candidates);
        self.lay_out_candidates(layout);
        let mut scales = self.state.scales.clone();
        scales.resize(layout.width, 0.0);
        let memory = &mut self.memory;
        let pass = ProductPass {
            arch: memory.arch,
            cells: &self.data.rows,
            values: if self.config.likelihood.is_probit() {
                &memory.latents.rows
            } else {
                &self.data.rows.values
            },
            roots: (!self.data.roots.0.is_empty()).then_some(&self.data.roots.0[..]),
            layout,
            candidates: &memory.candidates,
            scales: &scales,
            rows: &self.state.rows,
            columns: &self.state.columns,
            row_features: self.data.side.rows.as_ref(),
            column_features: self.data.side.columns.as_ref(),
            offset: self.state.offset,
            in_double: self.state.noise_precision > DOUBLE_BEYOND,
        };
        match &self.data.shards {
            Some(shards) => shards.products(&pass, &mut memory.parts)?,
            None => pass.run(parts(&self.data.rows.blocks), &mut memory.parts),
        }
        total(layout, &memory.parts, &mut memory.totals);
        let mut on: Vec<bool> = (0..layout.width).map(|k| k < rank).collect();
        let (products, gradient) = memory.totals.split_at_mut(layout.width * layout.stride);
        let mut board = Switchboard {
            products,
            stride: layout.stride,
            gradient: &mut gradient[..layout.width],
            on: &mut on,
            scales: &mut scales,
            noise_precision: self.state.noise_precision,
            scale_precision: self.state.scale_precision,
            ln_prior_odds: self.config.ln_prior_odds(self.state.candidates),
        };
        let mut rng = stream(
            self.config.seed,
            [self.config.chain, self.sweep, SWITCHES, 0],
        );
        let mut order: Vec<usize> = (0..layout.width).collect();
        for _ in 0..SCANS {
            shuffle(&mut order, &mut rng);
            scan(&mut board, &order, &mut rng)?;
        }
        self.keep_active(layout, &on, &scales);
        Ok(())
    }

    /// Factors of all candidates side by side; those of inactive ones are drawn from their prior.
    pub(super) fn lay_out_candidates(&mut self, layout: Layout) {
        let rank = self.state.rank();
        let Layout { width, stride } = layout;
        let key = (self.config.seed, [self.config.chain, self.sweep, SWITCHES]);
        let candidates = &mut self.memory.candidates;
        let sides = [
            (&self.state.rows, self.data.n_rows(), &mut candidates.rows),
            (
                &self.state.columns,
                self.data.n_cols(),
                &mut candidates.columns,
            ),
        ];
        for (n_side, (own, n, to)) in sides.into_iter().enumerate() {
            to.clear();
            to.resize(n * stride, 0.0);
            let (seed, [chain, sweep, block]) = key;
            let item = n_side as u64 + 1;
            let mut rng = stream(seed, [chain, sweep, block, item]);
            let means = &mut candidates.means[n_side];
            means.clone_from(&own.factor_mean);
            means.resize(width, 0.0);
            if self.config.factor_means {
                normals(&mut means[rank..], &mut rng);
            }
            let means = &means[rank..];
            let features = [&self.data.side.rows, &self.data.side.columns][n_side].as_ref();
            let features = features.filter(|_| self.config.feature_links);
            let q = features.map_or(0, Features::n_features);
            let links = &mut candidates.links[n_side];
            links.clone_from(&own.links);
            links.resize(width * q, 0.0);
            let new_links = &mut links[rank * q..];
            normals(new_links, &mut rng);
            let link_sd = own.link_precision.sqrt().recip();
            new_links.iter_mut().for_each(|b| *b *= link_sd);
            let new_links = &*new_links;
            let blocks = to.chunks_mut(CANDIDATE_ROWS * stride).enumerate();
            parallel::for_each(blocks, |(n_block, lines)| {
                let mut rng = stream(seed, [chain, sweep, block, item + 2 * (n_block as u64 + 1)]);
                let (mut known, mut expected) = (vec![0.0f32; q], means.to_vec());
                for (n, line) in lines.chunks_exact_mut(stride).enumerate() {
                    let i = n_block * CANDIDATE_ROWS + n;
                    line[..rank].copy_from_slice(SideState::part(&own.factors, i, rank));
                    if let Some(features) = features {
                        features.write(i, &mut known);
                        expected.copy_from_slice(means);
                        links::add_expected(new_links, &known, &mut expected);
                    }
                    let sd = own.factor_weight(i).sqrt().recip();
                    for (x, &mean) in line[rank..width].iter_mut().zip(&expected) {
                        let z: f64 = rng.sample(StandardNormal);
                        *x = (mean + sd * z) as f32;
                    }
                }
            });
        }
    }

    /// The state after the switches were drawn.
    pub(super) fn keep_active(&mut self, layout: Layout, on: &[bool], scales: &[f64]) {
        let active: Vec<usize> = (0..layout.width).filter(|&k| on[k]).collect();
        self.state.scales.clear();
        self.state.scales.extend(active.iter().map(|&k| scales[k]));
        let candidates = &self.memory.candidates;
        let state = &mut self.state;
        let sides = [
            (&mut state.rows, &candidates.rows),
            (&mut state.columns, &candidates.columns),
        ];
        for (n_side, (own, from)) in sides.into_iter().enumerate() {
            let (means, links) = (&candidates.means[n_side], &candidates.links[n_side]);
            own.factor_mean.clear();
            own.factor_mean.extend(active.iter().map(|&k| means[k]));
            let q = links.len() / layout.width;
            own.links.clear();
            let kept = active.iter().flat_map(|&k| &links[k * q..(k + 1) * q]);
            own.links.extend(kept);
            let spare = &mut self.memory.spare;
            spare.clear();
            for line in from.chunks_exact(layout.stride) {
                spare.extend(active.iter().map(|&k| line[k]));
            }
            std::mem::swap(&mut own.factors, spare);
        }
    }
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], rng: &mut Xoshiro256PlusPlus) {
    for n in (1..order.len()).rev() {
        order.swap(n, rng.random_range(0..=n));
    }
}
