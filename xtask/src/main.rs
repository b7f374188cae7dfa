//! Experiments, reports, data sets and house rules of the npb workspace.

fn main() {}
