//! What the tables share.

use npb_kit::{ResultRow, short};

/// Mean, and standard deviation where there is one.
pub(super) fn with_sd(row: &ResultRow) -> String {
    match row.sd {
        Some(sd) => format!("{} ({})", short(row.mean), short(sd)),
        None => short(row.mean),
    }
}

/// Whether a goal is met.
pub(super) fn verdict(met: bool) -> String {
    if met { "met" } else { "missed" }.to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use npb_kit::{Outcome, Record, TrialKey};

    pub(crate) fn record(method: &str, trial: u64, outcome: Outcome) -> Record {
        Record {
            key: TrialKey {
                experiment: String::new(),
                dataset: "simulated".into(),
                setting: String::new(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome,
        }
    }
}
