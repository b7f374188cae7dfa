//! What fits answer, against the formulas written out row by row from the posterior, or the draws, that they hold.

mod chains;
mod factor;
mod finite;
mod many;
mod plain;
mod settings;
mod single;
mod written_out;
