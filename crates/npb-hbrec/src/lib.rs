//! Learning from many small data sets: nonparametric hierarchical Bayes, and a hybrid recommender that needs twenty ratings.
//!
//! For users, hospitals, fields or other tasks that have little data each: every one has a model of its own, and what the others have taught is its prior.
//!
//! ```text
//! theta_j | G ~ G,   G ~ DP(tau, G_0),   D_j ~ P(D_j | theta_j)
//! P(Y | x, D_a) ~ tau P(D_a) P(Y | x, D_a, G_0) + sum_k xi_k P(D_a | theta_k) P(Y | x, theta_k)
//! ```
//!
//! The base distribution `G_0` is learned: for items a mean for each and a covariance of low rank, which content of the items informs. Users of the database
//! are point masses with weights by EM; a new user is one fit away. Source: V. Tresp and K. Yu, *An introduction to nonparametric hierarchical Bayesian
//! modelling*. Model, updates and what differs from the source are in the repository's `docs/hbrec.md`.
//!
//! ```
//! use npb_hbrec::npb_data::{Rating, Ratings};
//! use npb_hbrec::{HbrecConfig, HbrecFit, LikeMatrix, Likes, Saved, fit};
//!
//! // Stars of 60 users of two tastes for 12 of 15 films each.
//! let stars = |user: usize, film: usize| if (user + film) % 2 == 0 { 5.0 } else { 2.0 };
//! let entries: Vec<Rating> = (0..60)
//!     .flat_map(|row| (0..15).map(move |column| (row, column)))
//!     .filter(|(row, column)| (3 * row + column) % 5 != 0)
//!     .map(|(row, column)| Rating { row: row as u32, column: column as u32, value: stars(row, column) })
//!     .collect();
//! let likes = LikeMatrix::new(&Ratings::new(60, 15, &entries)?, 4.0)?;    // liked are four stars or more
//!
//! // Base distribution, users as atoms, their weights.
//! let model = fit(&likes, None, &HbrecConfig::default())?;
//!
//! // A new user with three ratings: no new fit of the model.
//! let new = model.user(&Likes::new(15, &[(0, true), (1, false), (2, true)])?)?;
//! let p = model.predict_all(&new)?;
//! assert!(p[4] > 0.8 && p[5] < 0.2);
//!
//! // On file and back.
//! let again = HbrecFit::from_bytes(&model.to_bytes()?)?;
//! assert_eq!(again.predict_all(&new)?, p);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | fit in one call, watched | [`fit`], [`fit_watched`], [`HbrecFit`], [`HbrecConfig`], [`BaseDistribution`] |
//! | likes of one user, of all | [`Likes`], [`LikeMatrix`] |
//! | a user as the fit sees it | [`HbrecUser`], [`HbrecFit::user`], [`HbrecFit::database_user`], [`HbrecFit::draw`] |
//! | later users and items | [`HbrecFit::add_user`], [`HbrecFit::add_item`] |
//! | user models | [`UserModel`]: [`ProbitItems`], [`BernoulliItems`]; of [`Task`]s [`LinearTask`], [`ProbitTask`] |
//! | base distributions | [`learn_base`], [`BaseEm`], [`LearnedBase`], [`ItemPrior`]; [`learn_gaussian`], [`GaussianPrior`] |
//! | kernel of content, its scales | [`Content`], [`ContentKernel`], [`KernelScales`], [`learn_scales`] |
//! | classes of rows of many groups | [`fit_groups`], [`fit_groups_watched`], [`GroupedFit`], [`GroupedConfig`] |
//! | point masses for any user model | [`Mixture`], [`ActiveUser`], [`AtomRule`], [`Weights`], [`WeightsConfig`], [`DpConcentration`] |
//! | their weights, step by step | [`WeightsEm`], [`LikelihoodTable`], [`learn_weights`], [`infer_tau`], [`AtomTable`] |
//! | finite model | [`FiniteEm`], [`FiniteSampler`] |
//! | infinite model by Gibbs sampling | [`fit_gibbs`], [`DpGibbsFit`], [`DpGibbsConfig`], [`DpMove`], [`DpSampler`], [`DpState`], [`Clusters`] |
//! | recommend: lists, how sure, why, explore | [`Recommender`], [`RecommenderConfig`], [`Filter`], [`Profile`], [`Recommendation`], [`Chance`], [`Reasons`], [`Because`] |
//! | errors | [`HbrecError`] |

mod atoms;
mod base;
mod config;
mod em;
mod ep;
mod error;
mod finite;
mod fit;
mod gibbs;
mod grouped;
mod kernel;
mod laplace;
mod likes;
mod prior;
mod recommend;
mod state;
mod task;
mod user;
mod users;

pub use atoms::AtomTable;
pub use base::{BaseEm, BaseUpdate, LearnedBase, learn_base, learn_gaussian};
pub use config::{
    BaseConfig, BaseDistribution, DpConcentration, DpGibbsConfig, DpMove, GroupedConfig,
    HbrecConfig, WeightsConfig,
};
pub use em::{ActiveUser, LikelihoodTable, Mixture, Weights, WeightsEm, infer_tau, learn_weights};
pub use error::HbrecError;
pub use finite::{FiniteEm, FiniteSampler};
pub use fit::{HbrecContents, HbrecFit, HbrecUser, fit, fit_watched};
pub use gibbs::{Clusters, DpChain, DpGibbsFit, DpSampler, fit_gibbs, fit_gibbs_watched};
pub use grouped::{GroupedFit, fit_groups, fit_groups_watched};
pub use kernel::{Content, ContentKernel, KernelScales, learn_scales, summed_ln_evidence};
pub use likes::{LikeMatrix, Likes};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_linalg;
pub use npb_priors;
pub use prior::ItemPrior;
pub use recommend::{
    Because, Chance, Filter, Profile, Reasons, Recommendation, Recommender, RecommenderConfig,
};
pub use state::DpState;
pub use task::{GaussianPrior, Task};
pub use user::{AtomRule, GaussianTask, GibbsModel, UserModel};
pub use users::{
    BernoulliItems, BetaPosterior, ItemAtom, LinearTask, NormalPosterior, ProbitItems,
    ProbitPosterior, ProbitTask, TaskAtom, TaskPosterior,
};
