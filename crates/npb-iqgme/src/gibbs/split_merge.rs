//! Splits and merges of components: two rows are drawn, and the rows of their components are allocated anew, one after the other.
//!
//! Sequentially allocated proposals (Dahl 2005): parameters of the components concerned, and sticks, are integrated out. Rows come in a random order, the two
//! that were drawn first: all in one component (merged), or the first two in two of them and each further one where its predictive density and the sizes so
//! far say (split), missing features and utilities drawn as they come. The product of the weights that the rows were drawn by estimates what either kind is
//! worth; the kind that is now is walked through as it is. Metropolis's rule exchanges the kinds, and parameters, labels and sticks are drawn given what is left.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Dirichlet;
use npb_priors::special::ln_add_exp;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::Exp1;

use super::collapsed::{Collapsed, Scratch};
use super::state::{DrawnComponent, GibbsParameters};
use super::{IqgmeSampler, missing_at};
use crate::Result;

/// Pairs of rows that are drawn in one move.
const PAIRS: usize = 4;
/// Rows that one pair may allocate: so many, or this share of all rows.
const ROWS: usize = 400;
const SHARE_OF_ROWS: usize = 50;

impl IqgmeSampler<'_> {
    /// Equations: `docs/iqgme-updates.md#splits-and-merges`.
    pub(super) fn split_merge(&mut self) -> Result<()> {
        let n = self.labels.len();
        if n < 2 {
            return Ok(());
        }
        for _ in 0..PAIRS {
            let rng = &mut self.rng();
            let first = rng.random_range(0..n);
            let second = (first + rng.random_range(1..n)) % n;
            if let Some(found) = self.allocation([first, second], rng) {
                self.put(found, rng)?;
            }
        }
        Ok(())
    }

    /// Allocates the rows of the components of two rows anew. Nothing when it would cost too much, or numbers fail.
    fn allocation(
        &self,
        [first, second]: [usize; 2],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Allocation> {
        let labels = [self.labels[first], self.labels[second]];
        let others = (0..self.labels.len()).filter(|&i| i != first && i != second);
        let others = others.filter(|&i| labels.contains(&self.labels[i]));
        let mut rows: Vec<usize> = others.collect();
        rows.shuffle(rng);
        rows.splice(0..0, [first, second]);
        // The size of the set is the same before and after, so that leaving it be by its size alone favours neither.
        let room = ROWS.max(self.labels.len() / SHARE_OF_ROWS);
        if rng.random_range(0..rows.len()) >= room {
            return None;
        }
        let now_split = labels[0] != labels[1];
        let other = match now_split {
            true => labels[1] as usize,
            false => self.parameters.components.len(),
        };
        let side = |i: &usize| usize::from(now_split && self.labels[*i] == labels[1]);
        let now: Vec<usize> = rows.iter().map(side).collect();
        let empty = Collapsed::new(&self.prior.component, &self.parameters).ok()?;
        let mut walk = |split: bool| {
            let retained = (split == now_split).then_some(&now[..]);
            self.walk(&rows, split, retained, &empty, rng)
        };
        let [merged, split] = [walk(false)?, walk(true)?];
        let ln_ratio = split.ln_evidence - merged.ln_evidence;
        let ln_ratio = if now_split { -ln_ratio } else { ln_ratio };
        if !ln_ratio.is_finite() {
            return None;
        }
        let exchange = -rng.sample::<f64, _>(Exp1) < ln_ratio;
        let chosen = if now_split != exchange { split } else { merged };
        let [one, two] = &chosen.parts;
        Some(Allocation {
            labels: [labels[0] as usize, other],
            rows,
            parameters: [one.draw(rng)?, two.draw(rng)?],
            chosen,
        })
    }

    /// Allocates the rows one after the other; where they are to be `retained`, as they are.
    fn walk(
        &self,
        rows: &[usize],
        split: bool,
        retained: Option<&[usize]>,
        empty: &Collapsed,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Walk> {
        let data = &self.data.rows;
        let (p, k) = (data.n_features, data.n_utilities);
        let mut walk = Walk {
            parts: [empty.clone(), empty.clone()],
            ln_evidence: 0.0,
            sides: Vec::with_capacity(rows.len()),
            values: Vec::with_capacity(rows.len() * p),
            utilities: Vec::with_capacity(rows.len() * k),
        };
        let mut sizes = [0_usize; 2];
        let mut x = [vec![0.0; p], vec![0.0; p]];
        let mut t = [vec![0.0; k], vec![0.0; k]];
        let mut scratch = Scratch::default();
        for (step, &row) in rows.iter().enumerate() {
            let open = match (split, step) {
                (false, _) | (true, 0) => [true, false],
                (true, 1) => [false, true],
                _ => [true, true],
            };
            let kept = retained.map(|sides| sides[step]);
            let mut ln = [f64::NEG_INFINITY; 2];
            for side in (0..2).filter(|&side| open[side]) {
                // In the component where it is to be retained it is what it is.
                let rng = (kept != Some(side)).then_some(&mut *rng);
                let (part, own) = (&walk.parts[side], [&mut x[side], &mut t[side]]);
                ln[side] = self.ln_joining(part, sizes[side], row, own, rng, &mut scratch)?;
            }
            let total = ln_add_exp(ln[0], ln[1]);
            let u = rng.random::<f64>().ln() + total;
            let side = kept.unwrap_or(usize::from(u >= ln[0]));
            walk.ln_evidence += total;
            let told = match data.classes[row] {
                Some(_) => &t[side][..],
                None => &[],
            };
            walk.parts[side].add(&x[side], told, &mut scratch);
            sizes[side] += 1;
            walk.sides.push(side);
            walk.values.extend_from_slice(&x[side]);
            walk.utilities.extend_from_slice(&t[side]);
        }
        walk.ln_evidence.is_finite().then_some(walk)
    }

    /// `ln` of how well a row joins a component that has so many. Its features and utilities go to `x` and `t`; with a generator what is not known is drawn.
    fn ln_joining(
        &self,
        part: &Collapsed,
        size: usize,
        row: usize,
        [x, t]: [&mut Vec<f64>; 2],
        mut rng: Option<&mut Xoshiro256PlusPlus>,
        scratch: &mut Scratch,
    ) -> Option<f64> {
        let data = &self.data.rows;
        let (p, k) = (data.n_features, data.n_utilities);
        x.copy_from_slice(&self.values[row * p..][..p]);
        t.copy_from_slice(&self.utilities[row * k..][..k]);
        let (missing, memory) = (missing_at(self.data, row), &mut scratch.features);
        let of_features = part
            .features
            .ln_density(x, missing, rng.as_deref_mut(), memory);
        // By its rows, or a new one by the concentration.
        let size = match size {
            0 => self.parameters.concentration,
            _ => size as f64,
        };
        let ln = size.ln() + of_features.ok()?;
        let class = data.classes[row];
        Some(class.map_or(ln, |class| ln + part.ln_class(class, x, t, rng, scratch)))
    }

    /// Puts an allocation in place, and draws what was integrated out.
    fn put(&mut self, found: Allocation, rng: &mut Xoshiro256PlusPlus) -> Result<()> {
        let (p, n) = (self.data.rows.n_features, self.data.rows.n_utilities);
        self.stats = None;
        let chosen = found.chosen;
        for (k, &i) in found.rows.iter().enumerate() {
            self.labels[i] = found.labels[chosen.sides[k]] as u32;
            self.values[i * p..][..p].copy_from_slice(&chosen.values[k * p..][..p]);
            self.utilities[i * n..][..n].copy_from_slice(&chosen.utilities[k * n..][..n]);
        }
        for (label, (component, experts)) in found.labels.into_iter().zip(found.parameters) {
            let (components, all) = (
                &mut self.parameters.components,
                &mut self.parameters.experts,
            );
            let after = (label + 1).min(components.len());
            components.splice(label..after, [component]);
            all.splice(label * n..after * n, experts);
        }
        let labelled = self.draw_labels(rng);
        self.sticks();
        labelled
    }

    /// Labels of the components with rows given who is with whom: weights in an order biased by size, those of components without rows among them.
    fn draw_labels(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<()> {
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
            let component = self.parameters.components[h].clone();
            ordered.components.push(component);
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
    /// Of the two.
    labels: [usize; 2],
    rows: Vec<usize>,
    chosen: Walk,
    parameters: [(DrawnComponent, Vec<Vec<f64>>); 2],
}

/// Rows allocated one after the other, and the two components that they make.
struct Walk {
    parts: [Collapsed; 2],
    /// Of the kind: the sum of the logarithms of what the rows were drawn by.
    ln_evidence: f64,
    /// By row: which of the two.
    sides: Vec<usize>,
    /// Row, feature; row, utility.
    values: Vec<f64>,
    utilities: Vec<f64>,
}
