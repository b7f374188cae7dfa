//! Infinite tensor factorisation mixture: joint models of mixed data with their own, dependent clusterings.
//!
//! For tables with columns of different kinds (real, counts, categories, vectors, series, a network) and with holes, when the
//! question is which columns depend on each other, what the missing cells are, or what some columns say about others. Every
//! column has a clustering of its own, as fine as its data ask for; the clusterings depend on each other through a top-level
//! one:
//!
//! ```text
//! lambda ~ Stick(alpha),  psi_r^j ~ Stick(beta_j)
//! c_i0 ~ lambda,  c_ij | c_i0 = r ~ psi_r^j,  y_ij | c_ij = k ~ K_j(theta_jk),  theta_jk ~ P_0j
//! ```
//!
//! By default the columns are also divided into independent blocks, each such a model of its own, and columns of numbers that go together, with the
//! levels that move them, share a normal law within clusters ([`Grouping`]): extensions of ours. Source:
//! Banerjee, Murray and Dunson (AISTATS 2013), called B. Model, moves, what differs from the source and why are in the
//! repository's `docs/itf.md`.
//!
//! ```
//! use npb_itf::npb_data::{MixedColumn, MixedTable};
//! use npb_itf::npb_infer::SweepPlan;
//! use npb_itf::{DependenceConfig, ItfConfig, fit};
//!
//! // Weight depends on the animal, the day of the week on nothing.
//! let weight = (0..90).map(|i| (i % 7 > 0).then_some([4.0, 30.0, 500.0][i % 3] * (1.0 + 0.01 * (i % 5) as f64)));
//! let animal = (0..90).map(|i| Some((i % 3) as u32));
//! let day = (0..90).map(|i| Some((i * i % 7) as u32));
//! let levels = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
//! let table = MixedTable::new(
//!     ["weight", "animal", "day"].map(String::from).to_vec(),
//!     vec![
//!         MixedColumn::Real(weight.collect()),
//!         MixedColumn::Categorical { levels: levels(&["cat", "dog", "horse"]), codes: animal.collect() },
//!         MixedColumn::Categorical { levels: levels(&["mo", "tu", "we", "th", "fr", "sa", "su"]), codes: day.collect() },
//!     ],
//! )?;
//! let model = fit(&table, &ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 100, keep: 20, thin: 2 }, ..ItfConfig::default() })?;
//!
//! let filled = model.impute_training(&table, 0.9)?;
//! let MixedColumn::Real(weights) = filled.completed.column(0) else { unreachable!() };
//! assert!(weights[0].unwrap() < 100.0); // a cat's
//! let few = DependenceConfig { permutations: 99, sweeps: SweepPlan { burn_in: 20, keep: 10, thin: 1 }, ..DependenceConfig::default() };
//! let dependence = model.dependence(&model.training_rows(&table)?, &few)?;
//! let information = |a, b| Ok::<f64, npb_itf::ItfError>(dependence.pair(a, b)?.information.mean);
//! assert!(information("weight", "animal")? > information("weight", "day")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | fit in one call | [`fit`], [`fit_data`] |
//! | go on with further rows | [`ItfFit::continue_with`] |
//! | settings, moves | [`ItfConfig`], [`Structure`], [`ItfMove`] |
//! | data: columns of a table, or any kernel with its cells | [`ItfData`], [`kernels`] |
//! | columns that share a joint law, given or found | [`Grouping`], [`ItfData::with_groups`], [`ItfData::find_groups`], [`Place`] |
//! | questions to a fit: densities, conditional predictions, imputation, diagnostics | [`ItfFit`], [`ItfRows`], [`ImputedTable`] |
//! | how odd single cells are given the rest of their rows | [`ItfFit::surprisals`], [`CellSurprisal`] |
//! | kept draws: weights, parameters, labels, mutual information | [`Draw`] |
//! | which columns depend on each other: mutual information, verdicts at a level | [`ColumnDependence`] |
//! | which rows belong together, clusters by column | [`PairTable`], [`point_clustering`], [`summarise_clusters`] |
//! | keep a fit in a file (its format: [`npb_infer::storage`]) | [`Saved`] |
//! | drive the sampler, stop and resume | [`ItfSampler`], [`ItfChain`], [`ItfState`] |
//! | a law of cells of your own | [`Kernel`], [`PerCluster`], [`CellPart`] |
//! | errors | [`ItfError`] |

mod clustering;
mod collapsed;
mod columns;
mod config;
mod data;
mod dependence;
mod draw;
mod error;
mod fields;
mod find;
mod fit;
mod fitted;
mod further;
mod gibbs;
mod groups;
mod identity;
mod impute;
mod kernel;
pub mod kernels;
mod numeric;
mod place;
mod predict;
mod prior;
mod state;
mod sticks;
mod summary;
mod surprise;

pub use clustering::{ClusteringLoss, PairTable, PointClustering, point_clustering};
pub use config::{Grouping, ItfConfig, ItfMove, LowerConcentration, Structure};
pub use data::{ColumnInfo, ItfData};
pub use dependence::{
    ColumnDependence, DependenceConfig, InformationSummary, PairDependence, Verdict,
};
pub use draw::{BlockDraw, ColumnDraw, Draw};
pub use error::ItfError;
pub use fit::{fit, fit_data, fit_data_watched, fit_watched};
pub use fitted::{ChainSummary, ItfFit};
pub use gibbs::{ItfChain, ItfSampler};
pub use impute::{DrawnCell, ImputedCell, ImputedTable};
pub use kernel::{CellPart, Kernel, PerCluster, RowLabels};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_infer::Watch;
pub use npb_infer::checkpoint::Every;
pub use npb_priors;
pub use place::Place;
pub use predict::ItfRows;
pub use state::{Block, ColumnState, ItfState};
pub use summary::{CellSummary, ClusterSummary, ColumnSummary, summarise_clusters};
pub use surprise::CellSurprisal;
