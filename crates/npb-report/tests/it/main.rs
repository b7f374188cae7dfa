//! Figures and pages from names and numbers of all kinds.

mod figures;
mod names;
mod pages;
