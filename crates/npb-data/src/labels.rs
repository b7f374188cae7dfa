//! Class labels.

use crate::DataError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Class labels of rows; a row may be unlabelled.
///
/// `classes` are the distinct class names; the code of a row is a position in it, or `None` when the row has no label.
/// Deserialisation checks that codes are in range and classes differ.
///
/// ```
/// use npb_data::Labels;
/// let labels = Labels::from_strings(&[Some("good"), Some("bad"), None]);
/// assert_eq!(labels.classes(), ["bad", "good"]);
/// assert_eq!(labels.codes(), [Some(1), Some(0), None]);
/// assert_eq!(labels.binary("good")?, [Some(true), Some(false), None]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LabelsWire")]
pub struct Labels {
    classes: Vec<String>,
    codes: Vec<Option<usize>>,
}

/// What stored labels look like before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelsWire {
    classes: Vec<String>,
    codes: Vec<Option<usize>>,
}

impl Labels {
    /// Labels from one optional string per row; the classes are the distinct strings, sorted as text.
    pub fn from_strings<S: AsRef<str>>(labels: &[Option<S>]) -> Self {
        let classes: BTreeSet<&str> = labels.iter().flatten().map(AsRef::as_ref).collect();
        Self::coded(
            classes.into_iter().map(str::to_owned).collect(),
            labels.iter().map(|l| l.as_ref().map(AsRef::as_ref)),
        )
        .unwrap_or_else(|_| unreachable!("every label is a class"))
    }

    /// Labels from one optional integer per row; the classes are the distinct integers, sorted as numbers.
    pub fn from_integers(labels: &[Option<i64>]) -> Self {
        let distinct: Vec<i64> = labels
            .iter()
            .flatten()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let codes = labels
            .iter()
            .map(|l| l.and_then(|l| distinct.binary_search(&l).ok()))
            .collect();
        Self {
            classes: distinct.iter().map(i64::to_string).collect(),
            codes,
        }
    }

    /// Labels from one optional string per row with the classes in the given order; a class may be without rows.
    ///
    /// # Errors
    /// [`DataError::UnknownLabel`] names the first row whose label is not a class, [`DataError::DuplicateClass`] a repeated class.
    pub fn with_classes<S: AsRef<str>>(
        classes: Vec<String>,
        labels: &[Option<S>],
    ) -> Result<Self, DataError> {
        check_classes(&classes)?;
        Self::coded(
            classes,
            labels.iter().map(|l| l.as_ref().map(AsRef::as_ref)),
        )
    }

    /// Labels from classes and codes.
    ///
    /// # Errors
    /// [`DataError::Code`] names the first row whose code is out of range, [`DataError::DuplicateClass`] a repeated class.
    pub fn from_codes(classes: Vec<String>, codes: Vec<Option<usize>>) -> Result<Self, DataError> {
        check_classes(&classes)?;
        let n_classes = classes.len();
        for (row, &code) in codes.iter().enumerate() {
            if let Some(code) = code.filter(|&c| c >= n_classes) {
                return Err(DataError::Code {
                    row,
                    code,
                    n_classes,
                });
            }
        }
        Ok(Self { classes, codes })
    }

    fn coded<'a>(
        classes: Vec<String>,
        labels: impl Iterator<Item = Option<&'a str>>,
    ) -> Result<Self, DataError> {
        let code_of: HashMap<&str, usize> = classes
            .iter()
            .enumerate()
            .map(|(c, name)| (name.as_str(), c))
            .collect();
        let code = |(row, label): (usize, Option<&str>)| match label {
            None => Ok(None),
            Some(label) => {
                code_of
                    .get(label)
                    .map(|&c| Some(c))
                    .ok_or_else(|| DataError::UnknownLabel {
                        row,
                        label: label.to_owned(),
                        classes: classes.clone(),
                    })
            }
        };
        let codes = labels.enumerate().map(code).collect::<Result<_, _>>()?;
        Ok(Self { classes, codes })
    }

    /// The class names.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The code of every row: a position in [`classes`](Self::classes), `None` for an unlabelled row.
    pub fn codes(&self) -> &[Option<usize>] {
        &self.codes
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.codes.len()
    }

    /// Number of classes.
    pub fn n_classes(&self) -> usize {
        self.classes.len()
    }

    /// The class name of a row, `None` when it is unlabelled.
    pub fn name(&self, row: usize) -> Option<&str> {
        self.codes[row].map(|c| self.classes[c].as_str())
    }

    /// Number of rows of every class.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.n_classes()];
        self.codes.iter().flatten().for_each(|&c| counts[c] += 1);
        counts
    }

    /// The code of every row, when every row is labelled.
    ///
    /// # Errors
    /// [`DataError::Unlabelled`] names the first row without a label.
    pub fn all_codes(&self) -> Result<Vec<usize>, DataError> {
        self.codes
            .iter()
            .enumerate()
            .map(|(row, code)| code.ok_or(DataError::Unlabelled { row }))
            .collect()
    }

    /// For labels of at most two classes: true where the class is `positive`, `None` where unlabelled.
    ///
    /// # Errors
    /// [`DataError::NoSuchClass`] when `positive` is not a class; [`DataError::ThirdClass`] names the first label that is a third
    /// class. For one class against all others see [`one_against_rest`](Self::one_against_rest).
    pub fn binary(&self, positive: &str) -> Result<Vec<Option<bool>>, DataError> {
        let code = self.class_code(positive)?;
        let mut negative = None;
        for (row, other) in self
            .codes
            .iter()
            .enumerate()
            .filter_map(|(i, c)| c.filter(|&c| c != code).map(|c| (i, c)))
        {
            let negative = *negative.get_or_insert(other);
            if other != negative {
                return Err(DataError::ThirdClass {
                    label: self.classes[other].clone(),
                    row,
                    positive: positive.to_owned(),
                    negative: self.classes[negative].clone(),
                });
            }
        }
        self.one_against_rest(positive)
    }

    /// True where the class is `positive`, `None` where unlabelled; any number of classes.
    ///
    /// # Errors
    /// [`DataError::NoSuchClass`].
    pub fn one_against_rest(&self, positive: &str) -> Result<Vec<Option<bool>>, DataError> {
        let code = self.class_code(positive)?;
        Ok(self.codes.iter().map(|c| c.map(|c| c == code)).collect())
    }

    /// The given rows, in the given order; the list of classes stays whole.
    pub fn select_rows(&self, rows: &[usize]) -> Labels {
        Labels {
            classes: self.classes.clone(),
            codes: rows.iter().map(|&i| self.codes[i]).collect(),
        }
    }

    fn class_code(&self, class: &str) -> Result<usize, DataError> {
        self.classes
            .iter()
            .position(|c| c == class)
            .ok_or_else(|| DataError::NoSuchClass {
                class: class.to_owned(),
                classes: self.classes.clone(),
            })
    }
}

impl TryFrom<LabelsWire> for Labels {
    type Error = DataError;

    fn try_from(wire: LabelsWire) -> Result<Self, DataError> {
        Self::from_codes(wire.classes, wire.codes)
    }
}

/// All classes differ.
pub(crate) fn check_classes(classes: &[String]) -> Result<(), DataError> {
    let mut seen = HashSet::with_capacity(classes.len());
    match classes.iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(DataError::DuplicateClass { name: name.clone() }),
    }
}
