//! Cached predictions of atoms over items, in single precision.

use npb_infer::parallel;
use npb_linalg::dot;
use npb_linalg::faer::linalg::matmul::matmul;
use npb_linalg::faer::{Accum, Mat, MatRef, Par};
use npb_priors::special::normal_cdf;

use crate::em::LikelihoodTable;
use crate::users::ratio;
use crate::{AtomRule, HbrecError, ItemAtom, ItemPrior, Likes, ProbitItems, UserModel};

/// Atoms side by side in one block: a rated item is one short contiguous row of each block, and a new atom is a column of the last block.
const LANES: usize = 64;
/// Posterior weights below this do not reach a prediction in single precision.
const NEGLIGIBLE: f64 = 1e-9;

/// P(like) of every item under every atom, 4 J bytes an atom.
///
/// A number p is kept as `p` up to one half and as `p - 1` above, so that both tails keep all their digits: likelihoods multiply hundreds of them.
#[derive(Clone, Debug)]
pub struct AtomTable {
    n_items: usize,
    n_atoms: usize,
    /// Each J x `LANES`.
    blocks: Vec<Vec<f32>>,
}

/// The users' own fits as atoms, and their evidence.
pub(crate) fn atoms_of_users(
    model: &ProbitItems,
    users: &[&Likes],
    rule: AtomRule,
) -> Result<(Vec<ItemAtom>, Vec<f64>), HbrecError> {
    let alone = |likes: &&Likes| {
        let posterior = model.fit(likes)?;
        let atom = model.atom(&posterior, rule);
        Ok((atom, model.ln_evidence(&posterior)))
    };
    let fits: Result<Vec<(ItemAtom, f64)>, HbrecError> = parallel::try_map(users, alone);
    Ok(fits?.into_iter().unzip())
}

fn packed(t: f64) -> f32 {
    // Beyond 12.9 the tail leaves the range of f32.
    let tail = normal_cdf(-t.abs().min(12.5)) as f32;
    if t <= 0.0 { tail } else { -tail }
}

fn probability(packed: f32) -> f32 {
    if packed > 0.0 { packed } else { 1.0 + packed }
}

/// ln p of a like, or ln(1 - p).
fn ln_of(packed: f32, liked: bool) -> f64 {
    let q = f64::from(packed);
    if (q > 0.0) == liked {
        q.abs().ln()
    } else {
        (-q.abs()).ln_1p()
    }
}

impl AtomTable {
    /// Of these atoms. Cost: `J Q^2 / 2` multiply-adds an atom, blocks in parallel.
    pub fn new(model: &ProbitItems, atoms: &[ItemAtom]) -> Self {
        let prior = model.prior();
        let products = products(prior);
        let blocks: Vec<&[ItemAtom]> = atoms.chunks(LANES).collect();
        let block = |atoms: &&[ItemAtom]| block(prior, &products, atoms);
        Self {
            n_items: prior.n_items(),
            n_atoms: atoms.len(),
            blocks: parallel::map(&blocks, block),
        }
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Adds an atom.
    pub fn push(&mut self, model: &ProbitItems, atom: &ItemAtom) {
        let lane = self.n_atoms % LANES;
        if lane == 0 {
            self.blocks.push(vec![0.5; self.n_items * LANES]);
        }
        let last = self.blocks.len() - 1;
        let rows = self.blocks[last].chunks_exact_mut(LANES).enumerate();
        rows.for_each(|(item, row)| row[lane] = packed(model.atom_ratio(atom, item)));
        self.n_atoms += 1;
    }

    /// P(like) of an item under an atom.
    ///
    /// # Panics
    /// When there is no such item or atom.
    pub fn probability(&self, atom: usize, item: usize) -> f64 {
        assert!(atom < self.n_atoms, "atom {atom} of {}", self.n_atoms);
        f64::from(probability(
            self.blocks[atom / LANES][item * LANES + atom % LANES],
        ))
    }

    /// ln P(D | theta_k) for every atom. Cost: a logarithm for each rating and atom.
    pub fn ln_likelihoods(&self, likes: &Likes) -> Vec<f64> {
        let mut sums = vec![0.0; self.blocks.len() * LANES];
        for (block, sums) in self.blocks.iter().zip(sums.chunks_exact_mut(LANES)) {
            for (item, liked) in likes.iter() {
                let row = &block[item * LANES..(item + 1) * LANES];
                let terms = row.iter().map(|&q| ln_of(q, liked));
                sums.iter_mut()
                    .zip(terms)
                    .for_each(|(sum, ln_p)| *sum += ln_p);
            }
        }
        sums.truncate(self.n_atoms);
        sums
    }

    /// The likelihood of every user under every atom; user j's own atom is `own[j]`. A block's logarithms are made once and stay in the cache.
    pub(crate) fn likelihood_table(
        &self,
        users: &[&Likes],
        own: &[Option<usize>],
    ) -> LikelihoodTable {
        let block = |block: &Vec<f32>| {
            let of = |liked| {
                block
                    .iter()
                    .map(|&q| ln_of(q, liked) as f32)
                    .collect::<Vec<f32>>()
            };
            let tables = [of(true), of(false)];
            let user = |likes: &&Likes| block_likelihoods(&tables, likes);
            users.iter().map(user).collect::<Vec<[f32; LANES]>>()
        };
        let blocks: Vec<Vec<[f32; LANES]>> = parallel::map(&self.blocks, block);
        let mut table = LikelihoodTable::empty(self.n_atoms);
        let mut row = Vec::with_capacity(self.blocks.len() * LANES);
        for (user, own) in own.iter().enumerate().take(users.len()) {
            row.clear();
            row.extend(blocks.iter().flat_map(|block| block[user]).map(f64::from));
            table.push(&row[..self.n_atoms], *own);
        }
        table
    }

    /// `sum_k w_k P(like)` for every item. Cost: J multiply-adds for each atom of the blocks in which some weight counts.
    pub fn mixture(&self, weights: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.n_items];
        for (block, weights) in self.blocks.iter().zip(weights.chunks(LANES)) {
            if weights.iter().all(|&w| w < NEGLIGIBLE) {
                continue;
            }
            let mut lanes = [0.0_f32; LANES];
            lanes
                .iter_mut()
                .zip(weights)
                .for_each(|(lane, &w)| *lane = w as f32);
            for (row, sum) in block.as_chunks::<LANES>().0.iter().zip(&mut sums) {
                *sum += f64::from(weighted(row, &lanes));
            }
        }
        sums
    }
}

fn weighted(row: &[f32; LANES], weights: &[f32; LANES]) -> f32 {
    let mut parts = [0.0_f32; 16];
    for at in (0..LANES).step_by(16) {
        for lane in 0..16 {
            parts[lane] += probability(row[at + lane]) * weights[at + lane];
        }
    }
    parts.iter().sum()
}

fn block_likelihoods(tables: &[Vec<f32>; 2], likes: &Likes) -> [f32; LANES] {
    let mut sums = [0.0_f32; LANES];
    for (item, liked) in likes.iter() {
        let table = &tables[usize::from(!liked)];
        let row = &table[item * LANES..(item + 1) * LANES];
        sums.iter_mut()
            .zip(row)
            .for_each(|(sum, ln_p)| *sum += ln_p);
    }
    sums
}

/// For each item the products of its loadings, lower triangle row by row: what a packed covariance is multiplied by.
fn products(prior: &ItemPrior) -> Mat<f32> {
    let q = prior.width();
    let mut products = Mat::zeros(prior.n_items(), q * (q + 1) / 2);
    for item in 0..prior.n_items() {
        let row = prior.row(item);
        let pairs = (0..q).flat_map(|i| (0..=i).map(move |j| (i, j)));
        for (at, (i, j)) in pairs.enumerate() {
            products[(item, at)] = (row[i] * row[j]) as f32;
        }
    }
    products
}

fn block(prior: &ItemPrior, products: &Mat<f32>, atoms: &[ItemAtom]) -> Vec<f32> {
    let (n_items, n) = (prior.n_items(), atoms.len());
    let mut variances = Mat::<f32>::zeros(n_items, n);
    if atoms.iter().all(|atom| !atom.covariance.is_empty()) {
        let width = products.ncols();
        let packed: Vec<f32> = atoms
            .iter()
            .flat_map(|atom| atom.covariance.clone())
            .collect();
        let covariances = MatRef::from_column_major_slice(&packed, width, n);
        let out = variances.as_mut();
        matmul(
            out,
            Accum::Replace,
            products.as_ref(),
            covariances,
            1.0,
            Par::Seq,
        );
    }
    let mut table = vec![0.5; n_items * LANES];
    for (lane, atom) in atoms.iter().enumerate() {
        let mut rated = atom.rated.iter().peekable();
        for item in 0..n_items {
            let own = rated.next_if(|r| r.item as usize == item);
            let mean = prior.offset(item) + dot(prior.row(item), &atom.coefficients);
            let variance = f64::from(variances[(item, lane)]).max(0.0);
            let t = ratio(mean, variance, own, prior.identity());
            table[item * LANES + lane] = packed(t);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;

    use super::*;
    use crate::{AtomRule, UserModel};

    fn model(n_items: usize, q: usize, identity: f64) -> ProbitItems {
        let mut rng = stream(3, [0; 4]);
        let mut draw =
            |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() * 4.0 - 2.0).collect() };
        let (mean, loadings) = (draw(n_items), draw(n_items * q));
        let variance: Vec<f64> = draw(n_items).iter().map(|v| v.abs()).collect();
        ProbitItems::new(ItemPrior::new(&mean, &loadings, &variance, identity).unwrap())
    }

    fn users(n: usize, n_items: usize) -> Vec<Likes> {
        let mut rng = stream(4, [0; 4]);
        let user = |_| {
            let pairs = (0..n_items as u32).filter_map(|item| {
                let (rated, liked): (bool, bool) = (rng.random(), rng.random());
                rated.then_some((item, liked))
            });
            Likes::new(n_items, &pairs.collect::<Vec<_>>()).unwrap()
        };
        (0..n).map(user).collect()
    }

    /// Tables, single atoms and added atoms say the same, to the digits of single precision.
    #[test]
    fn cached_is_computed() {
        let users = users(70, 23);
        for rule in [AtomRule::Mean, AtomRule::Map] {
            let model = model(23, 3, 0.4);
            let atoms: Vec<ItemAtom> = users
                .iter()
                .map(|u| model.atom(&model.fit(u).unwrap(), rule))
                .collect();
            let mut table = AtomTable::new(&model, &atoms[..63]);
            atoms[63..].iter().for_each(|atom| table.push(&model, atom));
            for (k, atom) in atoms.iter().enumerate() {
                for item in 0..23 {
                    let (cached, exact) = (table.probability(k, item), model.predict(atom, &item));
                    assert!((cached - exact).abs() < 1e-6, "{cached} {exact}");
                }
            }
            let refs: Vec<&Likes> = users.iter().collect();
            let own: Vec<Option<usize>> = (0..70).map(Some).collect();
            let all = table.likelihood_table(&refs, &own);
            let of_model = LikelihoodTable::of_model(&model, &atoms, &refs, &own).unwrap();
            for (j, user) in users.iter().enumerate() {
                let lone = table.ln_likelihoods(user);
                for (k, lone) in lone.iter().enumerate() {
                    let exact = model.ln_likelihood(&atoms[k], user);
                    assert!((lone - exact).abs() < 1e-4 * exact.abs().max(1.0));
                    if k != j {
                        let far = (all.ln_likelihood(j, k) - of_model.ln_likelihood(j, k)).abs();
                        assert!(far < 1e-4 * exact.abs().max(1.0), "{far}");
                    }
                }
            }
            let weights: Vec<f64> = (1..=70).map(|k| f64::from(k) / 2485.0).collect();
            for (item, p) in table.mixture(&weights).iter().enumerate() {
                let exact: f64 = (0..70)
                    .map(|k| weights[k] * table.probability(k, item))
                    .sum();
                assert!((p - exact).abs() < 1e-6);
            }
        }
    }
}
