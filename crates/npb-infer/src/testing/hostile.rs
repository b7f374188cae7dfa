use std::{
    borrow::Cow,
    fmt::{self, Debug, Display},
    panic::{AssertUnwindSafe, catch_unwind},
};

use rand::RngExt;
use thiserror::Error;

use crate::{storage, stream};

/// At most this many places of a file are tried where each means decoding the whole of it.
const PLACES: usize = 1000;

/// A file that does harm.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostileFailure {
    /// The undamaged file does not load.
    #[error("the undamaged file does not load: {0}")]
    GoodFileRefused(String),
    /// A truncated file was accepted.
    #[error("{0}: accepted although bytes are missing")]
    TruncationAccepted(String),
    /// Loading, or using what was loaded, panicked.
    #[error("{damage}: panicked: {message}")]
    Panicked {
        /// What was done to the file.
        damage: String,
        /// The panic's message.
        message: String,
    },
}

/// What was tried on a file, and how much of it was accepted as a valid value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostileSummary {
    /// Truncations of the whole file: all refused.
    pub truncations: usize,
    /// Truncated payloads with length and checksum made right again.
    pub short_payloads: usize,
    /// Single flipped bits with the checksum recomputed.
    pub flips: usize,
    /// Forged lengths with the checksum recomputed.
    pub forged: usize,
    /// Damaged files that were accepted, their values used without panic.
    pub accepted: usize,
}

/// Attacks a saved model: every truncation; truncated payloads, forged lengths and `flips` random
/// single bit flips, these with the checksum recomputed, so that decoding and validation are
/// reached.
///
/// `good` is the file's content (from [`storage::to_bytes`]), `load` the model's own loading with
/// all its validation, and `exercise` uses a loaded value as its owner would (predict, print,
/// save): a value that was accepted must not panic there. That memory stays bounded is the business
/// of [`storage`] (see there); a type that reserves memory by what a field says must check the
/// field first, and this harness shows when it does not: the reservation of a forged size aborts
/// the test.
///
/// # Errors
/// The first damage that was not handled.
pub fn attack_file<T, E: Display + Debug>(
    good: &[u8],
    flips: usize,
    seed: u64,
    load: impl Fn(&[u8]) -> Result<T, E>,
    exercise: impl Fn(&T),
) -> Result<HostileSummary, HostileFailure> {
    let refused = |reason: String| HostileFailure::GoodFileRefused(reason);
    let value = load(good).map_err(|e| refused(e.to_string()))?;
    exercise(&value);
    let (header, payload) =
        storage::header_and_payload(good).map_err(|e| refused(e.to_string()))?;

    let mut summary = HostileSummary::default();
    let damaged = truncated(good)
        .chain(short_payloads(header, payload, seed))
        .chain(flipped(good, flips, seed))
        .chain(forged(
            good,
            header.len() + storage::LENGTH_LEN,
            payload.len(),
            seed,
        ));
    for (kind, what, file) in damaged {
        let load_and_use = || load(&file).map(|value| exercise(&value)).is_ok();
        let accepted = catch_unwind(AssertUnwindSafe(load_and_use)).map_err(|panic| {
            let message = panic_message(panic.as_ref());
            HostileFailure::Panicked {
                damage: what.to_string(),
                message,
            }
        })?;
        if accepted && kind == Kind::Truncated {
            return Err(HostileFailure::TruncationAccepted(what.to_string()));
        }
        summary.count(kind, accepted);
    }
    Ok(summary)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Truncated,
    ShortPayload,
    Flipped,
    Forged,
}

impl HostileSummary {
    fn count(&mut self, kind: Kind, accepted: bool) {
        let tried = match kind {
            Kind::Truncated => &mut self.truncations,
            Kind::ShortPayload => &mut self.short_payloads,
            Kind::Flipped => &mut self.flips,
            Kind::Forged => &mut self.forged,
        };
        *tried += 1;
        self.accepted += usize::from(accepted);
    }
}

/// What was done to a file, written out only when it must be told.
enum What {
    CutTo(usize),
    PayloadCutTo(usize),
    BitFlipped(usize),
    LengthWritten { length: u64, at: usize },
}

impl Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutTo(len) => write!(f, "file cut to {len} bytes"),
            Self::PayloadCutTo(len) => write!(f, "payload cut to {len} bytes"),
            Self::BitFlipped(bit) => write!(f, "bit {bit} flipped"),
            Self::LengthWritten { length, at } => write!(f, "{length} written at byte {at}"),
        }
    }
}

type Damaged<'a> = (Kind, What, Cow<'a, [u8]>);

fn truncated(good: &[u8]) -> impl Iterator<Item = Damaged<'_>> {
    (0..good.len()).map(|len| {
        (
            Kind::Truncated,
            What::CutTo(len),
            Cow::Borrowed(&good[..len]),
        )
    })
}

fn short_payloads<'a>(
    header: &'a [u8],
    payload: &'a [u8],
    seed: u64,
) -> impl Iterator<Item = Damaged<'a>> {
    spread(payload.len(), seed).map(|len| {
        let mut file = header.to_vec();
        storage::seal(&mut file, &payload[..len]);
        (
            Kind::ShortPayload,
            What::PayloadCutTo(len),
            Cow::Owned(file),
        )
    })
}

fn flipped(good: &[u8], flips: usize, seed: u64) -> impl Iterator<Item = Damaged<'_>> {
    let mut rng = stream(seed, [0; 4]);
    (0..flips).map(move |_| {
        let bit = rng.random_range(0..8 * good.len());
        let file = resealed(good, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        (Kind::Flipped, What::BitFlipped(bit), Cow::Owned(file))
    })
}

/// Huge and merely wrong lengths, at every place where a length could be.
fn forged(
    good: &[u8],
    start: usize,
    payload_len: usize,
    seed: u64,
) -> impl Iterator<Item = Damaged<'_>> {
    let lengths = [u64::MAX, 1 << 62, 1 << 40, 2 * good.len() as u64];
    spread((payload_len + 1).saturating_sub(8), seed).flat_map(move |place| {
        let at = start + place;
        lengths.into_iter().map(move |length| {
            let file = resealed(good, |bytes| {
                bytes[at..at + 8].copy_from_slice(&length.to_le_bytes())
            });
            (
                Kind::Forged,
                What::LengthWritten { length, at },
                Cow::Owned(file),
            )
        })
    })
}

/// `0..n`, or a random one of each of [`PLACES`] equal stretches: a fixed step would meet fields of eight bytes at the same byte each time.
fn spread(n: usize, seed: u64) -> impl Iterator<Item = usize> {
    let mut rng = stream(seed, [1, 0, 0, 0]);
    let stretches = n.min(PLACES);
    (0..stretches).map(move |k| {
        let (first, end) = (k * n / stretches, (k + 1) * n / stretches);
        rng.random_range(first..end)
    })
}

fn resealed(good: &[u8], damage: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = good.to_vec();
    damage(&mut bytes);
    storage::reseal(&mut bytes);
    bytes
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_owned()
}
