//! What all fits share: reports of features (which are in use, what they look like, which labels they drive), and files in the format of `npb_infer::storage`.
//! The fits themselves are in `fit.rs` of each model: `classes`, `tasks`, `labels`, `topics`.

use npb_linalg::faer::Mat;

use crate::columns::Columns;
use crate::state::FeatureState;

/// One latent feature.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureReport {
    /// Its place: features are kept in order of use.
    pub feature: usize,
    /// Expected number of items that have it: rows for iLSVM, input columns for MT-iLSVM. In use means one or more.
    pub expected_use: f64,
    /// What it looks like, by input column, largest first. iLSVM: mean loading, what the feature adds to the column in standard deviations.
    /// MT-iLSVM: probability that the feature sums this column.
    pub columns: Vec<(String, f64)>,
    /// Mean weight `E[eta]` for each class or task, largest first by size.
    pub drives: Vec<(String, f64)>,
}

/// One report for each feature; `columns` (K x D) says what features look like, `weights` (labels x K) what they drive.
pub(crate) fn reports(
    state: &FeatureState,
    inputs: &Columns,
    columns: &Mat<f64>,
    labels: &[String],
    weights: &Mat<f64>,
) -> Vec<FeatureReport> {
    let kept = inputs.kept().iter();
    let names: Vec<&String> = kept.map(|&j| &inputs.names()[j]).collect();
    let by_size = |mut list: Vec<(String, f64)>| {
        list.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        list
    };
    let report = |(feature, expected_use): (usize, f64)| FeatureReport {
        feature,
        expected_use,
        columns: by_size(
            (0..names.len())
                .map(|d| (names[d].clone(), columns[(feature, d)]))
                .collect(),
        ),
        drives: by_size(
            (0..labels.len())
                .map(|y| (labels[y].clone(), weights[(y, feature)]))
                .collect(),
        ),
    };
    let counts = state.expected_use().into_iter().enumerate();
    counts.map(report).collect()
}
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
