//! Where a run starts: hard responsibilities from k-means on completed rows.

use std::ops::ControlFlow;

use npb_data::clusters::{by_size, k_means, nearest};
use npb_infer::{VbLimits, stream};
use npb_linalg::mixture::complete;
use rand::Rng;

use crate::IqgmeError;
use crate::config::{Init, IqgmeConfig};
use crate::data::IqgmeData;
use crate::vb::IqgmeVb;

/// A start need not converge.
const MIXTURE_ITERATIONS: u64 = 100;

/// Key of the random stream of starts.
const START: u64 = 1;

impl<'d> IqgmeVb<'d> {
    /// Starts a run from responsibilities given by `start`; `restart` selects the random numbers.
    pub fn new(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        start: Init,
        restart: u64,
    ) -> Result<Self, IqgmeError> {
        config.validate()?;
        let first = responsibilities(data, &config, start, restart)?;
        Self::from_responsibilities(data, config, first)
    }
}

/// Number of components and responsibilities (by sorted position): each row wholly in the component of its cluster, larger clusters first.
pub(crate) fn responsibilities(
    data: &IqgmeData,
    config: &IqgmeConfig,
    start: Init,
    restart: u64,
) -> Result<(usize, Vec<f64>), IqgmeError> {
    let points = completed(data)?;
    let mut rng = stream(config.seed, [restart, 0, START, 0]);
    let n = data.rows.len();
    let clusters = match start {
        Init::KMeans(clusters) => {
            let members: Vec<usize> = (0..n).collect();
            let centres = k_means(&points, &members, clusters.min(config.truncation), &mut rng);
            members
                .iter()
                .map(|&i| nearest(&points[i], &centres).0)
                .collect()
        }
        Init::Mixture(clusters) => return mixture(data, config, clusters, restart),
        Init::PerClass(clusters) => per_class(
            data,
            &points,
            clusters.min(config.truncation.div_ceil(data.rows.n_utilities + 1)),
            &mut rng,
        ),
    };
    let ranks: Vec<usize> = by_size(&clusters)
        .into_iter()
        .map(|rank| rank % config.truncation)
        .collect();
    let n_components = ranks.iter().max().map_or(1, |m| m + 1);
    let mut responsibilities = vec![0.0; n * n_components];
    for (i, rank) in ranks.into_iter().enumerate() {
        responsibilities[i * n_components + rank] = 1.0;
    }
    Ok((n_components, responsibilities))
}

/// Responsibilities of a mixture of the features alone.
fn mixture(
    data: &IqgmeData,
    config: &IqgmeConfig,
    clusters: usize,
    restart: u64,
) -> Result<(usize, Vec<f64>), IqgmeError> {
    let features = IqgmeData {
        rows: data.rows.without_labels(),
        n_labelled: 0,
        ..data.clone()
    };
    let config = IqgmeConfig {
        limits: VbLimits {
            max_iterations: MIXTURE_ITERATIONS,
            tolerance: 1e-5,
        },
        ..config.clone()
    };
    let mut vb = IqgmeVb::new(&features, config, Init::KMeans(clusters), restart)?;
    vb.run(|_, _| ControlFlow::Continue(()))?;
    Ok(vb.into_responsibilities())
}

fn per_class(
    data: &IqgmeData,
    points: &[Vec<f64>],
    clusters: usize,
    rng: &mut impl Rng,
) -> Vec<usize> {
    let n = data.rows.len();
    let mut assigned = vec![usize::MAX; n];
    let mut centres: Vec<Vec<f64>> = Vec::new();
    for class in (0..=data.rows.n_utilities).rev() {
        let members: Vec<usize> = (0..n)
            .filter(|&i| data.rows.classes[i] == Some(class))
            .collect();
        let found = k_means(points, &members, clusters, rng);
        for &i in &members {
            assigned[i] = centres.len() + nearest(&points[i], &found).0;
        }
        centres.extend(found);
    }
    if centres.is_empty() {
        let members: Vec<usize> = (0..n).collect();
        centres = k_means(points, &members, clusters, rng);
    }
    for i in 0..n {
        if assigned[i] == usize::MAX {
            assigned[i] = nearest(&points[i], &centres).0;
        }
    }
    assigned
}

/// Rows with their missing features at the conditional mean under one Gaussian for all rows.
pub(crate) fn completed(data: &IqgmeData) -> Result<Vec<Vec<f64>>, IqgmeError> {
    let failed = |source| IqgmeError::numerical(0, "shared covariance", 0, source);
    complete(&data.rows, &data.covariance).map_err(failed)
}
