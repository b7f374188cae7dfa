//! Columns that say nothing of their own: constant ones, and copies of others (docs/bpfa.md#copies).

use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;

/// The part that a column of a table, or a channel of an image, has in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is modelled.
    Modelled,
    /// Nothing but this value was observed: it is set aside and given back.
    Constant {
        /// The value.
        value: f64,
    },
    /// `offset + factor` times another one, but for a twentieth of its standard deviation (of channels a hundredth), over the rows where both were observed: what
    /// the two say counts once.
    CopyOf {
        /// The other one, which is modelled.
        column: usize,
        /// Its factor.
        factor: f64,
        /// What is added.
        offset: f64,
    },
}

/// What is left of a column once it is taken for a copy, at most: root mean square in standard deviations of the column. Of tables, and of channels of images, where
/// it is about the rounding to 8 bit.
pub(crate) const NEAR_COLUMNS: f64 = 0.05;
pub(crate) const NEAR_CHANNELS: f64 = 0.01;
/// Rows in which two columns are compared, at least.
const LEAST_COMMON: f64 = 5.0;
/// Rows in which two columns that are no copies have usually parted.
const FIRST_LOOK: usize = 64;
/// Variances in units of that of the column below which it is constant in the rows that are compared.
const FLAT: f64 = 1e-5;

/// Roles of all columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Roles {
    all: Vec<Role>,
    /// Columns that are modelled, ascending.
    modelled: Vec<u32>,
}

/// A column's observed values.
struct Column {
    centre: f64,
    sd: f64,
}

impl Roles {
    /// By the observed values of a matrix; of copies at most `near` is left. Cost: a few rows for each pair of columns that are no copies, all rows for others.
    pub(crate) fn of(
        (n_rows, n_columns): (usize, usize),
        near: f64,
        value: impl Fn(usize, usize) -> Option<f64>,
    ) -> Self {
        let mut all = Vec::with_capacity(n_columns);
        let mut modelled: Vec<(u32, Column)> = Vec::new();
        for j in 0..n_columns {
            let own = || (0..n_rows).filter_map(|i| value(i, j));
            let Some(column) = Column::of(own) else {
                // Of a column without any value nothing is known.
                match own().next() {
                    Some(value) => all.push(Role::Constant { value }),
                    None => {
                        all.push(Role::Modelled);
                        modelled.push((j as u32, Column::UNKNOWN));
                    }
                }
                continue;
            };
            let copy = modelled.iter().find_map(|(other, of_other)| {
                let other = *other as usize;
                let pair = |i| Some((value(i, other)?, value(i, j)?));
                let few = (0..n_rows).step_by((n_rows / FIRST_LOOK).max(1));
                let few = few.filter_map(pair);
                let [factor, offset] =
                    affine(few, (0..n_rows).filter_map(pair), (of_other, &column), near)?;
                Some(Role::CopyOf {
                    column: other,
                    factor,
                    offset,
                })
            });
            all.push(copy.unwrap_or(Role::Modelled));
            if copy.is_none() {
                modelled.push((j as u32, column));
            }
        }
        let modelled = modelled.into_iter().map(|(j, _)| j).collect();
        Self { all, modelled }
    }

    /// All columns are modelled.
    pub(crate) fn plain(n_columns: usize) -> Self {
        Self {
            all: vec![Role::Modelled; n_columns],
            modelled: (0..n_columns as u32).collect(),
        }
    }

    pub(crate) fn all(&self) -> &[Role] {
        &self.all
    }

    pub(crate) fn n_modelled(&self) -> usize {
        self.modelled.len()
    }

    /// The columns that are modelled, ascending.
    pub(crate) fn modelled(&self) -> impl Iterator<Item = usize> + '_ {
        self.modelled.iter().map(|&j| j as usize)
    }

    /// The column at this place among the modelled ones.
    pub(crate) fn column(&self, place: usize) -> usize {
        self.modelled[place] as usize
    }

    /// Of a column the place among the modelled ones, and factor and offset by which it follows from that; of a constant one its value.
    pub(crate) fn follows(&self, column: usize) -> Result<(usize, f64, f64), f64> {
        let place = |j: usize| self.modelled.binary_search(&(j as u32)).unwrap_or(0);
        match self.all[column] {
            Role::Modelled => Ok((place(column), 1.0, 0.0)),
            Role::Constant { value } => Err(value),
            Role::CopyOf {
                column,
                factor,
                offset,
            } => Ok((place(column), factor, offset)),
        }
    }

    /// What a row says of the modelled columns, by its observed values in the order of the columns: a column itself, or else its first copy that is observed.
    pub(crate) fn merged(&self, row: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut merged: Vec<Option<f64>> = self.modelled().map(|j| row[j]).collect();
        for (j, y) in row.iter().enumerate() {
            if let (Some(y), Role::CopyOf { .. }, Ok((place, factor, offset))) =
                (y, self.all[j], self.follows(j))
            {
                merged[place].get_or_insert((y - offset) / factor);
            }
        }
        merged
    }

    /// Checks what comes from a file.
    pub(crate) fn check(&self, n_columns: usize) -> Result<(), BpfaError> {
        let is_modelled = |j: usize| self.all.get(j) == Some(&Role::Modelled);
        let sound = |role: &Role| match *role {
            Role::Modelled => true,
            Role::Constant { value } => value.is_finite(),
            Role::CopyOf {
                column,
                factor,
                offset,
            } => is_modelled(column) && factor.is_finite() && factor != 0.0 && offset.is_finite(),
        };
        let listed: Vec<u32> = (0..self.all.len())
            .filter(|&j| is_modelled(j))
            .map(|j| j as u32)
            .collect();
        expect(
            self.all.len() == n_columns && self.all.iter().all(sound) && self.modelled == listed,
            "roles of columns",
        )
    }
}

impl Column {
    const UNKNOWN: Self = Self {
        centre: 0.0,
        sd: 0.0,
    };

    /// None of constant values, a rounding apart at most.
    fn of<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Option<Self> {
        let n = values().count() as f64;
        let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        let size = low.abs().max(high.abs());
        // Halves, so that the range of huge values is a number.
        if n == 0.0 || 0.5 * high - 0.5 * low <= 4.0 * f64::EPSILON * size {
            return None;
        }
        let centre: f64 = values().map(|y| y / n).sum();
        let largest = (high - centre).max(centre - low);
        let square: f64 = values().map(|y| ((y - centre) / largest).powi(2) / n).sum();
        Some(Self {
            centre,
            sd: largest * square.sqrt(),
        })
    }
}

/// Factor and offset by which the second of two columns follows from the first, but for `near`, in all of these pairs of values; none where it does not. `few` are
/// some of them.
fn affine(
    few: impl Iterator<Item = (f64, f64)> + Clone,
    all: impl Iterator<Item = (f64, f64)> + Clone,
    (a, b): (&Column, &Column),
    near: f64,
) -> Option<[f64; 2]> {
    let standard = |(x, y): (f64, f64)| ((x - a.centre) / a.sd, (y - b.centre) / b.sd);
    // A column without any value has no copies. Few rows may be near by chance, and are not near by chance.
    if a.sd == 0.0 || matches!(line(few.map(standard), 2.0 * near), Line::No) {
        return None;
    }
    let Line::Yes([factor, offset]) = line(all.map(standard), near) else {
        return None;
    };
    let factor_of_values = factor * b.sd / a.sd;
    Some([
        factor_of_values,
        b.centre + offset * b.sd - factor_of_values * a.centre,
    ])
}

/// Whether pairs of values in standard units are on a line.
enum Line {
    /// Factor and offset.
    Yes([f64; 2]),
    No,
    /// There are too few of them, or they are all alike.
    Unclear,
}

/// By least squares.
fn line(pairs: impl Iterator<Item = (f64, f64)> + Clone, near: f64) -> Line {
    let (mut n, mut x, mut y) = (0.0, 0.0, 0.0);
    for (u, v) in pairs.clone() {
        n += 1.0;
        x += u;
        y += v;
    }
    let (x, y) = (x / n, y / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (u, v) in pairs {
        xx += (u - x).powi(2);
        xy += (u - x) * (v - y);
        yy += (v - y).powi(2);
    }
    if n < LEAST_COMMON || xx <= FLAT * n || yy <= FLAT * n {
        return Line::Unclear;
    }
    let factor = xy / xx;
    let left = (yy - factor * xy).max(0.0) / n;
    match left <= near * near {
        true => Line::Yes([factor, y - factor * x]),
        false => Line::No,
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;
    use rand_distr::StandardNormal;

    use super::*;

    /// Roles of columns of equal length, NaN where missing.
    fn roles(columns: &[Vec<f64>]) -> Roles {
        let value = |i: usize, j: usize| Some(columns[j][i]).filter(|x| !x.is_nan());
        Roles::of((columns[0].len(), columns.len()), NEAR_COLUMNS, value)
    }

    fn normals(n: usize, seed: u64) -> Vec<f64> {
        let rng = &mut stream(seed, [0; 4]);
        (0..n).map(|_| rng.sample(StandardNormal)).collect()
    }

    fn with_holes(column: &[f64], every: usize) -> Vec<f64> {
        let cell = |(i, &x): (usize, &f64)| if i % every == 1 { f64::NAN } else { x };
        column.iter().enumerate().map(cell).collect()
    }

    #[test]
    fn constants_and_copies_are_found_with_their_lines() {
        let x = normals(200, 1);
        let celsius: Vec<f64> = x.iter().map(|x| (10.0 * x).round() / 10.0).collect();
        let fahrenheit: Vec<f64> = celsius.iter().map(|c| 32.0 + 1.8 * c).collect();
        let whole: Vec<f64> = celsius.iter().map(|c| (100.0 * c).round()).collect();
        let columns = [
            vec![3.0; 200],
            with_holes(&x, 7),
            with_holes(&x, 5).iter().map(|x| 4.0 - 2.5 * x).collect(),
            vec![f64::NAN; 200],
            celsius.clone(),
            fahrenheit,
            whole,
            with_holes(&[0.1 + 0.2, 0.3].repeat(100), 3),
            normals(200, 2),
        ];
        let found = roles(&columns);
        let of = |j: usize| found.all()[j];
        assert_eq!(of(0), Role::Constant { value: 3.0 });
        assert!(matches!(of(7), Role::Constant { .. }), "a rounding apart");
        for j in [1, 3, 8] {
            assert_eq!(of(j), Role::Modelled, "{j}");
        }
        for (j, original, line) in [
            (2, 1, [-2.5_f64, 4.0]),
            (4, 1, [1.0, 0.0]),
            (5, 1, [1.8, 32.0]),
            (6, 1, [100.0, 0.0]),
        ] {
            let Role::CopyOf {
                column,
                factor,
                offset,
            } = of(j)
            else {
                panic!("{j}: {:?}", of(j));
            };
            assert_eq!(column, original);
            // Exact, or rounded to a tenth of a standard deviation.
            let near = if j == 2 { 1e-9 } else { 0.01 * line[0].abs() };
            assert!(
                (factor - line[0]).abs() < near && (offset - line[1]).abs() < near,
                "{j}: {factor} {offset}"
            );
        }
        // A row: what a column does not say its copy does.
        let mut row: Vec<Option<f64>> = vec![None; 9];
        (row[2], row[5], row[8]) = (Some(9.0), Some(50.0), Some(-1.0));
        let merged = found.merged(&row);
        let places: Vec<usize> = found.modelled().collect();
        assert_eq!(places, [1, 3, 8]);
        let first_copy = merged[0].unwrap();
        assert!((first_copy + 2.0).abs() < 1e-6, "{first_copy}");
        assert_eq!(merged[1..], [None, Some(-1.0)]);
        assert_eq!(found.follows(0), Err(3.0));
        assert_eq!(found.follows(8), Ok((2, 1.0, 0.0)));
        found.check(9).unwrap();
        assert!(found.check(8).is_err());
    }

    /// A column rounded to steps as large as its spread, or with noise of more than a twentieth of it, says something of its own, and so does what agrees in few
    /// rows only.
    #[test]
    fn what_says_something_of_its_own_is_modelled() {
        let x = normals(200, 3);
        let e = normals(200, 4);
        let columns = [
            x.clone(),
            x.iter().map(|x| x.round()).collect(),
            x.iter().zip(&e).map(|(x, e)| x + 0.1 * e).collect(),
            x.iter().map(|x| x * x).collect(),
            x.iter().map(|x| x.max(-1.0)).collect(),
            (0..200)
                .map(|i| if i < 4 { x[i] } else { f64::NAN })
                .collect(),
        ];
        let all = roles(&columns);
        assert!(
            all.all().iter().all(|role| *role == Role::Modelled),
            "{all:?}"
        );
        // Where the first rows are all alike, the others decide.
        let mut late = vec![0.0; 500];
        late[400..].copy_from_slice(&x[..100]);
        let copy: Vec<f64> = late.iter().map(|x| 7.0 * x).collect();
        let all = roles(&[late, copy]);
        assert!(
            matches!(all.all()[1], Role::CopyOf { column: 0, .. }),
            "{all:?}"
        );
        // Many scattered columns: none is taken for another.
        let columns: Vec<Vec<f64>> = (0..40).map(|j| normals(8, 100 + j)).collect();
        assert_eq!(roles(&columns).n_modelled(), 40);
    }
}
