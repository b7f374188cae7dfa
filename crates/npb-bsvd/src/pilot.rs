//! How many components chains start from.

use npb_infer::watch::Part;
use npb_infer::{SweepPlan, stream};
use rand::RngExt;

use crate::config::Units;
use crate::fit::{BsvdFit, Record};
use crate::gibbs::BsvdSampler;
use crate::{BsvdConfig, BsvdError, BsvdMove, Entries, SideInformation};

/// Numbers of components that are tried in turn, about two of them in each doubling; the last at most.
const TRIED: [usize; 13] = [2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128];
/// So many in turn that are no better than the best end the search.
const PATIENCE: usize = 3;
const SWEEPS: SweepPlan = SweepPlan {
    burn_in: 20,
    keep: 20,
    thin: 1,
};
/// Share of the entries that are held out.
const HELD_OUT: f64 = 0.1;
/// Fewer held-out entries say nothing.
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

/// The fewest components by which held-out entries are as probable as by any number, within a standard error, in short chains without births and deaths.
///
/// A function of the entries and of the model: neither the seed nor [`BsvdConfig::candidates`] has a say. Birth and death find small components and lose
/// them again, but those that matter take each other's place over thousands of sweeps: chains that start apart would stay apart.
pub(crate) fn start_rank(
    entries: &impl Entries,
    (side, units): (&SideInformation, Units),
    config: &BsvdConfig,
    part: &mut Part<'_, '_>,
) -> Result<Start, BsvdError> {
    let mut config = BsvdConfig {
        units,
        sweeps: SWEEPS,
        stored_draws: 0,
        chains: 1,
        chain: PILOT,
        seed: 0,
        ..config.clone()
    };
    let of_rank = |step| matches!(step, BsvdMove::Births | BsvdMove::Switches);
    config.schedule.retain(|s| !of_rank(s.step));
    let mut rng = stream(0, [PILOT, 0, 0, 0]);
    let held_out = || rng.random::<f64>() < HELD_OUT;
    let (kept, cells) = entries.split(held_out, side.clone(), &config)?;
    let most = kept.n_rows().min(kept.n_cols()).min(config.max_candidates);
    let mut found: Vec<(usize, Vec<f64>)> = Vec::new();
    if cells.values.len() < LEAST_HELD_OUT {
        return Ok(Start::At(TRIED[0]));
    }
    for &tried in TRIED.iter().filter(|&&tried| tried <= most.max(TRIED[0])) {
        (config.candidates, config.max_candidates) = (tried, tried);
        let mut record = Record::new(&kept, &config, cells.clone())?;
        let mut sampler = BsvdSampler::new(&kept, config.clone())?;
        let mut stopped = false;
        let outcome = sampler.run(|report, sampler| {
            record.watch(report, sampler);
            let told = part.report(report.sweep, 0.0, report.trace.names(), report.scalars());
            stopped = told.is_break();
            told
        })?;
        if stopped {
            let fit = record.finish(sampler, outcome.stop);
            return Ok(Start::Stopped(Box::new(fit)));
        }
        let moments = record.moments();
        let densities = (0..cells.values.len()).map(|n| moments.ln_density(n));
        found.push((tried, densities.collect()));
        if found.len() - 1 - best(&found) >= PATIENCE {
            break;
        }
    }
    let best = &found[best(&found)].1;
    let first = found.iter().find(|(_, own)| is_as_good(own, best));
    Ok(Start::At(first.map_or(TRIED[0], |(tried, _)| *tried)))
}

/// Of those tried the one with the largest sum; of equal ones the first.
fn best(found: &[(usize, Vec<f64>)]) -> usize {
    let sum = |k: usize| found[k].1.iter().sum::<f64>();
    let places = (0..found.len()).rev();
    places
        .max_by(|&a, &b| sum(a).total_cmp(&sum(b)))
        .unwrap_or(0)
}

/// Whether the mean difference is within its standard error.
fn is_as_good(own: &[f64], best: &[f64]) -> bool {
    let n = own.len() as f64;
    let differences = || best.iter().zip(own).map(|(b, o)| b - o);
    let mean = differences().sum::<f64>() / n;
    let squares: f64 = differences().map(|d| (d - mean).powi(2)).sum();
    mean <= squares.sqrt() / n
}
