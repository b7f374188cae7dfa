//! Moves of groups of unknowns that leave every latent value as it is: location, scale and mixing of components.
//!
//! Equations: `docs/bsvd.md#scale`, `docs/bsvd.md#location`, `docs/bsvd.md#mixing`.

use npb_data::Features;
use npb_infer::parallel;
use npb_linalg::aligned::Aligned;
use npb_linalg::row_regression::{Layout, Real, draw_coefficients};
use npb_priors::dist::sample_ln_gig;

use super::{BsvdSampler, LOCATION, MIXING, Memory, SCALE, finite};
use crate::BsvdError;
use crate::links::deviations;
use crate::mixing::{Moments, exchange};
use crate::normals::normals;
use crate::products::squared_deviations;
use crate::regression::{Regressors, fill_design};
use crate::side::Side;
use crate::state::SideState;

impl BsvdSampler<'_> {
    /// What the intercepts of a side and the means on the other side can exchange without any latent value changing: the offset, the means of the
    /// factors (all factors of a component move along) and the means of the coefficients (likewise). The amounts are the coefficients of a regression
    /// of the intercepts, and are drawn together (`docs/bsvd.md#location`).
    pub(super) fn location(&mut self, side: Side) -> Result<(), BsvdError> {
        let mut rng = self.rng(LOCATION, u64::from(side == Side::Columns));
        let Some(regressors) = self.intercepts_on_other_side(side) else {
            return Ok(());
        };
        let (layout, rank) = (regressors.layout(), regressors.rank);
        self.weigh_exchange(side, &regressors);
        let (state, memory) = (&mut self.state, &mut self.memory);
        let amounts = &mut memory.lengths;
        amounts.resize(layout.width, 0.0);
        normals(amounts, &mut rng);
        let mut panel = Aligned::default();
        let mut mean = vec![0.0; layout.width];
        let sums = &mut memory.totals;
        let drawn = draw_coefficients(memory.arch, layout, sums, &mut panel, amounts, &mut mean);
        drawn.map_err(|bad| BsvdError::Numerical {
            sweep: self.sweep,
            block: "means against intercepts of side",
            item: usize::from(side == Side::Columns),
            pivot: bad.pivot,
            value: bad.value,
        })?;
        let (giving, taking) = match side {
            Side::Rows => (&mut state.rows, &mut state.columns),
            Side::Columns => (&mut state.columns, &mut state.rows),
        };
        let lines = memory.design.chunks_exact(layout.stride);
        for (line, intercept) in lines.zip(&mut giving.intercepts) {
            let terms = line.iter().zip(&*amounts);
            let given: f64 = terms.map(|(&x, t)| f64::from(x) * t).sum();
            *intercept = (f64::from(*intercept) - given) as f32;
        }
        state.offset += amounts[rank];
        let (factors, coefficients) = (&amounts[..rank], &amounts[rank + 1..]);
        shift(&mut taking.factors, &mut taking.factor_mean, factors);
        shift(
            &mut taking.coefficients,
            &mut taking.coefficient_mean,
            coefficients,
        );
        finite(self.sweep, "offset", state.offset)
    }

    /// The regression of the intercepts of a side on what can be exchanged with them: its design into memory; none without intercepts.
    fn intercepts_on_other_side(&mut self, side: Side) -> Option<Regressors> {
        let (giving, n) = match side {
            Side::Rows => (&self.state.rows, self.data.n_rows()),
            Side::Columns => (&self.state.columns, self.data.n_cols()),
        };
        if giving.intercepts.is_empty() {
            return None;
        }
        let features = side.features(&self.data.side);
        let features = features.filter(|_| self.config.common_coefficients);
        let regressors = Regressors {
            rank: match self.config.factor_means {
                true => self.state.scales.len(),
                false => 0,
            },
            intercept: true,
            features: features.map_or(0, Features::n_features),
        };
        fill_design(
            &regressors,
            &giving.factors,
            &self.state.scales,
            features,
            &[],
            n,
            &mut self.memory.design,
        );
        Some(regressors)
    }

    /// Precision of the amounts, and precision times mean, into `memory.totals`: the intercepts as responses, and the priors of what takes.
    fn weigh_exchange(&mut self, side: Side, regressors: &Regressors) {
        let (giving, taking) = match side {
            Side::Rows => (&self.state.rows, &self.state.columns),
            Side::Columns => (&self.state.columns, &self.state.rows),
        };
        let layout = regressors.layout();
        self.memory.sum_products_with(&giving.intercepts, layout);
        let means = taking.factor_mean[..regressors.rank].iter();
        let coefficients = taking.coefficient_mean[..regressors.features].iter();
        let prior = means
            .map(|&mean| (1.0, mean))
            .chain([(self.config.offset_precision, self.state.offset)])
            .chain(coefficients.map(|&mean| (taking.common_precision, mean)));
        let sums = &mut self.memory.totals;
        for (r, (precision, value)) in prior.enumerate() {
            for v in &mut sums[r * layout.stride..][..=r] {
                *v *= giving.intercept_precision;
            }
            sums[r * layout.stride + r] += precision;
            let linear = &mut sums[layout.width * layout.stride + r];
            *linear = *linear * giving.intercept_precision - precision * value;
        }
    }

    /// For each component and each side: the factor and its mean grow by a number and the scale shrinks by it. The likelihood does not see it; the
    /// number's square is generalised inverse Gaussian (`docs/bsvd.md#scale`).
    pub(super) fn scale(&mut self) {
        for (side, name) in [(Side::Rows, 0), (Side::Columns, 1)] {
            let mut rng = self.rng(SCALE, name);
            let state = &mut self.state;
            let rank = state.scales.len();
            let own = match side {
                Side::Rows => &mut state.rows,
                Side::Columns => &mut state.columns,
            };
            if rank == 0 {
                return;
            }
            let memory = &mut self.memory;
            let lengths = &mut memory.lengths;
            deviations(
                own,
                side.features(&self.data.side),
                rank,
                &mut memory.design,
            );
            squared_deviations(&memory.design, &vec![0.0; rank], lengths);
            let means = f64::from(u8::from(self.config.factor_means));
            let links = own.links.len() / rank;
            let n = (own.factors.len() / rank + links) as f64 + means;
            let scales = state.scales.iter_mut().zip(&mut own.factor_mean);
            for (k, (length, (s, mean))) in lengths.iter_mut().zip(scales).enumerate() {
                let own_links = &mut own.links[k * links..(k + 1) * links];
                let squares: f64 = own_links.iter().map(|b| b * b).sum();
                *length += *mean * *mean + own.link_precision * squares;
                let prior = state.scale_precision * *s * *s;
                let usable =
                    length.is_finite() && *length > 0.0 && prior.is_finite() && prior > 0.0;
                let growth = if usable {
                    (0.5 * sample_ln_gig(0.5 * (n - 1.0), *length, prior, &mut rng)).exp()
                } else {
                    1.0
                };
                *s = (*s / growth).max(f64::MIN_POSITIVE);
                *mean *= growth;
                own_links.iter_mut().for_each(|b| *b *= growth);
                *length = growth;
            }
            parallel::for_each(own.factors.chunks_mut(1024 * rank), |lines| {
                for line in lines.chunks_exact_mut(rank) {
                    for (x, &growth) in line.iter_mut().zip(&*lengths) {
                        *x = (f64::from(*x) * growth) as f32;
                    }
                }
            });
        }
    }

    /// Exchanges between components; see [`exchange`] (`docs/bsvd.md#mixing`).
    pub(super) fn mixing(&mut self) {
        if self.state.rank() < 2 {
            return;
        }
        let mut rng = self.rng(MIXING, 0);
        let (state, memory) = (&mut self.state, &mut self.memory);
        let known = &self.data.side;
        let mut moments = |side: Side, own: &SideState| {
            Moments::new(memory.arch, own, side.features(known), &mut memory.design)
        };
        let mut rows = moments(Side::Rows, &state.rows);
        let mut columns = moments(Side::Columns, &state.columns);
        exchange(&mut rows, &mut columns, &state.scales, &mut rng);
        rows.apply(&mut state.rows);
        columns.apply(&mut state.columns);
    }
}

impl Memory {
    /// Sums of products of the design's columns with the intercepts beside them, into `totals`.
    fn sum_products_with(&mut self, intercepts: &[f32], layout: Layout) {
        let lines = self.design.chunks_exact_mut(layout.stride);
        for (line, &intercept) in lines.zip(intercepts) {
            line[layout.width] = intercept;
        }
        // In double precision: a large precision of the intercepts would turn rounding into negative pivots.
        let block = layout.cells_in_block() * layout.stride;
        let part = |lines: &[f32]| {
            let mut sums = vec![0.0; layout.sums_len()];
            let mut double = Aligned::default();
            for lines in lines.chunks(block) {
                double.resize(lines.len());
                let to = double.iter_mut().zip(lines);
                to.for_each(|(to, &x)| *to = f64::from(x));
                f64::add_products(self.arch, &double, layout, false, &mut sums);
            }
            sums
        };
        let parts = parallel::map(self.design.chunks(PART * block), part);
        self.totals.clear();
        self.totals.resize(layout.sums_len(), 0.0);
        for part in parts {
            let totals = self.totals.iter_mut().zip(part);
            totals.for_each(|(total, sum)| *total += sum);
        }
    }
}

/// Blocks of cells that are summed by one thread.
const PART: usize = 8;

/// All lines of a table, and their means, move by the same amounts.
fn shift(table: &mut [f32], means: &mut [f64], amounts: &[f64]) {
    if amounts.is_empty() {
        return;
    }
    for line in table.chunks_exact_mut(amounts.len()) {
        for (x, t) in line.iter_mut().zip(amounts) {
            *x = (f64::from(*x) + t) as f32;
        }
    }
    means
        .iter_mut()
        .zip(amounts)
        .for_each(|(mean, t)| *mean += t);
}
