//! Usage that depends on where rows lie: the dependent hierarchical beta process (docs/bpfa.md#dependent).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::ParameterError;
use npb_priors::beta_bernoulli::WeightPrior;
use npb_priors::dist::{Beta, sample_ln_weights};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;
use crate::rows::BpfaRows;
use crate::scores::{BLOCK_ROWS, Scores};

/// Prior of usage that depends on the locations of rows: `eta_k ~ Beta(c_0 eta_0, c_0 (1 - eta_0))` over all, `pi_jk ~ Beta(c_1 eta_k, c_1 (1 - eta_k))` at
/// anchor j; a row takes the weights of one anchor near it, t_i, with a probability that decreases with distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DependentPrior {
    /// c_0.
    pub mass: f64,
    /// eta_0.
    pub mean: f64,
    /// c_1: how alike anchors are.
    pub concentration: f64,
    /// J: anchors, spread over the locations of the rows.
    pub anchors: usize,
    /// A row takes the weights of one of this many nearest anchors (a compact kernel).
    pub neighbours: usize,
}

impl Default for DependentPrior {
    fn default() -> Self {
        Self {
            mass: 1.0,
            mean: 0.05,
            concentration: 10.0,
            anchors: 64,
            neighbours: 8,
        }
    }
}

/// Which anchor each row takes its weights from; empty for usage that does not depend on locations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependence {
    /// t_i.
    pub anchors: Vec<u16>,
    /// eta_k.
    pub means: Vec<f64>,
    /// Width of the kernel, in units of the locations.
    pub width: f64,
}

/// Means stay off 0 and 1, where weights would lock.
const EDGE: f64 = 1e-9;

/// Values of the width on the grid, two for each doubling.
const WIDTHS: usize = 9;

/// Anchors near each row: fixed by the locations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbourhood {
    pub(crate) n_anchors: usize,
    n_near: usize,
    near: Vec<u16>,
    /// Squared distances.
    squares: Vec<f32>,
    widths: Vec<f64>,
}

impl Neighbourhood {
    /// Anchors far apart: each the row that is farthest from those before it.
    pub(crate) fn new(rows: &BpfaRows, prior: DependentPrior) -> Result<Self, BpfaError> {
        let (locations, dim) = rows.locations();
        if dim == 0 {
            return Err(BpfaError::Argument {
                argument: "usage",
                value: "dependent".to_owned(),
                rule: "of rows with locations (BpfaRows::with_locations)",
            });
        }
        let n = rows.n_rows();
        let at = |i: usize| &locations[i * dim..(i + 1) * dim];
        let square = |i: usize, j: usize| -> f32 {
            let both = at(i).iter().zip(at(j));
            both.map(|(a, b)| (a - b).powi(2)).sum()
        };
        let mut anchors = vec![0];
        let mut nearest: Vec<f32> = (0..n).map(|i| square(i, 0)).collect();
        while anchors.len() < prior.anchors.min(n) {
            let far = (0..n).fold(
                0,
                |best, i| if nearest[i] > nearest[best] { i } else { best },
            );
            if nearest[far] == 0.0 {
                break;
            }
            anchors.push(far);
            let blocks = nearest.chunks_mut(BLOCK_ROWS).enumerate();
            parallel::for_each(blocks, |(block, own)| {
                for (i, own) in own.iter_mut().enumerate() {
                    *own = own.min(square(block * BLOCK_ROWS + i, far));
                }
            });
        }
        let n_near = prior.neighbours.min(anchors.len());
        let found: Vec<Vec<(f32, u16)>> = parallel::map(0..n, |i| {
            let mut all: Vec<(f32, u16)> = (0..anchors.len())
                .map(|j| (square(i, anchors[j]), j as u16))
                .collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all.truncate(n_near);
            all
        });
        let mean = nearest.iter().map(|&d| f64::from(d)).sum::<f64>() / n as f64;
        let typical = mean.sqrt().max(1e-6);
        let width = |step: usize| typical * (0.5 * (step as f64 - 4.0)).exp2();
        Ok(Self {
            n_anchors: anchors.len(),
            n_near,
            near: found.iter().flatten().map(|x| x.1).collect(),
            squares: found.iter().flatten().map(|x| x.0).collect(),
            widths: (0..WIDTHS).map(width).collect(),
        })
    }

    fn of(&self, i: usize) -> (&[u16], &[f32]) {
        let own = i * self.n_near..(i + 1) * self.n_near;
        (&self.near[own.clone()], &self.squares[own])
    }

    /// ln of the kernel weight of anchor `t` for row i, normalised.
    fn ln_kernel(&self, i: usize, t: u16, width: f64) -> f64 {
        let (near, squares) = self.of(i);
        let ln = |square: f32| -0.5 * f64::from(square) / (width * width);
        // The nearest comes first: no exponent is positive.
        let total: f64 = squares
            .iter()
            .map(|&s| (ln(s) - ln(squares[0])).exp())
            .sum();
        let own = near
            .iter()
            .position(|&j| j == t)
            .map_or(f64::NEG_INFINITY, |at| ln(squares[at]));
        own - ln(squares[0]) - total.ln()
    }

    /// Every row at its nearest anchor.
    pub(crate) fn start(&self, n: usize, k: usize, mean: f64) -> Dependence {
        Dependence {
            anchors: (0..n).map(|i| self.of(i).0[0]).collect(),
            means: vec![mean.clamp(EDGE, 1.0 - EDGE); k],
            width: self.widths[WIDTHS / 2],
        }
    }

    /// Draws width and anchors from their prior.
    #[cfg(test)]
    pub(crate) fn draw_prior(&self, dependence: &mut Dependence, rng: &mut Xoshiro256PlusPlus) {
        let width = self.widths[rng.random_range(0..WIDTHS)];
        dependence.width = width;
        for (i, t) in dependence.anchors.iter_mut().enumerate() {
            let near = self.of(i).0;
            let mut left: f64 = rng.random();
            let chosen = near.iter().find(|&&j| {
                left -= self.ln_kernel(i, j, width).exp();
                left < 0.0
            });
            *t = *chosen.unwrap_or(&near[0]);
        }
    }

    /// Draws t_i of all rows given the weights, then the width on its grid.
    pub(crate) fn draw_anchors(
        &self,
        dependence: &mut Dependence,
        scores: &Scores,
        ln_odds: &[f64],
        seed: u64,
        key: [u64; 3],
    ) -> Result<(), ParameterError> {
        let k = scores.n_atoms();
        let off: Vec<f64> = ln_odds
            .chunks_exact(k)
            .map(|own| own.iter().map(|&x| ln_off(x)).sum())
            .collect();
        let [chain, sweep, block] = key;
        let width = dependence.width;
        let anchors = dependence.anchors.iter_mut().enumerate();
        let drawn: Vec<Result<(), ParameterError>> =
            parallel::map_with(anchors, Vec::new, |weights, (i, t)| {
                let (near, squares) = self.of(i);
                weights.clear();
                weights.extend(near.iter().zip(squares).map(|(&j, &square)| {
                    let own = &ln_odds[j as usize * k..(j as usize + 1) * k];
                    let on: f64 = scores.row(i).iter().map(|(k, _)| own[k]).sum();
                    off[j as usize] + on - 0.5 * f64::from(square) / (width * width)
                }));
                let rng = &mut stream(seed, [chain, sweep, block, i as u64]);
                *t = near[sample_ln_weights(weights, rng)?];
                Ok(())
            });
        drawn.into_iter().collect::<Result<(), _>>()?;
        let rng = &mut stream(seed, [chain, sweep, block, u64::MAX]);
        let ln_weights: Vec<f64> = parallel::map(&self.widths, |&width| {
            let rows = dependence.anchors.iter().enumerate();
            rows.map(|(i, &t)| self.ln_kernel(i, t, width)).sum()
        });
        dependence.width = self.widths[sample_ln_weights(&ln_weights, rng)?];
        Ok(())
    }

    pub(crate) fn check(&self, dependence: &Dependence) -> Result<(), BpfaError> {
        if !dependence.is_modelled() {
            return Ok(());
        }
        let near = |(i, t): (usize, &u16)| self.of(i).0.contains(t);
        expect(
            dependence.anchors.iter().enumerate().all(near)
                && self.widths.contains(&dependence.width),
            "anchors of rows",
        )
    }
}

impl Dependence {
    /// Whether usage depends on locations.
    pub fn is_modelled(&self) -> bool {
        !self.anchors.is_empty()
    }

    /// Anchor of row `i`, 0 for all when usage does not depend on locations.
    #[inline]
    pub(crate) fn group(&self, i: usize) -> usize {
        self.anchors.get(i).map_or(0, |&t| t as usize)
    }

    /// Draws `eta_k` of all atoms with the weights integrated out, given table counts of the switches (as in an HDP).
    pub(crate) fn draw_means(
        &mut self,
        prior: DependentPrior,
        on: &[u64],
        rows: &[u64],
        seed: u64,
        key: [u64; 3],
    ) -> Result<(), ParameterError> {
        let k = self.means.len();
        let [chain, sweep, block] = key;
        let atoms = self.means.iter().enumerate();
        let drawn: Vec<Result<f64, ParameterError>> = parallel::map(atoms, |(atom, &eta)| {
            let rng = &mut stream(seed, [chain, sweep, block, atom as u64]);
            let c = prior.concentration;
            let (mut tables_on, mut tables_off) = (0, 0);
            for (anchor, &n) in rows.iter().enumerate() {
                let own = on[anchor * k + atom];
                tables_on += tables(own, c * eta, rng);
                tables_off += tables(n - own, c * (1.0 - eta), rng);
            }
            let law = Beta::new(
                prior.mass * prior.mean + tables_on as f64,
                prior.mass * (1.0 - prior.mean) + tables_off as f64,
            )?;
            Ok(law.sample(rng).clamp(EDGE, 1.0 - EDGE))
        });
        for (mean, drawn) in self.means.iter_mut().zip(drawn) {
            *mean = drawn?;
        }
        Ok(())
    }

    /// Prior of the weight of an atom at any anchor.
    pub(crate) fn weight_prior(
        &self,
        prior: DependentPrior,
        k: usize,
    ) -> Result<WeightPrior, ParameterError> {
        let c = prior.concentration;
        WeightPrior::new(c * self.means[k], c * (1.0 - self.means[k]))
    }
}

/// ln(1 - pi) of ln odds x.
fn ln_off(x: f64) -> f64 {
    -(x.max(0.0) + (-x.abs()).exp().ln_1p())
}

/// Tables of a Chinese restaurant with `n` customers: each sits alone with probability `a / (a + customers before)`.
fn tables(n: u64, a: f64, rng: &mut Xoshiro256PlusPlus) -> u64 {
    (0..n)
        .map(|before| u64::from(rng.random::<f64>() * (a + before as f64) < a))
        .sum()
}
