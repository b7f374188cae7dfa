//! What a fit is made of: values or levels of cells, or successes among trials.

use npb_data::{Rating, Ratings};

use crate::{BsvdConfig, BsvdData, BsvdError, Cells, SideInformation};

/// The observed entries that a fit is made of: [`Ratings`] of values, levels, zeros and ones; or [`Successes`].
pub trait Entries {
    /// Prepares the entries for a fit.
    ///
    /// # Errors
    /// As [`BsvdData::new`] and [`BsvdData::binomial`].
    fn prepare(&self, side: SideInformation, config: &BsvdConfig) -> Result<BsvdData, BsvdError>;

    /// The same without the entries that `held_out` says, in order by rows, and these with their values (rates of successes).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    fn split(
        &self,
        held_out: impl FnMut() -> bool,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<(BsvdData, Cells), BsvdError>;
}

/// Entries that are kept, and those that are held out.
fn parts<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    mut held_out: impl FnMut() -> bool,
) -> Result<[Ratings<V>; 2], BsvdError> {
    let (out, kept): (Vec<Rating<V>>, Vec<Rating<V>>) = ratings.iter().partition(|_| held_out());
    let (n, m) = (ratings.n_rows(), ratings.n_cols());
    Ok([Ratings::new(n, m, &kept)?, Ratings::new(n, m, &out)?])
}

impl<V: Copy + Into<f64> + Send + Sync> Entries for Ratings<V> {
    fn prepare(&self, side: SideInformation, config: &BsvdConfig) -> Result<BsvdData, BsvdError> {
        BsvdData::new(self, side, config)
    }

    fn split(
        &self,
        held_out: impl FnMut() -> bool,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<(BsvdData, Cells), BsvdError> {
        let [kept, out] = parts(self, held_out)?;
        Ok((BsvdData::new(&kept, side, config)?, Cells::of(&out)))
    }
}

/// Successes among trials, for [`Likelihood::Binomial`](crate::Likelihood::Binomial): two matrices of counts with the same cells.
///
/// ```
/// use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::{BsvdConfig, Cells, Successes, Likelihood, SideInformation, fit};
///
/// // 8 batters, 6 pitchers; the batters differ.
/// let places = || (0..8u32).flat_map(|i| (0..6u32).map(move |j| (i, j))).filter(|(i, j)| (i + j) % 4 != 0);
/// let matrix = |value: fn(u32) -> f64| {
///     let entries: Vec<Rating> = places().map(|(row, column)| Rating { row, column, value: value(row) }).collect();
///     Ratings::new(8, 6, &entries)
/// };
/// let (successes, trials) = (matrix(|i| f64::from(2 * i))?, matrix(|_| 20.0)?);
/// let config = BsvdConfig { likelihood: Likelihood::Binomial, candidates: 4, ..BsvdConfig::default() };
/// let model = fit(&Successes { successes: &successes, trials: &trials }, SideInformation::default(), &Cells::default(), &config)?;
/// let cell = model.cell(5, 3)?;
/// assert!((cell.mean() - 0.5).abs() < 0.1);                 // the rate
/// assert!(cell.ln_successes(5, 10)? > cell.ln_successes(1, 10)?);     // of new trials
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Successes<'a, V = f64> {
    /// Number of successes of each cell.
    pub successes: &'a Ratings<V>,
    /// Number of trials of each cell.
    pub trials: &'a Ratings<V>,
}

impl<V: Copy + Into<f64> + Send + Sync> Entries for Successes<'_, V> {
    fn prepare(&self, side: SideInformation, config: &BsvdConfig) -> Result<BsvdData, BsvdError> {
        BsvdData::binomial(self.successes, self.trials, side, config)
    }

    fn split(
        &self,
        held_out: impl FnMut() -> bool,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<(BsvdData, Cells), BsvdError> {
        let mut marks = Vec::with_capacity(self.successes.n_observed());
        marks.resize_with(self.successes.n_observed(), held_out);
        let again = || {
            let mut marks = marks.iter();
            move || marks.next().copied().unwrap_or(false)
        };
        let [successes, out] = parts(self.successes, again())?;
        let [trials, out_trials] = parts(self.trials, again())?;
        let mut cells = Cells::of(&out);
        for (value, trials) in cells.values.iter_mut().zip(out_trials.values()) {
            *value /= Into::<f64>::into(*trials);
        }
        let data = BsvdData::binomial(&successes, &trials, side, config)?;
        Ok((data, cells))
    }
}
