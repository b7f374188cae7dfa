//! Every move leaves the joint law of state and data alone; planted faults of half a unit do not. Partitions of three users are visited as often as they should be.

use npb_infer::testing::{Exact, ExactTest, JointModel, JointReport, JointTest, partitions};
use npb_infer::{SweepPlan, Xoshiro256PlusPlus};
use npb_linalg::dot;
use npb_priors::dist::Gamma;
use npb_priors::dp::{cluster_count_moments, ln_partition_probability, sample_urn};
use npb_priors::{GammaPrior, special::normal_cdf};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::{
    AtomRule, BernoulliItems, GaussianPrior, Likes, LinearTask, ProbitTask, Task, UserModel,
};

const CONCENTRATION: GammaPrior = GammaPrior {
    shape: 2.0,
    rate: 1.0,
};
const USERS: usize = 4;

fn config(moves: &[DpMove], seed: u64) -> DpGibbsConfig {
    DpGibbsConfig {
        moves: moves.to_vec(),
        concentration: CONCENTRATION,
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 0,
            keep: 1,
            thin: 1,
        },
        stored_draws: 1,
        seed,
    }
}

/// What differs between user models in a joint test.
trait Family: GibbsModel + Sync {
    fn simulate(&self, parameter: &Self::Parameter, rng: &mut Xoshiro256PlusPlus) -> Self::Data;
    /// A few numbers that say all of a parameter.
    fn numbers(&self, parameter: &Self::Parameter) -> Vec<f64>;
    /// The data as a number.
    fn datum(&self, data: &Self::Data) -> f64;
}

impl Family for BernoulliItems {
    fn simulate(&self, parameter: &Vec<[f64; 2]>, rng: &mut Xoshiro256PlusPlus) -> Likes {
        let like =
            |(item, ln_p): (usize, &[f64; 2])| (item as u32, rng.random::<f64>() < ln_p[0].exp());
        let pairs: Vec<(u32, bool)> = parameter.iter().enumerate().map(like).collect();
        Likes::new(self.n_items(), &pairs).unwrap()
    }

    fn numbers(&self, parameter: &Vec<[f64; 2]>) -> Vec<f64> {
        parameter.iter().map(|ln_p| ln_p[0] - ln_p[1]).collect()
    }

    fn datum(&self, data: &Likes) -> f64 {
        data.iter()
            .map(|(item, liked)| f64::from(liked) * (1.0 + item as f64))
            .sum()
    }
}

const ROWS: [f64; 4] = [1.0, 0.5, 1.0, -1.5];

impl Family for LinearTask {
    fn simulate(&self, w: &Vec<f64>, rng: &mut Xoshiro256PlusPlus) -> Task<f64> {
        let y = |x: &[f64]| {
            let z: f64 = StandardNormal.sample(rng);
            dot(x, w) + 0.7_f64.sqrt() * z
        };
        Task::new(2, &ROWS, &ROWS.chunks(2).map(y).collect::<Vec<_>>()).unwrap()
    }

    fn numbers(&self, w: &Vec<f64>) -> Vec<f64> {
        w.clone()
    }

    fn datum(&self, data: &Task<f64>) -> f64 {
        data.responses()[0] - 0.5 * data.responses()[1]
    }
}

impl Family for ProbitTask {
    fn simulate(&self, atom: &crate::TaskAtom, rng: &mut Xoshiro256PlusPlus) -> Task<bool> {
        let y = |x: &[f64]| rng.random::<f64>() < normal_cdf(dot(x, &atom.coefficients));
        Task::new(2, &ROWS, &ROWS.chunks(2).map(y).collect::<Vec<_>>()).unwrap()
    }

    fn numbers(&self, atom: &crate::TaskAtom) -> Vec<f64> {
        atom.coefficients.clone()
    }

    fn datum(&self, data: &Task<bool>) -> f64 {
        f64::from(data.responses()[0]) - 2.0 * f64::from(data.responses()[1])
    }
}

/// What a tired statistician might get wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The concentration is too large by this factor while the moves are made.
    Factor(f64),
    /// The gamma prior of the concentration has half a unit of shape too much.
    Shape,
}

struct Joint<U> {
    model: U,
    /// The model that the sampler believes in.
    believed: U,
    moves: Vec<DpMove>,
    fault: Fault,
}

impl<U: Family + Clone> Joint<U> {
    fn new(model: U, moves: &[DpMove]) -> Self {
        Self {
            believed: model.clone(),
            model,
            moves: moves.to_vec(),
            fault: Fault::None,
        }
    }

    fn with(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    fn believing(mut self, believed: U) -> Self {
        self.believed = believed;
        self
    }
}

impl<U: Family<Parameter: Send> + Sync> JointModel for Joint<U>
where
    U::Data: Send,
{
    type State = DpState<U::Parameter>;
    type Data = Vec<U::Data>;

    fn names(&self) -> Vec<String> {
        let mut names = vec!["concentration".to_owned(), "clusters".to_owned()];
        names.extend((1..USERS).map(|user| format!("0 with {user}")));
        for user in 0..USERS {
            names.extend((0..2).map(|k| format!("theta {k} of {user}")));
            names.extend((0..2).map(|k| format!("theta {k} of {user}, times data")));
        }
        names.push("data of 0 where with 1".to_owned());
        names.push("concentration times clusters".to_owned());
        names.push("clusters less their expectation given the concentration".to_owned());
        names
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> Self::State {
        let prior = Gamma::new(CONCENTRATION.shape, CONCENTRATION.rate).unwrap();
        let concentration = prior.sample(rng);
        let labels = sample_urn(USERS, concentration, rng);
        let n = labels.iter().max().unwrap() + 1;
        DpState {
            labels: labels.iter().map(|&label| label as u32).collect(),
            parameters: (0..n).map(|_| self.model.draw_prior(rng)).collect(),
            concentration,
        }
    }

    fn simulate(&self, state: &Self::State, rng: &mut Xoshiro256PlusPlus) -> Self::Data {
        let user = |&label: &u32| self.model.simulate(&state.parameters[label as usize], rng);
        state.labels.iter().map(user).collect()
    }

    fn sweep(&self, state: &mut Self::State, data: &Self::Data, rng: &mut Xoshiro256PlusPlus) {
        let data: Vec<&U::Data> = data.iter().collect();
        let mut config = config(&self.moves, rng.next_u64());
        if self.fault == Fault::Shape {
            config.concentration.shape += 0.5;
        }
        let factor = if let Fault::Factor(factor) = self.fault {
            factor
        } else {
            1.0
        };
        state.concentration *= factor;
        let mut sampler =
            DpSampler::resume(&self.believed, &data, &config, 0, state.clone(), 0).unwrap();
        sampler.sweep().unwrap();
        *state = sampler.state;
        state.concentration /= factor;
    }

    fn summary(&self, state: &Self::State, data: &Self::Data) -> Vec<f64> {
        let clusters = state.parameters.len() as f64;
        let mut summary = vec![state.concentration, clusters];
        let with = |user: usize| f64::from(u8::from(state.labels[0] == state.labels[user]));
        summary.extend((1..USERS).map(with));
        for (user, data) in data.iter().enumerate() {
            let numbers = self
                .model
                .numbers(&state.parameters[state.labels[user] as usize]);
            let datum = self.model.datum(data);
            summary.extend(&numbers[..2]);
            summary.extend(numbers[..2].iter().map(|number| number * datum));
        }
        summary.push(with(1) * self.model.datum(&data[0]));
        summary.push(state.concentration * clusters);
        summary.push(clusters - cluster_count_moments(USERS, state.concentration).0);
        summary
    }
}

fn run<U: Family<Parameter: Send> + Sync>(joint: &Joint<U>, length: usize) -> JointReport
where
    U::Data: Send,
{
    let test = JointTest {
        seed: 11,
        chains: 64,
        length,
        false_alarm: 0.001,
    };
    test.run(joint)
}

fn bernoulli(extra: f64) -> BernoulliItems {
    BernoulliItems::new(vec![[0.8 + extra, 1.2], [1.5, 0.6]]).unwrap()
}

fn gaussian(variance: f64) -> GaussianPrior {
    GaussianPrior::isotropic(2, variance).unwrap()
}

const AUXILIARY: DpMove = DpMove::Auxiliary { components: 3 };

/// Each assignment move with the least that makes parameters move too, and by itself.
#[test]
fn moves_leave_the_joint_law_alone() {
    let alone = [
        vec![DpMove::Escobar],
        vec![DpMove::Collapsed],
        vec![AUXILIARY],
        vec![DpMove::Auxiliary { components: 1 }],
        vec![DpMove::Blocked],
        vec![DpMove::Parameters],
        vec![DpMove::Concentration],
    ];
    for moves in &alone {
        let report = run(&Joint::new(bernoulli(0.0), moves), 400);
        assert!(report.passed(), "{moves:?}: {report}");
    }
    let assigning = [
        DpMove::Escobar,
        DpMove::Collapsed,
        AUXILIARY,
        DpMove::Blocked,
    ];
    for first in assigning {
        let moves = [first, DpMove::Parameters, DpMove::Concentration];
        let report = run(&Joint::new(bernoulli(0.0), &moves), 600);
        assert!(report.passed(), "{moves:?}: {report}");
    }
}

#[test]
fn linear_and_probit_users_leave_the_joint_law_alone() {
    let moves = [DpMove::Escobar, DpMove::Parameters, DpMove::Blocked];
    let linear = LinearTask::new(gaussian(1.5), 0.7).unwrap();
    let report = run(&Joint::new(linear, &moves), 600);
    assert!(report.passed(), "{report}");
    let moves = [AUXILIARY, DpMove::Parameters, DpMove::Concentration];
    let report = run(&Joint::new(ProbitTask::new(gaussian(1.5)), &moves), 600);
    assert!(report.passed(), "{report}");
}

/// Wrong by a half, each where the move could be: base distribution of draws and of the evidence, share of candidates, weight of the sticks, prior of tau.
#[test]
fn faults_are_found() {
    let long = 2000;
    for first in [
        DpMove::Escobar,
        DpMove::Collapsed,
        AUXILIARY,
        DpMove::Blocked,
        DpMove::Parameters,
    ] {
        let joint = Joint::new(bernoulli(0.0), &[first]).believing(bernoulli(0.5));
        let report = run(&joint, long);
        assert!(!report.passed(), "shape off by a half, {first:?}: {report}");
    }
    for first in [
        DpMove::Escobar,
        DpMove::Collapsed,
        AUXILIARY,
        DpMove::Blocked,
    ] {
        let moves = [first, DpMove::Parameters];
        let joint = Joint::new(bernoulli(0.0), &moves).with(Fault::Factor(1.5));
        let report = run(&joint, long);
        assert!(
            !report.passed(),
            "weight of new clusters, {first:?}: {report}"
        );
    }
    let moves = [AUXILIARY, DpMove::Parameters, DpMove::Concentration];
    let report = run(&Joint::new(bernoulli(0.0), &moves).with(Fault::Shape), long);
    assert!(!report.passed(), "shape of the concentration: {report}");
    let linear = LinearTask::new(gaussian(1.5), 0.7).unwrap();
    let doubtful = LinearTask::new(gaussian(1.5), 0.7 * 1.5).unwrap();
    let joint = Joint::new(linear, &[DpMove::Escobar, DpMove::Parameters]);
    let report = run(&joint.believing(doubtful), long);
    assert!(!report.passed(), "noise variance: {report}");
    let probit = ProbitTask::new(gaussian(1.5));
    let joint = Joint::new(probit, &[AUXILIARY, DpMove::Parameters]);
    let report = run(&joint.believing(ProbitTask::new(gaussian(1.0))), long);
    assert!(!report.passed(), "prior variance: {report}");
}

fn canonical(labels: &[u32]) -> Vec<usize> {
    let mut seen = Vec::new();
    let place = |label: &u32| {
        seen.iter().position(|s| s == label).unwrap_or_else(|| {
            seen.push(*label);
            seen.len() - 1
        })
    };
    labels.iter().map(place).collect()
}

/// The five partitions of three users, with the evidence of each cluster's pooled data.
#[test]
fn three_users_visit_their_five_partitions() {
    let model = bernoulli(0.0);
    let likes = |a: bool, b: bool| Likes::new(2, &[(0, a), (1, b)]).unwrap();
    let users = [likes(true, true), likes(true, false), likes(false, false)];
    let data: Vec<&Likes> = users.iter().collect();
    let tau = 1.3;
    let ln_weight = |tables: &Vec<usize>| {
        let n = tables.iter().max().unwrap() + 1;
        let counts: Vec<usize> = (0..n)
            .map(|k| tables.iter().filter(|&&t| t == k).count())
            .collect();
        let evidence = |k: usize| {
            let members = (0..3)
                .filter(|&user| tables[user] == k)
                .map(|user| (data[user], 1.0));
            let pooled = model.fit_weighted(&members.collect::<Vec<_>>()).unwrap();
            model.ln_evidence(&pooled)
        };
        ln_partition_probability(&counts, tau) + (0..n).map(evidence).sum::<f64>()
    };
    let exact = Exact::new(partitions(3), ln_weight);
    assert_eq!(exact.points().len(), 5);
    let test = ExactTest {
        seed: 5,
        chains: 64,
        length: 400,
        false_alarm: 0.001,
    };
    let visits = |first: DpMove, factor: f64| {
        let sweep = |tables: &mut Vec<usize>, rng: &mut Xoshiro256PlusPlus| {
            let n = tables.iter().max().unwrap() + 1;
            let state = DpState {
                labels: tables.iter().map(|&t| t as u32).collect(),
                parameters: (0..n).map(|_| model.draw_prior(rng)).collect(),
                concentration: factor * tau,
            };
            // Parameters given the partition first: then the pair has its exact law.
            let config = config(&[DpMove::Parameters, first], rng.next_u64());
            let mut sampler = DpSampler::resume(&model, &data, &config, 0, state, 0).unwrap();
            sampler.sweep().unwrap();
            *tables = canonical(&sampler.state.labels);
        };
        test.run(&exact, Vec::clone, sweep, Vec::clone)
    };
    for first in [
        DpMove::Escobar,
        DpMove::Collapsed,
        AUXILIARY,
        DpMove::Blocked,
    ] {
        let right = visits(first, 1.0);
        assert!(right.passed(), "{first:?}: {right}");
        let wrong = visits(first, 1.5);
        assert!(!wrong.passed(), "{first:?}: {wrong}");
    }
}

/// One step of a weighted fit that counts everybody once is the pooled fit; the evidence is a chain of predictions.
#[test]
fn evidence_is_the_product_of_predictions() {
    let model = bernoulli(0.0);
    let first = Likes::new(2, &[(0, true)]).unwrap();
    let both = Likes::new(2, &[(0, true), (1, false)]).unwrap();
    let (one, two) = (model.fit(&first).unwrap(), model.fit(&both).unwrap());
    let step = model.ln_evidence(&two) - model.ln_evidence(&one);
    assert!((step - (1.0 - model.predict_alone(&one, &1)).ln()).abs() < 1e-12);
    // Two users who share an item: the second is predicted from the first.
    let pooled = model.fit_weighted(&[(&both, 1.0), (&first, 1.0)]).unwrap();
    let step = model.ln_evidence(&pooled) - model.ln_evidence(&two);
    assert!((step - model.predict_alone(&two, &0).ln()).abs() < 1e-12);
    let linear = LinearTask::new(gaussian(1.5), 0.7).unwrap();
    let (x, y) = ([1.0, 0.5], 0.3);
    let none = linear.fit(&Task::new(2, &[], &[]).unwrap()).unwrap();
    assert!(linear.ln_evidence(&none).abs() < 1e-12);
    let one = linear.fit(&Task::new(2, &x, &[y]).unwrap()).unwrap();
    let variance: f64 = 0.7 + 1.5 * 1.25;
    let exact = -0.5 * (y * y / variance + (std::f64::consts::TAU * variance).ln());
    assert!((linear.ln_evidence(&one) - exact).abs() < 1e-12);
    assert_eq!(
        linear.atom(&one, AtomRule::Map),
        linear.atom(&one, AtomRule::Mean)
    );
}
