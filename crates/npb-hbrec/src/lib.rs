//! Learning from many small data sets: nonparametric hierarchical Bayes, and a hybrid recommender that needs twenty ratings.

mod atoms;
mod base;
mod config;
mod em;
mod error;
mod finite;
mod fit;
mod gibbs;
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
    BaseConfig, BaseDistribution, Concentration, GibbsConfig, GibbsMove, HbrecConfig, WeightsConfig,
};
pub use em::{ActiveUser, LikelihoodTable, Mixture, Weights, WeightsEm, infer_tau, learn_weights};
pub use error::HbrecError;
pub use finite::{FiniteEm, FiniteSampler};
pub use fit::{HbrecContents, HbrecFit, HbrecUser, fit, fit_watched};
pub use gibbs::{Clusters, GibbsChain, GibbsFit, GibbsSampler, fit_gibbs, fit_gibbs_watched};
pub use kernel::{Content, ContentKernel, KernelScales, learn_scales, summed_ln_evidence};
pub use likes::{LikeMatrix, Likes};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use prior::ItemPrior;
pub use recommend::{
    Because, Chance, Filter, Profile, Reasons, Recommendation, Recommender, RecommenderConfig,
};
pub use state::GibbsState;
pub use task::{GaussianPrior, Task};
pub use user::{AtomRule, GaussianTask, GibbsModel, UserModel};
pub use users::{
    BernoulliItems, BetaPosterior, ItemAtom, LinearTask, NormalPosterior, ProbitItems,
    ProbitPosterior, ProbitTask, TaskAtom, TaskPosterior,
};
