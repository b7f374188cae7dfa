//! Bayesian SVD: matrix completion that infers its own rank and states its uncertainty.
//!
//! For matrices most of whose entries are unknown: ratings, records of meetings, any table of interactions.
//!
//! ```text
//! y_ij = offset + r_i + c_j + sum_k z_k s_k U_ik V_jk + G_C,i . C_j + G_R,j . R_i + noise
//! ```
//!
//! `z_k` switches components on and off, so that the rank is part of the posterior; `R` and `C` are known features of rows and columns, which also say what
//! to expect of `U` and `V`; each row and column has noise of its own. Source: C. Wang, thesis 2010, chapter 5, called W. Model, updates and what differs from the source are in the repository's `docs/bsvd.md`.
//!
//! ```
//! use npb_bsvd::npb_data::read::{MovieLens, movielens};
//! use npb_bsvd::{Acquisition, BsvdConfig, Cells, Key, SideInformation, fit};
//!
//! // Ratings in: user, film, stars, time. Here 12 users of two tastes who rated most of 10 films.
//! let stars = |user: u32, film: u32| 3 + if (user + film) % 2 == 0 { 2 } else { 0 } - u32::from(user % 3 == 0);
//! let lines = (1..=12u32).flat_map(|user| (1..=10u32).map(move |film| (user, film)))
//!     .filter(|(user, film)| (3 * user + film) % 4 != 0)
//!     .map(|(user, film)| format!("{user}::{film}::{}::0\n", stars(user, film)));
//! let file = movielens("ratings.dat", lines.collect::<String>().as_bytes(), MovieLens::DoubleColon)?;
//! let ratings = file.ratings()?;
//!
//! // A fit, which finds the rank.
//! let config = BsvdConfig { candidates: 5, seed: 1, ..BsvdConfig::default() };
//! let model = fit(&ratings, SideInformation::default(), &Cells::default(), &config)?
//!     .with_names(&file.row_ids, &file.column_ids)?;
//!
//! // What user 1 would make of film 1, by identifier: 5 stars, give or take.
//! let cell = model.predict(Key::Id(1), Key::Id(1))?;
//! assert!((cell.mean - 5.0).abs() < 1.0 && cell.sd < 1.0);
//! let rating = cell.predictive_interval;                // holds such a rating with probability 0.9
//! assert!(rating.lower < cell.interval.lower && cell.interval.upper < rating.upper);
//!
//! // What to show user 2 next, apart from what was rated already.
//! let user = model.row(Key::Id(2))?;
//! let best = &model.top(user, 3, ratings.row(user).0)?[0];
//! assert!(best.mean > 4.0);
//! let film: u32 = best.name.as_ref().ok_or("named")?.parse()?;
//! assert_eq!(film % 2, 0);
//!
//! // A user who came later, with two ratings; no new fit.
//! let new = model.fold_in_row(&[(model.column(Key::Id(1))?, 5.0), (model.column(Key::Id(2))?, 3.0)], &[])?;
//! assert!(new.predict(Key::Id(3))?.mean > new.predict(Key::Id(4))?.mean);
//!
//! // Which ratings would tell most.
//! let open = Cells::unobserved(&ratings, 1000, 1);
//! assert_eq!(model.next_cells(&open, 5, Acquisition::Uncorrelated)?.len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | fit in one call | [`fit`], of [`Entries`]: ratings, levels, [`Successes`] among trials |
//! | several chains, and whether they agree | [`BsvdConfig::chains`], [`BsvdFit::pooled`], [`BsvdFit::diagnostics`] |
//! | settings, moves as values | [`BsvdConfig`], [`BsvdMove`], [`Scheduled`], [`Likelihood`] |
//! | any cell, by index or name | [`BsvdFit::predict`], [`Prediction`], [`CellPosterior`], [`Key`] |
//! | held-out entries | [`BsvdFit::evaluate`], [`Evaluation`]; followed from the start: [`Cells`], [`CellMoments`] |
//! | recommend | [`BsvdFit::recommend`], [`Recommended`], [`BsvdFit::top`], [`Ranked`] |
//! | new rows and columns | [`BsvdFit::fold_in_row`], [`Folded`] |
//! | what it is made of | [`BsvdFit::rank_distribution`], [`BsvdFit::components`], [`BsvdFit::similar_rows`] |
//! | ask for more | [`BsvdFit::next_cells`], [`Acquisition`] |
//! | go on | [`fit_watched`], [`BsvdFit::continue_with`], [`BsvdFit::pooled`] |
//! | keep in a file (its format: [`npb_infer::storage`]), hand over | [`Saved`], [`BsvdFit::write_draw_npy`], [`DrawTable`] |
//! | drive the chain | [`BsvdData`], [`BsvdSampler`] |
//! | one draw | [`BsvdState`], [`SideState`] |
//! | entries that lie on several machines | [`RatingsInShards`], [`Shard`], [`Holder`] |
//! | features | [`Features`], [`SideInformation`], [`missingness`], [`popularity`] |
//! | errors | [`BsvdError`] |

mod acquire;
mod axes;
mod cells;
mod chains;
mod config;
mod data;
mod entries;
mod error;
mod evaluate;
mod export;
mod features;
mod fit;
mod fitted;
mod fold_in;
mod further;
mod gibbs;
mod grouped;
mod in_shards;
mod latent_scale;
mod likelihood;
mod links;
mod mixing;
mod names;
mod normals;
mod pilot;
mod posterior;
mod predict;
mod probit;
mod products;
mod questions;
mod ranking;
mod regression;
mod response;
mod saved;
mod shape;
mod shard;
mod shards;
mod side;
mod similar;
mod spectrum;
mod start;
mod state;
mod summary;
mod switches;
mod tuning;
mod view;

pub use acquire::{Acquisition, Wanted};
pub use cells::{CellMoments, Cells};
pub use config::{BsvdConfig, BsvdMove, BsvdUnits, FactorUpdate, Scheduled};
pub use data::BsvdData;
pub use entries::{Entries, Successes};
pub use error::BsvdError;
pub use evaluate::Evaluation;
pub use export::DrawTable;
pub use features::{SideInformation, missingness, popularity};
pub use fit::{fit, fit_watched};
pub use fitted::BsvdFit;
pub use fold_in::Folded;
pub use gibbs::BsvdSampler;
pub use in_shards::{RatingsInShards, cuts};
pub use likelihood::Likelihood;
pub use names::Key;
pub use npb_data;
pub use npb_data::Features;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use posterior::{Components, Loadings};
pub use predict::{CellPosterior, Prediction};
pub use ranking::{Ranked, Recommended};
pub use shard::Shard;
pub use shards::{ByShard, Holder};
pub use similar::Similar;
pub use state::{BsvdState, SideState, Tuning};
pub use summary::Summary;
