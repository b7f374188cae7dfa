//! Scratch memory that starts on a cache line, so that no vector load straddles two.

const LINE: usize = 64 / size_of::<f64>();

/// Numbers in a buffer that only grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    values: Vec<f64>,
}

impl Memory {
    /// Room for `len` numbers, zero.
    pub(crate) fn zeros(len: usize) -> Self {
        Self {
            values: vec![0.0; len + LINE],
        }
    }

    /// Makes room for `len` numbers; they are zero when the buffer had to grow, else what they were.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.values.len() < len + LINE {
            *self = Self::zeros(len);
        }
    }

    fn start(&self) -> usize {
        // An offset that cannot be found costs speed only.
        self.values.as_ptr().align_offset(64).min(LINE)
    }

    /// The first `len` numbers; there must be room for them.
    pub(crate) fn get(&self, len: usize) -> &[f64] {
        self.part(0, len)
    }

    /// As [`Self::get`].
    pub(crate) fn get_mut(&mut self, len: usize) -> &mut [f64] {
        self.part_mut(0, len)
    }

    /// The part with this index of those with `size` numbers each.
    pub(crate) fn part(&self, index: usize, size: usize) -> &[f64] {
        &self.values[self.start() + index * size..][..size]
    }

    /// As [`Self::part`].
    pub(crate) fn part_mut(&mut self, index: usize, size: usize) -> &mut [f64] {
        let start = self.start();
        &mut self.values[start + index * size..][..size]
    }
}
