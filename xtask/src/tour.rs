//! What `cargo xtask reproduce` runs when nothing is asked for: generated data, minutes, each model on what it is for.

use npb_catalogue::Scale;

/// One experiment of the tour.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) id: &'static str,
    pub(crate) scale: Scale,
    /// What one sees there.
    pub(crate) shows: &'static str,
    /// Processor seconds that it took when the tour was made, for the line with the remaining time.
    pub(crate) seconds: f64,
}

const fn stage(id: &'static str, scale: Scale, seconds: f64, shows: &'static str) -> Stage {
    Stage {
        id,
        scale,
        shows,
        seconds,
    }
}

/// In the order in which they are run.
pub(crate) const TOUR: &[Stage] = &[
    stage(
        "iqgme/fig-3.2",
        Scale::Quick,
        1.4,
        "npb-iqgme: classify rows; clusters, and a classifier in each, are found",
    ),
    stage(
        "bsvd/fig-5.4",
        Scale::Smoke,
        1.2,
        "npb-bsvd: complete a matrix, and ask for the entries that tell most",
    ),
    stage(
        "itf/groups",
        Scale::Smoke,
        0.8,
        "npb-itf: which columns of a table depend on each other, and what its holes hold",
    ),
    stage(
        "regbayes/recovery",
        Scale::Smoke,
        0.3,
        "npb-regbayes: labels through latent features whose number is found",
    ),
    stage(
        "hbrec/fig-1",
        Scale::Quick,
        1.4,
        "npb-hbrec: learn a new task from few examples, with what other tasks taught",
    ),
    stage(
        "hbrec/survey",
        Scale::Smoke,
        3.0,
        "npb-hbrec: recommend to users with a handful of ratings",
    ),
    stage(
        "bpfa/fa-gibbs-generated",
        Scale::Quick,
        10.0,
        "npb-bpfa: factors found in a matrix with holes, noise and number not told",
    ),
];

/// Seconds that remain when the stages before `next` took `spent` seconds.
pub(crate) fn remaining(next: usize, spent: f64) -> f64 {
    let sum = |stages: &[Stage]| stages.iter().map(|stage| stage.seconds).sum::<f64>();
    let (done, left) = TOUR.split_at(next.min(TOUR.len()));
    let pace = if done.is_empty() {
        1.0
    } else {
        spent / sum(done)
    };
    pace * sum(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages;

    #[test]
    fn every_model_is_shown_without_data() {
        let packages = packages::all().unwrap();
        let experiments = packages::experiments(&packages);
        for stage in TOUR {
            let found = experiments.iter().find(|e| e.id == stage.id);
            let found = found.unwrap_or_else(|| panic!("{}", stage.id));
            assert!(found.data.is_empty(), "{} needs data", stage.id);
            assert!(stage.shows.starts_with("npb-"), "{}", stage.shows);
        }
        for model in ["iqgme", "bsvd", "itf", "regbayes", "hbrec", "bpfa"] {
            let shown = |stage: &Stage| stage.id.split('/').next() == Some(model);
            assert!(TOUR.iter().any(shown), "{model} is not shown");
        }
    }

    #[test]
    fn what_remains_goes_by_the_pace_so_far() {
        let all = remaining(0, 0.0);
        assert!(all > 0.0 && all <= 480.0, "{all} processor seconds");
        let rest = remaining(1, 3.0 * TOUR[0].seconds);
        assert!((rest - 3.0 * (all - TOUR[0].seconds)).abs() < 1e-9);
        assert_eq!(remaining(TOUR.len(), 60.0), 0.0);
    }
}
