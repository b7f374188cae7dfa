//! Who comes to rate what.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::DataError;

/// Powers of the likeness of two lists that are tried.
const SHARPNESS: [u8; 7] = [0, 1, 2, 3, 4, 6, 8];
/// So many people are asked for them, each by at most so many items, for the rest of its list.
const ASKED: usize = 100;
const GIVEN: usize = 20;
/// Of more people every other, third, ... is looked at when the sharpness is learned.
const CROWD: usize = 10_000;

/// Which items someone comes to rate, by what it has rated and who else rated what; what people think of what they rated does not matter.
///
/// The chance of an item is the share of those who rated it among people who count by how like their lists are to the given items. Someone with n items, o of
/// them given, weighs `(o / sqrt(n))^q`; everyone together, alike, weighs as much as the one who is nearest. The sharpness q is learned: 0, where items come to
/// people by chance and popularity is all there is, and up to 8, where people choose. Multiply by the chance of a like for lists of what someone will choose
/// *and* like.
///
/// ```
/// use npb_data::Exposure;
/// // Twenty people who rate the first items, twenty who rate the last.
/// let list = |person: u32| (0..8).filter(move |item| (person + item) % 4 != 0).map(move |item| if person < 20 { item } else { item + 8 });
/// let lists: Vec<Vec<u32>> = (0..40).map(|person| list(person).collect()).collect();
/// let exposure = Exposure::learn(16, lists.iter().map(Vec::as_slice))?;
/// let chances = exposure.chances(16, lists.iter().map(Vec::as_slice), &[1, 2])?;
/// assert!(chances[5] > 0.6 && chances[13] < 0.1);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exposure {
    sharpness: u8,
}

impl Exposure {
    /// Learns the sharpness from the items of each person, without repetition in a list: a hundred people are asked by every other item of theirs (20 at most)
    /// for the others, and that power is taken that makes these most likely. Of more than 10,000 people a part is looked at. Cost: a thousand times the length of their lists, in parallel.
    ///
    /// # Errors
    /// An item that does not exist.
    pub fn learn<'a>(
        n_items: usize,
        lists: impl IntoIterator<Item = &'a [u32]>,
    ) -> Result<Self, DataError> {
        let mut crowd = Crowd::new(n_items, lists)?;
        let every = crowd.lists.len().div_ceil(CROWD);
        if every > 1 {
            crowd = Crowd::new(n_items, crowd.lists.into_iter().step_by(every))?;
        }
        let able: Vec<usize> = (0..crowd.lists.len())
            .filter(|&person| crowd.lists[person].len() > 1)
            .collect();
        let asked: Vec<usize> = able
            .iter()
            .copied()
            .step_by(able.len().div_ceil(ASKED).max(1))
            .collect();
        let scores: Vec<[f64; SHARPNESS.len()]> = asked
            .par_iter()
            .map(|&person| crowd.ln_shares(person))
            .collect();
        let total = |k: usize| scores.iter().map(|score| score[k]).sum::<f64>();
        // Of equal ones the least.
        let best = (0..SHARPNESS.len()).rev();
        let best = best.max_by(|&a, &b| total(a).total_cmp(&total(b)));
        Ok(Self {
            sharpness: SHARPNESS[best.unwrap_or(0)],
        })
    }

    /// The power of the likeness of lists, q.
    pub fn sharpness(&self) -> u8 {
        self.sharpness
    }

    /// For each of `n_items` items the chance that someone who rated the `given` items comes to rate it too. Cost: the lengths of all lists.
    ///
    /// # Errors
    /// An item that does not exist.
    pub fn chances<'a>(
        &self,
        n_items: usize,
        lists: impl IntoIterator<Item = &'a [u32]>,
        given: &[u32],
    ) -> Result<Vec<f64>, DataError> {
        check(n_items, given)?;
        let crowd = Crowd::new(n_items, lists)?;
        let likeness = crowd.likeness(given);
        Ok(crowd.chances(&likeness, self.sharpness, &crowd.popularity(None)))
    }
}

fn check(n_items: usize, items: &[u32]) -> Result<(), DataError> {
    match items.iter().find(|&&item| item as usize >= n_items) {
        None => Ok(()),
        Some(&item) => Err(DataError::NoSuchItem {
            item: item as usize,
            n_items,
        }),
    }
}

/// Everyone's list.
struct Crowd<'a> {
    lists: Vec<&'a [u32]>,
    /// How many have rated each item.
    raters: Vec<f64>,
}

impl<'a> Crowd<'a> {
    fn new(n_items: usize, lists: impl IntoIterator<Item = &'a [u32]>) -> Result<Self, DataError> {
        let lists: Vec<&[u32]> = lists.into_iter().collect();
        let mut raters = vec![0.0; n_items];
        for list in &lists {
            check(n_items, list)?;
            list.iter().for_each(|&item| raters[item as usize] += 1.0);
        }
        Ok(Self { lists, raters })
    }

    /// `o / sqrt(n)` of each person.
    fn likeness(&self, given: &[u32]) -> Vec<f64> {
        let mut is_given = vec![false; self.raters.len()];
        given
            .iter()
            .for_each(|&item| is_given[item as usize] = true);
        let of_list = |list: &&[u32]| {
            let common = list.iter().filter(|&&item| is_given[item as usize]).count();
            common as f64 / (list.len().max(1) as f64).sqrt()
        };
        self.lists.iter().map(of_list).collect()
    }

    /// Chances of all items to anyone, without one person: beta-binomial, with the moments of the shares of raters.
    fn popularity(&self, without: Option<&[u32]>) -> Vec<f64> {
        let mut raters = self.raters.clone();
        let left_out = without.unwrap_or_default();
        left_out
            .iter()
            .for_each(|&item| raters[item as usize] -= 1.0);
        let people = self.lists.len() as f64 - f64::from(u8::from(without.is_some()));
        let people = people.max(1.0);
        let over_items = |f: &dyn Fn(f64) -> f64| {
            raters.iter().map(|n| f(n / people)).sum::<f64>() / raters.len() as f64
        };
        let mean = over_items(&|p| p);
        let variance = over_items(&|p| (p - mean).powi(2));
        let of_chance = over_items(&|p| p * (1.0 - p)) / people;
        let spread = (variance - of_chance).max(1e-9);
        let prior = (mean * (1.0 - mean) / spread - 1.0).max(1.0);
        let chance = |n: f64| (n + prior * mean) / (people + prior);
        raters.into_iter().map(chance).collect()
    }

    fn chances(&self, likeness: &[f64], sharpness: u8, popularity: &[f64]) -> Vec<f64> {
        let mut near = vec![0.0; popularity.len()];
        let (mut total, mut largest) = (0.0, 0.0);
        if sharpness > 0 {
            for (list, like) in self.lists.iter().zip(likeness).filter(|(_, l)| **l > 0.0) {
                let weight = like.powi(i32::from(sharpness));
                total += weight;
                largest = f64::max(largest, weight);
                list.iter().for_each(|&item| near[item as usize] += weight);
            }
        }
        let all = if largest > 0.0 { largest } else { 1.0 };
        let chance = |(near, popular): (f64, &f64)| (near + all * popular) / (total + all);
        near.into_iter().zip(popularity).map(chance).collect()
    }

    /// For each sharpness the mean ln share, of the chances of all items that a person was not asked by, of those that are in its list.
    fn ln_shares(&self, person: usize) -> [f64; SHARPNESS.len()] {
        let list = self.lists[person];
        let every = list.len().div_ceil(GIVEN).max(2);
        let given: Vec<u32> = list.iter().copied().step_by(every).collect();
        let mut likeness = self.likeness(&given);
        likeness[person] = 0.0;
        let popularity = self.popularity(Some(list));
        SHARPNESS.map(|sharpness| {
            let mut chances = self.chances(&likeness, sharpness, &popularity);
            given.iter().for_each(|&item| chances[item as usize] = 0.0);
            let total: f64 = chances.iter().sum();
            let rest = list.iter().map(|&item| chances[item as usize]);
            let shares = rest.filter(|&p| p > 0.0).map(|p| (p / total).ln());
            shares.sum::<f64>() / (list.len() - given.len()) as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lists, by hand.
    #[test]
    fn chances_are_weighted_shares() {
        let lists: [&[u32]; 3] = [&[0, 1, 2, 3], &[0, 2], &[3]];
        let chances = |sharpness, given: &[u32]| {
            let found = Exposure { sharpness }.chances(5, lists, given);
            found.unwrap()
        };
        // Shares 2/3, 1/3, 2/3, 2/3, 0 have mean 7/15 and variance 16/225, of which chance makes 8/45 / 3: the prior counts as (56/225) / (8/675) - 1 = 20
        // people.
        let (mean, prior) = (7.0 / 15.0, 20.0);
        let popular = [2.0, 1.0, 2.0, 2.0, 0.0].map(|n| (n + prior * mean) / (3.0 + prior));
        let near = |q: i32| -> Vec<f64> {
            // Overlaps 2, 1 and 0: likeness 2/2, 1/sqrt 2, 0.
            let second = 0.5f64.powf(f64::from(q) / 2.0);
            let shares = [1.0 + second, 1.0, 1.0 + second, 1.0, 0.0];
            let chance = |(n, p): (&f64, &f64)| (n + p) / (2.0 + second);
            shares.iter().zip(&popular).map(chance).collect()
        };
        for (found, expected) in [
            (chances(4, &[0, 1]), near(4)),
            (chances(1, &[0, 1]), near(1)),
            (chances(0, &[0, 1]), popular.to_vec()),
            (chances(4, &[]), popular.to_vec()),
            (chances(4, &[4]), popular.to_vec()),
        ] {
            let far = found.iter().zip(&expected);
            assert!(
                far.into_iter().all(|(a, b)| (a - b).abs() < 1e-12),
                "{found:?} {expected:?}"
            );
        }
        let any = Exposure { sharpness: 2 };
        assert!(any.chances(3, lists, &[]).is_err() && any.chances(5, lists, &[5]).is_err());
        assert!(Exposure::learn(3, lists).is_err());
    }

    /// The sharpness is that which makes what was left out of lists most likely, by plain loops.
    #[test]
    fn sharpness_is_learned_from_what_lists_leave_open() {
        let noise = |a: u32, b: u32| {
            let mixed = (a + 1).wrapping_mul(2_654_435_761) ^ (b + 7).wrapping_mul(40_503);
            f64::from(mixed.wrapping_mul(2_246_822_519) >> 8) / f64::from(1 << 24)
        };
        // Chosen by taste, or shown at random.
        for chosen in [true, false] {
            let rates = |person: u32, item: u32| {
                let near = !chosen || (person % 4) == (item % 4);
                noise(person, item) < if near { 0.4 } else { 0.02 }
            };
            let list = |person| (0..40).filter(move |&item| rates(person, item)).collect();
            let lists: Vec<Vec<u32>> = (0..60).map(list).collect();
            let learned = Exposure::learn(40, lists.iter().map(Vec::as_slice)).unwrap();
            let score = |sharpness: u8| {
                let mut total = 0.0;
                for (person, list) in lists.iter().enumerate().filter(|(_, l)| l.len() > 1) {
                    let given: Vec<u32> = list.iter().copied().step_by(2).collect();
                    let others = lists.iter().enumerate().filter(|(k, _)| *k != person);
                    let others: Vec<&[u32]> = others.map(|(_, list)| list.as_slice()).collect();
                    let chances = Exposure { sharpness }.chances(40, others, &given).unwrap();
                    let open = |item: &u32| !given.contains(item);
                    let sum = |items: &mut dyn Iterator<Item = u32>| -> f64 {
                        items.filter(open).map(|i| chances[i as usize]).sum()
                    };
                    let all = sum(&mut (0..40));
                    let rest: Vec<f64> = list
                        .iter()
                        .filter(|item| open(item))
                        .map(|&item| (chances[item as usize] / all).ln())
                        .collect();
                    total += rest.iter().sum::<f64>() / rest.len() as f64;
                }
                total
            };
            let best = SHARPNESS.map(score).into_iter().fold(f64::MIN, f64::max);
            assert!((score(learned.sharpness) - best).abs() < 1e-9);
            assert_eq!(learned.sharpness() > 0, chosen, "{learned:?}");
        }
        // Nothing to learn from.
        assert_eq!(Exposure::learn(3, [&[][..], &[1]]).unwrap().sharpness(), 0);
        assert_eq!(Exposure::learn(0, []).unwrap().sharpness(), 0);
    }
}
