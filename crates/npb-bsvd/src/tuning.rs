//! The choice between ways of drawing rows, on effective draws for counted work.

use npb_infer::stream;
use rand::RngExt;

use crate::BsvdConfig;
use crate::config::FactorUpdate;
use crate::data::BsvdData;
use crate::state::{BsvdState, WATCHED};
use npb_data::Features;

/// Fewer sweeps than this say nothing.
const SHORTEST: u64 = 10;

/// Third word of the key of the watched cells.
const CELLS: u64 = 99;

/// Which way rows are drawn in the sweep to come.
pub(crate) fn coordinates(config: &BsvdConfig, state: &BsvdState) -> bool {
    match config.factor_update {
        FactorUpdate::Joint => false,
        FactorUpdate::Coordinate => true,
        FactorUpdate::Auto => state.tuning.coordinates,
    }
}

/// Looks at the state after a sweep of the burn-in, and decides when both ways were tried.
pub(crate) fn watch(data: &BsvdData, config: &BsvdConfig, state: &mut BsvdState, sweep: u64) {
    let quarter = config.sweeps.burn_in / 4;
    if config.factor_update != FactorUpdate::Auto || quarter < SHORTEST || sweep <= quarter {
        return;
    }
    if sweep > 3 * quarter {
        return;
    }
    for n in 0..WATCHED as u64 {
        let mut rng = stream(config.seed, [config.chain, 0, CELLS, n]);
        let i = rng.random_range(0..data.n_rows());
        let j = rng.random_range(0..data.n_cols());
        let x = state.latent(i, j, &data.side);
        state.tuning.values.push(x as f32);
    }
    if sweep == 2 * quarter || sweep == 3 * quarter {
        let [joint, coordinate] = work(data, state);
        let efficiency = efficiency(&state.tuning.values);
        state.tuning.values.clear();
        if sweep == 2 * quarter {
            state.tuning.joint_rate = efficiency / joint;
            state.tuning.coordinates = true;
        } else {
            state.tuning.coordinates = efficiency / coordinate > state.tuning.joint_rate;
        }
    }
}

/// Work of a sweep of each kind, joint draws first: passes over the entries of both sides, then what each row and column costs.
///
/// In nanoseconds of one processor, fitted once to sweeps of 810,000 entries of 6,040 rows and 3,706 columns at ranks 8 to 64 (within a tenth); only
/// the ratio matters.
fn work(data: &BsvdData, state: &BsvdState) -> [f64; 2] {
    let rank = state.rank() as f64;
    let q = |features: &Option<Features>| features.as_ref().map_or(0, Features::n_features) as f64;
    let sides = [
        (data.n_rows() as f64, q(&data.side.columns)),
        (data.n_cols() as f64, q(&data.side.rows)),
    ];
    let entries = data.n_observed() as f64;
    let mut work = [0.0; 2];
    for (n, features) in sides {
        let p = rank + features + 1.0;
        work[0] += entries * (8.0 + 0.5 * p + 0.02 * p * p) + n * 0.017 * p * p * (p + 60.0);
        work[1] += entries * (10.0 + 1.7 * p) + n * 15.0 * p;
    }
    work
}

/// Effective draws for each sweep, by the first autocorrelation, averaged over the watched cells.
fn efficiency(values: &[f32]) -> f64 {
    let n = values.len() / WATCHED;
    let of_cell = |cell: usize| {
        let at = |t: usize| f64::from(values[t * WATCHED + cell]);
        let mean = (0..n).map(at).sum::<f64>() / n as f64;
        let square: f64 = (0..n).map(|t| (at(t) - mean).powi(2)).sum();
        let product: f64 = (1..n).map(|t| (at(t) - mean) * (at(t - 1) - mean)).sum();
        let rho = if square > 0.0 {
            (product / square).clamp(-0.5, 0.99)
        } else {
            0.0
        };
        (1.0 - rho) / (1.0 + rho)
    };
    (0..WATCHED).map(of_cell).sum::<f64>() / WATCHED as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One cell's draws, as if it were watched in every place.
    fn watched(draws: &[f32]) -> Vec<f32> {
        draws.iter().flat_map(|x| [*x; WATCHED]).collect()
    }

    #[test]
    fn efficiency_is_that_of_the_first_autocorrelation() {
        // Mean 2, squares 4 + 1 + 0 + 1 + 4 = 10, neighbours 2 + 0 + 0 + 2 = 4: (1 - .4) / (1 + .4).
        let found = efficiency(&watched(&[0.0, 1.0, 2.0, 3.0, 4.0]));
        assert!((found - 0.6 / 1.4).abs() < 1e-12, "{found}");
        // Draws that go to and fro: -1/2 at least.
        let found = efficiency(&watched(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]));
        assert!((found - 3.0).abs() < 1e-12, "{found}");
        // A cell that stays where it is tells nothing.
        assert_eq!(efficiency(&watched(&[2.0; 4])), 1.0);
    }
}
