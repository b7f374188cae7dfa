use std::{
    fmt::{Debug, Display},
    panic::{AssertUnwindSafe, catch_unwind},
};

use rand::RngExt;
use thiserror::Error;

use crate::{storage, stream};

/// At most this many places of a file are tried where trying all would take too long.
const PLACES: usize = 10_000;

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

/// Attacks a saved model: every truncation; truncated payloads, forged lengths and `flips` random single bit flips, these with the
/// checksum recomputed, so that decoding and validation are reached.
///
/// `good` is the file's content (from [`storage::to_bytes`]), `load` the model's own loading with all its validation, and `exercise` uses
/// a loaded value as its owner would (predict, print, save): a value that was accepted must not panic there.
/// That memory stays bounded is the business of [`storage`] (see there); a type that reserves memory by what a field says must
/// check the field first, and this harness shows when it does not: the reservation of a forged size aborts the test.
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
    let attack = Attack { load, exercise };
    load_good(&attack, good)?;
    let mut summary = HostileSummary::default();
    for len in 0..good.len() {
        let damage = || format!("cut to {len} of {} bytes", good.len());
        if attack.accepts(&good[..len], damage)? {
            return Err(HostileFailure::TruncationAccepted(damage()));
        }
        summary.truncations += 1;
    }
    let (header, payload) = storage::header_and_payload(good)
        .map_err(|e| HostileFailure::GoodFileRefused(e.to_string()))?;
    for len in spread(payload.len()) {
        let mut file = header.to_vec();
        storage::seal(&mut file, &payload[..len]);
        summary.accepted +=
            usize::from(attack.accepts(&file, || format!("payload cut to {len} bytes"))?);
        summary.short_payloads += 1;
    }
    let mut rng = stream(seed, [0; 4]);
    for _ in 0..flips {
        let bit = rng.random_range(0..8 * good.len());
        let file = resealed(good, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        summary.accepted += usize::from(attack.accepts(&file, || format!("bit {bit} flipped"))?);
        summary.flips += 1;
    }
    for place in spread((payload.len() + 1).saturating_sub(8)) {
        for length in [u64::MAX, 1 << 62, 1 << 40, 2 * good.len() as u64] {
            let at = header.len() + storage::LENGTH_LEN + place;
            let file = resealed(good, |bytes| {
                bytes[at..at + 8].copy_from_slice(&length.to_le_bytes())
            });
            summary.accepted +=
                usize::from(attack.accepts(&file, || format!("{length} written at byte {at}"))?);
            summary.forged += 1;
        }
    }
    Ok(summary)
}

struct Attack<L, X> {
    load: L,
    exercise: X,
}

impl<L, X> Attack<L, X> {
    /// Whether a damaged file loads; then it has been exercised.
    fn accepts<T, E>(
        &self,
        file: &[u8],
        damage: impl Fn() -> String,
    ) -> Result<bool, HostileFailure>
    where
        L: Fn(&[u8]) -> Result<T, E>,
        X: Fn(&T),
    {
        let load_and_use = || {
            (self.load)(file)
                .map(|value| (self.exercise)(&value))
                .is_ok()
        };
        catch_unwind(AssertUnwindSafe(load_and_use)).map_err(|panic| HostileFailure::Panicked {
            damage: damage(),
            message: panic_message(panic.as_ref()),
        })
    }
}

fn load_good<T, E: Display, X: Fn(&T), L: Fn(&[u8]) -> Result<T, E>>(
    attack: &Attack<L, X>,
    good: &[u8],
) -> Result<(), HostileFailure> {
    let value = (attack.load)(good).map_err(|e| HostileFailure::GoodFileRefused(e.to_string()))?;
    (attack.exercise)(&value);
    Ok(())
}

/// `0..n`, thinned evenly when there are too many.
fn spread(n: usize) -> impl Iterator<Item = usize> {
    (0..n).step_by(n.div_ceil(PLACES).max(1))
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
