//! What fits that average over several variational runs have in common.

use rayon::prelude::*;

use crate::IqgmeError;
use crate::stacking::Surety;

/// Beyond what a sharpness and a shift may become (`stacking.rs`).
const MOST_LN_SHARPNESS: f64 = 3.001;
const MOST_SHIFT: f64 = 1e3;

/// A run that weighs less than this share of the best one has no part in predictions.
const LEAST_WEIGHT: f64 = 1e-3;

/// Makes the runs from all starts, each so many times, in parallel: `make` gets the number of the run, its start and its restart.
pub(crate) fn run_all<S: Copy + Sync, R: Send>(
    starts: &[S],
    restarts: usize,
    make: impl Fn(usize, S, u64) -> Result<R, IqgmeError> + Sync,
) -> Result<Vec<R>, IqgmeError> {
    (0..starts.len() * restarts)
        .into_par_iter()
        .map(|k| make(k, starts[k / restarts], (k % restarts) as u64))
        .collect()
}

/// Sorts runs by their bounds, the best one first; of equal runs the first one stays first. Says what each weighs in predictions.
pub(crate) fn weigh<R>(
    runs: &mut [R],
    elbo: impl Fn(&R) -> f64,
    averaging: f64,
    n_observed: usize,
) -> Vec<f64> {
    runs.sort_by(|a, b| elbo(b).total_cmp(&elbo(a)));
    let elbos: Vec<f64> = runs.iter().map(elbo).collect();
    relative_weights(&elbos, averaging, n_observed)
}

/// Weights of runs with these bounds, the best one first.
pub(crate) fn relative_weights(elbos: &[f64], averaging: f64, n_observed: usize) -> Vec<f64> {
    let relative = |(k, elbo): (usize, &f64)| {
        let fall = (elbo - elbos[0]) / (averaging * n_observed as f64);
        if k == 0 {
            1.0
        } else if fall > LEAST_WEIGHT.ln() {
            fall.exp()
        } else {
            0.0
        }
    };
    let mut weights: Vec<f64> = elbos.iter().enumerate().map(relative).collect();
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    weights
}

/// Checks what a file says of the part of run `k` in predictions of so many classes. The first run has one.
pub(crate) fn check_part(
    k: usize,
    weight: f64,
    surety: &Surety,
    n_classes: usize,
) -> Result<(), String> {
    let Surety {
        sharpness, shifts, ..
    } = surety;
    if !(0.0..=1.0).contains(&weight) || (k == 0 && weight == 0.0) {
        return Err(format!("weight of run {k}: {weight}"));
    }
    // As far as labels can make them.
    let proper = [0, n_classes].contains(&shifts.len())
        && shifts.iter().all(|shift| shift.abs() <= MOST_SHIFT)
        && shifts.first().is_none_or(|first| *first == 0.0);
    if !(*sharpness > 0.0 && sharpness.ln().abs() <= MOST_LN_SHARPNESS && proper) {
        return Err(format!(
            "sharpness and shifts of run {k}: {sharpness}, {shifts:?}"
        ));
    }
    Ok(())
}

/// Checks what a file says of all runs: shares that sum to one.
pub(crate) fn check_total(what: &str, shares: impl Iterator<Item = f64>) -> Result<(), String> {
    let total: f64 = shares.sum();
    if (total - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    Err(format!("{what} of the runs sum to {total}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_no_fit_has_are_refused() {
        let surety = |sharpness: f64, shifts: &[f64]| Surety {
            sharpness,
            shifts: shifts.to_vec(),
            about: Vec::new(),
        };
        let said = |weight: f64, surety: &Surety| check_part(0, weight, surety, 3);
        for proper in [
            surety(1.0, &[]),
            surety(3.0_f64.exp(), &[0.0, -20.0, 3.0]),
            surety((-3.0_f64).exp(), &[0.0, 1.0, 2.0]),
        ] {
            said(0.5, &proper).unwrap();
        }
        for forged in [
            surety(1e308, &[]),
            surety(0.0, &[]),
            surety(f64::NAN, &[]),
            surety(-1.0, &[]),
            surety(1.0, &[0.0, 1.0]),
            surety(1.0, &[0.5, 1.0, 0.0]),
            surety(1.0, &[0.0, f64::NAN, 0.0]),
            surety(1.0, &[0.0, 1e300, 0.0]),
        ] {
            let message = said(0.5, &forged).unwrap_err();
            assert!(message.contains("of run 0"), "{message}");
        }
        assert!(said(0.0, &surety(1.0, &[])).is_err() && said(1.5, &surety(1.0, &[])).is_err());
        check_total("votes", [0.25, 0.75].into_iter()).unwrap();
        assert!(check_total("votes", [0.25, 0.5].into_iter()).is_err());
    }
}
