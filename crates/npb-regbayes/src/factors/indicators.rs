//! `q(Z)`: R (27), (33), corrected (`docs/regbayes.md#indicators`).

use npb_infer::parallel;
use npb_linalg::faer::Mat;

use super::Items;
use crate::dense::{axpy, columns_mut, product, sigmoid};
use crate::state::{FeatureState, Spread};

/// What the indicators need to know of `q(W)`; stands for as long as the loadings do.
#[derive(Clone, Debug)]
pub(crate) enum Evidence {
    /// Complete inputs: `A = E[W'W]` (K x K) and `B = M'X` (K x I).
    Complete { a: Mat<f64>, b: Mat<f64> },
    /// Holes: means and variances of the loadings, J x K; with a shared covariance that and no variances.
    Entries {
        means: Mat<f64>,
        variances: Option<Mat<f64>>,
        shared: Option<Mat<f64>>,
    },
}

impl Evidence {
    /// Cost: I J K + J K^2 for complete inputs, else J K.
    pub(crate) fn new(items: &Items, state: &FeatureState) -> Self {
        if items.seen.is_some() {
            let (variances, shared) = match &state.spread {
                Spread::Own(v) => (Some(v.transpose().to_owned()), None),
                Spread::Shared(s) => (None, Some(s.clone())),
            };
            return Self::Entries {
                means: state.loadings.transpose().to_owned(),
                variances,
                shared,
            };
        }
        Self::Complete {
            a: loading_moment(state),
            b: product(state.loadings.as_ref(), items.values.as_ref(), 1.0),
        }
    }

    /// What there is for one item at its present indicators.
    pub(crate) fn of_item<'a>(
        &'a self,
        items: &'a Items,
        item: usize,
        psi: &[f64],
    ) -> ItemEvidence<'a> {
        match self {
            Self::Complete { a, b } => ItemEvidence {
                quadratic: Some(Quadratic::new(a, Some(b.col_as_slice(item)), 1.0, psi)),
                entries: None,
            },
            Self::Entries {
                means,
                variances,
                shared,
            } => {
                let entries = Entries::new(items, item, means, variances.as_ref(), psi);
                let observed = entries.n_observed();
                let quadratic = shared.as_ref();
                ItemEvidence {
                    quadratic: quadratic.map(|s| Quadratic::new(s, None, observed, psi)),
                    entries: Some(entries),
                }
            }
        }
    }
}

/// `A = E[W'W] = J S + M'M`, with diagonal covariances `M'M + diag sum_j sigma_jk^2`.
pub(crate) fn loading_moment(state: &FeatureState) -> Mat<f64> {
    let m = &state.loadings;
    let mut a = product(m.as_ref(), m.transpose(), 1.0);
    match &state.spread {
        Spread::Shared(s) => {
            let n = m.ncols() as f64;
            for k in 0..a.ncols() {
                axpy(a.col_as_slice_mut(k), n, s.col_as_slice(k));
            }
        }
        Spread::Own(v) => {
            for j in 0..v.ncols() {
                let own = v.col_as_slice(j);
                own.iter().enumerate().for_each(|(k, v)| a[(k, k)] += v);
            }
        }
    }
    a
}

/// What the inputs of one item say about its indicators; follows them as they move.
pub(crate) struct ItemEvidence<'a> {
    quadratic: Option<Quadratic<'a>>,
    entries: Option<Entries<'a>>,
}

impl ItemEvidence<'_> {
    /// Part of the log-odds of indicator k, times lambda^2: `b_k - sum_{l != k} A_kl psi_l - A_kk / 2`.
    pub(crate) fn ln_odds(&self, k: usize, psi: f64) -> f64 {
        let whole = self.quadratic.as_ref().map_or(0.0, |q| q.ln_odds(k, psi));
        whole + self.entries.as_ref().map_or(0.0, |e| e.ln_odds(k, psi))
    }

    /// Indicator k has moved by `delta`.
    pub(crate) fn follow(&mut self, k: usize, delta: f64) {
        if let Some(quadratic) = &mut self.quadratic {
            axpy(&mut quadratic.field, delta, quadratic.a.col_as_slice(k));
        }
        if let Some(entries) = &mut self.entries {
            entries.follow(k, delta);
        }
    }

    /// `E |x_i - W z_i|^2` over the observed entries of the item, without the sum of squares of the inputs where they are complete.
    pub(crate) fn expected_squares(&self, psi: &[f64]) -> f64 {
        let whole = self.quadratic.as_ref().map_or(0.0, |q| q.squares(psi));
        whole + self.entries.as_ref().map_or(0.0, |e| e.squares(psi))
    }
}

struct Quadratic<'a> {
    a: &'a Mat<f64>,
    b: Option<&'a [f64]>,
    weight: f64,
    /// A psi.
    field: Vec<f64>,
}

impl<'a> Quadratic<'a> {
    fn new(a: &'a Mat<f64>, b: Option<&'a [f64]>, weight: f64, psi: &[f64]) -> Self {
        let mut field = vec![0.0; psi.len()];
        for (k, &p) in psi.iter().enumerate() {
            axpy(&mut field, p, a.col_as_slice(k));
        }
        Self {
            a,
            b,
            weight,
            field,
        }
    }

    fn ln_odds(&self, k: usize, psi: f64) -> f64 {
        let own = self.a[(k, k)];
        let others = self.field[k] - own * psi;
        self.b.map_or(0.0, |b| b[k]) - self.weight * (others + 0.5 * own)
    }

    /// `psi'A psi + sum_k A_kk psi_k (1 - psi_k) - 2 b'psi`.
    fn squares(&self, psi: &[f64]) -> f64 {
        let linear = self.b.map_or(0.0, |b| npb_linalg::dot(b, psi));
        let terms = psi.iter().enumerate();
        let own: f64 = terms.map(|(k, p)| self.a[(k, k)] * p * (1.0 - p)).sum();
        self.weight * (npb_linalg::dot(&self.field, psi) + own) - 2.0 * linear
    }
}

struct Entries<'a> {
    means: &'a Mat<f64>,
    variances: Option<&'a Mat<f64>>,
    seen: &'a [f64],
    /// `o_ij (x_ij - sum_k psi_ik m_jk)`.
    residual: Vec<f64>,
}

impl<'a> Entries<'a> {
    fn new(
        items: &'a Items,
        item: usize,
        means: &'a Mat<f64>,
        variances: Option<&'a Mat<f64>>,
        psi: &[f64],
    ) -> Self {
        let seen = items.seen.as_ref();
        let seen = seen
            .unwrap_or_else(|| unreachable!("complete inputs have other evidence"))
            .col_as_slice(item);
        let mut residual = items.values.col_as_slice(item).to_vec();
        for (k, &p) in psi.iter().enumerate() {
            axpy(&mut residual, -p, means.col_as_slice(k));
        }
        residual.iter_mut().zip(seen).for_each(|(r, o)| *r *= o);
        Self {
            means,
            variances,
            seen,
            residual,
        }
    }

    fn n_observed(&self) -> f64 {
        self.seen.iter().sum()
    }

    /// `sum_j o_j m_jk^2` and `sum_j o_j sigma_jk^2`.
    fn moments(&self, k: usize) -> (f64, f64) {
        let means = self.means.col_as_slice(k).iter().zip(self.seen);
        let squares = means.map(|(m, o)| o * m * m).sum();
        let spread = self
            .variances
            .map_or(0.0, |v| npb_linalg::dot(v.col_as_slice(k), self.seen));
        (squares, spread)
    }

    fn ln_odds(&self, k: usize, psi: f64) -> f64 {
        let (squares, spread) = self.moments(k);
        let slope = npb_linalg::dot(self.means.col_as_slice(k), &self.residual);
        slope + psi * squares - 0.5 * (squares + spread)
    }

    fn follow(&mut self, k: usize, delta: f64) {
        let means = self.means.col_as_slice(k).iter().zip(self.seen);
        for (r, (m, o)) in self.residual.iter_mut().zip(means) {
            *r -= delta * m * o;
        }
    }

    /// `sum_j o_j (r_j^2 + sum_k psi_k (sigma_jk^2 + m_jk^2) - psi_k^2 m_jk^2)`.
    fn squares(&self, psi: &[f64]) -> f64 {
        let own = psi.iter().enumerate().map(|(k, &p)| {
            let (squares, spread) = self.moments(k);
            p * (1.0 - p) * squares + p * spread
        });
        npb_linalg::dot(&self.residual, &self.residual) + own.sum::<f64>()
    }
}

/// Each item's indicators in turn, `settle(k, log-odds without labels, present psi)` says where each one goes.
fn sweep_item(
    evidence: &mut ItemEvidence<'_>,
    psi: &mut [f64],
    precision: f64,
    odds: &[f64],
    mut settle: impl FnMut(usize, f64, f64) -> f64,
) {
    for k in 0..psi.len() {
        let ln_odds = odds[k] + precision * evidence.ln_odds(k, psi[k]);
        let new = settle(k, ln_odds, psi[k]);
        let delta = new - psi[k];
        if delta != 0.0 {
            evidence.follow(k, delta);
            psi[k] = new;
        }
    }
}

/// A sweep over all items, in parallel; `pull` (K x I) is added to the log-odds. Cost: I K^2 for complete inputs, I J K with holes.
pub(crate) fn sweep(
    items: &Items,
    evidence: &Evidence,
    indicators: &mut Mat<f64>,
    precision: f64,
    odds: &[f64],
    pull: Option<&Mat<f64>>,
) {
    let columns = columns_mut(indicators).into_iter().enumerate();
    parallel::for_each(columns, |(i, psi)| {
        let mut own = evidence.of_item(items, i, psi);
        let pull = pull.map(|pull| pull.col_as_slice(i));
        sweep_item(&mut own, psi, precision, odds, |k, ln_odds, _| {
            sigmoid(ln_odds + pull.map_or(0.0, |pull| pull[k]))
        });
    });
}

/// Sweeps over the indicators of new items.
const NEW_SWEEPS: u32 = 100;

/// Largest move of an indicator at which they have settled.
const SETTLED: f64 = 1e-8;

/// Indicators of items that were not there at the fit, loadings and sticks as they are; K x items. Each starts where that item of the fit is whose expected
/// entries are closest to it: from the mean use of each feature the same sweeps end in worse optima. Cost: items of both, times J, and the sweeps.
pub(crate) fn infer(state: &FeatureState, items: &Items, precision: f64) -> Mat<f64> {
    let known = &state.indicators;
    let mut odds = vec![0.0; state.n_features()];
    state.sticks.prior_ln_odds(&mut odds);
    let evidence = Evidence::new(items, state);
    let expected = product(state.loadings.transpose(), known.as_ref(), 1.0);
    let distance = |i: usize, n: usize| -> f64 {
        let cells = items.values.col_as_slice(i).iter();
        let cells = cells.zip(expected.col_as_slice(n)).map(|(x, e)| x - e);
        match &items.seen {
            None => cells.map(|r| r * r).sum(),
            Some(seen) => (cells.zip(seen.col_as_slice(i)))
                .map(|(r, o)| o * r * r)
                .sum(),
        }
    };
    let closest = |i: usize| {
        let all = (0..known.ncols()).map(|n| (distance(i, n), n));
        all.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let starts: Vec<_> = parallel::map(0..items.n_items(), closest);
    let mut indicators = Mat::from_fn(odds.len(), items.n_items(), |k, i| {
        starts[i].map_or(0.5, |(_, n)| known[(k, n)])
    });
    let columns = columns_mut(&mut indicators).into_iter().enumerate();
    parallel::for_each(columns, |(i, psi)| {
        let mut own = evidence.of_item(items, i, psi);
        for _ in 0..NEW_SWEEPS {
            let mut moved = 0.0f64;
            sweep_item(&mut own, psi, precision, &odds, |_, ln_odds, old| {
                let new = sigmoid(ln_odds);
                moved = moved.max((new - old).abs());
                new
            });
            if moved < SETTLED {
                return;
            }
        }
    });
    indicators
}
