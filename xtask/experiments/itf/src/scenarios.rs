//! Simulated tables of five columns whose clusterings are one (scenario 1) or their own (scenario 2), and who knows their law.

use npb_data::{Field, Mask, Measure, MixedColumn, MixedTable, splits};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::Normal;
use npb_priors::special::{ln_normal_pdf, ln_normalize};
use rand::RngExt;

use npb_kit::Result;

/// Keys of the random streams.
const CELLS: u64 = 1;
const HELD_OUT: u64 = 2;

const N_TIMES: usize = 50;
const N_COORDINATES: usize = 4;
const N_LEVELS: usize = 3;

/// Autoregressive coefficients of the clusters of T.
const COEFFICIENTS: [f64; 3] = [-0.4, 0.3, 0.9];
/// Means of every coordinate in the clusters of R.
const MEANS: [f64; 2] = [0.0, 1.0];
/// Probabilities of the levels in the clusters of C1, C2, C3.
const LEVELS: [[f64; N_LEVELS]; 2] = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]];
/// How often a label follows another in scenario 2.
const FOLLOWS: f64 = 0.9;

/// Positions of the fields.
const T: usize = 0;
pub(super) const R: usize = 1;
pub(super) const C1: usize = 2;
pub(super) const C2: usize = 3;
const C3: usize = 4;
pub(super) const NAMES: [&str; 5] = ["T", "R", "C1", "C2", "C3"];

/// Rows without R.
const HELD_OUT_R: usize = 50;
/// Rows without C1, and without C2: the paper's number, and more for a steadier figure.
pub(super) const HELD_OUT_LEVELS: [usize; 2] = [10, 50];

/// How the clusterings of the columns depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// One label of two drives all columns.
    One,
    /// R and C1 follow T, C3 follows C2; the two groups are independent.
    Own,
}

/// The labels of all columns of a row.
type Labels = [usize; 5];

impl Scenario {
    /// Whether two fields depend on each other.
    pub(crate) fn are_dependent(self, a: usize, b: usize) -> bool {
        self == Self::One || (a < C2) == (b < C2)
    }

    /// Every combination of labels with its probability.
    fn law(self) -> Vec<(Labels, f64)> {
        match self {
            // The clusters of T are those of 0.9 and -0.4.
            Self::One => vec![([2, 0, 0, 0, 0], 0.5), ([0, 1, 1, 1, 1], 0.5)],
            Self::Own => {
                let follow = |label: usize, leader: bool| match label == usize::from(leader) {
                    true => FOLLOWS,
                    false => 1.0 - FOLLOWS,
                };
                let mut law = Vec::new();
                for code in 0..48 {
                    let labels = [
                        code / 16,
                        code / 8 % 2,
                        code / 4 % 2,
                        code / 2 % 2,
                        code % 2,
                    ];
                    let of_t = follow(labels[R], labels[T] > 0) * follow(labels[C1], labels[T] > 0);
                    let of_c2 = follow(labels[C3], labels[C2] == 1);
                    law.push((labels, of_t / 3.0 * of_c2 / 2.0));
                }
                law
            }
        }
    }
}

/// A cell that was hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldOut {
    pub(super) row: usize,
    /// Position of the field.
    pub(super) field: usize,
    /// Whether it is one of the further rows, beyond the paper's.
    pub(super) further: bool,
}

/// What is said about a hidden cell: the mean of every coordinate, or the probabilities of the levels.
pub(super) type Answer = Vec<f64>;

/// One data set.
pub(crate) struct Simulated {
    scenario: Scenario,
    series: Vec<[f64; N_TIMES]>,
    vectors: Vec<[f64; N_COORDINATES]>,
    /// Levels of C1, C2, C3.
    codes: Vec<[usize; 3]>,
    pub(super) held_out: Vec<HeldOut>,
}

impl Simulated {
    pub(crate) fn draw(scenario: Scenario, n_rows: usize, seed: u64) -> Result<Self> {
        let rng = &mut stream(seed, [0, 0, 0, CELLS]);
        let normal = Normal::new(0.0, 1.0)?;
        let law = scenario.law();
        let odds: Vec<f64> = law.iter().map(|(_, p)| *p).collect();
        let (mut series, mut vectors, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n_rows {
            let labels = law[pick(&odds, rng)].0;
            let phi = COEFFICIENTS[labels[T]];
            let mut z = normal.sample(rng) / (1.0 - phi * phi).sqrt();
            series.push(std::array::from_fn(|t| {
                if t > 0 {
                    z = phi * z + normal.sample(rng);
                }
                z
            }));
            vectors.push(std::array::from_fn(|_| {
                MEANS[labels[R]] + normal.sample(rng)
            }));
            codes.push(std::array::from_fn(|j| pick(&LEVELS[labels[C1 + j]], rng)));
        }
        Ok(Self {
            scenario,
            series,
            vectors,
            codes,
            held_out: held_out(n_rows, seed)?,
        })
    }

    fn n_rows(&self) -> usize {
        self.series.len()
    }

    fn is_hidden(&self, row: usize, field: usize) -> bool {
        let cell = |h: &HeldOut| (h.row, h.field) == (row, field);
        self.held_out.iter().any(cell)
    }

    /// The table without the hidden cells, and its fields: T, R, C1, C2, C3.
    pub(crate) fn table(&self) -> Result<(MixedTable, Vec<Field>)> {
        let widths = [N_TIMES, N_COORDINATES, 1, 1, 1];
        let measures = [
            Measure::Series,
            Measure::Vector,
            Measure::Categorical,
            Measure::Categorical,
            Measure::Categorical,
        ];
        let (mut names, mut columns, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        let mut field_of = Vec::new();
        for (field, &width) in widths.iter().enumerate() {
            let first = columns.len();
            for part in 0..width {
                names.push(format!("{}.{part}", NAMES[field]));
                columns.push(self.column(field, part));
                field_of.push(field);
            }
            let positions = (first..columns.len()).collect();
            fields.push(Field::new(NAMES[field], measures[field], positions));
        }
        let hidden = |row, column: usize| self.is_hidden(row, field_of[column]);
        let mask = Mask::from_fn(self.n_rows(), columns.len(), hidden)?;
        Ok((MixedTable::new(names, columns)?.hide(&mask)?, fields))
    }

    /// A column of the whole table.
    fn column(&self, field: usize, part: usize) -> MixedColumn {
        match field {
            T => MixedColumn::Real(self.series.iter().map(|z| Some(z[part])).collect()),
            R => MixedColumn::Real(self.vectors.iter().map(|x| Some(x[part])).collect()),
            _ => MixedColumn::Categorical {
                levels: ["a", "b", "c"].map(str::to_owned).to_vec(),
                codes: (self.codes.iter().map(|c| Some(c[field - C1] as u32))).collect(),
            },
        }
    }

    /// What can be said with the true parameters, given what a row shows.
    pub(super) fn truth(&self) -> Vec<Answer> {
        let law = self.scenario.law();
        let answer = |hidden: &HeldOut| {
            let ln = |(labels, p): &(Labels, f64)| p.ln() + self.ln_likelihood(hidden.row, labels);
            let mut weights: Vec<f64> = law.iter().map(ln).collect();
            ln_normalize(&mut weights);
            let parts = match hidden.field {
                R => N_COORDINATES,
                _ => N_LEVELS,
            };
            let mut answer = vec![0.0; parts];
            for ((labels, _), weight) in law.iter().zip(&weights) {
                let label = labels[hidden.field];
                for (part, value) in answer.iter_mut().enumerate() {
                    *value += weight
                        * match hidden.field {
                            R => MEANS[label],
                            _ => LEVELS[label][part],
                        };
                }
            }
            answer
        };
        self.held_out.iter().map(answer).collect()
    }

    /// ln density of the cells that a row shows, given its labels.
    fn ln_likelihood(&self, row: usize, labels: &Labels) -> f64 {
        let phi = COEFFICIENTS[labels[T]];
        let z = &self.series[row];
        let spread = (1.0 - phi * phi).sqrt();
        let mut ln = ln_normal_pdf(z[0] * spread) + spread.ln();
        ln += (1..N_TIMES)
            .map(|t| ln_normal_pdf(z[t] - phi * z[t - 1]))
            .sum::<f64>();
        if !self.is_hidden(row, R) {
            let x = self.vectors[row].iter();
            ln += x.map(|x| ln_normal_pdf(x - MEANS[labels[R]])).sum::<f64>();
        }
        for field in [C1, C2, C3] {
            if !self.is_hidden(row, field) {
                ln += LEVELS[labels[field]][self.codes[row][field - C1]].ln();
            }
        }
        ln
    }

    /// Root mean squared error of the hidden vectors' coordinates in standard deviations of R.
    pub(super) fn error_real(&self, answers: &[Answer]) -> f64 {
        let all = || self.vectors.iter().flatten();
        let n = all().count() as f64;
        let mean = all().sum::<f64>() / n;
        let variance = all().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let hidden = self.held_out.iter().zip(answers);
        let hidden = hidden.filter(|(hidden, _)| hidden.field == R);
        let errors: Vec<f64> = hidden
            .flat_map(|(hidden, answer)| self.vectors[hidden.row].iter().zip(answer))
            .map(|(x, mean)| (x - mean).powi(2))
            .collect();
        (errors.iter().sum::<f64>() / errors.len() as f64 / variance).sqrt()
    }

    /// Share of hidden levels of a field that are not the most probable one.
    pub(super) fn error_rate(&self, answers: &[Answer], field: usize, further: bool) -> f64 {
        let hidden = self.held_out.iter().zip(answers);
        let wrong: Vec<bool> = hidden
            .filter(|(hidden, _)| hidden.field == field && hidden.further == further)
            .map(|(hidden, answer)| most_probable(answer) != self.codes[hidden.row][field - C1])
            .collect();
        wrong.iter().filter(|&&wrong| wrong).count() as f64 / wrong.len() as f64
    }
}

/// Rows are drawn for each field by itself, so that a row may miss several.
fn held_out(n_rows: usize, seed: u64) -> Result<Vec<HeldOut>> {
    let mut cells = Vec::new();
    let [few, more] = HELD_OUT_LEVELS;
    for (field, n) in [(R, HELD_OUT_R), (C1, few + more), (C2, few + more)] {
        let rng = &mut stream(seed, [field as u64, 0, 0, HELD_OUT]);
        let rows = splits::sample_rows(n_rows, n, rng)?;
        // Rows are exchangeable: the first are as good as any.
        let cell = |(i, row)| HeldOut {
            row,
            field,
            further: field != R && i >= few,
        };
        cells.extend(rows.into_iter().enumerate().map(cell));
    }
    Ok(cells)
}

fn most_probable(probabilities: &[f64]) -> usize {
    let largest = |best: usize, k: usize| match probabilities[k] > probabilities[best] {
        true => k,
        false => best,
    };
    (1..probabilities.len()).fold(0, largest)
}

fn pick(weights: &[f64], rng: &mut Xoshiro256PlusPlus) -> usize {
    let mut u: f64 = rng.random();
    let passed = |w: &&f64| {
        u -= **w;
        u >= 0.0
    };
    let n = weights.iter().take_while(passed).count();
    n.min(weights.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_a_law() {
        for scenario in [Scenario::One, Scenario::Own] {
            let total: f64 = scenario.law().iter().map(|(_, p)| p).sum();
            assert!((total - 1.0).abs() < 1e-12, "{scenario:?}: {total}");
        }
        // C1 follows T: its label is 1 when that of T is 1 or 2, nine times in ten.
        let law = Scenario::Own.law();
        let both = |(l, _): &&(Labels, f64)| l[T] > 0 && l[C1] == 1;
        let p: f64 = law.iter().filter(both).map(|(_, p)| p).sum();
        assert!((p - 0.6).abs() < 1e-12, "{p}");
    }

    #[test]
    fn fields_depend_as_is_said() {
        for scenario in [Scenario::One, Scenario::Own] {
            let law = scenario.law();
            let p = |wanted: &dyn Fn(&Labels) -> bool| -> f64 {
                let found = law.iter().filter(|(labels, _)| wanted(labels));
                found.map(|(_, p)| p).sum()
            };
            for (a, b) in (0..5).flat_map(|b| (0..b).map(move |a| (a, b))) {
                let both = p(&|l| l[a] == 0 && l[b] == 0);
                let apart = p(&|l| l[a] == 0) * p(&|l| l[b] == 0);
                let dependent = (both - apart).abs() > 1e-9;
                assert_eq!(scenario.are_dependent(a, b), dependent, "{a}, {b}");
            }
        }
    }

    #[test]
    fn the_truth_does_not_look_at_hidden_cells_and_beats_the_margin() {
        let mut data = Simulated::draw(Scenario::One, 1000, 3).unwrap();
        let answers = data.truth();
        let margin: Vec<Answer> = (data.held_out.iter())
            .map(|h| match h.field {
                R => vec![0.5; N_COORDINATES],
                _ => vec![0.4, 0.2, 0.4],
            })
            .collect();
        assert!(data.error_real(&answers) < 0.97 * data.error_real(&margin));
        for field in [C1, C2] {
            let rate = data.error_rate(&answers, field, true);
            assert!((0.1..0.5).contains(&rate), "{rate}");
            assert!(rate < data.error_rate(&margin, field, true));
        }
        for hidden in data.held_out.clone() {
            match hidden.field {
                R => data.vectors[hidden.row] = [9.0; N_COORDINATES],
                field => data.codes[hidden.row][field - C1] = 1,
            }
        }
        assert_eq!(data.truth(), answers);
    }

    #[test]
    fn the_table_hides_what_is_held_out() {
        let data = Simulated::draw(Scenario::Own, 200, 1).unwrap();
        let (table, fields) = data.table().unwrap();
        Field::check_all(&fields, &table).unwrap();
        let n: usize = HELD_OUT_LEVELS.iter().sum();
        assert_eq!(table.n_missing(), HELD_OUT_R * N_COORDINATES + 2 * n);
        for hidden in &data.held_out {
            for &column in &fields[hidden.field].columns {
                assert!(!table.is_observed(hidden.row, column));
            }
        }
    }
}
