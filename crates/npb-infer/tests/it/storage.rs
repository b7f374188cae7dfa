//! Saved models: round trip, and every way in which a file can be wrong.

use std::{fs, path::PathBuf};

use npb_infer::storage::{self, FormatError, StorageError};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Wire {
    V1(Fit),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fit {
    pub(crate) names: Vec<String>,
    pub(crate) weights: Vec<f64>,
    pub(crate) groups: Vec<Vec<Option<u32>>>,
    pub(crate) converged: bool,
}

pub(crate) const MODEL: &str = "npb-test/fit";

pub(crate) fn fit() -> Wire {
    Wire::V1(Fit {
        names: vec!["length".into(), String::new(), "größe".into()],
        weights: vec![1.5, -0.0, f64::MIN_POSITIVE / 8.0, 1e300],
        groups: vec![vec![], vec![Some(3), None]],
        converged: true,
    })
}

fn bytes() -> Vec<u8> {
    storage::to_bytes(MODEL, "0.1.0", &fit()).unwrap()
}

fn read(bytes: &[u8]) -> Result<Wire, FormatError> {
    storage::from_bytes(MODEL, bytes)
}

/// A folder of its own for one test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("npb-infer-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn what_is_saved_is_what_is_loaded() {
    let folder = Folder::new("round-trip");
    let path = folder.file("fit.npb");
    storage::save(
        &path,
        MODEL,
        "0.1.0",
        &Wire::V1(Fit {
            names: vec![],
            weights: vec![],
            groups: vec![],
            converged: false,
        }),
    )
    .unwrap();
    storage::save(&path, MODEL, "0.1.0", &fit()).unwrap();
    assert_eq!(storage::load::<Wire>(&path, MODEL).unwrap(), fit());
    assert_eq!(folder.names(), ["fit.npb"], "no temporary file is left");
}

#[test]
fn numbers_keep_their_bits() {
    let numbers = vec![f64::NAN, -f64::NAN, -0.0, f64::INFINITY, 5e-324];
    let back: Vec<f64> =
        storage::from_bytes("n", &storage::to_bytes("n", "0", &numbers).unwrap()).unwrap();
    let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(&numbers));
}

#[test]
fn every_truncation_is_called_truncated() {
    let bytes = bytes();
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Err(FormatError::Truncated { needed, found }) => {
                assert!(needed > found && found == len as u64)
            }
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let good = bytes();
    for bit in 0..8 * good.len() {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn errors_say_which_kind_of_wrong() {
    let good = bytes();
    assert_eq!(read(b"col_a,col_b\n1,2\n"), Err(FormatError::Foreign));
    assert_eq!(read(b"\x89PNG\r\n\x1a\n"), Err(FormatError::Foreign));

    // The very next format is as unreadable as a far one.
    for found in [2, 9] {
        let mut newer = good.clone();
        newer[8] = found;
        let found = found.into();
        let supported = 1;
        assert_eq!(
            read(&newer),
            Err(FormatError::NewerFormat { found, supported })
        );
    }

    let other = storage::from_bytes::<Wire>("npb-iqgme/fit", &good).unwrap_err();
    assert_eq!(
        other.to_string(),
        "holds a \"npb-test/fit\", not a \"npb-iqgme/fit\": load it with that model; if that is the same model by an earlier version: fit again, or load it with the version that wrote it"
    );

    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(read(&longer), Err(FormatError::Altered { .. })));

    let mut flipped = good.clone();
    let middle = good.len() - 20;
    flipped[middle] ^= 1;
    assert!(matches!(read(&flipped), Err(FormatError::Altered { .. })));

    let wrong_type = storage::from_bytes::<Vec<String>>(MODEL, &good).unwrap_err();
    assert!(wrong_type.to_string().contains("0.1.0"), "{wrong_type}");
    let longer_payload = storage::to_bytes("n", "0", &(1_u64, 2_u64)).unwrap();
    let left = storage::from_bytes::<u64>("n", &longer_payload).unwrap_err();
    assert!(left.to_string().contains("8 bytes are left over"), "{left}");
}

#[test]
fn errors_of_files_name_the_path() {
    let folder = Folder::new("paths");
    let missing = storage::load::<Wire>(folder.file("nothing.npb"), MODEL).unwrap_err();
    assert!(matches!(missing, StorageError::Io { action: "open", .. }));
    assert!(missing.to_string().contains("nothing.npb"));

    fs::write(folder.file("table.csv"), "a,b\n").unwrap();
    let foreign = storage::load::<Wire>(folder.file("table.csv"), MODEL).unwrap_err();
    assert!(
        foreign.to_string().contains("table.csv")
            && foreign.to_string().contains("not a saved npb model")
    );

    let nowhere =
        storage::save(folder.file("no/such/folder.npb"), MODEL, "0.1.0", &fit()).unwrap_err();
    assert!(matches!(nowhere, StorageError::Io { .. }));
}

#[test]
fn a_save_that_fails_leaves_neither_damage_nor_litter() {
    let folder = Folder::new("failed-save");
    // The target is a folder that is not empty: the rename must fail.
    fs::create_dir(folder.file("fit.npb")).unwrap();
    fs::write(folder.file("fit.npb").join("kept"), "x").unwrap();
    assert!(matches!(
        storage::save(folder.file("fit.npb"), MODEL, "0.1.0", &fit()),
        Err(StorageError::Io {
            action: "replace",
            ..
        })
    ));
    assert_eq!(folder.names(), ["fit.npb"]);
    assert!(folder.file("fit.npb").join("kept").exists());
}

#[cfg(unix)]
#[test]
fn devices_are_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    storage::save("/dev/null", "demo/weights", "0.1.0", &vec![1.5]).expect("written");
    let there = std::fs::metadata("/dev/null").expect("still there");
    assert!(there.file_type().is_char_device());
    if std::path::Path::new("/dev/full").exists() {
        let full = storage::save("/dev/full", "demo/weights", "0.1.0", &vec![1.5]);
        assert!(full.expect_err("full").to_string().contains("/dev/full"));
    }
}
