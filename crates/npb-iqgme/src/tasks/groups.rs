//! Groups of a task as components: what the pass over the rows of a task needs.
//!
//! With `q(c_jh)` fixed, the exponent of a row in group `h` is that of the atoms averaged by `sigma_jhs`. It is again that of one Gaussian and one
//! expert: `P_jh = sum_s sigma nu_s B_s`, `m_jh = P_jh^-1 sum_s sigma nu_s B_s m_s`, and the expert with the moments `sum_s sigma <w>` and
//! `sum_s sigma <w w'>`; the spread of the atoms' means around `m_jh` joins the constant.

use std::f64::consts::PI;

use npb_linalg::faer::{Mat, Scale};
use npb_linalg::{Cholesky, NotPositiveDefinite};

use crate::bound::bilinear;
use crate::conditional::Linear;
use crate::pass::Terms;
use crate::state::{Component, Expected, Expert, dot};

/// What the groups need of an atom, computed once for all tasks.
pub(super) struct Atom<'a> {
    expected: &'a Expected,
    mean: &'a [f64],
    /// `nu_s B_s m_s`.
    weighted_mean: Vec<f64>,
    /// `(<ln|Lambda_s|> - P ln(2 pi) - P/u_s) / 2`.
    constant: f64,
    expert: Option<AtomExpert<'a>>,
}

/// The moments of an atom's expert.
struct AtomExpert<'a> {
    tied: bool,
    mean: &'a [f64],
    /// `<w w'>`.
    second: Mat<f64>,
}

impl Atom<'_> {
    /// Whether rows with labels may be its own: an expert that is tied to its prior takes none.
    pub(super) fn takes_labels(&self) -> bool {
        self.expert.as_ref().is_none_or(|expert| !expert.tied)
    }
}

/// Atoms from their components and experts; without experts if these know nothing yet.
pub(super) fn atoms<'a>(
    components: &'a [Component],
    expected: &'a [Expected],
    experts: &'a [Expert],
) -> Vec<Atom<'a>> {
    let atom = |(s, expected): (usize, &'a Expected)| {
        let component = &components[s];
        let p = component.mean.len();
        let row = |j: usize| dot(expected.precision.col_as_slice(j), &component.mean);
        Atom {
            expected,
            mean: &component.mean,
            weighted_mean: (0..p).map(row).collect(),
            constant: 0.5
                * (expected.ln_det_precision
                    - p as f64 * ((2.0 * PI).ln() + 1.0 / component.strength)),
            expert: experts.get(s).map(|expert| {
                let mean = &expert.mean;
                AtomExpert {
                    tied: expert.tied,
                    mean,
                    second: Mat::from_fn(p + 1, p + 1, |i, j| {
                        expert.covariance[(i, j)] + mean[i] * mean[j]
                    }),
                }
            }),
        }
    };
    expected.iter().enumerate().map(atom).collect()
}

/// The groups of one task.
pub(super) struct Groups {
    /// `m_jh` as columns.
    pub(super) means: Mat<f64>,
    pub(super) labelled: Terms,
    pub(super) unlabelled: Terms,
}

impl Groups {
    /// Of a task with these indicators; `ln_weights` are `<ln pi_jh>`, and there is one utility, or none without labels. On failure: the group whose precision is not positive definite.
    pub(super) fn new(
        atoms: &[Atom<'_>],
        indicators: &[Vec<f64>],
        ln_weights: &[f64],
        p: usize,
        n_utilities: usize,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let n = indicators.len();
        let mut groups = Self {
            means: Mat::zeros(p, n),
            unlabelled: Terms {
                precision: Vec::with_capacity(n),
                constant: Vec::with_capacity(n),
                linear: None,
            },
            labelled: Terms {
                precision: Vec::with_capacity(n),
                constant: Vec::with_capacity(n),
                linear: Some(Linear::zeros(p, n, n_utilities)),
            },
        };
        for (h, indicator) in indicators.iter().enumerate() {
            let parts: Vec<(f64, &Atom<'_>)> = indicator
                .iter()
                .copied()
                .zip(atoms)
                .filter(|(sigma, _)| *sigma > 0.0)
                .collect();
            groups
                .push(h, &parts, ln_weights[h])
                .map_err(|source| (h, source))?;
        }
        Ok(groups)
    }

    fn push(
        &mut self,
        h: usize,
        parts: &[(f64, &Atom<'_>)],
        ln_weight: f64,
    ) -> Result<(), NotPositiveDefinite> {
        let (mean, precision, constant) = gaussian(parts)?;
        self.means.col_as_slice_mut(h).copy_from_slice(&mean);
        let constant = constant + ln_weight;
        self.unlabelled.precision.push(precision.clone());
        self.unlabelled.constant.push(constant);
        let (precision, constant) = self.expert(h, parts, &mean, precision, constant);
        self.labelled.precision.push(precision);
        self.labelled.constant.push(constant);
        Ok(())
    }

    /// Adds what the experts make of a label.
    fn expert(
        &mut self,
        h: usize,
        parts: &[(f64, &Atom<'_>)],
        centre: &[f64],
        mut precision: Mat<f64>,
        constant: f64,
    ) -> (Mat<f64>, f64) {
        let p = centre.len();
        if !parts.iter().all(|(_, atom)| atom.takes_labels()) {
            // An expert that has no labelled rows takes none: it knows nothing of them.
            return (precision, f64::NEG_INFINITY);
        }
        let mut mean = vec![0.0; p + 1];
        let mut second = Mat::<f64>::zeros(p + 1, p + 1);
        for (sigma, atom) in parts {
            let Some(expert) = &atom.expert else {
                return (precision, constant);
            };
            second += &expert.second * Scale(*sigma);
            mean.iter_mut()
                .zip(expert.mean)
                .for_each(|(to, w)| *to += sigma * w);
        }
        // The intercept moves to the group's mean.
        let offset: Vec<f64> = (0..p)
            .map(|i| second[(i, p)] + dot(&second.col_as_slice(i)[..p], centre))
            .collect();
        let intercept = mean[p] + dot(&mean[..p], centre);
        let intercept_second = second[(p, p)]
            + (0..p)
                .map(|i| centre[i] * (second[(i, p)] + offset[i]))
                .sum::<f64>();
        for j in 0..p {
            for i in 0..p {
                precision[(i, j)] += second[(i, j)];
            }
        }
        let linear = self.labelled.linear.as_mut().expect("made with the groups");
        linear.add(h, 0, intercept, &mean[..p], &offset);
        (precision, constant - 0.5 * intercept_second)
    }
}

/// Mean, precision and constant of the average of some atoms.
fn gaussian(parts: &[(f64, &Atom<'_>)]) -> Result<(Vec<f64>, Mat<f64>, f64), NotPositiveDefinite> {
    if let [(sigma, atom)] = parts
        && *sigma == 1.0
    {
        let precision = atom.expected.precision.clone();
        return Ok((atom.mean.to_vec(), precision, atom.constant));
    }
    let p = parts[0].1.mean.len();
    let mut precision = Mat::<f64>::zeros(p, p);
    let mut mean = vec![0.0; p];
    for (sigma, atom) in parts {
        precision += &atom.expected.precision * Scale(*sigma);
        mean.iter_mut()
            .zip(&atom.weighted_mean)
            .for_each(|(to, x)| *to += sigma * x);
    }
    if p > 0 {
        Cholesky::new(precision.as_ref())?.solve(&mut mean);
    }
    let constant = |(sigma, atom): &(f64, &Atom<'_>)| {
        let apart: Vec<f64> = atom.mean.iter().zip(&mean).map(|(a, b)| a - b).collect();
        sigma * (atom.constant - 0.5 * bilinear(&atom.expected.precision, &apart, &apart))
    };
    let constant = parts.iter().map(constant).sum();
    Ok((mean, precision, constant))
}
