//! Splits and merges of clusters: rows are allocated one after the other (Dahl 2005, "Sequentially-allocated merge-split sampler", `docs/itf.md#allocation`).

use npb_infer::Xoshiro256PlusPlus;
use rand::RngExt;

use crate::numeric::Product;

/// Two rows and what is to become of their clusters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Row that stays in `keep`.
    pub(super) first: usize,
    /// Row that goes to (or comes from) `other`.
    pub(super) second: usize,
    /// Label of the first row.
    pub(super) keep: usize,
    /// Label of the second row: of an empty cluster before a split.
    pub(super) other: usize,
    pub(super) split: bool,
}

/// Chooses a row and, with probability one half each, another of its cluster (a split) or of the other clusters (a merge). For a
/// split an empty label is drawn uniformly among those up to and including the first beyond the occupied ones. `None` when
/// there is no such row, or when the reverse move could not choose the label.
///
/// `rows`: those to choose from. Returns the plan and ln(reverse / forward) of the choice of the label; to it comes
/// [`ln_anchors`].
pub(super) fn plan(
    rows: &[u32],
    labels: &[u32],
    counts: &[usize],
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(Plan, f64)> {
    if rows.is_empty() {
        return None;
    }
    let split: bool = rng.random();
    let first = rows[rng.random_range(0..rows.len())] as usize;
    let keep = labels[first] as usize;
    let fits =
        |&&row: &&u32| row as usize != first && (labels[row as usize] as usize == keep) == split;
    let n_fitting = rows.iter().filter(fits).count();
    if n_fitting == 0 {
        return None;
    }
    let second = *rows
        .iter()
        .filter(fits)
        .nth(rng.random_range(0..n_fitting))? as usize;
    let count = |k: usize| counts.get(k).copied().unwrap_or(0);
    let plan = |other| Plan {
        first,
        second,
        keep,
        other,
        split,
    };
    if split {
        let k = npb_priors::dp::occupied_labels(counts);
        let empty: Vec<usize> = (0..=k).filter(|&k| count(k) == 0).collect();
        let other = empty[rng.random_range(0..empty.len())];
        return Some((plan(other), (empty.len() as f64).ln()));
    }
    let other = labels[second] as usize;
    let mut merged = counts.to_vec();
    merged[keep] += merged[other];
    merged[other] = 0;
    let k = npb_priors::dp::occupied_labels(&merged);
    if other > k {
        return None;
    }
    let n_empty = (0..=k)
        .filter(|&k| merged.get(k).is_none_or(|&m| m == 0))
        .count();
    Some((plan(other), -(n_empty as f64).ln()))
}

/// ln P(second row | merge) / P(second row | split), for a split: `kept` and `other` of the `n` rows to choose from are in the two
/// clusters. The negative for a merge.
pub(super) fn ln_anchors(kept: usize, other: usize, n: usize) -> f64 {
    ((kept + other - 1) as f64 / (n - kept) as f64).ln()
}

/// Allocates the members of both clusters, in random order, to `keep` (false) or `other` (true), and returns the sides with
/// the logarithm of their probability; a merge takes the present sides. `None` as soon as this logarithm is not above `ln_least`.
///
/// `members`: the other rows of the two clusters.
pub(super) fn allocate(
    plan: Plan,
    members: &mut [u32],
    labels: &[u32],
    ln_least: f64,
    state: &mut impl Sides,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(Vec<bool>, f64)> {
    shuffle(members, rng);
    state.place(false, plan.first, rng);
    state.place(true, plan.second, rng);
    let mut q = Product::default();
    let mut sides = Vec::with_capacity(members.len());
    for &row in &*members {
        if sides.len() % 32 == 31 && q.ln() <= ln_least {
            return None;
        }
        let row = row as usize;
        let [keep, other] = state.weights(row, rng);
        let total = keep + other;
        let goes = if plan.split {
            rng.random::<f64>() * total < other
        } else {
            labels[row] as usize == plan.other
        };
        q.times(if goes { other } else { keep } / total);
        state.place(goes, row, rng);
        sides.push(goes);
    }
    let ln_q = q.ln();
    (ln_q > ln_least).then_some((sides, ln_q))
}

/// The sides that a split allocates the members to, with the logarithm of their probability; of a merge the present ones, as if they were certain.
pub(super) fn proposed(
    plan: Plan,
    members: &mut [u32],
    labels: &[u32],
    state: &mut impl Sides,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<bool>, f64) {
    let never = f64::NEG_INFINITY;
    if plan.split
        && let Some(allocated) = allocate(plan, members, labels, never, state, rng)
    {
        return allocated;
    }
    state.count(false, plan.first);
    state.count(true, plan.second);
    let side = |&row: &u32| {
        let goes = labels[row as usize] as usize == plan.other;
        state.count(goes, row as usize);
        goes
    };
    (members.iter().map(side).collect(), 0.0)
}

/// What the two clusters hold so far.
pub(super) trait Sides {
    /// What the row is allocated to `keep` and to `other` by, given the rows placed so far: positive numbers.
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus) -> [f64; 2];
    fn place(&mut self, other: bool, row: usize, rng: &mut Xoshiro256PlusPlus);
    /// As [`place`](Self::place), when no weights are asked for afterwards.
    fn count(&mut self, other: bool, row: usize);
}

/// Puts `rows` in random order.
pub(crate) fn shuffle(rows: &mut [u32], rng: &mut Xoshiro256PlusPlus) {
    shuffle_from(rows, 0, rng);
}

/// Puts the rows from a place on in random order, drawn from all.
pub(crate) fn shuffle_from(rows: &mut [u32], first: usize, rng: &mut Xoshiro256PlusPlus) {
    for i in (first.max(1)..rows.len()).rev() {
        rows.swap(i, rng.random_range(0..=i));
    }
}
