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
    /// `offset + factor` times another one, up to rounding, wherever both were observed: what the two say counts once.
    CopyOf {
        /// The other one, which is modelled.
        column: usize,
        /// Its factor.
        factor: f64,
        /// What is added.
        offset: f64,
    },
}

/// Rows in which two columns are compared, at least.
const LEAST_COMMON: f64 = 5.0;
/// Of copies, the root mean square of what rounding has left, at most, in standard deviations of the column.
const MOST_ROUNDING: f64 = 0.05;
/// Differences in standard deviations that are rounding whatever the decimals of the values: those of single precision.
const SINGLE: f64 = 1e-5;
/// Rows in which two columns that are no copies have usually parted.
const FIRST_LOOK: usize = 64;

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
    /// Half of the smallest difference between two values: how far rounding may have moved them.
    rounding: f64,
}

impl Roles {
    /// By the observed values of a matrix. Cost: for each column a sort, for each pair of columns a few rows, unless they are copies.
    pub(crate) fn of(
        (n_rows, n_columns): (usize, usize),
        value: impl Fn(usize, usize) -> Option<f64>,
    ) -> Self {
        let mut all = Vec::with_capacity(n_columns);
        let mut modelled: Vec<(u32, Column)> = Vec::new();
        for j in 0..n_columns {
            let mut own: Vec<f64> = (0..n_rows).filter_map(|i| value(i, j)).collect();
            let Some(column) = Column::of(&mut own) else {
                // Of a column without any value nothing is known.
                all.push(
                    own.first()
                        .map_or(Role::Modelled, |&value| Role::Constant { value }),
                );
                if own.is_empty() {
                    modelled.push((j as u32, Column::UNKNOWN));
                }
                continue;
            };
            let copy = modelled.iter().find_map(|(other, of_other)| {
                let other = *other as usize;
                let pair = |i| Some((value(i, other)?, value(i, j)?));
                let few = (0..n_rows)
                    .step_by((n_rows / FIRST_LOOK).max(1))
                    .filter_map(pair);
                let [factor, offset] =
                    affine(few, (0..n_rows).filter_map(pair), of_other, &column)?;
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
        rounding: 0.0,
    };

    /// None of constant values. Sorts them.
    fn of(values: &mut [f64]) -> Option<Self> {
        let n = values.len() as f64;
        values.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let size = low.abs().max(high.abs());
        // Halves, so that the range of huge values is a number.
        if 0.5 * high - 0.5 * low <= 4.0 * f64::EPSILON * size {
            return None;
        }
        let centre: f64 = values.iter().map(|y| y / n).sum();
        let largest = (high - centre).max(centre - low);
        let square: f64 = values
            .iter()
            .map(|y| ((y - centre) / largest).powi(2) / n)
            .sum();
        let gaps = values.windows(2).map(|w| w[1] - w[0]);
        let smallest = gaps
            .filter(|gap| *gap > 8.0 * f64::EPSILON * size)
            .fold(f64::INFINITY, f64::min);
        Some(Self {
            centre,
            sd: largest * square.sqrt(),
            rounding: 0.5 * smallest,
        })
    }
}

/// Factor and offset by which `b` follows from `a`, up to rounding, in all of these pairs of values; none where it does not. `few` are some of them.
fn affine(
    few: impl Iterator<Item = (f64, f64)> + Clone,
    all: impl Iterator<Item = (f64, f64)> + Clone,
    a: &Column,
    b: &Column,
) -> Option<[f64; 2]> {
    // A column without any value has no copies.
    if a.sd == 0.0 || matches!(line(few, a, b), Line::No) {
        return None;
    }
    let Line::Yes([factor, offset]) = line(all, a, b) else {
        return None;
    };
    let factor_of_values = factor * b.sd / a.sd;
    Some([
        factor_of_values,
        b.centre + offset * b.sd - factor_of_values * a.centre,
    ])
}

/// Whether pairs of values are on a line.
enum Line {
    /// Factor and offset in standard units.
    Yes([f64; 2]),
    No,
    /// There are too few of them, or they are all alike.
    Unclear,
}

/// By least squares.
fn line(pairs: impl Iterator<Item = (f64, f64)> + Clone, a: &Column, b: &Column) -> Line {
    let pairs = pairs.map(|(x, y)| ((x - a.centre) / a.sd, (y - b.centre) / b.sd));
    let (mut n, mut x, mut y) = (0.0, 0.0, 0.0);
    for (u, v) in pairs.clone() {
        n += 1.0;
        x += u;
        y += v;
    }
    let (x, y) = (x / n, y / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (u, v) in pairs.clone() {
        xx += (u - x).powi(2);
        xy += (u - x) * (v - y);
        yy += (v - y).powi(2);
    }
    if n < LEAST_COMMON || xx <= SINGLE * n || yy <= SINGLE * n {
        return Line::Unclear;
    }
    let factor = xy / xx;
    let offset = y - factor * x;
    let rounding = b.rounding / b.sd + factor.abs() * a.rounding / a.sd + SINGLE;
    let mut square = 0.0;
    for (u, v) in pairs {
        let left = (v - offset - factor * u).abs();
        // The line itself is off by a part of the rounding.
        if left > 2.0 * rounding {
            return Line::No;
        }
        square += left * left / n;
    }
    match square.sqrt() <= MOST_ROUNDING {
        true => Line::Yes([factor, offset]),
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
        Roles::of((columns[0].len(), columns.len()), value)
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
        for j in [1, 3, 4, 8] {
            assert_eq!(of(j), Role::Modelled, "{j}");
        }
        for (j, original, line) in [
            (2, 1, [-2.5, 4.0]),
            (5, 4, [1.8, 32.0]),
            (6, 4, [100.0, 0.0]),
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
            assert!(
                (factor - line[0]).abs() < 1e-9 && (offset - line[1]).abs() < 1e-7,
                "{j}"
            );
        }
        // A row: what a column does not say its copy does.
        let mut row: Vec<Option<f64>> = vec![None; 9];
        (row[2], row[5], row[6]) = (Some(9.0), Some(50.0), Some(900.0));
        let merged = found.merged(&row);
        let places: Vec<usize> = found.modelled().collect();
        assert_eq!(places, [1, 3, 4, 8]);
        assert!((merged[0].unwrap() + 2.0).abs() < 1e-6);
        assert!((merged[2].unwrap() - 10.0).abs() < 1e-6, "the first copy");
        assert_eq!((merged[1], merged[3]), (None, None));
        assert_eq!(found.follows(0), Err(3.0));
        assert_eq!(found.follows(4), Ok((2, 1.0, 0.0)));
        found.check(9).unwrap();
        assert!(found.check(8).is_err());
    }

    /// Rounded to a step that is not small against its spread a column says something of its own, and so does one with little noise added, and whatever agrees in
    /// few rows only.
    #[test]
    fn what_says_something_of_its_own_is_modelled() {
        let x = normals(200, 3);
        let e = normals(200, 4);
        let columns = [
            x.clone(),
            x.iter().map(|x| x.round()).collect(),
            x.iter().zip(&e).map(|(x, e)| x + 0.001 * e).collect(),
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
