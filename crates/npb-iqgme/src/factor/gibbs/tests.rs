//! Joint-distribution tests of every move, and of copies that are broken on purpose.

mod exact;

use npb_data::{Mask, Table};
use npb_infer::testing::{JointModel, JointTest};
use npb_priors::GammaPrior;

use super::*;
use crate::FactorScale;
use crate::RowEffects;
use crate::factor::data::{Cells, Units};
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

/// Cells (zero where missing) and signs.
type Data = (Mat<f64>, Vec<f64>);

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

    fn data(&self, (x, signs): &Data) -> FactorData {
        let observed = |i: usize, p: usize| is_observed(i, p) || self.fault == Fault::MaskIgnored;
        let mask = Mask::from_fn(N, P, observed).unwrap();
        let values = (0..N * P).map(|k| x[(k / P, k % P)]).collect();
        let table = Table::from_parts(values, mask).unwrap();
        let cells = Cells::new(&table, &table);
        let (effects, effect_rows) = effects(&self.faulty_config());
        FactorData {
            columns: cells.columns(),
            cells,
            signs: signs.clone(),
            effects,
            effect_rows,
            units: Units::fit(&table, FactorScale::Standardised).unwrap(),
            classes: vec!["a".to_owned(), "b".to_owned()],
            n_labelled: signs.iter().filter(|s| **s != 0.0).count(),
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
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> FactorDraw {
        let config = config();
        let (effects, rows) = effects(&config);
        let effects = (&effects.law(self.linear), rows.rows(self.linear));
        FactorDraw::prior(&config, &Priors::new(&config), effects, P, rng)
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
        let sign = |i: usize| match is_labelled(i) {
            true => draw.scores[i].signum(),
            false => 0.0,
        };
        (x, (0..N).map(sign).collect())
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
            let effect = sampler.draw.row_effect.clone();
            let twice = self.fault == Fault::Twice && sampler.moves[k] == FactorMove::Experts;
            if twice {
                sampler.draw.row_effect.fill(0.0);
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
                sampler.draw.row_effect = effect;
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
            let h = draw.labels[i];
            let z: f64 = rng.sample(StandardNormal);
            let of_experts = dot(&draw.experts[h], &draw.seen_by_expert(h, i));
            draw.scores[i] = of_experts + z;
        }
    }

    fn summary(&self, draw: &FactorDraw, (x, signs): &Data) -> Vec<f64> {
        let c = &draw.coefficients;
        let h = draw.labels[0];
        let f = draw.seen_by_expert(h, 0);
        let (i, p) = (0, (0..P).find(|&p| is_observed(0, p)).unwrap());
        let fitted = c[(p, 0)] * f[0] + c[(p, 1)] * f[1] + c[(p, 2 + h)];
        // There are two more effects where there are no precisions.
        let tau = |k: usize| {
            let tau = draw.effect_precisions.get(k);
            tau.unwrap_or_else(|| &draw.row_effect[3 + k])
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
            draw.experts[0][0],
            draw.experts[0][2] * draw.experts[1][2],
            draw.expert_prior[0].0,
            draw.expert_prior[1].1,
            draw.labels.iter().sum::<usize>() as f64,
            draw.factors[(0, 1)] * draw.factors[(1, 1)],
            draw.scores[0],
            x[(i, p)] * f[0] * c[(p, 0)],
            signs[0] * draw.experts[h][2],
            (x[(i, p)] - fitted).powi(2) * draw.noise[p] * draw.cluster_noise[h],
            draw.scores[0] * f[0] * draw.experts[h][0],
            f64::from(u8::from(draw.labels[0] == draw.labels[1])),
            draw.row_effect[0],
            signs[4] * draw.row_effect[0],
            draw.row_effect[1] * draw.row_effect[1],
            draw.row_effect[1] * draw.row_effect[2],
            signs[1] * draw.row_effect[1],
            *tau(0),
            tau(1) * draw.row_effect[2].powi(2),
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
    TEST.run(&Model {
        moves: moves.to_vec(),
        fault,
        linear,
    })
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
