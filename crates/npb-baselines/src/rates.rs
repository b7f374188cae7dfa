//! Hit rates of a matrix of counts.

use serde::{Deserialize, Serialize};

use crate::BaselineError;

/// Outcomes of one pair: `hits` of `trials`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCount {
    /// Row (batter), from 0.
    pub row: u32,
    /// Column (pitcher), from 0.
    pub column: u32,
    /// Number of hits, at most `trials`.
    pub hits: u32,
    /// Number of trials.
    pub trials: u32,
}

/// Hit rates of pairs, rows and columns: the simple predictors of a binomial matrix.
///
/// Raw rates, hits / trials; rates of 0 and 1 are left to the caller, who must clip them before taking logarithms.
#[derive(Clone, Debug)]
pub struct HitRates {
    /// Row and column, ascending, with hits and trials: sums may be larger than what one count can hold.
    pairs: Vec<([u32; 2], [u64; 2])>,
    rows: Vec<Option<f64>>,
    columns: Vec<Option<f64>>,
}

impl HitRates {
    /// Adds up the counts; a pair may occur several times.
    ///
    /// # Errors
    /// [`BaselineError::Counts`] for the first count with more hits than trials or outside the matrix.
    ///
    /// ```
    /// use npb_baselines::{HitRates, PairCount};
    ///
    /// let count = |row, column, hits, trials| PairCount { row, column, hits, trials };
    /// let rates = HitRates::fit(2, 2, &[count(0, 0, 1, 4), count(1, 0, 1, 1), count(0, 0, 1, 4)])?;
    /// assert_eq!((rates.pair(0, 0), rates.row(1), rates.column(0)), (Some(0.25), Some(1.0), Some(3.0 / 9.0)));
    /// assert_eq!((rates.pair(0, 1), rates.column(1)), (None, None));
    /// # Ok::<(), npb_baselines::BaselineError>(())
    /// ```
    pub fn fit(n_rows: usize, n_cols: usize, counts: &[PairCount]) -> Result<Self, BaselineError> {
        let fits = |c: &PairCount| {
            (c.row as usize) < n_rows && (c.column as usize) < n_cols && c.hits <= c.trials
        };
        if let Some(index) = counts.iter().position(|c| !fits(c)) {
            let PairCount {
                row,
                column,
                hits,
                trials,
            } = counts[index];
            return Err(BaselineError::Counts {
                index,
                row,
                column,
                hits,
                trials,
            });
        }
        let mut sums = [vec![[0u64; 2]; n_rows], vec![[0; 2]; n_cols]];
        for c in counts {
            for (sum, place) in sums.iter_mut().zip([c.row, c.column]) {
                let [hits, trials] = &mut sum[place as usize];
                *hits += u64::from(c.hits);
                *trials += u64::from(c.trials);
            }
        }
        let [rows, columns] = sums.map(|sums| sums.iter().map(rate).collect());
        let pair = |c: &PairCount| ([c.row, c.column], [c.hits, c.trials].map(u64::from));
        let mut pairs: Vec<([u32; 2], [u64; 2])> = counts.iter().map(pair).collect();
        pairs.sort_unstable();
        pairs.dedup_by(|(again, more), (first, sum)| {
            let same = again == first;
            if same {
                sum.iter_mut().zip(more).for_each(|(s, m)| *s += *m);
            }
            same
        });
        Ok(Self {
            pairs,
            rows,
            columns,
        })
    }

    /// Rate of a pair; `None` when it had no trial.
    pub fn pair(&self, row: usize, column: usize) -> Option<f64> {
        let key = |([row, column], _): &([u32; 2], [u64; 2])| (*row as usize, *column as usize);
        let index = self.pairs.binary_search_by_key(&(row, column), key).ok()?;
        rate(&self.pairs[index].1)
    }

    /// Rate of a row; `None` when it had no trial.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, i: usize) -> Option<f64> {
        self.rows[i]
    }

    /// Rate of a column; `None` when it had no trial.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn column(&self, j: usize) -> Option<f64> {
        self.columns[j]
    }
}

fn rate([hits, trials]: &[u64; 2]) -> Option<f64> {
    (*trials > 0).then(|| *hits as f64 / *trials as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_pair_may_add_up_to_more_than_one_count_holds() {
        let most = PairCount {
            row: 0,
            column: 0,
            hits: u32::MAX / 2,
            trials: u32::MAX,
        };
        let rates = HitRates::fit(1, 1, &[most; 3]).unwrap();
        assert_eq!(rates.pair(0, 0), rates.row(0));
        assert!((rates.pair(0, 0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn impossible_counts_are_named() {
        let count = |row, column, hits, trials| PairCount {
            row,
            column,
            hits,
            trials,
        };
        for bad in [count(0, 0, 3, 2), count(2, 0, 0, 1), count(0, 1, 0, 1)] {
            let error = HitRates::fit(2, 1, &[count(0, 0, 1, 2), bad]).unwrap_err();
            assert!(error.to_string().contains("count 1"), "{error}");
        }
    }
}
