//! Classifiers that iQGME is compared with when cells are missing.

use npb_baselines::{
    BoostedTrees, BoostedTreesConfig, ChainedConfig, ChainedImputer, GaussianConfig,
    GaussianImputer, IntegratedConfig, IntegratedLogistic, Kernel, LogisticConfig,
    LogisticRegression, MeanImputer, RandomForest, RandomForestConfig, Rvm, RvmConfig, Svm,
    SvmConfig,
};
use npb_data::{Labels, Table, metrics};
use npb_iqgme::{QgmeConfig, fit_qgme};

use npb_kit::{Outcome, Result};

/// Fills of the two-step methods.
#[derive(Clone, Copy)]
pub(super) enum Imputation {
    Mean,
    Chained,
    Gaussian,
}

/// Classifiers of the two-step methods.
#[derive(Clone, Copy)]
pub(super) enum Classifier {
    SvmRbf,
    SvmLinear,
    RvmRbf,
    RvmLinear,
    Logistic,
    Forest,
}

#[derive(Clone, Copy)]
pub(super) enum Comparator {
    TwoStep(Classifier, Imputation),
    /// The finite mixture of experts by EM, with so many components.
    Finite(usize),
    /// Logistic regression integrated over a fitted Gaussian mixture.
    Integrated,
    /// Boosted trees that take holes as they are.
    Boosted,
}

/// Every comparator with its name in `results.csv`.
pub(super) const COMPARATORS: [(&str, Comparator); 23] = {
    use Classifier::{Forest, Logistic, RvmLinear, RvmRbf, SvmLinear, SvmRbf};
    use Comparator::{Boosted, Finite, Integrated, TwoStep};
    use Imputation::{Chained, Gaussian, Mean};
    [
        ("svm-rbf+mean", TwoStep(SvmRbf, Mean)),
        ("svm-rbf+chained", TwoStep(SvmRbf, Chained)),
        ("svm-rbf+gaussian", TwoStep(SvmRbf, Gaussian)),
        ("svm-linear+mean", TwoStep(SvmLinear, Mean)),
        ("svm-linear+chained", TwoStep(SvmLinear, Chained)),
        ("svm-linear+gaussian", TwoStep(SvmLinear, Gaussian)),
        ("rvm-rbf+mean", TwoStep(RvmRbf, Mean)),
        ("rvm-rbf+gaussian", TwoStep(RvmRbf, Gaussian)),
        ("rvm-linear+mean", TwoStep(RvmLinear, Mean)),
        ("rvm-linear+gaussian", TwoStep(RvmLinear, Gaussian)),
        ("logistic+mean", TwoStep(Logistic, Mean)),
        ("logistic+chained", TwoStep(Logistic, Chained)),
        ("logistic+gaussian", TwoStep(Logistic, Gaussian)),
        ("forest+mean", TwoStep(Forest, Mean)),
        ("forest+chained", TwoStep(Forest, Chained)),
        ("forest+gaussian", TwoStep(Forest, Gaussian)),
        ("qgme-em-1", Finite(1)),
        ("qgme-em-3", Finite(3)),
        ("qgme-em-5", Finite(5)),
        ("qgme-em-10", Finite(10)),
        ("qgme-em-20", Finite(20)),
        ("logistic-integrated", Integrated),
        ("boosted-trees", Boosted),
    ]
};

/// What the names mean.
pub(super) const NAMES: &str = "Two-step comparators are named classifier+imputation: mean (unconditional), chained (conditional mean by chained \
     equations), gaussian (conditional mean under one Gaussian fitted by EM). qgme-em-K: the finite mixture of K experts by EM. logistic-integrated: logistic regression with the missing cells \
     integrated out under a Gaussian mixture that was fitted first. boosted-trees: gradient boosting that learns a side for holes at every split. \
     The thesis chose kernel widths on one split with a validation set; here they are 1 / (columns x variance) throughout.";

/// What is measured of scores.
pub(super) const MEASURES: [&str; 3] = ["auc", "accuracy", "log_loss"];

/// Scores of test rows, larger for the positive class.
pub(super) struct Scores {
    pub(super) scores: Vec<f64>,
    meaning: Meaning,
}

/// What a score is.
#[derive(Clone, Copy)]
enum Meaning {
    Probability,
    LogOdds,
    /// From a boundary, in units of its own.
    Distance,
}

impl Scores {
    pub(super) fn probabilities(scores: Vec<f64>) -> Self {
        Self {
            scores,
            meaning: Meaning::Probability,
        }
    }

    /// AUC, accuracy by even odds, and of methods that give probabilities the log loss.
    pub(super) fn outcome(&self, positive: &[bool]) -> Result<Outcome> {
        let even = match self.meaning {
            Meaning::Probability => 0.5,
            Meaning::LogOdds | Meaning::Distance => 0.0,
        };
        let predicted: Vec<bool> = self.scores.iter().map(|&s| s > even).collect();
        let mut outcome = Outcome::metrics([
            ("auc", metrics::auc(&self.scores, positive)?),
            ("accuracy", metrics::accuracy(&predicted, positive)?),
        ]);
        let probability = |&score: &f64| match self.meaning {
            Meaning::LogOdds => 1.0 / (1.0 + (-score).exp()),
            Meaning::Probability | Meaning::Distance => score,
        };
        if !matches!(self.meaning, Meaning::Distance) {
            let probabilities: Vec<f64> = self.scores.iter().map(probability).collect();
            let loss = metrics::log_loss(&probabilities, positive)?;
            outcome.metrics.insert("log_loss".to_owned(), loss);
        }
        Ok(outcome)
    }
}

impl Comparator {
    /// Everything that its outcome depends on besides data and seed.
    pub(super) fn configuration(self) -> String {
        match self {
            Self::Finite(components) => format!("{:?}", finite(components, 0)),
            Self::Integrated => format!("{:?}", IntegratedConfig::default()),
            Self::Boosted => format!("{:?}", BoostedTreesConfig::default()),
            Self::TwoStep(classifier, imputation) => {
                let imputation = match imputation {
                    Imputation::Mean => "mean".to_owned(),
                    Imputation::Chained => format!("{:?}", ChainedConfig::default()),
                    Imputation::Gaussian => format!("{:?}", GaussianConfig::default()),
                };
                let classifier = match classifier {
                    Classifier::SvmRbf => format!("{:?}", SvmConfig::default()),
                    Classifier::SvmLinear => format!("{:?}", linear_svm()),
                    Classifier::RvmRbf => format!("{:?}", RvmConfig::default()),
                    Classifier::RvmLinear => format!("{:?}", linear_rvm()),
                    Classifier::Logistic => format!("{:?}", LogisticConfig::default()),
                    Classifier::Forest => format!("{:?}", RandomForestConfig::default()),
                };
                format!("{imputation}\n{classifier}")
            }
        }
    }

    /// Fits to standardised training rows, holes and all, and scores test rows.
    pub(super) fn scores(
        self,
        train: &Table,
        positive: &[bool],
        test: &Table,
        seed: u64,
    ) -> Result<Scores> {
        match self {
            Self::TwoStep(classifier, imputation) => {
                let [train, test] = impute(imputation, train, test)?;
                classify(classifier, &train, positive, &test, seed)
            }
            Self::Finite(components) => {
                let classes = ["negative", "positive"].map(str::to_owned).to_vec();
                let codes = positive.iter().map(|&positive| Some(usize::from(positive)));
                let labels = Labels::from_codes(classes, codes.collect())?;
                let mixture = fit_qgme(train, &labels, &finite(components, seed))?;
                Ok(Scores::probabilities(mixture.predict_proba(test)?))
            }
            Self::Integrated => {
                let mut config = IntegratedConfig::default();
                config.mixture.seed = seed;
                let model = IntegratedLogistic::fit(train, positive, &config)?;
                Ok(Scores::probabilities(model.probability(test)?))
            }
            Self::Boosted => {
                let config = BoostedTreesConfig {
                    seed,
                    ..Default::default()
                };
                let trees = BoostedTrees::fit(train, None, positive, &config)?;
                Ok(Scores::probabilities(trees.probability(test, None)?))
            }
        }
    }
}

fn finite(components: usize, seed: u64) -> QgmeConfig {
    QgmeConfig {
        components,
        seed,
        ..Default::default()
    }
}

fn linear_svm() -> SvmConfig {
    SvmConfig {
        kernel: Kernel::Linear,
        ..Default::default()
    }
}

fn linear_rvm() -> RvmConfig {
    RvmConfig {
        kernel: Kernel::Linear,
        ..Default::default()
    }
}

/// Training and test rows without holes; fitted to the training rows.
fn impute(imputation: Imputation, train: &Table, test: &Table) -> Result<[Table; 2]> {
    Ok(match imputation {
        Imputation::Mean => {
            let imputer = MeanImputer::fit(train)?;
            [imputer.transform(train)?, imputer.transform(test)?]
        }
        Imputation::Chained => {
            let imputer = ChainedImputer::fit(train, &ChainedConfig::default())?;
            [imputer.transform(train)?, imputer.transform(test)?]
        }
        Imputation::Gaussian => {
            let imputer = GaussianImputer::fit(train, &GaussianConfig::default())?;
            [imputer.transform(train)?, imputer.transform(test)?]
        }
    })
}

fn classify(
    classifier: Classifier,
    train: &Table,
    labels: &[bool],
    test: &Table,
    seed: u64,
) -> Result<Scores> {
    let svm = |config: &SvmConfig| -> Result<Scores> {
        let scores = Svm::fit(train, labels, config)?.decision(test)?;
        let meaning = Meaning::Distance;
        Ok(Scores { scores, meaning })
    };
    let log_odds = |scores| Scores {
        scores,
        meaning: Meaning::LogOdds,
    };
    let rvm = |config: &RvmConfig| -> Result<Scores> {
        Ok(log_odds(Rvm::fit(train, labels, config)?.decision(test)?))
    };
    match classifier {
        Classifier::SvmRbf => svm(&SvmConfig::default()),
        Classifier::SvmLinear => svm(&linear_svm()),
        Classifier::RvmRbf => rvm(&RvmConfig::default()),
        Classifier::RvmLinear => rvm(&linear_rvm()),
        Classifier::Logistic => {
            let model = LogisticRegression::fit(train, labels, &LogisticConfig::default())?;
            Ok(log_odds(model.decision(test)?))
        }
        Classifier::Forest => {
            let config = RandomForestConfig {
                seed,
                ..Default::default()
            };
            let forest = RandomForest::fit(train, labels, &config)?;
            Ok(Scores::probabilities(forest.probability(test)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_are_read_as_the_probabilities_that_they_are() {
        let scores = vec![3.0_f64.ln(), -3.0_f64.ln()];
        let meaning = Meaning::LogOdds;
        let odds = Scores { scores, meaning }.outcome(&[true, false]).unwrap();
        let same = Scores::probabilities(vec![0.75, 0.25]);
        for found in [odds, same.outcome(&[true, false]).unwrap()] {
            assert!((found.metrics["log_loss"] + 0.75_f64.ln()).abs() < 1e-12);
            assert_eq!(found.metrics["accuracy"], 1.0);
        }
    }
}
