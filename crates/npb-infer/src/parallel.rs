//! Independent pieces of work on the threads of the caller's rayon pool.
//!
//! Results come back in the order of the items, whatever the number of threads. Everything of rayon lies behind one function that is compiled once, here:
//! its parallel iterators are compiled anew for each closure, and were up to a third of what LLVM was given for a model crate. What stands around it is
//! compiled once for each pair of types of items and results; only the loop over a piece is compiled with the closure.
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
    in_pieces(listed(items), &|items, results| {
        for item in items {
            results.push(f(item));
        }
    })
}

/// [`map`] with scratch memory: `f` is lent what `scratch` makes, once for each piece of the items.
pub fn map_with<S, T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, T) -> U + Sync,
) -> Vec<U> {
    in_pieces(listed(items), &|items, results| {
        let mut scratch = scratch();
        for item in items {
            results.push(f(&mut scratch, item));
        }
    })
}

/// [`map`] for work that may fail.
///
/// # Errors
/// The error of the first item, in their order, that has one. Later items of its piece are not begun.
pub fn try_map<T: Send, U: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> Result<U, E> + Sync,
) -> Result<Vec<U>, E> {
    let each = in_pieces(listed(items), &|items, results| {
        for item in items {
            let result = f(item);
            let failed = result.is_err();
            results.push(result);
            if failed {
                break;
            }
        }
    });
    let mut results = Vec::with_capacity(each.len());
    for result in each {
        results.push(result?);
    }
    Ok(results)
}

/// [`map`] without results: `f` changes what the items lead to.
pub fn for_each<T: Send>(items: impl IntoIterator<Item = T>, f: impl Fn(T) + Sync) {
    in_pieces::<T, ()>(listed(items), &|items, _| {
        for item in items {
            f(item);
        }
    });
}

/// [`for_each`] with scratch memory, as [`map_with`].
pub fn for_each_with<S, T: Send>(
    items: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, T) + Sync,
) {
    in_pieces::<T, ()>(listed(items), &|items, _| {
        let mut scratch = scratch();
        for item in items {
            f(&mut scratch, item);
        }
    });
}

/// The items; a plain loop, as `collect` is compiled to several functions for each kind of iterator.
fn listed<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let items = items.into_iter();
    let mut list = Vec::with_capacity(items.size_hint().0);
    for item in items {
        list.push(item);
    }
    list
}

/// Makes the results of a piece of the items and adds them to the list.
type Work<'a, T, U> = &'a (dyn Fn(Vec<T>, &mut Vec<U>) + Sync);

/// The work, piece by piece; knows nothing of the closure.
fn in_pieces<T: Send, U: Send>(mut items: Vec<T>, work: Work<'_, T, U>) -> Vec<U> {
    let n = items.len();
    let size = piece_size(n);
    let mut results = Vec::with_capacity(n);
    if n <= size {
        work(items, &mut results);
        return results;
    }
    let mut parts = Vec::with_capacity(n.div_ceil(size));
    for _ in 0..n.div_ceil(size) {
        parts.push(Vec::new());
    }
    let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(parts.len());
    for part in parts.iter_mut().rev() {
        let own = items.split_off((items.len() - 1) / size * size);
        pieces.push(Box::new(move || {
            part.reserve_exact(own.len());
            work(own, part);
        }));
    }
    run(pieces);
    for mut part in parts {
        results.append(&mut part);
    }
    results
}

/// Items of a piece, for `n` items.
fn piece_size(n: usize) -> usize {
    let pieces = match rayon::current_num_threads() {
        1 => 1,
        threads => PIECES_PER_THREAD * threads,
    };
    n.div_ceil(pieces).max(1)
}

type Piece<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The one place that asks rayon: neither generic nor inlined. Pieces come last first.
#[inline(never)]
fn run(mut pieces: Vec<Piece<'_>>) {
    pieces.reverse();
    pieces
        .into_par_iter()
        .with_max_len(1)
        .for_each(|piece| piece());
}
