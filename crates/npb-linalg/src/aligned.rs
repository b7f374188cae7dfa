//! A buffer that starts on a cache line, so that a vector load never straddles two.

use std::ops::{Deref, DerefMut};

const CACHE_LINE: usize = 64;

/// Numbers starting on a cache line. Growing it loses its content.
#[derive(Debug, Default)]
pub struct Aligned<T> {
    data: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// Sets the length; the content is unspecified afterwards, and zero in a fresh buffer.
    pub fn resize(&mut self, len: usize) {
        if self.start + len > self.data.len() {
            let padding = CACHE_LINE / size_of::<T>();
            self.data = vec![T::default(); len + padding];
            // An offset that cannot be found costs speed only.
            self.start = self.data.as_ptr().align_offset(CACHE_LINE).min(padding);
        }
        self.len = len;
    }

    /// Sets the length; all numbers are zero afterwards.
    pub fn zeros(&mut self, len: usize) {
        self.resize(len);
        self.fill(T::default());
    }
}

impl<T: Copy + Default> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.resize(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.start..self.start + self.len]
    }
}
