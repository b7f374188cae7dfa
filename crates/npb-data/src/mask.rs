//! A matrix of bits, stored row by row.

use crate::DataError;
use serde::{Deserialize, Serialize};

/// A rectangular matrix of bits: which cells are observed ([`crate::Table::observed`]), or which are to be hidden
/// ([`crate::Table::hide`]).
///
/// Each row starts in a new 64-bit word, so that two rows have the same pattern exactly when their words are equal.
/// The bits beyond the last column are zero, always. Deserialisation checks both lengths and padding.
///
/// ```
/// let mut mask = npb_data::Mask::new(2, 3, false)?;
/// mask.set(1, 2, true);
/// assert!(mask.get(1, 2) && !mask.get(0, 0));
/// assert_eq!(mask.count_ones(), 1);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MaskWire")]
pub struct Mask {
    n_rows: usize,
    n_cols: usize,
    words: Vec<u64>,
}

/// What a stored mask looks like before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaskWire {
    n_rows: usize,
    n_cols: usize,
    words: Vec<u64>,
}

/// Words of one row; at least one, so that the number of rows is bounded by the memory held even without columns.
fn words_per_row(n_cols: usize) -> usize {
    n_cols.div_ceil(64).max(1)
}

/// Bits of the last word of a row that belong to columns.
fn last_word(n_cols: usize) -> u64 {
    match n_cols % 64 {
        0 if n_cols == 0 => 0,
        0 => u64::MAX,
        used => (1 << used) - 1,
    }
}

impl Mask {
    /// A mask of one value everywhere.
    ///
    /// # Errors
    /// [`DataError::TooLarge`] when the number of cells cannot be addressed.
    pub fn new(n_rows: usize, n_cols: usize, value: bool) -> Result<Self, DataError> {
        let too_large = DataError::TooLarge { n_rows, n_cols };
        let per_row = words_per_row(n_cols);
        let length = n_rows
            .checked_mul(per_row)
            .ok_or_else(|| too_large.clone())?;
        if n_rows.checked_mul(n_cols).is_none() || length > isize::MAX as usize / 8 {
            return Err(too_large);
        }
        let mut words = Vec::new();
        words.try_reserve_exact(length).map_err(|_| too_large)?;
        words.resize(length, if value { u64::MAX } else { 0 });
        if value {
            words[..]
                .chunks_exact_mut(per_row)
                .for_each(|row| row[per_row - 1] = last_word(n_cols));
        }
        Ok(Self {
            n_rows,
            n_cols,
            words,
        })
    }

    /// A mask from row-major flags (`n_rows * n_cols` of them).
    ///
    /// # Errors
    /// [`DataError::Length`] when the number of flags does not fit, [`DataError::TooLarge`].
    pub fn from_bools(n_rows: usize, n_cols: usize, bits: &[bool]) -> Result<Self, DataError> {
        check_cells("mask", bits.len(), n_rows, n_cols)?;
        Self::from_fn(n_rows, n_cols, |i, j| bits[i * n_cols + j])
    }

    /// A mask from a function of row and column.
    ///
    /// # Errors
    /// [`DataError::TooLarge`].
    pub fn from_fn(
        n_rows: usize,
        n_cols: usize,
        mut bit: impl FnMut(usize, usize) -> bool,
    ) -> Result<Self, DataError> {
        let mut mask = Self::new(n_rows, n_cols, false)?;
        for (i, row) in mask
            .words
            .chunks_exact_mut(words_per_row(n_cols))
            .enumerate()
        {
            for j in 0..n_cols {
                row[j / 64] |= u64::from(bit(i, j)) << (j % 64);
            }
        }
        Ok(mask)
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// The bit at row `i`, column `j`.
    #[inline]
    pub fn get(&self, i: usize, j: usize) -> bool {
        assert!(j < self.n_cols, "column {j} of {}", self.n_cols);
        self.row_words(i)[j / 64] >> (j % 64) & 1 == 1
    }

    /// Sets the bit at row `i`, column `j`.
    #[inline]
    pub fn set(&mut self, i: usize, j: usize, value: bool) {
        assert!(
            i < self.n_rows && j < self.n_cols,
            "cell ({i}, {j}) of a {} x {} mask",
            self.n_rows,
            self.n_cols
        );
        let word = &mut self.words[i * words_per_row(self.n_cols) + j / 64];
        let bit = 1 << (j % 64);
        *word = if value { *word | bit } else { *word & !bit };
    }

    /// The words of row `i`: column `j` is bit `j % 64` (least significant first) of word `j / 64`; at least one word.
    #[inline]
    pub fn row_words(&self, i: usize) -> &[u64] {
        let per_row = words_per_row(self.n_cols);
        &self.words[i * per_row..(i + 1) * per_row]
    }

    /// Number of bits set in row `i`.
    pub fn count_ones_in_row(&self, i: usize) -> usize {
        self.row_words(i)
            .iter()
            .map(|w| w.count_ones() as usize)
            .sum()
    }

    /// Number of bits set.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Columns set in row `i`, ascending.
    pub fn ones_in_row(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        self.row_words(i).iter().enumerate().flat_map(|(w, &word)| {
            let rest = |bits: &u64| Some(bits & bits.wrapping_sub(1));
            std::iter::successors(Some(word), rest)
                .take_while(|&bits| bits != 0)
                .map(move |bits| w * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// The given rows, in the given order.
    pub(crate) fn select_rows(&self, rows: &[usize]) -> Self {
        let words = rows
            .iter()
            .flat_map(|&i| self.row_words(i))
            .copied()
            .collect();
        Self {
            n_rows: rows.len(),
            n_cols: self.n_cols,
            words,
        }
    }

    /// Clears every bit that is set in `other`, which has the same shape.
    pub(crate) fn clear_where(&mut self, other: &Mask) {
        self.words
            .iter_mut()
            .zip(&other.words)
            .for_each(|(a, b)| *a &= !b);
    }
}

impl TryFrom<MaskWire> for Mask {
    type Error = DataError;

    fn try_from(wire: MaskWire) -> Result<Self, DataError> {
        let MaskWire {
            n_rows,
            n_cols,
            words,
        } = wire;
        let per_row = words_per_row(n_cols);
        let too_large = DataError::TooLarge { n_rows, n_cols };
        let expected = n_rows.checked_mul(per_row).ok_or(too_large)?;
        if words.len() != expected {
            return Err(DataError::Length {
                what: "mask words",
                found: words.len(),
                expected,
            });
        }
        let stray = !last_word(n_cols);
        match words
            .chunks_exact(per_row)
            .position(|row| row[per_row - 1] & stray != 0)
        {
            Some(row) => Err(DataError::PaddingBits { row }),
            None => Ok(Self {
                n_rows,
                n_cols,
                words,
            }),
        }
    }
}

/// Checks that `found` is `n_rows * n_cols`.
pub(crate) fn check_cells(
    what: &'static str,
    found: usize,
    n_rows: usize,
    n_cols: usize,
) -> Result<(), DataError> {
    let expected = n_rows
        .checked_mul(n_cols)
        .ok_or(DataError::TooLarge { n_rows, n_cols })?;
    if found == expected {
        Ok(())
    } else {
        Err(DataError::Length {
            what,
            found,
            expected,
        })
    }
}

/// Checks that a mask has the shape, rows by columns, of the table it goes with.
pub(crate) fn check_mask_shape(
    (found_rows, found_cols): (usize, usize),
    (rows, cols): (usize, usize),
) -> Result<(), DataError> {
    if (found_rows, found_cols) == (rows, cols) {
        Ok(())
    } else {
        Err(DataError::Shape {
            what: "mask",
            found_rows,
            found_cols,
            rows,
            cols,
        })
    }
}
