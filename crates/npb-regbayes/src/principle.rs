//! Regularised Bayesian inference by itself: a posterior that also meets what is asked of its expectations.
//!
//! ```text
//! min_q  KL(q(M) || p(M, D)) + sum_c g_c(E_q[psi_c])
//! ```
//!
//! over all distributions of a finite model space ([`FiniteSpace`]) or a Gaussian factor ([`GaussianFactor`]). Theorem 6 of R: the solution is
//! `q(M) ~ p(M, D) exp(sum_t phi_t psi_t(M))`, and `phi` maximises the concave dual `-ln sum_M p(M, D) exp(phi' psi) - g*(-phi)`, one number per feature of a
//! constraint. One of them at a time is set to its best value, the root of a monotone function, until primal and dual agree.
//!
//! Equations: `docs/regbayes.md#the-principle`.

mod dual;
mod exponential;
mod penalty;
mod root;
mod space;

pub use dual::{PrincipleLimits, Regularised};
pub use penalty::{Constraint, Penalty, Softness};
pub use space::{FiniteSpace, GaussianFactor};
