//! One draw from the posterior.

use npb_linalg::faer::Mat;
use npb_priors::dp::weights_of_sticks;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::IqgmeData;
use crate::state::{expect, finite, positive, square};

/// Mean and precision of a component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrawnComponent {
    /// `mu_h`, length P.
    pub mean: Vec<f64>,
    /// `Lambda_h`, P x P.
    #[serde(with = "npb_linalg::saved")]
    pub precision: Mat<f64>,
}

/// The parameters, in the standardised units of the fit.
///
/// Components up to the last one with rows; all further ones are at their prior and not held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GibbsParameters {
    /// `alpha`.
    pub concentration: f64,
    /// `ln(1 - V_h)`.
    pub ln_rests: Vec<f64>,
    /// `mu_h, Lambda_h`.
    pub components: Vec<DrawnComponent>,
    /// `w_h`: component, utility; length P + 1 each, the intercept last. Empty when no row has a label.
    pub experts: Vec<Vec<f64>>,
    /// `zeta`: utility, coefficient.
    pub expert_means: Vec<f64>,
    /// `lambda`: utility, coefficient.
    pub expert_precisions: Vec<f64>,
}

impl GibbsParameters {
    /// Of no component.
    pub(crate) fn none() -> Self {
        Self {
            concentration: 1.0,
            ..Self::default()
        }
    }

    /// The weights of the components, and what is left for those that are not held.
    pub fn weights(&self) -> (Vec<f64>, f64) {
        let mut weights = vec![0.0; self.ln_rests.len()];
        let rest = weights_of_sticks(&self.ln_rests, &mut weights);
        (weights, rest)
    }

    /// Means and precisions of the so many coefficients of an expert of utility `k`.
    pub(crate) fn expert_law(&self, k: usize, width: usize) -> (&[f64], &[f64]) {
        let own = k * width..(k + 1) * width;
        let means = &self.expert_means[own.clone()];
        (means, &self.expert_precisions[own])
    }

    pub(crate) fn n_utilities(&self) -> usize {
        self.experts.len() / self.components.len().max(1)
    }

    /// Checks sizes and ranges: `p` features, so many utilities.
    pub(crate) fn check(&self, p: usize, n_utilities: usize) -> Result<()> {
        let lanes = self.components.len();
        expect(self.ln_rests.len() == lanes, "number of sticks")?;
        expect(self.ln_rests.iter().all(|x| *x <= 0.0), "sticks")?;
        expect(positive(self.concentration), "concentration")?;
        check_drawn(&self.components, &self.experts, p, n_utilities)?;
        let n = n_utilities * (p + 1);
        let (means, precisions) = (&self.expert_means, &self.expert_precisions);
        let fit = means.len() == n && finite(means);
        expect(fit, "means of the experts' prior")?;
        let fit = precisions.len() == n && precisions.iter().all(|x| positive(*x));
        expect(fit, "precisions of the experts' prior")
    }
}

/// Checks components, one at least, and their experts: `p` features, so many utilities.
pub(crate) fn check_drawn(
    components: &[DrawnComponent],
    experts: &[Vec<f64>],
    p: usize,
    n_utilities: usize,
) -> Result<()> {
    expect(!components.is_empty(), "number of components")?;
    for DrawnComponent { mean, precision } in components {
        expect(mean.len() == p && finite(mean), "component mean")?;
        square(precision, p, "component precision")?;
    }
    let n = components.len() * n_utilities;
    expect(experts.len() == n, "number of experts")?;
    let fits = |w: &Vec<f64>| w.len() == p + 1 && finite(w);
    expect(experts.iter().all(fits), "experts")
}

/// One draw from the posterior of everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GibbsState {
    /// Sweeps that led to it: the chain goes on with the random numbers of the next one.
    pub sweep: u64,
    /// The parameters.
    pub parameters: GibbsParameters,
    /// `z`, by row of the table: a position in `components`.
    pub labels: Vec<u32>,
    /// `t`: by row of the table, then utility; 0 for an unlabelled row.
    pub utilities: Vec<f64>,
    /// Missing cells of the model's columns, by row of the table, then column; standardised.
    pub missing: Vec<f64>,
}

impl GibbsState {
    pub(crate) fn check(&self, data: &IqgmeData) -> Result<()> {
        let rows = &data.rows;
        self.parameters.check(rows.n_features, rows.n_utilities)?;
        expect(self.sweep < u64::MAX, "sweep")?;
        let n_components = self.parameters.components.len();
        let known = |label: &u32| (*label as usize) < n_components;
        let labels = self.labels.len() == rows.len() && self.labels.iter().all(known);
        expect(labels, "labels")?;
        let n = rows.len() * rows.n_utilities;
        let utilities = self.utilities.len() == n && finite(&self.utilities);
        expect(utilities, "utilities")?;
        let missing = self.missing.len() == n_missing(data) && finite(&self.missing);
        expect(missing, "missing cells")?;
        let of_rows = data.utilities_by_position(&self.utilities);
        let mut of_rows = of_rows.chunks_exact(rows.n_utilities.max(1));
        let inside = rows.classes.iter().all(|class| {
            let t = of_rows.next().unwrap_or(&[]);
            class.is_none_or(|class| in_region(class, t))
        });
        expect(inside, "utilities")
    }
}

/// Whether utilities speak for a class.
fn in_region(class: usize, t: &[f64]) -> bool {
    match class.checked_sub(1) {
        None => t.iter().all(|t| *t <= 0.0),
        Some(own) => t[own] >= 0.0 && t.iter().all(|other| *other <= t[own]),
    }
}

/// Missing cells in the model's columns.
pub(crate) fn n_missing(data: &IqgmeData) -> usize {
    data.rows.len() * data.rows.n_features - data.n_observed()
}
