//! Questions about the sample of a fit over shards, which whoever is free can answer.

use std::borrow::Cow;

use npb_data::{Labels, Table};
use serde::{Deserialize, Serialize};

use crate::IqgmeConfig;
use crate::data::IqgmeData;

/// What all are told who answer a question about the sample.
#[derive(Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made for each question, and written at once"
)]
pub(crate) enum OfSample<'a> {
    /// What a member says of the fold that it was trained without: told the fold and the member.
    WithoutFold(Box<SampleAsItIs>),
    /// Where a run starts: told the start and the restart.
    Start(Cow<'a, IqgmeData>, Cow<'a, IqgmeConfig>),
}

/// The sample in the units of the table, for those who leave rows out.
#[derive(Serialize, Deserialize)]
pub(crate) struct SampleAsItIs {
    pub(crate) table: Table,
    pub(crate) labels: Labels,
    pub(crate) config: IqgmeConfig,
    /// Whether there are normal scores, too.
    pub(crate) scored: bool,
}
