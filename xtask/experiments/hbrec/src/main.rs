//! npb-hbrec.

mod cold_items;
mod data;
mod fig_3;
mod fig_4;
mod methods;
mod protocol;
mod runs;
mod samplers;
mod tasks;
mod validate;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("hbrec/fig-1", tasks::fig_1),
    ("hbrec/fig-3", fig_3::fig_3),
    ("hbrec/survey", fig_4::survey),
    ("hbrec/fig-4", fig_4::fig_4),
    ("hbrec/samplers", samplers::samplers),
    ("hbrec/cold-items", cold_items::cold_items),
    ("hbrec/tasks", tasks::tasks),
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
