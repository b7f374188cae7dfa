//! The hot loop: the switches and scores of one row, atom after atom, in vector registers (docs/bpfa.md#switches).
//!
//! With l = d_k' W (r + d_k s_k), q = d_k' W d_k, A = g_k + q, the switch is on when `logit pi_k + ln(g_k / A)/2 + l^2/(2A)` exceeds the logit of a uniform
//! number u, that is when l^2 exceeds a threshold. Few u are below [`SMALL`]: which ones, and where, is drawn beforehand. All others leave an atom off whose l^2 is
//! below the threshold of `u = SMALL`. That is convex in q, and a tangent, found once for all rows, is below it; so most atoms cost one comparison, and neither
//! logarithm nor random number.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use pulp::{Simd, bytemuck};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::loadings::{Loadings, add_scaled};
use crate::scores::RowScores;

/// What the scan of one row needs to know of it.
#[derive(Clone, Copy)]
pub(crate) struct ScanRow<'a> {
    /// Observed columns; `None` when all are.
    pub(crate) columns: Option<&'a [u32]>,
    pub(crate) values: &'a [f32],
    /// Noise precision of each observed entry.
    pub(crate) weights: &'a [f32],
    pub(crate) scores: RowScores<'a>,
    /// Whether the products that complete rows share hold for this one.
    pub(crate) shared: bool,
}

/// Prior of the scores: `kp` numbers each.
#[derive(Clone, Copy)]
pub(crate) struct ScanPrior<'a> {
    /// g_k.
    pub(crate) slab: &'a [f32],
    /// `2 logit pi_k + ln g_k`; minus infinity beyond the last atom.
    pub(crate) constant: &'a [f32],
    /// `bar + slope q`: at most the threshold of `u = SMALL`.
    pub(crate) bar: &'a [f32],
    pub(crate) slope: &'a [f32],
}

/// Scratch memory of one thread.
#[derive(Default)]
pub(crate) struct ScanWork {
    /// d_k' W r, r the residual of the row with the scores as they are.
    pub(crate) linear: Vec<f32>,
    /// d_k' W d_k, of rows that do not share it.
    pub(crate) norms: Vec<f32>,
    small: Small,
    above: Above,
    /// Twice the logit of a uniform number for each active atom.
    own: Vec<f32>,
    pub(crate) residual: ResidualWork,
    /// W r.
    weighted: Vec<f32>,
    /// The same of rows that are looked at together, and their `linear`.
    together: Vec<f32>,
    linears: Vec<f32>,
    change: Vec<f32>,
    /// Of a row that shares nothing: loadings of its columns on the atoms that are looked at together.
    lines: Vec<f32>,
    /// What was drawn.
    pub(crate) atoms: Vec<u16>,
    pub(crate) values: Vec<f32>,
}

impl ScanWork {
    /// Makes what was found of a row of those looked at together that of the row that is scanned next.
    #[inline(always)]
    pub(crate) fn take(&mut self, row: usize, kp: usize) {
        self.linear.resize(kp, 0.0);
        self.linear
            .copy_from_slice(&self.linears[row * kp..(row + 1) * kp]);
    }
}

/// A residual, and scratch memory for it.
#[derive(Default)]
pub(crate) struct ResidualWork {
    /// Of the observed columns.
    pub(crate) values: Vec<f32>,
    fitted: Vec<f32>,
}

/// Lanes of the widest register.
pub(crate) const LARGEST_REGISTER: usize = 16;

/// Lanes that are looked at together in rows that share nothing: what a change does to later ones is seen in the residual when they are reached, so that a
/// change costs this many products for each entry, and not K.
pub(crate) const AHEAD: usize = 64;

/// Uniform numbers below this, `2^-SMALL_BITS`, are drawn by the places where they are.
const SMALL: f32 = 1.0 / 32.0;
const SMALL_BITS: usize = 5;

/// Twice the logit of [`SMALL`]: `2 ln(1/31)`.
const SMALL_LN_ODDS: f32 = -6.867_974_4;

/// Uniform numbers that are below [`SMALL`].
#[derive(Default)]
struct Small {
    /// Which atoms have them, ascending.
    atoms: Vec<usize>,
    /// Twice their logits.
    ln_odds: Vec<f32>,
}

impl Small {
    /// Draws which of `k` uniform numbers are small, and these.
    #[inline(always)]
    fn draw(&mut self, k: usize, rng: &mut Xoshiro256PlusPlus) {
        self.atoms.clear();
        for first in (0..k).step_by(64) {
            let mut places = u64::MAX;
            (0..SMALL_BITS).for_each(|_| places &= rng.next_u64());
            while places != 0 {
                let atom = first + places.trailing_zeros() as usize;
                if atom < k {
                    self.atoms.push(atom);
                }
                places &= places - 1;
            }
        }
        draw_each(&mut self.ln_odds, self.atoms.len(), rng, small_ln_odds);
    }
}

/// Makes `out` so many numbers at least, each from 32 random bits, in vector registers.
#[inline(always)]
fn draw_each(
    out: &mut Vec<f32>,
    n: usize,
    rng: &mut Xoshiro256PlusPlus,
    make: impl Fn(u32) -> f32,
) {
    out.clear();
    out.resize(n.next_multiple_of(LARGEST_REGISTER), 0.0);
    let (drawn, _) = out.split_at_mut(n.next_multiple_of(2));
    draw_bits(drawn, rng);
    for chunk in out.as_chunks_mut::<LARGEST_REGISTER>().0 {
        for x in chunk {
            *x = make(x.to_bits());
        }
    }
}

#[inline(always)]
fn draw_bits(out: &mut [f32], rng: &mut Xoshiro256PlusPlus) {
    for pair in out.as_chunks_mut::<2>().0 {
        let bits = rng.next_u64();
        *pair = [bits as u32, (bits >> 32) as u32].map(f32::from_bits);
    }
}

/// Twice the logit of SMALL times the uniform number of these bits: `2 (ln u - ln(1 - u))`, the latter by its series.
#[inline(always)]
fn small_ln_odds(bits: u32) -> f32 {
    let u = SMALL * 2f32.powi(-32) * (bits as f32 + 0.5);
    let series = 1.0 + u * (0.5 + u * (1.0 / 3.0 + u * (0.25 + u * 0.2)));
    2.0 * (ln(u) + u * series)
}

/// Twice the logit of the uniform number of these bits, between `least` and 1.
#[inline(always)]
fn ln_odds_above(least: f32, bits: u32) -> f32 {
    let u = 2f32.powi(-32) * (bits as f32 + 0.5);
    let v = 2f32.powi(-32) * (!bits as f32 + 0.5);
    // Both tails keep their relative precision.
    2.0 * ln((least * v + u) / ((1.0 - least) * v))
}

/// Twice the logits of uniform numbers from [`SMALL`] to 1, as many as were taken.
#[derive(Default)]
struct Above {
    drawn: [f32; LARGEST_REGISTER],
    left: usize,
}

impl Above {
    #[inline(always)]
    fn next(&mut self, rng: &mut Xoshiro256PlusPlus) -> f32 {
        if self.left == 0 {
            self.left = LARGEST_REGISTER;
            draw_bits(&mut self.drawn, rng);
            for x in &mut self.drawn {
                *x = ln_odds_above(SMALL, x.to_bits());
            }
        }
        self.left -= 1;
        self.drawn[LARGEST_REGISTER - 1 - self.left]
    }
}

/// Scans all atoms, of rows that share products given `work.linear`; appends the active ones to `work.atoms` and `work.values`.
#[inline(always)]
pub(crate) fn scan_row<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    prior: ScanPrior<'_>,
    work: &mut ScanWork,
    rng: &mut Xoshiro256PlusPlus,
) {
    work.small.draw(d.k, rng);
    let n = row.scores.n_active();
    draw_each(&mut work.own, n, rng, |bits| ln_odds_above(0.0, bits));
    work.above.left = 0;
    if !row.shared {
        weigh_residual(simd, d, row, work);
    }
    let whole = d.kp / AHEAD * AHEAD;
    if !row.shared {
        // All at once: loads that wait for the cache wait together.
        let spans = (0..whole).step_by(AHEAD);
        spans.for_each(|start| work.take_lines::<AHEAD>(d, row, start));
        let rest = (whole..d.kp).step_by(LARGEST_REGISTER);
        rest.for_each(|start| work.take_lines::<LARGEST_REGISTER>(d, row, start));
    }
    let (mut start, mut next) = (0, Next::default());
    while start < d.kp {
        if start < whole {
            scan_span::<S, AHEAD>(simd, d, row, prior, (start, &mut next), work, rng);
            start += AHEAD;
        } else {
            scan_span::<S, LARGEST_REGISTER>(simd, d, row, prior, (start, &mut next), work, rng);
            start += LARGEST_REGISTER;
        }
    }
}

/// Most atoms that a row starts with.
const MOST_AT_START: usize = 32;

/// Scores for a row that has none to start from: the most probable atom first, then the next given it, while there is one that is rather on than off. A scan from
/// nothing takes atoms as they come, and many sweeps to be rid of those that others replace. Appends as [`scan_row`].
#[inline(always)]
pub(crate) fn pursue_row<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    prior: ScanPrior<'_>,
    work: &mut ScanWork,
) {
    let all = 0..d.kp;
    if !row.shared {
        weigh_residual(simd, d, row, work);
        correlate(simd, d, row, all.clone(), work);
    }
    let (mut bars, mut precisions) = (vec![0.0; d.kp], vec![0.0; d.kp]);
    let norms = if row.shared { &d.norms } else { &work.norms };
    for k in all.clone() {
        precisions[k] = prior.slab[k] + norms[k];
        bars[k] = ln(precisions[k]) - prior.constant[k];
    }
    let mut chosen: Vec<(u16, f32)> = Vec::with_capacity(MOST_AT_START);
    while chosen.len() < MOST_AT_START {
        let (mut best, mut most) = (0, 0.0);
        for (k, &linear) in work.linear.iter().enumerate() {
            let gain = linear * linear / precisions[k] - bars[k];
            if gain > most {
                (best, most) = (k, gain);
            }
        }
        if most == 0.0 {
            break;
        }
        let score = work.linear[best] / precisions[best];
        chosen.push((best as u16, score));
        bars[best] = f32::INFINITY;
        deflate(simd, d, row, best, score, all.clone(), work);
    }
    chosen.sort_unstable_by_key(|(k, _)| *k);
    work.atoms.extend(chosen.iter().map(|(k, _)| k));
    work.values.extend(chosen.iter().map(|(_, s)| s));
}

/// Rows that are looked at together.
pub(crate) const TOGETHER: usize = 32;

/// `d_k' W r` of rows that share their products, to `work.linears`; [`ScanWork::take`] hands them out.
#[inline(always)]
pub(crate) fn correlate_together<'a, S: Simd>(
    simd: S,
    d: &Loadings,
    rows: impl Iterator<Item = ScanRow<'a>>,
    work: &mut ScanWork,
) {
    work.together.clear();
    let (mut n, mut p) = (0, 0);
    for row in rows {
        weigh_residual(simd, d, row, work);
        work.together.extend_from_slice(&work.weighted);
        p = work.weighted.len();
        n += 1;
    }
    work.linears.resize(n * d.kp, 0.0);
    let registers = d.kp / S::F32_LANES;
    let (out, _) = S::as_mut_simd_f32s(&mut work.linears);
    let mut start = 0;
    while start < registers {
        let wide = registers - start >= 4;
        let mut row = 0;
        while row < n {
            let taken = if n - row >= 4 { 4 } else { 1 };
            let coefficients = &work.together[row * p..(row + taken) * p];
            let out = &mut out[row * registers..(row + taken) * registers];
            match (taken, wide) {
                (4, true) => tile::<S, 4, 4>(simd, d, coefficients, start, out),
                (4, false) => tile::<S, 4, 1>(simd, d, coefficients, start, out),
                (_, true) => tile::<S, 1, 4>(simd, d, coefficients, start, out),
                _ => tile::<S, 1, 1>(simd, d, coefficients, start, out),
            }
            row += taken;
        }
        start += if wide { 4 } else { 1 };
    }
}

/// `out_r <- sum_p a_rp D[p, ]` of R rows, in T registers from number `start` on.
#[inline(always)]
fn tile<S: Simd, const R: usize, const T: usize>(
    simd: S,
    d: &Loadings,
    coefficients: &[f32],
    start: usize,
    out: &mut [S::f32s],
) {
    let p = coefficients.len() / R;
    let registers = out.len() / R;
    let mut sums = [[simd.splat_f32s(0.0); T]; R];
    for column in 0..p {
        let loadings = &S::as_simd_f32s(d.column(column)).0[start..start + T];
        for r in 0..R {
            let a = simd.splat_f32s(coefficients[r * p + column]);
            for t in 0..T {
                sums[r][t] = simd.mul_add_e_f32s(a, loadings[t], sums[r][t]);
            }
        }
    }
    for r in 0..R {
        for t in 0..T {
            out[r * registers + start + t] = sums[r][t];
        }
    }
}

/// Atoms that are looked at together.
#[inline(always)]
pub(crate) fn spans(d: &Loadings, row: ScanRow<'_>) -> impl Iterator<Item = Range<usize>> + use<> {
    let kp = d.kp;
    let step = if row.shared { kp } else { AHEAD };
    (0..kp)
        .step_by(step)
        .map(move |start| start..(start + step).min(kp))
}

/// Of the active atoms, and of those whose u is small, the first that was not reached.
#[derive(Default)]
struct Next {
    own: usize,
    small: usize,
}

impl Next {
    /// Goes on to the first small one that is not before `atom`.
    #[inline(always)]
    fn pass_small(&mut self, small: &Small, atom: usize) {
        while small.atoms.get(self.small).is_some_and(|a| *a < atom) {
            self.small += 1;
        }
    }
}

/// Scans N atoms from `start` on.
#[inline(always)]
fn scan_span<S: Simd, const N: usize>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    prior: ScanPrior<'_>,
    (start, next): (usize, &mut Next),
    work: &mut ScanWork,
    rng: &mut Xoshiro256PlusPlus,
) {
    let span = start..start + N;
    if !row.shared {
        look::<S, N>(simd, row, start, d.kp, work);
    }
    let norms: [f32; N] = *part(if row.shared { &d.norms } else { &work.norms }, start);
    let (slab, constant) = (
        part::<N>(prior.slab, start),
        part::<N>(prior.constant, start),
    );
    // Scores that are still in the residual and to be drawn again.
    let mut pending = [0.0; N];
    let mut threshold = tangents::<S, N>(
        simd,
        part(prior.bar, start),
        part(prior.slope, start),
        &norms,
    );
    let atoms = row.scores.atoms.unwrap_or_default();
    let active = atoms.iter().zip(row.scores.values);
    for (&k, &s) in active.skip(next.own) {
        let Some(n) = (k as usize).checked_sub(start).filter(|n| *n < N) else {
            break;
        };
        pending[n] = s;
        // No square is below: an active atom is always reached, and drawn anew.
        threshold[n] = -1.0;
    }
    next.pass_small(&work.small, start);
    let mut at = next.small;
    while let Some(&k) = work.small.atoms.get(at).filter(|k| **k < span.end) {
        let n = k - start;
        if pending[n] == 0.0 {
            threshold[n] += (slab[n] + norms[n]) * (work.small.ln_odds[at] - SMALL_LN_ODDS);
        }
        at += 1;
    }
    let mut hits = above(
        simd,
        &norms,
        &pending,
        part(&work.linear, start),
        &threshold,
    );
    while hits != 0 {
        let n = hits.trailing_zeros() as usize;
        let (k, old) = (start + n, pending[n]);
        let linear = work.linear[k] + norms[n] * old;
        let precision = slab[n] + norms[n];
        let excess = linear * linear - precision * (ln(precision) - constant[n]);
        let is_above = |ln_odds: f32| excess > precision * ln_odds;
        next.pass_small(&work.small, k);
        let ln_odds = if old != 0.0 {
            next.own += 1;
            work.own[next.own - 1]
        } else if work.small.atoms.get(next.small) == Some(&k) {
            work.small.ln_odds[next.small]
        } else if is_above(SMALL_LN_ODDS) {
            work.above.next(rng)
        } else {
            f32::INFINITY
        };
        let mut new = 0.0;
        if is_above(ln_odds) {
            let z: f32 = rng.sample(StandardNormal);
            new = linear / precision + z / precision.sqrt();
            if new == 0.0 {
                // 0 means off.
                new = f32::MIN_POSITIVE;
            }
            work.atoms.push(k as u16);
            work.values.push(new);
        }
        pending[n] = 0.0;
        // Lanes that were passed stay as they were decided, although what they were compared with changes.
        let later = u64::MAX << n << 1;
        if new == old {
            hits &= later;
        } else {
            match row.shared {
                true => deflate(simd, d, row, k, new - old, start..d.kp, work),
                false => deflate_lines::<S, N>(simd, row, (start, n), new - old, work),
            }
            hits = later
                & above(
                    simd,
                    &norms,
                    &pending,
                    part(&work.linear, start),
                    &threshold,
                );
        }
    }
}

impl ScanWork {
    /// Gathers the loadings of a row's columns on N atoms, for those from `start` on at `start` times its number of columns.
    #[inline(always)]
    fn take_lines<const N: usize>(&mut self, d: &Loadings, row: ScanRow<'_>, start: usize) {
        let n = row.values.len();
        if self.lines.len() < n * d.kp {
            self.lines.resize(n * d.kp, 0.0);
        }
        let lines = self.lines[n * start..].as_chunks_mut::<N>().0;
        match row.columns {
            Some(columns) => (lines.iter_mut().zip(columns))
                .for_each(|(line, &p)| *line = *part(d.column(p as usize), start)),
            None => (lines.iter_mut().take(n).enumerate())
                .for_each(|(p, line)| *line = *part(d.column(p), start)),
        }
    }
}

/// `work.linear` and `work.norms` of N atoms.
#[inline(always)]
fn look<S: Simd, const N: usize>(
    simd: S,
    row: ScanRow<'_>,
    start: usize,
    kp: usize,
    work: &mut ScanWork,
) {
    work.linear.resize(kp, 0.0);
    work.norms.resize(kp, 0.0);
    let linear = S::as_mut_simd_f32s(&mut work.linear[start..start + N]).0;
    let norms = S::as_mut_simd_f32s(&mut work.norms[start..start + N]).0;
    let lines = work.lines[row.values.len() * start..].as_chunks::<N>().0;
    let mut register = 0;
    while register < N / S::F32_LANES {
        let entries = lines.iter().zip(&work.weighted).zip(row.weights);
        if N / S::F32_LANES - register >= LOOK {
            look_tile::<S, N, LOOK>(simd, entries, register, linear, norms);
            register += LOOK;
        } else {
            look_tile::<S, N, 1>(simd, entries, register, linear, norms);
            register += 1;
        }
    }
}

/// As [`deflate`] for atom n of those whose loadings were gathered.
#[inline(always)]
fn deflate_lines<S: Simd, const N: usize>(
    simd: S,
    row: ScanRow<'_>,
    (start, n): (usize, usize),
    change: f32,
    work: &mut ScanWork,
) {
    let lines = work.lines[row.values.len() * start..].as_chunks::<N>().0;
    work.change.resize(row.weights.len(), 0.0);
    let entries = lines.iter().zip(row.weights).zip(&mut work.weighted);
    for (((line, w), weighted), out) in entries.zip(&mut work.change) {
        *out = -change * w * line[n];
        *weighted += *out;
    }
    let linear = S::as_mut_simd_f32s(&mut work.linear[start..start + N]).0;
    let mut register = 0;
    while register < N / S::F32_LANES {
        let entries = lines.iter().zip(&work.change);
        if N / S::F32_LANES - register >= LOOK {
            add_tile::<S, N, LOOK>(simd, entries, register, linear);
            register += LOOK;
        } else {
            add_tile::<S, N, 1>(simd, entries, register, linear);
            register += 1;
        }
    }
}

/// Adds `sum_e a_e line_e` of R registers.
#[inline(always)]
fn add_tile<'a, S: Simd, const N: usize, const R: usize>(
    simd: S,
    entries: impl Iterator<Item = (&'a [f32; N], &'a f32)>,
    start: usize,
    out: &mut [S::f32s],
) {
    let mut sums = [simd.splat_f32s(0.0); R];
    for (line, &a) in entries {
        let a = simd.splat_f32s(a);
        let line = &S::as_simd_f32s(line).0[start..start + R];
        for t in 0..R {
            sums[t] = simd.mul_add_e_f32s(a, line[t], sums[t]);
        }
    }
    for t in 0..R {
        out[start + t] = simd.add_f32s(out[start + t], sums[t]);
    }
}

/// N numbers from `start` on.
#[inline(always)]
fn part<const N: usize>(all: &[f32], start: usize) -> &[f32; N] {
    all[start..].first_chunk().expect("numbers are padded")
}

/// Takes `change` of score k out of `work.linear` of these atoms; where nothing is shared out of the residual, too, for those that come later.
#[inline(always)]
pub(crate) fn deflate<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    k: usize,
    change: f32,
    span: Range<usize>,
    work: &mut ScanWork,
) {
    if row.shared {
        let products = &d.gram[k * d.kp..][span.clone()];
        add_scaled(simd, -change, products, &mut work.linear[span]);
        return;
    }
    for (e, weighted) in work.weighted.iter_mut().enumerate() {
        let own = d.column(place(row.columns, e));
        let change = -change * row.weights[e] * own[k];
        *weighted += change;
        add_scaled(
            simd,
            change,
            &own[span.clone()],
            &mut work.linear[span.clone()],
        );
    }
}

/// The residual, and the residual times its precisions.
#[inline(always)]
pub(crate) fn weigh_residual<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    work: &mut ScanWork,
) {
    residual(
        simd,
        d,
        row.columns,
        row.values,
        row.scores,
        &mut work.residual,
    );
    work.weighted.clear();
    let weighted = work.residual.values.iter().zip(row.weights);
    work.weighted.extend(weighted.map(|(r, w)| r * w));
}

/// `work.linear` and, unless shared, `work.norms` of these atoms.
#[inline(always)]
pub(crate) fn correlate<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    span: Range<usize>,
    work: &mut ScanWork,
) {
    work.linear.resize(d.kp, 0.0);
    if row.shared {
        work.linear[span.clone()].fill(0.0);
        for (p, &a) in work.weighted.iter().enumerate() {
            let own = &d.column(p)[span.clone()];
            add_scaled(simd, a, own, &mut work.linear[span.clone()]);
        }
        return;
    }
    for start in span.step_by(LARGEST_REGISTER) {
        work.take_lines::<LARGEST_REGISTER>(d, row, start);
        look::<S, LARGEST_REGISTER>(simd, row, start, d.kp, work);
    }
}

/// Registers whose correlations and norms are summed at once.
const LOOK: usize = 4;

/// `sum_e a_e line_e` and `sum_e w_e line_e^2`.
#[inline(always)]
#[expect(
    clippy::manual_memcpy,
    reason = "sums that are copied as slices are kept in memory, not in registers"
)]
fn look_tile<'a, S: Simd, const N: usize, const R: usize>(
    simd: S,
    entries: impl Iterator<Item = ((&'a [f32; N], &'a f32), &'a f32)>,
    start: usize,
    linear: &mut [S::f32s],
    norms: &mut [S::f32s],
) {
    let mut sums = [simd.splat_f32s(0.0); R];
    let mut squares = [simd.splat_f32s(0.0); R];
    for ((line, &a), &w) in entries {
        let (a, w) = (simd.splat_f32s(a), simd.splat_f32s(w));
        let line = &S::as_simd_f32s(line).0[start..start + R];
        // By numbers: zipped arrays are kept in memory, not in registers.
        for t in 0..R {
            sums[t] = simd.mul_add_e_f32s(a, line[t], sums[t]);
            squares[t] = simd.mul_add_e_f32s(simd.mul_f32s(w, line[t]), line[t], squares[t]);
        }
    }
    for t in 0..R {
        linear[start + t] = sums[t];
        norms[start + t] = squares[t];
    }
}

/// Column of entry e of a row.
#[inline(always)]
pub(crate) fn place(columns: Option<&[u32]>, e: usize) -> usize {
    match columns {
        Some(columns) => columns[e] as usize,
        None => e,
    }
}

/// A row with fewer observed columns than this share of all takes its atoms apart instead of adding them up whole.
const FEW: usize = 16;

/// `out.values <- values - D s` at the observed columns.
#[inline(always)]
pub(crate) fn residual<S: Simd>(
    simd: S,
    d: &Loadings,
    columns: Option<&[u32]>,
    values: &[f32],
    scores: RowScores<'_>,
    out: &mut ResidualWork,
) {
    let ResidualWork {
        values: out,
        fitted,
    } = out;
    out.clear();
    out.extend_from_slice(values);
    let Some(columns) = columns else {
        out.resize(d.pp, 0.0);
        for (k, s) in scores.iter() {
            add_scaled(simd, -s, d.atom(k), out);
        }
        out.truncate(values.len());
        return;
    };
    if FEW * columns.len() < d.pp {
        for (k, s) in scores.iter() {
            let atom = d.atom(k);
            for (r, &p) in out.iter_mut().zip(columns) {
                *r -= s * atom[p as usize];
            }
        }
        return;
    }
    reconstruct(simd, d, scores, fitted);
    for (r, &p) in out.iter_mut().zip(columns) {
        *r -= fitted[p as usize];
    }
}

/// `out <- D s` at all columns.
#[inline(always)]
pub(crate) fn reconstruct<S: Simd>(
    simd: S,
    d: &Loadings,
    scores: RowScores<'_>,
    padded: &mut Vec<f32>,
) {
    padded.clear();
    padded.resize(d.pp, 0.0);
    for (k, s) in scores.iter() {
        add_scaled(simd, s, d.atom(k), padded);
    }
}

/// `bar + slope q`.
#[inline(always)]
fn tangents<S: Simd, const N: usize>(
    simd: S,
    bar: &[f32; N],
    slope: &[f32; N],
    norms: &[f32; N],
) -> [f32; N] {
    let mut out = [0.0; N];
    let at = |x| S::as_simd_f32s(x).0;
    let terms = at(bar).iter().zip(at(slope)).zip(at(norms));
    for (out, ((&bar, &slope), &norm)) in S::as_mut_simd_f32s(&mut out).0.iter_mut().zip(terms) {
        *out = simd.mul_add_e_f32s(slope, norm, bar);
    }
    out
}

/// Which of the atoms have l^2 above their threshold, one bit for each.
#[inline(always)]
fn above<S: Simd, const N: usize>(
    simd: S,
    norms: &[f32; N],
    pending: &[f32; N],
    linear: &[f32; N],
    threshold: &[f32; N],
) -> u64 {
    let at = |x| S::as_simd_f32s(x).0;
    let (norms, pending) = (at(norms), at(pending));
    let (linear, threshold) = (at(linear), at(threshold));
    let mut bits = 0;
    for register in 0..N / S::F32_LANES {
        let linear = simd.mul_add_e_f32s(norms[register], pending[register], linear[register]);
        let square = simd.mul_f32s(linear, linear);
        let mask = simd.greater_than_f32s(square, threshold[register]);
        bits |= lanes_of::<S>(mask) << (register * S::F32_LANES);
    }
    bits
}

/// One bit for each lane, the first lane lowest.
#[inline(always)]
fn lanes_of<S: Simd>(mask: S::m32s) -> u64 {
    if const { size_of::<S::m32s>() == size_of::<u16>() } {
        return u64::from(bytemuck::cast::<_, u16>(mask));
    }
    if const { size_of::<S::m32s>() == size_of::<u8>() } {
        return u64::from(bytemuck::cast::<_, u8>(mask));
    }
    // Each lane has a word, all bits of which are set or none.
    let words: S::u32s = bytemuck::cast(mask);
    let words = bytemuck::cast_slice::<_, u32>(std::slice::from_ref(&words));
    let lanes = words.iter().enumerate();
    lanes.fold(0, |bits, (lane, word)| bits | u64::from(word & 1) << lane)
}

/// `A (ln(A o^2) - constant)`, o the odds of SMALL, A = slab + q: l^2 beyond it switches an atom on whose uniform number is that. Its tangent at these `norms`,
/// as bars at q = 0 and slopes.
pub(crate) fn tangents_at(norms: &[f32], slab: &[f32], constant: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let prior = slab.iter().zip(constant);
    let tangent = |(&norm, (&slab, &constant)): (&f32, (&f32, &f32))| {
        let precision = slab + norm;
        let value = precision * (ln(precision) + (SMALL_LN_ODDS - constant));
        if value == f32::INFINITY {
            return (value, 0.0);
        }
        let slope = ln(precision) + 1.0 + (SMALL_LN_ODDS - constant);
        (value - slope * norm, slope)
    };
    norms.iter().zip(prior).map(tangent).unzip()
}

/// ln x for positive normal x, to about 1e-7 relative to max(1, |ln x|); vectorises. Source: minimax polynomial of ln(1 + f) on [sqrt(1/2) - 1, sqrt(2) - 1]
/// (Moshier, Cephes).
#[inline(always)]
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let fraction = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000);
    let large = fraction > std::f32::consts::SQRT_2;
    let exponent = (bits >> 23) as i32 - 127 + i32::from(large);
    let f = (if large { 0.5 * fraction } else { fraction }) - 1.0;
    let z = f * f;
    // Estrin's order: half of the steps of Horner's depend on each other.
    let low = (3.333_333e-1 - 2.499_999_4e-1 * f) + z * (2.000_071_4e-1 - 1.666_805_8e-1 * f);
    let high = (1.424_932_3e-1 - 1.242_014_1e-1 * f) + z * (1.167_699_9e-1 - 1.151_461e-1 * f);
    let zz = z * z;
    let y = low + zz * (high + zz * 7.037_683_6e-2);
    let e = exponent as f32;
    f + (y * f * z + e * -2.121_944_4e-4 - 0.5 * z) + e * 0.693_359_4
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use npb_infer::stream;
    use pulp::{Arch, WithSimd};

    /// What is wrong with the reference.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Fault {
        None,
        /// After a change the atoms before it in its group of 16 are compared once more, with the numbers that they were compared with before.
        Restart,
        /// The score of the atom itself stays in the residual.
        OwnScore,
    }

    /// One row, dense, double precision, one atom after the other; takes its random numbers in the order of the scan.
    pub(crate) fn reference(
        d: &Loadings,
        row: ScanRow<'_>,
        prior: ScanPrior<'_>,
        fault: Fault,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<f64> {
        let kp = d.kp;
        let mut small = Small::default();
        small.draw(d.k, rng);
        let mut own = Vec::new();
        draw_each(&mut own, row.scores.n_active(), rng, |bits| {
            ln_odds_above(0.0, bits)
        });
        let mut own = own.into_iter();
        let mut above = Above::default();
        let mut s = vec![0.0; kp];
        row.scores.iter().for_each(|(k, x)| s[k] = f64::from(x));
        let dot = |s: &[f64], k: usize, own: bool| -> (f64, f64) {
            let (mut linear, mut norm) = (0.0, 0.0);
            for (e, (&y, &w)) in row.values.iter().zip(row.weights).enumerate() {
                let loadings = d.column(place(row.columns, e));
                let at = |k: usize| f64::from(loadings[k]);
                let fitted: f64 = (0..d.k)
                    .filter(|&l| own || l != k)
                    .map(|l| at(l) * s[l])
                    .sum();
                linear += f64::from(w) * at(k) * (f64::from(y) - fitted);
                norm += f64::from(w) * at(k).powi(2);
            }
            (linear, norm)
        };
        let mut k = 0;
        let mut done = vec![false; kp];
        while k < d.k {
            let (linear, norm) = dot(&s, k, fault == Fault::OwnScore);
            let slab = f64::from(prior.slab[k]);
            let precision = slab + norm;
            let ln_odds = 0.5 * f64::from(prior.constant[k]) - 0.5 * precision.ln()
                + 0.5 * linear * linear / precision;
            let old = s[k];
            s[k] = 0.0;
            let drawn = small.atoms.iter().position(|a| *a == k && old == 0.0);
            let bar = match drawn {
                Some(at) => small.ln_odds[at],
                None if old == 0.0 && 2.0 * ln_odds < f64::from(SMALL_LN_ODDS) => f32::INFINITY,
                None if old == 0.0 => above.next(rng),
                None => own.next().unwrap_or(f32::INFINITY),
            };
            let bar = 0.5 * f64::from(bar);
            if bar < ln_odds {
                let z: f32 = rng.sample(StandardNormal);
                s[k] = linear / precision + f64::from(z) / precision.sqrt();
            }
            done[k] = s[k] != 0.0 || old != 0.0;
            let changed = done[k];
            k += 1;
            if fault == Fault::Restart && changed {
                k = (k - 1) / 16 * 16;
            }
            while k < d.k && done[k] {
                k += 1;
            }
        }
        s
    }

    /// The atom whose switch has the best odds given those chosen before, at its mean, and so on while odds are above one; dense, double precision.
    fn most_probable(d: &Loadings, row: ScanRow<'_>, prior: ScanPrior<'_>) -> Vec<f64> {
        let mut s = vec![0.0; d.kp];
        loop {
            let (mut best, mut most) = (None, 0.0);
            for k in (0..d.k).filter(|&k| s[k] == 0.0) {
                let (mut linear, mut precision) = (0.0, f64::from(prior.slab[k]));
                for (e, (&y, &w)) in row.values.iter().zip(row.weights).enumerate() {
                    let own = d.column(place(row.columns, e));
                    let fitted: f64 = own.iter().zip(&s).map(|(&d, s)| f64::from(d) * s).sum();
                    linear += f64::from(w * own[k]) * (f64::from(y) - fitted);
                    precision += f64::from(w) * f64::from(own[k]).powi(2);
                }
                let ln_odds =
                    f64::from(prior.constant[k]) - precision.ln() + linear * linear / precision;
                if ln_odds > most {
                    (best, most) = (Some((k, linear / precision)), ln_odds);
                }
            }
            match best {
                Some((k, score)) => s[k] = score,
                None => return s,
            }
        }
    }

    struct Once<'a> {
        d: &'a Loadings,
        row: ScanRow<'a>,
        prior: ScanPrior<'a>,
        work: &'a mut ScanWork,
        /// None: the most probable atoms.
        rng: Option<Xoshiro256PlusPlus>,
    }

    impl WithSimd for Once<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, simd: S) {
            if self.row.shared {
                // More rows than one register of rows, this one the last.
                let rows = [self.row; 6].into_iter();
                correlate_together(simd, self.d, rows, self.work);
                self.work.take(5, self.d.kp);
            }
            match &mut self.rng {
                Some(rng) => scan_row(simd, self.d, self.row, self.prior, self.work, rng),
                None => pursue_row(simd, self.d, self.row, self.prior, self.work),
            }
        }
    }

    /// Rows of several lengths, with and without holes, against the reference.
    #[test]
    fn registers_agree_with_double_precision() {
        let arch = Arch::new();
        let mut different = 0;
        for case in 0..400_u64 {
            let mut rng = stream(7, [case, 0, 0, 0]);
            let k = 1 + (case as usize * 7) % 70;
            let p = 2 + (case as usize * 5) % 23;
            let mut normal = |sd: f64| (sd * rng.sample::<f64, _>(StandardNormal)) as f32;
            let dictionary: Vec<f32> = (0..k * p).map(|_| normal(0.5)).collect();
            let (complete, from_nothing) = (case % 2 == 0, case % 8 > 5);
            let columns: Vec<u32> = (0..p as u32).filter(|c| complete || c % 3 != 1).collect();
            let values: Vec<f32> = columns.iter().map(|_| normal(1.0)).collect();
            let weights: Vec<f32> = vec![3.0; columns.len()];
            let (atoms, scores): (Vec<u16>, Vec<f32>) = (0..k as u16)
                .filter(|a| a % 5 == 2 && !from_nothing)
                .map(|a| (a, normal(1.0)))
                .unzip();
            let kp = k.next_multiple_of(16);
            let slab = vec![1.5; kp];
            let mut constant = vec![f32::NEG_INFINITY; kp];
            constant[..k].fill(-1.0);
            let mut d = Loadings::default();
            let shared = vec![3.0; p];
            d.set(&dictionary, k, complete.then_some(&shared), arch);
            let row = ScanRow {
                columns: (!complete).then_some(&columns),
                values: &values,
                weights: &weights,
                scores: RowScores {
                    atoms: Some(&atoms),
                    values: &scores,
                },
                shared: complete,
            };
            // Tangents at other norms are below the thresholds, too.
            let norms = match complete && case % 4 == 0 {
                true => d.norms.clone(),
                false => vec![0.7; kp],
            };
            let (bar, slope) = tangents_at(&norms, &slab, &constant);
            let prior = ScanPrior {
                slab: &slab,
                constant: &constant,
                bar: &bar,
                slope: &slope,
            };
            let mut work = ScanWork::default();
            arch.dispatch(Once {
                d: &d,
                row,
                prior,
                work: &mut work,
                rng: (!from_nothing).then(|| stream(8, [case, 0, 0, 0])),
            });
            let expected = match from_nothing {
                true => most_probable(&d, row, prior),
                false => reference(&d, row, prior, Fault::None, &mut stream(8, [case, 0, 0, 0])),
            };
            let mut found = vec![0.0; kp];
            let drawn = work.atoms.iter().zip(&work.values);
            drawn.for_each(|(&k, &s)| found[k as usize] = f64::from(s));
            let off = found
                .iter()
                .zip(&expected)
                .any(|(a, b)| (a - b).abs() > 1e-3);
            different += usize::from(off);
        }
        // A decision on the edge may fall otherwise in single precision.
        assert!(different <= 1, "{different} rows differ");
    }

    /// The number of small uniforms is binomial, every place is as likely as any other, and all together they are uniform.
    #[test]
    fn uniforms_that_are_small_are_as_often_as_they_should() {
        let odds = f64::from(SMALL) / (1.0 - f64::from(SMALL));
        assert!((2.0 * odds.ln() - f64::from(SMALL_LN_ODDS)).abs() < 1e-6);
        let (k, n) = (70, 40_000);
        let (mut counts, mut below, mut small) = (vec![0.0_f64; k], 0.0_f64, Small::default());
        let half = 2.0 * (0.5 * SMALL / (1.0 - 0.5 * SMALL)).ln();
        let (mut above, mut above_half) = (0.0, 0.0);
        for i in 0..n {
            let rng = &mut stream(9, [i, 0, 0, 0]);
            small.draw(k, rng);
            for (&place, &ln_odds) in small.atoms.iter().zip(&small.ln_odds) {
                counts[place] += 1.0;
                below += f64::from(u8::from(ln_odds < half));
                assert!(ln_odds < SMALL_LN_ODDS + 1e-5);
            }
            let ln_odds = ln_odds_above(SMALL, rng.next_u32());
            assert!(ln_odds > SMALL_LN_ODDS - 1e-5);
            above += f64::from(u8::from(ln_odds > 0.0));
            above_half += f64::from(u8::from(ln_odds_above(0.0, rng.next_u32()) > 2.0));
        }
        let n = n as f64;
        let expected = n * f64::from(SMALL);
        let chi: f64 = counts
            .iter()
            .map(|c| (c - expected).powi(2) / expected)
            .sum();
        // Mean 68, standard deviation about 12.
        assert!(chi < 70.0 + 4.0 * 12.0, "{chi}");
        let near =
            |count: f64, n: f64, p: f64| (count - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt();
        let all: f64 = counts.iter().sum();
        assert!(near(all, k as f64 * n, f64::from(SMALL)), "{all}");
        assert!(near(below, all, 0.5), "{below} of {all}");
        assert!(near(above, n, 0.5 / (1.0 - f64::from(SMALL))), "{above}");
        assert!(
            near(above_half, n, 1.0 / (1.0 + 1f64.exp())),
            "{above_half}"
        );
    }

    #[test]
    fn logarithms_are_good_to_single_precision() {
        for n in -60..60 {
            for x in [1.0, 1.2, 1.41, 1.42, 1.7, 1.999] {
                let x = x * 2f32.powi(n);
                let exact = f64::from(x).ln();
                assert!(
                    (f64::from(ln(x)) - exact).abs() < 2e-7 * exact.abs().max(1.0),
                    "{x}"
                );
            }
        }
    }
}
