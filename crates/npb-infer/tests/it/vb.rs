//! The variational loop: when it stops, what it reports, that it can be continued.

use std::{convert::Infallible, ops::ControlFlow};

use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, resume_vb, run_vb};

/// The bound goes through these values, one per step.
fn replay(bounds: &[f64], limits: VbLimits) -> VbOutcome {
    let mut at = 0;
    let step = |at: &mut usize| {
        *at += 1;
        Ok::<_, Infallible>(bounds[*at - 1])
    };
    run_vb(&mut at, &limits, step, |_, _| ControlFlow::Continue(())).unwrap()
}

fn limits(max_iterations: u64, tolerance: f64) -> VbLimits {
    VbLimits {
        max_iterations,
        tolerance,
    }
}

#[test]
fn one_flat_step_is_not_convergence_but_two_are() {
    let out = replay(&[-100.0, -100.0, -50.0, -50.0, -50.0, 0.0], limits(6, 1e-3));
    assert_eq!(out.stop, Stop::Converged { rel_change: 0.0 });
    assert_eq!(out.trace.len(), 5);
}

#[test]
fn relative_change_is_relative_to_the_new_bound_but_at_least_one_nat() {
    let out = replay(&[-8.0, -4.0, -0.5], limits(3, 0.0));
    let changes: Vec<f64> = out.trace.iter().map(|r| r.rel_change).collect();
    assert_eq!(changes, [f64::INFINITY, 1.0, 3.5]);
    assert_eq!(
        out.trace[2],
        VbReport {
            iteration: 3,
            elbo: -0.5,
            rel_change: 3.5
        }
    );
}

#[test]
fn zero_tolerance_makes_every_iteration_and_zero_iterations_make_none() {
    assert_eq!(replay(&[1.0; 4], limits(4, 0.0)).stop, Stop::MaxIterations);
    assert_eq!(replay(&[1.0; 4], limits(4, 0.0)).trace.len(), 4);
    assert_eq!(
        replay(&[], limits(0, 0.1)),
        VbOutcome {
            stop: Stop::MaxIterations,
            trace: vec![]
        }
    );
}

#[test]
fn a_bound_that_is_not_a_number_never_converges() {
    assert_eq!(
        replay(&[f64::NAN; 5], limits(5, 0.1)).stop,
        Stop::MaxIterations
    );
}

#[test]
fn the_watcher_sees_every_report_and_may_stop() {
    let mut seen = vec![];
    let mut bound = -10.0;
    let out = run_vb(
        &mut bound,
        &limits(100, 1e-6),
        |b| {
            *b += 1.0;
            Ok::<_, Infallible>(*b)
        },
        |report, model| {
            assert_eq!(report.elbo, *model);
            seen.push(report.iteration);
            if report.iteration == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )
    .unwrap();
    assert_eq!((out.stop, seen), (Stop::Cancelled, vec![1, 2, 3]));
    assert_eq!(out.trace.len(), 3);
}

#[test]
fn the_error_of_a_step_comes_back_unchanged() {
    let result = run_vb(
        &mut (),
        &limits(5, 0.1),
        |()| Err::<f64, _>("component 3: bound is NaN"),
        |_, _| ControlFlow::Continue(()),
    );
    assert_eq!(result, Err("component 3: bound is NaN"));
}

#[test]
fn a_continued_run_equals_one_that_never_stopped() {
    let step = |x: &mut f64| {
        *x *= 0.7;
        Ok::<_, Infallible>(-*x)
    };
    let go_on = |_: &VbReport, _: &f64| ControlFlow::Continue(());
    let whole = run_vb(&mut 900.0, &limits(200, 1e-5), step, go_on).unwrap();
    assert!(matches!(whole.stop, Stop::Converged { .. }));
    for cut in 0..=whole.trace.len() as u64 {
        let mut model = 900.0;
        let first = run_vb(&mut model, &limits(cut, 1e-5), step, go_on).unwrap();
        let both = resume_vb(&mut model, &limits(200, 1e-5), first.trace, step, go_on).unwrap();
        assert_eq!(both, whole, "cut at {cut}");
    }
}
