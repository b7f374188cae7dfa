//! Memory that faer's routines borrow.

use std::fmt;
use std::mem::MaybeUninit;

use faer::dyn_stack::{MemStack, StackReq};

/// Bytes that grow to the largest size asked for and are kept.
#[derive(Clone, Default)]
pub(crate) struct Work(Vec<MaybeUninit<u8>>);

impl Work {
    pub(crate) fn stack(&mut self, need: StackReq) -> &mut MemStack {
        let bytes = need.unaligned_bytes_required();
        if self.0.len() < bytes {
            self.0.resize(bytes, MaybeUninit::uninit());
        }
        MemStack::new(&mut self.0)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
