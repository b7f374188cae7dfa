//! The best restart is kept, whatever the number of threads.

use npb_infer::{RestartError, best_restart, stream};
use rand::RngExt;

#[test]
fn highest_wins_lowest_index_on_ties_failures_and_nan_never() {
    let objectives = [1.0, f64::NAN, 3.0, 3.0, -1.0];
    let best = best_restart(6, |i| {
        objectives.get(i).map(|&o| (o, i)).ok_or("no such start")
    })
    .unwrap();
    assert_eq!((best.index, best.value, best.objective), (2, 2, 3.0));
    assert_eq!(best.failures, [(5, "no such start")]);
    assert_eq!(best.objectives[4], Some(-1.0));
    assert_eq!(best.objectives[5], None);
    assert!(best.objectives[1].unwrap().is_nan());
}

#[test]
fn nothing_to_return_is_an_error_that_says_why() {
    assert!(matches!(
        best_restart(0, |_| Ok::<_, String>((1.0, ()))),
        Err(RestartError::NoRestarts)
    ));
    let failed =
        best_restart(2, |i| Err::<(f64, ()), _>(format!("start {i} is singular"))).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "all 2 restarts failed; restart 0: start 0 is singular"
    );
    let nan = best_restart(2, |i| {
        if i == 0 {
            Err("singular")
        } else {
            Ok((f64::NAN, ()))
        }
    })
    .unwrap_err();
    assert!(matches!(nan, RestartError::NotANumber { indices } if indices == [1]));
}

#[test]
fn minus_infinity_is_a_result_all_the_same() {
    assert_eq!(
        best_restart(1, |i| Ok::<_, String>((f64::NEG_INFINITY, i)))
            .unwrap()
            .index,
        0
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    // Coarse objectives, so that ties are frequent.
    let run = || {
        best_restart(97, |i| {
            Ok::<_, String>((
                f64::from(stream(5, [i as u64, 0, 0, 0]).random_range(0..4)),
                i,
            ))
        })
        .unwrap()
    };
    let on = |threads| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap()
            .install(run)
    };
    let one = on(1);
    for threads in [2, 4] {
        let many = on(threads);
        assert_eq!(
            (many.index, many.objectives),
            (one.index, one.objectives.clone())
        );
    }
}
