//! The principle by itself: against direct convex solutions on small spaces, the machine, duality, what cannot be met.

use npb_infer::stream;
use npb_linalg::faer::Mat;
use npb_regbayes::principle::{
    Constraint, FiniteSpace, GaussianFactor, Penalty, PrincipleLimits, Regularised, Softness,
};
use npb_regbayes::{Inputs, Machine, MachineLimits, Problem, RegBayesError, Slack, Targets};
use rand::RngExt;

const MODELS: usize = 4;
const FEATURES: usize = 3;
const EXACT: PrincipleLimits = PrincipleLimits {
    tolerance: 1e-10,
    max_passes: 20_000,
};

fn numbers(seed: u64, n: usize, from: f64, to: f64) -> Vec<f64> {
    let mut rng = stream(seed, [2; 4]);
    (0..n).map(|_| rng.random_range(from..to)).collect()
}

/// Weights that do not sum to 1: the likelihood is in them.
struct Small {
    ln_weights: Vec<f64>,
    psi: Vec<f64>,
}

impl Small {
    fn new(seed: u64) -> Self {
        Self {
            ln_weights: numbers(seed, MODELS, -3.0, 0.5),
            psi: numbers(seed + 100, MODELS * FEATURES, 0.05, 0.95),
        }
    }

    fn space(&self) -> FiniteSpace {
        FiniteSpace::new(self.ln_weights.clone(), self.psi.clone(), FEATURES).unwrap()
    }

    fn expectations(&self, q: &[f64]) -> Vec<f64> {
        let feature = |t: usize| (0..MODELS).map(|m| q[m] * self.psi[m * FEATURES + t]).sum();
        (0..FEATURES).map(feature).collect()
    }

    fn kl(&self, q: &[f64]) -> f64 {
        let terms = q.iter().zip(&self.ln_weights).filter(|(q, _)| **q > 0.0);
        terms.map(|(q, w)| q * (q.ln() - w)).sum()
    }

    fn bayes(&self) -> Vec<f64> {
        let total: f64 = self.ln_weights.iter().map(|w| w.exp()).sum();
        self.ln_weights.iter().map(|w| w.exp() / total).collect()
    }
}

/// What a penalty costs, written down again; infinite where a hard constraint is missed by more than `tolerance`.
fn cost(constraint: &Constraint, expectations: &[f64], tolerance: f64) -> f64 {
    let soft = |softness: Softness, missed: f64| match softness {
        Softness::Hard if missed > tolerance => f64::INFINITY,
        Softness::Hard => 0.0,
        Softness::Slack(c) => c * missed.max(0.0),
        Softness::SquaredSlack(c) => c * missed.max(0.0).powi(2),
    };
    let e: Vec<f64> = constraint
        .features
        .iter()
        .map(|&t| expectations[t])
        .collect();
    let distance = |centre: &[f64]| {
        e.iter()
            .zip(centre)
            .map(|(e, c)| (e - c).powi(2))
            .sum::<f64>()
    };
    match &constraint.penalty {
        Penalty::AtMost { bound, softness } => e.iter().map(|e| soft(*softness, e - bound)).sum(),
        Penalty::AtLeast { bound, softness } => e.iter().map(|e| soft(*softness, bound - e)).sum(),
        Penalty::Within {
            target,
            epsilon,
            softness,
        } => e
            .iter()
            .map(|e| soft(*softness, (e - target).abs() - epsilon))
            .sum(),
        Penalty::Ball { centre, radius } => soft(Softness::Hard, distance(centre).sqrt() - radius),
        Penalty::SquaredDistance { centre, cost } => cost * distance(centre),
        Penalty::Labels { given, cost } => {
            let terms = given.iter().zip(&e).filter(|(g, _)| **g > 0.0);
            cost * terms.map(|(g, e)| g * (g / e).ln()).sum::<f64>()
        }
    }
}

/// All kinds, each so that Bayes' posterior does not meet it. `e`: expectations under that posterior.
fn penalties(e: &[f64]) -> Vec<Constraint> {
    let mut all = Vec::new();
    let mut add = |features: Vec<usize>, penalty| all.push(Constraint { features, penalty });
    for softness in [
        Softness::Hard,
        Softness::Slack(0.6),
        Softness::Slack(30.0),
        Softness::SquaredSlack(4.0),
    ] {
        let bound = e[0] - 0.08;
        add(vec![0], Penalty::AtMost { bound, softness });
        let bound = e[1] + 0.05;
        add(vec![1], Penalty::AtLeast { bound, softness });
        for epsilon in [0.0, 0.03] {
            let target = e[2] + 0.07;
            add(
                vec![2],
                Penalty::Within {
                    target,
                    epsilon,
                    softness,
                },
            );
        }
    }
    let centre = vec![e[0] + 0.06, e[1] - 0.05];
    let radius = 0.03;
    add(
        vec![0, 1],
        Penalty::Ball {
            centre: centre.clone(),
            radius,
        },
    );
    add(vec![0, 1], Penalty::SquaredDistance { centre, cost: 9.0 });
    add(
        vec![2, 0],
        Penalty::Labels {
            given: vec![0.8, 0.2],
            cost: 2.0,
        },
    );
    all
}

fn solve(space: &FiniteSpace, constraints: &[Constraint]) -> Regularised {
    let found = space.regularise(constraints, &EXACT).unwrap();
    assert!(found.converged, "{constraints:?} {found:?}");
    assert!(found.gap() < 1e-10 && found.violation < 1e-10);
    found
}

/// The solution against a direct search of the simplex: no feasible distribution near or far costs less.
#[test]
fn no_other_distribution_costs_less() {
    for seed in 1..=6 {
        let small = Small::new(seed);
        let constraints = penalties(&small.expectations(&small.bayes()));
        let mut sets: Vec<Vec<Constraint>> = constraints.iter().map(|c| vec![c.clone()]).collect();
        // And several at once.
        sets.push(vec![constraints[4].clone(), constraints[9].clone()]);
        sets.push(vec![constraints[12].clone(), constraints[17].clone()]);
        for set in sets {
            let found = match small.space().regularise(&set, &EXACT) {
                // Some hard constraints are out of reach of four models.
                Err(RegBayesError::Infeasible { .. }) => continue,
                other => other.unwrap(),
            };
            assert!(found.converged, "{set:?} {found:?}");
            let objective = |q: &[f64], tolerance: f64| {
                let e = small.expectations(q);
                small.kl(q) + set.iter().map(|c| cost(c, &e, tolerance)).sum::<f64>()
            };
            let least = objective(&found.posterior, 1e-8);
            assert!((least - found.primal).abs() < 1e-7 * (1.0 + least.abs()));
            assert!((found.primal - found.dual).abs() < 1e-7 * (1.0 + least.abs()));
            let mut rng = stream(seed, [3; 4]);
            for trial in 0..4000 {
                // Convex mixtures with random distributions: from far away to very near.
                let draw: Vec<f64> = (0..MODELS).map(|_| -rng.random::<f64>().ln()).collect();
                let total: f64 = draw.iter().sum();
                let share = 10.0_f64.powf(-f64::from(trial % 6));
                let q: Vec<f64> = (0..MODELS)
                    .map(|m| (1.0 - share) * found.posterior[m] + share * draw[m] / total)
                    .collect();
                let other = objective(&q, 1e-12);
                assert!(other >= least - 1e-7, "{set:?} {other} {least}");
            }
        }
    }
}

#[test]
fn without_constraints_it_is_bayes_and_a_constraint_that_holds_changes_nothing() {
    let small = Small::new(20);
    let e = small.expectations(&small.bayes());
    let idle = Constraint {
        features: vec![1],
        penalty: Penalty::AtMost {
            bound: e[1] + 0.01,
            softness: Softness::Hard,
        },
    };
    for constraints in [vec![], vec![idle]] {
        let found = solve(&small.space(), &constraints);
        for (a, b) in found.posterior.iter().zip(small.bayes()) {
            assert!((a - b).abs() < 1e-12);
        }
        let evidence: f64 = small.ln_weights.iter().map(|w| w.exp()).sum();
        assert!((found.dual + evidence.ln()).abs() < 1e-12);
    }
}

/// Remark 7: the mass of a forbidden set goes below any tolerance, and what is left is the prior truncated to the rest; a mass of 0 is only reached in the limit.
#[test]
fn a_forbidden_set_loses_its_mass() {
    let ln_weights = numbers(30, 6, -2.0, 0.0);
    let indicator = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let space = FiniteSpace::new(ln_weights.clone(), indicator.clone(), 1).unwrap();
    let forbid = |bound: f64| Constraint {
        features: vec![0],
        penalty: Penalty::AtMost {
            bound,
            softness: Softness::Hard,
        },
    };
    let found = solve(&space, &[forbid(1e-6)]);
    assert!(found.posterior[0] + found.posterior[3] <= 1e-6 + 1e-10);
    let allowed = |m: &usize| indicator[*m] == 0.0;
    let total: f64 = (0..6).filter(allowed).map(|m| ln_weights[m].exp()).sum();
    for m in (0..6).filter(allowed) {
        assert!((found.posterior[m] - ln_weights[m].exp() / total).abs() < 2e-6);
    }
    for bound in [0.0, -0.1] {
        let error = space.regularise(&[forbid(bound)], &EXACT).unwrap_err();
        assert!(
            matches!(error, RegBayesError::Infeasible { constraint: 0, .. }),
            "{error}"
        );
    }
}

#[test]
fn constraints_that_contradict_each_other_are_a_named_error() {
    let small = Small::new(40);
    let at = |bound: f64, least: bool| Constraint {
        features: vec![0],
        penalty: match least {
            true => Penalty::AtLeast {
                bound,
                softness: Softness::Hard,
            },
            false => Penalty::AtMost {
                bound,
                softness: Softness::Hard,
            },
        },
    };
    let contradiction = [at(0.6, true), at(0.5, false)];
    let error = small
        .space()
        .regularise(&contradiction, &EXACT)
        .unwrap_err();
    assert!(matches!(error, RegBayesError::Infeasible { .. }), "{error}");
    let identity = Mat::<f64>::identity(2, 2);
    let factor = GaussianFactor::new(vec![0.0, 0.0], identity.as_ref(), &[1.0, 0.0]).unwrap();
    let error = factor.regularise(&contradiction, &EXACT).unwrap_err();
    assert!(matches!(error, RegBayesError::Infeasible { .. }), "{error}");
    // Soft ones find their compromise.
    let soft = [true, false].map(|least| Constraint {
        features: vec![0],
        penalty: match least {
            true => Penalty::AtLeast {
                bound: 0.6,
                softness: Softness::SquaredSlack(50.0),
            },
            false => Penalty::AtMost {
                bound: 0.5,
                softness: Softness::SquaredSlack(50.0),
            },
        },
    });
    let found = solve(&small.space(), &soft);
    assert!(found.expectations[0] > 0.5 && found.expectations[0] < 0.6);
}

/// A Gaussian factor with an equality: the closed form of conditioning the mean.
#[test]
fn an_equality_on_a_gaussian_factor_moves_its_mean_as_conditioning_does() {
    let covariance = Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { 0.5 });
    let factor = GaussianFactor::new(vec![1.0, -1.0], covariance.as_ref(), &[1.0, 2.0]).unwrap();
    let equality = Constraint {
        features: vec![0],
        penalty: Penalty::Within {
            target: 3.0,
            epsilon: 0.0,
            softness: Softness::Hard,
        },
    };
    let found = factor.regularise(&[equality], &EXACT).unwrap();
    // a = (1, 2): covariance a = (3, 4.5), a' covariance a = 12, a' mean = -1.
    let phi = 4.0 / 12.0;
    assert!((found.duals[0][0] - phi).abs() < 1e-9);
    assert!((found.posterior[0] - (1.0 + 3.0 * phi)).abs() < 1e-9);
    assert!((found.posterior[1] - (-1.0 + 4.5 * phi)).abs() < 1e-9);
    assert!((found.primal - 0.5 * 12.0 * phi * phi).abs() < 1e-9);
}

/// The machine is the principle on `eta ~ N(0, I)` with a margin constraint per row.
#[test]
fn machines_are_the_principle_on_a_gaussian_factor() {
    let (n, dim) = (14, 3);
    let x = numbers(50, n * dim, -1.0, 1.0);
    let y = numbers(51, n, -1.0, 1.0);
    let positive: Vec<bool> = y.iter().map(|y| *y > 0.0).collect();
    let costs = numbers(52, n, 0.2, 3.0);
    let machine = Machine::new(Inputs::dense(&x, dim).unwrap());
    let limits = MachineLimits {
        tolerance: 1e-11,
        max_passes: 100_000,
    };
    let identity = Mat::<f64>::identity(dim, dim);
    for slack in [Slack::Linear, Slack::Squared] {
        let softness = |c: f64| match slack {
            Slack::Linear => Softness::Slack(c),
            Slack::Squared => Softness::SquaredSlack(c),
        };
        let signs: Vec<f64> = (0..n * dim)
            .map(|k| if positive[k / dim] { x[k] } else { -x[k] })
            .collect();
        let margins = (0..n).map(|row| Constraint {
            features: vec![row],
            penalty: Penalty::AtLeast {
                bound: 1.0,
                softness: softness(costs[row]),
            },
        });
        let bands = (0..n).map(|row| Constraint {
            features: vec![row],
            penalty: Penalty::Within {
                target: y[row],
                epsilon: 0.1,
                softness: softness(costs[row]),
            },
        });
        let binary = Targets::Binary {
            positive: &positive,
            slack,
        };
        let real = Targets::Real {
            values: &y,
            epsilon: 0.1,
            slack,
        };
        for (targets, features, constraints) in [
            (binary, &signs, margins.collect::<Vec<_>>()),
            (real, &x, bands.collect()),
        ] {
            let factor = GaussianFactor::new(vec![0.0; dim], identity.as_ref(), features).unwrap();
            let general = factor.regularise(&constraints, &EXACT).unwrap();
            let costs = &costs[..];
            let own = machine.solve(&Problem { targets, costs }, None, &limits);
            let own = own.unwrap();
            assert!((general.primal - own.primal).abs() < 1e-8 * own.primal);
            for (a, b) in general.posterior.iter().zip(&own.weights) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
}

#[test]
fn bad_input_is_named() {
    let small = Small::new(60);
    let space = small.space();
    let error = |features: Vec<usize>, penalty| {
        let constraint = Constraint { features, penalty };
        space
            .regularise(&[constraint], &EXACT)
            .unwrap_err()
            .to_string()
    };
    let hard = Softness::Hard;
    for (features, penalty) in [
        (
            vec![FEATURES],
            Penalty::AtMost {
                bound: 0.5,
                softness: hard,
            },
        ),
        (
            vec![0],
            Penalty::AtMost {
                bound: f64::NAN,
                softness: hard,
            },
        ),
        (
            vec![0],
            Penalty::AtMost {
                bound: 0.5,
                softness: Softness::Slack(0.0),
            },
        ),
        (
            vec![0],
            Penalty::Within {
                target: 0.5,
                epsilon: -1.0,
                softness: hard,
            },
        ),
        (
            vec![0],
            Penalty::Ball {
                centre: vec![0.5],
                radius: 0.0,
            },
        ),
        (
            vec![0, 1],
            Penalty::Ball {
                centre: vec![0.5],
                radius: 1.0,
            },
        ),
        (
            vec![0, 1],
            Penalty::Labels {
                given: vec![0.5, 0.6],
                cost: 1.0,
            },
        ),
        (
            vec![0],
            Penalty::SquaredDistance {
                centre: vec![0.5],
                cost: f64::INFINITY,
            },
        ),
    ] {
        let message = error(features, penalty);
        assert!(message.contains("constraint"), "{message}");
    }
    assert!(FiniteSpace::new(vec![0.0; 2], vec![1.0; 3], 2).is_err());
    assert!(FiniteSpace::new(vec![f64::NAN, 0.0], vec![], 0).is_err());
    assert!(FiniteSpace::new(vec![f64::NEG_INFINITY; 2], vec![], 0).is_err());
    assert!(FiniteSpace::new(vec![0.0; 2], vec![1.0, f64::INFINITY], 1).is_err());
    let singular = Mat::<f64>::zeros(2, 2);
    assert!(GaussianFactor::new(vec![0.0; 2], singular.as_ref(), &[1.0, 0.0]).is_err());
}
