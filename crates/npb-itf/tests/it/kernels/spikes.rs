//! Numbers that are the same in many rows.

use super::support::*;
use npb_itf::kernels::{Normal, SpikedNormal, SpikedNormalData};
use npb_itf::{Kernel, RowLabels};

const VALUES: [Option<f64>; 7] = [
    Some(0.0),
    Some(2.5),
    None,
    Some(-0.0),
    Some(4.0),
    Some(0.0),
    Some(1.5),
];

fn spiked() -> (SpikedNormal, SpikedNormalData) {
    let rest = Normal::new(2.0, 1.5).expect("valid");
    let kernel = SpikedNormal::new(0.0, rest).expect("valid");
    let data = SpikedNormalData::new(&kernel, &VALUES).expect("valid");
    (kernel, data)
}

#[test]
fn spiked_identities() {
    let (kernel, data) = spiked();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    // A cell at the spike, and one off it.
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 5);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 4);
}

/// The probability of the spike and the density elsewhere add up to 1.
#[test]
fn spike_and_rest_are_one_law() {
    let (kernel, _) = spiked();
    let params = prior(&kernel, &mut rng(6));
    let (low, step, n) = (-200.0, 0.001, 400_000);
    // Half a step off the spike.
    let grid = (0..n).map(|i| Some(low + step * (f64::from(i) + 0.5)));
    let values: Vec<Option<f64>> = grid.chain([Some(0.0)]).collect();
    let data = SpikedNormalData::new(&kernel, &values).expect("valid");
    let at = ln_likelihoods(&kernel, &data, &params, n as usize, RowLabels::NONE);
    for cluster in 0..CLUSTERS {
        assert!((at[cluster].exp() - params.spike(cluster)).abs() < 1e-12);
        let p = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE)[cluster].exp();
        let off: f64 = (0..n as usize).map(p).sum::<f64>() * step;
        assert!((off + params.spike(cluster) - 1.0).abs() < 1e-3, "{off}");
    }
}

#[test]
fn the_joint_law_of_spiked_numbers() {
    let (kernel, data) = spiked();
    let probe = SpikedNormalData::new(&kernel, &[Some(0.0), Some(3.0)]).expect("valid");
    joint_distribution(kernel, data, probe);
}

#[test]
fn spiked_cells_as_they_are() {
    let (kernel, data) = spiked();
    stays_finite(&kernel, &data);
    for (row, value) in VALUES.iter().enumerate() {
        assert_eq!(data.value(row), *value, "both zeros are the spike");
    }
    let params = prior(&kernel, &mut rng(6));
    let mut out = Vec::new();
    kernel.expected(&params, 1, &data, 0, true, RowLabels::NONE, &mut out);
    let expected = (1.0 - params.spike(1)) * params.mean(1);
    assert!((out[0] - expected).abs() < 1e-12);
    let mut rng = rng(7);
    let mut zeros = 0;
    for _ in 0..4000 {
        kernel.complete(
            &params,
            1,
            &data,
            2,
            false,
            RowLabels::NONE,
            &mut rng,
            &mut out,
        );
        zeros += usize::from(out[0] == 0.0);
    }
    let (share, p) = (zeros as f64 / 4000.0, params.spike(1));
    assert!(
        (share - p).abs() < 4.0 * (p * (1.0 - p) / 4000.0).sqrt(),
        "{share} {p}"
    );
}

#[test]
fn bad_spiked_numbers() {
    let (kernel, _) = spiked();
    assert!(SpikedNormalData::new(&kernel, &[Some(f64::INFINITY)]).is_err());
    assert!(SpikedNormal::new(f64::NAN, Normal::new(0.0, 1.0).expect("valid")).is_err());
}

#[test]
fn what_a_spike_is() {
    let column = |at: f64, n: usize, others: &[f64]| -> Vec<Option<f64>> {
        let zeros = std::iter::repeat_n(Some(at), n);
        zeros
            .chain(others.iter().map(|&x| Some(x)))
            .chain([None])
            .collect()
    };
    let distinct: Vec<f64> = (1..=80).map(f64::from).collect();
    let fours = [&distinct[..20]; 4].concat();
    assert_eq!(
        SpikedNormal::spike_of(&column(0.0, 20, &distinct)),
        Some(0.0)
    );
    assert_eq!(
        SpikedNormal::spike_of(&column(40.0, 20, &distinct)),
        Some(40.0)
    );
    // Below a tenth of the rows; a coarse grid; one value only; nothing.
    assert_eq!(SpikedNormal::spike_of(&column(0.0, 8, &distinct)), None);
    assert_eq!(
        SpikedNormal::spike_of(&column(0.5, 9, &distinct)),
        Some(0.5)
    );
    assert_eq!(SpikedNormal::spike_of(&column(0.5, 9, &fours)), None);
    assert_eq!(SpikedNormal::spike_of(&column(0.0, 20, &[])), None);
    assert_eq!(SpikedNormal::spike_of(&[None]), None);
}
