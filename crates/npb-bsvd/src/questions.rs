//! What shards of the entries are asked, and how questions and answers are written: a head in the format of saved models, then tables of numbers as they are,
//! little-endian.

use npb_infer::storage::{from_bytes, to_bytes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::regression::Task;
use crate::side::Side;

/// The tables of a question without tables.
pub(crate) const NO_TABLES: [&[f32]; 3] = [&[]; 3];

/// Name of the heads.
const MODEL: &str = "npb-bsvd/question";

/// What all shards of a side are asked alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Numbers of entries of the rows, and their columns.
    Pattern,
    /// The largest absolute value.
    Largest,
    /// The sum of the values, told the sum so far: over a unit, or with a mean that of squared deviations from it.
    Sum { unit: f64, mean: Option<f64> },
    /// The first value that single precision cannot hold in units of this centre and scale, and which of the entries it is of.
    Beyond { units: (f64, f64) },
    /// Values of the entries that it is told.
    Marked,
    /// The sum of the responses, told the sum so far.
    Responses,
    /// A number that is another one for other responses.
    Content,
    /// Coefficients of the rows: a pass of the sampler.
    Pass(PassQuestion),
    /// Products of components over the cells.
    Products(ProductQuestion),
}

/// What a pass over one side knows beside the state of the other side, whose factors, intercepts and noise weights come as tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PassQuestion {
    pub(crate) side: Side,
    /// Rows of the other side.
    pub(crate) others: usize,
    pub(crate) scales: Vec<f64>,
    pub(crate) intercept: bool,
    pub(crate) offset: f64,
    pub(crate) noise_precision: f64,
    pub(crate) prior_precision: Vec<f64>,
    pub(crate) prior_linear: Vec<f64>,
    pub(crate) task: Task,
    pub(crate) coordinates: bool,
    pub(crate) noise_shape: f64,
    pub(crate) key: (u64, [u64; 3]),
    /// Mean coefficients are asked for, too.
    pub(crate) means: bool,
}

impl PassQuestion {
    /// Whether the coefficients are read as they are.
    pub(crate) fn reads(&self) -> bool {
        self.coordinates || !self.task.draws()
    }
}

/// What products are of, beside candidates, intercepts and noise weights of the columns, which come as tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProductQuestion {
    pub(crate) columns: usize,
    pub(crate) width: usize,
    pub(crate) scales: Vec<f64>,
    pub(crate) offset: f64,
    pub(crate) in_double: bool,
}

/// A head and tables in bytes.
pub(crate) fn pack(head: &impl Serialize, tables: &[&[f32]]) -> Result<Vec<u8>, BsvdError> {
    let head = to_bytes(MODEL, env!("CARGO_PKG_VERSION"), head)?;
    let len = |n: usize| (n as u64).to_le_bytes();
    let numbers: usize = tables.iter().map(|table| 8 + 4 * table.len()).sum();
    let mut bytes = Vec::with_capacity(8 + head.len() + numbers);
    bytes.extend(len(head.len()));
    bytes.extend(head);
    for table in tables {
        bytes.extend(len(table.len()));
        bytes.extend(table.iter().flat_map(|x| x.to_le_bytes()));
    }
    Ok(bytes)
}

/// What [`pack`] has packed, with so many tables.
pub(crate) fn unpack<H: DeserializeOwned, const N: usize>(
    bytes: &[u8],
) -> Result<(H, [Vec<f32>; N]), BsvdError> {
    let mut rest = bytes;
    let head = from_bytes(MODEL, take(&mut rest, 1)?)?;
    let mut tables = std::array::from_fn(|_| Vec::new());
    for table in &mut tables {
        let (numbers, _) = take(&mut rest, 4)?.as_chunks();
        table.extend(numbers.iter().map(|&x| f32::from_le_bytes(x)));
    }
    check(rest.is_empty(), "tables")?;
    Ok((head, tables))
}

/// The next items of `width` bytes each, whose number stands before them.
fn take<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], BsvdError> {
    let first = rest.split_first_chunk();
    let parts = first.and_then(|(len, after)| {
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        after.split_at_checked(len.checked_mul(width)?)
    });
    let Some((own, after)) = parts else {
        return Err(wrong("bytes"));
    };
    *rest = after;
    Ok(own)
}

/// An error when a question or an answer contradicts itself or the shard.
pub(crate) fn check(holds: bool, what: &str) -> Result<(), BsvdError> {
    match holds {
        true => Ok(()),
        false => Err(wrong(what)),
    }
}

pub(crate) fn wrong(what: &str) -> BsvdError {
    BsvdError::State {
        what: format!("{what} of a question to a shard, or of its answer: impossible size"),
    }
}
