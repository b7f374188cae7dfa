//! How many components chains start from (`docs/bsvd.md#start`).

use npb_infer::watch::Checkpoint;
use npb_infer::{Stop, SweepPlan, Watch, stream};
use rand::RngExt;

use crate::chains::run;
use crate::config::{BsvdMove, BsvdUnits};
use crate::fitted::BsvdFit;
use crate::gibbs::BsvdSampler;
use crate::{BsvdConfig, BsvdError, Entries, SideInformation};

/// Numbers of components that are tried in turn.
const TRIED: [usize; 10] = [2, 4, 8, 16, 23, 32, 45, 64, 91, 128];
/// So many in turn that are no better than the best end the search.
const PATIENCE: usize = 2;
const SWEEPS: SweepPlan = SweepPlan {
    burn_in: 30,
    keep: 30,
    thin: 1,
};
/// Share of the entries that are held out.
const HELD_OUT: f64 = 0.1;
/// Fewer held-out entries say nothing; where entries are so few chains mix, and the start is as given.
const LEAST_HELD_OUT: usize = 20;
/// Key of the random numbers: those of no seed and no chain.
const PILOT: u64 = u64::MAX - 1;

/// What the search came to.
pub(crate) enum Start {
    /// Chains start from so many components.
    At(usize),
    /// The watcher stopped the search here.
    Stopped(Box<BsvdFit>),
}

/// The geometric mean of the fewest and of the most components whose squared errors of held-out entries are within a standard error of the best, in short chains
/// of so many components.
///
/// A function of the entries and of the model: neither the seed nor [`BsvdConfig::candidates`] has a say. Switches find small components and
/// lose them again, but on ratings those that matter take each other's place over thousands of sweeps: chains that start apart would stay apart.
pub(crate) fn start_rank(
    entries: &impl Entries,
    (side, units): (&SideInformation, BsvdUnits),
    config: &BsvdConfig,
    watch: &Watch<'_>,
) -> Result<Start, BsvdError> {
    let given = config.candidates;
    let mut config = BsvdConfig {
        units,
        sweeps: SWEEPS,
        stored_draws: 0,
        chains: 1,
        chain: PILOT,
        seed: 0,
        ..config.clone()
    };
    config.moves.retain(|s| s.step != BsvdMove::Switches);
    let mut rng = stream(0, [PILOT, 0, 0, 0]);
    let held_out = || rng.random::<f64>() < HELD_OUT;
    let (kept, cells) = entries.split(held_out, side.clone(), &config)?;
    let most = kept.n_rows().min(kept.n_cols()).min(config.max_candidates);
    let mut found: Vec<(usize, Vec<f64>)> = Vec::new();
    if cells.values.len() < LEAST_HELD_OUT {
        return Ok(Start::At(given));
    }
    for &tried in TRIED.iter().filter(|&&tried| tried <= most.max(TRIED[0])) {
        (config.candidates, config.max_candidates) = (tried, tried);
        let memory = Checkpoint::in_memory([None]);
        let how = (watch, "start", 0.0);
        let chains = run(&kept, &cells, &config, how, &memory, |_, config| {
            BsvdSampler::new(&kept, config)
        })?;
        if Stop::of_all(chains.iter().map(|chain| chain.stop)) == Stop::Cancelled {
            let fit = BsvdFit::of_chains(&kept, cells, config, chains);
            return Ok(Start::Stopped(Box::new(fit)));
        }
        let means = chains.iter().flat_map(|chain| &chain.state.1.mean);
        let predicted = means.zip(&cells.values);
        found.push((tried, predicted.map(|(m, y)| (y - m).powi(2)).collect()));
        if found.len() - 1 - best(&found) >= PATIENCE {
            break;
        }
    }
    Ok(Start::At(middle(&found)))
}

/// Of those tried the one with the least sum; of equal ones the first.
fn best(found: &[(usize, Vec<f64>)]) -> usize {
    let sum = |k: usize| found[k].1.iter().sum::<f64>();
    let places = 0..found.len();
    places
        .min_by(|&a, &b| sum(a).total_cmp(&sum(b)))
        .unwrap_or(0)
}

/// The middle of those that cannot be told from the best.
fn middle(found: &[(usize, Vec<f64>)]) -> usize {
    let Some((_, least)) = found.get(best(found)) else {
        return TRIED[0];
    };
    let good = || found.iter().filter(move |(_, own)| is_as_good(own, least));
    let ends = [good().next(), good().next_back()];
    let product: usize = ends.iter().flatten().map(|(tried, _)| tried).product();
    (product as f64).sqrt().round() as usize
}

/// Whether the mean difference is within its standard error.
fn is_as_good(own: &[f64], least: &[f64]) -> bool {
    let n = own.len() as f64;
    let differences = || own.iter().zip(least).map(|(o, l)| o - l);
    let mean = differences().sum::<f64>() / n;
    let squares: f64 = differences().map(|d| (d - mean).powi(2)).sum();
    mean <= squares.sqrt() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_cannot_be_told_from_the_best() {
        // Mean differences to the best, 8: 1 and 0.3 with standard error 0.5, 0.25 with half of what is asked for, 1 with 0.25.
        let best = vec![2.0; 4];
        let apart = |d: f64, spread: f64| {
            vec![
                2.0 + d - spread,
                2.0 + d + spread,
                2.0 + d - spread,
                2.0 + d + spread,
            ]
        };
        let found = |last: f64| {
            vec![
                (2, apart(1.0, 1.0)),
                (4, apart(0.3, 1.0)),
                (8, best.clone()),
                (16, apart(0.25, last)),
                (32, apart(1.0, 0.5)),
            ]
        };
        // sqrt(4 * 16), sqrt(4 * 8).
        assert_eq!(middle(&found(0.51)), 8);
        assert_eq!(middle(&found(0.49)), 6);
        assert_eq!(middle(&[(4, best.clone()), (8, best.clone())]), 6);
        assert_eq!(middle(&[]), 2);
    }
}
