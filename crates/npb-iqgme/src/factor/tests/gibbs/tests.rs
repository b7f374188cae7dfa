//! Every move alone against independent draws of the joint law, and copies that are broken on purpose; agreement with the variational fit.

mod agreement;
mod exact;

use npb_data::{Mask, Table};
use npb_infer::testing::{JointModel, JointReport, StepTest};
use npb_priors::GammaPrior;
use npb_priors::dist::Gamma;

use super::*;
use crate::FeatureScale;
use crate::factor::data::RowLabels;
use crate::units::Units;

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The shape of the features' noise precisions is too large by one half.
    NoiseShape,
    /// So is that of the loadings' precisions.
    LoadingShape,
    /// So is that of the clusters' noise.
    ClusterShape,
    /// So is that of the concentration.
    ConcentrationShape,
    /// So is that of the experts' prior.
    ExpertShape,
    /// The second parameter of the sticks is too large by one half.
    Stick,
    /// The rate of the noise precisions' prior is used as a scale.
    RateAsScale,
    /// The sampler goes on with the residuals of earlier loadings.
    Stale,
    /// Loadings and means are drawn with half of the precision of their prior.
    LoadingPrior,
    /// So are experts.
    ExpertPrior,
    /// The indicators' odds are half as large again.
    Odds,
    /// Missing cells are taken for zeros.
    MaskIgnored,
}

struct Model {
    moves: Vec<FactorMove>,
    fault: Fault,
    classes: usize,
}

const N: usize = 6;
const P: usize = 4;
fn config() -> FactorConfig {
    FactorConfig {
        truncation: 2,
        max_factors: 2,
        concentration: GammaPrior {
            shape: 2.0,
            rate: 2.0,
        },
        indicator_on: 1.0,
        indicator_off: 1.0,
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
        let mut config = config();
        match self.fault {
            Fault::NoiseShape => config.noise.shape += 0.5,
            Fault::LoadingShape => config.loading.shape += 0.5,
            Fault::ConcentrationShape => config.concentration.shape += 0.5,
            Fault::ExpertShape => config.expert.shape += 0.5,
            Fault::RateAsScale => config.noise.rate = 1.0 / config.noise.rate,
            Fault::Odds => config.indicator_on *= 1.5,
            _ => {}
        }
        config
    }

    /// The priors of the sampler under test.
    fn priors(&self, config: &FactorConfig) -> Priors {
        let mut priors = Priors::new(config);
        if self.fault == Fault::ClusterShape {
            let of = |prior: Gamma| gamma(prior.shape() + 0.5, prior.rate());
            priors.cluster = priors.cluster.map(of);
        }
        priors
    }

    fn data(&self, (x, classes): &Data) -> FactorData {
        let observed = |i: usize, p: usize| is_observed(i, p) || self.fault == Fault::MaskIgnored;
        let mask = Mask::from_fn(N, P, observed).unwrap();
        let values = (0..N * P).map(|k| x[(k / P, k % P)]).collect();
        let table = Table::from_parts(values, mask).unwrap();
        let cells = Cells::new(&table);
        FactorData {
            columns: cells.columns(),
            cells,
            labels: RowLabels::new(classes.clone(), self.classes),
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
            "t t",
            "w w",
            "y t",
            "lambda w^2",
            "gamma loading^2",
            "u mean^2",
            "alpha weight",
            "kappa psi",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> FactorDraw {
        let config = config();
        let sizes = [N, P, self.classes - 1];
        FactorDraw::prior(&config, &Priors::new(&config), sizes, rng)
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
        let mut sampler = FactorSampler {
            data: &data,
            priors: self.priors(&config),
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
            let kept = sampler.draw.clone();
            let halve = |of: &mut f64| *of *= 0.5;
            match (self.fault, sampler.moves[k]) {
                (Fault::LoadingPrior, FactorMove::Features) => {
                    sampler.draw.loading_precisions.iter_mut().for_each(halve);
                    halve(&mut sampler.draw.mean_precision);
                }
                (Fault::ExpertPrior, FactorMove::Experts) => {
                    let prior = sampler.draw.expert_prior.iter_mut();
                    prior.for_each(|(_, lambda)| halve(lambda));
                }
                (Fault::Stick, FactorMove::Sticks) => sampler.draw.concentration += 0.5,
                _ => {}
            }
            sampler.apply(sampler.moves[k]).unwrap();
            match self.fault {
                Fault::LoadingPrior if sampler.moves[k] == FactorMove::Features => {
                    sampler.draw.loading_precisions = kept.loading_precisions;
                    sampler.draw.mean_precision = kept.mean_precision;
                }
                Fault::ExpertPrior => sampler.draw.expert_prior = kept.expert_prior,
                Fault::Stick => sampler.draw.concentration = kept.concentration,
                _ => {}
            }
            if self.fault == Fault::Stale {
                sampler.forms = before;
            }
        }
        *draw = sampler.draw;
        // An unlabelled row has a score in the prior, which nothing conditions on.
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
        let prior = &draw.expert_prior[3 * k..];
        let c = &draw.coefficients;
        let h = draw.labels[0];
        let f = draw.seen_by_expert(h, 0);
        let (i, p) = (0, (0..P).find(|&p| is_observed(0, p)).unwrap());
        let fitted = c[(p, 0)] * f[0] + c[(p, 1)] * f[1] + c[(p, 2 + h)];
        let on = draw.indicators.iter().flatten().filter(|b| **b).count();
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
            // Of the first utility with the last: with two classes one and the same.
            draw.scores_of(0)[0] * score(0),
            draw.experts_of(0)[0][0] * expert(0)[0],
            draw.scores_of(1)[0] * signs[1],
            prior[1].1 * (expert(0)[1] - prior[1].0).powi(2),
            draw.loading_precisions[0] * draw.noise[0] * c[(0, 0)] * c[(0, 0)],
            draw.mean_precision * draw.noise[1] * c[(1, 2)] * c[(1, 2)],
            draw.concentration * draw.ln_rest,
            draw.cluster_noise[0] * draw.noise[0],
        ]
    }
}

const TEST: StepTest = StepTest {
    seed: 3,
    replications: 6000,
    false_alarm: 0.001,
};

fn run(classes: usize, moves: &[FactorMove], fault: Fault) -> JointReport {
    TEST.run(&Model {
        moves: moves.to_vec(),
        fault,
        classes,
    })
}

#[test]
fn every_move_keeps_the_joint_law() {
    for classes in [2, 3] {
        for which in FactorMove::ALL {
            let report = run(classes, &[which], Fault::None);
            assert!(report.passed(), "{classes} classes, {which:?}: {report}");
        }
        let report = run(classes, &FactorMove::ALL, Fault::None);
        assert!(report.passed(), "{classes} classes: {report}");
    }
}

/// Each move alone with a fault of its own, most of them of half a shape.
#[test]
fn broken_copies_fail() {
    use FactorMove::{
        ClusterNoise, Concentration, ExpertPrior, Experts, Features, Indicators, Rows, Scales,
        Sticks,
    };
    for (fault, moves) in [
        (Fault::NoiseShape, &[Features][..]),
        (Fault::RateAsScale, &[Features]),
        (Fault::LoadingPrior, &[Features]),
        (Fault::MaskIgnored, &[Features]),
        (Fault::MaskIgnored, &[Rows]),
        (Fault::LoadingShape, &[Scales]),
        (Fault::ClusterShape, &[ClusterNoise]),
        (Fault::ConcentrationShape, &[Concentration]),
        (Fault::Stick, &[Sticks]),
        (Fault::ExpertShape, &[ExpertPrior]),
        (Fault::ExpertPrior, &[Experts]),
        (Fault::Odds, &[Indicators]),
        // The moves that use the residuals come after the loadings have moved.
        (Fault::Stale, &[Features, Rows, Indicators, ClusterNoise]),
    ] {
        for classes in [2, 3] {
            let report = run(classes, moves, fault);
            assert!(
                !report.passed(),
                "{classes} classes, {fault:?} in {moves:?} was not noticed: {report}"
            );
        }
    }
}
