//! Births and deaths of components, and their scales, with the factors of a whole side integrated out (`docs/bsvd.md#births`).

use npb_infer::parallel;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::regression::reduced_len;

/// Rows that are summed in one go.
const ROWS: usize = 1024;

/// Width of the slice sampler's first interval, of the logarithm of a scale.
const STEP: f64 = 1.0;

/// A slice has an end, whatever the numbers.
const STEPS: usize = 1000;

/// What the entries of a row say of its factor of one component, all its other coefficients integrated out: with scale s the likelihood of the factor u is
/// `exp(s b u - s^2 a u^2 / 2)`, and a priori `u ~ N(m, 1/g)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    a: f64,
    b: f64,
    g: f64,
    m: f64,
}

impl Told {
    /// ln likelihood with scale s less that without the component, the factor integrated out.
    fn ln_gain(&self, s: f64) -> f64 {
        let precision = self.g + s * s * self.a;
        let linear = self.g * self.m + s * self.b;
        0.5 * (linear * linear / precision - self.g * self.m * self.m - (precision / self.g).ln())
    }
}

/// Some components, those that are on and candidates, and what there is to know of their scales given the factors of the other side.
pub(crate) struct Board<'a> {
    /// What is left of each row's regression, [`reduced_len`] numbers each.
    pub(crate) reduced: &'a [f64],
    /// Prior means of the factors, one for each row and component.
    pub(crate) means: &'a [f64],
    /// Prior precision of the factors of each row.
    pub(crate) weights: &'a [f64],
    /// Scales; 0 for those that are off.
    pub(crate) scales: &'a mut [f64],
    /// Candidates, drawn from their prior: one for each turn.
    pub(crate) candidates: std::ops::Range<usize>,
    /// Components whose scales are drawn; chosen without looking at scales.
    pub(crate) drawn: &'a [usize],
    /// Smallest scale among components that are on and not here.
    pub(crate) least_elsewhere: f64,
    /// Components that are on, here and elsewhere.
    pub(crate) rank: usize,
    /// K.
    pub(crate) most: usize,
    pub(crate) scale_precision: f64,
    pub(crate) ln_prior_odds: f64,
}

impl Board<'_> {
    /// A turn of birth or death for each candidate, then scales.
    pub(crate) fn play<R: Rng + ?Sized>(&mut self, rng: &mut R) {
        for candidate in self.candidates.clone() {
            if rng.random() {
                self.birth(candidate, rng);
            } else {
                self.death(rng);
            }
        }
        for &k in self.drawn {
            self.draw_scale(k, rng);
        }
    }

    /// Switches a candidate on, with a scale below all others.
    fn birth<R: Rng + ?Sized>(&mut self, candidate: usize, rng: &mut R) {
        let told = self.told(candidate);
        let law = Proposal::new(&told, self.scale_precision);
        let scale = law.sample(rng);
        let u: f64 = rng.random();
        if self.rank < self.most && scale < self.least() {
            let inactive = (self.most - self.rank) as f64;
            if u.ln() < self.ln_ratio(&told, &law, scale, inactive) {
                self.scales[candidate] = scale;
                self.rank += 1;
            }
        }
    }

    /// Switches off the component of the smallest scale.
    fn death<R: Rng + ?Sized>(&mut self, rng: &mut R) {
        let on = (0..self.scales.len()).filter(|&k| self.scales[k] > 0.0);
        let smallest = on.min_by(|&a, &b| self.scales[a].total_cmp(&self.scales[b]));
        let u: f64 = rng.random();
        let Some(k) = smallest.filter(|&k| self.scales[k] <= self.least_elsewhere) else {
            return;
        };
        let told = self.told(k);
        let law = Proposal::new(&told, self.scale_precision);
        let inactive = (self.most - self.rank + 1) as f64;
        if u.ln() < -self.ln_ratio(&told, &law, self.scales[k], inactive) {
            self.scales[k] = 0.0;
            self.rank -= 1;
        }
    }

    /// ln of the acceptance ratio of a birth: `inactive` components could have been the one, of which the smallest is the one that dies.
    fn ln_ratio(&self, told: &[Told], law: &Proposal, scale: f64, inactive: f64) -> f64 {
        let prior = ln_half_normal(scale, self.scale_precision);
        self.ln_prior_odds + inactive.ln() + prior + ln_gain(told, scale) - law.ln_density(scale)
    }

    /// Draws a scale given all others, by a slice of its logarithm (Neal 2003).
    fn draw_scale<R: Rng + ?Sized>(&mut self, k: usize, rng: &mut R) {
        if self.scales[k] == 0.0 {
            return;
        }
        let told = self.told(k);
        let ln_density = |t: f64| {
            let s = t.exp();
            ln_half_normal(s, self.scale_precision) + t + ln_gain(&told, s)
        };
        let now = self.scales[k].ln();
        let level = ln_density(now) + rng.random::<f64>().ln();
        let share: f64 = rng.random();
        let (mut low, mut high) = (now - share * STEP, now + (1.0 - share) * STEP);
        for _ in 0..STEPS {
            if ln_density(low) <= level {
                break;
            }
            low -= STEP;
        }
        for _ in 0..STEPS {
            if ln_density(high) <= level {
                break;
            }
            high += STEP;
        }
        for _ in 0..STEPS {
            let t = low + (high - low) * rng.random::<f64>();
            if ln_density(t) > level {
                self.scales[k] = t.exp().max(f64::MIN_POSITIVE);
                return;
            }
            if t < now { low = t } else { high = t }
        }
    }

    /// The smallest scale of all components that are on.
    fn least(&self) -> f64 {
        let on = self.scales.iter().filter(|s| **s > 0.0);
        on.fold(self.least_elsewhere, |least, &s| least.min(s))
    }

    /// What the rows say of component k, given the scales of the others.
    pub(crate) fn told(&self, k: usize) -> Vec<Told> {
        let width = self.scales.len();
        let len = reduced_len(width);
        let mut order: Vec<usize> = (0..width)
            .filter(|&l| l != k && self.scales[l] > 0.0)
            .collect();
        order.push(k);
        let scale = |l: usize| if l == k { 1.0 } else { self.scales[l] };
        let of_row = |(own, (means, &g)): (&[f64], (&[f64], &f64)), factor: &mut Vec<f64>| {
            let n = order.len();
            factor.clear();
            factor.resize((n + 1) * n, 0.0);
            // A Cholesky factor, the linear term as its last row; that of k without its prior.
            for a in 0..=n {
                for b in 0..=a.min(n - 1) {
                    let column = order[b];
                    let mut value = if a == n {
                        let prior = if column == k { 0.0 } else { g * means[column] };
                        scale(column) * own[width * width + column] + prior
                    } else {
                        let row = order[a];
                        let prior = if a == b && row != k { g } else { 0.0 };
                        scale(row) * scale(column) * own[row * width + column] + prior
                    };
                    for c in 0..b {
                        value -= factor[a * n + c] * factor[b * n + c];
                    }
                    factor[a * n + b] = if b + 1 == n {
                        value
                    } else if a == b {
                        value.sqrt()
                    } else {
                        value / factor[b * n + b]
                    };
                }
            }
            Told {
                a: factor[(n - 1) * n + n - 1].max(0.0),
                b: factor[n * n + n - 1],
                g,
                m: means[k],
            }
        };
        let rows = self.reduced.chunks(len * ROWS);
        let priors = self
            .means
            .chunks(width * ROWS)
            .zip(self.weights.chunks(ROWS));
        let told = parallel::map(rows.zip(priors), |(reduced, (means, weights))| {
            let priors = means.chunks_exact(width).zip(weights);
            let rows = reduced.chunks_exact(len).zip(priors);
            let mut factor = Vec::new();
            rows.map(|row| of_row(row, &mut factor)).collect::<Vec<_>>()
        });
        told.into_iter().flatten().collect()
    }
}

/// ln likelihood with scale s less that without the component; summed in blocks of fixed size and order.
pub(crate) fn ln_gain(told: &[Told], s: f64) -> f64 {
    let block = |rows: &[Told]| rows.iter().map(|row| row.ln_gain(s)).sum::<f64>();
    let sums = parallel::map(told.chunks(ROWS), block);
    sums.into_iter().sum()
}

fn ln_half_normal(s: f64, precision: f64) -> f64 {
    0.5 * (2.0 * precision / std::f64::consts::PI).ln() - 0.5 * precision * s * s
}

/// Scales of newborn components: half-normal, of the prior or so small that a direction of no meaning is tolerated, with equal chances.
struct Proposal {
    precisions: [f64; 2],
}

impl Proposal {
    fn new(told: &[Told], prior: f64) -> Self {
        // Without any signal the ln likelihood falls by a quarter of the sum of (s^2 a / g)^2.
        let block = |rows: &[Told]| rows.iter().map(|row| (row.a / row.g).powi(2)).sum::<f64>();
        let sums = parallel::map(told.chunks(ROWS), block);
        let small = (0.25 * sums.into_iter().sum::<f64>()).sqrt();
        Self {
            precisions: [prior, small.max(prior)],
        }
    }

    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let precision = self.precisions[usize::from(rng.random::<bool>())];
        let z: f64 = rng.sample(StandardNormal);
        (z.abs() / precision.sqrt()).max(f64::MIN_POSITIVE)
    }

    fn ln_density(&self, s: f64) -> f64 {
        let [a, b] = self.precisions.map(|p| ln_half_normal(s, p));
        let most = a.max(b);
        most + (0.5 * ((a - most).exp() + (b - most).exp())).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_infer::stream;

    /// One component that may be on or off, three rows: how often it is on and how large its scale then is are integrals over the scale.
    #[test]
    fn births_and_scales_have_their_law() {
        let reduced = [2.0, 1.0, 0.5, -0.8, 3.0, 2.5];
        let (means, weights) = ([0.3, 0.1, -0.2], [1.0, 0.5, 2.0]);
        let (scale_precision, ln_prior_odds) = (1.5, -0.4);
        let mut scales = [0.0];
        let mut board = Board {
            reduced: &reduced,
            means: &means,
            weights: &weights,
            scales: &mut scales,
            candidates: 0..1,
            drawn: &[0],
            least_elsewhere: f64::INFINITY,
            rank: 0,
            most: 1,
            scale_precision,
            ln_prior_odds,
        };
        let told = board.told(0);
        // Trapezoids over the scale.
        let step = 1e-3;
        let (mut mass, mut first) = (0.0, 0.0);
        for n in 0..8000 {
            let s = step * (f64::from(n) + 0.5);
            let density = (ln_half_normal(s, scale_precision) + ln_gain(&told, s)).exp() * step;
            mass += density;
            first += s * density;
        }
        let odds = mass * ln_prior_odds.exp();
        let (on, mean) = (odds / (1.0 + odds), first / mass);
        let rng = &mut stream(3, [0; 4]);
        let turns = 60_000;
        let (mut times, mut sum) = (0.0, 0.0);
        for _ in 0..turns {
            board.play(rng);
            if board.scales[0] > 0.0 {
                times += 1.0;
                sum += board.scales[0];
            }
        }
        // Draws hang together: some five of them count for one.
        let tolerance = 4.5 * (5.0 * on * (1.0 - on) / f64::from(turns)).sqrt();
        let found = times / f64::from(turns);
        assert!((found - on).abs() < tolerance, "{found}, not {on}");
        assert!(
            (sum / times - mean).abs() < 0.03 * mean,
            "{}, not {mean}",
            sum / times
        );
    }
}
