//! Recommenders in files.

use npb_infer::Saved;

use super::Recommender;
use crate::HbrecError;

impl Saved for Recommender {
    const MODEL: &'static str = "npb-hbrec/recommender";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = HbrecError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(recommender: Self) -> Result<Self, HbrecError> {
        recommender.check()?;
        Ok(recommender)
    }
}

impl Recommender {
    /// Checks what methods rely on; the fit has checked itself.
    fn check(&self) -> Result<(), HbrecError> {
        self.config.validate()?;
        let n_items = self.n_items();
        self.likes
            .iter()
            .try_for_each(|likes| likes.check(n_items))?;
        let sizes = [
            (
                "point masses of users",
                self.fit.n_users(),
                self.likes.len(),
            ),
            ("numbers of raters", self.raters.len(), n_items),
        ];
        match sizes
            .into_iter()
            .find(|(_, found, expected)| found != expected)
        {
            None => Ok(()),
            Some((what, found, expected)) => Err(HbrecError::Size {
                what,
                found,
                expected,
            }),
        }
    }
}

/// A fit by its contents, checked when they are read.
pub(super) mod contents {
    use npb_infer::Saved;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::fit::{HbrecContents, HbrecFit};

    pub(crate) fn serialize<S: Serializer>(
        fit: &HbrecFit,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        fit.content().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HbrecFit, D::Error> {
        let contents = HbrecContents::deserialize(deserializer)?;
        HbrecFit::from_content(contents).map_err(D::Error::custom)
    }
}
