//! Content of items as columns of regressors, and the kernel `content + identity + constant` with learned scales.

use npb_infer::parallel;
use npb_infer::ranges::{above, moderate};
use npb_linalg::dot;
use serde::{Deserialize, Serialize};

use crate::{HbrecError, ItemPrior, Likes, ProbitItems, UserModel};

/// How alike two items are by their features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKernel {
    /// `x'y / mean |x|^2` of centred features.
    Linear,
    /// `exp(-|x - y|^2 / (length^2 D^2))`, `D^2` the mean squared distance of two items.
    Rbf {
        /// In units of the typical distance of two items.
        length: f64,
    },
}

/// Squares of larger features, summed over items, could overflow.
const LARGEST: f64 = 1e100;

/// The radial kernel is kept to this share of its trace, in at most this many columns.
const TRACE_SHARE: f64 = 0.99;
const MOST_COLUMNS: usize = 128;

/// Features of items turned into columns whose inner products are the content kernel, of mean diagonal about 1.
///
/// Features should be on comparable scales. An item without features is an average one: its columns are zero.
///
/// ```
/// use npb_hbrec::{Content, ContentKernel};
/// let genre = |a: f64, b: f64| Some(vec![a, b]);
/// let content = Content::new(&[genre(1.0, 0.0), genre(0.0, 1.0), None], ContentKernel::Linear)?;
/// assert_eq!(content.row(2), [0.0, 0.0]);
/// assert_eq!(content.project(&[1.0, 0.0])?, content.row(0));
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    kernel: ContentKernel,
    centre: Vec<f64>,
    /// Linear: what centred features are multiplied by. Radial: what squared distances are multiplied by.
    scale: f64,
    /// Radial: features of the pivots, and the columns there.
    pivots: Vec<Vec<f64>>,
    pivot_columns: Vec<Vec<f64>>,
    width: usize,
    columns: Vec<f64>,
}

impl Content {
    /// From the features of each item, if it has any; all of one length.
    ///
    /// # Errors
    /// Rows of different lengths, no item with features, a feature that is not finite or beyond 1e100; a length that is not from 1e-10 to 1e10.
    pub fn new(items: &[Option<Vec<f64>>], kernel: ContentKernel) -> Result<Self, HbrecError> {
        let Some(q) = items.iter().flatten().map(Vec::len).next() else {
            return Err(HbrecError::State {
                what: "features of items: no item has any".to_owned(),
            });
        };
        for (item, row) in items.iter().enumerate() {
            check_features(item, row.as_deref(), q)?;
        }
        if let ContentKernel::Rbf { length } = kernel {
            moderate("length", length)?;
        }
        let known = || items.iter().flatten();
        let n = known().count() as f64;
        let centre: Vec<f64> = (0..q)
            .map(|k| known().map(|x| x[k]).sum::<f64>() / n)
            .collect();
        let centred = |x: &Vec<f64>| {
            x.iter()
                .zip(&centre)
                .map(|(x, c)| (x - c).powi(2))
                .sum::<f64>()
        };
        let spread = (known().map(centred).sum::<f64>() / n).max(f64::MIN_POSITIVE.sqrt());
        let mut content = Self {
            kernel,
            centre,
            scale: 1.0 / spread.sqrt(),
            pivots: Vec::new(),
            pivot_columns: Vec::new(),
            width: q,
            columns: Vec::new(),
        };
        match kernel {
            ContentKernel::Linear => content.linear_columns(items),
            ContentKernel::Rbf { length } => {
                content.scale = 1.0 / (2.0 * spread * length * length);
                content.choose_pivots(items);
            }
        }
        Ok(content)
    }

    fn linear_columns(&mut self, items: &[Option<Vec<f64>>]) {
        let row = |x: &Option<Vec<f64>>| {
            x.as_ref()
                .map_or(vec![0.0; self.width], |x| self.linear_row(x))
        };
        self.columns = items.iter().flat_map(row).collect();
    }

    fn linear_row(&self, x: &[f64]) -> Vec<f64> {
        let centred = x.iter().zip(&self.centre);
        centred.map(|(x, c)| (x - c) * self.scale).collect()
    }

    /// Pivoted Cholesky factorisation: each pivot is the item that the columns so far explain least.
    fn choose_pivots(&mut self, items: &[Option<Vec<f64>>]) {
        let mut left: Vec<f64> = items.iter().map(|x| f64::from(x.is_some())).collect();
        let trace: f64 = left.iter().sum();
        let mut columns: Vec<Vec<f64>> = vec![Vec::new(); items.len()];
        while self.pivots.len() < MOST_COLUMNS
            && left.iter().sum::<f64>() > (1.0 - TRACE_SHARE) * trace
        {
            let most = (0..items.len()).max_by(|&a, &b| left[a].total_cmp(&left[b]));
            let Some((pivot, features)) = most.and_then(|i| Some((i, items[i].as_ref()?))) else {
                break;
            };
            let mut own = columns[pivot].clone();
            own.push(left[pivot].sqrt());
            self.pivots.push(features.clone());
            self.pivot_columns.push(own);
            let k = self.pivots.len() - 1;
            for ((x, row), left) in items.iter().zip(&mut columns).zip(&mut left) {
                let value = x.as_ref().map_or(0.0, |x| self.next_column(k, x, row));
                row.push(value);
                *left = (*left - value * value).max(0.0);
            }
            left[pivot] = 0.0;
        }
        self.width = self.pivots.len();
        self.columns = columns.concat();
    }

    /// Column k of an item, given those before.
    fn next_column(&self, k: usize, x: &[f64], row: &[f64]) -> f64 {
        let pairs = x.iter().zip(&self.pivots[k]);
        let distance: f64 = pairs.map(|(x, y)| (x - y).powi(2)).sum();
        let own = &self.pivot_columns[k];
        ((-distance * self.scale).exp() - dot(&own[..k], row)) / own[k]
    }

    /// Columns of a new item.
    ///
    /// # Errors
    /// Another number of features; one that is not finite.
    pub fn project(&self, features: &[f64]) -> Result<Vec<f64>, HbrecError> {
        check_features(self.n_items(), Some(features), self.centre.len())?;
        if self.kernel == ContentKernel::Linear {
            return Ok(self.linear_row(features));
        }
        let mut row = Vec::with_capacity(self.width);
        for k in 0..self.width {
            let value = self.next_column(k, features, &row);
            row.push(value);
        }
        Ok(row)
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.columns.len().checked_div(self.width).unwrap_or(0)
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns of an item.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn row(&self, item: usize) -> &[f64] {
        &self.columns[item * self.width..(item + 1) * self.width]
    }

    /// Checks what is relied on, after decoding.
    pub(crate) fn check(&self) -> Result<(), HbrecError> {
        let radial = self.kernel != ContentKernel::Linear;
        let sized =
            if radial {
                self.pivots.len() == self.width
                    && self.pivot_columns.len() == self.width
                    && self.pivots.iter().all(|x| x.len() == self.centre.len())
                    && self.pivot_columns.iter().enumerate().all(|(k, c)| {
                        c.len() == k + 1 && c[k] > 0.0 && c.iter().all(|v| v.is_finite())
                    })
            } else {
                self.width == self.centre.len() && self.pivots.is_empty()
            };
        let whole = self.width > 0 && self.columns.len().is_multiple_of(self.width);
        let finite = self
            .columns
            .iter()
            .chain(&self.centre)
            .all(|v| v.is_finite())
            && self.pivots.iter().flatten().all(|v| v.is_finite())
            && self.scale.is_finite();
        if sized && whole && finite {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "content of items: impossible size or value".to_owned(),
        })
    }
}

fn check_features(item: usize, row: Option<&[f64]>, expected: usize) -> Result<(), HbrecError> {
    let Some(row) = row else {
        return Ok(());
    };
    if row.len() != expected || expected == 0 {
        return Err(HbrecError::Size {
            what: "features of an item",
            found: row.len(),
            expected: expected.max(1),
        });
    }
    match row.iter().position(|x| x.is_nan() || x.abs() > LARGEST) {
        None => Ok(()),
        Some(column) => Err(HbrecError::Value {
            what: "features of items",
            row: item,
            column,
            value: row[column],
            rule: "must be finite, at most 1e100 in size: give an item without features as None",
        }),
    }
}

/// Scales of the kernel `content + constant`, in units of the noise variance of a like; the share of identity is [`ItemPrior::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelScales {
    /// Of the content kernel.
    pub content: f64,
    /// Of the constant: how much users differ in how readily they like anything.
    pub constant: f64,
}

impl Default for KernelScales {
    /// 1 and 1, from where they are learned.
    fn default() -> Self {
        Self {
            content: 1.0,
            constant: 1.0,
        }
    }
}

impl KernelScales {
    /// The standard Gaussian of T: mean zero and this kernel.
    ///
    /// # Errors
    /// Scales that are not positive and finite, identity outside [0, 1].
    pub fn prior(
        &self,
        n_items: usize,
        content: Option<&Content>,
        identity: f64,
    ) -> Result<ItemPrior, HbrecError> {
        above("content scale", self.content, 0.0)?;
        above("constant scale", self.constant, 0.0)?;
        check_content(n_items, content)?;
        let width = content.map_or(0, Content::width) + 1;
        let mut loadings = Vec::with_capacity(n_items * width);
        for item in 0..n_items {
            let row = content.map_or(&[][..], |content| content.row(item));
            loadings.extend(row.iter().map(|x| x * self.content.sqrt()));
            loadings.push(self.constant.sqrt());
        }
        ItemPrior::new(
            &vec![0.0; n_items],
            &loadings,
            &vec![0.0; n_items],
            identity,
        )
    }
}

pub(crate) fn check_content(n_items: usize, content: Option<&Content>) -> Result<(), HbrecError> {
    match content {
        Some(content) if content.n_items() != n_items => Err(HbrecError::Size {
            what: "items with content",
            found: content.n_items(),
            expected: n_items,
        }),
        _ => Ok(()),
    }
}

/// The sum of the users' log-evidences under this base distribution. Cost: a fit for each user, in parallel.
///
/// # Errors
/// Users with unknown items.
pub fn summed_ln_evidence(model: &ProbitItems, users: &[&Likes]) -> Result<f64, HbrecError> {
    let evidence = |user: &&Likes| Ok(model.ln_evidence(&model.fit(user)?));
    let each: Result<Vec<f64>, HbrecError> = parallel::try_map(users, evidence);
    Ok(each?.iter().sum())
}

/// Steps of the search, in natural logarithms of the scales; the last is its precision.
const STEPS: [f64; 4] = [1.4, 0.7, 0.35, 0.17];
/// Scales are kept within these.
const SCALES: [f64; 2] = [1e-4, 1e4];

/// The scales with the largest summed evidence of these users, by compass search from `start`; and that evidence.
///
/// # Errors
/// As [`KernelScales::prior`] and [`summed_ln_evidence`]; no user with data.
pub fn learn_scales(
    users: &[&Likes],
    n_items: usize,
    content: Option<&Content>,
    start: KernelScales,
) -> Result<(KernelScales, f64), HbrecError> {
    if users.iter().all(|likes| likes.is_empty()) {
        return Err(HbrecError::NoData);
    }
    let evidence = |scales: &KernelScales| {
        let prior = scales.prior(n_items, content, 0.0)?;
        summed_ln_evidence(&ProbitItems::new(prior), users)
    };
    let (mut best, mut most) = (start, evidence(&start)?);
    for step in STEPS {
        loop {
            let before = most;
            for (on_content, sign) in [(true, 1.0), (true, -1.0), (false, 1.0), (false, -1.0)] {
                let mut tried = best;
                let scale = if on_content {
                    &mut tried.content
                } else {
                    &mut tried.constant
                };
                *scale = (*scale * f64::exp(sign * step)).clamp(SCALES[0], SCALES[1]);
                if tried == best || (on_content && content.is_none()) {
                    continue;
                }
                let found = evidence(&tried)?;
                if found > most {
                    (best, most) = (tried, found);
                }
            }
            if most == before {
                break;
            }
        }
    }
    Ok((best, most))
}
