//! Patches of an image: where they lie, what is in them, and the image that their average makes.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{DataError, Image};

/// Rows of patches that are summed by one task.
const ROWS_OF_PATCHES: usize = 16;

/// Tasks whose sums are in memory at a time.
const TASKS: usize = 16;

/// Where the patches of an image lie: boxes of height x width x depth entries, overlapping, `step` apart.
///
/// A depth of all channels gives patches of whole pixels (2-D, or 2-D x channels), a smaller one boxes that slide over the bands too (3-D). Corners along
/// an axis are 0, step, 2 step and so on; the last patch ends at the border, so that every entry lies in at least one. Patches are numbered by row,
/// column, channel of their corner, the entries of a patch by row, column, channel, in each case the last running fastest.
///
/// ```
/// use npb_data::{Image, PatchGrid};
/// let image = Image::from_slice(3, 4, 1, &[0_u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])?;
/// let grid = PatchGrid::new(image.size(), [2, 2, 1], [1, 1, 1])?;
/// assert_eq!((grid.n_patches(), grid.patch_len()), (6, 4));
/// let mut patch = [0.0; 4];
/// grid.read(image.values(), 4, &mut patch);
/// assert_eq!(patch, [5.0, 6.0, 9.0, 10.0]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "GridWire")]
pub struct PatchGrid {
    image: [usize; 3],
    patch: [usize; 3],
    step: [usize; 3],
}

/// A stored grid before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GridWire {
    image: [usize; 3],
    patch: [usize; 3],
    step: [usize; 3],
}

impl TryFrom<GridWire> for PatchGrid {
    type Error = DataError;

    fn try_from(wire: GridWire) -> Result<Self, DataError> {
        Self::new(wire.image, wire.patch, wire.step)
    }
}

const AXES: [&str; 3] = ["height", "width", "depth"];

impl PatchGrid {
    /// `image`: its height, width, channels; `patch`: height, width, depth; `step`: from one patch to the next, 1 for all.
    ///
    /// # Errors
    /// [`DataError::Patch`] names the side of a patch that is 0 or longer than the image's, or the step that is 0 or longer than the patch's side (it would
    /// leave gaps); [`DataError::TooLarge`].
    pub fn new(image: [usize; 3], patch: [usize; 3], step: [usize; 3]) -> Result<Self, DataError> {
        for axis in 0..3 {
            let bad = |what, found, most| DataError::Patch {
                what,
                axis: AXES[axis],
                found,
                most,
            };
            if patch[axis] == 0 || patch[axis] > image[axis] {
                return Err(bad("patch", patch[axis], image[axis]));
            }
            if step[axis] == 0 || step[axis] > patch[axis] {
                return Err(bad("step", step[axis], patch[axis]));
            }
        }
        let grid = Self { image, patch, step };
        // There are at most as many patches as entries.
        let product = |sizes: [usize; 3]| {
            sizes
                .iter()
                .try_fold(1_usize, |product, &size| product.checked_mul(size))
        };
        if product(image).is_none() {
            return Err(DataError::TooLarge {
                n_rows: image[0],
                n_cols: image[1],
            });
        }
        Ok(grid)
    }

    /// Height, width and channels of the image.
    pub fn image_size(&self) -> [usize; 3] {
        self.image
    }

    /// Height, width and depth of a patch.
    pub fn patch_size(&self) -> [usize; 3] {
        self.patch
    }

    /// Patches along an axis (0: down, 1: across, 2: over channels).
    pub fn n_along(&self, axis: usize) -> usize {
        (self.image[axis] - self.patch[axis]).div_ceil(self.step[axis]) + 1
    }

    /// Number of patches.
    pub fn n_patches(&self) -> usize {
        self.n_along(0) * self.n_along(1) * self.n_along(2)
    }

    /// Entries of a patch.
    pub fn patch_len(&self) -> usize {
        self.patch[0] * self.patch[1] * self.patch[2]
    }

    /// Entries of the image.
    pub fn image_len(&self) -> usize {
        self.image[0] * self.image[1] * self.image[2]
    }

    /// Corner number `n` along an axis.
    fn corner_along(&self, axis: usize, n: usize) -> usize {
        (n * self.step[axis]).min(self.image[axis] - self.patch[axis])
    }

    /// Row, column and channel of a patch's first entry.
    pub fn corner(&self, patch: usize) -> [usize; 3] {
        assert!(patch < self.n_patches(), "patch {patch}");
        let (across, deep) = (self.n_along(1), self.n_along(2));
        [
            self.corner_along(0, patch / (across * deep)),
            self.corner_along(1, patch / deep % across),
            self.corner_along(2, patch % deep),
        ]
    }

    /// The entries of a patch as runs: where each run starts in the image; all are [`run_len`](Self::run_len) long and follow each other in the patch.
    fn runs(&self, patch: usize) -> impl Iterator<Item = usize> + '_ {
        let [row, column, channel] = self.corner(patch);
        let [_, width, channels] = self.image;
        // Whole pixels side by side are one run.
        let pixels = if self.whole_pixels() {
            1
        } else {
            self.patch[1]
        };
        (0..self.patch[0]).flat_map(move |r| {
            (0..pixels).map(move |c| ((row + r) * width + column + c) * channels + channel)
        })
    }

    fn run_len(&self) -> usize {
        if self.whole_pixels() {
            self.patch[1] * self.patch[2]
        } else {
            self.patch[2]
        }
    }

    fn whole_pixels(&self) -> bool {
        self.patch[2] == self.image[2]
    }

    /// Position in the image of every entry of a patch, in the order of the patch.
    pub fn entries(&self, patch: usize) -> impl Iterator<Item = usize> + '_ {
        let length = self.run_len();
        self.runs(patch)
            .flat_map(move |start| start..start + length)
    }

    /// Copies a patch out of the entries of an image.
    ///
    /// # Panics
    /// When there is no such patch, or lengths do not fit.
    pub fn read<T: Copy>(&self, image: &[T], patch: usize, out: &mut [T]) {
        assert_eq!(image.len(), self.image_len(), "entries of the image");
        assert_eq!(out.len(), self.patch_len(), "entries of the patch");
        let length = self.run_len();
        for (out, start) in out.chunks_exact_mut(length).zip(self.runs(patch)) {
            out.copy_from_slice(&image[start..start + length]);
        }
    }

    /// Observed entries of a patch: position in the patch and value, in the order of the patch.
    ///
    /// # Panics
    /// When there is no such patch, or the image has another size.
    pub fn observed<'a>(
        &'a self,
        image: &'a Image,
        patch: usize,
    ) -> impl Iterator<Item = (usize, f32)> + 'a {
        assert_eq!(image.size(), self.image, "size of the image");
        let cols = self.image[1] * self.image[2];
        let entries = self.entries(patch).enumerate();
        entries
            .filter(move |(_, entry)| image.observed().get(entry / cols, entry % cols))
            .map(|(position, entry)| (position, image.values()[entry]))
    }

    /// In how many patches an entry of the image lies.
    pub fn n_covering(&self, row: usize, column: usize, channel: usize) -> usize {
        let along = |axis: usize, at: usize| {
            assert!(at < self.image[axis], "{} {at}", AXES[axis]);
            let all = self.n_along(axis);
            // Corners from `at - patch + 1` to `at`; the last one is moved to the border and is the only one that is not a multiple of the step.
            let before = at + 1 - self.patch[axis].min(at + 1);
            let first = before.div_ceil(self.step[axis]).min(all - 1);
            let beyond = (at / self.step[axis] + 1).min(all - 1);
            let last = usize::from(self.corner_along(axis, all - 1) <= at);
            beyond.max(first) - first + last
        };
        along(0, row) * along(1, column) * along(2, channel)
    }
}

/// Sums over patches, entry by entry of the image: their mean is the image that overlapping patches make together.
///
/// Several rounds (draws of all patches) may be added. With squares, [`variances`](Self::variances) is the spread of what single patches say of an
/// entry, over patches and rounds; the spread of the averaged image is smaller, and not what a pixel's interval needs. Sums are in double precision
/// and of fixed blocks in fixed order: their bits do not depend on the number of threads. Memory: 8 or 16 bytes for an entry.
///
/// ```
/// use npb_data::{PatchGrid, PatchSums};
/// let grid = PatchGrid::new([1, 3, 1], [1, 2, 1], [1, 1, 1])?;
/// let mut sums = PatchSums::new(grid, true);
/// // The first patch says 1, the second 3: they share the middle.
/// sums.add(|patch, out| out.fill(if patch == 0 { 1.0 } else { 3.0 }));
/// assert_eq!(sums.means(), [1.0, 2.0, 3.0]);
/// assert_eq!(sums.variances(), Some(vec![0.0, 1.0, 0.0]));
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SumsWire")]
pub struct PatchSums {
    grid: PatchGrid,
    rounds: u64,
    sums: Vec<f64>,
    /// Empty when not asked for.
    squares: Vec<f64>,
}

/// Stored sums before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SumsWire {
    grid: PatchGrid,
    rounds: u64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl TryFrom<SumsWire> for PatchSums {
    type Error = DataError;

    fn try_from(wire: SumsWire) -> Result<Self, DataError> {
        let expected = wire.grid.image_len();
        let length = |what, found| DataError::Length {
            what,
            found,
            expected,
        };
        if wire.sums.len() != expected {
            return Err(length("sums over patches", wire.sums.len()));
        }
        if !wire.squares.is_empty() && wire.squares.len() != expected {
            return Err(length("squares over patches", wire.squares.len()));
        }
        let numbers = wire.sums.iter().chain(&wire.squares);
        if let Some((place, &value)) = numbers.enumerate().find(|(_, v)| !v.is_finite()) {
            return Err(DataError::Stored {
                what: "sum over patches",
                column: place % expected,
                value,
            });
        }
        Ok(Self {
            grid: wire.grid,
            rounds: wire.rounds,
            sums: wire.sums,
            squares: wire.squares,
        })
    }
}

impl PatchSums {
    /// Nothing added yet; `squares`: whether variances are wanted.
    pub fn new(grid: PatchGrid, squares: bool) -> Self {
        let n = grid.image_len();
        Self {
            grid,
            rounds: 0,
            sums: vec![0.0; n],
            squares: vec![0.0; if squares { n } else { 0 }],
        }
    }

    /// Where the patches lie.
    pub fn grid(&self) -> &PatchGrid {
        &self.grid
    }

    /// How many times all patches were added.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Adds all patches once: `write(patch, out)` writes the entries of a patch. In parallel over rows of patches.
    pub fn add(&mut self, write: impl Fn(usize, &mut [f32]) + Sync) {
        self.add_rows(0..self.grid.n_along(0), write);
        self.rounds += 1;
    }

    /// Adds the patches of some rows of patches, for callers who do not have all at once; [`finish_round`](Self::finish_round) when every row was added.
    pub fn add_rows(&mut self, rows: Range<usize>, write: impl Fn(usize, &mut [f32]) + Sync) {
        let tasks: Vec<Range<usize>> = rows
            .clone()
            .step_by(ROWS_OF_PATCHES)
            .map(|from| from..(from + ROWS_OF_PATCHES).min(rows.end))
            .collect();
        for some in tasks.chunks(TASKS) {
            let sums: Vec<Strip> = some
                .par_iter()
                .map(|rows| Strip::add(&self.grid, !self.squares.is_empty(), rows, &write))
                .collect();
            for strip in sums {
                add_to(&mut self.sums[strip.start..], &strip.sums);
                add_to(
                    self.squares.get_mut(strip.start..).unwrap_or_default(),
                    &strip.squares,
                );
            }
        }
    }

    /// Counts one more round, after rows of patches were added one part after the other.
    pub fn finish_round(&mut self) {
        self.rounds += 1;
    }

    /// Adds what was added to `other`, sums of the same grid: of another chain, say.
    ///
    /// # Errors
    /// [`DataError::Length`] when the other grid is another one, or one has squares and the other has not.
    pub fn merge(&mut self, other: &Self) -> Result<(), DataError> {
        if self.grid != other.grid || self.squares.len() != other.squares.len() {
            return Err(DataError::Length {
                what: "other sums over patches",
                found: other.sums.len() + other.squares.len(),
                expected: self.sums.len() + self.squares.len(),
            });
        }
        add_to(&mut self.sums, &other.sums);
        add_to(&mut self.squares, &other.squares);
        self.rounds += other.rounds;
        Ok(())
    }

    /// Number of patches that were added over each entry, divided by rounds.
    fn covering(&self) -> impl Iterator<Item = f64> + '_ {
        let [height, width, channels] = self.grid.image;
        (0..height).flat_map(move |row| {
            (0..width).flat_map(move |column| {
                (0..channels).map(move |channel| self.grid.n_covering(row, column, channel) as f64)
            })
        })
    }

    /// Mean over patches and rounds of every entry of the image; NaN before the first round.
    pub fn means(&self) -> Vec<f32> {
        let rounds = self.rounds as f64;
        let mean = |(sum, n): (&f64, f64)| (sum / (n * rounds)) as f32;
        self.sums.iter().zip(self.covering()).map(mean).collect()
    }

    /// Variance over patches and rounds of every entry of the image, when squares were asked for.
    pub fn variances(&self) -> Option<Vec<f32>> {
        if self.squares.is_empty() {
            return None;
        }
        let rounds = self.rounds as f64;
        let variance = |((square, sum), n): ((&f64, &f64), f64)| {
            let n = n * rounds;
            let mean = sum / n;
            (square / n - mean * mean).max(0.0) as f32
        };
        let sums = self.squares.iter().zip(&self.sums);
        Some(sums.zip(self.covering()).map(variance).collect())
    }
}

fn add_to(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Sums of some rows of patches: of the rows of the image that they touch.
struct Strip {
    /// First entry of the image that is touched.
    start: usize,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Strip {
    fn add(
        grid: &PatchGrid,
        squares: bool,
        rows: &Range<usize>,
        write: &(impl Fn(usize, &mut [f32]) + Sync),
    ) -> Self {
        let line = grid.image[1] * grid.image[2];
        let first = grid.corner_along(0, rows.start);
        let end = grid.corner_along(0, rows.end - 1) + grid.patch[0];
        let n = (end - first) * line;
        let mut strip = Self {
            start: first * line,
            sums: vec![0.0; n],
            squares: vec![0.0; if squares { n } else { 0 }],
        };
        let mut out = vec![0.0; grid.patch_len()];
        let in_row = grid.n_along(1) * grid.n_along(2);
        let length = grid.run_len();
        for patch in rows.start * in_row..rows.end * in_row {
            write(patch, &mut out);
            for (values, from) in out.chunks_exact(length).zip(grid.runs(patch)) {
                let at = from - strip.start;
                let sums = &mut strip.sums[at..at + length];
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum += f64::from(value);
                }
                if squares {
                    let squares = &mut strip.squares[at..at + length];
                    for (square, &value) in squares.iter_mut().zip(values) {
                        *square += f64::from(value) * f64::from(value);
                    }
                }
            }
        }
        strip
    }
}
