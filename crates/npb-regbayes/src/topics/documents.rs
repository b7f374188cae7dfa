//! The pass over all documents: proportions `gamma_n`, expected topics of tokens and the documents' part of the bound.
//!
//! Tokens of one word in one document share `phi_nv ~ t_nk B_vk`, with `ln t_n = <ln theta_n> + T_n / V_n` and `ln B_v = <ln beta_v>`: the tilt `T_n` is what
//! responses ask of the document (`docs/regbayes.md#medlda`). So nothing of size tokens x topics is ever stored: `t_n` and one ratio
//! `c_nv / sum_k t_nk B_vk` per entry say everything.

use npb_data::Ratings;
use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_priors::special::{digamma, ln_gamma};
use pulp::{Arch, Simd, WithSimd};

/// Documents that are worked on as one unit.
const BLOCK: usize = 64;

/// Topics are padded with zeros to a multiple of this, the widest register.
const PAD: usize = 8;

/// Least exponent of a weight relative to the largest: products of two stay numbers.
const LEAST_EXPONENT: f64 = -300.0;

/// `exp <ln beta_vk>`, each word scaled to a largest value of 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordWeights {
    pub(crate) n_topics: usize,
    /// Numbers per word: topics, then zeros.
    pub(crate) width: usize,
    /// `n_words x width`.
    pub(crate) values: Vec<f64>,
    /// Logarithms of the scales.
    pub(crate) ln_scales: Vec<f64>,
    /// Words that no topic knows; they say nothing.
    pub(crate) unknown: Vec<bool>,
}

impl WordWeights {
    /// Of `topics`, `n_words x n_topics`, the parameters of the Dirichlet posteriors.
    pub(crate) fn new(topics: &[f64], n_topics: usize, word_prior: f64) -> Self {
        let width = n_topics.next_multiple_of(PAD);
        let n_words = topics.len() / n_topics;
        let totals: Vec<f64> = topic_totals(topics, n_topics)
            .iter()
            .map(|&total| digamma(total))
            .collect();
        let mut weights = Self {
            n_topics,
            width,
            values: vec![0.0; n_words * width],
            ln_scales: vec![0.0; n_words],
            unknown: vec![false; n_words],
        };
        let words = weights.values.chunks_mut(width);
        let words = words
            .zip(topics.chunks(n_topics))
            .zip(&mut weights.ln_scales)
            .zip(&mut weights.unknown);
        parallel::for_each(words, |(((values, topics), ln_scale), unknown)| {
            *unknown = topics.iter().all(|&t| t <= word_prior);
            for ((value, &topic), total) in values.iter_mut().zip(topics).zip(&totals) {
                *value = digamma(topic) - total;
            }
            *ln_scale = exponentiate(&mut values[..n_topics]);
        });
        weights
    }

    pub(crate) fn word(&self, v: usize) -> &[f64] {
        &self.values[v * self.width..][..self.width]
    }
}

/// Sums over words, in fixed blocks.
pub(crate) fn topic_totals(topics: &[f64], n_topics: usize) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = parallel::map(topics.chunks(1024 * n_topics), |words| {
        let mut sum = vec![0.0; n_topics];
        for word in words.chunks_exact(n_topics) {
            sum.iter_mut().zip(word).for_each(|(s, x)| *s += x);
        }
        sum
    });
    let mut total = vec![0.0; n_topics];
    for part in parts {
        total.iter_mut().zip(part).for_each(|(s, x)| *s += x);
    }
    total
}

/// `x <- exp(x - max x)`; gives `max x`.
fn exponentiate(x: &mut [f64]) -> f64 {
    let most = x.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
    x.iter_mut()
        .for_each(|x| *x = (*x - most).max(LEAST_EXPONENT).exp());
    most
}

/// What a pass reads.
pub(crate) struct Pass<'a> {
    pub(crate) documents: &'a Ratings,
    pub(crate) lengths: &'a [f64],
    pub(crate) weights: &'a WordWeights,
    pub(crate) alpha: f64,
    pub(crate) inner_iterations: usize,
    pub(crate) inner_tolerance: f64,
}

/// Everything of the documents that the rest of the model reads, `n_docs x n_topics` where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents {
    /// Parameters of `q(theta_n)`.
    pub(crate) gamma: Vec<f64>,
    /// `V_n` times the tilt per token: what responses add to `ln phi`, summed over the document.
    pub(crate) tilt: Vec<f64>,
    /// Expected share of each topic in the tokens, `E zbar_n`; equal shares for an empty document.
    pub(crate) shares: Vec<f64>,
    /// `t_n`, `n_docs x width`.
    pub(crate) factors: Vec<f64>,
    /// `c_nv / sum_k t_nk B_vk`, by position.
    pub(crate) ratios: Vec<f64>,
    /// Documents' part of `KL(q || p)`: minus the bound, without responses and topics.
    pub(crate) kl: f64,
}

impl Documents {
    /// Updates proportions and token topics of all documents at their tilts.
    pub(crate) fn update(&mut self, arch: Arch, pass: &Pass<'_>) {
        let (k, width) = (pass.weights.n_topics, pass.weights.width);
        let n_docs = pass.documents.n_rows();
        self.factors.resize(n_docs * width, 0.0);
        self.ratios.resize(pass.documents.n_observed(), 0.0);
        let mut ratios: Vec<&mut [f64]> = Vec::with_capacity(n_docs.div_ceil(BLOCK));
        let mut rest = &mut self.ratios[..];
        for first in (0..n_docs).step_by(BLOCK) {
            let last = (first + BLOCK).min(n_docs) - 1;
            let entries =
                pass.documents.row_positions(last).end - pass.documents.row_positions(first).start;
            let (block, later) = rest.split_at_mut(entries);
            ratios.push(block);
            rest = later;
        }
        let blocks = self
            .gamma
            .chunks_mut(BLOCK * k)
            .zip(self.tilt.chunks(BLOCK * k))
            .zip(self.shares.chunks_mut(BLOCK * k))
            .zip(self.factors.chunks_mut(BLOCK * width))
            .zip(ratios)
            .enumerate();
        let kls: Vec<f64> = parallel::map(
            blocks,
            |(block, ((((gamma, tilt), shares), factors), ratios))| {
                arch.dispatch(Block {
                    pass,
                    first: block * BLOCK,
                    gamma,
                    tilt,
                    shares,
                    factors,
                    ratios,
                })
            },
        );
        self.kl = kls.iter().sum();
    }

    /// Expected counts of words in topics, `n_words x n_topics`.
    pub(crate) fn word_counts(&self, arch: Arch, pass: &Pass<'_>) -> Vec<f64> {
        let n_topics = pass.weights.n_topics;
        let mut counts = vec![0.0; pass.documents.n_cols() * n_topics];
        parallel::for_each_with(
            counts.chunks_mut(n_topics).enumerate(),
            || vec![0.0; pass.weights.width],
            |sums, (word, counts)| {
                arch.dispatch(WordSum {
                    documents: self,
                    pass,
                    word,
                    sums,
                });
                counts.copy_from_slice(&sums[..n_topics]);
            },
        );
        counts
    }
}

impl Documents {
    /// `sum_n E[zbar_n zbar_n']` over documents of positive cost: `V^-2 (diag s + s s' - sum_v c_v phi_v phi_v')`, `s = sum_v c_v phi_v`
    /// (`docs/regbayes.md#medlda`).
    pub(crate) fn second_moments(&self, pass: &Pass<'_>, costs: &[f64]) -> Mat<f64> {
        let k = pass.weights.n_topics;
        let n_docs = pass.documents.n_rows();
        let blocks: Vec<Vec<f64>> = parallel::map(0..n_docs.div_ceil(BLOCK), |block| {
            let mut sum = vec![0.0; k * k];
            let mut phi = vec![0.0; k];
            for row in block * BLOCK..((block + 1) * BLOCK).min(n_docs) {
                if costs[row] > 0.0 {
                    self.add_second_moment(pass, row, &mut phi, &mut sum);
                }
            }
            sum
        });
        let mut total = vec![0.0; k * k];
        for block in blocks {
            total.iter_mut().zip(block).for_each(|(t, b)| *t += b);
        }
        Mat::from_fn(k, k, |i, j| total[i.max(j) * k + i.min(j)])
    }

    /// Adds one document to the lower triangle of `sum`.
    fn add_second_moment(&self, pass: &Pass<'_>, row: usize, phi: &mut [f64], sum: &mut [f64]) {
        let (k, width) = (phi.len(), pass.weights.width);
        let length = pass.lengths[row];
        let shares = &self.shares[row * k..][..k];
        for i in 0..k {
            sum[i * k + i] += shares[i] / length;
            add_scaled(&mut sum[i * k..][..=i], shares[i], &shares[..=i]);
        }
        let factors = &self.factors[row * width..][..k];
        let (words, counts) = pass.documents.row(row);
        let entries = words
            .iter()
            .zip(counts)
            .zip(pass.documents.row_positions(row));
        for ((&word, &count), position) in entries.filter(|((_, count), _)| **count > 0.0) {
            let ratio = self.ratios[position] / count;
            let weights = pass.weights.word(word as usize);
            for ((phi, t), b) in phi.iter_mut().zip(factors).zip(weights) {
                *phi = t * b * ratio;
            }
            let scale = count / (length * length);
            for i in 0..k {
                add_scaled(&mut sum[i * k..][..=i], -scale * phi[i], &phi[..=i]);
            }
        }
    }
}

fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// `sum_n c_nv phi_nv` of one word.
struct WordSum<'a> {
    documents: &'a Documents,
    pass: &'a Pass<'a>,
    word: usize,
    sums: &'a mut [f64],
}

impl WithSimd for WordSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let weights = self.pass.weights;
        let width = weights.width;
        let (sums, _) = S::as_mut_simd_f64s(self.sums);
        sums.fill(simd.splat_f64s(0.0));
        let (rows, _) = self.pass.documents.column(self.word);
        let positions = self.pass.documents.column_positions(self.word);
        for (&n, &position) in rows.iter().zip(positions) {
            let factors = &self.documents.factors[n as usize * width..][..width];
            let (factors, _) = S::as_simd_f64s(factors);
            let ratio = simd.splat_f64s(self.documents.ratios[position]);
            for (sum, &t) in sums.iter_mut().zip(factors) {
                *sum = simd.mul_add_e_f64s(ratio, t, *sum);
            }
        }
        let (word, _) = S::as_simd_f64s(weights.word(self.word));
        for (sum, &b) in sums.iter_mut().zip(word) {
            *sum = simd.mul_f64s(*sum, b);
        }
    }
}

/// A block of documents.
struct Block<'a> {
    pass: &'a Pass<'a>,
    first: usize,
    gamma: &'a mut [f64],
    tilt: &'a [f64],
    shares: &'a mut [f64],
    factors: &'a mut [f64],
    ratios: &'a mut [f64],
}

impl WithSimd for Block<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Pass {
            documents, weights, ..
        } = *self.pass;
        let (k, width) = (weights.n_topics, weights.width);
        let start = documents.row_positions(self.first).start;
        let mut sums = vec![0.0; width];
        let mut kl = 0.0;
        for (i, gamma) in self.gamma.chunks_exact_mut(k).enumerate() {
            let row = self.first + i;
            let positions = documents.row_positions(row);
            let document = Document {
                words: documents.row(row).0,
                counts: documents.row(row).1,
                length: self.pass.lengths[row],
                tilt: &self.tilt[i * k..][..k],
                gamma,
                factors: &mut self.factors[i * width..][..width],
                ratios: &mut self.ratios[positions.start - start..positions.end - start],
                sums: &mut sums,
                pass: self.pass,
            };
            kl += document.update(simd, &mut self.shares[i * k..][..k]);
        }
        kl
    }
}

/// One document.
struct Document<'a> {
    words: &'a [u32],
    counts: &'a [f64],
    length: f64,
    tilt: &'a [f64],
    gamma: &'a mut [f64],
    factors: &'a mut [f64],
    ratios: &'a mut [f64],
    /// Expected number of tokens of each topic.
    sums: &'a mut [f64],
    pass: &'a Pass<'a>,
}

impl Document<'_> {
    /// Updates until the shares rest; gives the document's part of the KL divergence.
    #[inline(always)]
    fn update<S: Simd>(mut self, simd: S, shares: &mut [f64]) -> f64 {
        let k = shares.len();
        let alpha = self.pass.alpha;
        if self.length == 0.0 {
            // No token: the posterior is the prior, and the expected shares are those of the prior.
            self.gamma.fill(alpha);
            shares.fill(1.0 / k as f64);
            self.ratios.fill(0.0);
            self.factors.fill(0.0);
            return 0.0;
        }
        let mut kl = 0.0;
        for inner in 0..self.pass.inner_iterations {
            let ln_scale = self.set_factors();
            self.tokens(simd);
            let mut change = 0.0;
            for (share, &sum) in shares.iter_mut().zip(&*self.sums) {
                change += (sum / self.length - *share).abs();
                *share = sum / self.length;
            }
            let last =
                inner + 1 == self.pass.inner_iterations || change < self.pass.inner_tolerance;
            if last {
                kl = self.tokens_kl(ln_scale);
            }
            for (gamma, &sum) in self.gamma.iter_mut().zip(&*self.sums) {
                *gamma = alpha + sum;
            }
            if last {
                break;
            }
        }
        kl + proportions_kl(self.gamma, alpha)
    }

    /// `t_n`, scaled to a largest value of 1; gives the logarithm of the scale. The digamma of the total of `gamma` is the same for all topics and is left out.
    #[inline(always)]
    fn set_factors(&mut self) -> f64 {
        for ((factor, &gamma), tilt) in self.factors.iter_mut().zip(&*self.gamma).zip(self.tilt) {
            *factor = digamma(gamma) + tilt / self.length;
        }
        exponentiate(&mut self.factors[..self.tilt.len()])
    }

    /// Ratios and expected numbers of tokens at the present factors.
    #[inline(always)]
    fn tokens<S: Simd>(&mut self, simd: S) {
        let weights = self.pass.weights;
        let (factors, _) = S::as_simd_f64s(self.factors);
        let (sums, _) = S::as_mut_simd_f64s(self.sums);
        sums.fill(simd.splat_f64s(0.0));
        let entries = self.words.iter().zip(self.counts).zip(&mut *self.ratios);
        for ((&word, &count), ratio) in entries {
            let (word, _) = S::as_simd_f64s(weights.word(word as usize));
            let mut norm = simd.splat_f64s(0.0);
            for (&t, &b) in factors.iter().zip(word) {
                norm = simd.mul_add_e_f64s(t, b, norm);
            }
            *ratio = count / simd.reduce_sum_f64s(norm);
            let scale = simd.splat_f64s(*ratio);
            for (sum, &b) in sums.iter_mut().zip(word) {
                *sum = simd.mul_add_e_f64s(scale, b, *sum);
            }
        }
        for (sum, &t) in sums.iter_mut().zip(factors) {
            *sum = simd.mul_f64s(*sum, t);
        }
    }

    /// `sum_v c_v sum_k phi (ln phi - <ln beta>)`, with what `<ln theta>` gives left to [`proportions_kl`]: at `gamma = alpha + sum c phi` all terms with
    /// `<ln theta>` after the update cancel, apart from the prior's.
    #[inline(always)]
    fn tokens_kl(&self, ln_scale: f64) -> f64 {
        let mut kl = 0.0;
        for ((&word, &count), &ratio) in self.words.iter().zip(self.counts).zip(&*self.ratios) {
            if count > 0.0 {
                let ln_norm = (count / ratio).ln();
                kl -= count * (ln_norm + ln_scale + self.pass.weights.ln_scales[word as usize]);
            }
        }
        for ((&sum, &gamma), tilt) in self.sums.iter().zip(&*self.gamma).zip(self.tilt) {
            kl += sum * (digamma(gamma) + tilt / self.length);
        }
        kl
    }
}

/// `KL(q(theta) || p(theta)) - E sum_m ln p(z_m | theta)` at `gamma = alpha + tokens`: the differences of the Dirichlet normalisers.
fn proportions_kl(gamma: &[f64], alpha: f64) -> f64 {
    let total: f64 = gamma.iter().sum();
    let own: f64 = gamma.iter().map(|&g| ln_gamma(g)).sum();
    let k = gamma.len() as f64;
    ln_gamma(total) - own - (ln_gamma(k * alpha) - k * ln_gamma(alpha))
}
