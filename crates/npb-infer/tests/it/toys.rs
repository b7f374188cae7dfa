//! Two small models with right samplers and many wrong ones.

use npb_infer::{Xoshiro256PlusPlus, testing::JointModel};
use npb_priors::dist::{TruncatedNormal, sample_probit};
use rand::RngExt;
use rand_distr::{Distribution, Gamma, StandardNormal};

type Rng = Xoshiro256PlusPlus;

fn normal(mean: f64, precision: f64, rng: &mut Rng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    mean + z / precision.sqrt()
}

fn gamma(shape: f64, rate: f64, rng: &mut Rng) -> f64 {
    Gamma::new(shape, 1.0 / rate).unwrap().sample(rng)
}

/// Six cells from N(mu, 1/tau), two of them missing; mu ~ N(0.5, 1/0.5), tau ~ Gamma(2, 1.5).
#[derive(Clone, Copy, Default)]
pub(crate) struct Cells {
    pub(crate) fault: Option<CellsFault>,
    /// Update tau by random-walk Metropolis on its logarithm instead of its full conditional.
    pub(crate) metropolis: bool,
    /// Probability that a sweep does nothing: 0.95 makes a very slow sampler that is still right.
    pub(crate) idle: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CellsFault {
    ShapeOffByHalf,
    RateForScale,
    StaleResidual,
    MissingPriorTerm,
    IgnoredMask,
    WrongVariance,
    DoubleCounting,
    MissingJacobian,
}

#[derive(Clone)]
pub(crate) struct CellsState {
    mu: f64,
    tau: f64,
    x: [f64; 6],
}

const OBSERVED: [bool; 6] = [true, true, false, true, false, true];
const MU_MEAN: f64 = 0.5;
const MU_PRECISION: f64 = 0.5;
const TAU_SHAPE: f64 = 2.0;
const TAU_RATE: f64 = 1.5;

fn observed() -> impl Iterator<Item = usize> {
    (0..6).filter(|&i| OBSERVED[i])
}

fn squares(x: &[f64; 6], mu: f64) -> f64 {
    x.iter().map(|x| (x - mu).powi(2)).sum()
}

impl Cells {
    fn is(&self, fault: CellsFault) -> bool {
        self.fault == Some(fault)
    }

    fn impute(&self, state: &mut CellsState, data: &[f64; 6], rng: &mut Rng) {
        let (mu, tau) = (state.mu, state.tau);
        for i in 0..6 {
            let known = OBSERVED[i] || self.is(CellsFault::IgnoredMask);
            state.x[i] = if known { data[i] } else { normal(mu, tau, rng) };
        }
    }

    fn update_mu(&self, state: &mut CellsState, rng: &mut Rng) {
        let mut precision = MU_PRECISION + 6.0 * state.tau;
        let mut sum = MU_PRECISION * MU_MEAN + state.tau * state.x.iter().sum::<f64>();
        if self.is(CellsFault::MissingPriorTerm) {
            precision -= MU_PRECISION;
        }
        if self.is(CellsFault::DoubleCounting) {
            precision += 4.0 * state.tau;
            sum += state.tau * observed().map(|i| state.x[i]).sum::<f64>();
        }
        let spread = if self.is(CellsFault::WrongVariance) {
            precision * precision
        } else {
            precision
        };
        state.mu = normal(sum / precision, spread, rng);
    }

    fn update_tau(&self, state: &mut CellsState, residual_squares: f64, rng: &mut Rng) {
        let half = if self.is(CellsFault::ShapeOffByHalf) {
            0.5
        } else {
            0.0
        };
        let (shape, rate) = (TAU_SHAPE + 3.0 + half, TAU_RATE + 0.5 * residual_squares);
        if self.metropolis {
            // The density of ln tau has one more factor tau than that of tau.
            let power = if self.is(CellsFault::MissingJacobian) {
                shape - 1.0
            } else {
                shape
            };
            let step: f64 = StandardNormal.sample(rng);
            let proposal = state.tau * step.exp();
            let ln_ratio = power * step - rate * (proposal - state.tau);
            if rng.random::<f64>().ln() < ln_ratio {
                state.tau = proposal;
            }
        } else {
            let rate = if self.is(CellsFault::RateForScale) {
                1.0 / rate
            } else {
                rate
            };
            state.tau = gamma(shape, rate, rng);
        }
    }
}

impl JointModel for Cells {
    type State = CellsState;
    type Data = [f64; 6];

    fn names(&self) -> Vec<String> {
        [
            "mu",
            "tau",
            "mu * tau",
            "missing cell",
            "mean",
            "mu * mean",
            "squares",
            "tau * squares",
        ]
        .map(String::from)
        .into()
    }

    fn prior(&self, rng: &mut Rng) -> CellsState {
        let (mu, tau) = (
            normal(MU_MEAN, MU_PRECISION, rng),
            gamma(TAU_SHAPE, TAU_RATE, rng),
        );
        CellsState {
            mu,
            tau,
            x: [(); 6].map(|()| normal(mu, tau, rng)),
        }
    }

    fn simulate(&self, state: &CellsState, rng: &mut Rng) -> [f64; 6] {
        OBSERVED.map(|seen| {
            if seen {
                normal(state.mu, state.tau, rng)
            } else {
                0.0
            }
        })
    }

    fn sweep(&self, state: &mut CellsState, data: &[f64; 6], rng: &mut Rng) {
        if rng.random::<f64>() < self.idle {
            return;
        }
        let mu_before = state.mu;
        self.impute(state, data, rng);
        self.update_mu(state, rng);
        let mu = if self.is(CellsFault::StaleResidual) {
            mu_before
        } else {
            state.mu
        };
        self.update_tau(state, squares(&state.x, mu), rng);
    }

    fn summary(&self, state: &CellsState, data: &[f64; 6]) -> Vec<f64> {
        let mean = observed().map(|i| data[i]).sum::<f64>() / 4.0;
        let squares = observed()
            .map(|i| (data[i] - state.mu).powi(2))
            .sum::<f64>();
        let CellsState { mu, tau, x } = state;
        vec![
            *mu,
            *tau,
            mu * tau,
            x[2],
            mean,
            mu * mean,
            squares,
            tau * squares,
        ]
    }
}

/// Probit regression with spikes: y_i = [x_i w + e_i > 0] for five rows and two columns; w_j = 0
/// with probability 0.6, else N(0, 1/lambda); lambda ~ Gamma(2, 1).
#[derive(Clone, Copy, Default)]
pub(crate) struct Spikes {
    pub(crate) fault: Option<SpikesFault>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SpikesFault {
    TruncatedSupport,
    WeightNotRedrawnAfterCollapsedOdds,
    StaleResidual,
    SpikesCountedInSlab,
    MissingDeterminant,
}

#[derive(Clone)]
pub(crate) struct SpikesState {
    on: [bool; 2],
    w: [f64; 2],
    lambda: f64,
}

/// The columns are nearly the same, so that each weight depends on the other.
const X: [[f64; 2]; 5] = [
    [1.0, 0.8],
    [-0.7, -0.9],
    [0.3, 0.6],
    [1.4, 1.0],
    [-1.1, -0.6],
];
const ON: f64 = 0.4;
const LAMBDA_SHAPE: f64 = 2.0;
const LAMBDA_RATE: f64 = 1.0;

fn predictor(x: &[f64; 2], w: &[f64; 2]) -> f64 {
    x[0] * w[0] + x[1] * w[1]
}

impl Spikes {
    fn is(&self, fault: SpikesFault) -> bool {
        self.fault == Some(fault)
    }

    /// z ~ N(mean, 1) on the side that y says.
    fn utility(&self, mean: f64, y: bool, rng: &mut Rng) -> f64 {
        if self.is(SpikesFault::TruncatedSupport) {
            let (lower, upper) = if y { (0.0, 1.5) } else { (-1.5, 0.0) };
            return TruncatedNormal::new(mean, 1.0, lower, upper)
                .unwrap()
                .sample(rng);
        }
        sample_probit(mean, y, rng)
    }

    fn update_weight(
        &self,
        j: usize,
        state: &mut SpikesState,
        z: &[f64; 5],
        w_before: &[f64; 2],
        rng: &mut Rng,
    ) {
        let others = if self.is(SpikesFault::StaleResidual) {
            *w_before
        } else {
            state.w
        };
        let (mut precision, mut sum) = (state.lambda, 0.0);
        for (x, z) in X.iter().zip(z) {
            precision += x[j] * x[j];
            sum += x[j] * (z - x[1 - j] * others[1 - j]);
        }
        // w_j is integrated out of the odds, so it must be drawn anew right after.
        let mut ln_odds = (ON / (1.0 - ON)).ln() + sum * sum / (2.0 * precision);
        if !self.is(SpikesFault::MissingDeterminant) {
            ln_odds += 0.5 * (state.lambda / precision).ln();
        }
        let was_on = std::mem::replace(
            &mut state.on[j],
            rng.random::<f64>() < 1.0 / (1.0 + (-ln_odds).exp()),
        );
        let kept = self.is(SpikesFault::WeightNotRedrawnAfterCollapsedOdds);
        state.w[j] = match (state.on[j], was_on) {
            (false, _) => 0.0,
            (true, true) if kept => state.w[j],
            (true, false) if kept => normal(0.0, state.lambda, rng),
            (true, _) => normal(sum / precision, precision, rng),
        };
    }

    fn update_lambda(&self, state: &mut SpikesState, rng: &mut Rng) {
        let active = state
            .on
            .iter()
            .filter(|&&on| on || self.is(SpikesFault::SpikesCountedInSlab))
            .count();
        let squares: f64 = state.w.iter().map(|w| w * w).sum();
        state.lambda = gamma(
            LAMBDA_SHAPE + 0.5 * active as f64,
            LAMBDA_RATE + 0.5 * squares,
            rng,
        );
    }
}

impl JointModel for Spikes {
    type State = SpikesState;
    type Data = [bool; 5];

    fn names(&self) -> Vec<String> {
        [
            "w0",
            "w1",
            "on",
            "lambda",
            "w0 w1",
            "w0^2 lambda",
            "successes",
            "w0 y0",
            "fit",
        ]
        .map(String::from)
        .into()
    }

    fn prior(&self, rng: &mut Rng) -> SpikesState {
        let lambda = gamma(LAMBDA_SHAPE, LAMBDA_RATE, rng);
        let on = [(); 2].map(|()| rng.random::<f64>() < ON);
        SpikesState {
            on,
            w: on.map(|on| if on { normal(0.0, lambda, rng) } else { 0.0 }),
            lambda,
        }
    }

    fn simulate(&self, state: &SpikesState, rng: &mut Rng) -> [bool; 5] {
        X.map(|x| normal(predictor(&x, &state.w), 1.0, rng) > 0.0)
    }

    fn sweep(&self, state: &mut SpikesState, data: &[bool; 5], rng: &mut Rng) {
        let w_before = state.w;
        let z: [f64; 5] =
            std::array::from_fn(|i| self.utility(predictor(&X[i], &state.w), data[i], rng));
        for j in 0..2 {
            self.update_weight(j, state, &z, &w_before, rng);
        }
        self.update_lambda(state, rng);
    }

    fn summary(&self, state: &SpikesState, data: &[bool; 5]) -> Vec<f64> {
        let SpikesState { on, w, lambda } = state;
        let sign = |i: usize| if data[i] { 1.0 } else { -1.0 };
        let count = |flags: &[bool]| flags.iter().filter(|&&f| f).count() as f64;
        let fit = (0..5).map(|i| sign(i) * predictor(&X[i], w)).sum();
        vec![
            w[0],
            w[1],
            count(on),
            *lambda,
            w[0] * w[1],
            w[0] * w[0] * lambda,
            count(data),
            w[0] * sign(0),
            fit,
        ]
    }
}
