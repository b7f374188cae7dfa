//! Checks of npb-iqgme: its Gibbs samplers on small tables drawn from the model, with missing cells and rows without labels, under proper priors; and what answers cover.

mod coverage;

use std::cell::RefCell;

use npb_infer::testing::JointModel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_iqgme::npb_data::{Labels, Table};
use npb_iqgme::{
    DrawnComponent, GibbsConfig, GibbsParameters, GibbsState, IqgmeConfig, IqgmeData, IqgmeError,
    IqgmeSampler,
};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, Normal, NormalGamma, NormalWishart, Wishart};
use rand::{Rng, RngExt};

use npb_kit::Result;
use npb_kit::validate::{Check, Findings, Plan, alarms, calibration};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("iqgme/calibration", |plan| calibrate(plan, 2)),
    ("iqgme/calibration-three-classes", |plan| calibrate(plan, 3)),
    ("iqgme/false-alarms", false_alarms),
    ("iqgme/imputation", coverage::imputation),
    ("iqgme/few-rows", coverage::few_rows),
    ("iqgme/intervals", coverage::class_intervals),
];

const METHOD: &str = "npb:iqgme/gibbs";
/// Key of the random stream that draws which cells are observed.
const MASK: u64 = 9;
/// Features of a row.
const P: usize = 2;
/// `u_0`, and excess of the degrees of freedom over P.
const STRENGTH: f64 = 0.5;
const EXCESS: f64 = 5.0;

/// What is fixed: sizes, observed cells and labels, hyperparameters.
struct Model {
    config: GibbsConfig,
    n_classes: usize,
    /// Row, feature.
    seen: Vec<bool>,
    labelled: Vec<bool>,
}

/// A simulated table. Utilities are 0 where there is no label; a sweep puts those that it ends with in their place, since with three classes the next one
/// begins with them.
struct Data {
    x: Vec<f64>,
    classes: Vec<usize>,
    utilities: RefCell<Vec<f64>>,
}

impl Model {
    fn new(n_rows: usize, n_classes: usize) -> Self {
        let rng = &mut stream(0, [0, 0, 0, MASK]);
        Self {
            config: GibbsConfig {
                model: IqgmeConfig {
                    concentration: GammaPrior {
                        shape: 4.0,
                        rate: 4.0,
                    },
                    mean_strength: STRENGTH,
                    dof_excess: EXCESS,
                    dof_per_feature: 0.0,
                    expert: GammaPrior {
                        shape: 4.0,
                        rate: 4.0,
                    },
                    ..IqgmeConfig::default()
                },
                sweeps: npb_kit::sweeps(0, 1),
                ..GibbsConfig::default()
            },
            n_classes,
            // Row 0 lacks its first feature and has a label, row 1 is complete and has none.
            seen: (0..n_rows * P)
                .map(|cell| cell > 0 && (cell < 2 * P || rng.random::<f64>() < 0.7))
                .collect(),
            labelled: (0..n_rows)
                .map(|row| row == 0 || (row > 1 && rng.random::<f64>() < 0.8))
                .collect(),
        }
    }

    fn n_rows(&self) -> usize {
        self.labelled.len()
    }

    fn n_utilities(&self) -> usize {
        self.n_classes - 1
    }

    fn classes(&self) -> Vec<String> {
        (0..self.n_classes).map(|k| k.to_string()).collect()
    }

    fn data(&self, data: &Data) -> std::result::Result<IqgmeData, IqgmeError> {
        let values = data.x.iter().zip(&self.seen);
        let values = values.map(|(x, seen)| if *seen { *x } else { 0.0 });
        let table = Table::new(self.n_rows(), P, values.collect(), &self.seen)?;
        let codes = data.classes.iter().zip(&self.labelled);
        let codes = codes.map(|(class, labelled)| labelled.then_some(*class));
        let labels = Labels::from_codes(self.classes(), codes.collect())?;
        IqgmeData::in_given_units(&table, &labels, &self.classes(), &Mat::identity(P, P))
    }

    /// A chain at a state and the utilities as they are. Missing cells are those of the simulation: the first move of a sweep draws them whatever they were.
    fn sampler<'d>(
        &self,
        prepared: &'d IqgmeData,
        state: &GibbsState,
        data: &Data,
        seed: u64,
    ) -> std::result::Result<IqgmeSampler<'d>, IqgmeError> {
        let mut config = self.config.clone();
        config.model.seed = seed;
        let cells = data.x.iter().zip(&self.seen);
        let state = GibbsState {
            utilities: data.utilities.borrow().clone(),
            missing: cells.filter(|(_, seen)| !**seen).map(|(x, _)| *x).collect(),
            ..state.clone()
        };
        IqgmeSampler::resume(prepared, config, 0, state)
    }

    fn swept(
        &self,
        state: &GibbsState,
        data: &Data,
        seed: u64,
    ) -> std::result::Result<GibbsState, IqgmeError> {
        let prepared = self.data(data)?;
        let mut sampler = self.sampler(&prepared, state, data, seed)?;
        sampler.sweep()?;
        let state = sampler.state();
        data.utilities.replace(state.utilities.clone());
        Ok(state)
    }

    /// `P(class of a new row is not the first)`, of one that is complete and one with a hole, by the crate, at a state.
    fn predicted(
        &self,
        state: &GibbsState,
        data: &Data,
    ) -> std::result::Result<[f64; 2], IqgmeError> {
        let new = Table::new(2, P, vec![0.6, -0.3, 0.6, 0.0], &[true, true, true, false])?;
        let prepared = self.data(data)?;
        // Components without rows are drawn from their prior: from other numbers at every state.
        let seed = state.parameters.concentration.to_bits();
        let sampler = self.sampler(&prepared, state, data, seed)?;
        let probabilities = sampler.predict_classes(&new)?;
        Ok([1.0 - probabilities[0][0], 1.0 - probabilities[1][0]])
    }

    /// Labels and sticks, as many of these as the labels ask for.
    fn sticks(&self, concentration: f64, rng: &mut Xoshiro256PlusPlus) -> (Vec<u32>, Vec<f64>) {
        let mut ln_rests: Vec<f64> = Vec::new();
        let mut labels = Vec::new();
        for _ in 0..self.n_rows() {
            let mut u = rng.random::<f64>().ln();
            let mut h = 0;
            loop {
                if ln_rests.len() == h {
                    ln_rests.push(-exponential(rng) / concentration);
                }
                u -= ln_rests[h];
                // u is uniform on what is left of the stick: beyond the next piece with probability 1 - V.
                if u > 0.0 {
                    break;
                }
                h += 1;
            }
            labels.push(h as u32);
        }
        let n = labels.iter().max().map_or(1, |h| *h as usize + 1);
        ln_rests.truncate(n);
        (labels, ln_rests)
    }

    fn component(rng: &mut Xoshiro256PlusPlus) -> Option<DrawnComponent> {
        let scale = Mat::from_fn(P, P, |i, j| if i == j { 1.0 / (EXCESS - 1.0) } else { 0.0 });
        let wishart = Wishart::new(scale.as_ref(), P as f64 + EXCESS).ok()?;
        let law = NormalWishart::new(vec![0.0; P], STRENGTH, wishart).ok()?;
        let (mean, precision) = law.sample(rng);
        Some(DrawnComponent { mean, precision })
    }
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    Normal::new(0.0, 1.0).map_or(f64::NAN, |law| law.sample(rng))
}

fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(1.0, 1.0).map_or(f64::NAN, |law| law.sample(rng))
}

/// The class that utilities speak for.
fn class_of(t: &[f64]) -> usize {
    let best = (0..t.len()).fold(0, |best, k| if t[k] > t[best] { k } else { best });
    if t[best] > 0.0 { best + 1 } else { 0 }
}

impl JointModel for Model {
    type State = GibbsState;
    type Data = Data;

    fn names(&self) -> Vec<String> {
        [
            "concentration",
            "weight of a row's component",
            "components with rows",
            "missing cell of a labelled row",
            "another missing cell",
            "predicted probability",
            "predicted probability, a hole",
            "slope of a row's expert",
            "common slope",
            "mean of a row's component",
            "utility",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> GibbsState {
        let config = &self.config.model;
        let gamma = Gamma::new(config.concentration.shape, config.concentration.rate);
        let concentration = gamma.map_or(f64::NAN, |law| law.sample(rng));
        let (labels, ln_rests) = self.sticks(concentration, rng);
        let n = ln_rests.len();
        let components: Vec<DrawnComponent> = (0..n).filter_map(|_| Self::component(rng)).collect();
        let shared = NormalGamma::new(
            0.0,
            config.expert_mean_strength,
            config.expert.shape,
            config.expert.rate,
        );
        let draw = |rng: &mut Xoshiro256PlusPlus| match &shared {
            Ok(law) => law.sample(rng),
            Err(_) => (f64::NAN, 1.0),
        };
        let width = P + 1;
        let (expert_means, expert_precisions): (Vec<f64>, Vec<f64>) =
            (0..self.n_utilities() * width).map(|_| draw(rng)).unzip();
        let experts = (0..n * self.n_utilities())
            .map(|i| {
                let first = i % self.n_utilities() * width;
                let each = expert_means[first..]
                    .iter()
                    .zip(&expert_precisions[first..]);
                each.take(width)
                    .map(|(m, l)| m + normal(rng) / l.sqrt())
                    .collect()
            })
            .collect();
        GibbsState {
            sweep: 0,
            parameters: GibbsParameters {
                concentration,
                ln_rests,
                components,
                experts,
                expert_means,
                expert_precisions,
            },
            labels,
            utilities: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn simulate(&self, state: &GibbsState, rng: &mut Xoshiro256PlusPlus) -> Data {
        let n_utilities = self.n_utilities();
        let (mut data, mut utilities) = (
            Data {
                x: Vec::new(),
                classes: Vec::new(),
                utilities: RefCell::default(),
            },
            Vec::new(),
        );
        for (row, labelled) in self.labelled.iter().enumerate() {
            let h = state.labels[row] as usize;
            let component = &state.parameters.components[h];
            let mut x: Vec<f64> = (0..P).map(|_| normal(rng)).collect();
            match Cholesky::new(component.precision.as_ref()) {
                Ok(factor) => factor.solve_lt(&mut x),
                Err(_) => x.fill(f64::NAN),
            }
            x.iter_mut().zip(&component.mean).for_each(|(x, m)| *x += m);
            let utility = |w: &Vec<f64>| w[0] * x[0] + w[1] * x[1] + w[P] + normal(rng);
            let experts = &state.parameters.experts[h * n_utilities..][..n_utilities];
            let t: Vec<f64> = experts.iter().map(utility).collect();
            data.classes.push(class_of(&t));
            let kept = if *labelled { 1.0 } else { 0.0 };
            utilities.extend(t.iter().map(|t| kept * t));
            data.x.extend(x);
        }
        data.utilities.replace(utilities);
        data
    }

    fn sweep(&self, state: &mut GibbsState, data: &Data, rng: &mut Xoshiro256PlusPlus) {
        match self.swept(state, data, rng.next_u64()) {
            Ok(next) => *state = next,
            // Not a number is an alarm.
            Err(_) => state.parameters.concentration = f64::NAN,
        }
    }

    fn summary(&self, state: &GibbsState, data: &Data) -> Vec<f64> {
        let parameters = &state.parameters;
        let h = state.labels[0] as usize;
        let unseen: Vec<usize> = (0..self.seen.len())
            .filter(|&cell| !self.seen[cell])
            .collect();
        // The state that data are simulated from leaves the missing cells to them.
        let cell = |k: usize| state.missing.get(k).copied().unwrap_or(data.x[unseen[k]]);
        let predicted = self.predicted(state, data).unwrap_or([f64::NAN; 2]);
        let utility = data.utilities.borrow()[0];
        let mut used = state.labels.clone();
        used.sort_unstable();
        used.dedup();
        vec![
            parameters.concentration,
            parameters.weights().0[h],
            used.len() as f64,
            cell(0),
            cell(1),
            predicted[0],
            predicted[1],
            parameters.experts[h * self.n_utilities()][1],
            parameters.expert_means[1],
            parameters.components[h].mean[1],
            utility,
        ]
    }
}

fn calibrate(plan: &Plan, n_classes: usize) -> Result<Findings> {
    let n_rows = plan.scale.pick(10, 40, 100);
    let test = calibration::design(
        plan,
        [(20, 9, 5, 1), (1_000, 49, 100, 10), (2_000, 99, 500, 20)],
    );
    let model = Model::new(n_rows, n_classes);
    let setting = format!("rows={n_rows};features={P};classes={n_classes}");
    calibration::calibrate(&model, &test, &setting, METHOD)
}

fn false_alarms(plan: &Plan) -> Result<Findings> {
    let length = plan.scale.pick(5, 30, 200);
    let models = [("two classes", 2), ("three classes", 3)];
    let models = models.map(|(name, n_classes)| Ok((name, Model::new(8, n_classes))));
    alarms::findings(plan, models, (64, length), METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoke_checks_run_and_write_numbers() {
        npb_kit::testing::smoke(CHECKS);
    }
}
