//! What was put in comes out.

use npb_bsvd::{BsvdConfig, BsvdFit, Cells, SideInformation, fit};
use npb_infer::SweepPlan;

use crate::simulated::{Simulated, low_rank};

fn fitted(data: &Simulated, candidates: usize) -> BsvdFit {
    let config = BsvdConfig {
        candidates,
        sweeps: SweepPlan {
            burn_in: 200,
            keep: 200,
            thin: 1,
        },
        ..BsvdConfig::default()
    };
    fit(
        &data.observed,
        SideInformation::default(),
        &Cells::of(&data.hidden),
        &config,
    )
    .unwrap()
}

/// Root mean squared error of the hidden cells, relative to the signal.
fn error(data: &Simulated, fit: &BsvdFit) -> f64 {
    let squares: f64 = fit
        .cells
        .values
        .iter()
        .zip(&fit.moments.mean)
        .map(|(x, mean)| (x - mean).powi(2))
        .sum();
    (squares / fit.cells.len() as f64).sqrt() / data.signal
}

#[test]
fn finds_rank_noise_and_hidden_cells() {
    let data = low_rank(1, (80, 60), 4, 0.5, 0.3);
    let fit = fitted(&data, 20);
    let kept = |scalar: usize| {
        let values = fit.trace.kept(&fit.config.sweeps, scalar);
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!((kept(0) - 4.0).abs() < 1.0, "rank {}", kept(0));
    let noise = kept(2) / data.signal;
    assert!((noise - 0.3).abs() < 0.02, "noise {noise}");
    let error = error(&data, &fit);
    // The noise times the square root of unknowns by entries, and a quarter more because hidden cells are less well determined.
    let unknowns: f64 = 4.0 * (80.0 + 60.0 - 4.0);
    let least = 0.3 * (unknowns / data.observed.n_observed() as f64).sqrt();
    assert!(error < 1.25 * least, "error {error}, least {least}");
}

#[test]
fn completes_without_noise() {
    let data = low_rank(2, (50, 50), 5, 0.6, 0.0);
    let fit = fitted(&data, 20);
    let error = error(&data, &fit);
    assert!(error < 1e-3, "error {error}");
}
