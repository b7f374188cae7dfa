//! Figure 1: how the mass of a posterior moves when something is asked of its expectations. Needs no data.

use npb_regbayes::principle::{
    Constraint, FiniteSpace, Penalty, PrincipleLimits, Regularised, Softness,
};

use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Report, Result, Scale, Trial, lines, summarise,
};

const METHOD: &str = "npb:regbayes";
/// Posterior by Bayes' rule.
const BAYES: [f64; 3] = [0.6, 0.3, 0.1];
/// What the constraint is of: the margin that each model gives the data.
const MARGINS: [f64; 3] = [-1.0, 0.5, 2.0];
const BOUNDS: usize = 24;
const COSTS: usize = 33;
/// Margin that soft constraints ask for.
const ASKED: f64 = 1.0;

fn regularise(penalty: Penalty) -> Result<Regularised> {
    let space = FiniteSpace::new(BAYES.map(f64::ln).to_vec(), MARGINS.to_vec(), 1)?;
    let constraint = Constraint {
        features: vec![0],
        penalty,
    };
    Ok(space.regularise(&[constraint], &PrincipleLimits::default())?)
}

/// A bound on the margin, or the cost of missing one.
#[derive(Clone, Copy)]
enum Case {
    Hard(f64),
    Slack(f64),
    Squared(f64),
}

impl Case {
    fn penalty(self) -> Penalty {
        let (bound, softness) = match self {
            Self::Hard(bound) => (bound, Softness::Hard),
            Self::Slack(cost) => (ASKED, Softness::Slack(cost)),
            Self::Squared(cost) => (ASKED, Softness::SquaredSlack(cost)),
        };
        Penalty::AtLeast { bound, softness }
    }

    /// Name of the variant, and where it stands on its axis.
    fn place(self) -> (&'static str, f64) {
        match self {
            Self::Hard(bound) => ("hard", bound),
            Self::Slack(cost) => ("slack", cost.log10()),
            Self::Squared(cost) => ("squared-slack", cost.log10()),
        }
    }
}

fn cases(scale: Scale) -> Vec<Case> {
    // The largest margin is 2; that can be approached, not reached.
    let bounds = (0..BOUNDS).map(|k| Case::Hard(-0.5 + 2.4 * k as f64 / (BOUNDS - 1) as f64));
    let costs = || (0..COSTS).map(|k| 10f64.powf(-2.0 + 4.0 * k as f64 / (COSTS - 1) as f64));
    let all = bounds
        .chain(costs().map(Case::Slack))
        .chain(costs().map(Case::Squared));
    all.step_by(scale.smoke_or(8, 1)).collect()
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let trial = |case: Case| {
        let (variant, place) = case.place();
        let setting = format!("constraint={variant};at={place:.3}");
        let config = format!("{BAYES:?}{MARGINS:?}{ASKED}");
        Trial::new(["simulated", &setting, METHOD], 0, config, case)
    };
    let trials: Vec<Trial<Case>> = cases(context.scale).into_iter().map(trial).collect();
    let records = context.run_trials(&trials, |trial, _| {
        let found = regularise(trial.work.penalty())?;
        Ok(Outcome::metrics([
            ("mass_1", found.posterior[0]),
            ("mass_2", found.posterior[1]),
            ("mass_3", found.posterior[2]),
            ("margin", found.expectations[0]),
            ("gap", found.gap()),
        ]))
    })?;
    let panel = |variant: &str, x_label: &str| {
        let curve = |k: usize| {
            let points = trials.iter().zip(&records).filter_map(|(trial, record)| {
                let (of, x) = trial.work.place();
                let mass = record.outcome.metrics[&format!("mass_{k}")];
                (of == variant).then(|| Point::at(x, mass))
            });
            Layer::line(format!("model {k}, margin {}", MARGINS[k - 1]), points)
        };
        let title = format!("{variant} constraint");
        Panel::of_lines(title, [x_label, "posterior mass"], (1..=3).map(curve))
    };
    let figure = lines(
        "mass",
        "Mass of three models under a constraint on the expected margin",
        "Bayes' posterior is (0.6, 0.3, 0.1) with margin -0.25. Left: the margin must be at least so much. Right: missing a margin of 1 costs C a unit, or C \
         a squared unit.",
        &[
            panel("hard", "least margin"),
            panel("slack", "log10 C"),
            panel("squared-slack", "log10 C"),
        ],
    )?;
    Ok(Report {
        results: summarise(&records, |_, _, _, _| None),
        figures: vec![figure],
        notes: vec!["Hard constraints below -0.25 leave Bayes' posterior as it is; slack reaches the asked margin at a finite C and stays, squared slack only in the limit.".to_owned()],
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mass_moves_as_the_dual_says() {
        // Exponential tilting, written down again: the tilt that gives the asked margin.
        let tilted = |phi: f64| {
            let weights: Vec<f64> = BAYES
                .iter()
                .zip(MARGINS)
                .map(|(p, m)| p * (phi * m).exp())
                .collect();
            let total: f64 = weights.iter().sum();
            weights
                .iter()
                .zip(MARGINS)
                .map(|(w, m)| w * m / total)
                .sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if tilted(middle) < ASKED {
                low = middle
            } else {
                high = middle
            }
        }
        let hard = regularise(Case::Hard(ASKED).penalty()).unwrap();
        assert!(
            (hard.duals[0][0] - low).abs() < 1e-5 && (hard.expectations[0] - ASKED).abs() < 1e-6
        );
        // Slack: the tilt is C until the margin is reached.
        let soft = regularise(Case::Slack(0.5 * low).penalty()).unwrap();
        assert!((soft.expectations[0] - tilted(0.5 * low)).abs() < 1e-6);
        let stiff = regularise(Case::Slack(2.0 * low).penalty()).unwrap();
        assert!((stiff.expectations[0] - ASKED).abs() < 1e-6);
    }
}
