use super::joint::{JointModel, JointReport, PriorRanks, checks};
use crate::{parallel, stream};

/// Key of the streams, third word; those of the joint-distribution test come before it.
const STEP: u64 = 5;

/// Test of a single sweep, or of a single move, from independent draws of the joint law of state and data.
///
/// A sweep that is right leaves the joint law as it is. So of a draw from prior and simulator, which has that law, every
/// summary has the same mean before the sweep and after it, and the differences of many such draws are independent and
/// centred at zero. What the sweep does not touch cancels in the difference, which is why this sees a fault that acts
/// seldom, and needs no sweep that reaches every state: a move can be tested alone. Nothing has to be tuned; only a
/// fault that shows after several different moves alone (random numbers that two of them share) asks for
/// [`JointTest`](super::JointTest).
///
/// Summaries are compared as there: the location and spread of their probabilities under the prior, Student's t, the bound
/// of Bonferroni. At most a share `false_alarm` of all seeds fails a sampler that is right, if changes are not so rare
/// that a handful decides. Cost: `replications` sweeps and twice as many summaries, in parallel, and 2,000 prior draws.
///
/// ```
/// use npb_infer::{Xoshiro256PlusPlus, testing::{JointModel, StepTest}};
/// use rand::RngExt;
///
/// /// A success probability, uniform a priori, with one trial. `excess` should be 0.
/// struct Coin { excess: usize }
/// impl JointModel for Coin {
///     type State = f64;
///     type Data = bool;
///     fn names(&self) -> Vec<String> { vec!["p".into()] }
///     fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> f64 { rng.random() }
///     fn simulate(&self, p: &f64, rng: &mut Xoshiro256PlusPlus) -> bool { rng.random::<f64>() < *p }
///     fn sweep(&self, p: &mut f64, success: &bool, rng: &mut Xoshiro256PlusPlus) {
///         // Beta(2, 1) is the larger of two uniforms, Beta(1, 2) the smaller.
///         let (mut a, b): (f64, f64) = (rng.random(), rng.random());
///         (0..self.excess).for_each(|_| a = a.max(rng.random()));
///         *p = if *success { a.max(b) } else { a.min(b) };
///     }
///     fn summary(&self, p: &f64, _: &bool) -> Vec<f64> { vec![*p] }
/// }
///
/// let test = StepTest { seed: 1, replications: 1000, false_alarm: 0.001 };
/// assert!(test.run(&Coin { excess: 0 }).passed());
/// let broken = test.run(&Coin { excess: 1 });
/// assert!(!broken.passed(), "{broken}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTest {
    /// Seed of everything.
    pub seed: u64,
    /// Independent draws from prior and simulator, at least 8.
    pub replications: usize,
    /// Share of seeds at which a correct sampler may fail.
    pub false_alarm: f64,
}

impl StepTest {
    /// Runs the test, in parallel over draws on the caller's rayon pool; the result does not depend on the number of
    /// threads.
    ///
    /// # Panics
    /// With fewer than 8 replications, or a summary of another length than its names.
    pub fn run<M: JointModel>(&self, model: &M) -> JointReport {
        assert!(self.replications >= 8, "at least 8 draws: {self:?}");
        let seed = super::moved(self.seed);
        let names = model.names();
        let prior = PriorRanks::new(model, names.len(), seed);
        let differences: Vec<Vec<f64>> = parallel::map(0..self.replications as u64, |item| {
            let rng = &mut stream(seed, [0, 0, STEP, item]);
            let mut state = model.prior(rng);
            let data = model.simulate(&state, rng);
            let mut sum = vec![0.0; 2 * names.len()];
            prior.add(&model.summary(&state, &data), -1.0, &mut sum);
            model.sweep(&mut state, &data, rng);
            prior.add(&model.summary(&state, &data), 1.0, &mut sum);
            sum
        });
        JointReport {
            checks: checks(&names, &differences),
            false_alarm: self.false_alarm,
        }
    }
}
