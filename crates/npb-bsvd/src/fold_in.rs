//! Rows and columns that were not there in training.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::BsvdError;
use crate::features::Features;
use crate::fit::{BsvdFit, QUESTION};
use crate::names::Key;
use crate::predict::{CellPosterior, LEVEL, Prediction};
use crate::products::dot;
use crate::profile::{Profile, Ranked};
use crate::side::{Line, Side};
use crate::view::View;

/// Third word of the keys of random streams.
const FOLDED: u64 = 3;

/// Draws of the new row for each stored draw: an antithetic pair, so that its mean is that of the exact conditional.
const PAIR: usize = 2;

/// A row (or column) that came after the fit, with its posterior given the entries it has.
///
/// Each stored draw of the fit is taken as it is, and given it the new row has its exact conditional: Gaussian, of which an antithetic pair of draws is
/// kept. What the few new entries would tell about the other rows and columns is not taken up; for that, go on with
/// [`BsvdFit::continue_with`].
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    fit: &'a BsvdFit,
    side: Side,
    views: Vec<View<'a>>,
    features: Vec<f32>,
    /// Of each draw the pair, one after the other: factors, intercept, coefficients.
    samples: Vec<f32>,
}

impl Folded<'_> {
    fn profile(&self) -> Profile<'_> {
        let mut rest = &self.samples[..];
        let mut lines = Vec::with_capacity(PAIR * self.views.len());
        for view in &self.views {
            let own = self.side.of(view.state);
            let (rank, intercept) = (view.state.rank(), usize::from(!own.intercepts.is_empty()));
            let width = rank + intercept + own.coefficient_mean.len();
            for _ in 0..PAIR {
                let (sample, later) = rest.split_at(width);
                rest = later;
                lines.push(Line {
                    factors: &sample[..rank],
                    intercept: sample[rank..rank + intercept].first().map_or(0.0, |&r| r),
                    coefficients: &sample[rank + intercept..],
                    features: &self.features,
                });
            }
        }
        Profile {
            fit: self.fit,
            side: self.side,
            views: &self.views,
            lines,
        }
    }

    /// The posterior of the new row's cell in a column of the fit (the new column's cell in a row).
    ///
    /// # Errors
    /// There is no such column (row).
    pub fn cell<'k>(&self, other: impl Into<Key<'k>>) -> Result<CellPosterior<'_>, BsvdError> {
        let j = self.fit.place(self.side.opposite(), other.into())?;
        Ok(self.profile().cell(j))
    }

    /// That cell in short, with 90% intervals.
    ///
    /// # Errors
    /// There is no such column (row).
    pub fn predict<'k>(&self, other: impl Into<Key<'k>>) -> Result<Prediction, BsvdError> {
        self.cell(other)?.summary(LEVEL)
    }

    /// The `n` columns (rows) with the largest posterior means, largest first, without those of `exclude`. Cost as [`BsvdFit::top`].
    ///
    /// # Errors
    /// An excluded column (row) that does not exist.
    pub fn top(&self, n: usize, exclude: &[u32]) -> Result<Vec<Ranked>, BsvdError> {
        self.profile().top(n, exclude)
    }
}

impl BsvdFit {
    /// A new row: its factors, intercept and coefficients given its entries `(column, value)`, without a new fit.
    ///
    /// `features`: the row's own, as many as the rows of the fit have; empty where they have none. Without entries the row is known by its features
    /// alone. Cost for each stored draw, with w = rank + 1 + column features: `w^2 / 2` for each entry and `w^3 / 6` multiplications; well under a
    /// millisecond for 50 draws of rank 16 and 20 entries. Rows are folded in independently: many of them in parallel by the caller.
    ///
    /// # Errors
    /// No stored draw; a column that does not exist or is given twice, a value that is not finite, another number of features.
    ///
    /// ```
    /// # use npb_bsvd::npb_data::{Rating, Ratings};
    /// # use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
    /// # let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
    /// # let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
    /// # let entries: Vec<Rating> = places.filter(|(i, j)| (i + j) % 3 != 0)
    /// #     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
    /// # let ratings = Ratings::new(12, 9, &entries)?;
    /// let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
    /// let model = fit(&ratings, SideInformation::default(), &Cells::default(), &config)?;
    /// // Someone new, whose entries are 4 times the distance from column 3.
    /// let new = model.fold_in_row(&[(0, -12.0), (4, 4.0), (8, 20.0)], &[])?;
    /// let cell = new.predict(6)?;
    /// assert!((cell.mean - 12.0).abs() < 1.5 && cell.interval.0 < 12.0 && 12.0 < cell.interval.1);
    /// assert_eq!(new.top(1, &[8])?[0].index, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fold_in_row(
        &self,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(Side::Rows, entries, features)
    }

    /// A new column, given its entries `(row, value)` and its own features; otherwise as [`fold_in_row`](Self::fold_in_row).
    ///
    /// # Errors
    /// As [`fold_in_row`](Self::fold_in_row).
    pub fn fold_in_column(
        &self,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(Side::Columns, entries, features)
    }

    fn fold_in(
        &self,
        side: Side,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        let views = self.views(1)?;
        self.check_new(side, entries, features)?;
        let features: Vec<f32> = features.iter().map(|&f| f as f32).collect();
        let key = [self.config.chain, QUESTION, FOLDED, 0];
        let mut work = Work {
            side,
            entries,
            features: &features,
            rng: stream(self.config.seed, key),
            precision: Mat::zeros(0, 0),
            factor: Cholesky::default(),
            line: Vec::new(),
            linear: Vec::new(),
            samples: Vec::new(),
        };
        for (draw, view) in views.iter().enumerate() {
            work.draw(draw, view)?;
        }
        let samples = work.samples;
        Ok(Folded {
            fit: self,
            side,
            views,
            features,
            samples,
        })
    }

    fn check_new(
        &self,
        side: Side,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<(), BsvdError> {
        let expected = side.n_features(&self.side);
        if features.len() != expected {
            return Err(BsvdError::Size {
                what: match side {
                    Side::Rows => "features of the new row",
                    Side::Columns => "features of the new column",
                },
                found: features.len(),
                expected,
            });
        }
        Features::dense(1, expected, features)?;
        let (axis, size) = (side.opposite().name(), self.size(side.opposite()));
        let mut seen: Vec<usize> = entries.iter().map(|e| e.0).collect();
        seen.sort_unstable();
        let twice = seen.windows(2).find(|w| w[0] == w[1]);
        if let Some(&place) = seen.last().filter(|&&j| j >= size) {
            return Err(BsvdError::NoSuch {
                axis,
                key: place.to_string(),
                size,
            });
        }
        if let Some(pair) = twice {
            return Err(BsvdError::Twice {
                axis,
                index: pair[0],
            });
        }
        match entries.iter().find(|e| !e.1.is_finite()) {
            None => Ok(()),
            Some(&(index, value)) => Err(BsvdError::NewEntry { axis, index, value }),
        }
    }
}

/// Memory for the draws of one row.
struct Work<'a> {
    side: Side,
    entries: &'a [(usize, f64)],
    features: &'a [f32],
    rng: Xoshiro256PlusPlus,
    precision: Mat<f64>,
    factor: Cholesky,
    line: Vec<f64>,
    linear: Vec<f64>,
    samples: Vec<f32>,
}

impl Work<'_> {
    /// Draws the pair for one stored draw: `N(P^-1 b, P^-1)`, P and b the sums of a Bayesian linear regression of the entries.
    fn draw(&mut self, number: usize, view: &View<'_>) -> Result<(), BsvdError> {
        self.prior(view);
        for n in 0..self.entries.len() {
            self.add_entry(n, view);
        }
        self.factor
            .factor(self.precision.as_ref())
            .map_err(|e| BsvdError::Numerical {
                sweep: number as u64 + 1,
                block: "stored draw, folding in a new",
                item: 0,
                pivot: e.pivot,
                value: e.value,
            })?;
        // L^-1 b + z and L^-1 b - z, times L^-T.
        self.factor.solve_l(&mut self.linear);
        let normals: Vec<f64> = (0..self.linear.len())
            .map(|_| self.rng.sample(StandardNormal))
            .collect();
        for sign in [1.0, -1.0] {
            let steps = self.linear.iter().zip(&normals);
            let mut sample: Vec<f64> = steps.map(|(m, z)| m + sign * z).collect();
            self.factor.solve_lt(&mut sample);
            self.samples.extend(sample.iter().map(|&x| x as f32));
        }
        Ok(())
    }

    /// Precision and precision times mean of factors, intercept and coefficients, before any entry.
    fn prior(&mut self, view: &View<'_>) {
        let own = self.side.of(view.state);
        let mut diagonal = vec![1.0; own.factor_mean.len()];
        self.linear.clone_from(&own.factor_mean);
        if !own.intercepts.is_empty() {
            diagonal.push(own.intercept_precision);
            self.linear.push(0.0);
        }
        for mean in &own.coefficient_mean {
            diagonal.push(own.coefficient_precision);
            self.linear.push(own.coefficient_precision * mean);
        }
        let width = diagonal.len();
        self.precision.resize_with(width, width, |_, _| 0.0);
        for (k, &p) in diagonal.iter().enumerate() {
            let column = self.precision.col_as_slice_mut(k);
            column.fill(0.0);
            column[k] = p;
        }
    }

    /// Adds one entry to the sums.
    fn add_entry(&mut self, n: usize, view: &View<'_>) {
        let (j, y) = self.entries[n];
        let state = view.state;
        let (own, other) = (self.side.of(state), self.side.opposite().of(state));
        let theirs = Line::of(other, j, state.rank(), &[]);
        self.line.clear();
        let scaled = theirs.factors.iter().zip(&state.scales);
        self.line.extend(scaled.map(|(&v, s)| f64::from(v) * s));
        if !own.intercepts.is_empty() {
            self.line.push(1.0);
        }
        if let Some(features) = self.side.opposite().features(view.side) {
            let mut known = vec![0.0; features.n_features()];
            features.write(j, &mut known);
            self.line.extend(known.iter().map(|&f| f64::from(f)));
        }
        let known =
            state.offset + f64::from(theirs.intercept) + dot(theirs.coefficients, self.features);
        let response = (y - view.centre) / view.scale - known;
        let alpha = state.noise_precision;
        for (k, &x) in self.line.iter().enumerate() {
            self.linear[k] += alpha * response * x;
            let column = &mut self.precision.col_as_slice_mut(k)[k..];
            for (sum, &x2) in column.iter_mut().zip(&self.line[k..]) {
                *sum += alpha * x * x2;
            }
        }
    }
}
