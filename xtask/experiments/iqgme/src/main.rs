//! npb-iqgme: figures of chapters 3 and 4 beside comparators, and the model on trial beyond them.

mod comparators;
mod data;
mod factor;
mod finite;
mod gibbs;
mod given;
mod mcar;
mod quality;
mod tasks;
mod validate;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper, then the model on trial beyond it.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("iqgme/fig-3.5", mcar::FIG_3_5),
    ("iqgme/fig-3.6", mcar::FIG_3_6),
    ("iqgme/fig-3.7", finite::reproduce),
    ("iqgme/fig-3.8", quality::FIG_3_8),
    ("iqgme/fig-3.9", quality::FIG_3_9),
    ("iqgme/fig-3.10", gibbs::reproduce),
    ("iqgme/fig-3.12", quality::FIG_3_12),
    ("iqgme/fig-3.13", factor::reproduce),
    ("iqgme/fig-4.3", tasks::FIG_4_3),
    ("iqgme/fig-4.4", tasks::FIG_4_4),
    ("iqgme/fig-4.5", tasks::FIG_4_5),
    ("iqgme/fig-4.6", tasks::FIG_4_6),
    ("iqgme/fig-4.8", tasks::letters),
    ("iqgme/calibration", quality::CALIBRATION),
];

const MODEL: Model = Model {
    listed: include_str!("../listed.toml"),
    experiments: EXPERIMENTS,
    checks: validate::CHECKS,
};

fn main() -> ExitCode {
    npb_kit::main(&MODEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_code() {
        npb_kit::testing::assert_listed(&MODEL);
    }
}
