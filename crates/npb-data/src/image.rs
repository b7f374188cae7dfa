//! Images with missing pixels.

use crate::mask::check_mask_shape;
use crate::{DataError, Mask};

/// An image: grey (one channel), colour, or a cube of many bands; some of its entries may be missing.
///
/// An entry is one channel of one pixel. Entries are numbered row by row, pixel by pixel, channels innermost; values are kept in single precision, which
/// holds 8 and 16 bit exactly, and a missing entry holds 0. Values are finite; NaN is made missing by [`from_nan_coded`](Self::from_nan_coded) and
/// refused elsewhere.
///
/// ```
/// use npb_data::{Image, Mask};
/// let image = Image::from_slice(2, 2, 1, &[10_u8, 20, 30, 40])?;
/// let image = image.hide(&Mask::from_bools(2, 2, &[false, true, false, false])?)?;
/// assert_eq!((image.get(0, 0, 0), image.get(0, 1, 0)), (Some(10.0), None));
/// assert_eq!(image.channel_means(), [Some(80.0 / 3.0)]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<f32>,
    /// Height x (width * channels).
    observed: Mask,
}

impl Image {
    /// An image of which everything is observed; `values`: height x width x channels.
    ///
    /// # Errors
    /// [`DataError::EmptyImage`], [`DataError::Length`], [`DataError::Pixel`] for a value that is not finite.
    pub fn new(
        height: usize,
        width: usize,
        channels: usize,
        values: Vec<f32>,
    ) -> Result<Self, DataError> {
        let cols = check_size([height, width, channels], values.len())?;
        Self::from_parts(
            [height, width, channels],
            values,
            Mask::new(height, cols, true)?,
        )
    }

    /// As [`Image::new`] from 8, 16 or 32 bit or double precision; the last are rounded to single precision.
    ///
    /// # Errors
    /// As [`Image::new`]; a double beyond the range of single precision is not finite.
    pub fn from_slice<T: Copy + Into<f64>>(
        height: usize,
        width: usize,
        channels: usize,
        values: &[T],
    ) -> Result<Self, DataError> {
        let values = values.iter().map(|&v| v.into() as f32).collect();
        Self::new(height, width, channels, values)
    }

    /// As [`Image::from_slice`] with NaN for missing entries: what readers of files call.
    ///
    /// # Errors
    /// As [`Image::new`]; infinities are errors.
    pub fn from_nan_coded<T: Copy + Into<f64>>(
        height: usize,
        width: usize,
        channels: usize,
        values: &[T],
    ) -> Result<Self, DataError> {
        let cols = check_size([height, width, channels], values.len())?;
        let observed = Mask::from_fn(height, cols, |row, col| {
            !values[row * cols + col].into().is_nan()
        })?;
        let values = values.iter().map(|&v| v.into() as f32).collect();
        Self::from_parts([height, width, channels], values, observed)
    }

    /// From values and a mask of observed entries (height x width * channels); values of missing entries do not matter, NaN included.
    ///
    /// # Errors
    /// As [`Image::new`]; [`DataError::Shape`] for a mask of another size.
    pub fn from_parts(
        [height, width, channels]: [usize; 3],
        mut values: Vec<f32>,
        observed: Mask,
    ) -> Result<Self, DataError> {
        let cols = check_size([height, width, channels], values.len())?;
        check_mask_shape((observed.n_rows(), observed.n_cols()), (height, cols))?;
        for (row, line) in values.chunks_exact_mut(cols).enumerate() {
            for (col, value) in line.iter_mut().enumerate() {
                if !observed.get(row, col) {
                    *value = 0.0;
                } else if !value.is_finite() {
                    return Err(DataError::Pixel {
                        row,
                        column: col / channels,
                        channel: col % channels,
                        value: f64::from(*value),
                    });
                }
            }
        }
        Ok(Self {
            height,
            width,
            channels,
            values,
            observed,
        })
    }

    /// Number of rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Number of columns of pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of channels (bands).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Height, width, channels.
    pub fn size(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }

    /// All entries, row by row, channels innermost; 0 where missing.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Which entries are observed: height x (width * channels).
    pub fn observed(&self) -> &Mask {
        &self.observed
    }

    /// Value of an entry, when it is observed.
    pub fn get(&self, row: usize, column: usize, channel: usize) -> Option<f32> {
        assert!(
            channel < self.channels,
            "channel {channel} of {}",
            self.channels
        );
        let col = column * self.channels + channel;
        let index = row * self.width * self.channels + col;
        self.observed.get(row, col).then(|| self.values[index])
    }

    /// Number of observed entries.
    pub fn n_observed(&self) -> usize {
        self.observed.count_ones()
    }

    /// Number of missing entries.
    pub fn n_missing(&self) -> usize {
        self.values.len() - self.n_observed()
    }

    /// Mean of the observed entries of each channel; none for a channel of which nothing is observed.
    pub fn channel_means(&self) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_usize); self.channels];
        let cols = self.width * self.channels;
        for row in 0..self.height {
            for col in self.observed.ones_in_row(row) {
                let (sum, count) = &mut sums[col % self.channels];
                *sum += f64::from(self.values[row * cols + col]);
                *count += 1;
            }
        }
        sums.iter()
            .map(|&(sum, count)| (count > 0).then(|| sum / count as f64))
            .collect()
    }

    /// The same image with more missing: what is true in `missing`, a mask of pixels (height x width) or of entries (height x width * channels).
    ///
    /// # Errors
    /// [`DataError::Shape`] when the mask has neither size.
    pub fn hide(&self, missing: &Mask) -> Result<Self, DataError> {
        let cols = self.width * self.channels;
        let pixels = missing.n_cols() == self.width;
        let expected = if pixels { self.width } else { cols };
        check_mask_shape(
            (missing.n_rows(), missing.n_cols()),
            (self.height, expected),
        )?;
        let per_mark = if pixels { self.channels } else { 1 };
        let mut image = self.clone();
        for row in 0..self.height {
            for mark in missing.ones_in_row(row) {
                for col in mark * per_mark..(mark + 1) * per_mark {
                    image.observed.set(row, col, false);
                    image.values[row * cols + col] = 0.0;
                }
            }
        }
        Ok(image)
    }

    /// The same image with every observed value replaced by `f(value)`.
    ///
    /// # Errors
    /// [`DataError::Pixel`] when a new value is not finite.
    pub fn map(&self, mut f: impl FnMut(f32) -> f32) -> Result<Self, DataError> {
        let cols = self.width * self.channels;
        let mut values = self.values.clone();
        for (row, line) in values.chunks_exact_mut(cols).enumerate() {
            for col in self.observed.ones_in_row(row) {
                line[col] = f(line[col]);
            }
        }
        Self::from_parts(self.size(), values, self.observed.clone())
    }
}

/// Checks that an image is not empty and that `found` is its number of entries; returns entries of a row.
fn check_size([height, width, channels]: [usize; 3], found: usize) -> Result<usize, DataError> {
    if height == 0 || width == 0 || channels == 0 {
        return Err(DataError::EmptyImage {
            height,
            width,
            channels,
        });
    }
    let too_large = DataError::TooLarge {
        n_rows: height,
        n_cols: width,
    };
    let cols = width.checked_mul(channels);
    let expected = cols.and_then(|cols| cols.checked_mul(height));
    match (cols, expected) {
        (Some(cols), Some(expected)) if found == expected => Ok(cols),
        (_, Some(expected)) => Err(DataError::Length {
            what: "values of the image",
            found,
            expected,
        }),
        _ => Err(too_large),
    }
}
