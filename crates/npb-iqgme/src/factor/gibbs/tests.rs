//! Joint-distribution tests of every move, and of copies that are broken on purpose.

mod exact;

use npb_data::{Mask, Table};
use npb_infer::testing::{JointModel, JointTest};
use npb_priors::GammaPrior;

use super::*;
use crate::FeatureScale;
use crate::RowEffects;
use crate::factor::cells::Cells;
use crate::factor::data::{RowLabels, Units};
use crate::factor::effects::{Effects, RowsOfBoth};

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The noise precisions' shape is too large by one half.
    Shape,
    /// The sampler goes on with the residuals of earlier loadings.
    Stale,
    /// The prior of loadings and means is left out where they are drawn, nearly.
    MissingPrior,
    /// Missing cells are taken for zeros.
    MaskIgnored,
    /// The rate of the noise precisions' prior is used as a scale.
    RateAsScale,
    /// The switches' odds are those of another prior.
    Odds,
    /// The shape of the steps' precisions is too large by one half.
    StepShape,
    /// Experts explain what the rows' effects have explained.
    Twice,
    /// The variance of the linear effects is used as if it were its inverse.
    LinearScale,
}

struct Model {
    moves: Vec<FactorMove>,
    fault: Fault,
    /// Prior variance of the sum of linear effects; none for steps.
    linear: Option<f64>,
    classes: usize,
}

const N: usize = 6;
const P: usize = 4;
/// What rows say of their labels, by a table that has nothing to do with their features; moves take it as given.
fn effects(config: &FactorConfig) -> (Effects, RowsOfBoth) {
    let value = |k: usize| [0.7, -0.4, 1.9, 0.2, -1.3, 0.1, 2.0, -0.9][(5 * k + k / 3) % 8];
    let mask = Mask::from_fn(N, P, |i, p| (i + p) % 5 > 0).unwrap();
    let table = Table::from_parts((0..N * P).map(value).collect(), mask).unwrap();
    let labelled: Vec<usize> = (0..N).filter(|&i| is_labelled(i)).collect();
    let cells = Cells::new(&table, &table);
    let effects = Effects::new(&cells, &labelled, &config.row_effects);
    let rows = effects.rows(&cells, &labelled);
    (effects, rows)
}

fn config() -> FactorConfig {
    FactorConfig {
        truncation: 2,
        max_factors: 2,
        concentration: GammaPrior {
            shape: 2.0,
            rate: 2.0,
        },
        switch_on: 1.0,
        switch_off: 1.0,
        loading: GammaPrior {
            shape: 3.0,
            rate: 2.0,
        },
        mean: GammaPrior {
            shape: 3.0,
            rate: 2.0,
        },
        noise: GammaPrior {
            shape: 3.0,
            rate: 4.0,
        },
        cluster_noise: 4.0,
        expert: GammaPrior {
            shape: 3.0,
            rate: 2.0,
        },
        row_effects: RowEffects {
            steps: 2,
            shape: 3.0,
            ..RowEffects::default()
        },
        ..FactorConfig::default()
    }
}

fn is_observed(i: usize, p: usize) -> bool {
    (3 * i + 5 * p) % 7 > 1
}

fn is_labelled(i: usize) -> bool {
    i != 2
}

/// Cells (zero where missing) and classes.
type Data = (Mat<f64>, Vec<Option<usize>>);

impl Model {
    fn faulty_config(&self) -> FactorConfig {
        let right = config();
        match self.fault {
            Fault::Shape => FactorConfig {
                noise: GammaPrior {
                    shape: right.noise.shape + 0.5,
                    ..right.noise
                },
                ..right
            },
            Fault::RateAsScale => FactorConfig {
                noise: GammaPrior {
                    rate: 1.0 / right.noise.rate,
                    ..right.noise
                },
                ..right
            },
            Fault::StepShape => FactorConfig {
                row_effects: RowEffects {
                    shape: right.row_effects.shape + 0.5,
                    variance: right.row_effects.variance * right.row_effects.shape
                        / (right.row_effects.shape + 0.5),
                    ..right.row_effects
                },
                ..right
            },
            Fault::Odds => FactorConfig {
                switch_on: 2.0,
                ..right
            },
            _ => right,
        }
    }

    fn data(&self, (x, classes): &Data) -> FactorData {
        let observed = |i: usize, p: usize| is_observed(i, p) || self.fault == Fault::MaskIgnored;
        let mask = Mask::from_fn(N, P, observed).unwrap();
        let values = (0..N * P).map(|k| x[(k / P, k % P)]).collect();
        let table = Table::from_parts(values, mask).unwrap();
        let cells = Cells::new(&table, &table);
        let (effects, effect_rows) = effects(&self.faulty_config());
        FactorData {
            columns: cells.columns(),
            cells,
            labels: RowLabels::new(classes.clone(), self.classes),
            effects,
            effect_rows,
            units: Units::fit(&table, FeatureScale::Standardised).unwrap(),
            classes: ["a", "b", "c"][..self.classes]
                .iter()
                .map(|&c| c.into())
                .collect(),
            n_labelled: classes.iter().flatten().count(),
        }
    }
}

impl JointModel for Model {
    type State = FactorDraw;
    type Data = Data;

    fn names(&self) -> Vec<String> {
        [
            "alpha",
            "weight",
            "on",
            "loading",
            "loading^2",
            "mean",
            "psi",
            "psi 2",
            "kappa",
            "gamma",
            "u",
            "w",
            "intercept",
            "zeta",
            "lambda",
            "label",
            "s",
            "t",
            "x s",
            "y w",
            "residual",
            "t s",
            "same",
            "spread",
            "y spread",
            "step^2",
            "step step",
            "y step",
            "tau",
            "tau step^2",
            "t t",
            "w w",
            "step step of two",
            "y t",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> FactorDraw {
        let config = config();
        let (effects, rows) = effects(&config);
        let effects = (&effects.law(self.linear), rows.rows(self.linear));
        let sizes = [P, self.classes - 1];
        FactorDraw::prior(&config, &Priors::new(&config), effects, sizes, rng)
    }

    fn simulate(&self, draw: &FactorDraw, rng: &mut Xoshiro256PlusPlus) -> Data {
        let x = Mat::from_fn(N, P, |i, p| {
            let z: f64 = rng.sample(StandardNormal);
            if !is_observed(i, p) {
                return 0.0;
            }
            let h = draw.labels[i];
            let f = draw.seen_by_expert(h, i);
            let common: f64 = (0..2).map(|l| draw.coefficients[(p, l)] * f[l]).sum();
            common
                + draw.coefficients[(p, 2 + h)]
                + z / (draw.noise[p] * draw.cluster_noise[h]).sqrt()
        });
        // The class with the largest score, that of the first being 0.
        let class = |i: usize| {
            let scores = draw.scores_of(i).iter().enumerate();
            let best = scores.fold(
                (0, 0.0),
                |best, (k, t)| if *t > best.1 { (k + 1, *t) } else { best },
            );
            is_labelled(i).then_some(best.0)
        };
        (x, (0..N).map(class).collect())
    }

    fn sweep(&self, draw: &mut FactorDraw, data: &Data, rng: &mut Xoshiro256PlusPlus) {
        let data = self.data(data);
        let config = FactorConfig {
            seed: rng.random(),
            ..self.faulty_config()
        };
        // An unlabelled row has a score in the prior, which nothing conditions on.
        let linear = match self.fault {
            Fault::LinearScale => self.linear.map(|variance| 1.0 / variance),
            _ => self.linear,
        };
        let mut sampler = FactorSampler {
            data: &data,
            law: data.effects.law(linear),
            priors: Priors::new(&config),
            config,
            moves: self.moves.clone(),
            chain: 0,
            sweep: 0,
            uses: 0,
            draw: draw.clone(),
            forms: None,
        };
        sampler.prepare_forms();
        for k in 0..sampler.moves.len() {
            let before = sampler.forms.clone();
            let effects = sampler.draw.row_effects.clone();
            let twice = self.fault == Fault::Twice && sampler.moves[k] == FactorMove::Experts;
            if twice {
                sampler
                    .draw
                    .row_effects
                    .iter_mut()
                    .for_each(|v| v.fill(0.0));
            }
            let flat =
                self.fault == Fault::MissingPrior && sampler.moves[k] == FactorMove::Features;
            let (loadings, means) = (
                sampler.draw.loading_precisions.clone(),
                sampler.draw.mean_precision,
            );
            if flat {
                sampler.draw.loading_precisions.fill(1e-3);
                sampler.draw.mean_precision = 1e-3;
            }
            sampler.apply(sampler.moves[k]).unwrap();
            if twice {
                sampler.draw.row_effects = effects;
            }
            if flat {
                sampler.draw.loading_precisions = loadings;
                sampler.draw.mean_precision = means;
            }
            if self.fault == Fault::Stale {
                sampler.forms = before;
            }
        }
        *draw = sampler.draw;
        for i in (0..N).filter(|&i| !is_labelled(i)) {
            for (k, of_expert) in draw.of_experts(i).into_iter().enumerate() {
                let z: f64 = rng.sample(StandardNormal);
                draw.scores[i * (self.classes - 1) + k] = of_expert + z;
            }
        }
    }

    fn summary(&self, draw: &FactorDraw, (x, classes): &Data) -> Vec<f64> {
        // Of the last utility, which is the only one with two classes.
        let k = self.classes - 2;
        let signs: Vec<f64> = classes
            .iter()
            .map(|class| class.map_or(0.0, |class| if class == k + 1 { 1.0 } else { -1.0 }))
            .collect();
        let expert = |h: usize| &draw.experts_of(h)[k];
        let score = |i: usize| draw.scores_of(i)[k];
        let (effect, prior) = (&draw.row_effects[k], &draw.expert_prior[3 * k..]);
        let c = &draw.coefficients;
        let h = draw.labels[0];
        let f = draw.seen_by_expert(h, 0);
        let (i, p) = (0, (0..P).find(|&p| is_observed(0, p)).unwrap());
        let fitted = c[(p, 0)] * f[0] + c[(p, 1)] * f[1] + c[(p, 2 + h)];
        // There are two more effects where there are no precisions.
        let precisions = &draw.effect_precisions[k];
        let tau = |k: usize| {
            let tau = precisions.get(k);
            tau.unwrap_or_else(|| &effect[3 + k])
        };
        let on = draw.switches.iter().flatten().filter(|b| **b).count();
        vec![
            draw.concentration,
            draw.ln_weights[0],
            on as f64,
            c[(0, 0)],
            c[(0, 0)] * c[(0, 0)],
            c[(1, 2)] * c[(2, 2)],
            draw.noise[0],
            draw.noise[1] * draw.noise[2],
            draw.cluster_noise[0],
            draw.loading_precisions[0],
            draw.mean_precision,
            expert(0)[0],
            expert(0)[2] * expert(1)[2],
            prior[0].0,
            prior[1].1,
            draw.labels.iter().sum::<usize>() as f64,
            draw.factors[(0, 1)] * draw.factors[(1, 1)],
            score(0),
            x[(i, p)] * f[0] * c[(p, 0)],
            signs[0] * expert(h)[2],
            (x[(i, p)] - fitted).powi(2) * draw.noise[p] * draw.cluster_noise[h],
            score(0) * f[0] * expert(h)[0],
            f64::from(u8::from(draw.labels[0] == draw.labels[1])),
            effect[0],
            signs[4] * effect[0],
            effect[1] * effect[1],
            effect[1] * effect[2],
            signs[1] * effect[1],
            *tau(0),
            tau(1) * effect[2].powi(2),
            // Of the first utility with the last: with two classes one and the same.
            draw.scores_of(0)[0] * score(0),
            draw.experts_of(0)[0][0] * expert(0)[0],
            draw.row_effects[0][1] * effect[1],
            draw.scores_of(1)[0] * signs[1],
        ]
    }
}

const TEST: JointTest = JointTest {
    seed: 3,
    chains: 1500,
    length: 10,
    false_alarm: 0.001,
};

fn run(moves: &[FactorMove], fault: Fault, linear: Option<f64>) -> npb_infer::testing::JointReport {
    run_with_classes(2, moves, fault, linear)
}

fn run_with_classes(
    classes: usize,
    moves: &[FactorMove],
    fault: Fault,
    linear: Option<f64>,
) -> npb_infer::testing::JointReport {
    TEST.run(&Model {
        moves: moves.to_vec(),
        fault,
        linear,
        classes,
    })
}

#[test]
fn three_classes_keep_the_joint_law() {
    use FactorMove::{ExpertPrior, Experts, RowEffect, Rows, Switches};
    // Moves that see the utilities, alone, then all.
    for which in [Rows, Switches, Experts, ExpertPrior, RowEffect] {
        let report = run_with_classes(3, &[which], Fault::None, None);
        assert!(report.passed(), "{which:?}: {report}");
    }
    let report = run_with_classes(3, &FactorMove::ALL, Fault::None, None);
    assert!(report.passed(), "{report}");
    for fault in [Fault::Twice, Fault::MaskIgnored, Fault::StepShape] {
        let mut moves = FactorMove::ALL.to_vec();
        moves.rotate_left(5);
        let report = run_with_classes(3, &moves, fault, None);
        assert!(!report.passed(), "{fault:?} was not noticed: {report}");
    }
}

#[test]
fn every_move_keeps_the_joint_law() {
    for which in FactorMove::ALL {
        let report = run(&[which], Fault::None, None);
        assert!(report.passed(), "{which:?}: {report}");
    }
}

#[test]
fn sweeps_keep_the_joint_law() {
    let twice = FactorMove::ALL.map(|step| [step, step]).concat();
    for moves in [&FactorMove::ALL[..], &twice] {
        let report = run(moves, Fault::None, None);
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn linear_effects_in_place_of_steps_keep_the_joint_law() {
    let linear = Some(2.0);
    for moves in [&FactorMove::ALL[..], &[FactorMove::RowEffect]] {
        let report = run(moves, Fault::None, linear);
        assert!(report.passed(), "{report}");
    }
    let broken = run(&FactorMove::ALL, Fault::LinearScale, linear);
    assert!(!broken.passed(), "{broken}");
}

#[test]
fn broken_copies_fail() {
    use Fault::{MaskIgnored, MissingPrior, Odds, RateAsScale, Shape, Stale, StepShape, Twice};
    for fault in [
        Shape,
        Stale,
        MissingPrior,
        MaskIgnored,
        RateAsScale,
        Odds,
        StepShape,
        Twice,
    ] {
        // The moves that use the residuals come after the loadings have moved.
        let mut moves = FactorMove::ALL.to_vec();
        moves.rotate_left(5);
        let report = run(&moves, fault, None);
        assert!(!report.passed(), "{fault:?} was not noticed: {report}");
    }
}
