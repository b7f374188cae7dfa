//! Scratch memory that starts on a cache line, so that no vector load straddles two.

const LINE: usize = 64 / size_of::<f64>();

/// Rows of features, and of components (lanes), are padded to a multiple of this number: the widest register.
pub const REGISTER: usize = 8;

/// The padded length of a row.
#[inline]
pub fn padded(len: usize) -> usize {
    len.max(1).next_multiple_of(REGISTER)
}

/// Numbers in a buffer that only grows.
#[derive(Debug, Default)]
pub struct Memory {
    values: Vec<f64>,
}

/// The copy lies elsewhere, so its numbers may start at another offset.
impl Clone for Memory {
    fn clone(&self) -> Self {
        let Some(len) = self.values.len().checked_sub(LINE) else {
            return Self::default();
        };
        let mut copy = Self::zeros(len);
        copy.get_mut(len).copy_from_slice(self.get(len));
        copy
    }
}

impl Memory {
    /// Room for `len` numbers, zero.
    pub fn zeros(len: usize) -> Self {
        Self {
            values: vec![0.0; len + LINE],
        }
    }

    /// Makes room for `len` numbers; they are zero when the buffer had to grow, else what they were.
    pub fn reserve(&mut self, len: usize) {
        if self.values.len() < len + LINE {
            *self = Self::zeros(len);
        }
    }

    #[inline]
    fn start(&self) -> usize {
        // An offset that cannot be found costs speed only.
        self.values.as_ptr().align_offset(64).min(LINE)
    }

    /// The first `len` numbers; there must be room for them.
    #[inline]
    pub fn get(&self, len: usize) -> &[f64] {
        self.part(0, len)
    }

    /// As [`Self::get`].
    #[inline]
    pub fn get_mut(&mut self, len: usize) -> &mut [f64] {
        self.part_mut(0, len)
    }

    /// The part with this index of those with `size` numbers each.
    #[inline]
    pub fn part(&self, index: usize, size: usize) -> &[f64] {
        &self.values[self.start() + index * size..][..size]
    }

    /// As [`Self::part`].
    #[inline]
    pub fn part_mut(&mut self, index: usize, size: usize) -> &mut [f64] {
        let start = self.start();
        &mut self.values[start + index * size..][..size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_hold_the_same_numbers_wherever_they_lie() {
        // Many copies at once: not all of them can start at the same offset from a cache line.
        let copies: Vec<Memory> = (0..64)
            .map(|k| {
                let mut memory = Memory::zeros(3 + k);
                memory.get_mut(3).copy_from_slice(&[1.0, 2.0, 3.0]);
                memory.clone()
            })
            .collect();
        assert!(copies.iter().all(|copy| copy.get(3) == [1.0, 2.0, 3.0]));
        assert!(Memory::default().clone().values.is_empty());
    }
}
