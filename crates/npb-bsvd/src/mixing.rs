//! Exchanges between components: what the likelihood cannot tell apart is redrawn at once (`docs/bsvd.md#mixing`).

use npb_infer::parallel;
use pulp::Arch;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::links;
use crate::state::SideState;
use npb_data::Features;
use npb_linalg::aligned::Aligned;
use npb_linalg::row_regression::{Layout, Real};

/// Second moments of the factors of a side about what is expected of them, with the prior terms of means and links, and the map that these factors have to go through.
pub(crate) struct Moments {
    rank: usize,
    /// rank x rank, symmetric.
    products: Vec<f64>,
    /// rank x rank: new factors are old factors times this.
    map: Vec<f64>,
}

impl Moments {
    /// Of the factors of a side with these features. `table`: scratch.
    pub(crate) fn new(
        arch: Arch,
        own: &SideState,
        features: Option<&Features>,
        table: &mut Aligned<f32>,
    ) -> Self {
        let means = &own.factor_mean;
        let rank = means.len();
        let links = own.links.len() / rank;
        let layout = Layout::new(rank);
        links::deviations(own, features, layout.stride, table);
        let mut sums = vec![0.0; layout.sums_len()];
        for cells in table.chunks(layout.cells_in_block() * layout.stride) {
            f32::add_products(arch, cells, layout, false, &mut sums);
        }
        let mut products = vec![0.0; rank * rank];
        let mut map = vec![0.0; rank * rank];
        for k in 0..rank {
            map[k * rank + k] = 1.0;
            for l in 0..=k {
                let pairs = own.links[k * links..][..links]
                    .iter()
                    .zip(&own.links[l * links..]);
                let linked: f64 = pairs.map(|(a, b)| a * b).sum();
                let product =
                    sums[k * layout.stride + l] + means[k] * means[l] + own.link_precision * linked;
                products[k * rank + l] = product;
                products[l * rank + k] = product;
            }
        }
        Self {
            rank,
            products,
            map,
        }
    }

    fn at(&self, k: usize, l: usize) -> f64 {
        self.products[k * self.rank + l]
    }

    /// Factor `to` grows by `t` times factor `from`.
    fn add(&mut self, to: usize, from: usize, t: f64) {
        let rank = self.rank;
        for q in 0..rank {
            self.products[to * rank + q] += t * self.products[from * rank + q];
        }
        for q in 0..rank {
            self.products[q * rank + to] += t * self.products[q * rank + from];
            self.map[q * rank + to] += t * self.map[q * rank + from];
        }
    }

    /// Sends factors, their means and their links through the map.
    pub(crate) fn apply(&self, own: &mut SideState) {
        let rank = self.rank;
        let single: Vec<f32> = self.map.iter().map(|&x| x as f32).collect();
        let links = own.links.len() / rank;
        for (table, width) in [(&mut own.factor_mean, 1), (&mut own.links, links)] {
            let old = table.clone();
            for (at, x) in table.iter_mut().enumerate() {
                let (k, f) = (at / width, at % width);
                *x = (0..rank)
                    .map(|q| old[q * width + f] * self.map[q * rank + k])
                    .sum();
            }
        }
        parallel::for_each(own.factors.chunks_mut(256 * rank), |lines| {
            let mut new = vec![0.0f32; rank];
            for line in lines.chunks_exact_mut(rank) {
                new.fill(0.0);
                for (q, &x) in line.iter().enumerate() {
                    let row = &single[q * rank..(q + 1) * rank];
                    new.iter_mut().zip(row).for_each(|(to, m)| *to += x * m);
                }
                line.copy_from_slice(&new);
            }
        });
    }
}

/// For every ordered pair of components: `U_l` grows by `t U_k` and `V_k` shrinks by `t (s_l / s_k) V_l`, means along with them, which changes no
/// latent value; t given the rest is normal.
pub(crate) fn exchange<R: Rng + ?Sized>(
    rows: &mut Moments,
    columns: &mut Moments,
    scales: &[f64],
    rng: &mut R,
) {
    for k in 0..scales.len() {
        for l in (0..scales.len()).filter(|&l| l != k) {
            let ratio = scales[l] / scales[k];
            let precision = rows.at(k, k) + ratio * ratio * columns.at(l, l);
            let linear = ratio * columns.at(k, l) - rows.at(k, l);
            let z: f64 = rng.sample(StandardNormal);
            let t = linear / precision + z / precision.sqrt();
            let back = -t * ratio;
            // A scale of almost nothing can take nothing.
            if t.is_finite() && back.is_finite() && precision > 0.0 {
                rows.add(l, k, t);
                columns.add(k, l, back);
            }
        }
    }
}
