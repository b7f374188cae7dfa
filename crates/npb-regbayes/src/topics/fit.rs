//! A fitted model: topics, what they say of a response, and new documents.

use npb_data::{Rating, Ratings};
use npb_infer::{Stop, Variational, VbReport, VbRun, Watch, maximise};
use npb_linalg::faer::Mat;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use super::config::MedLdaConfig;
use super::corpus::{Response, check_counts, lengths};
use super::documents::{Documents, Pass, WordWeights, topic_totals};
use super::eta::Units;
use super::vb::{MedLdaVb, State};
use crate::error::{RegBayesError, same_size};
use crate::fit::saved;

/// A word of a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopWord {
    /// Column of the documents.
    pub word: usize,
    /// Its posterior mean probability in the topic.
    pub probability: f64,
}

/// A fitted MedLDA, LDA + SVM or (without responses) LDA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedLdaFit {
    config: MedLdaConfig,
    /// `n_words x n_topics`.
    topics: Vec<f64>,
    alpha: f64,
    /// `n_scores x n_topics`.
    mean: Vec<f64>,
    #[serde(with = "npb_linalg::saved")]
    covariance: Mat<f64>,
    noise: f64,
    units: Units,
    /// `n_docs x n_topics`.
    shares: Vec<f64>,
    trace: Vec<VbReport>,
    stop: Stop,
}

/// Fits topics and what they say of the responses. Documents: a row each, a column per word, counts as values; see [`MedLdaFit`] for what comes back.
///
/// ```
/// use npb_regbayes::npb_data::{Rating, Ratings};
/// use npb_regbayes::topics::{MedLdaConfig, Response, fit};
/// // Twelve documents of two kinds: words 0 and 1, or words 2 and 3, and word 4 in all.
/// let entry = |row: u32, column: u32| Rating { row, column, value: 3.0 };
/// let entries: Vec<Rating> = (0..12).flat_map(|n| [0, 1, 4].map(|w| entry(n, if w == 4 { 4 } else { w + 2 * (n % 2) }))).collect();
/// let documents = Ratings::new(12, 5, &entries)?;
/// let classes: Vec<u32> = (0..12).map(|n| n % 2).collect();
/// let config = MedLdaConfig { topics: 2, ..MedLdaConfig::default() };
/// let model = fit(&documents, Response::Classes { classes: &classes, n_classes: 2 }, &config)?;
/// let new = Ratings::new(1, 5, &[entry(0, 3)])?;
/// assert_eq!(model.predict_classes(&new)?, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`MedLdaVb::new`] and [`MedLdaVb::step`].
pub fn fit(
    documents: &Ratings,
    response: Response<'_>,
    config: &MedLdaConfig,
) -> Result<MedLdaFit, RegBayesError> {
    fit_watched(documents, response, config, &Watch::none())
}

/// As [`fit`], watched: `watch` hears the objective after each iteration, may stop the fit, and may keep it in a checkpoint.
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be read or written or is of another fit.
pub fn fit_watched(
    documents: &Ratings,
    response: Response<'_>,
    config: &MedLdaConfig,
    watch: &Watch<'_>,
) -> Result<MedLdaFit, RegBayesError> {
    MedLdaVb::new(documents, response, config)?.run(watch)
}

impl MedLdaFit {
    /// The settings of the run.
    pub fn config(&self) -> &MedLdaConfig {
        &self.config
    }

    /// Why the run ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Minus the objective, iteration by iteration: it never falls.
    pub fn trace(&self) -> &[VbReport] {
        &self.trace
    }

    /// Number of topics.
    pub fn n_topics(&self) -> usize {
        self.config.topics
    }

    /// Number of words.
    pub fn n_words(&self) -> usize {
        self.topics.len() / self.config.topics
    }

    /// Scores of a document: 0 without responses, 1 for real ones, else the number of classes.
    pub fn n_scores(&self) -> usize {
        self.mean.len() / self.config.topics
    }

    /// Parameter of the symmetric Dirichlet prior of proportions.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// `E[eta]`, `n_scores x n_topics`, for real responses in their units: the score of a document is the mean of its tokens' topics' coefficients (and, for real
    /// responses, [`centre`](Self::centre) besides).
    pub fn coefficients(&self) -> Vec<f64> {
        self.mean.iter().map(|m| m * self.units.scale).collect()
    }

    /// Mean of the real responses; 0 for classes.
    pub fn centre(&self) -> f64 {
        self.units.centre
    }

    /// Expected shares of the topics in the training documents, `n_docs x n_topics`.
    pub fn training_shares(&self) -> &[f64] {
        &self.shares
    }

    /// The most probable words of a topic, the most probable first.
    ///
    /// # Errors
    /// A topic that does not exist.
    pub fn top_words(&self, topic: usize, n: usize) -> Result<Vec<TopWord>, RegBayesError> {
        let k = self.config.topics;
        if topic >= k {
            return Err(RegBayesError::Argument {
                argument: "topic",
                value: topic.to_string(),
                rule: "below the number of topics",
            });
        }
        let total = topic_totals(&self.topics, k)[topic];
        let mut words: Vec<TopWord> = (0..self.n_words())
            .map(|word| TopWord {
                word,
                probability: self.topics[word * k + topic] / total,
            })
            .collect();
        words.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        words.truncate(n);
        Ok(words)
    }

    /// Folds documents in: expected shares of the topics in each, `n_docs x n_topics`. Words that no training document has say nothing; a document without
    /// any word has the shares that the prior expects.
    ///
    /// # Errors
    /// Another number of words than the fit's; a negative count.
    pub fn shares(&self, documents: &Ratings) -> Result<Vec<f64>, RegBayesError> {
        same_size("words of the documents", documents.n_cols(), self.n_words())?;
        check_counts(documents)?;
        let k = self.config.topics;
        let weights = WordWeights::new(&self.topics, k, self.config.word_prior);
        let known: Vec<Rating> = documents
            .iter()
            .filter(|entry| !weights.unknown[entry.column as usize])
            .collect();
        let documents = Ratings::new(documents.n_rows(), documents.n_cols(), &known)?;
        let lengths = lengths(&documents);
        let pass = Pass {
            documents: &documents,
            lengths: &lengths,
            weights: &weights,
            alpha: self.alpha,
            inner_iterations: FOLD_IN_ITERATIONS,
            inner_tolerance: FOLD_IN_TOLERANCE,
        };
        let gamma = lengths.iter().flat_map(|l| {
            let gamma = self.alpha + l / k as f64;
            std::iter::repeat_n(gamma, k)
        });
        let mut folded = Documents {
            gamma: gamma.collect(),
            tilt: vec![0.0; lengths.len() * k],
            shares: vec![1.0 / k as f64; lengths.len() * k],
            ..Documents::default()
        };
        folded.update(Arch::new(), &pass);
        Ok(folded.shares)
    }

    /// Scores of new documents, `n_docs x n_scores`: for real responses the predicted response, else one score per class.
    ///
    /// # Errors
    /// As [`shares`](Self::shares).
    pub fn predict(&self, documents: &Ratings) -> Result<Vec<f64>, RegBayesError> {
        let shares = self.shares(documents)?;
        let k = self.config.topics;
        let score = |(share, mean): (&[f64], &[f64])| {
            self.units.centre + self.units.scale * npb_linalg::dot(share, mean)
        };
        let scores = shares
            .chunks_exact(k)
            .flat_map(|share| self.mean.chunks_exact(k).map(move |mean| (share, mean)));
        Ok(scores.map(score).collect())
    }

    /// The class with the highest score of each new document (the first of equals).
    ///
    /// # Errors
    /// As [`shares`](Self::shares); a fit that has no classes.
    pub fn predict_classes(&self, documents: &Ratings) -> Result<Vec<u32>, RegBayesError> {
        if self.n_scores() < 2 {
            return Err(RegBayesError::Argument {
                argument: "classes",
                value: self.n_scores().to_string(),
                rule: "asked of a fit with two classes or more",
            });
        }
        let scores = self.predict(documents)?;
        let best = |scores: &[f64]| {
            let better = |best: usize, y| if scores[y] > scores[best] { y } else { best };
            (1..scores.len()).fold(0, better) as u32
        };
        Ok(scores.chunks_exact(self.n_scores()).map(best).collect())
    }
}

/// Folding in goes on until proportions rest; most documents need far fewer updates.
const FOLD_IN_ITERATIONS: usize = 100;
const FOLD_IN_TOLERANCE: f64 = 1e-5;

/// The bound is minus the objective.
impl Variational for MedLdaVb<'_> {
    type State = State;
    type Error = RegBayesError;

    fn step(&mut self) -> Result<f64, RegBayesError> {
        Ok(-MedLdaVb::step(self)?)
    }

    fn state(&self) -> State {
        self.state.clone()
    }
}

impl MedLdaVb<'_> {
    /// Runs to the end, from the checkpoint of `watch` if there is one.
    ///
    /// # Errors
    /// As [`step`](Self::step); a checkpoint that cannot be read or written or is of another fit.
    pub fn run(self, watch: &Watch<'_>) -> Result<MedLdaFit, RegBayesError> {
        let config = *self.config();
        let version = env!("CARGO_PKG_VERSION");
        let checkpoint =
            watch.checkpoint("npb-regbayes/medlda/checkpoint", version, self.key()?, 1)?;
        let (limits, mut part) = (config.limits, watch.part("run", 1.0));
        let begin = |reached: Option<VbRun<State>>| {
            let mut run = self;
            reached.map_or(Ok(()), |reached| run.resume(reached.state))?;
            Ok(run)
        };
        let objective = "minus_objective";
        let (mut run, outcome) = maximise(&limits, objective, &mut part, (&checkpoint, 0), begin)?;
        run.second_stage()?;
        let state = run.state;
        Ok(MedLdaFit {
            config,
            topics: state.topics,
            alpha: state.alpha,
            mean: state.mean,
            covariance: state.covariance,
            noise: state.noise,
            units: run.units,
            shares: state.shares,
            trace: outcome.trace,
            stop: outcome.stop,
        })
    }
}

saved!(MedLdaFit, "npb-regbayes/medlda/2");

impl MedLdaFit {
    /// Checks everything that methods rely on.
    fn check(&self) -> Result<(), RegBayesError> {
        let expect = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(RegBayesError::state(format!(
                "{what}: impossible value or size"
            ))),
        };
        self.config.validate()?;
        let k = self.config.topics;
        expect(self.topics.len().is_multiple_of(k), "topics")?;
        let fine = |t: &f64| t.is_finite() && *t >= self.config.word_prior;
        expect(self.topics.iter().all(fine), "topics")?;
        expect(self.alpha.is_finite() && self.alpha > 0.0, "alpha")?;
        expect(self.noise.is_finite() && self.noise > 0.0, "noise")?;
        expect(self.mean.len().is_multiple_of(k), "coefficients")?;
        expect(self.mean.iter().all(|m| m.is_finite()), "coefficients")?;
        let size = (self.covariance.nrows(), self.covariance.ncols());
        expect(size == (0, 0) || size == (k, k), "covariance")?;
        expect(self.shares.len().is_multiple_of(k), "shares")?;
        expect(self.shares.iter().all(|s| s.is_finite()), "shares")?;
        expect(self.trace.iter().all(|r| r.elbo.is_finite()), "trace")?;
        expect(self.units.centre.is_finite(), "centre")?;
        expect(
            self.units.scale.is_finite() && self.units.scale > 0.0,
            "scale",
        )
    }
}
