//! The Chinese restaurant franchise, table counts, and weights given them.

use rand::{Rng, RngExt};

use crate::dist::Gamma;
use crate::dp::sample_urn;
use crate::special::{ln_add_exp, ln_normalize, ln_rising_factorial};

/// One draw of the franchise: who sits where, and what each table is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Franchise {
    /// Per group and customer: the table, numbered within the group in order of opening.
    pub table_of: Vec<Vec<usize>>,
    /// Per group and table: the dish, numbered over all groups in order of appearance.
    pub dish_of: Vec<Vec<usize>>,
}

impl Franchise {
    /// Number of tables over all groups.
    pub fn n_tables(&self) -> usize {
        self.dish_of.iter().map(Vec::len).sum()
    }

    /// Number of distinct dishes.
    pub fn n_dishes(&self) -> usize {
        self.dish_of
            .iter()
            .flatten()
            .max()
            .map_or(0, |dish| dish + 1)
    }

    /// The dish of every customer of group `group`: the cluster labels shared by all groups.
    pub fn labels(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        self.table_of[group]
            .iter()
            .map(move |&table| self.dish_of[group][table])
    }
}

/// Draws from the Chinese restaurant franchise: an urn of customers per group, and one urn of tables over all groups.
///
/// `group_sizes`: customers per group. `alpha`: lower (group) concentration, `beta`: upper one. Two customers share
/// a dish with probability 1/(1+α) + α/(1+α)/(1+β) within a group and 1/(1+β) across groups. Cost O(customers).
/// Panics if a concentration is not positive.
///
/// ```
/// use npb_priors::hdp::sample_franchise;
/// use rand::SeedableRng;
///
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(3);
/// let franchise = sample_franchise(&[20, 30], 1.0, 2.0, &mut rng);
/// assert_eq!(franchise.labels(1).count(), 30);
/// assert!(franchise.n_dishes() <= franchise.n_tables());
/// ```
pub fn sample_franchise<R: Rng + ?Sized>(
    group_sizes: &[usize],
    alpha: f64,
    beta: f64,
    rng: &mut R,
) -> Franchise {
    let table_of: Vec<Vec<usize>> = group_sizes
        .iter()
        .map(|&n| sample_urn(n, alpha, rng))
        .collect();
    let n_tables: Vec<usize> = table_of
        .iter()
        .map(|t| t.iter().max().map_or(0, |m| m + 1))
        .collect();
    let dishes = sample_urn(n_tables.iter().sum(), beta, rng);
    let mut left = dishes.as_slice();
    let mut serve = |n: usize| {
        let (now, later) = left.split_at(n);
        left = later;
        now.to_vec()
    };
    let dish_of = n_tables.into_iter().map(&mut serve).collect();
    Franchise { table_of, dish_of }
}

/// Draws how many tables serve `n` customers of one dish, P(m) = |s(n, m)| cᵐ / (c (c+1) ... (c+n−1)).
///
/// `concentration` c = α η_s of the dish in its group. Exact, as a sum of independent table openings. Cost O(n).
/// Panics if the concentration is not positive.
pub fn draw_table_count<R: Rng + ?Sized>(n: usize, concentration: f64, rng: &mut R) -> usize {
    assert!(
        concentration > 0.0,
        "a concentration is positive: {concentration}"
    );
    let opens = |i: &usize| rng.random::<f64>() * (concentration + *i as f64) < concentration;
    (0..n).filter(opens).count()
}

/// Logarithms of the unsigned Stirling numbers of the first kind |s(n, m)|, 0 ≤ m ≤ n ≤ `n_max`, in a triangle.
///
/// For table counts drawn many times at small n, and for their probabilities. Memory n_max²/2 numbers.
///
/// ```
/// let stirling = npb_priors::hdp::LnStirling::new(5);
/// assert!((stirling.row(4)[2] - 11f64.ln()).abs() < 1e-14);
/// assert_eq!(stirling.row(4)[0], f64::NEG_INFINITY);
/// ```
#[derive(Clone, Debug)]
pub struct LnStirling {
    // Row n starts at n (n+1) / 2 and has n+1 entries.
    triangle: Vec<f64>,
}

impl LnStirling {
    /// All rows up to `n_max`: |s(n+1, m)| = n |s(n, m)| + |s(n, m−1)|, no cancellation. Cost O(n_max²) logarithms.
    pub fn new(n_max: usize) -> Self {
        let mut triangle = vec![0.0];
        for n in 0..n_max {
            let start = triangle.len() - (n + 1);
            let ln_n = (n as f64).ln();
            triangle.push(f64::NEG_INFINITY);
            for m in 1..=n {
                triangle.push(ln_add_exp(
                    ln_n + triangle[start + m],
                    triangle[start + m - 1],
                ));
            }
            triangle.push(0.0);
        }
        Self { triangle }
    }

    /// ln |s(n, m)| for m = 0..=n. Panics if n is above `n_max`.
    pub fn row(&self, n: usize) -> &[f64] {
        let start = n * (n + 1) / 2;
        &self.triangle[start..=start + n]
    }

    /// ln P(m tables) for m = 0..=n customers at concentration c. Cost O(n).
    pub fn ln_table_counts(&self, n: usize, concentration: f64) -> Vec<f64> {
        let ln_total = ln_rising_factorial(concentration, n as f64);
        let ln_c = concentration.ln();
        // m = 0 has power 0, also of a concentration that underflows.
        let ln_power = |m: usize| if m == 0 { 0.0 } else { m as f64 * ln_c };
        self.row(n)
            .iter()
            .enumerate()
            .map(|(m, ln_s)| ln_s + ln_power(m) - ln_total)
            .collect()
    }
}

/// Draws the upper weights given how many tables serve each dish: Dirichlet(m_1, ..., m_K, β), length K + 1.
///
/// The last entry is the weight of all unseen atoms. Panics if `beta` is not positive or a dish has no table.
pub fn draw_top_weights<R: Rng + ?Sized>(
    tables_per_dish: &[usize],
    beta: f64,
    rng: &mut R,
) -> Vec<f64> {
    assert!(
        tables_per_dish.iter().all(|&m| m > 0),
        "a dish in use has a table"
    );
    let shapes = tables_per_dish.iter().map(|&m| m as f64).chain([beta]);
    draw_dirichlet(shapes, rng)
}

/// Draws a group's weights given its counts per atom: Dirichlet(α η_s + n_s).
///
/// `top_weights`: η, adding up to 1 (usually with the unseen rest last); `counts` may be shorter, what is missing
/// counts 0. An atom with neither weight nor count gets weight 0. Panics if no atom has either.
pub fn draw_group_weights<R: Rng + ?Sized>(
    alpha: f64,
    top_weights: &[f64],
    counts: &[usize],
    rng: &mut R,
) -> Vec<f64> {
    let count = |s: usize| counts.get(s).copied().unwrap_or(0) as f64;
    draw_dirichlet(
        top_weights
            .iter()
            .enumerate()
            .map(|(s, eta)| alpha * eta + count(s)),
        rng,
    )
}

/// Draws group weights from the prior, Dirichlet(α η): G_j seen at the atoms of G_0.
pub fn sample_group_weights<R: Rng + ?Sized>(
    alpha: f64,
    top_weights: &[f64],
    rng: &mut R,
) -> Vec<f64> {
    draw_group_weights(alpha, top_weights, &[], rng)
}

/// A Dirichlet draw in log space, so that shapes of 1e-8 are fine; a shape of 0 gives weight 0.
fn draw_dirichlet<R: Rng + ?Sized>(shapes: impl Iterator<Item = f64>, rng: &mut R) -> Vec<f64> {
    let ln_gamma_draw = |shape: f64| match Gamma::new(shape, 1.0) {
        Ok(gamma) => gamma.sample_ln(rng),
        Err(_) => {
            assert!(
                shape == 0.0,
                "a Dirichlet shape is finite and not negative: {shape}"
            );
            f64::NEG_INFINITY
        }
    };
    let mut weights: Vec<f64> = shapes.map(ln_gamma_draw).collect();
    assert!(
        ln_normalize(&mut weights).is_finite(),
        "a Dirichlet draw needs a positive shape"
    );
    weights
}
