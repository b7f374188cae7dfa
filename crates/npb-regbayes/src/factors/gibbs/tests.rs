//! The joint-distribution test of the sampler, and of copies with faults of size one half.

use npb_data::Mask;
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::{JointModel, JointTest};

use super::*;

/// Items, observations, features of the test.
const I: usize = 5;
const J: usize = 4;
const K: usize = 3;

struct Model {
    fault: Option<Fault>,
    holes: bool,
    moves: Vec<IbpMove>,
    sweeps: u64,
}

impl Model {
    fn config(&self, seed: u64) -> IbpGibbsConfig {
        let prior = GammaPrior {
            shape: 3.0,
            rate: 3.0,
        };
        IbpGibbsConfig {
            truncation: K,
            noise: prior,
            loading: prior,
            concentration: GammaPrior {
                shape: 3.0,
                rate: 1.5,
            },
            moves: self.moves.clone(),
            seed,
            chain: 0,
        }
    }

    fn seen(&self, i: usize, j: usize) -> bool {
        !self.holes || !(2 * i + 3 * j).is_multiple_of(4)
    }
}

impl JointModel for Model {
    type State = IbpDraw;
    type Data = Table;

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = ["noise", "loading precision", "alpha"]
            .map(str::to_owned)
            .into();
        for part in [
            "ln weight",
            "ones",
            "loadings",
            "squared loadings",
            "data with loadings",
        ] {
            names.extend((0..K).map(|k| format!("{part} {k}")));
        }
        names.extend(["squared residuals", "data"].map(str::to_owned));
        names
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> IbpDraw {
        self.config(0).prior(I, J, rng)
    }

    fn simulate(&self, draw: &IbpDraw, rng: &mut Xoshiro256PlusPlus) -> Table {
        let sd = draw.noise_precision.sqrt().recip();
        let mut values = Vec::with_capacity(I * J);
        for i in 0..I {
            for j in 0..J {
                let mean = npb_linalg::dot(
                    draw.indicators.col_as_slice(i),
                    draw.loadings.col_as_slice(j),
                );
                let z: f64 = rand_distr::StandardNormal.sample(rng);
                values.push(mean + sd * z);
            }
        }
        let mask = Mask::from_fn(I, J, |i, j| self.seen(i, j)).unwrap();
        Table::from_parts(values, mask).unwrap()
    }

    fn sweep(&self, draw: &mut IbpDraw, table: &Table, rng: &mut Xoshiro256PlusPlus) {
        let config = self.config(rng.random());
        let mut sampler = IbpSampler::from_draw(Items::from_rows(table), config, draw.clone());
        sampler.fault = self.fault;
        for _ in 0..self.sweeps {
            sampler.sweep().unwrap();
        }
        *draw = sampler.draw;
    }

    fn summary(&self, draw: &IbpDraw, table: &Table) -> Vec<f64> {
        let (z, w) = (&draw.indicators, &draw.loadings);
        let mut out = vec![
            draw.noise_precision,
            draw.loading_precision,
            draw.concentration,
        ];
        out.extend(&draw.ln_weights);
        out.extend((0..K).map(|k| (0..I).map(|i| z[(k, i)]).sum::<f64>()));
        out.extend((0..K).map(|k| (0..J).map(|j| w[(k, j)]).sum::<f64>()));
        out.extend((0..K).map(|k| (0..J).map(|j| w[(k, j)].powi(2)).sum::<f64>()));
        let cells = || (0..I).flat_map(|i| (0..J).map(move |j| (i, j)));
        let cells = || cells().filter_map(|(i, j)| table.get(i, j).map(|x| (i, j, x)));
        out.extend((0..K).map(|k| {
            cells()
                .map(|(i, j, x)| x * z[(k, i)] * w[(k, j)])
                .sum::<f64>()
        }));
        let residual =
            |i: usize, j: usize, x: f64| x - npb_linalg::dot(z.col_as_slice(i), w.col_as_slice(j));
        out.push(cells().map(|(i, j, x)| residual(i, j, x).powi(2)).sum());
        out.push(cells().map(|(_, _, x)| x).sum());
        out
    }
}

fn all() -> Vec<IbpMove> {
    IbpGibbsConfig::default().moves
}

const TEST: JointTest = JointTest {
    seed: 1,
    chains: 64,
    length: 400,
    false_alarm: 0.001,
};

#[test]
fn the_sampler_leaves_the_joint_law_alone() {
    for holes in [false, true] {
        let model = Model {
            fault: None,
            holes,
            moves: all(),
            sweeps: 1,
        };
        let report = TEST.run(&model);
        assert!(report.passed(), "holes {holes}: {report}");
    }
}

#[test]
fn each_move_alone_leaves_the_joint_law_alone() {
    for step in all() {
        let model = Model {
            fault: None,
            holes: true,
            moves: vec![step],
            sweeps: 1,
        };
        let report = TEST.run(&model);
        assert!(report.passed(), "{step:?}: {report}");
    }
}

#[test]
fn faults_of_one_half_are_found() {
    use IbpMove::*;
    // With the fewest moves that let the fault add up.
    for (fault, moves) in [
        (Fault::NoiseShape, vec![NoisePrecision]),
        (Fault::LoadingShape, vec![Loadings, LoadingPrecision]),
        (Fault::ConcentrationShape, vec![Concentration]),
        (Fault::WeightCount, vec![Indicators, Weights]),
        (Fault::Complement, vec![Indicators]),
        (Fault::LoadingPrior, vec![Loadings]),
    ] {
        let model = Model {
            fault: Some(fault),
            holes: false,
            moves,
            sweeps: 1,
        };
        // Many chains: what stays as it is differs from chain to chain more than a fault moves the rest.
        let test = JointTest {
            chains: 1024,
            ..TEST
        };
        let report = test.run(&model);
        assert!(!report.passed(), "{fault:?}: {report}");
    }
}
