//! Rows with missing features: the components of a row in vector registers. Equations: `docs/iqgme-updates.md#rows-of-which-little-is-seen`.

use npb_linalg::mixture::{Block, Group, Lanes, LnTotal, Pattern, Weighted};
use std::f64::consts::PI;

use npb_linalg::lanes::LaneConditional;

use super::sides::{INACTIVE, IncompleteSide, RowFactors, RowFamily};
use super::worker::Worker;
use crate::{IqgmeError, Result};

impl Worker<'_> {
    pub(super) fn lanes(&self) -> Lanes {
        self.scratch.incomplete.deviations.lanes()
    }

    pub(super) fn incomplete_block(
        &mut self,
        block: &Block,
        side: &IncompleteSide,
        factors: &mut RowFactors<'_>,
    ) -> Result<()> {
        let deviations = &mut self.scratch.incomplete.deviations;
        let (means, linear) = (&self.parameters.means, side.linear.as_ref());
        deviations.load(self.rows, block, means, &side.quadratics, linear);
        self.start(block.rows.len(), factors.responsibilities);
        let joint = block.labelled
            && self.parameters.n_utilities == 1
            && self.update.family == RowFamily::Structured;
        let soft: &[f64] = if joint { &[] } else { factors.soft };
        self.ln_weights(side, soft);
        if joint {
            let lanes = self.lanes().len;
            self.scratch.joint.start(block.rows.len(), lanes);
        }
        // Taken out of the scratch memory while it is at work.
        let mut lanes = std::mem::take(&mut self.scratch.incomplete.lanes);
        for group in &self.rows.groups[block.groups.clone()] {
            let pattern = &self.rows.patterns[group.pattern];
            let given = side.quadratics.condition(pattern, &mut lanes);
            let mut given = given.map_err(IqgmeError::at(self.iteration, "missing features"))?;
            let size = self.lanes().len;
            self.scratch.incomplete.group_weight.clear();
            self.scratch.incomplete.group_weight.resize(size, 0.0);
            match &side.linear {
                Some(linear) if joint => self.joint_group(block, group, linear, &mut given),
                _ => self.incomplete_group(block, group, side, &mut given, factors.soft),
            }
            self.add_missing(block, pattern, &mut given);
        }
        self.scratch.incomplete.lanes = lanes;
        self.store_responsibilities(block.rows.len(), factors.responsibilities);
        if block.labelled && !joint {
            if self.update.utility_means {
                self.incomplete_locations(block, factors);
            }
            self.update_expected_utilities(block, factors);
        }
        self.accumulate(block, (!joint).then_some(factors.soft));
        Ok(())
    }

    fn incomplete_locations(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        let (lanes, n_utilities) = (self.lanes(), self.parameters.n_utilities);
        let scratch = &mut self.scratch.incomplete;
        scratch.averages.resize(block.rows.len(), 0.0);
        for k in 0..n_utilities {
            let slopes = scratch.deviations.slopes();
            let averages = &mut scratch.averages;
            lanes.averages(&scratch.rho, slopes, [k, n_utilities], averages);
            let of_utility = factors.locations.iter_mut().skip(k);
            for (location, average) in of_utility.step_by(n_utilities).zip(averages) {
                *location = *average;
            }
        }
    }

    /// Sizes the tables of a block of `n` rows and fills in responsibilities that stay.
    fn start(&mut self, n: usize, stored: &[f64]) {
        let lanes = self.lanes().len;
        let scratch = &mut self.scratch.incomplete;
        scratch.ln_rho.resize(n * lanes, 0.0);
        scratch.ln_total.resize(n, LnTotal::default());
        scratch.rho.resize(n * lanes, 0.0);
        if !self.update.responsibilities {
            scratch.rho.fill(0.0);
            for (h, stored) in stored.chunks_exact(n).enumerate() {
                for (row, weight) in scratch.rho.chunks_exact_mut(lanes).zip(stored) {
                    row[h] = *weight;
                }
            }
        }
    }

    /// `ln rho` up to a constant of the row, without what missing features add to it.
    fn ln_weights(&mut self, side: &IncompleteSide, soft: &[f64]) {
        let Lanes { arch, len: lanes } = self.lanes();
        let scratch = &mut self.scratch.incomplete;
        let quadratics = scratch.deviations.quadratics().chunks_exact(lanes);
        let rows = scratch.ln_rho.chunks_exact_mut(lanes).zip(quadratics);
        let constant = &side.constant[..lanes];
        let slopes = scratch.deviations.slopes();
        let n_utilities = match soft.len() {
            0 => 0,
            _ => slopes.len() / scratch.rho.len().max(1),
        };
        arch.dispatch(
            #[inline(always)]
            || {
                for (i, (ln_rho, quadratic)) in rows.enumerate() {
                    for h in 0..lanes {
                        ln_rho[h] = constant[h] - 0.5 * quadratic[h];
                    }
                    for k in i * n_utilities..(i + 1) * n_utilities {
                        let (soft, slope) = (soft[k], &slopes[k * lanes..][..lanes]);
                        for h in 0..lanes {
                            ln_rho[h] += soft * slope[h];
                        }
                    }
                }
            },
        );
    }

    /// Responsibilities of row `i` of the block, and their entropy.
    pub(super) fn weigh(&mut self, i: usize) {
        let lanes = self.lanes();
        let scratch = &mut self.scratch.incomplete;
        let table = i * lanes.len..(i + 1) * lanes.len;
        let rho = &mut scratch.rho[table.clone()];
        let entropy = if self.update.responsibilities {
            let ln_rho = &scratch.ln_rho[table];
            let ln_total = &mut scratch.ln_total[i..i + 1];
            lanes.softmax(ln_rho, INACTIVE, rho, ln_total);
            lanes.entropy(ln_rho, rho, ln_total)
        } else {
            let active = rho.iter().filter(|&&weight| weight > 0.0);
            active.map(|weight| -weight * weight.ln()).sum()
        };
        self.add_entropy(entropy);
    }

    /// Rows that share a missing pattern.
    fn incomplete_group(
        &mut self,
        block: &Block,
        group: &Group,
        side: &IncompleteSide,
        given: &mut LaneConditional<'_>,
        soft: &[f64],
    ) {
        let pattern = &self.rows.patterns[group.pattern];
        let (lanes, n_utilities) = (self.lanes().len, self.parameters.n_utilities);
        let linear = side.linear.as_ref();
        for position in group.rows.clone() {
            let i = position - block.rows.start;
            let terms = linear.map(|linear| (linear, &soft[i * n_utilities..][..n_utilities]));
            let scratch = &mut self.scratch.incomplete;
            scratch.deviations.condition(i, pattern, given, terms);
            let ln_rho = &mut scratch.ln_rho[i * lanes..(i + 1) * lanes];
            let explained = scratch.deviations.explained();
            let each = ln_rho.iter_mut().zip(explained.iter().zip(given.ln_det()));
            for (ln_rho, (explained, ln_det)) in each {
                *ln_rho += 0.5 * (explained - ln_det);
            }
            self.weigh(i);
            let scratch = &mut self.scratch.incomplete;
            for h in 0..self.parameters.n_components() {
                let weight = scratch.rho[i * lanes + h];
                if weight > 0.0 {
                    scratch.group_weight[h] += weight;
                    let mean = self.parameters.means.col_as_slice(h);
                    let missing = &pattern.missing;
                    scratch.deviations.complete(i, h, missing, mean, linear);
                }
            }
        }
    }

    /// `sum rho Omega^` and the entropy of `q(x^m | z)` of a group: one inverse for each component serves all its rows.
    fn add_missing(&mut self, block: &Block, pattern: &Pattern, given: &mut LaneConditional<'_>) {
        let size = pattern.missing.len() as f64 * (1.0 + (2.0 * PI).ln());
        let weights = self.scratch.incomplete.group_weight.iter();
        let each = weights.zip(given.ln_det());
        for (&weight, &ln_det) in each.filter(|(weight, _)| **weight > 0.0) {
            let entropy = 0.5 * weight * (size - ln_det);
            self.totals.terms.missing_entropy += entropy;
            self.totals.terms.magnitude += entropy.abs();
        }
        let weight = &self.scratch.incomplete.group_weight;
        let sums = self.totals.sums(block.labelled, self.parameters);
        match block.reduced.then(|| given.observed_inverse()).flatten() {
            Some(inverse) => sums.add_reduced(&pattern.observed, weight, inverse),
            None => sums.add_covariance(&pattern.missing, weight, given.covariance()),
        }
    }

    fn store_responsibilities(&self, n: usize, stored: &mut [f64]) {
        if self.update.responsibilities {
            let lanes = self.lanes().len;
            for (h, stored) in stored.chunks_exact_mut(n).enumerate() {
                let rows = self.scratch.incomplete.rho.chunks_exact(lanes);
                for (stored, row) in stored.iter_mut().zip(rows) {
                    *stored = row[h];
                }
            }
        }
    }

    /// Adds the completed rows of a block to the sums; without `soft` labels of all components, each has its own.
    fn accumulate(&mut self, block: &Block, soft: Option<&[f64]>) {
        let scratch = &self.scratch.incomplete;
        let deviations = &scratch.deviations;
        let lanes = deviations.lanes().len;
        let sums = self.totals.sums(block.labelled, self.parameters);
        for h in 0..self.parameters.n_components() {
            let (soft, soft_stride) = match soft {
                Some(soft) if block.labelled => (soft, self.parameters.n_utilities),
                Some(_) => (&[][..], 0),
                None => (&self.scratch.joint.soft[h..], lanes),
            };
            let rows = Weighted {
                n_rows: block.rows.len(),
                rows: deviations.completed(h),
                soft,
                soft_stride,
                weights: &scratch.rho[h..],
                lanes,
            };
            sums.add(h, &rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use npb_data::Table;
    use npb_linalg::faer::Mat;

    use npb_linalg::mixture::Linear;

    use super::super::sides::RowFamily;
    use crate::e_step::atoms::Terms;
    use crate::e_step::{EStepParameters, RowFactors, Update, e_step};
    use crate::rows::Rows;
    use crate::stats::SufficientStats;

    const N_ROWS: usize = 90;
    const P: usize = 9;
    const N: usize = 3;

    fn value(k: usize) -> f64 {
        (k as f64 * 0.7 + (k * k) as f64 * 0.01).sin()
    }

    /// Two thirds of the cells are missing, of some rows only a feature or two; every third row has no label.
    fn rows() -> Rows {
        let missing = |i: usize, j: usize| match i % 15 {
            0 => j == i % P || j == 4,
            _ => value(37 * i + 11 * j) > -0.45,
        };
        let mask: Vec<bool> = (0..N_ROWS * P).map(|k| missing(k / P, k % P)).collect();
        let observed: Vec<bool> = mask.iter().map(|missing| !missing).collect();
        let table = Table::new(N_ROWS, P, (0..N_ROWS * P).map(value).collect(), &observed);
        let sign =
            |i: usize| [0.0, 1.0, -1.0, 1.0][if i.is_multiple_of(3) { 0 } else { 1 + i % 3 }];
        let signs: Vec<f64> = (0..N_ROWS).map(sign).collect();
        Rows::new(&table.unwrap(), &signs)
    }

    fn terms(linear: bool) -> Terms {
        let of_component = |h: usize| {
            Mat::from_fn(P, P, |i, j| {
                let spread = value(100 * h + i * j + i + j);
                if i == j { 4.0 + spread } else { 0.4 * spread }
            })
        };
        let mut experts = Linear::zeros(P, N, 1);
        for h in 0..N {
            let slope: Vec<f64> = (0..P).map(|j| 0.3 * value(h * P + j)).collect();
            let offset: Vec<f64> = (0..P).map(|j| 0.2 * value(h + j)).collect();
            experts.add(h, 0, value(h + 50), &slope, &offset);
        }
        Terms {
            precision: (0..N).map(of_component).collect(),
            constant: (0..N).map(value).collect(),
            linear: linear.then_some(experts),
        }
    }

    fn stats(reduced: bool, family: RowFamily) -> SufficientStats {
        let mut rows = rows();
        assert!(
            rows.blocks
                .iter()
                .all(|block| block.reduced && !block.complete)
        );
        rows.set_reduced(reduced);
        let means = Mat::from_fn(P, N, |j, h| 0.5 * value(7 * j + h));
        let parameters = EStepParameters::from_terms(means, terms(true), terms(false), &rows);
        let factors = RowFactors {
            locations: &mut [0.0; N_ROWS],
            soft: &mut [0.0; N_ROWS],
            responsibilities: &mut [0.0; N_ROWS * N],
        };
        let update = Update {
            responsibilities: true,
            utility_means: true,
            family,
        };
        e_step(&rows, &parameters.unwrap(), factors, update, 0).unwrap()
    }

    #[test]
    fn reduced_sums_are_those_of_every_covariance() {
        for family in [RowFamily::Structured, RowFamily::MeanField] {
            let [plain, reduced] = [false, true].map(|reduced| stats(reduced, family));
            let near = |found: f64, wanted: f64| {
                assert!(
                    (found - wanted).abs() < 1e-11 * (1.0 + wanted.abs()),
                    "{found} {wanted}"
                );
            };
            near(reduced.rows.missing_entropy, plain.rows.missing_entropy);
            for (reduced, plain) in [
                (&reduced.labelled, &plain.labelled),
                (&reduced.unlabelled, &plain.unlabelled),
            ] {
                for h in 0..N {
                    near(reduced.weight[h], plain.weight[h]);
                    for (i, j) in (0..P).flat_map(|i| (0..P).map(move |j| (i, j))) {
                        near(reduced.second[h][(i, j)], plain.second[h][(i, j)]);
                    }
                }
            }
        }
    }
}
