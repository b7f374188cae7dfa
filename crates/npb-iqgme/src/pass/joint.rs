//! Labelled rows with missing features, two classes: the utility, the missing features and the component together.
//!
//! Equations in `docs/iqgme.md`, "Rows with holes and a label".

use npb_linalg::lanes::LaneConditional;
use pulp::Arch;

use super::Worker;
use super::sums::LabelSpread;
use crate::conditional::elementary::soft_label;
use crate::conditional::softmax::Lanes;
use crate::conditional::{Linear, REGISTER};
use crate::rows::{Block, Group};

/// Memory of one thread of work. Lanes innermost.
#[derive(Default)]
pub(super) struct JointScratch {
    /// `a_m` and `u = L_mm^-1 a_m` of a pattern: missing feature, lane.
    slope: Vec<f64>,
    tilt: Vec<f64>,
    /// `v = a_m' u`, `1 / sqrt(1 - v)` and `ln(1 - v) / 2`, by lane.
    share: Vec<f64>,
    scale: Vec<f64>,
    half_ln: Vec<f64>,
    /// `<t>` given the component, of every row of a block.
    pub(super) soft: Vec<f64>,
    /// `Var t` of a row, and `sum rho Var t` of a group.
    variance: Vec<f64>,
    spread: Vec<f64>,
    /// What a row adds to the bound, and its absolute value.
    local: Vec<f64>,
    magnitude: Vec<f64>,
}

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
        missing: &[usize],
        linear: &Linear,
        given: &mut LaneConditional<'_>,
        n: usize,
    ) {
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
        self.tilt.clone_from(&self.slope);
        given.solve(&mut self.tilt, &mut self.share);
        let parts = self.scale.iter_mut().zip(&mut self.half_ln);
        for ((scale, half_ln), share) in parts.zip(&self.share) {
            // Positive but for rounding: `L_mm` holds `a_m a_m'`.
            let precision = (1.0 - share).max(f64::EPSILON);
            *scale = 1.0 / precision.sqrt();
            *half_ln = 0.5 * precision.ln();
        }
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
        let missing = &self.rows.patterns[group.pattern].missing;
        let n = self.parameters.n_components();
        self.scratch.joint.open(missing, linear, given, n);
        for position in group.rows.clone() {
            let sign = self.rows.signs[position];
            self.joint_row(position - block.rows.start, sign, missing, linear, given);
        }
        let joint = &self.scratch.joint;
        let spread = LabelSpread {
            missing,
            weight: &joint.spread,
            tilt: &joint.tilt,
        };
        self.totals
            .sums(true, self.parameters)
            .add_label_spread(&spread);
    }

    fn joint_row(
        &mut self,
        i: usize,
        sign: f64,
        missing: &[usize],
        linear: &Linear,
        given: &mut LaneConditional<'_>,
    ) {
        let Lanes { arch, len: lanes } = self.lanes();
        let row = i * lanes..(i + 1) * lanes;
        let (scratch, joint) = (&mut self.scratch.incomplete, &mut self.scratch.joint);
        let deviations = &mut scratch.deviations;
        deviations.condition(i, missing, given, Some((linear, &[0.0])));
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
        label.update(
            arch,
            ln_rho,
            [
                soft,
                &mut joint.variance,
                &mut joint.local,
                &mut joint.magnitude,
            ],
        );
        deviations.shift_by(&joint.soft[row.clone()], &joint.tilt);
        self.weigh(i);
        self.add_joint(i, missing);
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
