//! Special functions, distributions with conjugate updates, and random measures for nonparametric Bayes.

pub mod dp;
pub mod measure;
