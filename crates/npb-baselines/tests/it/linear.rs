//! Linear machines, ridge regression, principal components, tf-idf: answers of scikit-learn 1.9 on a small data set, and printed
//! or measured figures on real data.

use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;
use npb_baselines::*;
use npb_data::read::{self, DelimitedOptions};
use npb_data::{DataError, Rating, Ratings, Standardiser, Table, Vocabulary, metrics, splits};
use rayon::prelude::*;

use crate::given_splits::data_folder;
use crate::reference::{assert_close, complete, labels};

/// Real targets of the first 12 rows.
fn targets() -> Vec<f64> {
    let x = complete(0..12);
    let target = |i: usize| 2.0 * x.row(i)[1] - x.row(i)[2] + 0.1 * i as f64;
    (0..12).map(target).collect()
}

/// The same rows as sparse ones: what is 0 is not stored.
fn sparse(table: &Table) -> Ratings {
    let cells = (0..table.n_rows()).flat_map(|i| (0..table.n_cols()).map(move |j| (i, j)));
    let entries: Vec<Rating> = cells
        .filter(|&(i, j)| table.row(i)[j] != 0.0)
        .map(|(i, j)| Rating {
            row: i as u32,
            column: j as u32,
            value: table.row(i)[j],
        })
        .collect();
    Ratings::new(table.n_rows(), table.n_cols(), &entries).unwrap()
}

fn exact(c: f64) -> LinearConfig {
    LinearConfig {
        c,
        tolerance: 1e-12,
        passes: 1_000_000,
        ..Default::default()
    }
}

#[test]
fn linear_machines_agree_with_the_reference() {
    let train = complete(0..12);
    let hinge = [
        1.0686045748031197,
        -0.5372879997664968,
        1.146626632930813,
        -0.4592659416388016,
    ];
    let squared = [
        0.901830844256752,
        -0.4258847117930025,
        0.9649224833001502,
        -0.3627930727496046,
    ];
    for (loss, weights, intercept) in [
        (HingeLoss::Hinge, hinge, -0.30569051329793173),
        (HingeLoss::Squared, squared, -0.4047330824695732),
    ] {
        let config = LinearConfig { loss, ..exact(0.7) };
        let svm = LinearSvm::fit(&train, &labels(), &config).unwrap();
        assert_close(svm.weights(), &weights, 1e-5);
        assert_close(&[svm.intercept()], &[intercept], 1e-5);
        let from_sparse = LinearSvm::fit(&sparse(&train), &labels(), &config).unwrap();
        assert_close(from_sparse.weights(), svm.weights(), 1e-5);
    }
    let classes: Vec<usize> = (0..12).map(|i| i % 3).collect();
    let several = OneAgainstRest::fit(&train, &classes, 3, &exact(0.7)).unwrap();
    let expected = [1, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 0, 1, 2];
    assert_eq!(several.predict(&complete(0..16)).unwrap(), expected);
}

#[test]
fn regressions_agree_with_the_reference() {
    let (train, zero) = (
        complete(0..12),
        Table::complete(1, 4, vec![0.0; 4]).unwrap(),
    );
    let unit = |j: usize| {
        let mut row = vec![0.0; 4];
        row[j] = 1.0;
        Table::complete(1, 4, row).unwrap()
    };
    let config = LinearConfig {
        epsilon: 0.3,
        ..exact(0.5)
    };
    let svr = LinearSvr::fit(&train, &targets(), &config).unwrap();
    let weights = [
        -0.04846829760906322,
        1.6906621371764594,
        -0.6938507225050632,
        -0.1110540681805744,
    ];
    let at_zero = svr.predict(&zero).unwrap()[0];
    assert_close(&[at_zero], &[0.6326037426700675], 1e-5);
    for (j, weight) in weights.iter().enumerate() {
        assert_close(
            &[svr.predict(&unit(j)).unwrap()[0] - at_zero],
            &[*weight],
            1e-5,
        );
    }
    let weights = [
        -0.023534469560369888,
        1.940695337672296,
        -0.7617726468742684,
        -0.1680314346785761,
    ];
    for rows in [
        Ridge::fit(&train, &targets(), 0.8),
        Ridge::fit(&sparse(&train), &targets(), 0.8),
    ] {
        let ridge = rows.unwrap();
        let at_zero = ridge.predict(&zero).unwrap()[0];
        assert_close(&[at_zero], &[0.5823561899423484], 1e-8);
        for (j, weight) in weights.iter().enumerate() {
            assert_close(
                &[ridge.predict(&unit(j)).unwrap()[0] - at_zero],
                &[*weight],
                1e-8,
            );
        }
    }
}

#[test]
fn components_and_rarities_agree_with_the_reference() {
    let pca = Pca::fit(&complete(0..12), 2).unwrap();
    assert_close(
        pca.variances(),
        &[2.0073924409611466, 0.5797704692830769],
        1e-12,
    );
    let scores = pca.transform(&complete(12..16)).unwrap();
    let sizes: Vec<f64> = scores.values().iter().map(|s| s.abs()).collect();
    let expected = [
        0.22328891460312983,
        0.8293446500965846,
        1.4903955227199481,
        0.9452064224543318,
        1.6470547381494707,
        0.9270175189406482,
        2.384892214124329,
        0.4663179466499474,
    ];
    assert_close(&sizes, &expected, 1e-12);
    let counts = [3.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0];
    let counts = sparse(&Table::complete(3, 4, counts.to_vec()).unwrap());
    let weights = |sublinear| TfIdf::fit(&counts, sublinear).transform(&counts).unwrap();
    assert_close(
        weights(false).row(0).1,
        &[0.9486832980505138, 0.31622776601683794],
        1e-12,
    );
    assert_close(
        weights(true).row(2).1,
        &[0.8610369959439763, 0.5085423203783267],
        1e-12,
    );
}

#[test]
fn tasks_between_apart_and_pooled() {
    // Large shared weights are pooled regression with own intercepts nearly free; tiny ones are regressions apart.
    let (x, y) = (complete(0..12), targets());
    let tasks: Vec<usize> = (0..12).map(|i| 5 + i % 2).collect();
    let fit = |sharing| {
        let model = TaskRidge::fit(&x, &tasks, &y, sharing, 0.5).unwrap();
        model.predict(&complete(12..16), &[5, 6, 5, 6]).unwrap()
    };
    let apart = fit(Sharing::Single);
    assert_close(&fit(Sharing::SharedAndOwn { shared: 1e-6 }), &apart, 2.0);
    let pooled = fit(Sharing::Pooled);
    let reference = Ridge::fit(&x, &y, 0.5).unwrap();
    assert_close(
        &pooled,
        &reference.predict(&complete(12..16)).unwrap(),
        1e-6,
    );
    // The normal equations of (shared w0 + v_t), written out as one wide regression with penalised intercepts.
    let shared = 1.7;
    let wide = |rows: &Table, tasks: &[usize]| {
        let mut values = Vec::new();
        for (i, task) in tasks.iter().enumerate() {
            let row = rows.row(i);
            values.extend(row.iter().map(|x| shared * x));
            for t in [5, 6] {
                let on = f64::from(u8::from(*task == t));
                values.extend(row.iter().map(|x| on * x));
                values.push(on);
            }
        }
        Table::complete(tasks.len(), 14, values).unwrap()
    };
    let reference = Ridge::fit(&wide(&x, &tasks), &y, 0.5).unwrap();
    let expected = reference
        .predict(&wide(&complete(12..16), &[5, 6, 5, 6]))
        .unwrap();
    assert_close(&fit(Sharing::SharedAndOwn { shared }), &expected, 1e-6);
    let model = TaskRidge::fit(&x, &tasks, &y, Sharing::Single, 0.5).unwrap();
    assert!(matches!(
        model.predict(&complete(12..13), &[9]),
        Err(BaselineError::UnknownTask { row: 0, task: 9 })
    ));
}

#[test]
fn balanced_classes_are_rows_repeated() {
    // Nine negatives and three positives: balanced weights are 2/3 and 2, as three copies of each positive are at c = 2/3.
    let x = complete(0..12);
    let labels: Vec<bool> = (0..12).map(|i| i % 4 == 1).collect();
    let mut rows: Vec<usize> = (0..12).collect();
    rows.extend((0..12).filter(|&i| labels[i]).flat_map(|i| [i, i]));
    let (many, of_many) = (
        x.select_rows(&rows),
        rows.iter().map(|&i| labels[i]).collect::<Vec<_>>(),
    );
    let balanced = LinearConfig {
        weights: ClassWeights::Balanced,
        ..exact(1.0)
    };
    let equal = exact(2.0 / 3.0);
    let weighted = LinearSvm::fit(&x, &labels, &balanced).unwrap();
    let repeated = LinearSvm::fit(&many, &of_many, &equal).unwrap();
    assert_close(weighted.weights(), repeated.weights(), 1e-4);
    let plain = LinearSvm::fit(&x, &labels, &exact(1.0)).unwrap();
    assert!((plain.weights()[0] - weighted.weights()[0]).abs() > 1e-3);
    // The kernel machine: repeated, both classes have nine rows and balanced weights of 1.
    let kernel = |c| SvmConfig {
        weights: ClassWeights::Balanced,
        c,
        kernel: Kernel::Rbf { gamma: Some(0.3) },
        tolerance: 1e-9,
    };
    let decision = |rows: &Table, labels: &[bool], c: f64| {
        let svm = Svm::fit(rows, labels, &kernel(c)).unwrap();
        svm.decision(&complete(12..16)).unwrap()
    };
    let weighted = decision(&x, &labels, 1.0);
    assert_close(&weighted, &decision(&many, &of_many, 2.0 / 3.0), 1e-6);
    assert!((weighted[0] - decision(&x, &labels, 0.5)[0]).abs() > 1e-3);
}

#[test]
fn pairs_of_classes_vote() {
    let x = Table::complete(6, 1, vec![-5.0, -4.0, 0.0, 0.5, 4.0, 5.0]).unwrap();
    let codes = [3, 3, 0, 0, 1, 1];
    let machine = PairwiseSvm::fit(&x, &codes, 4, &SvmConfig::default()).unwrap();
    assert_eq!(machine.predict(&x).unwrap(), codes);
    let one = PairwiseSvm::fit(&x, &[2; 6], 4, &SvmConfig::default()).unwrap();
    assert_eq!(one.predict(&x).unwrap(), [2; 6]);
    for bad in [
        PairwiseSvm::fit(&x, &[0, 0, 0, 0, 0, 9], 4, &SvmConfig::default()).err(),
        OneAgainstRest::fit(&x, &[0, 0, 0, 0, 0, 9], 4, &exact(1.0)).err(),
    ] {
        let code = DataError::Code {
            row: 5,
            code: 9,
            n_classes: 4,
        };
        assert_eq!(bad, Some(BaselineError::Data(code)));
    }
}

#[test]
fn bad_input_is_named() {
    let x = Table::complete(2, 1, vec![1.0, 2.0]).unwrap();
    let hole = Table::from_nan_coded(2, 1, &[1.0, f64::NAN]).unwrap();
    let config = LinearConfig::default();
    let missing = BaselineError::Missing { row: 1, column: 0 };
    assert_eq!(
        LinearSvm::fit(&hole, &[true, false], &config).err(),
        Some(missing.clone())
    );
    assert_eq!(
        LinearSvr::fit(&hole, &[1.0, 2.0], &config).err(),
        Some(missing.clone())
    );
    assert_eq!(
        Ridge::fit(&hole, &[1.0, 2.0], 1.0).err(),
        Some(missing.clone())
    );
    assert_eq!(Pca::fit(&hole, 1).err(), Some(missing.clone()));
    let tasks = TaskRidge::fit(&hole, &[0, 0], &[1.0, 2.0], Sharing::Pooled, 1.0);
    assert_eq!(tasks.err(), Some(missing));
    for bad in [f64::NAN, f64::INFINITY] {
        let found = [
            LinearSvr::fit(&x, &[1.0, bad], &config).err(),
            Ridge::fit(&x, &[1.0, bad], 1.0).err(),
            TaskRidge::fit(&x, &[0, 0], &[1.0, bad], Sharing::Pooled, 1.0).err(),
        ];
        for error in found {
            assert!(matches!(
                error,
                Some(BaselineError::Config {
                    field: "targets",
                    ..
                })
            ));
        }
        let c = LinearConfig {
            c: bad,
            ..config.clone()
        };
        assert!(LinearSvm::fit(&x, &[true, false], &c).is_err());
        assert!(Ridge::fit(&x, &[1.0, 2.0], bad).is_err());
    }
    let one_class = LinearSvm::fit(&x, &[true, true], &config).err();
    assert!(matches!(one_class, Some(BaselineError::OneClass { .. })));
    let narrow = LinearSvm::fit(&x, &[true, false], &config).unwrap();
    let wide = Table::complete(1, 2, vec![0.0; 2]).unwrap();
    assert!(narrow.decision(&wide).is_err());
    assert!(Pca::fit(&x, 0).is_err());
}

fn gunzip(path: &Path) -> GzDecoder<File> {
    GzDecoder::new(File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Mean over the ten given splits of the three definitions, in percent.
fn school(folder: &Path, sharing: Sharing, penalty: f64) -> [f64; 3] {
    let open = |file: &str| File::open(folder.join("school").join(file)).unwrap();
    let options = DelimitedOptions::default();
    let table = read::table("school.csv", open("school.csv"), &options).unwrap();
    let splits = read::table("school_splits.csv", open("school_splits.csv"), &options).unwrap();
    let inputs: Vec<usize> = (2..table.n_cols()).collect();
    let x = table.select_columns(&inputs).unwrap();
    let (tasks, y): (Vec<usize>, Vec<f64>) = (0..table.n_rows())
        .map(|i| (table.row(i)[0] as usize, table.row(i)[1]))
        .unzip();
    let of_split = |s: usize| {
        let (test, train): (Vec<usize>, Vec<usize>) =
            (0..x.n_rows()).partition(|&i| splits.row(i)[s] == 1.0);
        let standardiser = Standardiser::fit(&x.select_rows(&train));
        let side = |rows: &[usize]| {
            let tasks: Vec<usize> = rows.iter().map(|&i| tasks[i]).collect();
            let y: Vec<f64> = rows.iter().map(|&i| y[i]).collect();
            (standardiser.apply(&x.select_rows(rows)).unwrap(), tasks, y)
        };
        let (train, test) = (side(&train), side(&test));
        let model = TaskRidge::fit(&train.0, &train.1, &train.2, sharing, penalty).unwrap();
        let predicted = model.predict(&test.0, &test.1).unwrap();
        let ev = metrics::explained_variance(&predicted, &test.2, &test.1).unwrap();
        [ev.pooled, ev.within, ev.group_mean]
    };
    let all: Vec<[f64; 3]> = (0..10).into_par_iter().map(of_split).collect();
    [0, 1, 2].map(|k| all.iter().map(|ev| 10.0 * ev[k]).sum())
}

#[test]
fn ridge_explains_the_measured_variance_of_school() {
    let Some(folder) = data_folder() else { return };
    let cases = [
        (Sharing::Pooled, 10.0, [34.2, 23.5, 12.5]),
        (Sharing::Single, 20.0, [34.4, 23.7, 15.0]),
        (
            Sharing::SharedAndOwn { shared: 17.0 },
            300.0,
            [38.4, 28.3, 18.8],
        ),
    ];
    for (sharing, penalty, expected) in cases {
        let found = school(&folder, sharing, penalty);
        assert_close(&found, &expected, 0.3);
    }
}

#[test]
fn tf_idf_ridge_explains_the_measured_variance_of_film_reviews() {
    let Some(folder) = data_folder() else { return };
    let folder = folder.join("movie-review");
    let (mut documents, mut ratings) = (Vec::new(), Vec::new());
    for author in [
        "Dennis+Schwartz",
        "James+Berardinelli",
        "Scott+Renshaw",
        "Steve+Rhodes",
    ] {
        let file = gunzip(&folder.join(format!("subj.{author}.gz")));
        documents.extend(read::tokens(author, file, read::Encoding::Utf8).unwrap());
        let text = std::fs::read_to_string(folder.join(format!("rating.{author}"))).unwrap();
        ratings.extend(text.split_whitespace().map(|v| v.parse::<f64>().unwrap()));
    }
    assert_eq!((documents.len(), ratings.len()), (5006, 5006));
    let part = |rows: &[usize]| -> (Vec<Vec<String>>, Vec<f64>) {
        rows.iter()
            .map(|&i| (documents[i].clone(), ratings[i]))
            .unzip()
    };
    let folds = splits::k_fold(5006, 5, &mut npb_infer::stream(1, [0; 4])).unwrap();
    let fold = |split: &npb_data::Split| {
        let (train, test) = (part(&split.train), part(&split.test));
        let words = Vocabulary::of_documents(&train.0, 5, 1.0);
        let counts = words.count(&train.0).unwrap();
        let rarity = TfIdf::fit(&counts, true);
        let ridge = Ridge::fit(&rarity.transform(&counts).unwrap(), &train.1, 1.0).unwrap();
        let rows = rarity.transform(&words.count(&test.0).unwrap()).unwrap();
        let predicted = ridge.predict(&rows).unwrap();
        let ev = metrics::explained_variance(&predicted, &test.1, &vec![0; test.1.len()]);
        ev.unwrap().pooled
    };
    let mean = folds.par_iter().map(fold).sum::<f64>() / 5.0;
    assert!((mean - 0.60).abs() < 0.02, "{mean}");
}
