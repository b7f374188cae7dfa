//! What an E-step needs of components, each an atom or the average of some.
//!
//! Of one task each component is an atom of its own. Of many tasks, with `q(c_jh)` fixed, the exponent of a row in local component `h` is that of the atoms averaged by
//! `sigma_jhs`. It is again that of one Gaussian and one expert: `P_jh = sum_s sigma nu_s B_s`, `m_jh = P_jh^-1 sum_s sigma nu_s B_s m_s`, and the expert with the moments
//! `sum_s sigma <w>` and `sum_s sigma <w w'>`; the spread of the atoms' means around `m_jh` joins the constant.

use npb_linalg::mixture::Linear;
use std::f64::consts::PI;

use npb_linalg::faer::{Mat, Scale};
use npb_linalg::{Cholesky, NotPositiveDefinite};

use crate::bound::bilinear;
use crate::state::{Component, Expected, Expert, dot};

/// The law of a row given each component: the exponent is `k_ih - d'L_h d / 2` plus what [`Linear`] adds.
pub(super) struct Terms {
    /// `L_h`.
    pub(super) precision: Vec<Mat<f64>>,
    /// The part of `k_ih` that is the same for all rows.
    pub(super) constant: Vec<f64>,
    /// `<t> (<c> + <w_x>'d) - <w_x c>'d`, summed over utilities; none for unlabelled rows.
    pub(super) linear: Option<Linear>,
}

/// What components need of an atom, computed once for all tasks.
pub(crate) struct Atom<'a> {
    expected: &'a Expected,
    mean: &'a [f64],
    /// `nu_s B_s m_s`.
    weighted_mean: Vec<f64>,
    /// `(<ln|Lambda_s|> - P ln(2 pi) - P/u_s) / 2`.
    constant: f64,
    /// By utility.
    experts: Vec<AtomExpert<'a>>,
}

/// The moments of an atom's expert.
struct AtomExpert<'a> {
    at_prior: bool,
    mean: &'a [f64],
    /// `<w w'>`.
    second: Mat<f64>,
}

impl<'a> AtomExpert<'a> {
    fn new(expert: &'a Expert) -> Self {
        let (mean, n) = (&expert.mean, expert.mean.len());
        Self {
            at_prior: expert.at_prior,
            mean,
            second: Mat::from_fn(n, n, |i, j| expert.covariance[(i, j)] + mean[i] * mean[j]),
        }
    }
}

impl Atom<'_> {
    /// Whether rows with labels may be its own: experts that are at their prior take none.
    pub(crate) fn takes_labels(&self) -> bool {
        self.experts.iter().all(|expert| !expert.at_prior)
    }
}

/// Atoms from their components and experts; without experts if these know nothing yet.
pub(crate) fn atoms<'a>(
    components: &'a [Component],
    expected: &'a [Expected],
    experts: &'a [Expert],
) -> Vec<Atom<'a>> {
    let n_utilities = experts.len() / components.len().max(1);
    let atom = |(s, expected): (usize, &'a Expected)| {
        let component = &components[s];
        let p = component.mean.len();
        let row = |j: usize| dot(expected.precision.col_as_slice(j), &component.mean);
        let spread = p as f64 * ((2.0 * PI).ln() + 1.0 / component.strength);
        let experts = &experts[s * n_utilities..][..n_utilities];
        Atom {
            expected,
            mean: &component.mean,
            weighted_mean: (0..p).map(row).collect(),
            constant: 0.5 * (expected.ln_det_precision - spread),
            experts: experts.iter().map(AtomExpert::new).collect(),
        }
    };
    expected.iter().enumerate().map(atom).collect()
}

/// Components around their means.
pub(super) struct Averages {
    /// `m_jh` as columns.
    pub(super) means: Mat<f64>,
    pub(super) labelled: Terms,
    pub(super) unlabelled: Terms,
}

/// The atoms of a component and how much of each.
pub(super) type Parts<'p, 'a> = Vec<(f64, &'p Atom<'a>)>;

impl Averages {
    /// Of components with these parts; `ln_weights` are `<ln pi_jh>`, and there are no utilities without labels. On failure: the component whose precision is not positive
    /// definite.
    pub(super) fn new<'p, 'a: 'p>(
        parts: impl ExactSizeIterator<Item = Parts<'p, 'a>>,
        ln_weights: &[f64],
        p: usize,
        n_utilities: usize,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let n = parts.len();
        let terms = |linear| Terms {
            precision: Vec::with_capacity(n),
            constant: Vec::with_capacity(n),
            linear,
        };
        let mut averages = Self {
            means: Mat::zeros(p, n),
            unlabelled: terms(None),
            labelled: terms(Some(Linear::zeros(p, n, n_utilities))),
        };
        for (h, parts) in parts.enumerate() {
            let pushed = averages.push(h, &parts, ln_weights[h]);
            pushed.map_err(|source| (h, source))?;
        }
        Ok(averages)
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
        let (precision, constant) = self.experts(h, parts, &mean, precision, constant);
        self.labelled.precision.push(precision);
        self.labelled.constant.push(constant);
        Ok(())
    }

    /// Adds what the experts make of a label.
    fn experts(
        &mut self,
        h: usize,
        parts: &[(f64, &Atom<'_>)],
        centre: &[f64],
        mut precision: Mat<f64>,
        mut constant: f64,
    ) -> (Mat<f64>, f64) {
        if !parts.iter().all(|(_, atom)| atom.takes_labels()) {
            // Experts that have no labelled rows take none: they know nothing of them.
            return (precision, f64::NEG_INFINITY);
        }
        for k in 0..parts[0].1.experts.len() {
            let of_utility = parts.iter().map(|(sigma, atom)| (*sigma, &atom.experts[k]));
            let (mean, second) = average(of_utility, centre.len() + 1);
            constant -= self.utility([h, k], &mean, &second, centre, &mut precision);
        }
        (precision, constant)
    }

    /// Adds the terms of utility `k` of component `h`, whose expert has these moments; the intercept moves to the component's mean. Returns half its second moment there.
    fn utility(
        &mut self,
        [h, k]: [usize; 2],
        mean: &[f64],
        second: &Mat<f64>,
        centre: &[f64],
        precision: &mut Mat<f64>,
    ) -> f64 {
        let p = centre.len();
        let offset = (0..p).map(|i| second[(i, p)] + dot(&second.col_as_slice(i)[..p], centre));
        let offset: Vec<f64> = offset.collect();
        let intercept = mean[p] + dot(&mean[..p], centre);
        let products = (0..p).map(|i| centre[i] * (second[(i, p)] + offset[i]));
        let intercept_second = second[(p, p)] + products.sum::<f64>();
        for j in 0..p {
            for i in 0..p {
                precision[(i, j)] += second[(i, j)];
            }
        }
        let linear = self.labelled.linear.as_mut().expect("made with the rest");
        linear.add(h, k, intercept, &mean[..p], &offset);
        0.5 * intercept_second
    }
}

/// First and second moments of the average of some experts with `n` coefficients.
fn average<'a>(
    parts: impl Iterator<Item = (f64, &'a AtomExpert<'a>)>,
    n: usize,
) -> (Vec<f64>, Mat<f64>) {
    let mut mean = vec![0.0; n];
    let mut second = Mat::<f64>::zeros(n, n);
    for (sigma, expert) in parts {
        second += &expert.second * Scale(sigma);
        let each = mean.iter_mut().zip(expert.mean);
        each.for_each(|(to, w)| *to += sigma * w);
    }
    (mean, second)
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
        let each = mean.iter_mut().zip(&atom.weighted_mean);
        each.for_each(|(to, x)| *to += sigma * x);
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
