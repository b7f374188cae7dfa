//! Where a chain starts. Equations: `docs/bpfa.md#start`.

use npb_infer::stream;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::config::{ScorePrior, SlabPrior};
use crate::dependent::{Dependence, Neighbourhood};
use crate::error::check_size;
use crate::lasso::LassoScales;
use crate::precision::{LEAST_PRECISION, MOST_PRECISION};
use crate::scores::Scores;
use crate::spikes::Spikes;
use crate::state::{BpfaState, Dictionary, Shared};
use crate::{BpfaConfig, BpfaError, BpfaRows};

/// Share of the observed variance that is noise at the start.
const NOISE_SHARE: f64 = 0.1;

/// Active atoms of a row that the start expects.
const ACTIVE: f64 = 5.0;

/// No atom is active; precisions suit the spread of the data. `atoms`: the dictionary; without it K random rows of unit length, with their holes filled by
/// draws of the prior.
pub(crate) fn start(
    rows: &BpfaRows,
    config: &BpfaConfig,
    chain: u64,
    atoms: Option<Dictionary>,
    neighbourhood: &Neighbourhood,
) -> Result<BpfaState, BpfaError> {
    let k = config.atoms;
    let dictionary = match atoms {
        Some(atoms) => {
            check_size("columns of the atoms", atoms.n_columns(), rows.n_columns())?;
            check_size("atoms", atoms.n_atoms(), k)?;
            atoms
        }
        None => random_rows(rows, k, &mut stream(config.seed, [chain, 0, 0, 0]))?,
    };
    let (slab, noise) = precisions(rows, k);
    let rate = match config.slab {
        SlabPrior::Shared { .. } => 1.0,
        SlabPrior::PerAtom { shape, .. } => shape / slab,
    };
    let n_slabs = match config.slab {
        SlabPrior::Shared { .. } => 1,
        SlabPrior::PerAtom { .. } => k,
    };
    let n_noise = if config.channel_noise && !config.is_lasso() {
        rows.n_channels()
    } else {
        1
    };
    let pi = ACTIVE.min(0.5 * k as f64) / k as f64;
    let n = rows.n_rows();
    let dependent = config.has_switches() && config.usage.dependent().is_some();
    let groups = match (config.has_switches(), dependent) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => neighbourhood.n_anchors,
    };
    let lasso = match config.scores {
        ScorePrior::Lasso { per_entry, .. } => LassoScales::start(n, k, per_entry),
        _ => LassoScales::default(),
    };
    let dependence = match dependent {
        true => neighbourhood.start(n, k, pi),
        false => Dependence::default(),
    };
    let spikes = match config.spikes {
        Some(prior) => Spikes::start(prior, rows.n_channels()),
        None => Spikes::default(),
    };
    Ok(BpfaState {
        shared: Shared {
            dictionary,
            ln_odds: vec![(pi / (1.0 - pi)).ln(); groups * k],
            slab_precisions: vec![slab; n_slabs],
            slab_rate: rate,
            noise_precisions: vec![noise; n_noise],
        },
        scores: Scores::zeros(n, k, !config.has_switches()),
        lasso,
        dependence,
        spikes,
    })
}

/// Slab and noise precisions that suit the spread of the data.
pub(crate) fn precisions(rows: &BpfaRows, k: usize) -> (f64, f64) {
    let square: f64 = rows
        .all_values()
        .iter()
        .map(|&y| f64::from(y).powi(2))
        .sum();
    let mean_square = (square / rows.n_entries() as f64).max(1e-12);
    let energy = mean_square * rows.n_columns() as f64;
    let bounded = |x: f64| x.clamp(LEAST_PRECISION, MOST_PRECISION);
    let active = ACTIVE.min(0.5 * k as f64);
    (
        bounded(active / energy),
        bounded(1.0 / (NOISE_SHARE * mean_square)),
    )
}

pub(crate) fn random_rows<R: Rng + ?Sized>(
    rows: &BpfaRows,
    k: usize,
    rng: &mut R,
) -> Result<Dictionary, BpfaError> {
    let p = rows.n_columns();
    let mut atoms = Vec::with_capacity(k * p);
    for _ in 0..k {
        let i = rng.random_range(0..rows.n_rows());
        let values = rows.values(i);
        let own: f64 = values.iter().map(|&y| f64::from(y).powi(2)).sum();
        let root = (own / values.len().max(1) as f64).sqrt();
        let start = atoms.len();
        let noise = |rng: &mut R| rng.sample::<f32, _>(StandardNormal);
        if root > 0.0 {
            atoms.extend((0..p).map(|_| noise(rng) * root as f32));
            for (e, &y) in values.iter().enumerate() {
                atoms[start + crate::scan::place(rows.columns(i), e)] = y;
            }
        } else {
            atoms.extend((0..p).map(|_| noise(rng)));
        }
        let length: f64 = atoms[start..].iter().map(|&x| f64::from(x).powi(2)).sum();
        let scale = (1.0 / length.sqrt().max(1e-30)) as f32;
        atoms[start..].iter_mut().for_each(|x| *x *= scale);
    }
    Dictionary::from_atoms(p, &atoms)
}
