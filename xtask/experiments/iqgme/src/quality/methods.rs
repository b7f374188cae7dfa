//! Classifiers that are compared, with a score and a probability for every test row.

use std::collections::BTreeMap;

use npb_baselines::{
    ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, LogisticConfig,
    LogisticRegression, Svm, SvmConfig,
};
use npb_data::metrics::{self, MetricError};
use npb_data::{Table, splits};
use npb_infer::stream;
use npb_iqgme::{IqgmeConfig, IqgmeFit};
use rand::RngExt;

use super::OURS;
use super::data::{Side, Sides};
use npb_kit::Result;

/// Bins of expected calibration errors.
pub(super) const BINS: usize = 10;
/// Folds whose held-out decisions turn the decisions of a support vector machine into probabilities.
const FOLDS: usize = 5;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Method {
    Iqgme,
    /// RBF support vector machine after conditional means by chained equations.
    Svm,
    /// Logistic regression after conditional means under one Gaussian.
    Logistic,
}

/// Every method with its name in `results.csv`.
pub(super) const METHODS: [(&str, Method); 3] = [
    (OURS, Method::Iqgme),
    ("svm-rbf+chained", Method::Svm),
    ("logistic+gaussian", Method::Logistic),
];

impl Method {
    /// Everything that its outcome depends on besides data and seed.
    pub(super) fn configuration(self) -> String {
        match self {
            Self::Iqgme => format!("{:?}", IqgmeConfig::default()),
            Self::Svm => {
                let (imputer, svm) = (ChainedConfig::default(), SvmConfig::default());
                format!(
                    "{imputer:?}\n{svm:?}\n{FOLDS} folds\n{:?}",
                    LogisticConfig::default()
                )
            }
            Self::Logistic => {
                format!(
                    "{:?}\n{:?}",
                    GaussianConfig::default(),
                    LogisticConfig::default()
                )
            }
        }
    }

    /// Fits to the training side and predicts the test side.
    pub(super) fn predict(self, sides: &Sides, seed: u64) -> Result<Predicted> {
        let Sides { train, test, .. } = sides;
        match self {
            Self::Iqgme => Predicted::by(&fit(train, seed)?, &test.rows),
            Self::Svm => {
                let imputer = ChainedImputer::fit(&train.rows, &ChainedConfig::default())?;
                let filled = imputer.transform(&train.rows)?;
                let scores = Svm::fit(&filled, &train.positive, &SvmConfig::default())?
                    .decision(&imputer.transform(&test.rows)?)?;
                let link = Link::fit(&filled, train, seed)?;
                Ok(Predicted {
                    probabilities: link.probabilities(&scores)?,
                    scores,
                })
            }
            Self::Logistic => {
                let imputer = GaussianImputer::fit(&train.rows, &GaussianConfig::default())?;
                let filled = imputer.transform(&train.rows)?;
                let config = LogisticConfig::default();
                let scores = LogisticRegression::fit(&filled, &train.positive, &config)?
                    .decision(&imputer.transform(&test.rows)?)?;
                Ok(Predicted {
                    probabilities: scores.iter().copied().map(logistic).collect(),
                    scores,
                })
            }
        }
    }
}

/// The default fit.
pub(super) fn fit(train: &Side, seed: u64) -> Result<IqgmeFit> {
    let config = IqgmeConfig {
        seed,
        ..Default::default()
    };
    Ok(npb_iqgme::fit(&train.rows, &train.labels, &config)?)
}

/// What a classifier says of the second class.
pub(super) struct Predicted {
    /// Larger is more probable.
    scores: Vec<f64>,
    pub(super) probabilities: Vec<f64>,
}

impl Predicted {
    /// By the full posterior.
    pub(super) fn by(fit: &IqgmeFit, rows: &Table) -> Result<Self> {
        Ok(Self::of(fit.predict_proba(rows)?))
    }

    /// By the posterior means.
    pub(super) fn plug_in(fit: &IqgmeFit, rows: &Table) -> Result<Self> {
        Ok(Self::of(fit.predict_plug_in(rows)?))
    }

    fn of(probabilities: Vec<f64>) -> Self {
        Self {
            scores: probabilities.clone(),
            probabilities,
        }
    }

    pub(super) fn metrics(
        &self,
        positive: &[bool],
    ) -> std::result::Result<BTreeMap<String, f64>, MetricError> {
        let p = &self.probabilities;
        let metrics = [
            ("auc", metrics::auc(&self.scores, positive)?),
            ("log_loss", metrics::log_loss(p, positive)?),
            ("brier", metrics::brier(p, positive)?),
            (
                "ece",
                metrics::expected_calibration_error(p, positive, BINS)?,
            ),
            ("ece_if_right", calibration_error_if_right(p)?),
        ];
        Ok(metrics.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// The calibration error to expect of these probabilities if they were right: the mean over classes drawn from them.
fn calibration_error_if_right(p: &[f64]) -> std::result::Result<f64, MetricError> {
    const DRAWS: u64 = 200;
    let mut sum = 0.0;
    for draw in 0..DRAWS {
        let mut rng = stream(draw, [0; 4]);
        let classes: Vec<bool> = p.iter().map(|&p| rng.random::<f64>() < p).collect();
        sum += metrics::expected_calibration_error(p, &classes, BINS)?;
    }
    Ok(sum / DRAWS as f64)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// From the decisions of a support vector machine to probabilities: logistic regression on decisions of held-out training rows.
struct Link(LogisticRegression);

impl Link {
    fn fit(filled: &Table, train: &Side, seed: u64) -> Result<Self> {
        let fewest = train.labels.counts().into_iter().min().unwrap_or(0);
        let folds = FOLDS.min(fewest);
        let mut held_out = vec![0.0; filled.n_rows()];
        for split in splits::stratified_k_fold(&train.labels, folds, &mut stream(seed, [0; 4]))? {
            let positive: Vec<bool> = split.train.iter().map(|&i| train.positive[i]).collect();
            let rows = filled.select_rows(&split.train);
            let svm = Svm::fit(&rows, &positive, &SvmConfig::default())?;
            let decisions = svm.decision(&filled.select_rows(&split.test))?;
            for (&row, decision) in split.test.iter().zip(decisions) {
                held_out[row] = decision;
            }
        }
        let decisions = Table::complete(held_out.len(), 1, held_out)?;
        let config = LogisticConfig::default();
        Ok(Self(LogisticRegression::fit(
            &decisions,
            &train.positive,
            &config,
        )?))
    }

    fn probabilities(&self, decisions: &[f64]) -> Result<Vec<f64>> {
        let table = Table::complete(decisions.len(), 1, decisions.to_vec())?;
        Ok(self.0.decision(&table)?.into_iter().map(logistic).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::data::tests::example;

    #[test]
    fn every_method_learns_an_easy_problem() {
        let sides = example().masked_sides(0.1, 0.5, 0, 1).unwrap();
        for (name, method) in METHODS {
            let predicted = method.predict(&sides, 1).unwrap();
            let found = predicted.metrics(&sides.test.positive).unwrap();
            assert!(found["auc"] > 0.8, "{name}: {found:?}");
            // Half of the rows are positive: knowing nothing costs ln 2.
            assert!(found["log_loss"] < 0.6, "{name}: {found:?}");
        }
    }

    #[test]
    fn probabilities_of_decisions_rise_with_them() {
        let sides = example().stratified_sides(0.5, 0, 1).unwrap();
        let link = Link::fit(&sides.train.rows, &sides.train, 1).unwrap();
        let p = link.probabilities(&[-2.0, 0.0, 2.0]).unwrap();
        assert!(
            0.0 < p[0] && p[0] < p[1] && p[1] < p[2] && p[2] < 1.0,
            "{p:?}"
        );
        assert!(p[0] < 0.3 && p[2] > 0.7, "{p:?}");
    }
}
