//! Where a run starts: hard responsibilities from k-means on completed rows.

use std::borrow::Cow;
use std::sync::PoisonError;

use npb_data::clusters::{by_size, k_means, nearest};
use npb_infer::watch::Checkpoint;
use npb_infer::{VbLimits, Watch, maximise, stream};
use npb_linalg::mixture::complete;

use crate::config::{Init, IqgmeConfig};
use crate::data::{IqgmeData, Sharded};
use crate::shards::sample::OfSample;
use crate::shards::{decode, encode};
use crate::vb::IqgmeVb;
use crate::{IqgmeError, IqgmeState, Result};

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
    ) -> Result<Self> {
        config.validate()?;
        if let Some(sharded) = &data.sharded {
            let state = match made_elsewhere(sharded, &config, (start, restart))? {
                Some(state) => state,
                None => of_sample(&sharded.sample, &config, (start, restart))?,
            };
            return Self::over_shards(data, config, state);
        }
        let first = responsibilities(data, &config, start, restart)?;
        Self::from_responsibilities(data, config, first)
    }
}

/// A run of the sample: with labels to its end, by which members are weighed; without them its start, as densities gain from clusters that all rows find.
pub(crate) fn of_sample(
    sample: &IqgmeData,
    config: &IqgmeConfig,
    (start, restart): (Init, u64),
) -> Result<IqgmeState> {
    let begun = IqgmeVb::new(sample, config.clone(), start, restart)?;
    if sample.n_labelled == 0 {
        return Ok(begun.into_state());
    }
    let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let mut part = watch.part("sample", 1.0);
    let begin = |_| Ok(begun);
    let (run, _) = maximise(&config.limits, "elbo", &mut part, (&memory, 0), begin)?;
    Ok(run.into_state())
}

/// The start of a run over shards, where somebody else is there to make it: all that the configuration names are asked for at once.
fn made_elsewhere(
    sharded: &Sharded,
    config: &IqgmeConfig,
    own: (Init, u64),
) -> Result<Option<IqgmeState>> {
    let starts = config.starts_for(sharded.sample.n_labelled).iter();
    let each = starts.flat_map(|&start| (0..config.restarts as u64).map(move |k| (start, k)));
    let planned: Vec<(Init, u64)> = each.collect();
    let Some(place) = planned.iter().position(|one| *one == own) else {
        return Ok(None);
    };
    let mut found = sharded
        .starts
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if found.is_none() {
        let told = planned.iter().map(encode).collect::<Result<Vec<_>>>()?;
        let of_sample = OfSample::Start(Cow::Borrowed(&*sharded.sample), Cow::Borrowed(config));
        *found = sharded.shards.ask_anyone(&encode(&of_sample)?, &told)?;
    }
    let made = found.as_ref().and_then(|made| made.get(place));
    made.map(|made| decode(made)).transpose()
}

/// Number of components and responsibilities (by sorted position): each row wholly in the component of its cluster, larger clusters first.
pub(crate) fn responsibilities(
    data: &IqgmeData,
    config: &IqgmeConfig,
    start: Init,
    restart: u64,
) -> Result<(usize, Vec<f64>)> {
    let points = completed(data)?;
    let mut rng = stream(config.seed, [restart, 0, START, 0]);
    let n = data.rows.len();
    let n_classes = match start {
        Init::KMeans(_) => 0,
        Init::PerClass(_) => data.rows.n_utilities + 1,
        Init::Mixture(clusters) => return mixture(data, config, clusters, restart),
    };
    let sizes = [start.clusters(), config.truncation];
    let (classes, rng) = (&data.rows.classes, &mut rng);
    let clusters = within_classes(&points, (classes, n_classes), sizes, |members, each| {
        k_means(&points, members, each, rng)
    });
    let ranks = by_size(&clusters).into_iter();
    let ranks: Vec<usize> = ranks.map(|rank| rank % config.truncation).collect();
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
) -> Result<(usize, Vec<f64>)> {
    let features = IqgmeData {
        rows: data.rows.without_labels(),
        n_labelled: 0,
        ..data.clone()
    };
    let limits = VbLimits {
        max_iterations: MIXTURE_ITERATIONS,
        tolerance: 1e-5,
    };
    let begin = |_| IqgmeVb::new(&features, config.clone(), Init::KMeans(clusters), restart);
    let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let (vb, _) = maximise(
        &limits,
        "elbo",
        &mut watch.part("start", 1.0),
        (&memory, 0),
        begin,
    )?;
    Ok(vb.into_responsibilities())
}

/// Clusters of points within each class, the classes from the last one to the first; points of none join the nearest cluster, or have clusters of their own where there is no
/// class. So many clusters in each, or fewer where they would be more than `most` altogether. `k_means` gets the places of points, and the number of clusters.
pub(crate) fn within_classes(
    points: &[Vec<f64>],
    (classes, n_classes): (&[Option<usize>], usize),
    [clusters, most]: [usize; 2],
    mut k_means: impl FnMut(&[usize], usize) -> Vec<Vec<f64>>,
) -> Vec<usize> {
    let each = clusters.min(most.div_ceil(n_classes.max(1)));
    let mut assigned = vec![usize::MAX; points.len()];
    let mut centres: Vec<Vec<f64>> = Vec::new();
    for class in (0..n_classes).rev() {
        let own = |i: &usize| classes[*i] == Some(class);
        let members: Vec<usize> = (0..points.len()).filter(own).collect();
        let found = k_means(&members, each);
        for &i in &members {
            assigned[i] = centres.len() + nearest(&points[i], &found).0;
        }
        centres.extend(found);
    }
    if centres.is_empty() {
        centres = k_means(&(0..points.len()).collect::<Vec<_>>(), each);
    }
    for (assigned, point) in assigned.iter_mut().zip(points) {
        if *assigned == usize::MAX {
            *assigned = nearest(point, &centres).0;
        }
    }
    assigned
}

/// Rows with their missing features at the conditional mean under one Gaussian for all rows.
pub(crate) fn completed(data: &IqgmeData) -> Result<Vec<Vec<f64>>> {
    complete(&data.rows, &data.covariance).map_err(IqgmeError::at(0, "shared covariance"))
}
