//! One number, and one category.

use super::support::*;
use npb_itf::RowLabels;
use npb_itf::kernels::{Categorical, CategoricalData, Normal, NormalData};

fn normal() -> (Normal, NormalData) {
    let cells = [
        Some(9.0),
        Some(14.0),
        None,
        Some(10.5),
        Some(7.0),
        Some(11.0),
        Some(12.0),
    ];
    let data = NormalData::new(&cells).expect("valid");
    (Normal::new(10.0, 3.0).expect("valid"), data)
}

fn categorical() -> (Categorical, CategoricalData) {
    let codes = [0, 2, 1, 0, 0, 2, 1, 3, 0].map(|code| Some(code).filter(|&code| code < 3));
    let data = CategoricalData::new(3, &codes).expect("valid");
    (Categorical::new(3).expect("valid"), data)
}

#[test]
fn one_number_identities() {
    let (kernel, data) = normal();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3, 5], 4);
    expected_is_the_mean_of_draws(&kernel, &data, 1, true, RowLabels::NONE);
    stays_finite(&kernel, &data);
}

#[test]
fn one_category_identities() {
    let (kernel, data) = categorical();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 6);
    expected_is_the_mean_of_draws(&kernel, &data, 7, false, RowLabels::NONE);
    stays_finite(&kernel, &data);
}

#[test]
fn the_joint_law_of_single_cells() {
    let (kernel, data) = normal();
    let probe = NormalData::new(&[Some(8.0)]).expect("valid");
    joint_distribution(kernel, data, probe);
    let (kernel, data) = categorical();
    let probe = CategoricalData::new(3, &[Some(1)]).expect("valid");
    joint_distribution(kernel, data, probe);
}
