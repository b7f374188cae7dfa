//! Comparators for the experiments of this workspace; not published.
//!
//! Three ways to fill the holes of a [`Table`](npb_data::Table), each learnt from training rows and applied to any rows,
//! classifiers that need complete rows and some that do not, classifiers of several tasks, and predictors of the holes of [`Ratings`](npb_data::Ratings):
//!
//! | what | type | settings |
//! |---|---|---|
//! | unconditional mean | [`MeanImputer`] | none |
//! | conditional mean by chained equations | [`ChainedImputer`] | [`ChainedConfig`] |
//! | conditional mean under one Gaussian fitted by EM | [`GaussianImputer`] | [`GaussianConfig`] |
//! | support vector machine, linear or RBF | [`Svm`] | [`SvmConfig`] |
//! | several classes by such machines, one for each pair | [`PairwiseSvm`] | [`SvmConfig`] |
//! | linear support vector machine, two or more classes, dense or sparse | [`LinearSvm`], [`OneAgainstRest`] | [`LinearConfig`] |
//! | linear support vector regression, dense or sparse | [`LinearSvr`] | [`LinearConfig`] |
//! | ridge regression, dense or sparse | [`Ridge`] | penalty |
//! | ridge regression for tasks: apart, pooled, shared and own weights | [`TaskRidge`] | [`Sharing`], penalty |
//! | principal components | [`Pca`] | their number |
//! | weights of words by rarity | [`TfIdf`] | none |
//! | relevance vector machine, linear or RBF | [`Rvm`] | [`RvmConfig`] |
//! | logistic regression with an L2 penalty | [`LogisticRegression`] | [`LogisticConfig`] |
//! | random forest | [`RandomForest`] | [`RandomForestConfig`] |
//! | boosted trees; takes holes and tasks | [`BoostedTrees`] | [`BoostedTreesConfig`] |
//! | Gaussian mixture by EM; takes holes, fills them | [`GaussianMixture`] | [`MixtureConfig`] |
//! | logistic regression integrated over that mixture; takes holes | [`IntegratedLogistic`] | [`IntegratedConfig`] |
//! | logistic regression for tasks: apart, pooled, shared and own weights | [`TaskLogistic`] | [`TaskLogisticConfig`] |
//! | logistic regression with a Dirichlet process over tasks | [`ClusteredLogistic`] | [`ClusteredConfig`] |
//! | alternating structure optimisation over tasks | [`SharedStructure`] | [`StructureConfig`] |
//! | matrix of least nuclear norm (soft-impute and its noise-free limit) | [`NuclearNorm`] | [`NuclearNormConfig`] |
//! | global, row and column means | [`RatingMeans`] | none |
//! | global mean with row and column biases by least squares | [`Biases`] | [`BiasConfig`] |
//! | K-SVD dictionary with orthogonal matching pursuit, noise told, of an [`Image`](npb_data::Image) | [`ksvd`] | [`KsvdConfig`] |
//! | non-local means, noise told | [`nl_means`] | [`NlMeansConfig`] |
//! | median of 3 x 3 pixels | [`median_3x3`] | none |
//! | missing pixels by linear interpolation over triangles | [`interpolate_linear`] | none |
//! | a cube as mixtures of few spectra, by alternating least squares | [`least_squares_bands`] | [`BandsConfig`] |
//! | collaborative filtering by Pearson correlation, as printed by Breese et al. and normalised | [`Pearson`] | [`PearsonForm`] |
//! | item-based nearest neighbours on signed likes | [`ItemKnn`] | [`ItemKnnConfig`] |
//! | popularity and like-rates of items | [`ItemRates`] | none |
//! | implicit alternating least squares | [`ImplicitAls`] | [`ImplicitAlsConfig`] |
//! | hit rates of pairs, rows and columns of a binomial matrix | [`HitRates`] | none |
//!
//! Three predictors of held-out cells of a [`MixedTable`](npb_data::MixedTable): [`marginal_cells`] (the column alone),
//! [`chained_cells`] (chained ridge and multinomial regressions) and [`boosted_cells`] (gradient-boosted trees).
//!
//! Defaults of classifiers are those of scikit-learn, so that printed figures can be compared. An imputed table is a `Table` in which
//! nothing is missing. A column without a single observed training value tells nothing: every imputer writes 0 there, in
//! all rows, whatever a later row holds.
//!
//! ```
//! use npb_baselines::{GaussianConfig, GaussianImputer, Svm, SvmConfig};
//! use npb_data::Table;
//!
//! let nan = f64::NAN;
//! let train = Table::from_nan_coded(4, 2, &[0.0, 0.1, 0.2, nan, 1.0, 0.9, nan, 1.1])?;
//! let imputer = GaussianImputer::fit(&train, &GaussianConfig::default())?;
//! let filled = imputer.transform(&train)?;
//! let svm = Svm::fit(&filled, &[false, false, true, true], &SvmConfig::default())?;
//! let scores = svm.decision(&filled)?;
//! assert!(scores[0] < scores[3]);
//! # Ok::<(), npb_baselines::BaselineError>(())
//! ```

mod boosted;
mod cells;
mod chained;
mod clustered;
mod collaborative;
mod error;
mod filters;
mod gaussian;
mod holes;
mod impute;
mod integrated;
mod ksvd;
mod linear;
mod logistic;
mod means;
mod mixed_chained;
mod mixture;
mod nuclear;
mod pca;
mod rates;
mod ridge;
mod rvm;
mod structure;
mod svm;
mod tasks;
mod tf_idf;
mod trees;

pub use boosted::{BoostedConfig, boosted_cells};
pub use cells::{Cell, CellValue, marginal_cells};
pub use chained::{ChainedConfig, ChainedImputer, RidgeConfig};
pub use clustered::{ClusteredConfig, ClusteredLogistic};
pub use collaborative::{
    Given, ImplicitAls, ImplicitAlsConfig, ItemKnn, ItemKnnConfig, ItemRates, Pearson, PearsonForm,
};
pub use error::BaselineError;
pub use filters::{NlMeansConfig, median_3x3, nl_means};
pub use gaussian::{GaussianConfig, GaussianImputer};
pub use holes::{BandsConfig, interpolate_linear, least_squares_bands};
pub use impute::MeanImputer;
pub use integrated::{IntegratedConfig, IntegratedLogistic};
pub use ksvd::{KsvdConfig, ksvd};
pub use linear::{
    ClassWeights, Design, HingeLoss, LinearConfig, LinearSvm, LinearSvr, OneAgainstRest,
};
pub use logistic::{LogisticConfig, LogisticRegression};
pub use means::{BiasConfig, Biases, RatingMeans};
pub use mixed_chained::{MixedChainedConfig, chained_cells};
pub use mixture::{GaussianMixture, MixtureConfig};
pub use nuclear::{NuclearNorm, NuclearNormConfig};
pub use pca::Pca;
pub use rates::{HitRates, PairCount};
pub use ridge::{Ridge, TaskRidge};
pub use rvm::{Rvm, RvmConfig};
pub use structure::{SharedStructure, StructureConfig};
pub use svm::{Kernel, PairwiseSvm, Svm, SvmConfig};
pub use tasks::{Sharing, TaskLogistic, TaskLogisticConfig};
pub use tf_idf::TfIdf;
pub use trees::{BoostedTrees, BoostedTreesConfig, RandomForest, RandomForestConfig};
