//! Joint-distribution tests: of every move alone and of whole sweeps, and of copies with a fault that must fail.

mod exact;

use std::cell::RefCell;

use npb_data::{Labels, Table};
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::{JointModel, JointReport, JointTest, StepTest};
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, mat};
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, NormalGamma};
use rand::{Rng, RngExt};
use rand_distr::{Exp1, StandardNormal};

use super::*;
use crate::IqgmeConfig;
use crate::state::dot;
use state::DrawnComponent;

const P: usize = 2;

/// Rows: which features are seen, and whether the label is.
const ROWS: [([bool; P], bool); 8] = [
    ([true, true], true),
    ([true, true], true),
    ([true, false], true),
    ([true, true], true),
    ([false, false], true),
    ([false, true], true),
    ([true, true], false),
    ([true, false], false),
];

/// What is wrong with the sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Gamma shape of the experts' precisions half too large.
    HalfShape,
    /// Statistics of the rows are those from before the labels of components were swapped.
    StaleStats,
    /// The prior mean of the experts is left out.
    NoPriorMean,
    /// Missing features count as zeros that were seen.
    MaskIgnored,
    /// Gamma rate taken for a scale.
    RateAsScale,
    /// Splits and merges with another concentration than that of the state.
    WrongRatio,
    /// Neighbouring labels are swapped without regard to their sticks.
    FreeSwaps,
    /// All moves of a sweep draw from the same streams.
    SharedStreams,
    /// Labels are swapped as often as there are labels up to the largest one, which swaps change.
    CountedSwaps,
}

struct Model {
    config: GibbsConfig,
    n_classes: usize,
    fault: Fault,
}

fn model(moves: &[GibbsMove], n_classes: usize, fault: Fault) -> Model {
    Model {
        config: GibbsConfig {
            model: IqgmeConfig {
                concentration: GammaPrior {
                    shape: 3.0,
                    rate: 2.0,
                },
                mean_strength: 0.7,
                dof_excess: 6.0,
                dof_per_feature: 0.0,
                expert: GammaPrior {
                    shape: 4.0,
                    rate: 3.0,
                },
                expert_mean_strength: 1.5,
                ..IqgmeConfig::default()
            },
            moves: moves.to_vec(),
            ..GibbsConfig::default()
        },
        n_classes,
        fault,
    }
}

/// Everything that was simulated. What the sweep draws of it again is put in place.
struct Data {
    /// All features, by row.
    x: Vec<f64>,
    classes: Vec<usize>,
    utilities: RefCell<Vec<f64>>,
    missing: RefCell<Vec<f64>>,
}

impl Data {
    /// Features of row `i`, the missing ones as they are now.
    fn row(&self, i: usize) -> [f64; P] {
        let before: usize = ROWS[..i]
            .iter()
            .flat_map(|(seen, _)| seen)
            .filter(|s| !**s)
            .count();
        let missing = self.missing.borrow();
        let mut missing = missing[before..].iter();
        std::array::from_fn(|j| {
            if ROWS[i].0[j] {
                self.x[i * P + j]
            } else {
                *missing.next().unwrap()
            }
        })
    }
}

impl Model {
    fn n_utilities(&self) -> usize {
        self.n_classes - 1
    }

    fn covariance(&self) -> Mat<f64> {
        mat![[1.0, 0.3], [0.3, 1.4]]
    }

    fn law(&self) -> Prior {
        Prior::new(&self.config.model, &self.covariance(), self.n_utilities()).unwrap()
    }

    fn faulty(&self, seed: u64) -> GibbsConfig {
        let mut config = self.config.clone();
        config.model.seed = seed;
        match self.fault {
            Fault::HalfShape => config.model.expert.shape += 0.5,
            Fault::RateAsScale => config.model.concentration.rate = 0.5,
            _ => {}
        }
        config
    }

    fn data(&self, data: &Data) -> IqgmeData {
        let seen: Vec<bool> = ROWS
            .iter()
            .flat_map(|(seen, _)| seen.map(|s| s || self.fault == Fault::MaskIgnored))
            .collect();
        let values = data.x.iter().zip(ROWS.iter().flat_map(|(seen, _)| seen));
        let values = values
            .map(|(x, seen)| if *seen { *x } else { 0.0 })
            .collect();
        let table = Table::new(ROWS.len(), P, values, &seen).unwrap();
        let classes: Vec<String> = (0..self.n_classes).map(|k| k.to_string()).collect();
        let codes = ROWS.iter().zip(&data.classes);
        let codes = codes.map(|((_, labelled), class)| labelled.then_some(*class));
        let labels = Labels::from_codes(classes.clone(), codes.collect()).unwrap();
        IqgmeData::in_given_units(&table, &labels, &classes, &self.covariance()).unwrap()
    }

    fn moves(&self, sampler: &mut IqgmeSampler<'_>) -> Result<(), IqgmeError> {
        sampler.sweep += 1;
        for &step in &self.config.moves {
            if self.fault == Fault::SharedStreams {
                sampler.uses = 0;
            }
            match (self.fault, step) {
                (Fault::StaleStats, GibbsMove::Swaps) => {
                    let n = sampler.parameters.components.len();
                    let stale = sampler.refresh();
                    sampler.apply(step)?;
                    if sampler.parameters.components.len() == n {
                        sampler.stats = Some(stale);
                    }
                }
                (Fault::NoPriorMean, GibbsMove::Experts) => {
                    let zeros = vec![0.0; sampler.parameters.expert_means.len()];
                    let means = std::mem::replace(&mut sampler.parameters.expert_means, zeros);
                    sampler.apply(step)?;
                    sampler.parameters.expert_means = means;
                }
                (Fault::WrongRatio, GibbsMove::SplitMerge) => {
                    sampler.parameters.concentration *= 2.0;
                    sampler.apply(step)?;
                    sampler.parameters.concentration *= 0.5;
                    sampler.apply(GibbsMove::Sticks)?;
                }
                (Fault::CountedSwaps, GibbsMove::Swaps) => {
                    for _ in 0..sampler.parameters.components.len() {
                        sampler.apply(step)?;
                    }
                }
                (Fault::FreeSwaps, GibbsMove::Swaps) => {
                    if sampler.parameters.components.len() > 1 {
                        sampler.swap_atoms(0, 1);
                        for label in &mut sampler.labels {
                            *label = match *label {
                                0 => 1,
                                1 => 0,
                                other => other,
                            };
                        }
                        sampler.stats = None;
                        sampler.trim();
                    }
                }
                _ => sampler.apply(step)?,
            }
        }
        Ok(())
    }
}

fn region(t: &[f64]) -> usize {
    let best = crate::answers::most_probable(t);
    if t[best] > 0.0 { best + 1 } else { 0 }
}

impl JointModel for Model {
    type State = GibbsState;
    type Data = Data;

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = [
            "concentration",
            "components",
            "label",
            "together",
            "size of the first",
            "first stick",
            "mean",
            "mean 2",
            "ln det",
            "off-diagonal",
            "slope",
            "slope 2",
            "intercept",
            "zeta",
            "ln lambda",
            "class",
            "missing labelled",
            "missing unlabelled",
            "all missing",
            "utility",
            "utility x",
            "deviation",
            "deviation of missing",
            "residual",
            "concentration x sticks",
            "concentration x largest label",
            "experts about their prior",
            "lambda x experts",
        ]
        .map(str::to_owned)
        .to_vec();
        if self.n_utilities() > 1 {
            names.extend(
                ["slope, k 2", "utility, k 2", "residual, k 2", "zeta, k 2"].map(str::to_owned),
            );
        }
        names
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> GibbsState {
        let (law, config) = (self.law(), &self.config.model);
        let concentration = Gamma::new(config.concentration.shape, config.concentration.rate)
            .unwrap()
            .sample(rng);
        let mut ln_rests: Vec<f64> = Vec::new();
        let mut labels = Vec::new();
        for _ in ROWS {
            let mut u: f64 = rng.random();
            let mut h = 0;
            let mut rest = 1.0;
            loop {
                if ln_rests.len() == h {
                    ln_rests.push(-rng.sample::<f64, _>(Exp1) / concentration);
                }
                let next = rest * ln_rests[h].exp();
                u -= rest - next;
                if u < 0.0 {
                    break;
                }
                rest = next;
                h += 1;
            }
            labels.push(h as u32);
        }
        let n = *labels.iter().max().unwrap() as usize + 1;
        ln_rests.truncate(n);
        let mut components = Vec::new();
        for _ in 0..n {
            let (mean, precision) = law.expected.law.sample(rng);
            components.push(DrawnComponent { mean, precision });
        }
        let (mut expert_means, mut expert_precisions) = (Vec::new(), Vec::new());
        for _ in 0..self.n_utilities() * (P + 1) {
            let prior = NormalGamma::new(
                0.0,
                config.expert_mean_strength,
                config.expert.shape,
                config.expert.rate,
            );
            let (mean, precision) = prior.unwrap().sample(rng);
            expert_means.push(mean);
            expert_precisions.push(precision);
        }
        let experts = (0..n * self.n_utilities())
            .map(|i| {
                let first = i % self.n_utilities() * (P + 1);
                let means = &expert_means[first..][..=P];
                let law = (means, &expert_precisions[first..][..=P]);
                parameters::draw_prior_expert(law, rng)
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
        let (mut x, mut classes, mut utilities, mut missing) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (i, (seen, labelled)) in ROWS.iter().enumerate() {
            let h = state.labels[i] as usize;
            let component = &state.parameters.components[h];
            let factor = Cholesky::new(component.precision.as_ref()).unwrap();
            let mut row: Vec<f64> = (0..P).map(|_| rng.sample(StandardNormal)).collect();
            factor.solve_lt(&mut row);
            row.iter_mut()
                .zip(&component.mean)
                .for_each(|(x, m)| *x += m);
            let t: Vec<f64> = (0..n_utilities)
                .map(|k| {
                    let w = &state.parameters.experts[h * n_utilities + k];
                    dot(&w[..P], &row) + w[P] + rng.sample::<f64, _>(StandardNormal)
                })
                .collect();
            classes.push(region(&t));
            utilities.extend(t.iter().map(|t| if *labelled { *t } else { 0.0 }));
            missing.extend((0..P).filter(|&j| !seen[j]).map(|j| row[j]));
            x.extend(row);
        }
        Data {
            x,
            classes,
            utilities: RefCell::new(utilities),
            missing: RefCell::new(missing),
        }
    }

    fn sweep(&self, state: &mut GibbsState, data: &Data, rng: &mut Xoshiro256PlusPlus) {
        let prepared = self.data(data);
        let before = GibbsState {
            utilities: data.utilities.borrow().clone(),
            missing: match self.fault {
                Fault::MaskIgnored => Vec::new(),
                _ => data.missing.borrow().clone(),
            },
            ..state.clone()
        };
        let config = self.faulty(rng.next_u64());
        let mut sampler = IqgmeSampler::resume(&prepared, config, 0, before).unwrap();
        self.moves(&mut sampler).unwrap();
        let after = sampler.state();
        data.utilities.replace(after.utilities.clone());
        if self.fault != Fault::MaskIgnored {
            data.missing.replace(after.missing.clone());
        }
        *state = after;
    }

    fn summary(&self, state: &GibbsState, data: &Data) -> Vec<f64> {
        let n_utilities = self.n_utilities();
        let parameters = &state.parameters;
        let component = |i: usize| &parameters.components[state.labels[i] as usize];
        let expert =
            |i: usize, k: usize| &parameters.experts[state.labels[i] as usize * n_utilities + k];
        let (missing, utilities) = (data.missing.borrow(), data.utilities.borrow());
        let mut labels = state.labels.clone();
        labels.sort_unstable();
        labels.dedup();
        let precision = &component(0).precision;
        let distance = |i: usize| {
            let x = data.row(i);
            let d: Vec<f64> = (0..P).map(|j| x[j] - component(i).mean[j]).collect();
            let m = &component(i).precision;
            (0..P)
                .map(|j| d[j] * (0..P).map(|l| m[(j, l)] * d[l]).sum::<f64>())
                .sum::<f64>()
        };
        let residual = |i: usize, k: usize| {
            let (x, w) = (data.row(i), expert(i, k));
            utilities[i * n_utilities + k] - dot(&w[..P], &x) - w[P]
        };
        // Of components with rows, each as often as it has some.
        let own = || labelled_experts(state, n_utilities);
        let about = own().map(|(expert, k)| {
            let first = k * (P + 1);
            let terms = (0..=P).map(|p| {
                let apart = expert[p] - parameters.expert_means[first + p];
                parameters.expert_precisions[first + p] * apart * apart
            });
            terms.sum::<f64>()
        });
        let about: f64 = about.sum();
        let with_precision = own().map(|(expert, k)| {
            parameters.expert_precisions[k * (P + 1) + 1].ln() * expert[1] * expert[1]
        });
        let with_precision: f64 = with_precision.sum();
        let sticks: f64 = parameters.ln_rests.iter().sum();
        let largest = f64::from(1 + *state.labels.iter().max().unwrap());
        let mut summary = vec![
            parameters.concentration,
            labels.len() as f64,
            f64::from(state.labels[0]),
            f64::from(u8::from(state.labels[0] == state.labels[2])),
            state.labels.iter().filter(|l| **l == 0).count() as f64,
            parameters.ln_rests.first().copied().unwrap_or(0.0),
            component(0).mean[0],
            component(2).mean[1],
            Cholesky::new(precision.as_ref()).unwrap().ln_det(),
            precision[(0, 1)],
            expert(0, 0)[0],
            expert(2, 0)[1],
            expert(4, 0)[P],
            parameters.expert_means[0],
            parameters.expert_precisions[1].ln(),
            data.classes[0] as f64,
            missing[0],
            missing[4],
            missing[1] * missing[2],
            utilities[2 * n_utilities],
            utilities[0] * data.x[0],
            distance(0),
            distance(2) + distance(5),
            residual(2, 0),
            parameters.concentration * sticks,
            parameters.concentration * largest,
            about,
            with_precision,
        ];
        if n_utilities > 1 {
            summary.extend([
                expert(2, 1)[1],
                utilities[2 * n_utilities + 1],
                residual(2, 1),
                parameters.expert_means[P + 2],
            ]);
        }
        summary
    }
}

/// The experts of all rows with their utilities.
fn labelled_experts(
    state: &GibbsState,
    n_utilities: usize,
) -> impl Iterator<Item = (&Vec<f64>, usize)> {
    state.labels.iter().flat_map(move |&h| {
        let first = h as usize * n_utilities;
        (0..n_utilities).map(move |k| (&state.parameters.experts[first + k], k))
    })
}

const TEST: StepTest = StepTest {
    seed: 1,
    replications: 4000,
    false_alarm: 0.001,
};

/// Each of these moves alone.
fn assert_right(moves: &[GibbsMove], n_classes: usize) {
    let report = |step: &GibbsMove| TEST.run(&model(&[*step], n_classes, Fault::None));
    let failed: Vec<String> = moves
        .iter()
        .map(|step| (step, report(step)))
        .filter(|(_, report)| !report.passed())
        .map(|(step, report)| format!("{step:?}: {report}"))
        .collect();
    assert!(
        failed.is_empty(),
        "{n_classes} classes: {}",
        failed.join("\n")
    );
}

#[test]
fn each_move_alone_keeps_the_joint_law() {
    assert_right(&[GibbsMove::Sticks], 2);
    assert_right(&GibbsMove::SWEEP, 2);
}

#[test]
fn moves_with_three_classes_keep_the_joint_law() {
    let moves = [
        GibbsMove::Rows,
        GibbsMove::SplitMerge,
        GibbsMove::Experts,
        GibbsMove::ExpertPrior,
    ];
    assert_right(&moves, 3);
}

/// Swaps change which labels are in use, so how many are made must not depend on that.
#[test]
fn swaps_leave_the_largest_label_as_it_is_on_average() {
    let right = change_of_largest_label(Fault::None);
    assert!(right < 4.5, "{right}");
    let counted = change_of_largest_label(Fault::CountedSwaps);
    assert!(counted > 4.5, "{counted}");
}

/// What each further stick leaves is `U^(1 / alpha)` of what was left: its logarithm has the mean and standard deviation `1 / alpha`.
#[test]
fn sticks_go_on_by_the_concentration() {
    let model = model(&[GibbsMove::Concentration], 2, Fault::None);
    let mut logs = Vec::new();
    for chain in 0..2000 {
        let rng = &mut npb_infer::stream(2, [chain, 0, 0, 0]);
        let mut state = model.prior(rng);
        state.parameters.concentration = 2.5;
        let data = model.simulate(&state, rng);
        let prepared = model.data(&data);
        state.utilities = data.utilities.borrow().clone();
        state.missing = data.missing.borrow().clone();
        let mut config = model.config.clone();
        config.model.seed = chain;
        let n = state.parameters.ln_rests.len();
        let mut sampler = IqgmeSampler::resume(&prepared, config, 0, state).unwrap();
        let rest = sampler.parameters.weights().1;
        sampler.extend_below(1e-3 * rest).unwrap();
        logs.extend(
            sampler
                .parameters
                .ln_rests
                .get(n)
                .map(|ln| vec![*ln, ln * ln]),
        );
    }
    assert!(logs.len() > 1900);
    let z = npb_infer::testing::largest_z(&logs, &[-0.4, 0.32]);
    assert!(z < 4.0, "{z}");
}

/// The z-score of its mean change in one move from draws of the prior.
fn change_of_largest_label(fault: Fault) -> f64 {
    let model = model(&[GibbsMove::Swaps], 2, fault);
    let each = |chain: u64| {
        let rng = &mut npb_infer::stream(1, [chain, 0, 0, 0]);
        let mut state = model.prior(rng);
        let data = model.simulate(&state, rng);
        let before = state.parameters.components.len() as f64;
        model.sweep(&mut state, &data, rng);
        vec![state.parameters.components.len() as f64 - before]
    };
    let changes: Vec<Vec<f64>> = parallel::map(0..40_000, each);
    npb_infer::testing::largest_z(&changes, &[0.0])
}

/// Chains of whole sweeps.
fn long(model: &Model) -> JointReport {
    let test = JointTest {
        seed: 1,
        chains: 400,
        length: 10,
        false_alarm: 0.001,
    };
    test.run(model)
}

#[test]
fn whole_sweeps_keep_the_joint_law() {
    for n_classes in [2, 3] {
        let report = long(&model(&GibbsMove::SWEEP, n_classes, Fault::None));
        assert!(report.passed(), "{n_classes} classes: {report}");
    }
}

/// Any list of moves leaves the posterior as it is, one that repeats itself too.
#[test]
fn moves_made_twice_keep_the_joint_law() {
    let twice = GibbsMove::SWEEP.map(|step| [step, step]).concat();
    let report = long(&model(&twice, 2, Fault::None));
    assert!(report.passed(), "{report}");
}

#[test]
fn streams_that_moves_share_are_noticed() {
    // Sticks drawn again with the numbers that had a say in the swaps.
    let moves = [[GibbsMove::Sticks, GibbsMove::Swaps]; 4].concat();
    let test = JointTest {
        seed: 1,
        chains: 10_000,
        length: 4,
        false_alarm: 0.001,
    };
    for fault in [Fault::None, Fault::SharedStreams] {
        let report = test.run(&model(&moves, 2, fault));
        assert_eq!(report.passed(), fault == Fault::None, "{report}");
    }
}

fn assert_caught(fault: Fault) {
    assert_caught_by(&GibbsMove::SWEEP, fault);
}

fn assert_caught_by(moves: &[GibbsMove], fault: Fault) {
    assert_caught_in(2, moves, fault);
}

fn assert_caught_in(n_classes: usize, moves: &[GibbsMove], fault: Fault) {
    let report = TEST.run(&model(moves, n_classes, fault));
    assert!(
        !report.passed(),
        "{fault:?} was not noticed, {n_classes} classes: {report}"
    );
}

#[test]
fn faults_with_three_classes_are_noticed() {
    use Fault::{HalfShape, MaskIgnored, NoPriorMean, RateAsScale};
    for fault in [HalfShape, NoPriorMean, MaskIgnored, RateAsScale] {
        assert_caught_in(3, &GibbsMove::SWEEP, fault);
    }
}

#[test]
fn faults_are_noticed() {
    for fault in [
        Fault::HalfShape,
        Fault::NoPriorMean,
        Fault::MaskIgnored,
        Fault::RateAsScale,
    ] {
        assert_caught(fault);
    }
}

#[test]
fn stale_statistics_are_noticed() {
    assert_caught_by(
        &[GibbsMove::Swaps, GibbsMove::Components],
        Fault::StaleStats,
    );
}

#[test]
fn moves_of_labels_with_a_wrong_ratio_are_noticed() {
    assert_caught_by(&[GibbsMove::SplitMerge], Fault::WrongRatio);
    assert_caught_by(&[GibbsMove::Swaps], Fault::FreeSwaps);
}
