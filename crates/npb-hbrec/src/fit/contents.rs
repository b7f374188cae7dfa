//! What is stored of a fit, and what is checked when it comes back.

use npb_infer::VbReport;
use serde::{Deserialize, Serialize};

use crate::em::check_weights;
use crate::{
    Content, HbrecConfig, HbrecError, ItemAtom, ItemPrior, KernelScales, LearnedBase, ProbitItems,
    Weights,
};

/// The base distribution of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FittedBase {
    Learned(LearnedBase),
    Standard {
        scales: KernelScales,
        prior: ItemPrior,
    },
}

impl FittedBase {
    pub(super) fn prior(&self) -> &ItemPrior {
        match self {
            Self::Learned(base) => &base.prior,
            Self::Standard { prior, .. } => prior,
        }
    }

    fn add_item(&mut self, columns: Option<&[f64]>) -> Result<usize, HbrecError> {
        match self {
            Self::Learned(base) => base.add_item(columns),
            Self::Standard { scales, prior } => {
                let mut row = vec![0.0; prior.width() - 1];
                if let Some(columns) = columns {
                    let pairs = row.iter_mut().zip(columns);
                    pairs.for_each(|(x, c)| *x = c * scales.content.sqrt());
                }
                row.push(scales.constant.sqrt());
                prior.push(0.0, &row, 0.0)
            }
        }
    }

    fn trace(&self) -> &[VbReport] {
        match self {
            Self::Learned(base) => &base.trace,
            Self::Standard { .. } => &[],
        }
    }

    fn check(&self) -> Result<(), HbrecError> {
        match self {
            Self::Learned(base) => base.check(),
            Self::Standard { scales, prior } => {
                let positive = |scale: f64| scale.is_finite() && scale > 0.0;
                if prior.width() == 0 || !positive(scales.content) || !positive(scales.constant) {
                    return Err(HbrecError::State {
                        what: "standard base: impossible scales".to_owned(),
                    });
                }
                prior.check()
            }
        }
    }
}

/// Everything but the cached predictions, which are made again. A list of none or one stands for an option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    pub(super) config: HbrecConfig,
    pub(super) content: Vec<Content>,
    pub(super) base: FittedBase,
    pub(super) atoms: Vec<ItemAtom>,
    pub(super) weights: Weights,
}

impl Contents {
    /// The user model. Its prior is that of the base with the share of item identity.
    pub(super) fn model(&self) -> Result<ProbitItems, HbrecError> {
        let prior = self.base.prior().clone();
        Ok(ProbitItems::new(prior.with_identity(self.config.identity)?))
    }

    pub(super) fn add_item(&mut self, features: Option<&[f64]>) -> Result<usize, HbrecError> {
        let columns = match (features, self.content.first()) {
            (None, _) => None,
            (Some(features), Some(content)) => Some(content.project(features)?),
            (Some(features), None) => {
                return Err(HbrecError::Size {
                    what: "features of an item (the fit knows of none)",
                    found: features.len(),
                    expected: 0,
                });
            }
        };
        self.base.add_item(columns.as_deref())
    }

    pub(super) fn check(&self) -> Result<(), HbrecError> {
        self.config.validate()?;
        self.base.check()?;
        self.content.iter().try_for_each(Content::check)?;
        let prior = self.base.prior();
        // Items that were added later have no row of content.
        let content_fits = self.content.iter().all(|c| c.n_items() <= prior.n_items());
        let fits = self.content.len() <= 1 && content_fits && self.widths_fit();
        if !fits || self.weights.xi.len() != self.atoms.len() {
            return Err(HbrecError::State {
                what: "fit for items: parts of different sizes".to_owned(),
            });
        }
        check_weights(&self.weights)?;
        let traces = self.weights.trace.iter().chain(self.base.trace());
        if !traces.into_iter().all(|report| report.elbo.is_finite()) {
            return Err(HbrecError::State {
                what: "fit for items: a bound in a trace is no number".to_owned(),
            });
        }
        self.atoms.iter().try_for_each(|atom| atom.check(prior))
    }

    /// Whether base and content have as many columns as each other.
    fn widths_fit(&self) -> bool {
        let width = self.content.first().map_or(0, Content::width);
        match &self.base {
            FittedBase::Learned(base) => base.n_columns() == width,
            FittedBase::Standard { prior, .. } => prior.width() == width + 1,
        }
    }
}
