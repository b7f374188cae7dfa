//! Counts of real files, as their descriptions state them. Needs `NPB_DATA_DIR`.

use npb_data::read::{self, Column, DelimitedOptions};
use npb_data::{Labels, Table};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The data folder, or `None` after saying so.
fn data_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("NPB_DATA_DIR");
    if dir.is_none() {
        eprintln!("not run: NPB_DATA_DIR is not set");
    }
    dir.map(PathBuf::from)
}

/// A file of the data folder, unpacked when its name ends in `.gz`.
fn open(dir: &Path, name: &str) -> Box<dyn Read> {
    let file = File::open(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    if name.ends_with(".gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    }
}

fn labelled(
    dir: &Path,
    name: &str,
    label: impl Into<Column>,
    options: &DelimitedOptions,
) -> (Table, Labels) {
    read::labelled_table(name, open(dir, name), &label.into(), options)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn no_header() -> DelimitedOptions {
    DelimitedOptions {
        header: false,
        ..DelimitedOptions::default()
    }
}

#[test]
fn ionosphere_and_wdbc_with_their_given_masks_and_splits() {
    let Some(dir) = data_dir() else { return };
    let (ionosphere, labels) = labelled(&dir, "ionosphere/ionosphere.data", 34, &no_header());
    assert_eq!(
        (
            ionosphere.n_rows(),
            ionosphere.n_cols(),
            ionosphere.n_missing()
        ),
        (351, 34, 0)
    );
    assert_eq!(
        (labels.classes(), labels.counts()),
        (&["b".to_owned(), "g".to_owned()][..], vec![126, 225])
    );
    check_given(&dir, "ionosphere", &ionosphere, &labels, "g");
    let without_id = DelimitedOptions {
        skip: vec![0.into()],
        ..no_header()
    };
    let (wdbc, labels) = labelled(&dir, "wdbc/wdbc.data", 1, &without_id);
    assert_eq!(
        (wdbc.n_rows(), wdbc.n_cols(), wdbc.n_missing()),
        (569, 30, 0)
    );
    assert_eq!(labels.counts(), [357, 212]);
    check_given(&dir, "wdbc", &wdbc, &labels, "M");
}

fn check_given(dir: &Path, name: &str, table: &Table, labels: &Labels, positive: &str) {
    let (n_rows, n_cols) = (table.n_rows(), table.n_cols());
    let file = format!("{name}/splits/masks.txt");
    let masks = read::given_masks(&file, open(dir, &file), n_rows, n_cols)
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(masks.len(), 20);
    for mask in &masks {
        let expected = (mask.key[0] * (n_rows * n_cols) as f64).round_ties_even() as usize;
        assert_eq!(
            table.hide(&mask.missing).expect("same shape").n_missing(),
            expected
        );
    }
    let file = format!("{name}/splits/splits.txt");
    let splits = read::given_splits(&file, open(dir, &file)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(splits.len(), 100);
    let positive = labels.binary(positive).expect("two classes");
    for given in &splits {
        let mask = masks
            .iter()
            .find(|m| m.key == [given.key[0], given.key[2]])
            .expect("a mask for every split");
        let (kept, _) = table
            .hide(&mask.missing)
            .expect("same shape")
            .drop_empty_rows();
        let (train, test) = (&given.split.train, &given.split.test);
        assert_eq!(train.len() + test.len(), kept.n_rows());
        assert_eq!(
            train.len(),
            (given.key[1] * kept.n_rows() as f64).round_ties_even() as usize
        );
        for side in [train, test] {
            assert!(
                side.iter().any(|&i| positive[i] == Some(true))
                    && side.iter().any(|&i| positive[i] == Some(false))
            );
        }
    }
}
