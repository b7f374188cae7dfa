//! J never falls, and the sampler leaves the joint law alone.

use npb_infer::testing::{JointModel, JointTest};
use npb_priors::dist::Dirichlet;
use rand::RngExt;

use super::*;

fn random_table(n_users: usize, n_atoms: usize, spread: f64, seed: u64) -> LikelihoodTable {
    let mut rng = stream(seed, [0; 4]);
    let row = |_| {
        (0..n_atoms)
            .map(|_| -spread * rng.random::<f64>())
            .collect()
    };
    let rows: Vec<Vec<f64>> = (0..n_users).map(row).collect();
    LikelihoodTable::new(n_atoms, &rows, &vec![None; n_users]).unwrap()
}

#[test]
fn j_never_falls_and_has_one_maximum() {
    for seed in 0..30 {
        let spread = [0.1, 5.0, 300.0][seed as usize % 3];
        let table = random_table(1 + seed as usize, 2 + seed as usize % 7, spread, seed);
        let alpha: Vec<f64> = (1..=table.n_atoms()).map(|k| k as f64).collect();
        let mut em = FiniteEm::new(&table, 0.1 + seed as f64, &alpha).unwrap();
        let mut last = em.objective();
        for _ in 0..200 {
            let now = em.step();
            assert!(
                now >= last - 1e-12 * last.abs().max(1.0),
                "seed {seed}: {last} to {now}"
            );
            assert!((em.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
            last = now;
        }
    }
}

/// Users with one of three outcomes each; likelihoods are those of three known parameters.
struct Model {
    tau: f64,
    count_itself: bool,
}

const P: [[f64; 3]; 3] = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]];
const ALPHA: [f64; 3] = [0.5, 0.3, 0.2];

impl JointModel for Model {
    type State = Vec<u32>;
    type Data = Vec<usize>;

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = (0..3).map(|k| format!("users of {k}")).collect();
        names.extend((0..3).map(|k| format!("outcome 0 of {k}")));
        names.extend(["first", "together", "product"].map(str::to_owned));
        names
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
        let g = Dirichlet::new(ALPHA.iter().map(|a| a * self.tau).collect()).unwrap();
        let mut weights = [0.0; 3];
        g.sample(&mut weights, rng);
        let draw = |_| npb_priors::dist::pick(weights, rng.random()).unwrap() as u32;
        (0..5).map(draw).collect()
    }

    fn simulate(&self, labels: &Vec<u32>, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
        let outcome = |&k: &u32| npb_priors::dist::pick(P[k as usize], rng.random()).unwrap();
        labels.iter().map(outcome).collect()
    }

    fn sweep(&self, labels: &mut Vec<u32>, data: &Vec<usize>, rng: &mut Xoshiro256PlusPlus) {
        let rows: Vec<Vec<f64>> = data
            .iter()
            .map(|&y| P.iter().map(|p| p[y].ln()).collect())
            .collect();
        let table = LikelihoodTable::new(3, &rows, &[None; 5]).unwrap();
        let prior = prior(&table, self.tau, &ALPHA).unwrap();
        let mut sampler = FiniteSampler::with_labels(&table, prior, labels.clone()).unwrap();
        if self.count_itself {
            // The fault of a tired statistician: the user's own label stays in the counts.
            for user in 0..5 {
                let own = sampler.labels[user] as usize;
                sampler.counts[own] += 1;
                sampler.draw_label(user, rng);
                sampler.counts[own] -= 1;
            }
        } else {
            sampler.sweep(rng.random(), 0, 1);
        }
        *labels = sampler.labels;
    }

    fn summary(&self, labels: &Vec<u32>, data: &Vec<usize>) -> Vec<f64> {
        let count = |k: u32| labels.iter().filter(|&&l| l == k).count() as f64;
        let zeros = |k: u32| {
            labels
                .iter()
                .zip(data)
                .filter(|&(&l, &y)| l == k && y == 0)
                .count() as f64
        };
        let mut summary: Vec<f64> = (0..3).map(count).collect();
        summary.extend((0..3).map(zeros));
        summary.push(f64::from(labels[0]));
        summary.push(f64::from(u8::from(labels[0] == labels[1])));
        summary.push(f64::from(labels[0]) * data[0] as f64);
        summary
    }
}

#[test]
fn gibbs_leaves_the_joint_law_alone() {
    let test = JointTest {
        seed: 4,
        chains: 64,
        length: 1500,
        false_alarm: 0.001,
    };
    let right = test.run(&Model {
        tau: 2.0,
        count_itself: false,
    });
    assert!(right.passed(), "{right}");
    let wrong = test.run(&Model {
        tau: 2.0,
        count_itself: true,
    });
    assert!(!wrong.passed(), "{wrong}");
}

/// (6) of T: the prior counts like users, and the weights of all atoms sum to one.
#[test]
fn weights_given_labels_are_shares_of_users_and_prior() {
    let rows = vec![vec![0.0, -1.0]; 3];
    let table = LikelihoodTable::new(2, &rows, &[None; 3]).unwrap();
    let sampler = FiniteSampler::with_labels(&table, vec![1.5, 0.5], vec![0, 0, 1]).unwrap();
    assert_eq!(sampler.weights(), [3.5 / 5.0, 1.5 / 5.0]);
}
