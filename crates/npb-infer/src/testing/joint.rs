use std::fmt;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::student::TTest;
use crate::{parallel, stream};

/// Keys of the streams, third word.
const CALIBRATE: u64 = 0;
const INDEPENDENT: u64 = 1;
const SUCCESSIVE: u64 = 2;

/// A model whose sampler is to be tested: prior, simulator and sweep must agree on one joint law of
/// state and data.
///
/// Whatever is known and fixed (sizes, masks, hyperparameters) belongs to the implementing type. A
/// sampler that draws from keyed streams takes its seed from `rng`.
pub trait JointModel: Sync {
    /// Everything the sweep updates.
    type State;
    /// Everything the sweep conditions on and that the simulator draws.
    type Data;

    /// Names of the summaries.
    fn names(&self) -> Vec<String>;

    /// A draw of the state from the prior.
    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> Self::State;

    /// A draw of the data given the state.
    fn simulate(&self, state: &Self::State, rng: &mut Xoshiro256PlusPlus) -> Self::Data;

    /// One sweep of the sampler, which must leave the law of the state given the data as it is. It
    /// must accept every state that the prior draws, whatever the data (so nothing computed from
    /// earlier data may be left in the state).
    fn sweep(&self, state: &mut Self::State, data: &Self::Data, rng: &mut Xoshiro256PlusPlus);

    /// Functions of state and data in which a fault could show: each parameter, its products with
    /// the data, likelihood terms. Any finite number will do; only its rank among prior draws is
    /// used, so heavy tails do no harm.
    fn summary(&self, state: &Self::State, data: &Self::Data) -> Vec<f64>;
}

/// Joint-distribution test of a sampler (Geweke 2004, "Getting it right", JASA 99), made so that
/// its false-alarm rate is right however strongly the chain is autocorrelated.
///
/// A sweep given the data followed by new data given the state leaves the joint law of both as it
/// is, if sweep and simulator are right. So a chain of such steps that *starts* with a draw from
/// prior and simulator has the joint law at every step, and its average over `length` steps has the
/// prior expectation exactly, without burn-in. The test makes `chains` such chains, independent of
/// each other, each with as many independent draws from prior and simulator beside it. The
/// differences of the two averages, one per chain, are independent and centred at zero: the chains
/// are the batches of a batch-means standard error that no autocorrelation can make too small, and
/// Student's t with `chains - 1` degrees of freedom applies.
///
/// Each summary is first turned into its probability under the prior, u in [0, 1] (its rank among
/// 2,000 separate prior draws), so that averages of bounded numbers are compared; then both its
/// location, u, and its spread, (2u - 1)^2, are tested. With the bound of Bonferroni over all of
/// these the test fails for a share of at most `false_alarm` of all seeds when the sampler is
/// right.
///
/// Power comes from `length`: it should be several times what the sampler needs to forget its
/// start, because a fault draws the chain away from the prior only step by step. Cost: `chains *
/// length` sweeps and twice as many draws from prior and simulator, in parallel over chains.
///
/// ```
/// use npb_infer::{Xoshiro256PlusPlus, testing::{JointModel, JointTest}};
/// use rand::RngExt;
///
/// /// A success probability, uniform a priori, with one trial. `excess` should be 0.
/// struct Coin { excess: usize }
/// impl JointModel for Coin {
///     type State = f64;
///     type Data = bool;
///     fn names(&self) -> Vec<String> { vec!["p".into(), "p when success".into()] }
///     fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> f64 { rng.random() }
///     fn simulate(&self, p: &f64, rng: &mut Xoshiro256PlusPlus) -> bool { rng.random::<f64>() < *p }
///     fn sweep(&self, p: &mut f64, success: &bool, rng: &mut Xoshiro256PlusPlus) {
///         // Beta(2, 1) is the larger of two uniforms, Beta(1, 2) the smaller.
///         let (mut a, b): (f64, f64) = (rng.random(), rng.random());
///         (0..self.excess).for_each(|_| a = a.max(rng.random()));
///         *p = if *success { a.max(b) } else { a.min(b) };
///     }
///     fn summary(&self, p: &f64, success: &bool) -> Vec<f64> { vec![*p, if *success { *p } else { 0.0 }] }
/// }
///
/// let test = JointTest { seed: 1, chains: 32, length: 100, false_alarm: 0.001 };
/// assert!(test.run(&Coin { excess: 0 }).passed());
/// let broken = test.run(&Coin { excess: 1 });
/// assert!(!broken.passed(), "{broken}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JointTest {
    /// Seed of everything.
    pub seed: u64,
    /// Independent chains, at least 8; 64 is a good choice.
    pub chains: usize,
    /// Steps per chain, at least 1.
    pub length: usize,
    /// Share of seeds at which a correct sampler may fail.
    pub false_alarm: f64,
}

/// What of a summary was compared with its prior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Functional {
    /// Mean of u, its probability under the prior.
    Location,
    /// Mean of (2u - 1)^2.
    Spread,
}

/// One comparison of the chains with the prior.
#[derive(Clone, Debug, PartialEq)]
pub struct JointCheck {
    /// Name of the summary.
    pub name: String,
    /// What of it was compared.
    pub functional: Functional,
    /// Mean over chains minus mean over independent draws.
    pub difference: f64,
    /// The difference in its standard errors.
    pub t: f64,
    /// Two-sided p-value of this comparison alone; 0 when the summary was not a number.
    pub p: f64,
}

/// Result of a [`JointTest`]; printing it lists the comparisons, worst first.
#[derive(Clone, Debug, PartialEq)]
pub struct JointReport {
    /// All comparisons: each summary's location and spread.
    pub checks: Vec<JointCheck>,
    /// Stated share of false alarms over all comparisons together.
    pub false_alarm: f64,
}

impl JointReport {
    /// p-value of the whole test: the smallest of all comparisons times their number.
    pub fn p_value(&self) -> f64 {
        let smallest = self.checks.iter().map(|c| c.p).fold(1.0, f64::min);
        (smallest * self.checks.len() as f64).min(1.0)
    }

    /// Whether no comparison gives an alarm.
    pub fn passed(&self) -> bool {
        self.p_value() > self.false_alarm
    }
}

impl fmt::Display for JointReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        writeln!(
            f,
            "joint-distribution test {verdict}: p = {:.3e}, false-alarm rate {}",
            self.p_value(),
            self.false_alarm
        )?;
        let mut order: Vec<&JointCheck> = self.checks.iter().collect();
        order.sort_by(|a, b| a.p.total_cmp(&b.p));
        for JointCheck {
            name,
            functional,
            difference,
            t,
            p,
        } in order
        {
            writeln!(
                f,
                "  {name} ({functional:?}): difference {difference:+.4}, t = {t:+.2}, p = {p:.3e}"
            )?;
        }
        Ok(())
    }
}

impl JointTest {
    /// Runs the test, in parallel over chains on the caller's rayon pool; the result does not
    /// depend on the number of threads.
    ///
    /// # Panics
    /// With fewer than 8 chains, no step, or a summary of another length than its names.
    pub fn run<M: JointModel>(&self, model: &M) -> JointReport {
        assert!(
            self.chains >= 8 && self.length >= 1,
            "at least 8 chains and 1 step: {self:?}"
        );
        let test = Self {
            seed: super::moved(self.seed),
            ..*self
        };
        let names = model.names();
        let prior = PriorRanks::new(model, names.len(), test.seed);
        let differences: Vec<Vec<f64>> = parallel::map(0..self.chains as u64, |chain| {
            test.difference(model, &prior, chain)
        });
        JointReport {
            checks: checks(&names, &differences),
            false_alarm: self.false_alarm,
        }
    }

    /// Average over one chain minus average over as many independent draws, for location and spread
    /// of each summary.
    fn difference<M: JointModel>(&self, model: &M, prior: &PriorRanks, chain: u64) -> Vec<f64> {
        let mut sum = vec![0.0; 2 * prior.n_summaries()];
        let weight = 1.0 / self.length as f64;

        let rng = &mut stream(self.seed, [chain, 0, SUCCESSIVE, 0]);
        let mut state = model.prior(rng);
        let mut data = model.simulate(&state, rng);
        for _ in 0..self.length {
            model.sweep(&mut state, &data, rng);
            prior.add(&model.summary(&state, &data), weight, &mut sum);
            data = model.simulate(&state, rng);
        }

        let rng = &mut stream(self.seed, [chain, 0, INDEPENDENT, 0]);
        for _ in 0..self.length {
            prior.add(&independent_summary(model, rng), -weight, &mut sum);
        }
        sum
    }
}

/// Whether independent differences, location and spread of each summary in turn, are centred at zero.
pub(super) fn checks(names: &[String], differences: &[Vec<f64>]) -> Vec<JointCheck> {
    let check = |index: usize| {
        let test = TTest::new(differences.iter().map(|d| d[index]));
        JointCheck {
            name: names[index / 2].clone(),
            functional: [Functional::Location, Functional::Spread][index % 2],
            difference: test.mean,
            t: test.t,
            p: test.p,
        }
    };
    (0..2 * names.len()).map(check).collect()
}

fn independent_summary<M: JointModel>(model: &M, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let state = model.prior(rng);
    let data = model.simulate(&state, rng);
    model.summary(&state, &data)
}

/// Sorted prior draws of each summary.
pub(super) struct PriorRanks {
    sorted: Vec<Vec<f64>>,
}

impl PriorRanks {
    const DRAWS: usize = 2000;

    pub(super) fn new<M: JointModel>(model: &M, n_summaries: usize, seed: u64) -> Self {
        let rng = &mut stream(seed, [0, 0, CALIBRATE, 0]);
        let mut sorted = vec![Vec::with_capacity(Self::DRAWS); n_summaries];
        for _ in 0..Self::DRAWS {
            let summary = independent_summary(model, rng);
            assert_eq!(summary.len(), n_summaries, "as many summaries as names");
            sorted
                .iter_mut()
                .zip(summary)
                .for_each(|(column, value)| column.push(value));
        }
        sorted
            .iter_mut()
            .for_each(|column| column.sort_unstable_by(f64::total_cmp));
        Self { sorted }
    }

    fn n_summaries(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn add(&self, summary: &[f64], weight: f64, sum: &mut [f64]) {
        assert_eq!(
            summary.len(),
            self.n_summaries(),
            "as many summaries as names"
        );
        for (index, &value) in summary.iter().enumerate() {
            let u = self.probability(index, value);
            sum[2 * index] += weight * u;
            sum[2 * index + 1] += weight * (2.0 * u - 1.0).powi(2);
        }
    }

    /// Share of the prior draws below `value`, those equal to it counted by half; NaN for NaN.
    fn probability(&self, index: usize, value: f64) -> f64 {
        if value.is_nan() {
            return f64::NAN;
        }
        let below = self.sorted[index].partition_point(|&x| x < value);
        let not_above = self.sorted[index].partition_point(|&x| x <= value);
        (below + not_above) as f64 / (2 * Self::DRAWS) as f64
    }
}
