//! Sizes of what is unknown.

use crate::BsvdConfig;
use crate::features::SideInformation;
use npb_data::Features;

/// Sizes that a state must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) n_rows: usize,
    pub(crate) n_cols: usize,
    pub(crate) row_features: usize,
    pub(crate) column_features: usize,
    pub(crate) row_intercepts: bool,
    pub(crate) column_intercepts: bool,
    pub(crate) thresholds: usize,
    pub(crate) row_noise: bool,
    pub(crate) column_noise: bool,
    pub(crate) row_factor_precision: bool,
    pub(crate) column_factor_precision: bool,
    /// Features of rows, and of columns, that factors are linked to.
    pub(crate) row_links: usize,
    pub(crate) column_links: usize,
}

impl Shape {
    /// Sizes for a matrix of so many rows and columns.
    pub(crate) fn of(
        (n_rows, n_cols): (usize, usize),
        side: &SideInformation,
        config: &BsvdConfig,
    ) -> Self {
        let q = |features: &Option<Features>| features.as_ref().map_or(0, Features::n_features);
        let (row_features, column_features) = (q(&side.rows), q(&side.columns));
        let (row_noise, column_noise) = config.own_noise();
        let linked = |features| match config.feature_links {
            true => features,
            false => 0,
        };
        Self {
            n_rows,
            n_cols,
            row_features,
            column_features,
            row_intercepts: config.row_intercepts,
            column_intercepts: config.column_intercepts,
            thresholds: config.likelihood.n_thresholds(),
            row_noise,
            column_noise,
            row_factor_precision: config.row_factor_precision,
            column_factor_precision: config.column_factor_precision,
            row_links: linked(row_features),
            column_links: linked(column_features),
        }
    }
}
