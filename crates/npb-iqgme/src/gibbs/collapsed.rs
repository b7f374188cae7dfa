//! A component and its experts with their parameters integrated out: what the rows that are in it say of the next one.

use npb_linalg::NotPositiveDefinite;
use npb_priors::dist::collapsed::{self, CollapsedGaussian, CollapsedRegression};
use npb_priors::dist::sample_probit;
use npb_priors::special::ln_phi;
use rand::Rng;

use super::state::{DrawnComponent, GibbsParameters};
use crate::state::Component;

/// Posterior of a component and its experts given the rows that were [added](Self::add).
#[derive(Clone)]
pub(super) struct Collapsed {
    pub(super) features: CollapsedGaussian,
    /// By utility.
    experts: Vec<CollapsedRegression>,
}

/// Memory for questions about one row.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) features: collapsed::Scratch,
    /// Row with a one at its end.
    extended: Vec<f64>,
    /// Mean and standard deviation of each utility.
    utilities: Vec<[f64; 2]>,
}

impl Collapsed {
    /// Without rows.
    pub(super) fn new(
        prior: &Component,
        parameters: &GibbsParameters,
    ) -> Result<Self, NotPositiveDefinite> {
        let Component {
            mean,
            strength,
            dof,
            scale_inverse,
        } = prior;
        let width = mean.len() + 1;
        let means = parameters.expert_means.chunks_exact(width);
        let each = means.zip(parameters.expert_precisions.chunks_exact(width));
        Ok(Self {
            features: CollapsedGaussian::new(mean, *strength, *dof, scale_inverse.as_ref())?,
            experts: each.map(|(m, p)| CollapsedRegression::new(m, p)).collect(),
        })
    }

    /// `ln` of the weight of a row's class: its probability when it is drawn utility by utility, the winning one first. The utilities are `t`; with a
    /// generator they are drawn. Over these draws the mean of the weight is the probability of the class.
    pub(super) fn ln_class(
        &self,
        class: usize,
        x: &[f64],
        t: &mut [f64],
        mut draw: Option<&mut impl Rng>,
        scratch: &mut Scratch,
    ) -> f64 {
        extend(x, &mut scratch.extended);
        scratch.utilities.clear();
        for expert in &self.experts[..t.len()] {
            let utility = expert.response(&scratch.extended, &mut scratch.features);
            scratch.utilities.push(utility);
        }
        let own = class.checked_sub(1);
        let (mut ln, mut below) = (0.0, 0.0);
        if let Some(own) = own {
            let [mean, sd] = scratch.utilities[own];
            ln += ln_phi(mean / sd);
            if let Some(rng) = &mut draw {
                t[own] = sd * sample_probit(mean / sd, true, *rng);
            }
            below = t[own];
        }
        for (k, &[mean, sd]) in scratch.utilities.iter().enumerate() {
            if Some(k) == own {
                continue;
            }
            let apart = (mean - below) / sd;
            ln += ln_phi(-apart);
            if let Some(rng) = &mut draw {
                t[k] = below + sd * sample_probit(apart, false, *rng);
            }
        }
        ln
    }

    /// Takes a row in. `t`: its utilities; none without a label.
    pub(super) fn add(&mut self, x: &[f64], t: &[f64], scratch: &mut Scratch) {
        self.features.add(x, &mut scratch.features);
        extend(x, &mut scratch.extended);
        for (expert, t) in self.experts.iter_mut().zip(t) {
            expert.add(&scratch.extended, *t, &mut scratch.features);
        }
    }

    /// Draws the parameters. Nothing when rounding has left a matrix that is none of a law.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Option<(DrawnComponent, Vec<Vec<f64>>)> {
        let (mean, precision) = self.features.draw(rng)?;
        let experts = self.experts.iter().map(|expert| expert.draw(rng)).collect();
        Some((DrawnComponent { mean, precision }, experts))
    }
}

fn extend(x: &[f64], extended: &mut Vec<f64>) {
    extended.clear();
    extended.extend_from_slice(x);
    extended.push(1.0);
}
