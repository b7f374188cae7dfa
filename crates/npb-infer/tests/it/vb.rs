//! When a variational run stops, and what it reports.

use npb_infer::watch::{Checkpoint, CheckpointError};
use npb_infer::{Stop, Variational, VbLimits, VbOutcome, VbReport, Watch, maximise};

#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("component 3: bound is NaN")]
    NotANumber,
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The bound goes through these values, one per step.
struct Replay<'a>(std::slice::Iter<'a, f64>);

impl Variational for Replay<'_> {
    type State = ();
    type Error = ReplayError;

    fn step(&mut self) -> Result<f64, ReplayError> {
        let bound = *self.0.next().unwrap();
        if bound.is_nan() {
            return Err(ReplayError::NotANumber);
        }
        Ok(bound)
    }

    fn state(&self) {}
}

fn replayed(bounds: &[f64], limits: VbLimits) -> Result<VbOutcome, ReplayError> {
    let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let begin = |_| Ok(Replay(bounds.iter()));
    let (_, outcome) = maximise(
        &limits,
        "elbo",
        &mut watch.part("fit", 1.0),
        (&memory, 0),
        begin,
    )?;
    Ok(outcome)
}

fn replay(bounds: &[f64], limits: VbLimits) -> VbOutcome {
    replayed(bounds, limits).unwrap()
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
    let mut trace = Vec::new();
    for _ in 0..4 {
        trace.push(VbReport::after(trace.last(), f64::NAN));
        assert_eq!(limits(5, 0.1).reached(&trace), None);
    }
}

#[test]
fn the_error_of_a_step_comes_back_unchanged() {
    let error = replayed(&[1.0, f64::NAN], limits(5, 0.1)).unwrap_err();
    assert_eq!(error.to_string(), "component 3: bound is NaN");
}
