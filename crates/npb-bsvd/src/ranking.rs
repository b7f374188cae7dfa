//! One row against all columns (or one column against all rows): single cells, and the best of them. Equations: `docs/bsvd.md#lists`.

use npb_infer::parallel;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::fitted::BsvdFit;
use crate::names::Key;
use crate::predict::CellPosterior;
use crate::response::Response;
use crate::side::{Line, Side};
use crate::view::View;

/// Columns that are worked on together.
const BLOCK: usize = 512;

/// A column (of a row's list; or a row of a column's), with what is expected there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranked {
    /// Its place.
    pub index: usize,
    /// Its name, when the fit has names.
    pub name: Option<String>,
    /// Posterior mean of the noise-free value.
    pub mean: f64,
    /// Posterior standard deviation of the noise-free value.
    pub sd: f64,
    /// Posterior probability that it is one of the n best: near 1 for a sure choice, small where many are about as good.
    pub in_top: f64,
}

/// A column of a list of everything open, with what is expected there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommended {
    /// Its place.
    pub index: usize,
    /// Its name, when the fit has names.
    pub name: Option<String>,
    /// Chance that the row comes to have an entry there, from who has entries where.
    pub exposure: f64,
    /// Posterior probability that such an entry is a like.
    pub liked: f64,
    /// Posterior mean of the noise-free value.
    pub mean: f64,
    /// Posterior standard deviation of the noise-free value.
    pub sd: f64,
}

/// A row or column in all draws; equally many lines for each draw.
pub(crate) struct Ranking<'a> {
    pub(crate) fit: &'a BsvdFit,
    pub(crate) side: Side,
    pub(crate) views: &'a [View<'a>],
    pub(crate) lines: Vec<Line<'a>>,
}

impl<'a> Ranking<'a> {
    /// Each line with its draw.
    fn drawn(&self) -> Vec<(&View<'a>, &Line<'a>)> {
        let each = self.lines.len() / self.views.len();
        let lines = self.lines.chunks_exact(each).zip(self.views);
        lines
            .flat_map(|(lines, view)| lines.iter().map(move |line| (view, line)))
            .collect()
    }

    /// The posterior of one cell of the row.
    pub(crate) fn cell(&self, j: usize) -> CellPosterior<'a> {
        let draw = |(view, line): (&View<'a>, &Line<'_>)| {
            let mut x = [0.0];
            view.latents(self.side, line, j, &mut x);
            (x[0], self.response(view, line, j))
        };
        let draws = self.drawn().into_iter().map(draw).collect();
        CellPosterior::new(self.fit.config.likelihood, draws)
    }

    /// From latent values to entries at column `j`, with the noise of both.
    fn response<'v>(&self, view: &View<'v>, line: &Line<'_>, j: usize) -> Response<'v> {
        let other = self.side.opposite().of(view.state);
        view.response(line.noise_weight * other.noise_weight(j))
    }

    /// The n columns with the largest posterior means, largest first.
    pub(crate) fn top(&self, n: usize, exclude: &[u32]) -> Result<Vec<Ranked>, BsvdError> {
        let other = self.side.opposite();
        let size = self.fit.size(other);
        let wanted = self.wanted(exclude)?;
        let moments = self.moments(size);
        let best = best(n, &wanted, |j| moments[j].0);
        let in_top = self.in_top(&best, &wanted);
        let name = |j: usize| self.fit.names(other).get(j).cloned();
        let ranked = best.iter().zip(in_top).map(|(&index, in_top)| Ranked {
            index,
            name: name(index),
            mean: moments[index].0,
            sd: moments[index].1,
            in_top,
        });
        Ok(ranked.collect())
    }

    /// The n columns with the largest products of the chance of an entry (`exposure`) and that of one of at least `from`, largest first.
    fn recommend(
        &self,
        n: usize,
        exclude: &[u32],
        exposure: &[f64],
        from: f64,
    ) -> Result<Vec<Recommended>, BsvdError> {
        let other = self.side.opposite();
        let size = self.fit.size(other);
        let wanted = self.wanted(exclude)?;
        let (moments, liked) = (self.moments(size), self.at_least(from, size));
        let best = best(n, &wanted, |j| exposure[j] * liked[j]);
        let recommended = |&index: &usize| Recommended {
            index,
            name: self.fit.names(other).get(index).cloned(),
            exposure: exposure[index],
            liked: liked[index],
            mean: moments[index].0,
            sd: moments[index].1,
        };
        Ok(best.iter().map(recommended).collect())
    }

    /// Whether each column is open to lists.
    fn wanted(&self, exclude: &[u32]) -> Result<Vec<bool>, BsvdError> {
        let other = self.side.opposite();
        let size = self.fit.size(other);
        let mut wanted = vec![true; size];
        for &j in exclude {
            let place = wanted.get_mut(j as usize).ok_or(BsvdError::NoSuch {
                axis: other.name(),
                key: j.to_string(),
                size,
            })?;
            *place = false;
        }
        Ok(wanted)
    }

    /// Probability of an entry of at least `from` at each column, averaged over the draws.
    fn at_least(&self, from: f64, size: usize) -> Vec<f64> {
        let drawn = self.drawn();
        let block = |first: usize| {
            let mut values = vec![0.0; BLOCK.min(size - first)];
            let mut sums = vec![0.0; values.len()];
            for (view, line) in &drawn {
                view.latents(self.side, line, first, &mut values);
                for (j, (sum, &x)) in (first..).zip(sums.iter_mut().zip(&values)) {
                    *sum += 1.0 - self.response(view, line, j).cdf(from, x).0;
                }
            }
            sums
        };
        let sums = parallel::map((0..size).step_by(BLOCK), block);
        let mean = |sum: f64| sum / drawn.len() as f64;
        sums.into_iter().flatten().map(mean).collect()
    }

    /// Posterior mean and standard deviation of the noise-free value at every column.
    fn moments(&self, size: usize) -> Vec<(f64, f64)> {
        let drawn = self.drawn();
        let block = |first: usize| {
            let len = BLOCK.min(size - first);
            let mut values = vec![0.0; len];
            let mut moments = vec![(0.0, 0.0); len];
            for (count, (view, line)) in (1..).zip(&drawn) {
                view.latents(self.side, line, first, &mut values);
                for (j, ((mean, squares), &x)) in (first..).zip(moments.iter_mut().zip(&values)) {
                    let value = self.response(view, line, j).mean(x);
                    let step = value - *mean;
                    *mean += step / f64::from(count);
                    *squares += step * (value - *mean);
                }
            }
            moments
        };
        let spread = (drawn.len() - 1).max(1) as f64;
        let blocks: Vec<_> = parallel::map((0..size).step_by(BLOCK), block);
        blocks
            .into_iter()
            .flatten()
            .map(|(mean, squares): (f64, f64)| (mean, (squares / spread).sqrt()))
            .collect()
    }

    /// Share of the draws in which each of `best` is one of the `best.len()` largest of those wanted.
    fn in_top(&self, best: &[usize], wanted: &[bool]) -> Vec<f64> {
        let Some(last) = best.len().checked_sub(1) else {
            return Vec::new();
        };
        let drawn = self.drawn();
        let among = |(view, line): &(&View<'_>, &Line<'_>)| -> Vec<bool> {
            let mut values = vec![0.0; wanted.len()];
            view.latents(self.side, line, 0, &mut values);
            for (j, x) in values.iter_mut().enumerate() {
                *x = self.response(view, line, j).mean(*x);
            }
            let mut candidates: Vec<f64> = values
                .iter()
                .zip(wanted)
                .filter_map(|(&x, &wanted)| wanted.then_some(x))
                .collect();
            let (_, &mut least, _) = candidates.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
            best.iter().map(|&j| values[j] >= least).collect()
        };
        let found: Vec<Vec<bool>> = parallel::map(&drawn, among);
        let share = |k: usize| found.iter().filter(|draw| draw[k]).count() as f64;
        (0..best.len())
            .map(|k| share(k) / found.len() as f64)
            .collect()
    }
}

/// The n places with the largest scores among those wanted, largest first; of equal ones the first.
fn best(n: usize, wanted: &[bool], score: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut best: Vec<usize> = (0..wanted.len()).filter(|&j| wanted[j]).collect();
    best.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
    best.truncate(n);
    best
}

impl BsvdFit {
    /// The `n` columns with the largest posterior means in a row, largest first: what to recommend, and how sure that is.
    ///
    /// `exclude`: columns not to be listed, such as those that the row has entries in (`ratings.row(i).0`). Cost: twice the rank and features for each
    /// column and stored draw; in parallel.
    ///
    /// # Errors
    /// A row or column that does not exist; no stored draw.
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
    /// let best = model.top(11, 2, ratings.row(11).0)?;     // the largest cell of row 11 that was not observed
    /// assert_eq!(best[0].index, 7);
    /// assert!(best[0].in_top > 0.9 && best[0].mean > best[1].mean);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn top<'k>(
        &self,
        row: impl Into<Key<'k>>,
        n: usize,
        exclude: &[u32],
    ) -> Result<Vec<Ranked>, BsvdError> {
        self.ranked(self.row(row)?, |ranking| ranking.top(n, exclude))
    }

    /// The `n` columns that a row will most probably come to have entries in, of at least `like_from`: a list of everything open, as for a front page.
    ///
    /// By the probability of such an entry times that of an entry at all, which is learned from who has entries where ([`Exposure`](npb_data::Exposure)). Lists by
    /// [`top`](Self::top) are of what would be best if the row had an entry there: columns that few have entries in may lead them. `like_from`: None for the
    /// mean of the entries of the fit. `exclude`: columns to leave out; None for those that the row had entries in. Cost: twice that of `top`, and one look
    /// at where all entries are.
    ///
    /// # Errors
    /// A row or an excluded column that does not exist; no stored draw; a `like_from` that is not finite.
    pub fn recommend<'k>(
        &self,
        row: impl Into<Key<'k>>,
        n: usize,
        like_from: Option<f64>,
        exclude: Option<&[u32]>,
    ) -> Result<Vec<Recommended>, BsvdError> {
        let i = self.row(row)?;
        let from = like_from.unwrap_or(self.mean_entry);
        if !from.is_finite() {
            return Err(BsvdError::Argument {
                argument: "like_from",
                value: from.to_string(),
                rule: "finite",
            });
        }
        let own = self.observed().nth(i).unwrap_or_default();
        let chances = self.exposure.chances(self.n_cols(), self.observed(), own)?;
        self.ranked(i, |ranking| {
            ranking.recommend(n, exclude.unwrap_or(own), &chances, from)
        })
    }

    /// Asks a question of a row of the fit.
    fn ranked<T>(
        &self,
        i: usize,
        ask: impl FnOnce(&Ranking<'_>) -> Result<T, BsvdError>,
    ) -> Result<T, BsvdError> {
        let views = self.views(1)?;
        let features = self.features_of(Side::Rows, i);
        let lines = self.draws.iter();
        ask(&Ranking {
            fit: self,
            side: Side::Rows,
            lines: lines
                .map(|draw| Line::of(&draw.rows, i, draw.rank(), &features))
                .collect(),
            views: &views,
        })
    }

    /// The features of a row or column; none without features.
    pub(crate) fn features_of(&self, side: Side, i: usize) -> Vec<f32> {
        let mut own = vec![0.0; side.n_features(&self.side)];
        if let Some(features) = side.features(&self.side) {
            features.write(i, &mut own);
        }
        own
    }
}
