//! The dictionary as the hot loops want it: padded, with the products that rows share.

use npb_infer::parallel;
use pulp::{Arch, Simd, WithSimd};

/// Rows of the padded dictionary are multiples of this: the widest register of single precision.
pub(crate) const PAD: usize = 16;

/// The dictionary of a sweep: `kp` numbers for each column p, D_pk and zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loadings {
    pub(crate) k: usize,
    pub(crate) kp: usize,
    pub(crate) by_column: Vec<f32>,
    /// Columns, padded.
    pub(crate) pp: usize,
    /// The same by atoms: `pp` numbers for each.
    pub(crate) by_atom: Vec<f32>,
    /// `sum_p w_p D_pk D_pl` over all columns, kp x kp; empty when rows have holes.
    pub(crate) gram: Vec<f32>,
    /// Its diagonal.
    pub(crate) norms: Vec<f32>,
}

impl Loadings {
    /// Takes in `dictionary` (P x K, by columns of the data); `weights` (one for each column): the products, too.
    pub(crate) fn set(
        &mut self,
        dictionary: &[f32],
        k: usize,
        weights: Option<&[f32]>,
        arch: Arch,
    ) {
        let p = dictionary.len() / k.max(1);
        self.k = k;
        self.kp = k.next_multiple_of(PAD);
        let kp = self.kp;
        self.by_column.clear();
        self.by_column.resize(p * kp, 0.0);
        let padded = self.by_column.chunks_exact_mut(kp);
        for (to, from) in padded.zip(dictionary.chunks_exact(k)) {
            to[..k].copy_from_slice(from);
        }
        self.pp = p.next_multiple_of(PAD);
        self.by_atom.clear();
        self.by_atom.resize(k * self.pp, 0.0);
        for (column, loadings) in dictionary.chunks_exact(k).enumerate() {
            for (atom, &x) in loadings.iter().enumerate() {
                self.by_atom[atom * self.pp + column] = x;
            }
        }
        self.gram.clear();
        self.norms.clear();
        let Some(weights) = weights else { return };
        self.gram.resize(kp * kp, 0.0);
        let by_column = &self.by_column;
        parallel::for_each(self.gram.chunks_mut(kp).enumerate(), |(atom, out)| {
            arch.dispatch(GramRow {
                by_column,
                kp,
                weights,
                atom,
                out,
            })
        });
        self.norms.extend((0..kp).map(|k| self.gram[k * kp + k]));
    }

    /// Loadings of column `p`.
    #[inline(always)]
    pub(crate) fn column(&self, p: usize) -> &[f32] {
        &self.by_column[p * self.kp..(p + 1) * self.kp]
    }

    /// Atom `k`, padded.
    #[inline(always)]
    pub(crate) fn atom(&self, k: usize) -> &[f32] {
        &self.by_atom[k * self.pp..(k + 1) * self.pp]
    }
}

struct GramRow<'a> {
    by_column: &'a [f32],
    kp: usize,
    weights: &'a [f32],
    atom: usize,
    out: &'a mut [f32],
}

impl WithSimd for GramRow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (column, &w) in self.by_column.chunks_exact(self.kp).zip(self.weights) {
            add_scaled(simd, w * column[self.atom], column, self.out);
        }
    }
}

/// y <- y + a x; lengths are multiples of [`PAD`].
#[inline(always)]
pub(crate) fn add_scaled<S: Simd>(simd: S, a: f32, x: &[f32], y: &mut [f32]) {
    let a = simd.splat_f32s(a);
    let (x, _) = S::as_simd_f32s(x);
    let (y, _) = S::as_mut_simd_f32s(y);
    for (&x, y) in x.iter().zip(y) {
        *y = simd.mul_add_e_f32s(a, x, *y);
    }
}
