//! Labelled rows with missing features, two classes: the utility, the missing features and the component together.
//!
//! Equations in `docs/iqgme-updates.md#structured-rows`.

use npb_linalg::elementary::ln;
use npb_linalg::lanes::LaneConditional;
use npb_linalg::mixture::{
    Block, Deviations, Group, LabelSpread, Lanes, Linear, Pattern, REGISTER,
};
use npb_priors::special::vector::soft_label;
use pulp::Arch;

use super::worker::{JointScratch, Worker};

/// A register of lanes.
type Register = [f64; REGISTER];

fn registers(values: &[f64]) -> &[Register] {
    values.as_chunks().0
}

fn registers_mut(values: &mut [f64]) -> &mut [Register] {
    values.as_chunks_mut().0
}

/// The label of one row, as every component sees it. Lanes.
struct Label<'a> {
    sign: f64,
    /// `eta`.
    location: &'a [f64],
    share: &'a [f64],
    /// `1 / sqrt(1 - v)`, and `ln(1 - v) / 2`.
    scale: &'a [f64],
    half_ln: &'a [f64],
}

impl Label<'_> {
    /// Adds what the label is worth to `ln_rho`; sets `<t>`, `Var t`, the row's part of the bound and the size of its terms.
    fn update(&self, arch: Arch, ln_rho: &mut [f64], out: [&mut [f64]; 4]) {
        let ln_rho = registers_mut(ln_rho);
        let [soft, variance, local, magnitude] = out.map(registers_mut);
        let [location, share, scale, half_ln] =
            [self.location, self.share, self.scale, self.half_ln].map(registers);
        let given = location.iter().zip(share).zip(scale).zip(half_ln);
        let set = soft.iter_mut().zip(variance).zip(local).zip(magnitude);
        arch.dispatch(
            #[inline(always)]
            || {
                for ((ln_rho, given), set) in ln_rho.iter_mut().zip(given).zip(set) {
                    let (((location, share), scale), half_ln) = given;
                    let (((soft, variance), local), magnitude) = set;
                    for h in 0..REGISTER {
                        let location = self.sign * location[h] * scale[h];
                        let label = soft_label(location);
                        let product = location * label.mean;
                        ln_rho[h] += label.local + product - half_ln[h];
                        soft[h] = self.sign * scale[h] * label.mean;
                        // Of `t / scale`; rounding may leave less than nothing.
                        let spread = 1.0 + label.mean * (location - label.mean);
                        let square = scale[h] * scale[h];
                        variance[h] = square * if spread > 0.0 { spread } else { 0.0 };
                        let bent = 0.5 * share[h] * square * (1.0 + product);
                        local[h] = label.local - half_ln[h] - bent;
                        magnitude[h] = label.ln_mass.abs() + location * location + bent;
                    }
                }
            },
        );
    }
}

impl JointScratch {
    /// Makes room for the rows of a block.
    pub(super) fn start(&mut self, n_rows: usize, lanes: usize) {
        self.soft.resize(n_rows * lanes, 0.0);
        for table in [
            &mut self.share,
            &mut self.scale,
            &mut self.half_ln,
            &mut self.variance,
            &mut self.local,
            &mut self.magnitude,
        ] {
            table.resize(lanes, 0.0);
        }
    }

    /// What all rows with a pattern share.
    fn open(
        &mut self,
        pattern: &Pattern,
        linear: &Linear,
        given: &mut LaneConditional<'_>,
        deviations: &mut Deviations,
        n: usize,
    ) {
        let missing = &pattern.missing;
        let lanes = self.share.len();
        self.spread.clear();
        self.spread.resize(lanes, 0.0);
        self.slope.clear();
        self.slope.resize(missing.len() * lanes, 0.0);
        for h in 0..n {
            let slope = linear.slope(h, 0);
            for (row, &j) in self.slope.chunks_exact_mut(lanes).zip(missing) {
                row[h] = slope[j];
            }
        }
        self.tilt.resize(self.slope.len(), 0.0);
        let (slope, tilt, share) = (&self.slope, &mut self.tilt, &mut self.share);
        deviations.tilt(pattern, given, linear, slope, tilt, share);
        let parts = self.scale.iter_mut().zip(&mut self.half_ln);
        let each = parts.zip(&self.share);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for ((scale, half_ln), share) in each {
                    // Positive but for rounding: `L_mm` holds `a_m a_m'`.
                    let rest = 1.0 - share;
                    let least = f64::EPSILON;
                    let precision = if rest < least { least } else { rest };
                    *scale = 1.0 / precision.sqrt();
                    *half_ln = 0.5 * ln(precision);
                }
            },
        );
    }
}

impl Worker<'_> {
    /// Labelled rows that share a missing pattern.
    pub(super) fn joint_group(
        &mut self,
        block: &Block,
        group: &Group,
        linear: &Linear,
        given: &mut LaneConditional<'_>,
    ) {
        let pattern = &self.rows.patterns[group.pattern];
        let n = self.parameters.n_components();
        let deviations = &mut self.scratch.incomplete.deviations;
        let joint = &mut self.scratch.joint;
        joint.open(pattern, linear, given, deviations, n);
        for position in group.rows.clone() {
            let sign = self.rows.signs[position];
            self.joint_row(position - block.rows.start, sign, pattern, linear, given);
        }
        let joint = &self.scratch.joint;
        let spread = LabelSpread {
            missing: &pattern.missing,
            weight: &joint.spread,
            tilt: &joint.tilt,
        };
        let sums = self.totals.sums(true, self.parameters);
        sums.add_label_spread(&spread);
    }

    fn joint_row(
        &mut self,
        i: usize,
        sign: f64,
        pattern: &Pattern,
        linear: &Linear,
        given: &mut LaneConditional<'_>,
    ) {
        let Lanes { arch, len: lanes } = self.lanes();
        let row = i * lanes..(i + 1) * lanes;
        let (scratch, joint) = (&mut self.scratch.incomplete, &mut self.scratch.joint);
        let deviations = &mut scratch.deviations;
        deviations.condition(i, pattern, given, Some((linear, &[0.0])));
        deviations.complete_slopes(i, &joint.slope);
        let ln_rho = &mut scratch.ln_rho[row.clone()];
        let explained = deviations.explained().iter().zip(given.ln_det());
        for (ln_rho, (explained, ln_det)) in ln_rho.iter_mut().zip(explained) {
            *ln_rho += 0.5 * (explained - ln_det);
        }
        let soft = &mut joint.soft[row.clone()];
        let label = Label {
            sign,
            location: &deviations.slopes()[row.clone()],
            share: &joint.share,
            scale: &joint.scale,
            half_ln: &joint.half_ln,
        };
        let [variance, local] = [&mut joint.variance, &mut joint.local];
        label.update(arch, ln_rho, [soft, variance, local, &mut joint.magnitude]);
        deviations.shift_by(&joint.soft[row.clone()], &joint.tilt);
        self.weigh(i);
        self.add_joint(i, &pattern.missing);
    }

    /// Adds a weighed row to what is summed over its group, and completes it.
    fn add_joint(&mut self, i: usize, missing: &[usize]) {
        let lanes = self.lanes().len;
        let (scratch, joint) = (&mut self.scratch.incomplete, &mut self.scratch.joint);
        for h in 0..self.parameters.n_components() {
            let weight = scratch.rho[i * lanes + h];
            if weight > 0.0 {
                scratch.group_weight[h] += weight;
                joint.spread[h] += weight * joint.variance[h];
                self.totals.terms.soft_local += weight * joint.local[h];
                self.totals.terms.magnitude += weight * joint.magnitude[h];
                let mean = self.parameters.means.col_as_slice(h);
                scratch.deviations.complete(i, h, missing, mean, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use npb_data::Table;
    use npb_linalg::faer::{Mat, mat};

    use super::*;
    use crate::e_step::RowFamily;
    use crate::e_step::atoms::Terms;
    use crate::e_step::{EStepParameters, RowFactors, Update, e_step};
    use crate::rows::Rows;
    use crate::stats::SufficientStats;

    /// What components say of a row whose second feature is missing: `L_h`, `k_h`, `c_h`, `a_h`, `b_h`, and the mean.
    struct Law {
        precision: [Mat<f64>; 2],
        constant: [f64; 2],
        intercept: [f64; 2],
        slope: [[f64; 2]; 2],
        offset: [[f64; 2]; 2],
        mean: [[f64; 2]; 2],
    }

    impl Law {
        fn example() -> Self {
            Self {
                precision: [mat![[1.6, 0.5], [0.5, 2.2]], mat![[0.9, -0.3], [-0.3, 3.1]]],
                constant: [-0.4, 0.3],
                intercept: [0.6, -0.9],
                slope: [[0.4, 1.1], [-0.7, 1.4]],
                offset: [[0.2, -0.5], [0.1, 0.3]],
                mean: [[0.1, -0.2], [-0.5, 0.8]],
            }
        }

        /// `ln q(t, x, z = h)` up to a constant of the row, the normal density of `t` included.
        fn ln_density(&self, h: usize, t: f64, x: [f64; 2]) -> f64 {
            let d = [x[0] - self.mean[h][0], x[1] - self.mean[h][1]];
            let dot = |a: [f64; 2]| a[0] * d[0] + a[1] * d[1];
            let l = &self.precision[h];
            let square = dot([0, 1].map(|i| l[(i, 0)] * d[0] + l[(i, 1)] * d[1]));
            let score = self.intercept[h] + dot(self.slope[h]);
            self.constant[h] - 0.5 * square - dot(self.offset[h]) + t * score
                - 0.5 * (t * t + (2.0 * std::f64::consts::PI).ln())
        }

        fn stats(&self, x: f64, sign: f64, family: RowFamily) -> SufficientStats {
            let table = Table::new(1, 2, vec![x, 0.0], &[true, false]).unwrap();
            let rows = Rows::new(&table, &[sign]);
            let terms = |linear| Terms {
                precision: self.precision.to_vec(),
                constant: self.constant.to_vec(),
                linear,
            };
            let mut linear = Linear::zeros(2, 2, 1);
            for h in 0..2 {
                linear.add(h, 0, self.intercept[h], &self.slope[h], &self.offset[h]);
            }
            let means = Mat::from_fn(2, 2, |j, h| self.mean[h][j]);
            let parameters =
                EStepParameters::from_terms(means, terms(Some(linear)), terms(None), &rows);
            let factors = RowFactors {
                locations: &mut [0.0],
                soft: &mut [0.0],
                responsibilities: &mut [0.0; 2],
            };
            let update = Update {
                responsibilities: true,
                utility_means: true,
                family,
            };
            e_step(&rows, &parameters.unwrap(), factors, update, 0).unwrap()
        }
    }

    /// Sums over a grid: of each component its weight, and the means of `t`, `x_m`, `t x_m` and `x_m^2`, and the logarithm of all of it.
    fn by_grid(law: &Law, x: f64, sign: f64) -> ([[f64; 5]; 2], f64) {
        const STEP: f64 = 0.01;
        let mut sums = [[0.0; 5]; 2];
        for (h, sums) in sums.iter_mut().enumerate() {
            for i in 0..2000 {
                let t = sign * STEP * (i as f64 + 0.5);
                for j in -800..800 {
                    let missing = STEP * f64::from(j);
                    let q = law.ln_density(h, t, [x, missing]).exp() * STEP * STEP;
                    let terms = [1.0, t, missing, t * missing, missing * missing];
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum += q * term;
                    }
                }
            }
        }
        let total = sums[0][0] + sums[1][0];
        (sums.map(|sums| sums.map(|sum| sum / total)), total.ln())
    }

    /// Weights and moments are those of the joint law of a row's utility, missing feature and component, and with what the bound takes from the statistics
    /// the local terms are the logarithm of its normalising constant.
    #[test]
    fn a_row_is_as_the_joint_law_has_it() {
        let law = Law::example();
        for (x, sign) in [(0.3, 1.0), (0.3, -1.0), (-2.0, 1.0), (2.5, -1.0)] {
            let stats = law.stats(x, sign, RowFamily::Structured);
            let apart = law.stats(x, sign, RowFamily::MeanField);
            let (wanted, ln_total) = by_grid(&law, x, sign);
            let near = |name: &str, found: f64, wanted: f64| {
                assert!(
                    (found - wanted).abs() < 2e-5 * (1.0 + wanted.abs()),
                    "x = {x}, sign = {sign}, {name}: {found} {wanted}"
                );
            };
            let mut bound =
                stats.rows.soft_local + stats.rows.label_entropy + stats.rows.missing_entropy;
            for (h, &[weight, t, m, tm, mm]) in wanted.iter().enumerate() {
                let moments = &stats.labelled;
                near("weight", moments.weight[h], weight);
                near("missing", moments.first[(1, h)], m);
                near("square", moments.second[h][(1, 1)], mm);
                near("label", stats.soft[(2, h)], t);
                near("label and observed", stats.soft[(0, h)], t * x);
                near("label and missing", stats.soft[(1, h)], tm);
                // All of `E ln q` but the terms in `t^2`, which are among the local ones.
                let (a, b, mean) = (law.slope[h], law.offset[h], law.mean[h]);
                let l = &law.precision[h];
                let observed = x - mean[0];
                let first = [observed * weight, m - mean[1] * weight];
                let second = mm - 2.0 * mean[1] * m + mean[1] * mean[1] * weight;
                let square = l[(0, 0)] * observed * first[0]
                    + 2.0 * l[(0, 1)] * observed * first[1]
                    + l[(1, 1)] * second;
                bound +=
                    law.constant[h] * weight - 0.5 * square - b[0] * first[0] - b[1] * first[1]
                        + (law.intercept[h] + a[0] * observed - a[1] * mean[1]) * t
                        + a[1] * tm;
                // With the utility apart they are others.
                let wrong = (apart.soft[(1, h)] - tm).abs() + (apart.soft[(2, h)] - t).abs();
                assert!(wrong > 1e-3, "x = {x}, sign = {sign}: {wrong}");
            }
            near("bound", bound, ln_total);
        }
    }
}
