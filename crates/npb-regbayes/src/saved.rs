//! Fits in files: `npb_infer::Saved` for every fit of this crate.

/// A fit that is saved whole, and checked when it comes back.
macro_rules! saved {
    ($fit:ty, $model:literal) => {
        impl npb_infer::Saved for $fit {
            const MODEL: &'static str = $model;
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            type Content = Self;
            type Error = RegBayesError;

            fn content(&self) -> &Self {
                self
            }

            fn from_content(content: Self) -> Result<Self, RegBayesError> {
                content.check()?;
                Ok(content)
            }
        }
    };
}
pub(crate) use saved;
