//! Independent pieces of work on the threads of the caller's rayon pool.
//!
//! Results come back in the order of the items, whatever the number of threads. Everything of rayon lies behind one function that is compiled once, here:
//! its parallel iterators are compiled anew for each closure, and took a third of the time in which the model crates were built.
//!
//! ```
//! use npb_infer::parallel;
//!
//! let squares = parallel::map(0..4, |i: usize| i * i);
//! assert_eq!(squares, [0, 1, 4, 9]);
//! let mut rows = vec![1.0; 6];
//! parallel::for_each(rows.chunks_mut(2).enumerate(), |(k, row)| row.fill(k as f64));
//! assert_eq!(rows, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
//! ```

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Pieces for each thread: more even out items that take unequal time, fewer cost less to hand out.
const PIECES_PER_THREAD: usize = 16;

/// What `f` makes of each item, in the order of the items.
///
/// Cost: beside the work, the items are put into a list and cut into at most 16 pieces for each thread. Where there are many small items, hand in chunks of
/// them. A panic of `f` goes on in the caller.
pub fn map<T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    map_with(items, || (), |(), item| f(item))
}

/// [`map`] with scratch memory: `f` is lent what `scratch` makes, once for each piece of the items.
pub fn map_with<S, T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, T) -> U + Sync,
) -> Vec<U> {
    let items: Vec<T> = items.into_iter().collect();
    let n = items.len();
    let size = piece_size(n);
    let mut items = items.into_iter();
    let mut pieces = Vec::with_capacity(n.div_ceil(size));
    while items.len() > 0 {
        let piece: Vec<T> = items.by_ref().take(size).collect();
        pieces.push(Mutex::new((piece, Vec::new())));
    }
    run(pieces.len(), &|k| {
        let mut piece = pieces[k].lock().unwrap_or_else(PoisonError::into_inner);
        let (items, results) = &mut *piece;
        let mut scratch = scratch();
        results.reserve_exact(items.len());
        for item in items.drain(..) {
            results.push(f(&mut scratch, item));
        }
    });
    let mut results = Vec::with_capacity(n);
    for piece in pieces {
        let (_, mut part) = piece.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.append(&mut part);
    }
    results
}

/// [`map`] for work that may fail.
///
/// # Errors
/// The error of the first item, in their order, that has one; the others are done all the same.
pub fn try_map<T: Send, U: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> Result<U, E> + Sync,
) -> Result<Vec<U>, E> {
    map(items, f).into_iter().collect()
}

/// [`map`] without results: `f` changes what the items lead to.
pub fn for_each<T: Send>(items: impl IntoIterator<Item = T>, f: impl Fn(T) + Sync) {
    map(items, f);
}

/// [`for_each`] with scratch memory, as [`map_with`].
pub fn for_each_with<S, T: Send>(
    items: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, T) + Sync,
) {
    map_with(items, scratch, f);
}

/// Items of a piece, for `n` items.
fn piece_size(n: usize) -> usize {
    let pieces = match rayon::current_num_threads() {
        1 => 1,
        threads => PIECES_PER_THREAD * threads,
    };
    n.div_ceil(pieces).max(1)
}

/// The one place that asks rayon: neither generic nor inlined.
#[inline(never)]
fn run(n: usize, work: &(dyn Fn(usize) + Sync)) {
    if n <= 1 {
        (0..n).for_each(work);
    } else {
        (0..n).into_par_iter().with_max_len(1).for_each(work);
    }
}
