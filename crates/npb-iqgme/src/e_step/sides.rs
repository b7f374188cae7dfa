//! What an E-step is given: the law of a row under each component, and the factors of the rows.

use npb_linalg::mixture::{Form, Linear, Quadratics, padded};

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};

use super::atoms::{Atom, Averages, Parts, Terms, atoms};
use crate::rows::Rows;
use crate::state::{Expected, IqgmeState, dot};
use npb_priors::dist::multinomial_probit;

/// Responsibilities below this are set to zero: the component is not active in the row.
pub(super) const INACTIVE: f64 = 1e-20;

/// The variational factor of a labelled row with missing features when there are two classes; with more its utilities are always mean-field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFamily {
    /// `q(t) q(x^m | z) q(z)` (the thesis), for one task. The experts' coefficients shrink the more, the more is missing; with one small task that
    /// is as good as a stronger prior.
    MeanField,
    /// `q(t, x^m, z)`, all in one, for many tasks: the bound is higher, and the experts are not shrunk for what is missing.
    Structured,
}

/// Which of a row's quantities the E-step updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// `q(z)`; otherwise the responsibilities given are used.
    pub(crate) responsibilities: bool,
    /// `q(t)`, where it is a factor of its own.
    pub(crate) utility_means: bool,
    /// What is a factor of its own.
    pub(crate) family: RowFamily,
}

/// What complete rows need of the components.
pub(super) struct CompleteSide {
    pub(super) forms: Vec<Form>,
    /// The part of `ln rho` that is the same for all rows.
    pub(super) constant: Vec<f64>,
    /// What is to be added to the slopes of the form: component, utility. None for unlabelled rows.
    pub(super) intercepts: Vec<f64>,
    pub(super) n_utilities: usize,
}

impl CompleteSide {
    /// The offset `b'd` is absorbed by the square: `d'L d + 2 b'd = |C'(d + s)|^2 - b's` with `s = L^-1 b`.
    pub(super) fn new(
        terms: &Terms,
        means: &Mat<f64>,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let p = means.nrows();
        let mut side = Self {
            forms: Vec::with_capacity(means.ncols()),
            constant: terms.constant.clone(),
            intercepts: Vec::new(),
            n_utilities: 0,
        };
        for (h, precision) in terms.precision.iter().enumerate() {
            let factor = Cholesky::new(precision.as_ref()).map_err(|source| (h, source))?;
            let mean = means.col_as_slice(h);
            let Some(linear) = &terms.linear else {
                side.forms.push(Form::with_factor(mean, &factor, &[]));
                continue;
            };
            side.n_utilities = linear.intercepts(h).len();
            let offset = &linear.offset(h)[..p];
            let mut shift = offset.to_vec();
            factor.solve(&mut shift);
            let centre: Vec<f64> = mean.iter().zip(&shift).map(|(m, s)| m - s).collect();
            let mut slopes = Vec::with_capacity(p * side.n_utilities);
            for (k, intercept) in linear.intercepts(h).iter().enumerate() {
                let slope = &linear.slope(h, k)[..p];
                side.intercepts.push(intercept - dot(slope, &shift));
                slopes.extend_from_slice(slope);
            }
            let form = Form::with_factor(&centre, &factor, &slopes);
            side.forms.push(form);
            side.constant[h] += 0.5 * dot(offset, &shift);
        }
        Ok(side)
    }
}

/// What rows with missing features need of the components.
pub(super) struct IncompleteSide {
    pub(super) quadratics: Quadratics,
    /// The part of `k_ih` that is the same for all rows, by lane; minus infinity in the padding.
    pub(super) constant: Vec<f64>,
    pub(super) linear: Option<Linear>,
}

impl IncompleteSide {
    pub(super) fn new(terms: Terms) -> Result<Self, (usize, NotPositiveDefinite)> {
        let mut constant = terms.constant;
        constant.resize(padded(constant.len()), f64::NEG_INFINITY);
        let quadratics = Quadratics::new(terms.precision)?;
        let mut linear = terms.linear;
        if let Some(linear) = &mut linear {
            linear.finalise(&quadratics);
        }
        Ok(Self {
            quadratics,
            constant,
            linear,
        })
    }
}

/// What the E-step needs of the components for the labelled rows, or for the others: only for such rows as there are.
pub(super) struct Side {
    pub(super) complete: Option<CompleteSide>,
    pub(super) incomplete: Option<IncompleteSide>,
}

impl Side {
    fn new(
        terms: Terms,
        means: &Mat<f64>,
        rows: &Rows,
        labelled: bool,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let complete = rows.any(labelled, true);
        let complete = complete.then(|| CompleteSide::new(&terms, means));
        let incomplete = rows.any(labelled, false);
        Ok(Self {
            complete: complete.transpose()?,
            incomplete: incomplete.then(|| IncompleteSide::new(terms)).transpose()?,
        })
    }
}

/// The posterior of the parameters in the form the E-step uses.
pub(crate) struct EStepParameters {
    /// `m_h` as columns.
    pub(super) means: Mat<f64>,
    pub(super) n_utilities: usize,
    pub(super) labelled: Side,
    pub(super) unlabelled: Side,
}

impl EStepParameters {
    /// Of one task. On failure: the component whose quadratic form is not positive definite.
    pub(crate) fn new(
        state: &IqgmeState,
        expected: &[Expected],
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let mut ln_weights = vec![0.0; state.sticks.truncation()];
        state.sticks.expected_ln_weights(&mut ln_weights);
        let atoms = atoms(&state.components, expected, &state.experts);
        let parts = atoms.iter().map(|atom| vec![(1.0, atom)]);
        Self::of_parts(parts, &ln_weights, rows)
    }

    /// Of components that average atoms by these indicators. On failure as [`new`](Self::new).
    pub(crate) fn averaged(
        atoms: &[Atom<'_>],
        indicators: &[Vec<f64>],
        ln_weights: &[f64],
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let parts = |indicator: &Vec<f64>| {
            let each = indicator.iter().copied().zip(atoms);
            each.filter(|(sigma, _)| *sigma > 0.0).collect()
        };
        Self::of_parts(indicators.iter().map(parts), ln_weights, rows)
    }

    fn of_parts<'p, 'a: 'p>(
        parts: impl ExactSizeIterator<Item = Parts<'p, 'a>>,
        ln_weights: &[f64],
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let of = Averages::new(parts, ln_weights, rows.n_features, rows.n_utilities)?;
        Self::from_terms(of.means, of.labelled, of.unlabelled, rows)
    }

    /// From the law of labelled and of unlabelled rows given each component, around the columns of `means`.
    pub(super) fn from_terms(
        means: Mat<f64>,
        labelled: Terms,
        unlabelled: Terms,
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        Ok(Self {
            labelled: Side::new(labelled, &means, rows, true)?,
            unlabelled: Side::new(unlabelled, &means, rows, false)?,
            n_utilities: rows.n_utilities,
            means,
        })
    }

    pub(super) fn n_components(&self) -> usize {
        self.means.ncols()
    }

    pub(super) fn side(&self, labelled: bool) -> &Side {
        [&self.unlabelled, &self.labelled][usize::from(labelled)]
    }
}

/// What the E-step updates of the rows, by sorted position.
pub(crate) struct RowFactors<'a> {
    /// Locations of `q(t)`: row, utility.
    pub(crate) locations: &'a mut [f64],
    /// `<t>`: row, utility.
    pub(crate) soft: &'a mut [f64],
    /// In the layout of [`crate::responsibilities::Responsibilities`].
    pub(crate) responsibilities: &'a mut [f64],
}

impl<'a> RowFactors<'a> {
    /// Takes the factors of the first `n` rows out.
    pub(super) fn take(&mut self, n: usize, n_components: usize, n_utilities: usize) -> Self {
        Self {
            locations: first(&mut self.locations, n * n_utilities),
            soft: first(&mut self.soft, n * n_utilities),
            responsibilities: first(&mut self.responsibilities, n * n_components),
        }
    }
}

/// Takes the first values out of a slice.
pub(crate) fn first<'a, T>(of: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    of.split_off_mut(..n).expect("as many as there are")
}

/// `<t>` of every row (row, utility), from its locations and class; zero for an unlabelled row.
pub(crate) fn expected_utilities(locations: &[f64], rows: &Rows) -> Vec<f64> {
    let mut soft = vec![0.0; locations.len()];
    let n_utilities = rows.n_utilities.max(1);
    let each = soft
        .chunks_exact_mut(n_utilities)
        .zip(locations.chunks_exact(n_utilities));
    for ((soft, locations), class) in each.zip(&rows.classes) {
        if let Some(class) = *class {
            multinomial_probit::moments(class, locations, soft);
        }
    }
    soft
}
