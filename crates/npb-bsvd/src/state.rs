//! One draw of everything unknown.

use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::features::SideInformation;
use crate::shape::Shape;
use crate::spectrum::singular_values;

/// Unknowns of the rows, or of the columns.
///
/// Tables are row-major: what belongs to row (or column) `i` of the matrix lies together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideState {
    /// `U` (of rows) or `V` (of columns), n x rank, active components only; a priori each entry is normal with variance 1 (with spreads of rows `1 / g_i`) about
    /// the mean of its component.
    pub factors: Vec<f32>,
    /// Mean of the factors of each active component; zeros when there is none.
    pub factor_mean: Vec<f64>,
    /// `B`, rank x q, or empty: the mean of a factor of row i grows by `R_i . B_k`, R_i the row's own q features.
    pub links: Vec<f64>,
    /// Precision of the links.
    pub link_precision: f64,
    /// n precisions `g_i` of the factors of a row about their means, or none: `g ~ Gamma(h, h)` a priori.
    pub factor_weights: Vec<f32>,
    /// h; the larger, the more alike the spreads.
    pub factor_shape: f64,
    /// n intercepts, or none.
    pub intercepts: Vec<f32>,
    /// n x q coefficients on the q features of the other side: `G_C` of rows, `G_R` of columns (W 5.14).
    pub coefficients: Vec<f32>,
    /// Common mean of the coefficients of each feature, length q; zeros when there is none.
    pub coefficient_mean: Vec<f64>,
    /// Precision of these common means.
    pub common_precision: f64,
    /// Precision of the intercepts.
    pub intercept_precision: f64,
    /// Precision of the coefficients of each feature, length q.
    pub coefficient_precision: Vec<f64>,
    /// n factors of the noise precision, or none: entry (i, j) has precision `alpha w_i w_j`, `w ~ Gamma(h, h)` a priori.
    pub noise_weights: Vec<f32>,
    /// h; the larger, the more alike the noise is everywhere.
    pub noise_shape: f64,
}

/// One draw from the posterior, in units of the model:
///
/// ```text
/// x_ij = offset + r_i + c_j + sum_k s_k U_ik V_jk + G_C,i . C_j + G_R,j . R_i
/// ```
///
/// Only active components are held (inactive ones are as their prior says). With the thesis's factors of variance 1/I and 1/J, its singular values are
/// `s_k sqrt(I J)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BsvdState {
    /// `K`, the candidates now.
    pub candidates: usize,
    /// `s_k` of the active components, all positive; as many as the rank.
    pub scales: Vec<f64>,
    /// `alpha_s`.
    pub scale_precision: f64,
    /// `alpha`.
    pub noise_precision: f64,
    /// Thresholds of the ordinal likelihood, ascending, the first 0; empty for other likelihoods.
    pub thresholds: Vec<f64>,
    /// Standard deviation of the proposals for thresholds; adapted in the burn-in.
    pub threshold_step: f64,
    /// What an automatic choice between ways of drawing rows has seen so far.
    pub tuning: Tuning,
    /// Offset (global mean) beyond the centre of the units.
    pub offset: f64,
    /// `U`, `r`, `G_C`.
    pub rows: SideState,
    /// `V`, `c`, `G_R`.
    pub columns: SideState,
}

impl BsvdState {
    /// Number of active components.
    pub fn rank(&self) -> usize {
        self.scales.len()
    }

    /// `x_ij`, the noise-free value of a cell in units of the model; `side`: the features of the fit. Cost: rank and features.
    ///
    /// # Panics
    /// When the cell does not exist.
    pub fn latent(&self, i: usize, j: usize, side: &SideInformation) -> f64 {
        let (rows, columns) = (&self.rows, &self.columns);
        let rank = self.rank();
        let mut x = self.offset;
        x += rows.intercepts.get(i).map_or(0.0, |&r| f64::from(r));
        x += columns.intercepts.get(j).map_or(0.0, |&c| f64::from(c));
        let u = SideState::part(&rows.factors, i, rank);
        let v = SideState::part(&columns.factors, j, rank);
        for ((&s, &u), &v) in self.scales.iter().zip(u).zip(v) {
            x += s * f64::from(u) * f64::from(v);
        }
        for (features, index, coefficients, other) in [
            (&side.columns, j, &rows.coefficients, i),
            (&side.rows, i, &columns.coefficients, j),
        ] {
            if let Some(features) = features {
                let q = features.n_features();
                x += features.dot(index, SideState::part(coefficients, other, q));
            }
        }
        x
    }

    /// Noise precision of cell (i, j), `alpha w_i w_j`.
    ///
    /// # Panics
    /// When the cell does not exist.
    pub fn cell_noise_precision(&self, i: usize, j: usize) -> f64 {
        self.noise_precision * self.rows.noise_weight(i) * self.columns.noise_weight(j)
    }

    /// Singular values of the active components together, `U diag(s) V'`, in descending order; units of the model. Unlike the `s_k` they do not depend on how the
    /// components are turned within their space. Cost: rank squared for each row and column.
    pub fn singular_values(&self) -> Vec<f64> {
        singular_values(&self.rows.factors, &self.columns.factors, &self.scales)
    }

    /// Checks sizes and ranges against a matrix of `n_rows` x `n_cols`.
    pub(crate) fn check(&self, shape: &Shape) -> Result<(), BsvdError> {
        let rank = self.rank();
        expect(
            self.candidates >= 2 && self.candidates <= crate::config::MOST_CANDIDATES,
            "candidates",
        )?;
        expect(rank <= self.candidates, "rank")?;
        expect(self.scales.iter().all(|&s| positive(s)), "scales")?;
        expect(positive(self.scale_precision), "scale precision")?;
        expect(positive(self.noise_precision), "noise precision")?;
        expect(self.offset.is_finite(), "offset")?;
        expect(self.tuning.is_sound(), "tuning")?;
        expect(
            self.thresholds.len() == shape.thresholds
                && self.thresholds.first().is_none_or(|&first| first == 0.0)
                && self.thresholds.windows(2).all(|w| w[0] < w[1])
                && self.thresholds.iter().all(|t| t.is_finite())
                && positive(self.threshold_step),
            "thresholds",
        )?;
        self.rows.check(shape.n_rows, rank, shape.column_features)?;
        self.columns.check(shape.n_cols, rank, shape.row_features)?;
        for (side, links) in [
            (&self.rows, shape.row_links),
            (&self.columns, shape.column_links),
        ] {
            expect(
                rank.checked_mul(links) == Some(side.links.len())
                    && side.links.iter().all(|b| b.is_finite())
                    && positive(side.link_precision),
                "links",
            )?;
        }
        expect(
            self.rows.intercepts.is_empty() != shape.row_intercepts
                && self.columns.intercepts.is_empty() != shape.column_intercepts,
            "intercepts",
        )?;
        expect(
            self.rows.factor_weights.is_empty() != shape.row_factor_precision
                && self.columns.factor_weights.is_empty() != shape.column_factor_precision,
            "factor weights",
        )?;
        expect(
            self.rows.noise_weights.is_empty() != shape.row_noise
                && self.columns.noise_weights.is_empty() != shape.column_noise,
            "noise weights",
        )
    }
}

/// Cells whose values are watched by the trial of ways to draw rows.
pub(crate) const WATCHED: usize = 32;

/// What was seen of the two ways of drawing rows. DrawTable of the state, so that a run that goes on later decides alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Whether rows are drawn one coefficient at a time from now on.
    pub coordinates: bool,
    /// Values of the watched cells in the sweeps of the trial at hand, sweep by sweep.
    pub values: Vec<f32>,
    /// Effective draws for each unit of work of the joint draw, once known.
    pub joint_rate: f64,
}

impl Tuning {
    pub(crate) fn is_sound(&self) -> bool {
        self.values.len().is_multiple_of(WATCHED)
            && self.values.iter().all(|x| x.is_finite())
            && self.joint_rate.is_finite()
            && self.joint_rate >= 0.0
    }
}

impl SideState {
    /// Row `i` of a table of `width` columns.
    pub(crate) fn part(table: &[f32], i: usize, width: usize) -> &[f32] {
        &table[i * width..(i + 1) * width]
    }

    /// Factor of the noise precision of row (or column) `i`.
    pub(crate) fn noise_weight(&self, i: usize) -> f64 {
        self.noise_weights.get(i).map_or(1.0, |&w| f64::from(w))
    }

    /// Precision of the factors of row (or column) `i` about their means.
    pub(crate) fn factor_weight(&self, i: usize) -> f64 {
        self.factor_weights.get(i).map_or(1.0, |&g| f64::from(g))
    }

    fn check(&self, n: usize, rank: usize, q: usize) -> Result<(), BsvdError> {
        let table = |table: &[f32], width: usize| {
            n.checked_mul(width) == Some(table.len()) && table.iter().all(|x| x.is_finite())
        };
        expect(table(&self.factors, rank), "factors")?;
        expect(
            self.factor_mean.len() == rank && self.factor_mean.iter().all(|x| x.is_finite()),
            "factor mean",
        )?;
        expect(
            self.intercepts.is_empty() || table(&self.intercepts, 1),
            "intercepts",
        )?;
        expect(table(&self.coefficients, q), "coefficients")?;
        expect(
            self.coefficient_mean.len() == q && self.coefficient_mean.iter().all(|x| x.is_finite()),
            "coefficient mean",
        )?;
        expect(
            positive(self.intercept_precision)
                && positive(self.common_precision)
                && self.coefficient_precision.len() == q
                && self.coefficient_precision.iter().all(|&p| positive(p)),
            "precisions",
        )?;
        for (shape, weights, what) in [
            (self.noise_shape, &self.noise_weights, "noise weights"),
            (self.factor_shape, &self.factor_weights, "factor weights"),
        ] {
            expect(
                positive(shape)
                    && (weights.is_empty() || table(weights, 1))
                    && weights.iter().all(|&w| w > 0.0),
                what,
            )?;
        }
        Ok(())
    }
}

fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

fn expect(holds: bool, what: &str) -> Result<(), BsvdError> {
    if holds {
        Ok(())
    } else {
        Err(BsvdError::State {
            what: format!("{what}: impossible value or size"),
        })
    }
}
