//! Recommenders in files.

use npb_infer::Saved;

use super::{Base, Recommender, StoredRecommender};
use crate::HbrecError;
use crate::em::check_weights;

impl Saved for Recommender {
    const MODEL: &'static str = "npb-hbrec/recommender";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = StoredRecommender;
    type Error = HbrecError;

    fn content(&self) -> &StoredRecommender {
        &self.stored
    }

    fn from_content(stored: StoredRecommender) -> Result<Self, HbrecError> {
        stored.check()?;
        Ok(Self::of(stored))
    }
}

impl StoredRecommender {
    /// Checks everything that methods rely on.
    fn check(&self) -> Result<(), HbrecError> {
        let expect = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(HbrecError::State {
                what: format!("{what}: impossible value or size"),
            }),
        };
        self.config.validate()?;
        let prior = self.model.prior();
        prior.check()?;
        let n_items = prior.n_items();
        match &self.base {
            Base::Learned(base) => {
                base.check()?;
                expect(base.prior == *prior, "base distribution")?;
            }
            Base::Standard(scales) => {
                let positive = |x: f64| x.is_finite() && x > 0.0;
                expect(
                    positive(scales.content) && positive(scales.constant),
                    "scales",
                )?;
                let columns = self.content.as_ref().map_or(0, crate::Content::width);
                expect(prior.width() == columns + 1, "base distribution")?;
            }
        }
        if let Some(content) = &self.content {
            content.check()?;
        }
        self.likes
            .iter()
            .try_for_each(|likes| likes.check(n_items))?;
        expect(u32::try_from(self.likes.len()).is_ok(), "users")?;
        expect(self.raters.len() == n_items, "numbers of raters")?;
        self.atoms.iter().try_for_each(|atom| atom.check(prior))?;
        expect(self.atom_users.len() == self.atoms.len(), "users of atoms")?;
        let known = |&user: &u32| (user as usize) < self.likes.len();
        expect(self.atom_users.iter().all(known), "users of atoms")?;
        expect(
            self.weights.xi.len() == self.atoms.len(),
            "weights of atoms",
        )?;
        check_weights(&self.weights)
    }
}
