//! How chains start (`docs/bsvd.md#start`).

use npb_infer::stream;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::BsvdConfig;
use crate::data::BsvdData;
use crate::state::{BsvdState, SideState, Tuning};

/// Third word of the keys of random streams.
const START: u64 = 0;

/// Links start near 0.
const START_LINK: f64 = 10.0;

/// Common means of coefficients, too.
const START_COMMON: f64 = 10.0;

/// Noise weights, and spreads, start near 1.
const START_SHAPE: f64 = 10.0;

/// All candidates on, with small scales.
pub(crate) fn start(data: &BsvdData, config: &BsvdConfig) -> BsvdState {
    let shape = data.shape(config);
    let side = |n: usize, q: usize, intercepts: bool, noise: bool, spread: bool| SideState {
        intercepts: vec![0.0; if intercepts { n } else { 0 }],
        coefficients: vec![0.0; n * q],
        coefficient_mean: vec![0.0; q],
        intercept_precision: 10.0,
        coefficient_precision: vec![100.0; q],
        noise_weights: vec![1.0; if noise { n } else { 0 }],
        noise_shape: START_SHAPE,
        factor_weights: vec![1.0; if spread { n } else { 0 }],
        factor_shape: START_SHAPE,
        link_precision: START_LINK,
        common_precision: START_COMMON,
        ..SideState::default()
    };
    let mut state = BsvdState {
        candidates: config.candidates,
        scales: Vec::new(),
        scale_precision: start_scale(data, config.candidates).powi(-2),
        noise_precision: if config.likelihood.is_probit() {
            1.0
        } else {
            2.0
        },
        thresholds: (0..config.likelihood.n_thresholds())
            .map(|l| 0.5 * l as f64)
            .collect(),
        threshold_step: (data.n_observed() as f64).sqrt().recip(),
        tuning: Tuning::default(),
        offset: 0.0,
        rows: side(
            shape.n_rows,
            shape.column_features,
            shape.row_intercepts,
            shape.row_noise,
            shape.row_factor_precision,
        ),
        columns: side(
            shape.n_cols,
            shape.row_features,
            shape.column_intercepts,
            shape.column_noise,
            shape.column_factor_precision,
        ),
    };
    switch_on(data, config, &mut state, (0, config.candidates));
    state
}

/// Switches components on until there are as many as that, with small scales: not a move of the chain but for its burn-in.
pub(crate) fn switch_on(
    data: &BsvdData,
    config: &BsvdConfig,
    state: &mut BsvdState,
    (sweep, candidates): (u64, usize),
) {
    let shape = data.shape(config);
    let rank = state.rank();
    let candidates = candidates.clamp(rank, state.candidates);
    let more = candidates - rank;
    state
        .scales
        .resize(candidates, start_scale(data, candidates));
    for (item, n, links, side) in [
        (0, shape.n_rows, shape.row_links, &mut state.rows),
        (1, shape.n_cols, shape.column_links, &mut state.columns),
    ] {
        let mut rng = stream(config.seed, [config.chain, sweep, START, item]);
        let before = std::mem::take(&mut side.factors);
        side.factors.reserve_exact(n * candidates);
        for i in 0..n {
            side.factors
                .extend_from_slice(SideState::part(&before, i, rank));
            side.factors.extend((0..more).map(|_| {
                let z: f64 = rng.sample(StandardNormal);
                z as f32
            }));
        }
        side.factor_mean.resize(candidates, 0.0);
        side.links.resize(candidates * links, 0.0);
    }
}

/// Half of the scale from which on a component can be told from noise, if noise were all there is: components that the data ask for grow from there
/// within a few sweeps, while those that they do not ask for would take hundreds of sweeps to shrink. At most half of the variance in all.
fn start_scale(data: &BsvdData, rank: usize) -> f64 {
    let sides = (data.n_rows() as f64 * data.n_cols() as f64).powf(0.25);
    (0.5 * sides / data.total_weight().sqrt()).min((0.5 / rank as f64).sqrt())
}
