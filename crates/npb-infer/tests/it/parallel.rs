//! Work in parallel gives what a plain loop gives, in the order of the items.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use npb_infer::parallel;

fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build().unwrap().install(work)
}

#[test]
fn every_item_is_done_once_and_in_its_place() {
    for threads in [1, 2, 4] {
        for n in [0, 1, 2, 31, 32, 33, 64, 65, 1000] {
            let found = in_pool(threads, || parallel::map(0..n, |i: usize| 3 * i + 1));
            let plain: Vec<usize> = (0..n).map(|i| 3 * i + 1).collect();
            assert_eq!(found, plain, "{n} items on {threads} threads");
            let mut each = vec![0; n];
            in_pool(threads, || {
                parallel::for_each(each.iter_mut().enumerate(), |(i, x)| *x += 3 * i + 1);
            });
            assert_eq!(each, plain, "{n} items on {threads} threads");
        }
    }
}

#[test]
fn the_first_error_in_the_order_of_the_items_is_returned() {
    let odd = |i: usize| if i % 2 == 1 && i > 20 { Err(i) } else { Ok(i) };
    for threads in [1, 3] {
        assert_eq!(in_pool(threads, || parallel::try_map(0..500, odd)), Err(21));
        let right = in_pool(threads, || parallel::try_map(0..20, odd));
        assert_eq!(right, Ok((0..20).collect()));
    }
    // What comes after it in its piece is not begun: with one thread, all there is.
    let begun = AtomicUsize::new(0);
    let counted = |i: usize| {
        begun.fetch_add(1, Ordering::Relaxed);
        odd(i)
    };
    assert!(in_pool(1, || parallel::try_map(0..500, counted)).is_err());
    assert_eq!(begun.into_inner(), 22);
}

#[test]
fn scratch_is_made_anew_for_a_piece_and_lent_to_its_items() {
    // The number of the item within its piece: rises by one, or begins again.
    let count = || 0;
    let seen = in_pool(2, || {
        parallel::map_with(0..100, count, |n: &mut usize, _| {
            *n += 1;
            *n
        })
    });
    assert_eq!(seen[0], 1);
    assert!(seen.windows(2).all(|w| w[1] == w[0] + 1 || w[1] == 1));
    // 32 pieces of 4 items.
    assert_eq!(seen.iter().filter(|&&n| n == 1).count(), 25);
    let mut rows = [0; 10];
    parallel::for_each_with(rows.iter_mut(), || 7, |seven, row| *row = *seven);
    assert_eq!(rows, [7; 10]);
}

#[test]
fn work_within_work_ends_and_a_panic_reaches_the_caller() {
    let nested = in_pool(2, || {
        parallel::map(0..40, |i: usize| {
            parallel::map(0..40, |j: usize| i * j).iter().sum::<usize>()
        })
    });
    assert_eq!(nested[3], 3 * 780);
    let panic = || in_pool(2, || parallel::map(0..9, |i: usize| assert!(i < 5)));
    assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
}
