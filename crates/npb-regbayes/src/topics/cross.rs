//! Choosing the cost of a MedLDA model by cross-validation.

use npb_data::{Rating, Ratings};
use npb_infer::Watch;

use super::config::MedLdaConfig;
use super::corpus::Response;
use super::eta::Standard;
use super::fit::fit;
use crate::error::RegBayesError;
use crate::select::{Selection, select_cost};
use npb_data::splits::Split;

/// Scores each cost by fits to the training documents of each fold: accuracy for classes, for real responses minus the mean squared error over the variance of
/// the fold's test responses about the training mean (predictive R^2, minus 1). Other settings are those of `config`. Topics move too far between costs for
/// a warm start.
///
/// ```
/// use npb_regbayes::npb_data::{Rating, Ratings, splits::k_fold};
/// use npb_regbayes::npb_infer::{Watch, stream};
/// use npb_regbayes::topics::{MedLdaConfig, Response, cross_validate};
/// // Even documents use word 0, odd ones word 1.
/// let entry = |row: u32| Rating { row, column: row % 2, value: 5.0 };
/// let documents = Ratings::new(20, 2, &(0..20).map(entry).collect::<Vec<_>>())?;
/// let classes: Vec<u32> = (0..20).map(|n| n % 2).collect();
/// let response = Response::Classes { classes: &classes, n_classes: 2 };
/// let folds = k_fold(20, 4, &mut stream(1, [0; 4]))?;
/// let config = MedLdaConfig { topics: 2, ..MedLdaConfig::default() };
/// let found = cross_validate(&documents, response, &config, &[1.0, 4.0], &folds, &Watch::none())?;
/// assert_eq!((found.cost(), found.means[0]), (1.0, 1.0));
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
///
/// # Errors
/// As [`fit`](super::fit()) and [`select_cost`]; a fold with a document that does not exist; nothing to predict.
pub fn cross_validate(
    documents: &Ratings,
    response: Response<'_>,
    config: &MedLdaConfig,
    costs: &[f64],
    folds: &[Split],
    watch: &Watch<'_>,
) -> Result<Selection, RegBayesError> {
    response.check(documents.n_rows())?;
    let all = folds.iter().flat_map(|f| f.train.iter().chain(&f.test));
    if let Some(&row) = all.clone().find(|n| **n >= documents.n_rows()) {
        return Err(RegBayesError::row("folds", row, row as f64, "a document"));
    }
    select_cost(costs, folds, watch, |split, cost, _: Option<()>| {
        let config = MedLdaConfig { cost, ..*config };
        let train = rows(documents, &split.train)?;
        let test = rows(documents, &split.test)?;
        let known = Standard::select(response, &split.train);
        let model = fit(&train, known.response(), &config)?;
        let score = match Standard::select(response, &split.test) {
            Standard::None => f64::NAN,
            Standard::Real(truth) => {
                let squares = |far: &dyn Fn(usize) -> f64| -> f64 {
                    (0..truth.len()).map(|n| far(n).powi(2)).sum()
                };
                let predicted = model.predict(&test)?;
                -squares(&|n| predicted[n] - truth[n]) / squares(&|n| truth[n] - model.centre())
            }
            Standard::Classes { classes, .. } => {
                let predicted = model.predict_classes(&test)?;
                let right = predicted.iter().zip(&classes).filter(|(a, b)| a == b);
                right.count() as f64 / classes.len() as f64
            }
        };
        Ok((score, ()))
    })
}

/// The given documents, in that order.
fn rows(documents: &Ratings, rows: &[usize]) -> Result<Ratings, RegBayesError> {
    let entries: Vec<Rating> = (0..)
        .zip(rows)
        .flat_map(|(row, &n)| {
            let (words, counts) = documents.row(n);
            let entries = words.iter().zip(counts);
            entries.map(move |(&column, &value)| Rating { row, column, value })
        })
        .collect();
    Ok(Ratings::new(rows.len(), documents.n_cols(), &entries)?)
}
