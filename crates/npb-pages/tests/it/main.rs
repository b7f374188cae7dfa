//! Pages of each kind of model.

mod shared;
