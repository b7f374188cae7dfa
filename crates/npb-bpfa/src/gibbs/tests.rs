//! Joint-distribution tests: of every move, alone or with the least that makes it ergodic, and of copies with a fault that must fail.

use npb_infer::SweepPlan;
use npb_infer::testing::{Exact, ExactTest, JointModel, JointTest, assignments};
use npb_priors::GammaPrior;
use npb_priors::dist::{Beta, Gamma};
use rand_distr::StandardNormal;

use super::*;
use crate::config::{SpikePrior, UsagePrior};
use crate::dependent::DependentPrior;
use crate::scan::tests::{Fault as ScanFault, reference};

const N: usize = 5;
const P: usize = 3;
const MILD: GammaPrior = GammaPrior {
    shape: 4.0,
    rate: 2.0,
};

/// What is wrong with the sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Shape of the prior of the noise precision off by one half.
    NoiseShape,
    /// Of the slab precisions.
    SlabShape,
    /// Of their common rate.
    SlabRateShape,
    /// Of the rates of Laplace scores.
    LassoShape,
    /// First parameter of the weights off by one half.
    WeightShape,
    /// Of the shares of sites with spikes.
    SpikeRate,
    /// Shape of the precision of spikes.
    SpikeShape,
    /// First parameter of the means of weights off by one half.
    MeanShape,
    /// Number of inactive scores counted by the length of atoms: GIG index off by one half.
    LengthIndex,
    /// Prior precision of the dictionary a half too small.
    DictionaryPrior,
    /// Loadings go beyond their mean, with all the noise of independent draws.
    DictionaryNoise,
    /// Prior odds that count the row itself.
    OwnRow,
    /// Values at the bounds are taken as they are.
    BoundsIgnored,
    /// See [`ScanFault`].
    Scan(ScanFault),
}

struct Model {
    config: BpfaConfig,
    complete: bool,
    /// Measurements are cut off at plus and minus this.
    bound: f32,
    fault: Fault,
}

fn config(scores: ScorePrior, moves: &[BpfaMove]) -> BpfaConfig {
    let atoms = 2;
    BpfaConfig {
        atoms,
        scores,
        usage: UsagePrior::Process { a: 2.0, b: 1.5 },
        slab: SlabPrior::Shared { prior: MILD },
        noise: MILD,
        channel_noise: false,
        collapsed_atoms: atoms,
        moves: moves.to_vec(),
        sweeps: SweepPlan {
            burn_in: 0,
            keep: 1,
            thin: 1,
        },
        ..BpfaConfig::default()
    }
}

const LASSO: ScorePrior = ScorePrior::Lasso {
    per_entry: false,
    rate: GammaPrior {
        shape: 4.0,
        rate: 2.0,
    },
};

impl Model {
    fn new(config: BpfaConfig, fault: Fault) -> Self {
        Self {
            config,
            complete: false,
            bound: f32::INFINITY,
            fault,
        }
    }

    fn columns(&self, i: usize) -> Vec<u32> {
        // One row without any entry, one with all.
        let seen = |p: &u32| self.complete || i == 0 || (i != 2 && (i + *p as usize) % 3 != 1);
        (0..P as u32).filter(seen).collect()
    }

    fn rows(&self, values: Vec<f32>) -> BpfaRows {
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for i in 0..N {
            columns.extend(self.columns(i));
            starts.push(columns.len());
        }
        let mut rows = BpfaRows::new(P, &starts, columns, values).unwrap();
        if self.config.channel_noise {
            rows = rows.with_channels(vec![0, 1, 0]).unwrap();
        }
        if self.bound.is_finite() && self.fault != Fault::BoundsIgnored {
            rows = rows.with_bounds(-self.bound, self.bound).unwrap();
        }
        rows.with_locations(1, vec![0.0, 1.0, 2.0, 4.0, 5.0])
            .unwrap()
    }

    /// Rows with other values.
    fn empty_rows(&self) -> BpfaRows {
        let n = (0..N).map(|i| self.columns(i).len()).sum();
        self.rows(vec![0.0; n])
    }

    /// Configuration of the sampler, with its fault.
    fn faulty(&self, seed: u64) -> BpfaConfig {
        let mut config = self.config.clone();
        config.seed = seed;
        let half = |prior: &mut GammaPrior| prior.shape -= 0.5;
        match (
            self.fault,
            &mut config.slab,
            &mut config.scores,
            &mut config.usage,
        ) {
            (Fault::NoiseShape, ..) => half(&mut config.noise),
            (Fault::SlabShape, SlabPrior::Shared { prior }, ..) => half(prior),
            (Fault::SlabShape, SlabPrior::PerAtom { shape, .. }, ..) => *shape -= 0.5,
            (Fault::SlabRateShape, SlabPrior::PerAtom { rate, .. }, ..) => half(rate),
            (Fault::LassoShape, _, ScorePrior::Lasso { rate, .. }, _) => half(rate),
            // Beta(a/K, ...): half of K.
            (Fault::WeightShape, _, _, UsagePrior::Process { a, .. }) => *a += 1.0,
            // First parameter of the means off by one half, the second one as it is.
            (Fault::MeanShape, _, _, UsagePrior::Dependent { prior }) => {
                let first = prior.mass * prior.mean + 0.5;
                prior.mass += 0.5;
                prior.mean = first / prior.mass;
            }
            _ => {}
        }
        if let Some(spikes) = &mut config.spikes {
            match self.fault {
                Fault::SpikeRate => spikes.a += 0.5,
                Fault::SpikeShape => half(&mut spikes.precision),
                _ => {}
            }
        }
        config
    }
}

fn gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(prior.shape, prior.rate).unwrap().sample(rng)
}

fn normal(sd: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    sd * rng.sample::<f64, _>(StandardNormal)
}

fn beta(a: f64, b: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Beta::new(a, b).unwrap().sample(rng)
}

impl JointModel for Model {
    type State = BpfaState;
    type Data = BpfaRows;

    fn names(&self) -> Vec<String> {
        let rows = self.empty_rows();
        let state = self.prior(&mut stream(0, [0; 4]));
        let count = self.summary(&state, &rows).len();
        (0..count).map(|n| format!("summary {n}")).collect()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> BpfaState {
        let rows = self.empty_rows();
        let near = neighbourhood(&rows, &self.config).unwrap();
        let mut state = init::start(&rows, &self.config, 0, None, &near).unwrap();
        let k = self.config.atoms;
        let sd = (P as f64).sqrt().recip();
        let shared: &mut Shared = &mut state.shared;
        shared
            .dictionary
            .values
            .iter_mut()
            .for_each(|d| *d = normal(sd, rng) as f32);
        shared
            .noise_precisions
            .iter_mut()
            .for_each(|g| *g = gamma(self.config.noise, rng));
        match self.config.slab {
            SlabPrior::Shared { prior } => shared.slab_precisions[0] = gamma(prior, rng),
            SlabPrior::PerAtom { shape, rate } => {
                shared.slab_rate = gamma(rate, rng);
                let prior = GammaPrior {
                    shape,
                    rate: shared.slab_rate,
                };
                shared
                    .slab_precisions
                    .iter_mut()
                    .for_each(|g| *g = gamma(prior, rng));
            }
        }
        if let Some(prior) = self.config.usage.dependent()
            && self.config.has_switches()
        {
            let own = &mut state.dependence;
            let eta = (prior.mass * prior.mean, prior.mass * (1.0 - prior.mean));
            own.means
                .iter_mut()
                .for_each(|m| *m = beta(eta.0, eta.1, rng).clamp(1e-9, 1.0 - 1e-9));
            near.draw_prior(own, rng);
        }
        let dependence = state.dependence.clone();
        for (at, ln_odds) in shared.ln_odds.iter_mut().enumerate() {
            let prior = self.config.usage.weight(k, N, at % k, &dependence).unwrap();
            *ln_odds = Beta::new(prior.a(), prior.b()).unwrap().sample_ln_odds(rng);
        }
        if let ScorePrior::Lasso { rate, per_entry } = self.config.scores {
            state
                .lasso
                .rates
                .iter_mut()
                .for_each(|g| *g = gamma(rate, rng));
            for (at, x) in state.lasso.inverse_scales.iter_mut().enumerate() {
                let rate = state.lasso.rates[if per_entry { at } else { at % k }];
                *x = (1.0
                    / gamma(
                        GammaPrior {
                            shape: 1.0,
                            rate: 0.5 * rate,
                        },
                        rng,
                    )) as f32;
            }
        }
        let mut all = vec![0.0; N * k];
        for i in 0..N {
            for atom in 0..k {
                let group = dependence.group(i);
                let (precision, on) = match self.config.scores {
                    ScorePrior::SpikeSlab => {
                        let odds = shared.ln_odds[group * k + atom].exp();
                        let u: f64 = rng.random();
                        (shared.slab_precision(atom), u * (1.0 + odds) < odds)
                    }
                    ScorePrior::Dense => (shared.slab_precision(atom), true),
                    ScorePrior::Lasso { .. } => {
                        let scale = f64::from(state.lasso.inverse_scales[i * k + atom]);
                        (shared.noise_precisions[0] * scale, true)
                    }
                };
                if on {
                    all[i * k + atom] = normal(precision.sqrt().recip(), rng) as f32;
                }
            }
        }
        state.scores = scores_of(&all, k, self.config.has_switches());
        if let Some(prior) = self.config.spikes {
            let rates = &mut state.spikes.rates;
            rates
                .iter_mut()
                .for_each(|r| *r = beta(prior.a, prior.b, rng));
            state.spikes.precision = gamma(prior.precision, rng);
            for site in 0..rows.n_sites() {
                // Sites of these rows have one channel.
                if rng.random::<f64>() < state.spikes.rates[0] {
                    state.spikes.sites.push(site as u32);
                }
            }
        }
        state
    }

    fn simulate(&self, state: &BpfaState, rng: &mut Xoshiro256PlusPlus) -> BpfaRows {
        let rows = self.empty_rows();
        let k = state.n_atoms();
        let mask = state.spikes.mask(rows.n_sites());
        let mut values = Vec::new();
        for i in 0..N {
            for (e, entry) in rows.range(i).enumerate() {
                let p = scan::place(rows.columns(i), e);
                let own = state.shared.dictionary.column(p);
                let fitted: f64 = (0..k).map(|k| f64::from(own[k]) * score(state, i, k)).sum();
                let g = state.shared.noise_precision(rows.channels()[p] as usize);
                let mut y = fitted + normal(g.sqrt().recip(), rng);
                if mask.get(rows.site(entry)) == Some(&true) {
                    y += normal(state.spikes.precision.sqrt().recip(), rng);
                }
                values.push((y as f32).clamp(-self.bound, self.bound));
            }
        }
        self.rows(values)
    }

    fn sweep(&self, state: &mut BpfaState, rows: &BpfaRows, rng: &mut Xoshiro256PlusPlus) {
        let config = self.faulty(rng.random());
        let mut sampler = BpfaSampler::resume(rows, config, 0, state.clone(), 0).unwrap();
        for &step in &self.config.moves {
            match (self.fault, step) {
                (Fault::LengthIndex, BpfaMove::Lengths) => copy_lengths(&mut sampler, rng),
                (Fault::DictionaryPrior | Fault::DictionaryNoise, BpfaMove::Dictionary) => {
                    copy_dictionary(&mut sampler, self.fault, rng)
                }
                (Fault::OwnRow, BpfaMove::CollapsedSwitches) => copy_collapsed(&mut sampler, rng),
                (Fault::Scan(fault), BpfaMove::Scores) => copy_scan(&mut sampler, fault, rng),
                _ => sampler.apply(step).unwrap(),
            }
        }
        *state = sampler.into_state();
    }

    fn summary(&self, state: &BpfaState, rows: &BpfaRows) -> Vec<f64> {
        let k = state.n_atoms();
        let shared = &state.shared;
        let mut out: Vec<f64> = shared
            .dictionary
            .values
            .iter()
            .map(|&d| f64::from(d))
            .collect();
        out.extend(shared.dictionary.squares());
        out.extend(&shared.ln_odds);
        out.extend(&shared.slab_precisions);
        out.push(shared.slab_rate);
        out.extend(&shared.noise_precisions);
        for i in 0..N {
            out.extend((0..k).map(|k| score(state, i, k)));
        }
        out.extend(state.scores.counts().iter().map(|&n| n as f64));
        out.extend(state.scores.squares());
        let both = (0..N).filter(|&i| (0..k).all(|k| score(state, i, k) != 0.0));
        out.push(both.count() as f64);
        // Products with the data, and the likelihood.
        let (mut square, mut products) = (0.0, vec![0.0; k]);
        for i in 0..N {
            for (e, &y) in rows.values(i).iter().enumerate() {
                let own = shared.dictionary.column(scan::place(rows.columns(i), e));
                let part = |k: usize| f64::from(own[k]) * score(state, i, k);
                let y = f64::from(y);
                square += (y - (0..k).map(part).sum::<f64>()).powi(2);
                products
                    .iter_mut()
                    .enumerate()
                    .for_each(|(k, sum)| *sum += part(k) * y);
            }
        }
        out.push(square * shared.noise_precisions[0]);
        out.extend(products);
        out.extend(state.lasso.rates.iter().take(2));
        out.extend(
            state
                .lasso
                .inverse_scales
                .iter()
                .take(3)
                .map(|&x| f64::from(x)),
        );
        if state.dependence.is_modelled() {
            let own = &state.dependence;
            out.extend(&own.means);
            out.push(own.width);
            out.extend(own.anchors.iter().map(|&t| f64::from(t)));
            let logit = |m: &f64| (m / (1.0 - m)).ln();
            out.push(shared.ln_odds[0] - logit(&own.means[0]));
        }
        if state.spikes.is_modelled() {
            out.extend(&state.spikes.rates);
            out.push(state.spikes.precision);
            out.push(state.spikes.sites.len() as f64);
            let mask = state.spikes.mask(rows.n_sites());
            let spiky = (0..rows.n_entries()).filter(|&e| mask[rows.site(e)]);
            out.push(spiky.map(|e| f64::from(rows.all_values()[e]).powi(2)).sum());
            out.extend(mask.iter().take(3).map(|&on| f64::from(u8::from(on))));
        }
        out
    }
}

fn score(state: &BpfaState, i: usize, k: usize) -> f64 {
    let own = state.scores.row(i);
    own.iter()
        .find(|x| x.0 == k)
        .map_or(0.0, |x| f64::from(x.1))
}

/// Scores of N rows from a table in which 0 is off.
fn scores_of(all: &[f32], k: usize, sparse: bool) -> Scores {
    if sparse {
        return Scores::sparse(k, all).unwrap();
    }
    let mut scores = Scores::zeros(all.len() / k, k, true);
    scores.blocks[0].values = all.to_vec();
    scores
}

/// A copy of the move of the lengths, one score too few.
fn copy_lengths(sampler: &mut BpfaSampler<'_>, rng: &mut Xoshiro256PlusPlus) {
    let counts = sampler.state.scores.counts();
    let lengths = sampler.state.shared.dictionary.squares();
    let squares = sampler.prior_squares();
    let k = counts.len();
    let mut inverse = vec![1.0; k];
    for atom in (0..k).filter(|&k| counts[k] > 0) {
        let lambda = 0.5 * (P as f64 - counts[atom] as f64 + 1.0);
        let t = (0.5 * sample_ln_gig(lambda, P as f64 * lengths[atom], squares[atom], rng)).exp();
        for d in sampler
            .state
            .shared
            .dictionary
            .values
            .iter_mut()
            .skip(atom)
            .step_by(k)
        {
            *d *= t as f32;
        }
        inverse[atom] = (1.0 / t) as f32;
    }
    sampler.state.scores.scale(&inverse);
    sampler.refresh_loadings(None);
}

/// A copy of the draw of the dictionary for two atoms, one after the other, its prior precision a half too small.
fn copy_dictionary(sampler: &mut BpfaSampler<'_>, fault: Fault, rng: &mut Xoshiro256PlusPlus) {
    let (prior, beyond) = match fault {
        Fault::DictionaryPrior => (P as f64 - 0.5, 0.0),
        _ => (P as f64, 0.75),
    };
    let rows = sampler.rows;
    let (columns, _) = sampler.noise_weights();
    for p in 0..P {
        for atom in 0..2 {
            let (mut precision, mut linear) = (prior, 0.0);
            for (i, entry) in rows.column(p) {
                let own = sampler.state.shared.dictionary.column(p);
                let other = f64::from(own[1 - atom]) * score(&sampler.state, i, 1 - atom);
                let s = score(&sampler.state, i, atom);
                let g = f64::from(columns[p]);
                precision += g * s * s;
                linear += g * s * (f64::from(rows.all_values()[entry]) - other);
            }
            let own = &mut sampler.state.shared.dictionary.values[p * 2 + atom];
            let mean = linear / precision - beyond * (f64::from(*own) - linear / precision);
            *own = (mean + normal(precision.sqrt().recip(), rng)) as f32;
        }
    }
    sampler.refresh_loadings(None);
}

/// A copy of the scan with the weights integrated out whose counts include the row itself.
fn copy_collapsed(sampler: &mut BpfaSampler<'_>, rng: &mut Xoshiro256PlusPlus) {
    let (rows, k) = (sampler.rows, sampler.state.n_atoms());
    let n = rows.n_rows();
    let priors = sampler.weight_priors(&[0, 1]).unwrap();
    let (columns, _) = sampler.noise_weights();
    for i in 0..n {
        for atom in 0..k {
            let (mut linear, mut norm) = (0.0, 0.0);
            for (e, &y) in rows.values(i).iter().enumerate() {
                let p = scan::place(rows.columns(i), e);
                let own = sampler.state.shared.dictionary.column(p);
                let others = (0..k).filter(|&l| l != atom);
                let fitted: f64 = others
                    .map(|l| f64::from(own[l]) * score(&sampler.state, i, l))
                    .sum();
                let d = f64::from(own[atom]);
                linear += f64::from(columns[p]) * d * (f64::from(y) - fitted);
                norm += f64::from(columns[p]) * d * d;
            }
            let slab = sampler.state.shared.slab_precision(atom);
            let on = sampler.state.scores.counts()[atom] as f64;
            let (a, b) = (priors[atom].a(), priors[atom].b());
            let precision = slab + norm;
            let ln_odds = ((a + on) / (b + n as f64 - on)).ln()
                + 0.5 * (slab / precision).ln()
                + 0.5 * linear * linear / precision;
            let u: f64 = rng.random();
            let mut all = Vec::new();
            for i in 0..n {
                all.extend((0..k).map(|k| score(&sampler.state, i, k) as f32));
            }
            all[i * k + atom] = match (u / (1.0 - u)).ln() < ln_odds {
                true => (linear / precision + normal(precision.sqrt().recip(), rng)) as f32,
                false => 0.0,
            };
            sampler.state.scores = scores_of(&all, k, true);
        }
    }
    let counts = sampler.state.scores.counts();
    for (k, &on) in counts.iter().enumerate() {
        sampler.state.shared.ln_odds[k] = draw_ln_odds(priors[k], on, n as u64, rng).unwrap();
    }
}

/// A copy of the scan in double precision, with a fault.
fn copy_scan(sampler: &mut BpfaSampler<'_>, fault: ScanFault, rng: &mut Xoshiro256PlusPlus) {
    let (columns, entries) = sampler.noise_weights();
    sampler.refresh_loadings(None);
    sampler.scan_prior(&columns);
    let k = sampler.state.n_atoms();
    let mut all = Vec::new();
    for i in 0..N {
        let mut weights = Vec::new();
        let state = &sampler.state;
        let row = row_for_scan(
            sampler.rows,
            &state.scores,
            &columns,
            &entries,
            i,
            &mut weights,
        );
        let prior = ScanPrior {
            slab: &sampler.memory.slab,
            constant: &sampler.memory.constant,
            bar: &sampler.memory.bar,
            slope: &sampler.memory.slope,
        };
        let drawn = reference(&sampler.memory.loadings, row, prior, fault, rng);
        all.extend(drawn[..k].iter().map(|&s| s as f32));
    }
    sampler.state.scores = scores_of(&all, k, true);
}

use BpfaMove::{
    CollapsedSwitches, Dictionary as DictionaryMove, Latents, Lengths, NoisePrecision,
    Scores as ScoresMove, SlabPrecision, Spikes as SpikesMove, Weights,
};

const ALL: [BpfaMove; 9] = [
    Latents,
    ScoresMove,
    CollapsedSwitches,
    Weights,
    DictionaryMove,
    Lengths,
    SlabPrecision,
    SpikesMove,
    NoisePrecision,
];

fn test(model: &Model, length: usize) -> npb_infer::testing::JointReport {
    let test = JointTest {
        seed: 3,
        chains: 64,
        length,
        false_alarm: 0.001,
    };
    test.run(model)
}

#[track_caller]
fn passes(model: &Model, length: usize) {
    let report = test(model, length);
    assert!(report.passed(), "{:?}: {report}", model.fault);
}

#[track_caller]
fn fails(model: &Model, length: usize) {
    let report = test(model, length);
    assert!(!report.passed(), "{:?}: {report}", model.fault);
}

fn sparse(moves: &[BpfaMove]) -> BpfaConfig {
    config(ScorePrior::SpikeSlab, moves)
}

#[test]
fn spike_and_slab_all_moves() {
    passes(&Model::new(sparse(&ALL), Fault::None), 300);
    let complete = Model {
        complete: true,
        ..Model::new(sparse(&ALL), Fault::None)
    };
    passes(&complete, 300);
}

#[test]
fn each_move_with_the_least_that_makes_it_ergodic() {
    for moves in [
        &[ScoresMove][..],
        &[ScoresMove, Weights],
        &[CollapsedSwitches],
        &[DictionaryMove],
        &[Lengths],
        &[SlabPrecision],
        &[NoisePrecision],
    ] {
        passes(&Model::new(sparse(moves), Fault::None), 200);
        let complete = Model {
            complete: true,
            ..Model::new(sparse(moves), Fault::None)
        };
        passes(&complete, 200);
    }
}

#[test]
fn dictionaries_that_go_beyond_their_mean() {
    for moves in [&[DictionaryMove][..], &[ScoresMove, DictionaryMove]] {
        for complete in [false, true] {
            let config = BpfaConfig {
                overrelaxation: 0.75,
                ..sparse(moves)
            };
            let model = Model {
                complete,
                ..Model::new(config, Fault::None)
            };
            passes(&model, 400);
        }
    }
}

/// Counts that include the row itself are seen by enumeration (`switches_by_enumeration`), with less work.
#[test]
fn broken_moves_fail() {
    for (moves, fault) in [
        (
            &[ScoresMove, Weights, NoisePrecision][..],
            Fault::NoiseShape,
        ),
        (&[ScoresMove, Weights, SlabPrecision], Fault::SlabShape),
        (&[ScoresMove, Weights], Fault::WeightShape),
        (&[CollapsedSwitches], Fault::WeightShape),
        (&[ScoresMove, DictionaryMove], Fault::DictionaryPrior),
        (&[DictionaryMove], Fault::DictionaryNoise),
        (&[ScoresMove, Lengths], Fault::LengthIndex),
        (&[ScoresMove], Fault::Scan(ScanFault::OwnScore)),
    ] {
        fails(&Model::new(sparse(moves), fault), 2000);
    }
}

/// Atoms that stand for one another, in one register: the fault that the first scan had.
#[test]
fn a_scan_that_compares_again_fails() {
    let alike = |fault| {
        let mut config = sparse(&[ScoresMove, Weights]);
        config.atoms = 8;
        config.max_atoms = Some(8);
        config.usage = UsagePrior::Process { a: 16.0, b: 2.0 };
        Model {
            complete: true,
            ..Model::new(config, fault)
        }
    };
    passes(&alike(Fault::None), 300);
    passes(&alike(Fault::Scan(ScanFault::None)), 300);
    fails(&alike(Fault::Scan(ScanFault::Restart)), 600);
}

#[test]
fn slab_precision_of_each_atom() {
    let config = |fault| {
        let mut config = sparse(&ALL);
        config.slab = SlabPrior::PerAtom {
            shape: 3.0,
            rate: MILD,
        };
        Model::new(config, fault)
    };
    passes(&config(Fault::None), 300);
    fails(&config(Fault::SlabShape), 1000);
    fails(&config(Fault::SlabRateShape), 1500);
}

#[test]
fn noise_of_each_channel() {
    let config = |fault| {
        let mut config = sparse(&ALL);
        config.channel_noise = true;
        Model::new(config, fault)
    };
    passes(&config(Fault::None), 300);
    fails(&config(Fault::NoiseShape), 1000);
}

#[test]
fn dense_scores() {
    for complete in [false, true] {
        let model = |fault| Model {
            complete,
            ..Model::new(config(ScorePrior::Dense, &ALL), fault)
        };
        passes(&model(Fault::None), 300);
        fails(&model(Fault::LengthIndex), 600);
    }
}

#[test]
fn laplace_scores() {
    for complete in [false, true] {
        let model = |fault| Model {
            complete,
            ..Model::new(config(LASSO, &ALL), fault)
        };
        passes(&model(Fault::None), 400);
        fails(&model(Fault::LassoShape), 1500);
        fails(&model(Fault::NoiseShape), 1500);
    }
    let per_entry = ScorePrior::Lasso {
        per_entry: true,
        rate: MILD,
    };
    passes(&Model::new(config(per_entry, &ALL), Fault::None), 400);
}

#[test]
fn spiky_noise() {
    let model = |fault| {
        let mut config = sparse(&ALL);
        config.spikes = Some(SpikePrior {
            a: 2.0,
            b: 4.0,
            precision: MILD,
        });
        Model::new(config, fault)
    };
    passes(&model(Fault::None), 300);
    fails(&model(Fault::SpikeRate), 1500);
    fails(&model(Fault::SpikeShape), 1500);
}

/// A site that many rows see is measured once, and one that no row sees not at all: neither copies of entries nor missing pixels change how often a spike
/// is on, or the law of the precision.
#[test]
fn copies_of_a_site_are_one_measurement() {
    let residuals = [0.1_f32, 2.0, -0.3, 0.8];
    let prior = SpikePrior {
        a: 2.0,
        b: 4.0,
        precision: MILD,
    };
    let run = |copies: usize, unseen: usize| {
        let n = residuals.len();
        let rows = BpfaRows::complete(copies, n, residuals.repeat(copies)).unwrap();
        let sites = (0..(copies * n) as u32).map(|e| e % n as u32).collect();
        let rows = rows.with_sites(n + unseen, sites).unwrap();
        let draw = SpikeDraw {
            rows: &rows,
            residuals: rows.all_values(),
            column_weights: &[4.0; 4],
            prior,
        };
        let rng = &mut stream(11, [0; 4]);
        let mut spikes = crate::spikes::Spikes::start(prior, 1);
        let mut found = Vec::new();
        for _ in 0..50 {
            draw.switches(&mut spikes, rng).unwrap();
            let squares = draw.precision(&mut spikes, rng).unwrap();
            found.push((spikes.clone(), squares[0] / copies as f64));
        }
        found
    };
    let (one, many) = (run(1, 0), run(7, 0));
    assert_eq!(one, run(1, 3));
    for (a, b) in one.iter().zip(&many) {
        assert_eq!(a.0.sites, b.0.sites);
        assert!((a.0.precision / b.0.precision - 1.0).abs() < 1e-6);
        assert!((a.1 - b.1).abs() < 1e-6 * a.1);
    }
    assert!(one.iter().filter(|x| x.0.sites.contains(&1)).count() > 25);
}

#[test]
fn measurements_that_are_cut_off() {
    let model = |fault| Model {
        bound: 0.8,
        ..Model::new(sparse(&ALL), fault)
    };
    passes(&model(Fault::None), 300);
    fails(&model(Fault::BoundsIgnored), 600);
}

#[test]
fn usage_that_depends_on_locations() {
    let model = |fault| {
        let mut config = sparse(&ALL);
        config.usage = UsagePrior::Dependent {
            prior: DependentPrior {
                mass: 3.0,
                mean: 0.4,
                concentration: 4.0,
                anchors: 3,
                neighbours: 2,
            },
        };
        Model::new(config, fault)
    };
    passes(&model(Fault::None), 400);
    fails(&model(Fault::MeanShape), 3000);
}

/// N = 3, K = 2, D and precisions fixed, pi integrated out: all 64 states of the switches.
struct Switches {
    rows: BpfaRows,
    config: BpfaConfig,
    start: BpfaState,
    fault: Fault,
}

impl Switches {
    fn new(fault: Fault) -> Self {
        let rows = BpfaRows::new(
            2,
            &[0, 2, 3, 5],
            vec![0, 1, 1, 0, 1],
            vec![1.2, 0.4, -0.7, 0.3, 0.9],
        )
        .unwrap();
        let config = sparse(&[]);
        let config = BpfaConfig {
            moves: ALL.to_vec(),
            ..config
        };
        let near = Neighbourhood::default();
        let atoms = Dictionary::from_atoms(2, &[0.9, 0.4, 0.7, -0.5]).unwrap();
        let mut start = init::start(&rows, &config, 0, Some(atoms), &near).unwrap();
        start.shared.noise_precisions[0] = 4.0;
        start.shared.slab_precisions[0] = 1.3;
        Self {
            rows,
            config,
            start,
            fault,
        }
    }

    /// ln p(y_i | z_i), scores integrated out.
    fn ln_row(&self, i: usize, z: [bool; 2]) -> f64 {
        let values = self.rows.values(i);
        let n = values.len();
        let at = |e: usize| scan::place(self.rows.columns(i), e);
        let d = &self.start.shared.dictionary;
        // Covariance of the entries.
        let c = |a: usize, b: usize| {
            let noise = if a == b { 0.25 } else { 0.0 };
            let on = (0..2).filter(|&k| z[k]);
            let part =
                |k: usize| f64::from(d.column(at(a))[k]) * f64::from(d.column(at(b))[k]) / 1.3;
            noise + on.map(part).sum::<f64>()
        };
        let y = |e: usize| f64::from(values[e]);
        if n == 1 {
            return -0.5 * (c(0, 0).ln() + y(0).powi(2) / c(0, 0));
        }
        let det = c(0, 0) * c(1, 1) - c(0, 1).powi(2);
        let square = c(1, 1) * y(0).powi(2) - 2.0 * c(0, 1) * y(0) * y(1) + c(0, 0) * y(1).powi(2);
        -0.5 * (det.ln() + square / det)
    }
}

impl Switches {
    fn exact(&self) -> Exact<Vec<usize>> {
        let prior = self
            .config
            .usage
            .weight(2, 3, 0, &self.start.dependence)
            .unwrap();
        Exact::new(assignments(&[2; 6]), |z| {
            let mut ln = 0.0;
            for k in 0..2 {
                let mut on = 0;
                for i in 0..3 {
                    let p = prior.predictive(on, i);
                    ln += if z[2 * i + k] == 1 {
                        p.ln()
                    } else {
                        (1.0 - p).ln()
                    };
                    on += z[2 * i + k];
                }
            }
            let row = |i: usize| self.ln_row(i, [z[2 * i] == 1, z[2 * i + 1] == 1]);
            ln + (0..3).map(row).sum::<f64>()
        })
    }

    /// A state with these switches: scores near their law given them, weights from theirs.
    fn state(&self, z: &[usize]) -> BpfaState {
        let mut state = self.start.clone();
        let mut all: Vec<f32> = z.iter().map(|&on| on as f32).collect();
        let rng = &mut stream(9, [z.iter().fold(1, |n, &x| 2 * n + x as u64), 0, 0, 0]);
        for step in 0..300 {
            let (i, k) = (step % 6 / 2, step % 2);
            if z[2 * i + k] == 0 {
                continue;
            }
            let (mut linear, mut precision) = (0.0, 1.3);
            for (e, &y) in self.rows.values(i).iter().enumerate() {
                let d = state
                    .shared
                    .dictionary
                    .column(scan::place(self.rows.columns(i), e));
                let rest = y - d[1 - k] * all[2 * i + 1 - k];
                linear += 4.0 * f64::from(d[k] * rest);
                precision += 4.0 * f64::from(d[k]).powi(2);
            }
            all[2 * i + k] = (linear / precision + normal(precision.sqrt().recip(), rng)) as f32;
        }
        state.scores = scores_of(&all, 2, true);
        state
    }

    fn report(&self, moves: &[BpfaMove]) -> npb_infer::testing::ExactReport {
        let test = ExactTest {
            seed: 5,
            chains: 64,
            length: 2000,
            false_alarm: 0.001,
        };
        let sweep = |state: &mut BpfaState, rng: &mut Xoshiro256PlusPlus| {
            let config = BpfaConfig {
                seed: rng.random(),
                ..self.config.clone()
            };
            let mut sampler = BpfaSampler::resume(&self.rows, config, 0, state.clone(), 0).unwrap();
            for &step in moves {
                match (self.fault, step) {
                    (Fault::OwnRow, CollapsedSwitches) => copy_collapsed(&mut sampler, rng),
                    _ => sampler.apply(step).unwrap(),
                }
            }
            *state = sampler.into_state();
        };
        let key = |state: &BpfaState| -> Vec<usize> {
            let on = |at: usize| usize::from(score(state, at / 2, at % 2) != 0.0);
            (0..6).map(on).collect()
        };
        test.run(&self.exact(), |z| self.state(z), sweep, key)
    }
}

#[test]
fn switches_by_enumeration() {
    // Weights first: those of the start are not drawn.
    for moves in [
        &[CollapsedSwitches][..],
        &[Weights, ScoresMove],
        &[Weights, ScoresMove, CollapsedSwitches],
    ] {
        let report = Switches::new(Fault::None).report(moves);
        assert!(report.passed(), "{moves:?}: {report}");
    }
    let broken = Switches::new(Fault::OwnRow).report(&[CollapsedSwitches]);
    assert!(!broken.passed(), "{broken}");
}

/// Two moves of a sweep that share a stream draw the same numbers for different unknowns, which hardly shows in the law of either.
#[test]
fn streams_of_moves_are_distinct() {
    let mut words = vec![
        SCORES,
        COLLAPSED,
        COLLAPSED_CHOICE,
        WEIGHTS,
        DICTIONARY,
        LENGTHS,
        SLAB,
        NOISE,
        SPIKES,
        ANCHORS,
        MEANS,
        GROW,
        LATENTS,
    ];
    words.sort_unstable();
    assert!(words.windows(2).all(|pair| pair[0] < pair[1]), "{words:?}");
}
