//! Loops compiled for the widest registers of the machine.

use pulp::{Arch, NullaryFnOnce};

/// A closure that borrows what it works on. Given to [`Arch::dispatch`] itself it would be called through a shim, which the compiler
/// may leave out of line, and so without wide registers, however the closure is marked.
struct Inlined<F>(F);

impl<R, F: FnMut() -> R> NullaryFnOnce for Inlined<F> {
    type Output = R;

    #[inline(always)]
    fn call(mut self) -> R {
        (self.0)()
    }
}

/// Runs `work`, a closure marked `#[inline(always)]`. One that consumes what it captures needs no help and goes to [`Arch::dispatch`].
#[inline(always)]
pub(crate) fn vectorised<R>(arch: Arch, work: impl FnMut() -> R) -> R {
    arch.dispatch(Inlined(work))
}
