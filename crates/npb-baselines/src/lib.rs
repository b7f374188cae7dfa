//! Comparators for the experiments of this workspace; not published.
//!
//! Three ways to fill the holes of a [`Table`](npb_data::Table), each learnt from training rows and applied to any rows,
//! two classifiers that need complete rows, and predictors of the holes of [`Ratings`](npb_data::Ratings):
//!
//! | what | type | settings |
//! |---|---|---|
//! | unconditional mean | [`MeanImputer`] | none |
//! | conditional mean by chained equations | [`ChainedImputer`] | [`ChainedConfig`] |
//! | conditional mean under one Gaussian fitted by EM | [`GaussianImputer`] | [`GaussianConfig`] |
//! | support vector machine, linear or RBF | [`Svm`] | [`SvmConfig`] |
//! | logistic regression with an L2 penalty | [`LogisticRegression`] | [`LogisticConfig`] |
//! | matrix of least nuclear norm (soft-impute and its noise-free limit) | [`NuclearNorm`] | [`NuclearNormConfig`] |
//! | global, row and column means | [`RatingMeans`] | none |
//! | global mean with row and column biases by least squares | [`Biases`] | [`BiasConfig`] |
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
mod error;
mod gaussian;
mod impute;
mod logistic;
mod means;
mod mixed_chained;
mod nuclear;
mod rates;
mod svm;

pub use boosted::{BoostedConfig, boosted_cells};
pub use cells::{Cell, CellValue, marginal_cells};
pub use chained::{ChainedConfig, ChainedImputer, RidgeConfig};
pub use error::BaselineError;
pub use gaussian::{GaussianConfig, GaussianImputer};
pub use impute::MeanImputer;
pub use logistic::{LogisticConfig, LogisticRegression};
pub use means::{BiasConfig, Biases, RatingMeans};
pub use mixed_chained::{MixedChainedConfig, chained_cells};
pub use nuclear::{NuclearNorm, NuclearNormConfig};
pub use rates::{HitRates, PairCount};
pub use svm::{Kernel, Svm, SvmConfig};
