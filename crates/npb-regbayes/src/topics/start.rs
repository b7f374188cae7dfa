//! Topics before the first iteration.

use npb_data::Ratings;
use npb_infer::stream;
use rand::seq::SliceRandom;

use super::eta::Standard;

/// Third word of the keys of the streams of this module.
const SEEDS: u64 = 0x7365_6564;

/// Documents that a topic starts from, when responses do not say which.
const DOCUMENTS: usize = 5;

/// Share of the mass of a topic that comes from its own documents; the rest is the mean of all.
const OWN: f64 = 0.5;

/// Documents of each topic: a few at random, or, with responses, all documents of a class (dealt among the topics of that class) or of a range of responses.
fn groups(lengths: &[f64], n_topics: usize, responses: &Standard, seed: u64) -> Vec<Vec<usize>> {
    let mut filled: Vec<usize> = (0..lengths.len()).filter(|&n| lengths[n] > 0.0).collect();
    filled.shuffle(&mut stream(seed, [0, 0, SEEDS, 0]));
    let mut groups = vec![Vec::new(); n_topics];
    match responses {
        Standard::None => {
            for (i, &n) in filled.iter().cycle().take(n_topics * DOCUMENTS).enumerate() {
                groups[i % n_topics].push(n);
            }
        }
        Standard::Real(values) => {
            filled.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
            let n = filled.len();
            for (i, &document) in filled.iter().enumerate() {
                groups[i * n_topics / n].push(document);
            }
        }
        Standard::Classes { classes, n_classes } => {
            // Topics k, k + n_classes, ... are of class k; with fewer topics than classes, topics are of several classes.
            let mut dealt = vec![0; *n_classes];
            for &n in &filled {
                let class = classes[n] as usize;
                let own = (n_topics.saturating_sub(class)).div_ceil(*n_classes).max(1);
                groups[(class + *n_classes * (dealt[class] % own)) % n_topics].push(n);
                dealt[class] += 1;
            }
        }
    }
    groups
}

/// Topics that mix the words of all documents with those of their own: `n_words x n_topics` parameters of Dirichlet posteriors, of as much mass as the tokens
/// have.
pub(crate) fn topics(
    documents: &Ratings,
    lengths: &[f64],
    n_topics: usize,
    word_prior: f64,
    responses: &Standard,
    seed: u64,
) -> Vec<f64> {
    let n_words = documents.n_cols();
    let mut topics = vec![word_prior; n_words * n_topics];
    let tokens: f64 = lengths.iter().sum();
    if tokens == 0.0 {
        return topics;
    }
    let mass = tokens / n_topics as f64;
    for entry in documents.iter() {
        let share = (1.0 - OWN) * mass * entry.value / tokens;
        let word = &mut topics[entry.column as usize * n_topics..][..n_topics];
        word.iter_mut().for_each(|t| *t += share);
    }
    for (k, group) in groups(lengths, n_topics, responses, seed)
        .iter()
        .enumerate()
    {
        let own: f64 = group.iter().map(|&n| lengths[n]).sum();
        for &n in group {
            let (words, counts) = documents.row(n);
            for (&word, count) in words.iter().zip(counts) {
                topics[word as usize * n_topics + k] += OWN * mass * count / own;
            }
        }
    }
    topics
}
