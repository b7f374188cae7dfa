//! Splits and merges of components: two rows are drawn, and the rows of their components are allocated anew, by sequential Monte Carlo.
//!
//! Parameters of the components concerned, and sticks, are integrated out. Rows come one after the other, the two that were drawn first: all in one component (merged), or
//! the first two in two of them and the others where they fit (split), their missing features and utilities drawn as they come. Particles of either kind estimate what
//! it is worth; the kind that is now has the present state for its first particle. Then kinds are exchanged by Metropolis's rule, a particle of the kind that is left
//! becomes the state, and parameters, labels and sticks are drawn given it. With one particle this is the sequentially allocated split and merge of Dahl, with more
//! a particle Gibbs step (Andrieu, Doucet and Holenstein) whose model indicator is the kind.
//!
//! Rows that come early to a split have little to go by. So in every other pair particles are drawn towards a guide, a clustering of the rows that does not look at the
//! state; the weights are twisted by it on the way and untwisted at the end.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::{Dirichlet, sample_ln_weights};
use npb_priors::special::ln_add_exp;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::Exp1;

use super::IqgmeSampler;
use super::collapsed::{Collapsed, Scratch};
use super::config::StickRule;
use super::state::{DrawnComponent, GibbsParameters};
use crate::IqgmeError;
use crate::data::IqgmeData;

/// Pairs of rows that are drawn in one move: one drawn towards a guide and one not, or one of either kind where there are many rows. Most components are too large to be
/// allocated anew then.
const PAIRS: u64 = 2;
const MANY_ROWS: usize = 5_000;
/// Rows that one pair may allocate, summed over particles: so many, or this share of all rows.
const ROWS: usize = 400;
const SHARE_OF_ROWS: usize = 50;
/// Most particles of a kind.
const PARTICLES: usize = 16;
/// Logarithm of the odds by which particles are drawn towards a guide, in every other pair or so.
const PULL: f64 = 3.0;
/// Iterations of the k-means that is the guide.
const GUIDE_ITERATIONS: usize = 5;

impl IqgmeSampler<'_> {
    pub(super) fn split_merge(&mut self) -> Result<(), IqgmeError> {
        let n = self.labels.len();
        if n < 2 {
            return Ok(());
        }
        let pairs = if n < MANY_ROWS { PAIRS } else { 1 };
        for pair in 0..pairs {
            let rng = &mut self.rng();
            let guided = if pairs == 1 { rng.random() } else { pair == 1 };
            let first = rng.random_range(0..n);
            let second = (first + rng.random_range(1..n)) % n;
            let pull = if guided { PULL } else { 0.0 };
            if let Some(found) = self.allocation([first, second], pull, rng) {
                self.put(found, rng)?;
            }
        }
        Ok(())
    }

    /// Allocates the rows of the components of two rows anew. Nothing when it would cost too much, there is no label for another component, or numbers fail.
    fn allocation(
        &self,
        [first, second]: [usize; 2],
        pull: f64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Allocation> {
        let labels = [self.labels[first], self.labels[second]];
        let others = (0..self.labels.len()).filter(|&i| i != first && i != second);
        let mut rows: Vec<usize> = others
            .filter(|&i| labels.contains(&self.labels[i]))
            .collect();
        rows.shuffle(rng);
        rows.splice(0..0, [first, second]);
        // The size of the set is the same before and after, so that leaving it be by its size alone favours neither.
        let room = ROWS.max(self.labels.len() / SHARE_OF_ROWS);
        if rng.random_range(0..rows.len()) >= room {
            return None;
        }
        let n_particles = (room / rows.len()).clamp(1, PARTICLES);
        let now_split = labels[0] != labels[1];
        let mut counts = self.counts();
        labels.iter().for_each(|label| counts[*label as usize] = 0);
        let mut parts = [labels[0] as usize, labels[1] as usize];
        let mut ln_labels = 0.0;
        let sizes = match self.config.sticks {
            StickRule::Slice => {
                if !now_split {
                    parts[1] = counts.len();
                }
                Sizes::Urn
            }
            StickRule::Blocked(_) => {
                let free = |h: &usize| counts[*h] == 0 && *h != parts[0];
                let free: Vec<usize> = (0..counts.len()).filter(free).collect();
                if !now_split {
                    parts[1] = *free.get(rng.random_range(0..free.len().max(1)))?;
                }
                // The label of another component is one of those that have no rows.
                ln_labels = (free.len() as f64).ln();
                Sizes::Sticks { counts, parts }
            }
        };
        let empty = Collapsed::new(&self.prior.component, &self.parameters).ok()?;
        let scan = Scan {
            sampler: self,
            rows: &rows,
            guide: if pull > 0.0 {
                self.guide(&rows)
            } else {
                vec![0; rows.len()]
            },
            pull,
            sizes,
            empty,
        };
        let now: Vec<usize> = rows
            .iter()
            .map(|&i| usize::from(now_split && self.labels[i] == labels[1]))
            .collect();
        let mut kinds = [false, true].map(|split| {
            let retained = (split == now_split).then_some(&now[..]);
            scan.particles(split, retained, n_particles, rng)
        });
        let [merged, split] = [kinds[0].as_ref()?, kinds[1].as_ref()?];
        let ln_ratio = split.ln_evidence - merged.ln_evidence + ln_labels;
        let ln_ratio = if now_split { -ln_ratio } else { ln_ratio };
        if !ln_ratio.is_finite() {
            return None;
        }
        let exchange = -rng.sample::<f64, _>(Exp1) < ln_ratio;
        let chosen = kinds[usize::from(now_split != exchange)].take()?;
        chosen.one(&scan, parts, rng)
    }

    /// Two groups of rows by k-means on their observed features that starts from the first two. It knows nothing of how the rows are allocated now.
    fn guide(&self, rows: &[usize]) -> Vec<usize> {
        let p = self.data.rows.n_features;
        let row = |i: usize| &self.data.rows.values[i * p..][..p];
        let mut centres = [row(rows[0]).to_vec(), row(rows[1]).to_vec()];
        let mut groups = vec![0; rows.len()];
        for _ in 0..GUIDE_ITERATIONS {
            let mut sums = [vec![0.0; p], vec![0.0; p]];
            let mut counts = [vec![1e-9; p], vec![1e-9; p]];
            for (group, &i) in groups.iter_mut().zip(rows) {
                let observed = self.observed_at(i);
                let distance = |centre: &Vec<f64>| -> f64 {
                    observed
                        .iter()
                        .map(|&j| (row(i)[j] - centre[j]).powi(2))
                        .sum()
                };
                *group = usize::from(distance(&centres[1]) < distance(&centres[0]));
                for &j in observed {
                    sums[*group][j] += row(i)[j];
                    counts[*group][j] += 1.0;
                }
            }
            for (centre, (sum, count)) in centres.iter_mut().zip(sums.iter().zip(&counts)) {
                let means = sum.iter().zip(count).map(|(sum, count)| sum / count);
                centre
                    .iter_mut()
                    .zip(means)
                    .for_each(|(to, mean)| *to = mean);
            }
        }
        groups
    }

    /// Puts an allocation in place, and draws what was integrated out.
    fn put(&mut self, found: Allocation, rng: &mut Xoshiro256PlusPlus) -> Result<(), IqgmeError> {
        let (p, n) = (self.data.rows.n_features, self.data.rows.n_utilities);
        self.stats = None;
        for (k, &i) in found.rows.iter().enumerate() {
            self.labels[i] = found.parts[found.sides[k]] as u32;
            self.values[i * p..][..p].copy_from_slice(&found.values[k * p..][..p]);
            self.utilities[i * n..][..n].copy_from_slice(&found.utilities[k * n..][..n]);
        }
        for (label, (component, experts)) in found.parts.into_iter().zip(found.parameters) {
            if label == self.parameters.components.len() {
                self.parameters.components.push(component);
                self.parameters.experts.extend(experts);
            } else {
                self.parameters.components[label] = component;
                for (k, expert) in experts.into_iter().enumerate() {
                    self.parameters.experts[label * n + k] = expert;
                }
            }
        }
        let labelled = match self.config.sticks {
            StickRule::Slice => self.draw_labels(rng),
            StickRule::Blocked(_) => Ok(()),
        };
        self.sticks();
        labelled
    }

    /// Labels of the components with rows given who is with whom: weights in an order biased by size, those of components without rows among them.
    fn draw_labels(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), IqgmeError> {
        let (counts, alpha) = (self.counts(), self.parameters.concentration);
        let mut occupied: Vec<usize> = (0..counts.len()).filter(|&h| counts[h] > 0).collect();
        let sizes = occupied.iter().map(|&h| counts[h] as f64);
        let Ok(law) = Dirichlet::new(sizes.chain([alpha]).collect()) else {
            return Ok(());
        };
        let mut weights = vec![0.0; occupied.len() + 1];
        law.sample(&mut weights, rng);
        let mut rest = weights.pop().unwrap_or(0.0);
        let n = self.data.rows.n_utilities;
        let mut ordered = GibbsParameters {
            components: Vec::new(),
            experts: Vec::new(),
            ..self.parameters.clone()
        };
        let mut label_now = vec![0; counts.len()];
        while !occupied.is_empty() {
            let mut u = rng.random::<f64>() * (rest + weights.iter().sum::<f64>());
            let found = weights.iter().position(|weight| {
                u -= weight;
                u < 0.0
            });
            let Some(found) = found else {
                let taken = -(-rng.sample::<f64, _>(Exp1) / alpha).exp_m1();
                rest -= rest * taken;
                self.room_beside(ordered.components.len())?;
                self.push_prior_component(&mut ordered, rng);
                continue;
            };
            weights.remove(found);
            let h = occupied.remove(found);
            label_now[h] = ordered.components.len() as u32;
            ordered
                .components
                .push(self.parameters.components[h].clone());
            let experts = &self.parameters.experts[h * n..][..n];
            ordered.experts.extend_from_slice(experts);
        }
        self.parameters = ordered;
        for label in &mut self.labels {
            *label = label_now[*label as usize];
        }
        Ok(())
    }
}

/// Rows in two components, one of which may have none.
struct Allocation {
    /// Labels of the two.
    parts: [usize; 2],
    rows: Vec<usize>,
    /// By row: which of the two.
    sides: Vec<usize>,
    /// Row, feature; row, utility.
    values: Vec<f64>,
    utilities: Vec<f64>,
    parameters: [(DrawnComponent, Vec<Vec<f64>>); 2],
}

/// What the labels of rows say of that of the next, sticks integrated out.
enum Sizes {
    /// Without truncation, labels forgotten: the next joins a component by its rows, or a new one by `alpha`.
    Urn,
    /// Sticks that end with the last component; rows of the others, and the labels of the two.
    Sticks {
        counts: Vec<usize>,
        parts: [usize; 2],
    },
}

impl Sizes {
    /// Logarithms of the weights of the two components that have so many rows of the scan.
    fn ln_weights(&self, rows: [usize; 2], alpha: f64) -> [f64; 2] {
        match self {
            Self::Urn => rows.map(|n| if n == 0 { alpha } else { n as f64 }.ln()),
            Self::Sticks { counts, parts } => {
                let own = |h: usize| {
                    let more = parts.iter().zip(rows).filter(|(part, _)| **part == h);
                    (counts[h] + more.map(|(_, n)| n).sum::<usize>()) as f64
                };
                let last = counts.len() - 1;
                let (mut weights, mut beyond) = ([0.0; 2], own(last));
                let mut give = |h: usize, taken: f64, passed: f64| {
                    for (weight, part) in weights.iter_mut().zip(parts) {
                        if *part == h {
                            *weight = taken;
                        } else if *part > h {
                            *weight *= passed;
                        }
                    }
                };
                give(last, 1.0, 1.0);
                for h in (0..last).rev() {
                    let n = own(h);
                    let total = 1.0 + alpha + n + beyond;
                    give(h, (1.0 + n) / total, (alpha + beyond) / total);
                    beyond += n;
                }
                weights.map(f64::ln)
            }
        }
    }
}

/// Rows in the order in which they are allocated.
struct Scan<'a> {
    sampler: &'a IqgmeSampler<'a>,
    rows: &'a [usize],
    sizes: Sizes,
    empty: Collapsed,
    /// By row: the group that the guide has it in, and how much particles are drawn to it.
    guide: Vec<usize>,
    pull: f64,
}

/// Two components in the making.
#[derive(Clone)]
struct Particle {
    parts: [Collapsed; 2],
    rows: [usize; 2],
    /// Rows that are where the guide has them, of those that had a choice.
    guided: usize,
}

impl Particle {
    fn copy_from(&mut self, other: &Self) {
        self.rows = other.rows;
        self.guided = other.guided;
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.copy_from(other);
        }
    }
}

/// Particles of one kind when all rows are allocated.
struct Cloud {
    particles: Vec<Particle>,
    ln_weights: Vec<f64>,
    ln_evidence: f64,
    /// Step, particle: the particle of the step before, and the component of the row.
    parents: Vec<usize>,
    sides: Vec<usize>,
    /// Step, particle, feature; step, particle, utility.
    values: Vec<f64>,
    utilities: Vec<f64>,
}

/// A row as it would be in either component.
struct Candidates {
    x: [Vec<f64>; 2],
    t: [Vec<f64>; 2],
    ln: [f64; 2],
}

impl Scan<'_> {
    fn data(&self) -> &IqgmeData {
        self.sampler.data
    }

    /// Allocates the rows `n` times, the first time as they are where they are to be retained.
    fn particles(
        &self,
        split: bool,
        retained: Option<&[usize]>,
        n: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Cloud> {
        let (p, k) = (self.data().rows.n_features, self.data().rows.n_utilities);
        // Nothing is left to chance when all rows are in one component, complete and without labels.
        let sure = |&i: &usize| {
            self.sampler.missing_at(i).is_empty() && self.data().rows.classes[i].is_none()
        };
        let n = if !split && self.rows.iter().all(sure) {
            1
        } else {
            n
        };
        let start = Particle {
            parts: [self.empty.clone(), self.empty.clone()],
            rows: [0; 2],
            guided: 0,
        };
        let mut cloud = Cloud {
            particles: vec![start; n],
            ln_weights: vec![0.0; n],
            ln_evidence: 0.0,
            parents: Vec::with_capacity(n * self.rows.len()),
            sides: Vec::with_capacity(n * self.rows.len()),
            values: Vec::with_capacity(n * self.rows.len() * p),
            utilities: Vec::with_capacity(n * self.rows.len() * k),
        };
        let mut before = cloud.particles.clone();
        let mut candidates = Candidates {
            x: [vec![0.0; p], vec![0.0; p]],
            t: [vec![0.0; k], vec![0.0; k]],
            ln: [f64::NEG_INFINITY; 2],
        };
        let mut scratch = Scratch::default();
        for (step, &row) in self.rows.iter().enumerate() {
            cloud.resample(retained.is_some(), &mut before, rng);
            let open = match (split, step) {
                (false, _) | (true, 0) => [true, false],
                (true, 1) => [false, true],
                _ => [true, true],
            };
            for number in 0..n {
                let kept = retained.filter(|_| number == 0).map(|sides| sides[step]);
                let particle = &mut cloud.particles[number];
                self.offer(
                    row,
                    particle,
                    (open, kept),
                    &mut candidates,
                    &mut scratch,
                    rng,
                )?;
                let choice = open == [true, true];
                if choice {
                    candidates.ln[self.guide[step]] += self.pull;
                }
                let total = ln_add_exp(candidates.ln[0], candidates.ln[1]);
                let u = rng.random::<f64>().ln() + total;
                let side = kept.unwrap_or(usize::from(u >= candidates.ln[0]));
                cloud.ln_weights[number] += total;
                let t = &candidates.t[side];
                let labelled = self.data().rows.classes[row].is_some();
                let told = if labelled { &t[..] } else { &[] };
                particle.parts[side].add(&candidates.x[side], told, &mut scratch);
                particle.rows[side] += 1;
                particle.guided += usize::from(choice && side == self.guide[step]);
                cloud.sides.push(side);
                cloud.values.extend_from_slice(&candidates.x[side]);
                cloud.utilities.extend_from_slice(t);
            }
        }
        for (ln_weight, particle) in cloud.ln_weights.iter_mut().zip(&cloud.particles) {
            *ln_weight -= self.pull * particle.guided as f64;
        }
        cloud.ln_evidence += ln_mean(&cloud.ln_weights);
        cloud.ln_evidence.is_finite().then_some(cloud)
    }

    /// What a row would be in the components that are open to it, and the weight of that; in the component `kept` it is what it is.
    fn offer(
        &self,
        row: usize,
        particle: &Particle,
        (open, kept): ([bool; 2], Option<usize>),
        candidates: &mut Candidates,
        scratch: &mut Scratch,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<()> {
        let sampler = self.sampler;
        let (p, k) = (self.data().rows.n_features, self.data().rows.n_utilities);
        let alpha = sampler.parameters.concentration;
        let ln_sizes = self.sizes.ln_weights(particle.rows, alpha);
        for side in 0..2 {
            candidates.ln[side] = f64::NEG_INFINITY;
            if !open[side] {
                continue;
            }
            let (x, t) = (&mut candidates.x[side], &mut candidates.t[side]);
            x.copy_from_slice(&sampler.values[row * p..][..p]);
            t.copy_from_slice(&sampler.utilities[row * k..][..k]);
            let mut rng = (kept != Some(side)).then_some(&mut *rng);
            let (part, missing) = (&particle.parts[side], sampler.missing_at(row));
            let mut ln = part
                .ln_features(x, missing, rng.as_deref_mut(), scratch)
                .ok()?;
            if let Some(class) = self.data().rows.classes[row] {
                ln += part.ln_class(class, x, t, rng, scratch);
            }
            candidates.ln[side] = ln_sizes[side] + ln;
        }
        Some(())
    }
}

fn ln_mean(ln_weights: &[f64]) -> f64 {
    let sum = ln_weights
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, ln_add_exp);
    sum - (ln_weights.len() as f64).ln()
}

impl Cloud {
    /// Particles by weight when few of them hold most of it; the first one stays where it is retained. Says where each comes from.
    fn resample(
        &mut self,
        retained: bool,
        before: &mut Vec<Particle>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let n = self.particles.len();
        let top = self
            .ln_weights
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let weights = self.ln_weights.iter().map(|ln| (ln - top).exp());
        let (sum, squares) = weights.fold((0.0, 0.0), |(s, q), w| (s + w, q + w * w));
        if 2.0 * sum * sum >= n as f64 * squares {
            self.parents.extend(0..n);
            return;
        }
        self.ln_evidence += ln_mean(&self.ln_weights);
        std::mem::swap(&mut self.particles, before);
        for number in 0..n {
            let parent = if retained && number == 0 {
                0
            } else {
                sample_ln_weights(&self.ln_weights, rng).unwrap_or(0)
            };
            self.particles[number].copy_from(&before[parent]);
            self.parents.push(parent);
        }
        self.ln_weights.fill(0.0);
    }

    /// One particle by weight, with its parameters.
    fn one(
        &self,
        scan: &Scan<'_>,
        parts: [usize; 2],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Allocation> {
        let (p, k) = (scan.data().rows.n_features, scan.data().rows.n_utilities);
        let n = self.particles.len();
        let last = sample_ln_weights(&self.ln_weights, rng).unwrap_or(0);
        let mut path = vec![last; scan.rows.len()];
        for step in (1..path.len()).rev() {
            path[step - 1] = self.parents[step * n + path[step]];
        }
        let places = || {
            path.iter()
                .enumerate()
                .map(|(step, number)| step * n + number)
        };
        let [first, second] = self.particles[last].parts.each_ref();
        Some(Allocation {
            parts,
            rows: scan.rows.to_vec(),
            sides: places().map(|place| self.sides[place]).collect(),
            values: places()
                .flat_map(|place| &self.values[place * p..][..p])
                .copied()
                .collect(),
            utilities: places()
                .flat_map(|place| &self.utilities[place * k..][..k])
                .copied()
                .collect(),
            parameters: [first.draw(k, rng)?, second.draw(k, rng)?],
        })
    }
}
