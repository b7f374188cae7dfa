//! Who is asked, which examples are given, and what is measured on the rest.

use std::collections::BTreeMap;

use npb_baselines::Given;
use npb_data::{Ratings, metrics, splits};

use super::data::Survey;
use npb_kit::{Outcome, Result};

/// Lengths of lists of Top-L.
pub(super) const LENGTHS: [usize; 10] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50];
/// Places on the axis of false positives at which ROC curves are averaged.
const ROC_GRID: usize = 50;
/// Bins of calibration.
pub(super) const BINS: usize = 10;

/// One way of giving examples.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// Ending of the setting's name.
    pub(super) label: &'static str,
    /// Numbers of examples given, ascending. Users without enough for the last are not asked.
    pub(super) given: Vec<usize>,
}

/// Which users are active, and what is given.
#[derive(Clone, Debug)]
pub(super) struct Protocol {
    /// The first decides which users have enough likes and dislikes to be active.
    pub(super) asks: Vec<Ask>,
    pub(super) folds: usize,
    /// At most so many active users of a fold.
    pub(super) active: usize,
    /// Draws of the given examples.
    pub(super) draws: usize,
}

/// One user with examples and the rest.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) user: usize,
    /// Likes by number of examples: (item, +1 or -1).
    pub(super) given: Vec<Vec<Given>>,
    /// Items rated and not given, and whether they are liked; the same for all numbers of examples.
    pub(super) held_out: Vec<(u32, bool)>,
}

/// A fold of users: they are active, all others are the database.
pub(super) struct Fold {
    /// Likes of the database; rows of active users are empty.
    pub(super) database: Ratings,
    /// For each way of asking the active users, once for each draw of examples.
    pub(super) asked: Vec<Vec<Vec<Active>>>,
}

impl Ask {
    /// Likes and dislikes that a user needs: one of each is left.
    fn needed(&self) -> usize {
        self.given.iter().max().map_or(0, |most| most / 2)
    }
}

impl Protocol {
    /// Fold `index` of the users who have enough likes and dislikes.
    pub(super) fn fold(&self, survey: &Survey, index: usize, seed: u64) -> Result<Fold> {
        let needed = self.asks.first().map_or(0, Ask::needed);
        let eligible = survey.users_with(needed, needed);
        let rng = &mut npb_infer::stream(seed, [0, 0, 0, FOLDS]);
        let folds = splits::k_fold(eligible.len(), self.folds, rng)?;
        let fold = folds.get(index).ok_or("there is no such fold")?;
        let mut users: Vec<usize> = fold.test.iter().map(|&k| eligible[k]).collect();
        let database = Survey::without(&survey.likes, &users)?;
        users.truncate(self.active);
        let of_ask = |ask: &Ask| -> Result<Vec<Vec<Active>>> {
            let enough = survey.users_with(ask.needed(), ask.needed());
            let asked = || users.iter().filter(|user| enough.contains(user));
            let draw = |draw| {
                asked()
                    .map(|&user| active(ask, survey, user, draw, seed))
                    .collect()
            };
            (0..self.draws as u64).map(draw).collect()
        };
        Ok(Fold {
            database,
            asked: self.asks.iter().map(of_ask).collect::<Result<_>>()?,
        })
    }
}

fn active(ask: &Ask, survey: &Survey, user: usize, draw: u64, seed: u64) -> Result<Active> {
    let (items, values) = survey.likes.row(user);
    let liked: Vec<bool> = values.iter().map(|&v| v > 0.0).collect();
    let rng = &mut npb_infer::stream(seed, [draw, user as u64, 0, GIVEN]);
    // Half liked, half not.
    let sizes: Vec<(usize, usize)> = ask.given.iter().map(|n| (n / 2, n - n / 2)).collect();
    let splits = splits::given_examples(&liked, &sizes, rng)?;
    let test = splits.first().map(|s| s.test.clone()).unwrap_or_default();
    let places = splits.into_iter().map(|s| s.train);
    let examples = |places: Vec<usize>| places.into_iter().map(|k| (items[k], values[k])).collect();
    Ok(Active {
        user,
        given: places.map(examples).collect(),
        held_out: test.into_iter().map(|k| (items[k], liked[k])).collect(),
    })
}

/// Last words of the keys of folds and of given examples.
const FOLDS: u64 = 72;
const GIVEN: u64 = 73;

/// What a method says about all items for one user.
pub(super) struct Predicted {
    pub(super) scores: Vec<f64>,
    /// Whether scores are probabilities of a like.
    pub(super) probabilities: bool,
    /// The first items of the list of all unseen ones, where that is not by score.
    pub(super) list: Option<Vec<u32>>,
}

impl Predicted {
    pub(super) fn ranking(scores: Vec<f64>) -> Self {
        Self {
            scores,
            probabilities: false,
            list: None,
        }
    }

    pub(super) fn probabilities(scores: Vec<f64>) -> Self {
        Self {
            probabilities: true,
            ..Self::ranking(scores)
        }
    }

    /// Scores by which lists of all unseen items are made.
    fn of_list(&self) -> Vec<f64> {
        let Some(list) = &self.list else {
            return self.scores.clone();
        };
        let mut scores = vec![0.0; self.scores.len()];
        for (place, &item) in list.iter().enumerate() {
            scores[item as usize] = (list.len() - place) as f64;
        }
        scores
    }
}

/// Sums over users and draws of what is measured.
#[derive(Default)]
pub(super) struct Measures {
    /// By measure and user, sums over draws.
    by_user: BTreeMap<&'static str, Vec<f64>>,
    /// Top-L by length, then user.
    top: Vec<Vec<f64>>,
    roc: Vec<f64>,
    bins: Vec<[f64; 3]>,
    draws: f64,
}

const AT: [(usize, &str, &str); 2] = [
    (5, "precision_5", "ndcg_5"),
    (10, "precision_10", "ndcg_10"),
];

impl Measures {
    /// Adds one draw: the active users and, in their order, what was predicted from `given` examples.
    pub(super) fn add(
        &mut self,
        active: &[Active],
        given: usize,
        predicted: &[Predicted],
    ) -> Result<()> {
        self.top.resize(LENGTHS.len(), vec![0.0; active.len()]);
        self.roc.resize(ROC_GRID + 1, 0.0);
        self.bins.resize(BINS, [0.0; 3]);
        self.draws += 1.0;
        for (at, (user, predicted)) in active.iter().zip(predicted).enumerate() {
            let scores: Vec<f64> = user
                .held_out
                .iter()
                .map(|h| predicted.scores[h.0 as usize])
                .collect();
            let liked: Vec<bool> = user.held_out.iter().map(|h| h.1).collect();
            let mut add = |name, value| {
                let sums = self
                    .by_user
                    .entry(name)
                    .or_insert_with(|| vec![0.0; active.len()]);
                sums[at] += value;
            };
            if liked.iter().any(|&l| l) && liked.iter().any(|&l| !l) {
                add("auc", metrics::auc(&scores, &liked)?);
                add("asked", 1.0);
                let gains: Vec<f64> = liked.iter().map(|&l| f64::from(u8::from(l))).collect();
                for (l, precision, ndcg) in AT {
                    let l = l.min(liked.len());
                    add(
                        precision,
                        metrics::top_l(&scores, &liked, &[l])?[0].precision,
                    );
                    add(ndcg, metrics::ndcg(&scores, &gains, &[l])?[0]);
                }
                add_roc(&mut self.roc, &scores, &liked, active.len())?;
            }
            if predicted.probabilities {
                for (&p, &l) in scores.iter().zip(&liked) {
                    let bin = &mut self.bins[((p * BINS as f64) as usize).min(BINS - 1)];
                    let sums = [1.0, p, f64::from(u8::from(l))];
                    bin.iter_mut().zip(sums).for_each(|(b, s)| *b += s);
                }
            }
            let scores = predicted.of_list();
            self.add_top(at, &user.given[given], &user.held_out, &scores)?;
        }
        Ok(())
    }

    /// Top-L over all items that are not given: known likes in the list over L.
    fn add_top(
        &mut self,
        at: usize,
        given: &[Given],
        held_out: &[(u32, bool)],
        scores: &[f64],
    ) -> Result<()> {
        let mut state = vec![Some(false); scores.len()];
        given.iter().for_each(|g| state[g.0 as usize] = None);
        held_out
            .iter()
            .for_each(|h| state[h.0 as usize] = Some(h.1));
        let unseen: Vec<usize> = (0..scores.len()).filter(|&j| state[j].is_some()).collect();
        let chosen: Vec<f64> = unseen.iter().map(|&j| scores[j]).collect();
        let liked: Vec<bool> = unseen.iter().map(|&j| state[j] == Some(true)).collect();
        if liked.iter().any(|&l| l) {
            let lengths = LENGTHS.map(|l| l.min(chosen.len()));
            for (sums, top) in self
                .top
                .iter_mut()
                .zip(metrics::top_l(&chosen, &liked, &lengths)?)
            {
                sums[at] += top.precision;
            }
        }
        Ok(())
    }

    /// Means over users, and by user for comparisons in pairs.
    pub(super) fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        let asked = self.by_user.get("asked").cloned().unwrap_or_default();
        for (name, sums) in self.by_user {
            if name == "asked" {
                continue;
            }
            let users: Vec<f64> = sums
                .iter()
                .zip(&asked)
                .filter(|(_, n)| **n > 0.0)
                .map(|(s, n)| s / n)
                .collect();
            outcome.metrics.insert(name.to_owned(), mean(&users));
            outcome.series.insert(name.to_owned(), users);
        }
        for (l, sums) in LENGTHS.iter().zip(&self.top) {
            let users: Vec<f64> = sums.iter().map(|s| s / self.draws).collect();
            outcome.metrics.insert(format!("top_{l}"), mean(&users));
            outcome.series.insert(format!("top_{l}"), users);
        }
        outcome.series.insert(
            "roc".to_owned(),
            self.roc.iter().map(|t| t / self.draws).collect(),
        );
        if self.bins.iter().any(|b| b[0] > 0.0) {
            let n: f64 = self.bins.iter().map(|b| b[0]).sum();
            let gaps: f64 = self.bins.iter().map(|b| (b[1] - b[2]).abs()).sum();
            outcome
                .metrics
                .insert("calibration_error".to_owned(), gaps / n);
            outcome.series.insert("bins".to_owned(), self.bins.concat());
        }
        outcome
    }
}

/// Adds the share of likes found at each share of false alarms, with straight lines between the points of the curve.
fn add_roc(sums: &mut [f64], scores: &[f64], liked: &[bool], users: usize) -> Result<()> {
    let points = metrics::roc(scores, liked)?;
    for (k, sum) in sums.iter_mut().enumerate() {
        let x = k as f64 / ROC_GRID as f64;
        // The last point that is not to the right, and the next one.
        let after = points.partition_point(|p| p.false_positive_rate <= x);
        let left = points[after - 1];
        let y = match points.get(after) {
            Some(right) => {
                let part = (x - left.false_positive_rate)
                    / (right.false_positive_rate - left.false_positive_rate);
                left.true_positive_rate
                    + part * (right.true_positive_rate - left.true_positive_rate)
            }
            None => 1.0,
        };
        *sum += y / users as f64;
    }
    Ok(())
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SurveyModel;

    fn protocol() -> Protocol {
        let ask = Ask {
            label: "",
            given: vec![4, 20],
        };
        Protocol {
            asks: vec![ask],
            folds: 10,
            active: 5,
            draws: 2,
        }
    }

    #[test]
    fn active_users_are_not_in_the_database() {
        let survey = Survey::simulated(&SurveyModel::default(), 1).unwrap();
        let fold = protocol().fold(&survey, 3, 1).unwrap();
        let draws = &fold.asked[0];
        assert_eq!((draws.len(), draws[0].len()), (2, 5));
        for (a, b) in draws[0].iter().zip(&draws[1]) {
            assert_eq!(a.user, b.user);
            assert!(fold.database.row(a.user).0.is_empty());
            assert_ne!(a.given, b.given);
            assert_eq!((a.given[0].len(), a.given[1].len()), (4, 20));
            let liked = a.given[1].iter().filter(|g| g.1 > 0.0).count();
            assert_eq!(liked, 10);
            let rated = survey.likes.row(a.user).0.len();
            assert_eq!(a.given[1].len() + a.held_out.len(), rated);
            let is_held_out = |item: u32| a.held_out.iter().any(|h| h.0 == item);
            assert!(a.given[1].iter().all(|g| !is_held_out(g.0)));
        }
    }

    #[test]
    fn the_truth_scores_best_and_chance_in_the_middle() {
        let survey = Survey::simulated(&SurveyModel::default(), 1).unwrap();
        let fold = protocol().fold(&survey, 0, 1).unwrap();
        let truth = |a: &Active| {
            let mut scores = vec![0.0; 642];
            a.held_out
                .iter()
                .for_each(|h| scores[h.0 as usize] = if h.1 { 1.0 } else { -1.0 });
            Predicted::ranking(scores)
        };
        let constant = |_: &Active| Predicted::probabilities(vec![0.5; 642]);
        let measured = |predict: &dyn Fn(&Active) -> Predicted| {
            let mut measures = Measures::default();
            for active in &fold.asked[0] {
                let predicted: Vec<Predicted> = active.iter().map(predict).collect();
                measures.add(active, 1, &predicted).unwrap();
            }
            measures.outcome()
        };
        let (best, flat) = (measured(&truth), measured(&constant));
        assert_eq!((best.metrics["auc"], best.metrics["top_5"]), (1.0, 1.0));
        assert_eq!(flat.metrics["auc"], 0.5);
        // The diagonal, and the share of likes against one half.
        assert!(
            flat.series["roc"]
                .iter()
                .enumerate()
                .all(|(k, y)| (y - k as f64 / 50.0).abs() < 1e-12)
        );
        assert!(flat.metrics["calibration_error"] < 0.1);
        assert_eq!(flat.series["auc"].len(), 5);
    }
}
