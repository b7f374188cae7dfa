//! What distributions look like in files, before the constructors have checked them.
//!
//! Only constructor arguments are stored; what follows from them (a total, a Cholesky factor) is computed again, to the same bits.

use super::{Beta, Dirichlet, Gamma, Normal, NormalGamma, NormalWishart, Wishart};
use crate::error::ParameterError;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredGamma {
    shape: f64,
    rate: f64,
}

impl TryFrom<StoredGamma> for Gamma {
    type Error = ParameterError;

    fn try_from(stored: StoredGamma) -> Result<Self, ParameterError> {
        Self::new(stored.shape, stored.rate)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredBeta {
    a: f64,
    b: f64,
}

impl TryFrom<StoredBeta> for Beta {
    type Error = ParameterError;

    fn try_from(stored: StoredBeta) -> Result<Self, ParameterError> {
        Self::new(stored.a, stored.b)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredNormal {
    mean: f64,
    variance: f64,
}

impl TryFrom<StoredNormal> for Normal {
    type Error = ParameterError;

    fn try_from(stored: StoredNormal) -> Result<Self, ParameterError> {
        Self::new(stored.mean, stored.variance)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredNormalGamma {
    mean: f64,
    strength: f64,
    precision: Gamma,
}

impl TryFrom<StoredNormalGamma> for NormalGamma {
    type Error = ParameterError;

    fn try_from(stored: StoredNormalGamma) -> Result<Self, ParameterError> {
        let (shape, rate) = (stored.precision.shape(), stored.precision.rate());
        Self::new(stored.mean, stored.strength, shape, rate)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredDirichlet {
    concentrations: Vec<f64>,
}

impl From<Dirichlet> for StoredDirichlet {
    fn from(dirichlet: Dirichlet) -> Self {
        Self {
            concentrations: dirichlet.concentrations().to_vec(),
        }
    }
}

impl TryFrom<StoredDirichlet> for Dirichlet {
    type Error = ParameterError;

    fn try_from(stored: StoredDirichlet) -> Result<Self, ParameterError> {
        Self::new(stored.concentrations)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredWishart {
    #[serde(with = "npb_linalg::saved")]
    scale: Mat<f64>,
    df: f64,
}

impl From<Wishart> for StoredWishart {
    fn from(wishart: Wishart) -> Self {
        Self {
            scale: wishart.scale().to_owned(),
            df: wishart.df(),
        }
    }
}

impl TryFrom<StoredWishart> for Wishart {
    type Error = ParameterError;

    fn try_from(stored: StoredWishart) -> Result<Self, ParameterError> {
        Self::new(stored.scale.as_ref(), stored.df)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredNormalWishart {
    mean: Vec<f64>,
    strength: f64,
    precision: Wishart,
}

impl TryFrom<StoredNormalWishart> for NormalWishart {
    type Error = ParameterError;

    fn try_from(stored: StoredNormalWishart) -> Result<Self, ParameterError> {
        Self::new(stored.mean, stored.strength, stored.precision)
    }
}
