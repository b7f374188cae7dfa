//! Exponentials and log gamma functions of many numbers at once, products that stay in range, draws from weights.

use pulp::Arch;

/// Turns rows of `width` log-weights into weights, the largest of each row 1; a row of minus infinities becomes zeros.
/// Returns the sum of the largest log-weights.
pub(crate) fn exp_rows(out: &mut [f64], width: usize) -> f64 {
    Arch::new().dispatch(ExpRows { out, width })
}

struct ExpRows<'a> {
    out: &'a mut [f64],
    width: usize,
}

impl pulp::NullaryFnOnce for ExpRows<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        // Not by `map` and `sum`: they stay functions of their own, without the vector instructions of this one.
        let mut sum = 0.0;
        for row in self.out.chunks_exact_mut(self.width) {
            sum += below_largest(row);
        }
        // One long loop: rows are too short to fill vector registers.
        for x in self.out.iter_mut() {
            *x = exp_below_zero(*x);
        }
        sum
    }
}

/// Subtracts the largest number of a row from all, unless it is minus infinity, and returns it; inlined into loops that run under vector
/// instructions.
#[inline(always)]
fn below_largest(row: &mut [f64]) -> f64 {
    let largest = largest(row);
    if largest > f64::NEG_INFINITY {
        row.iter_mut().for_each(|x| *x -= largest);
    }
    largest
}

/// The larger of two numbers; not `f64::max`, which looks at what is not a number.
#[inline(always)]
pub(crate) fn larger(x: f64, than: f64) -> f64 {
    if x > than { x } else { than }
}

/// The largest number, minus infinity when there is none.
#[inline(always)]
pub(crate) fn largest(numbers: &[f64]) -> f64 {
    // Four running maxima are the same in the end, and can be vector instructions.
    let mut lanes = [f64::NEG_INFINITY; 4];
    let (whole, rest) = numbers.as_chunks::<4>();
    for numbers in whole {
        for lane in 0..4 {
            lanes[lane] = larger(numbers[lane], lanes[lane]);
        }
    }
    let mut largest = larger(larger(lanes[0], lanes[1]), larger(lanes[2], lanes[3]));
    for &x in rest {
        largest = larger(x, largest);
    }
    largest
}

/// e^x for x <= 0 within 2 ulp, exactly 1 at 0, and 0 below -700. Without branches, so that loops over it are turned into
/// vector instructions.
#[inline(always)]
pub(crate) fn exp_below_zero(x: f64) -> f64 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 2^52 rounds to the nearest whole number and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let inside = x > -700.0;
    let x = if inside { x } else { -700.0 };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor's series to r^13: the rest is below 2^-53 for |r| <= 0.347. Fused, as all that is called here has instructions for that.
    let mut p: f64 = 1.0 / 6_227_020_800.0;
    p = p.mul_add(r, 1.0 / 479_001_600.0);
    p = p.mul_add(r, 1.0 / 39_916_800.0);
    p = p.mul_add(r, 1.0 / 3_628_800.0);
    p = p.mul_add(r, 1.0 / 362_880.0);
    p = p.mul_add(r, 1.0 / 40_320.0);
    p = p.mul_add(r, 1.0 / 5_040.0);
    p = p.mul_add(r, 1.0 / 720.0);
    p = p.mul_add(r, 1.0 / 120.0);
    p = p.mul_add(r, 1.0 / 24.0);
    p = p.mul_add(r, 1.0 / 6.0);
    p = p.mul_add(r, 0.5);
    p = p.mul_add(r, 1.0);
    p = p.mul_add(r, 1.0);
    let power_of_2 = f64::from_bits(shifted.to_bits().wrapping_add(1023).wrapping_shl(52));
    let value = p * power_of_2;
    if inside { value } else { 0.0 }
}

/// A product of many positive numbers, each at least 1e-200, whose logarithm is wanted.
pub(crate) struct Product {
    ln: f64,
    product: f64,
}

impl Default for Product {
    fn default() -> Self {
        Self {
            ln: 0.0,
            product: 1.0,
        }
    }
}

impl Product {
    pub(crate) fn times(&mut self, factor: f64) {
        self.product *= factor;
        if !(1e-100..=1e100).contains(&self.product) {
            self.ln += self.product.ln();
            self.product = 1.0;
        }
    }

    /// By the exponential of a number.
    pub(crate) fn times_ln(&mut self, ln_factor: f64) {
        self.ln += ln_factor;
    }

    pub(crate) fn ln(&self) -> f64 {
        self.ln + self.product.ln()
    }
}

pub(crate) fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// [`dist::pick`](npb_priors::dist::pick); 0 when nothing has positive weight.
pub(crate) fn pick(weights: &[f64], u: f64) -> usize {
    npb_priors::dist::pick(weights.iter().copied(), u).unwrap_or(0)
}

/// ln Γ of every number, each between 1e-300 and 1e10, within 2e-14 or 4 ulp, whichever is more: for sums in which absolute errors
/// count.
pub(crate) fn ln_gammas<const N: usize>(x: [f64; N]) -> [f64; N] {
    Arch::new().dispatch(LnGammas(x))
}

/// A sum of ln Γ of numbers that come one by one, and are asked about eight at a time.
#[derive(Default)]
pub(crate) struct LnGammaSum {
    waiting: [f64; 8],
    n: usize,
    sum: f64,
}

impl LnGammaSum {
    pub(crate) fn push(&mut self, x: f64) {
        self.waiting[self.n % 8] = x;
        self.n += 1;
        if self.n.is_multiple_of(8) {
            self.sum += ln_gammas(self.waiting).iter().sum::<f64>();
        }
    }

    /// The sum, less ln Γ of this number for each in it.
    pub(crate) fn sum_less_each(mut self, x: f64) -> f64 {
        let n = self.n;
        // What is put in to make up eight is taken out again.
        while !self.n.is_multiple_of(8) {
            self.push(x);
        }
        match n {
            0 => 0.0,
            _ => self.sum - self.n as f64 * ln_gammas([x])[0],
        }
    }
}

struct LnGammas<const N: usize>([f64; N]);

impl<const N: usize> pulp::NullaryFnOnce for LnGammas<N> {
    type Output = [f64; N];

    #[inline(always)]
    fn call(self) -> [f64; N] {
        let mut out = self.0;
        for x in &mut out {
            *x = ln_gamma(*x);
        }
        out
    }
}

/// Stirling's series from 8 on, below by Γ(x) = Γ(x + 8) / (x (x+1) ... (x+7)).
#[inline(always)]
fn ln_gamma(x: f64) -> f64 {
    const HALF_LN_2PI: f64 = 0.918_938_533_204_672_7;
    let small = x < 8.0;
    let mut product = x;
    for i in 1..8 {
        product *= x + f64::from(i);
    }
    let product = if small { product } else { 1.0 };
    let y = if small { x + 8.0 } else { x };
    let r = 1.0 / y;
    let r2 = r * r;
    // B_2k / (2k (2k - 1)).
    let mut series = -3_617.0 / 122_400.0;
    series = series * r2 + 1.0 / 156.0;
    series = series * r2 - 691.0 / 360_360.0;
    series = series * r2 + 1.0 / 1_188.0;
    series = series * r2 - 1.0 / 1_680.0;
    series = series * r2 + 1.0 / 1_260.0;
    series = series * r2 - 1.0 / 360.0;
    series = series * r2 + 1.0 / 12.0;
    (y - 0.5) * ln_positive(y) - y + HALF_LN_2PI + series * r - ln_positive(product)
}

/// ln x for a positive normal number, within 1 ulp or so; without branches.
#[inline(always)]
pub(crate) fn ln_positive(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const ONE: u64 = 1.0_f64.to_bits();
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // x = 2^n (1 + f) with 1 + f between the roots of 1/2 and 2; n + 1023 is a whole number below 2^52.
    let power = x.to_bits().wrapping_add(ONE - SQRT_HALF) >> 52;
    let n = f64::from_bits(0x4330_0000_0000_0000 | power) - (4_503_599_627_370_496.0 + 1023.0);
    let f = f64::from_bits(x.to_bits().wrapping_sub(power << 52).wrapping_add(ONE)) - 1.0;
    // ln(1 + f) = 2 atanh(s) with s = f / (2 + f), |s| < 0.172: Taylor's series to s^21.
    let s = f / (2.0 + f);
    let s2 = s * s;
    let mut p = 1.0 / 21.0;
    p = p * s2 + 1.0 / 19.0;
    p = p * s2 + 1.0 / 17.0;
    p = p * s2 + 1.0 / 15.0;
    p = p * s2 + 1.0 / 13.0;
    p = p * s2 + 1.0 / 11.0;
    p = p * s2 + 1.0 / 9.0;
    p = p * s2 + 1.0 / 7.0;
    p = p * s2 + 1.0 / 5.0;
    p = p * s2 + 1.0 / 3.0;
    let atanh_rest = s * s2 * p;
    n * LN_2_HIGH + (2.0 * s + (2.0 * atanh_rest + n * LN_2_LOW))
}

/// Rows are counted in so many tables ...
const TABLES: usize = 4;
/// ... when there are more than this for each place.
const ROWS_OF_A_PLACE: usize = 16;

/// `counts[r * n_labels + k]`: rows with top label r and lower label k.
pub(crate) fn cross_counts(
    top: &[u32],
    labels: &[u32],
    n_top: usize,
    n_labels: usize,
) -> Vec<usize> {
    let size = n_top * n_labels;
    let mut counts = vec![0; size];
    let place = |r: u32, k: u32| r as usize * n_labels + k as usize;
    let (mut top_rest, mut rest) = (top, labels);
    if labels.len() > ROWS_OF_A_PLACE * size {
        // Four tables, so that rows of one kind need not wait for each other.
        let mut tables = vec![0_u32; TABLES * size];
        let (tops, four);
        ((tops, top_rest), (four, rest)) =
            (top.as_chunks::<TABLES>(), labels.as_chunks::<TABLES>());
        for (top, labels) in tops.iter().zip(four) {
            for lane in 0..TABLES {
                tables[lane * size + place(top[lane], labels[lane])] += 1;
            }
        }
        let add = |(at, n): (usize, &u32)| counts[at % size] += *n as usize;
        tables.iter().enumerate().for_each(add);
    }
    for (&r, &k) in top_rest.iter().zip(rest) {
        counts[place(r, k)] += 1;
    }
    counts
}

/// Mean and standard deviation (divided by the number of values), within the range of f64.
pub(crate) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean: f64 = values.clone().map(|x| x / n).sum();
    let largest = values.clone().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    if largest == 0.0 {
        return (mean, 0.0);
    }
    let squares: f64 = values.map(|x| ((x - mean) / largest).powi(2)).sum();
    (mean, largest * (squares / n).sqrt())
}

/// The same, with a scale that is not 0 where all values are equal.
pub(crate) fn centre_and_scale(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    match moments(values) {
        (0.0, 0.0) => (0.0, 1.0),
        (mean, 0.0) => (mean, mean.abs()),
        spread => spread,
    }
}

/// Mutual information of a table of probabilities with `n` columns; the table is normalised.
pub(crate) fn mutual_information(joint: &[f64], n: usize) -> f64 {
    let total: f64 = joint.iter().sum();
    let mut columns = vec![0.0; n];
    for row in joint.chunks_exact(n) {
        columns.iter_mut().zip(row).for_each(|(sum, p)| *sum += p);
    }
    let mut information = 0.0;
    for row in joint.chunks_exact(n) {
        let of_row: f64 = row.iter().sum();
        for (&p, of_column) in row.iter().zip(&columns) {
            // Less than that adds nothing, and its column may be too small to divide by.
            if p > 1e-200 * total {
                information += p * (p / of_row * (total / of_column)).ln();
            }
        }
    }
    (information / total).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_two_ulp() {
        for i in 0..200_000 {
            let x = -f64::from(i) * 0.0034;
            let (ours, theirs) = (exp_below_zero(x), x.exp());
            assert!(
                (ours - theirs).abs() <= 2.0 * f64::EPSILON * theirs,
                "{x}: {ours} {theirs}"
            );
        }
        assert_eq!(exp_below_zero(0.0), 1.0);
        assert_eq!(exp_below_zero(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp_below_zero(-1e300), 0.0);
    }

    #[test]
    fn ln_gamma_is_right_in_absolute_terms() {
        let mut x = 1e-300;
        while x < 1e10 {
            let (ours, theirs) = (ln_gammas([x])[0], npb_priors::special::ln_gamma(x));
            let allowed = (4.0 * f64::EPSILON * theirs.abs()).max(2e-14);
            assert!((ours - theirs).abs() <= allowed, "{x}: {ours} {theirs}");
            x *= if x < 1e-3 { 7.3 } else { 1.0007 };
        }
    }

    #[test]
    fn products_do_not_underflow() {
        let mut product = Product::default();
        (0..1000).for_each(|_| product.times(1e-150));
        product.times_ln(1.5);
        product.times(2.0);
        let expected = 1000.0 * 1e-150_f64.ln() + 1.5 + 2f64.ln();
        assert!((product.ln() / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rows_are_scaled_one_by_one() {
        let inf = f64::NEG_INFINITY;
        let mut rows = [-1000.0, -1001.0, 5.0, inf, inf, inf];
        assert_eq!(exp_rows(&mut rows[..4], 2), -995.0);
        assert_eq!(exp_rows(&mut rows[4..], 2), inf);
        assert_eq!(rows[0], 1.0);
        assert!((rows[1] - (-1f64).exp()).abs() < 1e-15);
        assert_eq!(rows[2..], [1.0, 0.0, 0.0, 0.0]);
    }
}
