//! The run: documents, machine, topics, priors, each accepted where the objective does not rise. Equations: `docs/regbayes.md#medlda`.

use npb_data::Ratings;
use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_priors::special::{digamma, ln_gamma, trigamma};
use pulp::Arch;
use serde::{Deserialize, Serialize};

use super::config::{MedLdaConfig, Supervision};
use super::corpus::{Response, check_counts, lengths};
use super::documents::{Documents, Pass, WordWeights, topic_totals};
use super::eta::{Eta, Setting, Standard, Units};
use super::start;
use crate::error::{RegBayesError, same_size};
use crate::machine::Solution;

/// Lengths of the step towards the stationary tilt that are tried, each half the one before.
const HALVINGS: u32 = 6;

/// Rise of the objective that rounding could explain, relative to it.
const ROUNDING: f64 = 1e-12;

/// A MedLDA run that is driven step by step. [`fit`](super::fit()) does it in one call.
///
/// Each step accepts a change of a block only when the objective `KL(q || p) + C sum loss`, with the machine solved again, does not rise. Cost of a step: for each update of the documents entries x topics, topics
/// x words, and the machine's.
#[derive(Debug)]
pub struct MedLdaVb<'d> {
    documents: &'d Ratings,
    lengths: Vec<f64>,
    responses: Standard,
    pub(crate) units: Units,
    config: MedLdaConfig,
    arch: Arch,
    pub(crate) state: State,
    /// Costs of the documents; 0 for the empty ones.
    costs: Vec<f64>,
}

/// The variational posterior, and what the next step begins from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub(crate) iteration: u64,
    pub(crate) alpha: f64,
    /// `n_words x n_topics`, parameters of Dirichlet posteriors.
    pub(crate) topics: Vec<f64>,
    pub(crate) gamma: Vec<f64>,
    pub(crate) tilt: Vec<f64>,
    pub(crate) shares: Vec<f64>,
    /// Mean of `eta`, `n_scores x n_topics`; empty before the responses count.
    pub(crate) mean: Vec<f64>,
    #[serde(with = "npb_linalg::saved")]
    pub(crate) covariance: Mat<f64>,
    /// At most one: the machine's last solution.
    pub(crate) machine: Vec<Solution>,
    /// Noise variance of the full form, in standard units.
    pub(crate) noise: f64,
    /// Objective after the last step.
    pub(crate) objective: f64,
    /// Whether the last step changed anything.
    pub(crate) moved: bool,
}

impl<'d> MedLdaVb<'d> {
    /// A run before its first step. `documents`: a row per document, a column per word, counts as values.
    ///
    /// # Errors
    /// A configuration value out of range; a negative count; responses that do not fit the documents, are not finite or of a class that does not exist.
    pub fn new(
        documents: &'d Ratings,
        response: Response<'_>,
        config: &MedLdaConfig,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        check_counts(documents)?;
        response.check(documents.n_rows())?;
        let lengths = lengths(documents);
        let (responses, units) = Standard::new(response, &lengths);
        let cost = |length: &f64| if *length > 0.0 { config.cost } else { 0.0 };
        let topics = start::topics(
            documents,
            &lengths,
            config.topics,
            config.word_prior,
            match config.supervision {
                Supervision::Joint => &responses,
                Supervision::TwoStage => &Standard::None,
            },
            config.seed,
        );
        let k = config.topics;
        let gamma = lengths.iter().flat_map(|l| {
            let gamma = config.alpha + l / k as f64;
            std::iter::repeat_n(gamma, k)
        });
        let state = State {
            iteration: 0,
            alpha: config.alpha,
            topics,
            gamma: gamma.collect(),
            tilt: vec![0.0; lengths.len() * k],
            shares: vec![1.0 / k as f64; lengths.len() * k],
            mean: Vec::new(),
            covariance: Mat::new(),
            machine: Vec::new(),
            noise: 1.0,
            objective: f64::INFINITY,
            moved: true,
        };
        Ok(Self {
            costs: lengths.iter().map(cost).collect(),
            documents,
            lengths,
            responses,
            units,
            config: *config,
            arch: Arch::new(),
            state,
        })
    }

    /// The settings of the run.
    pub fn config(&self) -> &MedLdaConfig {
        &self.config
    }

    /// The objective that steps lower: `KL(q || p) + C sum loss` (without responses, or in two stages, minus the evidence lower bound). Infinite before the
    /// first step.
    pub fn objective(&self) -> f64 {
        self.state.objective
    }

    /// One iteration; gives the objective after it.
    ///
    /// # Errors
    /// Numerical trouble, with its iteration.
    pub fn step(&mut self) -> Result<f64, RegBayesError> {
        if self.state.iteration == 0 && self.config.supervision == Supervision::Joint {
            self.solve_machine()?;
        }
        if self.state.moved {
            self.state.moved = self.update()?;
        }
        self.state.iteration += 1;
        if self.state.objective.is_finite() {
            return Ok(self.state.objective);
        }
        Err(RegBayesError::NotFinite {
            iteration: self.state.iteration,
            what: "objective",
            value: self.state.objective,
        })
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            config: &self.config,
            responses: &self.responses,
            costs: &self.costs,
            noise: self.state.noise,
        }
    }

    fn pass<'a>(&'a self, weights: &'a WordWeights) -> Pass<'a> {
        Pass {
            documents: self.documents,
            lengths: &self.lengths,
            weights,
            alpha: self.state.alpha,
            inner_iterations: self.config.inner_iterations,
            inner_tolerance: self.config.inner_tolerance,
        }
    }

    /// Solves the machine for documents without a tilt: before the first step, and as the second of two stages.
    fn solve_machine(&mut self) -> Result<(), RegBayesError> {
        let weights = self.word_weights();
        let pass = self.pass(&weights);
        let mut documents = self.at(0.0, None);
        documents.update(self.arch, &pass);
        let eta = self.eta(&documents, &pass, None)?;
        self.keep_eta(eta);
        Ok(())
    }

    fn word_weights(&self) -> WordWeights {
        WordWeights::new(
            &self.state.topics,
            self.config.topics,
            self.config.word_prior,
        )
    }

    /// The documents of the state, a share `step` of the way to the tilts that `eta` asks for.
    fn at(&self, step: f64, eta: Option<&Eta>) -> Documents {
        let k = self.config.topics;
        let mut tilt = self.state.tilt.clone();
        if let Some(eta) = eta {
            let setting = self.setting();
            let rows = tilt.chunks_mut(k).zip(self.state.shares.chunks(k));
            let rows = rows.zip(&self.lengths).enumerate();
            parallel::for_each_with(
                rows.filter(|(_, (_, length))| **length > 0.0),
                || vec![0.0; k],
                |wanted, (row, ((tilt, shares), &length))| {
                    eta.tilt(&setting, row, length, shares, wanted);
                    let step = step * eta.damping(setting.noise, length, shares);
                    for (tilt, wanted) in tilt.iter_mut().zip(wanted) {
                        *tilt += step * (*wanted - *tilt);
                    }
                },
            );
        }
        Documents {
            gamma: self.state.gamma.clone(),
            tilt,
            shares: self.state.shares.clone(),
            factors: Vec::new(),
            ratios: Vec::new(),
            kl: 0.0,
        }
    }

    /// The best `q(eta)` at these documents.
    fn eta(
        &self,
        documents: &Documents,
        pass: &Pass<'_>,
        warm: Option<&Solution>,
    ) -> Result<Option<Eta>, RegBayesError> {
        let setting = self.setting();
        let second = match setting.is_full() {
            true => documents.second_moments(pass, &self.costs),
            false => Mat::new(),
        };
        setting.solve(documents, &second, warm)
    }

    fn keep_eta(&mut self, eta: Option<Eta>) {
        if let Some(eta) = eta {
            self.state.mean = eta.mean;
            self.state.covariance = eta.covariance.unwrap_or_else(Mat::new);
            self.state.machine = vec![eta.solution];
        }
    }

    /// `q(eta)` of the state, as the documents need it.
    fn kept_eta(&self) -> Option<Eta> {
        let solution = self.state.machine.first()?;
        let covariance = &self.state.covariance;
        Some(Eta {
            mean: self.state.mean.clone(),
            covariance: (covariance.nrows() > 0).then(|| covariance.clone()),
            solution: solution.clone(),
            objective: 0.0,
            squares: (0.0, 0.0),
        })
    }

    /// Documents and machine together, then topics and priors at what the documents say. False when no step lowers the objective.
    fn update(&mut self) -> Result<bool, RegBayesError> {
        let weights = self.word_weights();
        let topics_kl = self.topics_kl(&self.state.topics);
        let kept = self.kept_eta();
        let allowed = self.state.objective + ROUNDING * self.state.objective.abs();
        for halving in 0..HALVINGS {
            let step = 0.5_f64.powi(halving as i32);
            let pass = self.pass(&weights);
            let mut documents = self.at(step, kept.as_ref());
            documents.update(self.arch, &pass);
            let eta = match &kept {
                None => None,
                Some(eta) => self.eta(&documents, &pass, Some(&eta.solution))?,
            };
            let machine = eta.as_ref().map_or(0.0, |eta| eta.objective);
            let objective = documents.kl + topics_kl + machine;
            if objective <= allowed {
                let counts = documents.word_counts(self.arch, &pass);
                self.accept(documents, objective, eta);
                self.update_topics(counts, topics_kl);
                self.update_alpha();
                return Ok(true);
            }
            // Without responses there is no step to halve: the updates themselves have come to rest.
            if kept.is_none() {
                break;
            }
        }
        Ok(false)
    }

    fn accept(&mut self, documents: Documents, objective: f64, eta: Option<Eta>) {
        self.state.objective = objective;
        if let Some(eta) = &eta
            && self.setting().is_full()
        {
            let (noise, gain) = eta.best_noise(self.state.noise);
            self.state.noise = noise;
            self.state.objective -= gain;
        }
        self.keep_eta(eta);
        self.state.gamma = documents.gamma;
        self.state.tilt = documents.tilt;
        self.state.shares = documents.shares;
    }

    /// After a run in two stages: the machine, at the topics as they are.
    pub(crate) fn second_stage(&mut self) -> Result<(), RegBayesError> {
        match self.config.supervision {
            Supervision::TwoStage => self.solve_machine(),
            Supervision::Joint => Ok(()),
        }
    }

    /// What a checkpoint of this run is of.
    pub(crate) fn key(&self) -> Result<u64, RegBayesError> {
        let counts = self.documents;
        let of_rows = (0..counts.n_rows()).map(|i| counts.row(i).0.len() as u32);
        let of_words = (0..counts.n_cols()).map(|j| counts.column(j).0.len() as u32);
        let words = counts.iter().map(|entry| entry.column);
        let [of_rows, of_words, words]: [Vec<u32>; 3] =
            [of_rows.collect(), of_words.collect(), words.collect()];
        let documents = (of_rows, of_words, words, counts.values());
        let content = (self.config, documents, &self.responses);
        Ok(npb_infer::storage::fingerprint(&content)?)
    }

    /// Checks that a state of a checkpoint is one of this run.
    pub(crate) fn resume(&mut self, state: State) -> Result<(), RegBayesError> {
        let k = self.config.topics;
        let (n_docs, n_words) = (self.lengths.len(), self.documents.n_cols());
        let n_scores = state.mean.len() / k;
        for (what, found, expected) in [
            ("topics of a checkpoint", state.topics.len(), n_words * k),
            ("gamma of a checkpoint", state.gamma.len(), n_docs * k),
            ("tilts of a checkpoint", state.tilt.len(), n_docs * k),
            ("shares of a checkpoint", state.shares.len(), n_docs * k),
            (
                "coefficients of a checkpoint",
                state.mean.len(),
                n_scores * k,
            ),
            (
                "duals of a checkpoint",
                state.machine.iter().map(|m| m.duals.len()).sum(),
                n_scores * n_docs,
            ),
        ] {
            same_size(what, found, expected)?;
        }
        let scores = match &self.responses {
            Standard::None => 0,
            Standard::Real(_) => 1,
            Standard::Classes { n_classes, .. } => *n_classes,
        };
        // Until the second of two stages no response has a part.
        let scores = match self.config.supervision {
            Supervision::TwoStage => 0,
            Supervision::Joint => scores,
        };
        let wide = |m: &Mat<f64>| (m.nrows(), m.ncols());
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        for (what, holds) in [
            ("topics", state.topics.iter().all(positive)),
            ("gamma", state.gamma.iter().all(positive)),
            ("tilts", state.tilt.iter().all(|x| x.is_finite())),
            (
                "shares",
                state.shares.iter().all(|x| *x >= 0.0 && *x <= 1.0 + 1e-9),
            ),
            ("coefficients", state.mean.iter().all(|x| x.is_finite())),
            ("number of scores", n_scores == scores),
            (
                "covariance",
                [(0, 0), (k, k)].contains(&wide(&state.covariance)),
            ),
            ("machine", state.machine.len() <= 1),
            ("alpha", positive(&state.alpha)),
            ("noise", positive(&state.noise)),
            ("objective", state.objective.is_finite()),
        ] {
            if !holds {
                return Err(RegBayesError::state(format!(
                    "{what} of a checkpoint: impossible value or size"
                )));
            }
        }
        self.state = state;
        Ok(())
    }

    /// `q(beta_k) = Dir(word_prior + expected counts)`, the best at the documents as they are.
    fn update_topics(&mut self, counts: Vec<f64>, kl_before: f64) {
        let before = self.expected_ln_words(&counts);
        let prior = self.config.word_prior;
        self.state.topics = counts.iter().map(|c| prior + c).collect();
        let after = self.expected_ln_words(&counts);
        let kl = self.topics_kl(&self.state.topics);
        self.state.objective += (kl - kl_before) - (after - before);
    }

    /// `sum_kv counts <ln beta_kv>`.
    fn expected_ln_words(&self, counts: &[f64]) -> f64 {
        let k = self.config.topics;
        let totals = topic_totals(&self.state.topics, k);
        let ln_totals: Vec<f64> = totals.iter().map(|&t| digamma(t)).collect();
        in_blocks(
            &self.state.topics,
            counts,
            |topics, counts| {
                let terms = topics.chunks_exact(k).zip(counts.chunks_exact(k));
                let word = |(topics, counts): (&[f64], &[f64])| {
                    let term = |j: usize| match counts[j] {
                        0.0 => 0.0,
                        count => count * (digamma(topics[j]) - ln_totals[j]),
                    };
                    (0..k).map(term).sum::<f64>()
                };
                terms.map(word).sum()
            },
            k,
        )
    }

    /// `KL(q(beta) || p(beta))`.
    fn topics_kl(&self, topics: &[f64]) -> f64 {
        let (k, prior) = (self.config.topics, self.config.word_prior);
        let n_words = (topics.len() / k) as f64;
        let ln_prior = ln_gamma(prior);
        let ln_totals: Vec<f64> = topic_totals(topics, k)
            .iter()
            .map(|&t| digamma(t))
            .collect();
        let words = in_blocks(
            topics,
            topics,
            |topics, _| {
                let word = |topics: &[f64]| {
                    let term = |(&t, total): (&f64, &f64)| {
                        (t - prior) * (digamma(t) - total) - ln_gamma(t) + ln_prior
                    };
                    topics.iter().zip(&ln_totals).map(term).sum::<f64>()
                };
                topics.chunks_exact(k).map(word).sum()
            },
            k,
        );
        let totals: f64 = topic_totals(topics, k).iter().map(|&t| ln_gamma(t)).sum();
        words + totals - k as f64 * ln_gamma(n_words * prior)
    }

    /// The symmetric prior of proportions that lowers the objective: Newton steps in `ln alpha`, kept where it falls.
    fn update_alpha(&mut self) {
        if !self.config.learn_alpha {
            return;
        }
        let k = self.config.topics as f64;
        let filled = self.lengths.iter().filter(|l| **l > 0.0).count() as f64;
        let ln_theta = self.expected_ln_proportions();
        let value = |a: f64| filled * (ln_gamma(k * a) - k * ln_gamma(a)) + a * ln_theta;
        let mut alpha = self.state.alpha;
        for _ in 0..20 {
            let slope = filled * k * (digamma(k * alpha) - digamma(alpha)) + ln_theta;
            let bend = filled * k * (k * trigamma(k * alpha) - trigamma(alpha));
            // In the logarithm of alpha the objective need not be concave; its curvature at a stationary point is alpha^2 bend.
            let step = (-slope / (alpha * bend)).clamp(-1.0, 1.0);
            let next = (alpha * step.exp()).clamp(LEAST_ALPHA, MOST_ALPHA);
            if next.is_nan() || value(next) <= value(alpha) {
                break;
            }
            alpha = next;
        }
        self.state.objective -= value(alpha) - value(self.state.alpha);
        self.state.alpha = alpha;
    }

    /// `sum_nk <ln theta_nk>` over documents with tokens.
    fn expected_ln_proportions(&self) -> f64 {
        let k = self.config.topics;
        let blocks = self
            .state
            .gamma
            .chunks(256 * k)
            .zip(self.lengths.chunks(256));
        let parts: Vec<f64> = parallel::map(blocks, |(gamma, lengths)| {
            let rows = gamma
                .chunks_exact(k)
                .zip(lengths)
                .filter(|(_, l)| **l > 0.0);
            let row = |(gamma, _): (&[f64], &f64)| {
                let total = digamma(gamma.iter().sum());
                gamma.iter().map(|&g| digamma(g) - total).sum::<f64>()
            };
            rows.map(row).sum()
        });
        parts.iter().sum()
    }
}

const LEAST_ALPHA: f64 = 1e-3;
const MOST_ALPHA: f64 = 1e3;

/// A sum over blocks of words, the blocks in parallel and then in order.
fn in_blocks(
    a: &[f64],
    b: &[f64],
    sum: impl Fn(&[f64], &[f64]) -> f64 + Sync,
    n_topics: usize,
) -> f64 {
    let size = 1024 * n_topics;
    let blocks = a.chunks(size).zip(b.chunks(size));
    let parts: Vec<f64> = parallel::map(blocks, |(a, b)| sum(a, b));
    parts.iter().sum()
}
