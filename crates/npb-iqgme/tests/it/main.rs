//! Tests of npb-iqgme from outside.

mod answers;
mod bad_input;
mod bits;
mod columns;
mod data;
mod em;
mod extremes;
mod factor;
mod gaussians;
mod gibbs;
mod multiclass;
mod prediction;
mod recovery;
mod saved;
mod scales;
mod tasks;
mod watched;
