//! Fits for groups in files.

use std::collections::BTreeSet;

use npb_infer::Saved;

use super::{GroupedFit, MODEL, VERSION, size};
use crate::{ActiveUser, GaussianPrior, GaussianTask, GibbsModel, HbrecError, TaskAtom};

impl Saved for GroupedFit {
    const MODEL: &'static str = MODEL;
    const VERSION: &'static str = VERSION;
    type Content = Self;
    type Error = HbrecError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(fit: Self) -> Result<Self, HbrecError> {
        fit.check()?;
        Ok(fit)
    }
}

impl GroupedFit {
    /// Checks what methods rely on; scale and base distribution have checked themselves.
    fn check(&self) -> Result<(), HbrecError> {
        self.config.validate()?;
        self.mixture.check()?;
        let width = self.mixture.model().prior().width();
        let sizes = [
            ("classes of a fit for groups", self.classes.len(), 2),
            (
                "columns of a fit for groups, and the intercept",
                self.column_names().len() + 1,
                width,
            ),
            ("posteriors of groups", self.groups.len(), self.names.len()),
        ];
        for (what, found, expected) in sizes {
            if found != expected {
                return Err(size(what, found, expected));
            }
        }
        let fits = |base: &GaussianPrior| base.width() == width;
        if !self.draws.iter().all(fits) {
            return Err(HbrecError::State {
                what: "fit for groups: draws of another width".to_owned(),
            });
        }
        let distinct =
            |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        let known = self.base.trace.iter().all(|r| r.elbo.is_finite());
        let valid = self.groups.iter().all(|group| self.is_valid(group));
        if distinct(&self.classes) && distinct(&self.names) && known && valid {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "fit for groups: impossible names or posteriors".to_owned(),
        })
    }

    fn is_valid(&self, group: &ActiveUser<TaskAtom>) -> bool {
        let weights = || group.weights.iter().chain([&group.own_weight]);
        let total: f64 = weights().sum();
        group.weights.len() == self.mixture.atoms().len()
            && self.mixture.model().is_valid(&group.alone)
            && weights().all(|w| *w >= 0.0)
            && (total - 1.0).abs() < 1e-6
            && group.ln_evidence.is_finite()
    }
}
