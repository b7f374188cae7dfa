//! Printed mean AUCs on the given splits of ionosphere and WDBC, training fraction 0.5, ten trials.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use npb_baselines::{
    ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, LogisticConfig,
    LogisticRegression, Svm, SvmConfig,
};
use npb_data::read::{self, Column, DelimitedOptions};
use npb_data::{Standardiser, Table, metrics};
use rayon::prelude::*;

/// The folder of data sets; says so when there is none.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("NPB_DATA_DIR").map(PathBuf::from);
    if folder.is_none() {
        let message = "NPB_DATA_DIR is not set: printed AUCs on the given splits were not checked";
        let mut stderr = std::io::stderr();
        writeln!(stderr, "{message}").unwrap();
    }
    folder
}

struct DataSet {
    table: Table,
    positive: Vec<bool>,
    masks: Vec<read::GivenMask>,
    splits: Vec<read::GivenSplit>,
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn load(folder: &Path, name: &str, label: usize, skip: Vec<Column>, positive: &str) -> DataSet {
    let folder = folder.join(name);
    let file = format!("{name}.data");
    let options = DelimitedOptions {
        header: false,
        skip,
        ..Default::default()
    };
    let input = open(&folder.join(&file));
    let (table, labels) =
        read::labelled_table(&file, input, &Column::Index(label), &options).unwrap();
    let positive = labels.binary(positive).unwrap();
    let masks = open(&folder.join("splits/masks.txt"));
    DataSet {
        masks: read::given_masks("masks.txt", masks, table.n_rows(), table.n_cols()).unwrap(),
        splits: read::given_splits("splits.txt", open(&folder.join("splits/splits.txt"))).unwrap(),
        positive: positive.into_iter().map(Option::unwrap).collect(),
        table,
    }
}

/// One trial: standardised training and test rows with holes, and their labels.
struct Trial {
    train: Table,
    train_labels: Vec<bool>,
    test: Table,
    test_labels: Vec<bool>,
}

impl DataSet {
    fn trial(&self, missing: f64, trial: usize) -> Trial {
        let mask = self
            .masks
            .iter()
            .find(|m| m.key == [missing, trial as f64])
            .unwrap();
        let key = [missing, 0.5, trial as f64];
        let split = &self.splits.iter().find(|s| s.key == key).unwrap().split;
        let holed = self.table.hide(&mask.missing).unwrap();
        let train = holed.select_rows(&split.train);
        let standardiser = Standardiser::fit(&train);
        let labels = |rows: &[usize]| rows.iter().map(|&i| self.positive[i]).collect();
        Trial {
            train: standardiser.apply(&train).unwrap(),
            train_labels: labels(&split.train),
            test: standardiser.apply(&holed.select_rows(&split.test)).unwrap(),
            test_labels: labels(&split.test),
        }
    }

    fn mean_auc(&self, missing: f64, scores: impl Fn(&Trial) -> Vec<f64> + Sync) -> f64 {
        let aucs: Vec<f64> = (0..10)
            .into_par_iter()
            .map(|trial| {
                let trial = self.trial(missing, trial);
                metrics::auc(&scores(&trial), &trial.test_labels).unwrap()
            })
            .collect();
        aucs.iter().sum::<f64>() / 10.0
    }
}

fn gaussian(trial: &Trial) -> (Table, Table) {
    let imputer = GaussianImputer::fit(&trial.train, &GaussianConfig::default()).unwrap();
    (
        imputer.transform(&trial.train).unwrap(),
        imputer.transform(&trial.test).unwrap(),
    )
}

fn chained(trial: &Trial) -> (Table, Table) {
    let imputer = ChainedImputer::fit(&trial.train, &ChainedConfig::default()).unwrap();
    (
        imputer.transform(&trial.train).unwrap(),
        imputer.transform(&trial.test).unwrap(),
    )
}

fn svm(trial: &Trial, (train, test): (Table, Table)) -> Vec<f64> {
    let svm = Svm::fit(&train, &trial.train_labels, &SvmConfig::default()).unwrap();
    svm.decision(&test).unwrap()
}

fn logistic(trial: &Trial, (train, test): (Table, Table)) -> Vec<f64> {
    let config = LogisticConfig::default();
    let model = LogisticRegression::fit(&train, &trial.train_labels, &config).unwrap();
    model.decision(&test).unwrap()
}

#[track_caller]
fn assert_printed(what: &str, found: f64, printed: f64) {
    assert!(
        (found - printed).abs() <= 0.003,
        "{what}: {found}, printed {printed}"
    );
}

#[test]
fn rbf_svm_reproduces_the_printed_ionosphere_figures() {
    let Some(folder) = data_folder() else { return };
    let data = load(&folder, "ionosphere", 34, vec![], "g");
    for (missing, by_chained, by_gaussian) in [(0.25, 0.975, 0.973), (0.5, 0.963, 0.961)] {
        let found = data.mean_auc(missing, |trial| svm(trial, chained(trial)));
        assert_printed("ionosphere, chained equations, RBF SVM", found, by_chained);
        let found = data.mean_auc(missing, |trial| svm(trial, gaussian(trial)));
        assert_printed("ionosphere, EM Gaussian, RBF SVM", found, by_gaussian);
    }
}

#[test]
fn logistic_regression_reproduces_the_printed_wdbc_figures() {
    let Some(folder) = data_folder() else { return };
    let data = load(&folder, "wdbc", 1, vec![Column::Index(0)], "M");
    for (missing, printed) in [(0.25, 0.994), (0.5, 0.991)] {
        let found = data.mean_auc(missing, |trial| logistic(trial, gaussian(trial)));
        assert_printed("wdbc, EM Gaussian, logistic regression", found, printed);
    }
}
