//! What a joint law of numbers and levels is made of: hyperparameters, cells, numbers of clusters.

use serde::{Deserialize, Serialize};

use crate::kernels::Categorical;

/// z ~ N(μ_k + Σ_l β_k,g(l), Λ_k⁻¹) and levels g(l) ~ θ_kl in cluster k, z_j = (x_j − centre_j)/scale_j: a vector, or, with levels, the general
/// location model (Olkin and Tate, 1961), in which every level moves the mean of the numbers and so is told by them, as in linear
/// discriminant analysis.
///
/// Λ_k ~ W(d + 1 + e, (e B)⁻¹), so that E Λ_k⁻¹ = B; μ_k ~ N(m, (s Λ_k)⁻¹), the effect of a level β_ka ~ N(m_a, (t Λ_k)⁻¹); θ_kl as
/// in [`Categorical`]. Learned: m ~ N(0, I), m_a ~ N(0, 4 I), s ~ Gamma(1, 2), t ~ Gamma(1, 1/4), e, uniform on 2^g, g = 0..8, and B ~ W(d + 2, I)
/// in which no number has a variance below 4⁻¹³ given the numbers before it. So clusters share a covariance as far as the data say that theirs are alike. Missing numbers and levels are
/// summed out exactly. When no cell is incomplete (a wholly missing one may be), all parameters can be integrated out; otherwise `update`
/// draws the missing parts first.
///
/// The numbers are the first parts of a cell, levels follow. A number may have a spike, be whole or an ordered level: see [`Number`].
///
/// Cost of a likelihood: d² / 2 multiplications; with m missing numbers m d + m³/6 more; for every way to choose missing levels m d more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullNormal {
    pub(super) centres: Vec<f64>,
    pub(super) scales: Vec<f64>,
    pub(super) numbers: Vec<Number>,
    /// The columns of levels, then, for every spike, on the spike (level 1) or not.
    pub(super) levels: Vec<Categorical>,
}

/// What z is of a number x in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// x.
    #[default]
    Real,
    /// ln x; predictions are geometric means.
    Logarithm,
    /// x where it is not this value. On it z is not seen, and a level of two that moves the means of all numbers, so that the cell has a probability there
    /// and a density elsewhere.
    Spiked(f64),
    /// Whole x from 0 on, a number within half a unit of it.
    Count,
    /// A level of so many, in order: a number within half a unit of its place. What is expected is the levels' probabilities.
    Ordinal(usize),
}

/// Cells of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct FullNormalData {
    pub(super) d: usize,
    /// Numbers as they were given, row by row, NaN where missing.
    pub(super) given: Vec<f64>,
    /// z, row by row, 0 where missing.
    pub(super) z: Vec<f64>,
    /// Which of `gaps` are the missing numbers of each row.
    pub(super) missing: Vec<usize>,
    /// Missing numbers; the first are none.
    pub(super) gaps: Vec<Vec<usize>>,
    /// −Σ (ln scale + ln x where the law is of ln x) over the observed numbers of each row.
    pub(super) units: Vec<f64>,
    /// Levels, row by row.
    pub(super) codes: Vec<Option<u32>>,
    /// Places of the observed levels of each row among all effects.
    pub(super) known: Vec<Vec<usize>>,
    /// Which of `ways` the missing levels of each row are.
    pub(super) open: Vec<usize>,
    pub(super) ways: Vec<Ways>,
}

/// All ways to choose the levels of some columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ways {
    pub(super) columns: Vec<usize>,
    /// Places among all effects, way by way.
    pub(super) places: Vec<usize>,
}

/// Hyperparameters and the parameters of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullNormalParams {
    /// m, then m_a for every effect.
    pub(super) mean: Vec<f64>,
    /// s.
    pub(super) strength: f64,
    /// t.
    pub(super) effect_strength: f64,
    /// e is 2 to this.
    pub(super) alike: usize,
    /// B, its lower triangle packed.
    pub(super) scale: Vec<f64>,
    /// ln |B|.
    pub(super) ln_det_scale: f64,
    /// Of the levels' probabilities, as in [`Categorical`].
    pub(super) concentrations: Vec<f64>,
    /// The numbers of every cluster, in the order of [`Rows`].
    pub(super) table: Vec<Vec<f64>>,
}

/// Where the numbers of a cluster stand.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) d: usize,
    pub(super) effects: usize,
}

pub(super) fn packed(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

impl Rows {
    pub(super) fn triangle(self) -> usize {
        self.d * (self.d + 1) / 2
    }

    /// μ_j.
    pub(super) fn mean(self, j: usize) -> usize {
        j
    }

    /// (L'μ)_j with Λ = L L'.
    pub(super) fn turned(self, j: usize) -> usize {
        self.d + j
    }

    /// L_ij, i >= j.
    pub(super) fn factor(self, i: usize, j: usize) -> usize {
        2 * self.d + packed(i, j)
    }

    /// Λ_ij.
    pub(super) fn precision(self, i: usize, j: usize) -> usize {
        2 * self.d + self.triangle() + packed(i.max(j), i.min(j))
    }

    /// ln |Λ| / 2 − d ln(2π)/2.
    pub(super) fn constant(self) -> usize {
        2 * (self.d + self.triangle())
    }

    /// β_aj.
    pub(super) fn effect(self, a: usize, j: usize) -> usize {
        self.constant() + 1 + a * self.d + j
    }

    /// (L'β_a)_j.
    pub(super) fn turned_effect(self, a: usize, j: usize) -> usize {
        self.effect(self.effects + a, j)
    }

    /// ln θ_a.
    pub(super) fn ln_theta(self, a: usize) -> usize {
        self.effect(2 * self.effects, 0) + a
    }

    pub(super) fn n(self) -> usize {
        self.ln_theta(self.effects)
    }
}

impl Ways {
    pub(super) fn n(&self) -> usize {
        match self.columns.len() {
            0 => 1,
            n_open => self.places.len() / n_open,
        }
    }
}
