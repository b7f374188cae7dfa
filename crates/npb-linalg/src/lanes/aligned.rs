//! A buffer that starts on a cache line, so that a vector load never straddles two.

use std::ops::{Deref, DerefMut};

const CACHE_LINE: usize = 64;
const PADDING: usize = CACHE_LINE / size_of::<f64>();

/// Numbers starting on a cache line. Growing it loses its content.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    data: Vec<f64>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Sets the length; the content is unspecified afterwards, and zero in a fresh buffer.
    pub(super) fn resize(&mut self, len: usize) {
        if self.start + len > self.data.len() {
            self.data = vec![0.0; len + PADDING];
            // An offset that cannot be found costs speed only.
            self.start = self.data.as_ptr().align_offset(CACHE_LINE).min(PADDING);
        }
        self.len = len;
    }
}

impl Clone for Aligned {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.resize(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Aligned {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.data[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.data[self.start..self.start + self.len]
    }
}
