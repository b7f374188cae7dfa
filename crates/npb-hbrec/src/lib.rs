//! Learning from many small data sets: nonparametric hierarchical Bayes, and a hybrid recommender that needs twenty ratings.

mod base;
mod config;
mod em;
mod error;
mod kernel;
mod laplace;
mod likes;
mod prior;
mod recommend;
mod user;
mod users;

pub use base::{BaseEm, BaseUpdate, LearnedBase, learn_base};
pub use config::{BaseConfig, Concentration, WeightsConfig};
pub use em::{ActiveUser, LikelihoodTable, Mixture, Weights, WeightsEm, infer_tau, learn_weights};
pub use error::HbrecError;
pub use kernel::{Content, ContentKernel, KernelScales, learn_scales, summed_ln_evidence};
pub use likes::{LikeMatrix, Likes};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use prior::ItemPrior;
pub use recommend::{
    BasePrior, Because, Chance, Filter, Profile, Reasons, Recommendation, Recommender,
    RecommenderConfig, StoredRecommender,
};
pub use user::{AtomRule, ConjugateModel, GibbsModel, UserModel};
pub use users::{ItemAtom, ProbitItems, ProbitPosterior};
