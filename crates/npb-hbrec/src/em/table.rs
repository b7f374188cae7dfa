//! ln P(D_j | theta_k) of users and atoms.

use std::ops::ControlFlow;

use npb_infer::parallel;
use npb_linalg::elementary::vectorised;
use pulp::Arch;

use crate::{HbrecError, UserModel};

/// Users between two reports to the watcher.
const CHUNK: usize = 64;
/// Atoms that are summed side by side: two of the widest registers.
const LANES: usize = 16;
/// Users that are given to a model at once.
const TOGETHER: usize = 8;

/// The likelihood of each user's data under each atom. Held relative to the user's best atom in single precision: 4 M K bytes. A user's own atom is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct LikelihoodTable {
    n_atoms: usize,
    ratios: Vec<f32>,
    /// The largest log-likelihood of each user; minus infinity where no other atom is possible.
    top: Vec<f64>,
    own: Vec<Option<usize>>,
}

fn size(what: &'static str, found: usize, expected: usize) -> HbrecError {
    HbrecError::Size {
        what,
        found,
        expected,
    }
}

impl LikelihoodTable {
    /// From log-likelihoods, a row for each user, and which atom (if any) is the user's own.
    ///
    /// # Errors
    /// Rows of another length; a log-likelihood that is NaN or plus infinity; an own atom that does not exist.
    pub fn new(
        n_atoms: usize,
        rows: &[Vec<f64>],
        own: &[Option<usize>],
    ) -> Result<Self, HbrecError> {
        if own.len() != rows.len() {
            return Err(size("own atoms of users", own.len(), rows.len()));
        }
        if let Some(row) = rows.iter().find(|row| row.len() != n_atoms) {
            return Err(size("log-likelihoods of a user", row.len(), n_atoms));
        }
        let mut table = Self::empty(n_atoms);
        for (row, &own) in rows.iter().zip(own) {
            table.push_checked(row, own)?;
        }
        Ok(table)
    }

    /// Of a model: every user's data under every atom, user `j` without its own atom `own[j]`. Users in parallel.
    ///
    /// # Errors
    /// As [`LikelihoodTable::new`].
    pub fn of_model<U: UserModel>(
        model: &U,
        atoms: &[U::Parameter],
        users: &[&U::Data],
        own: &[Option<usize>],
    ) -> Result<Self, HbrecError> {
        let table = Self::of_model_watched(model, atoms, users, own, |_| ControlFlow::Continue(()));
        Ok(table?.unwrap_or_else(|| unreachable!("nobody stops it")))
    }

    /// As [`of_model`](Self::of_model); `watch` hears how many users are done. Nothing when it breaks.
    pub(crate) fn of_model_watched<U: UserModel>(
        model: &U,
        atoms: &[U::Parameter],
        users: &[&U::Data],
        own: &[Option<usize>],
        mut watch: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<Self>, HbrecError> {
        let atoms: Vec<&U::Parameter> = atoms.iter().collect();
        let rows = |users: &[&U::Data]| model.ln_likelihoods(&atoms, users);
        let mut table = Self::empty(atoms.len());
        for (chunk, own) in users.chunks(CHUNK).zip(own.chunks(CHUNK)) {
            let found = parallel::map(chunk.chunks(TOGETHER), rows);
            for (row, &own) in found.iter().flatten().zip(own) {
                table.push_checked(row, own)?;
            }
            if watch(table.n_users()).is_break() {
                return Ok(None);
            }
        }
        Ok(Some(table))
    }

    /// Adds the log-likelihoods of a user, as many as there are atoms.
    fn push_checked(&mut self, row: &[f64], own: Option<usize>) -> Result<(), HbrecError> {
        if let Some(column) = row.iter().position(|l| l.is_nan() || *l == f64::INFINITY) {
            return Err(HbrecError::Value {
                what: "log-likelihoods of users under atoms",
                row: self.n_users(),
                column,
                value: row[column],
                rule: "must be a number below infinity",
            });
        }
        if let Some(own) = own.filter(|&own| own >= self.n_atoms) {
            return Err(size(
                "atoms, one of them a user's own:",
                self.n_atoms,
                own + 1,
            ));
        }
        self.push(row, own);
        Ok(())
    }

    pub(crate) fn empty(n_atoms: usize) -> Self {
        Self {
            n_atoms,
            ratios: Vec::new(),
            top: Vec::new(),
            own: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: &[f64], own: Option<usize>) {
        let others = || row.iter().enumerate().filter(|(k, _)| Some(*k) != own);
        let top = others().map(|(_, l)| *l).fold(f64::NEG_INFINITY, f64::max);
        let ratio = |(k, l): (usize, &f64)| {
            if Some(k) == own || top == f64::NEG_INFINITY {
                0.0
            } else {
                (l - top).exp() as f32
            }
        };
        self.ratios.extend(row.iter().enumerate().map(ratio));
        self.top.push(top);
        self.own.push(own);
    }

    /// Some of the atoms alone.
    pub(crate) fn of_atoms(&self, atoms: &[usize]) -> Self {
        let kept = |user| atoms.iter().map(move |&atom| self.row(user)[atom]);
        Self {
            n_atoms: atoms.len(),
            ratios: (0..self.n_users()).flat_map(kept).collect(),
            top: self.top.clone(),
            own: vec![None; self.n_users()],
        }
    }

    /// M.
    pub fn n_users(&self) -> usize {
        self.top.len()
    }

    /// K.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// ln P(D_j | theta_k): minus infinity for the own atom, and 90 nats or more below the best.
    ///
    /// # Panics
    /// When there is no such user or atom.
    pub fn ln_likelihood(&self, user: usize, atom: usize) -> f64 {
        self.top[user] + f64::from(self.row(user)[atom]).ln()
    }

    fn row(&self, user: usize) -> &[f32] {
        &self.ratios[user * self.n_atoms..(user + 1) * self.n_atoms]
    }

    /// sum_k w_k ratio_jk, in interleaved parts.
    fn weighted(&self, user: usize, weights: &[f64]) -> f64 {
        let mut parts = [0.0; LANES];
        let (row, rest) = self.row(user).as_chunks::<LANES>();
        let (whole, others) = weights.as_chunks::<LANES>();
        vectorised(
            Arch::new(),
            #[inline(always)]
            || {
                for (ratios, weights) in row.iter().zip(whole) {
                    for lane in 0..LANES {
                        parts[lane] += f64::from(ratios[lane]) * weights[lane];
                    }
                }
            },
        );
        let left = rest.iter().zip(others).map(|(&r, w)| f64::from(r) * w);
        parts.iter().sum::<f64>() + left.sum::<f64>()
    }

    /// ln sum_k w_k P(D_j | theta_k) over the atoms that are not j's own; `None` when that is nothing.
    pub(crate) fn ln_mixture(&self, user: usize, weights: &[f64]) -> Option<f64> {
        let sum = self.weighted(user, weights);
        (sum > 0.0).then(|| self.top[user] + sum.ln())
    }

    /// Adds r_jk to the sums; `ln sum_k w_k P(D_j | theta_k)`, where that is not nothing.
    pub(crate) fn add_responsibilities(
        &self,
        user: usize,
        weights: &[f64],
        sums: &mut [f64],
    ) -> Option<f64> {
        let total = self.weighted(user, weights);
        if total <= 0.0 {
            return None;
        }
        let scale = total.recip();
        let all = sums.iter_mut().zip(self.row(user)).zip(weights);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for ((sum, &ratio), weight) in all {
                    *sum += f64::from(ratio) * weight * scale;
                }
            },
        );
        Some(self.top[user] + total.ln())
    }

    /// The atoms that are users' own, ascending.
    pub(crate) fn own_atoms(&self) -> Vec<u32> {
        let mut atoms: Vec<u32> = self.own.iter().flatten().map(|&atom| atom as u32).collect();
        atoms.sort_unstable();
        atoms.dedup();
        atoms
    }

    /// ln sum_k (xi_k - r_jk) P(D_j | theta_k), and the sum of these weights: the user's own atom left out, and its responsibilities if it is one of those that
    /// the weights were fitted to.
    pub(crate) fn without_own(
        &self,
        user: usize,
        xi: &[f64],
        fitted_to: &[u32],
    ) -> Option<(f64, f64)> {
        let own = self.own[user].map(|own| own as u32);
        let contributed = own.is_some_and(|own| fitted_to.binary_search(&own).is_ok());
        let total = self.weighted(user, xi);
        if total <= 0.0 {
            return None;
        }
        let (mut sum, mut mass) = (0.0, 0.0);
        for (k, (&ratio, xi)) in self.row(user).iter().zip(xi).enumerate() {
            if Some(k) == self.own[user] {
                continue;
            }
            let ratio = f64::from(ratio);
            // No more than the whole weight can be the user's own.
            let left = match contributed {
                true => xi - (xi * ratio / total).min(*xi),
                false => *xi,
            };
            sum += left * ratio;
            mass += left;
        }
        (sum > 0.0).then(|| (self.top[user] + sum.ln(), mass))
    }
}
