//! Training data in the form that the updates want.

use std::sync::{Arc, Mutex};

use npb_data::{DataError, Labels, Table};
use npb_infer::storage;
use npb_linalg::faer::Mat;
use npb_linalg::mixture::{Group, shrunk_covariance};
use serde::{Deserialize, Serialize};

use crate::config::FeatureScale;
use crate::rows::Rows;
use crate::shards::Shards;
use crate::units::Units;
use crate::{IqgmeConfig, IqgmeError, Result};

/// A table and its labels: one task of several, or all that there is.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its name, in results and errors.
    pub name: &'a str,
    /// Its rows: n x P, cells may be missing, the same columns in every task.
    pub table: &'a Table,
    /// Its labels, of the classes that all tasks share; rows may be unlabelled, and a task may have some of the classes, one or no labels at all.
    pub labels: &'a Labels,
}

impl<'a> Task<'a> {
    /// All that there is.
    pub(crate) fn only(table: &'a Table, labels: &'a Labels) -> Self {
        Self {
            name: "",
            table,
            labels,
        }
    }
}

/// Training data ready for the updates: checked, standardised, sorted by missing pattern.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IqgmeData {
    pub(crate) rows: Rows,
    pub(crate) units: Units,
    pub(crate) classes: Vec<String>,
    /// Covariance of all rows, shrunk to positive definite.
    #[serde(with = "npb_linalg::saved")]
    pub(crate) covariance: Mat<f64>,
    pub(crate) n_labelled: usize,
    /// Where the rows lie in shards; `rows` are none then.
    #[serde(skip)]
    pub(crate) sharded: Option<Sharded>,
}

/// Rows that lie in shards, and those few of them by which runs start.
#[derive(Clone, Debug)]
pub(crate) struct Sharded {
    pub(crate) shards: Arc<dyn Shards>,
    /// Position of the scale: of all rows here.
    pub(crate) scale: usize,
    pub(crate) sample: Box<IqgmeData>,
    /// What others say of where runs start, once they were asked.
    pub(crate) starts: Arc<Mutex<Option<Vec<Vec<u8>>>>>,
    /// Numbers of rows, by shard.
    pub(crate) n_rows: Vec<usize>,
    pub(crate) n_observed: usize,
    /// Fingerprint of the rows and labels.
    pub(crate) print: u64,
}

impl Sharded {
    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows.iter().sum()
    }
}

impl IqgmeData {
    /// Checks and prepares a table with one label (or none) for each row.
    ///
    /// Columns that are constant or have no observed value carry no information and are left out of the model; see
    /// [`crate::IqgmeFit::ignored_columns`]. So are classes without a labelled row. Errors: no rows, no columns, another number of labels than rows, one class
    /// only, two values of a column with a difference that is beyond f64.
    pub fn new(table: &Table, labels: &Labels, config: &IqgmeConfig) -> Result<Self> {
        config.validate()?;
        not_empty(table)?;
        let classes = classes_seen(labels)?;
        check_spans(table)?;
        let units = Units::fit(table, FeatureScale::Standardised)?;
        Self::with_units(table, labels, units, classes)
    }

    /// The same rows on normal scores of the same columns.
    pub(crate) fn on_scores(&self, table: &Table, labels: &Labels) -> Result<Self> {
        let units = Units {
            active: self.units.active.clone(),
            ..Units::fit(table, FeatureScale::NormalScores)?
        };
        Self::with_units(table, labels, units, self.classes.clone())
    }

    /// Takes rows as they are, in units in which the prior is `m_0 = 0` and `covariance` (P x P) is the `S` of `B_0^-1 = c S`: for data drawn from the model, and
    /// whenever units are known beforehand. All columns are in the model; classes may be without rows.
    ///
    /// Errors: no rows, another number of labels than rows, a label that is no class, one class or two of one name, a covariance of another size or
    /// that is not symmetric.
    pub fn in_given_units(
        table: &Table,
        labels: &Labels,
        classes: &[String],
        covariance: &Mat<f64>,
    ) -> Result<Self> {
        let p = table.n_cols();
        if p == 0 {
            return Err(IqgmeError::NoColumns);
        }
        if classes.len() == 1 {
            return Err(IqgmeError::argument("classes", 1, "two or more, or none"));
        }
        if covariance.shape() != (p, p) {
            let rule = "as many rows and columns as the table has columns";
            return Err(IqgmeError::argument("covariance", covariance.nrows(), rule));
        }
        distinct(classes)?;
        if classes.is_empty() && labels.codes().iter().any(Option::is_some) {
            return Err(IqgmeError::argument("classes", 0, "those of the labels"));
        }
        for (i, j) in (0..p).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let (value, other) = (covariance[(i, j)], covariance[(j, i)]);
            if !value.is_finite() || value != other {
                let value = format!("{value} at ({i}, {j}), {other} at ({j}, {i})");
                let rule = "finite and symmetric";
                return Err(IqgmeError::argument("covariance", value, rule));
            }
        }
        let mut data = Self::with_units(table, labels, Units::given(table)?, classes.to_vec())?;
        data.covariance = covariance.clone();
        Ok(data)
    }

    /// Prepares rows in the units, columns and classes of an earlier fit.
    pub(crate) fn with_units(
        table: &Table,
        labels: &Labels,
        units: Units,
        classes: Vec<String>,
    ) -> Result<Self> {
        if table.n_rows() == 0 {
            return Err(IqgmeError::NoRows);
        }
        let n_labelled = labels.codes().iter().flatten().count();
        let n_utilities = n_utilities(n_labelled, &classes);
        let mut data = Self::of_shard(table, labels, units, classes, n_utilities)?;
        data.covariance = shrunk_covariance(&data.rows);
        Ok(data)
    }

    /// As [`with_units`](Self::with_units), of some of the rows: whether there are utilities the others say, and there is no covariance.
    pub(crate) fn of_shard(
        table: &Table,
        labels: &Labels,
        units: Units,
        classes: Vec<String>,
        n_utilities: usize,
    ) -> Result<Self> {
        let by_row = class_of_rows(table, labels, &classes)?;
        let standardised = units.apply(table)?;
        Ok(Self {
            rows: Rows::with_classes(&standardised, &by_row, n_utilities),
            units,
            classes,
            covariance: Mat::zeros(0, 0),
            n_labelled: by_row.iter().flatten().count(),
            sharded: None,
        })
    }

    /// Utilities of each expert; 0 without labels.
    pub(crate) fn n_utilities(&self) -> usize {
        n_utilities(self.n_labelled, &self.classes)
    }

    /// Where `q(t)` starts: by sorted position, then utility.
    pub(crate) fn first_locations(&self) -> Vec<f64> {
        first_utilities(&self.rows.classes, self.rows.n_utilities)
    }

    /// Numbers by sorted position, as many for each row as there are utilities, by table row.
    pub(crate) fn utilities_by_row(&self, by_position: &[f64]) -> Vec<f64> {
        self.rows.by_row(by_position, self.rows.n_utilities)
    }

    /// The other way from [`Self::utilities_by_row`].
    pub(crate) fn utilities_by_position(&self, by_row: &[f64]) -> Vec<f64> {
        let n_utilities = self.rows.n_utilities;
        let of_row = |&row: &usize| by_row[row * n_utilities..][..n_utilities].iter().copied();
        self.rows.order.iter().flat_map(of_row).collect()
    }

    /// Number of observed cells in the model's columns.
    pub fn n_observed(&self) -> usize {
        if let Some(sharded) = &self.sharded {
            return sharded.n_observed;
        }
        let observed = |group: &Group| self.rows.patterns[group.pattern].observed.len();
        let each = self.rows.groups.iter();
        each.map(|group| group.rows.len() * observed(group)).sum()
    }

    /// Number of training rows.
    pub fn n_rows(&self) -> usize {
        let sharded = self.sharded.as_ref();
        sharded.map_or(self.rows.len(), Sharded::n_rows)
    }
}

/// A number for each row and utility: in the region of its class for a labelled row, else 0.
pub(crate) fn first_utilities(classes: &[Option<usize>], n_utilities: usize) -> Vec<f64> {
    let of_row = |class: &Option<usize>| {
        let class = *class;
        (1..=n_utilities).map(move |own| match class {
            None => 0.0,
            Some(class) if class == own => 1.0,
            Some(_) => -1.0,
        })
    };
    classes.iter().flat_map(of_row).collect()
}

fn n_utilities(n_labelled: usize, classes: &[String]) -> usize {
    match n_labelled {
        0 => 0,
        // Labels of a fit without classes are refused when they are looked at.
        _ => classes.len().saturating_sub(1),
    }
}

/// The classes of the labelled rows, two or more; none when no row has a label.
pub(crate) fn classes_seen(labels: &Labels) -> Result<Vec<String>> {
    let counts = labels.counts();
    let each = labels.classes().iter().zip(&counts);
    let seen = each.filter(|(_, count)| **count > 0);
    let seen: Vec<String> = seen.map(|(class, _)| class.clone()).collect();
    match seen.as_slice() {
        [] => Ok(Vec::new()),
        [class] => Err(IqgmeError::OneClass {
            class: class.clone(),
            rows: counts.iter().sum(),
        }),
        _ => Ok(seen),
    }
}

/// An error that names the class that is listed twice, if there is one.
pub(crate) fn distinct(classes: &[String]) -> Result<()> {
    let Some(k) = (1..classes.len()).find(|&k| classes[..k].contains(&classes[k])) else {
        return Ok(());
    };
    let value = format!("{:?} twice", classes[k]);
    let rule = "each a class of its own";
    Err(IqgmeError::argument("classes", value, rule))
}

/// An error unless each difference of two values of a column is a number: then so are deviations from the mean of any rows, as cross-validation takes
/// them.
pub(crate) fn check_spans(table: &Table) -> Result<(), DataError> {
    for column in 0..table.n_cols() {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for x in table.observed_in_column(column) {
            (least, most) = (least.min(x), most.max(x));
        }
        if let Some(farthest) = too_far(least, most) {
            return Err(DataError::TooFar {
                row: row_of(table, column, farthest).unwrap_or(0),
                column,
                value: farthest,
            });
        }
    }
    Ok(())
}

/// The one of two values farther from zero, when their difference is no number.
pub(crate) fn too_far(least: f64, most: f64) -> Option<f64> {
    let farthest = if most > -least { most } else { least };
    (least < most && (most - least).is_infinite()).then_some(farthest)
}

/// The first row that has this value in a column.
pub(crate) fn row_of(table: &Table, column: usize, value: f64) -> Option<usize> {
    (0..table.n_rows()).find(|&row| table.get(row, column) == Some(value))
}

/// An error unless a fit has two classes: of whether one probability says it all. `instead`: what can be asked when there are more.
pub(crate) fn two_classes(
    classes: &[String],
    question: &'static str,
    instead: &'static str,
) -> Result<()> {
    match classes.len() {
        0 => Err(IqgmeError::Unlabelled),
        2 => Ok(()),
        _ => Err(IqgmeError::TwoClassesOnly {
            question,
            classes: classes.to_vec(),
            instead,
        }),
    }
}

/// An error that names the third class, if there is one: for models with no more than two.
pub(crate) fn at_most_two(classes: &[String]) -> Result<()> {
    let [first, second, label, ..] = classes else {
        return Ok(());
    };
    Err(IqgmeError::ThirdClass {
        first: first.clone(),
        second: second.clone(),
        label: label.clone(),
    })
}

pub(crate) fn not_empty(table: &Table) -> Result<()> {
    if table.n_rows() == 0 {
        return Err(IqgmeError::NoRows);
    }
    if table.n_cols() == 0 {
        return Err(IqgmeError::NoColumns);
    }
    Ok(())
}

/// The class of each row, by its position in `classes`, those of the fit.
pub(crate) fn class_of_rows(
    table: &Table,
    labels: &Labels,
    classes: &[String],
) -> Result<Vec<Option<usize>>> {
    if labels.n_rows() != table.n_rows() {
        return Err(IqgmeError::LabelCount {
            labels: labels.n_rows(),
            rows: table.n_rows(),
        });
    }
    let class = |row: usize| {
        let Some(name) = labels.name(row) else {
            return Ok(None);
        };
        let known = classes.iter().position(|class| class == name);
        known.map(Some).ok_or_else(|| match classes {
            [] => IqgmeError::Unlabelled,
            _ => IqgmeError::UnknownClass {
                row,
                label: name.to_owned(),
                classes: classes.to_vec(),
            },
        })
    };
    (0..table.n_rows()).map(class).collect()
}

/// A number that is, but for chance, another one for other rows or labels.
pub(crate) fn fingerprint(data: &IqgmeData) -> Result<u64> {
    if let Some(sharded) = &data.sharded {
        return Ok(sharded.print);
    }
    let rows = &data.rows;
    let group = |group: &Group| (group.rows.end, &rows.patterns[group.pattern].observed);
    let groups: Vec<(usize, &Vec<usize>)> = rows.groups.iter().map(group).collect();
    let content = (
        rows.n_features,
        &rows.classes,
        &rows.order,
        groups,
        &rows.values,
    );
    Ok(storage::fingerprint(&content)?)
}
