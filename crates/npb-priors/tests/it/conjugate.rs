//! The three identities of every conjugate pair, and broken pairs that must fail them.

use crate::support::*;
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, MatRef, mat};
use npb_priors::ParameterError;
use npb_priors::dist::*;
use npb_priors::special::ln_gamma;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::borrow::Borrow;

type Datum<P> = <<P as Conjugate>::Stats as Statistics>::Datum;

/// A pair under test: how to draw the parameter, its log-density, and the log-likelihood of one observation.
struct Pair<P: Conjugate, T, D> {
    prior: P,
    nothing: P::Stats,
    data: Vec<D>,
    draw: fn(&P, &mut Xoshiro256PlusPlus) -> T,
    ln_density: fn(&P, &T) -> f64,
    ln_likelihood: fn(&P, &T, &Datum<P>) -> f64,
}

/// How far a pair is from each identity.
#[derive(Debug)]
struct Violations {
    /// Largest |ln p(x | data) - ln p(data, x) + ln p(data)|.
    predictive: f64,
    /// Largest |ln p(theta) + ln p(data | theta) - ln p(theta | data) - ln p(data)|.
    bayes: f64,
    /// Standard errors between 1 and the prior mean of p(data | theta) / p(data).
    evidence: f64,
}

impl Violations {
    fn none(&self) -> bool {
        self.predictive < 1e-10 && self.bayes < 1e-10 && self.evidence < 4.5
    }
}

impl<P, T, D> Pair<P, T, D>
where
    P: Conjugate,
    P::Stats: Clone,
    D: Borrow<Datum<P>>,
{
    fn stats(&self, n: usize) -> P::Stats {
        let mut stats = self.nothing.clone();
        self.data[..n].iter().for_each(|x| stats.add(x.borrow()));
        stats
    }

    fn violations(&self, seed: u64) -> Violations {
        Violations {
            predictive: self.predictive(),
            bayes: self.bayes(seed),
            evidence: self.evidence(seed),
        }
    }

    fn predictive(&self) -> f64 {
        let error = |n: usize| {
            let before = self.stats(n);
            let direct = self
                .prior
                .posterior(&before)
                .unwrap()
                .ln_predictive(self.data[n].borrow());
            let ratio = self.prior.ln_evidence(&self.stats(n + 1)).unwrap()
                - self.prior.ln_evidence(&before).unwrap();
            (direct - ratio).abs()
        };
        (0..self.data.len()).map(error).fold(0.0, f64::max)
    }

    fn ln_likelihood_of_all(&self, theta: &T) -> f64 {
        self.data
            .iter()
            .map(|x| (self.ln_likelihood)(&self.prior, theta, x.borrow()))
            .sum()
    }

    fn bayes(&self, seed: u64) -> f64 {
        let mut rng = rng(seed);
        let stats = self.stats(self.data.len());
        let posterior = self.prior.posterior(&stats).unwrap();
        let ln_evidence = self.prior.ln_evidence(&stats).unwrap();
        let error = |_| {
            let theta = (self.draw)(&self.prior, &mut rng);
            let joint = (self.ln_density)(&self.prior, &theta) + self.ln_likelihood_of_all(&theta);
            let other = (self.ln_density)(&posterior, &theta) + ln_evidence;
            (joint - other).abs() / joint.abs().max(1.0)
        };
        (0..50).map(error).fold(0.0, f64::max)
    }

    fn evidence(&self, seed: u64) -> f64 {
        let mut rng = rng(seed);
        let ln_evidence = self
            .prior
            .ln_evidence(&self.stats(self.data.len()))
            .unwrap();
        let ratios: Vec<f64> = (0..40_000)
            .map(|_| {
                (self.ln_likelihood_of_all(&(self.draw)(&self.prior, &mut rng)) - ln_evidence).exp()
            })
            .collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean - 1.0).abs() / (variance / n).sqrt()
    }

    /// The identities hold, and taking observations out again undoes adding them, in any order.
    #[track_caller]
    fn assert_right(&self, seed: u64) {
        let violations = self.violations(seed);
        assert!(violations.none(), "{violations:?}");
        let n = self.data.len();
        let mut stats = self.stats(n);
        self.data[1..].iter().for_each(|x| stats.remove(x.borrow()));
        let (got, want) = (
            self.prior.ln_evidence(&stats).unwrap(),
            self.prior.ln_evidence(&self.stats(1)).unwrap(),
        );
        assert!((got - want).abs() < 1e-11, "{got} {want}");
        stats.remove(self.data[0].borrow());
        assert!(
            self.prior.ln_evidence(&stats).unwrap().abs() < 1e-13,
            "the evidence of no data is 1"
        );
    }
}

const REALS: [f64; 5] = [0.3, 1.9, -0.4, 1.1, 0.8];

fn ln_normal(x: f64, mean: f64, precision: f64) -> f64 {
    Normal::new(mean, precision.recip()).unwrap().ln_density(x)
}

#[test]
fn beta_bernoulli() {
    Pair {
        prior: Beta::new(0.7, 2.3).unwrap(),
        nothing: Trials::default(),
        data: vec![true, false, false, true, false],
        draw: |prior, rng| prior.sample(rng),
        ln_density: |law, p| law.ln_density(*p),
        ln_likelihood: |_, p, x| if *x { p.ln() } else { (-p).ln_1p() },
    }
    .assert_right(1);
}

#[test]
fn dirichlet_categorical() {
    Pair {
        prior: Dirichlet::new(vec![0.5, 1.0, 2.5]).unwrap(),
        nothing: Categories::new(3),
        data: vec![0usize, 2, 2, 1, 2, 0],
        draw: |prior, rng| {
            let mut ln_x = vec![0.0; 3];
            prior.sample_ln(&mut ln_x, rng);
            ln_x
        },
        ln_density: |law, ln_x| law.ln_density(ln_x),
        ln_likelihood: |_, ln_x, k| ln_x[*k],
    }
    .assert_right(2);
}

#[test]
fn gamma_poisson() {
    Pair {
        prior: PoissonGamma::new(Gamma::new(2.2, 0.9).unwrap()),
        nothing: Counts::default(),
        data: vec![3u64, 0, 5, 2],
        draw: |prior, rng| prior.rate().sample(rng),
        ln_density: |law, lambda| law.rate().ln_density(*lambda),
        ln_likelihood: |_, lambda, x| *x as f64 * lambda.ln() - lambda - ln_gamma(*x as f64 + 1.0),
    }
    .assert_right(3);
}

#[test]
fn normal_with_known_variance() {
    Pair {
        prior: NormalMean::new(Normal::new(-0.5, 2.0).unwrap(), 0.8).unwrap(),
        nothing: Reals::default(),
        data: REALS.to_vec(),
        draw: |prior, rng| prior.law().sample(rng),
        ln_density: |prior, mu| prior.law().ln_density(*mu),
        ln_likelihood: |prior, mu, x| ln_normal(*x, *mu, prior.variance().recip()),
    }
    .assert_right(4);
}

#[test]
fn normal_with_known_mean() {
    Pair {
        prior: NormalPrecision::new(Gamma::new(1.4, 0.6).unwrap(), 0.4).unwrap(),
        nothing: Reals::default(),
        data: REALS.to_vec(),
        draw: |prior, rng| prior.law().sample(rng),
        ln_density: |prior, lambda| prior.law().ln_density(*lambda),
        ln_likelihood: |prior, lambda, x| ln_normal(*x, prior.mean(), *lambda),
    }
    .assert_right(5);
}

#[test]
fn gamma_exponential() {
    Pair {
        prior: ExponentialGamma::new(Gamma::new(1.4, 0.6).unwrap()),
        nothing: Reals::default(),
        data: vec![0.3, 1.9, 0.01, 4.2],
        draw: |prior, rng| prior.law().sample(rng),
        ln_density: |prior, lambda| prior.law().ln_density(*lambda),
        ln_likelihood: |_, lambda, x| lambda.ln() - lambda * x,
    }
    .assert_right(6);
}

fn normal_gamma_pair<P: Conjugate<Stats = Reals>>(
    prior: P,
    draw: fn(&P, &mut Xoshiro256PlusPlus) -> (f64, f64),
    ln_density: fn(&P, &(f64, f64)) -> f64,
) -> Pair<P, (f64, f64), f64> {
    Pair {
        prior,
        nothing: Reals::default(),
        data: REALS.to_vec(),
        draw,
        ln_density,
        ln_likelihood: |_, (mu, lambda), x| ln_normal(*x, *mu, *lambda),
    }
}

#[test]
fn normal_gamma() {
    let prior = NormalGamma::new(-0.2, 0.7, 2.1, 1.3).unwrap();
    normal_gamma_pair(prior, |p, rng| p.sample(rng), |p, t| p.ln_density(t.0, t.1)).assert_right(7);
}

/// Normal-gamma pairs with a mistake each.
struct Broken<const FAULT: u8>(NormalGamma);

const HALF_COUNT_FORGOTTEN: u8 = 0;
const SHRINKAGE_FORGOTTEN: u8 = 1;
const EVIDENCE_WITHOUT_STRENGTH: u8 = 2;

impl<const FAULT: u8> Conjugate for Broken<FAULT> {
    type Stats = Reals;

    fn posterior(&self, data: &Reals) -> Result<Self, ParameterError> {
        let right = self.0.posterior(data)?;
        let (mut shape, mut rate) = (right.precision().shape(), right.precision().rate());
        match FAULT {
            HALF_COUNT_FORGOTTEN => shape += 0.5 * data.n() as f64,
            SHRINKAGE_FORGOTTEN => {
                rate = self.0.precision().rate() + 0.5 * data.centred_square_sum()
            }
            _ => {}
        }
        Ok(Self(NormalGamma::new(
            right.mean(),
            right.strength(),
            shape,
            rate,
        )?))
    }

    fn ln_evidence(&self, data: &Reals) -> Result<f64, ParameterError> {
        let forgotten = if FAULT == EVIDENCE_WITHOUT_STRENGTH {
            0.5 * (data.n() as f64 / self.0.strength()).ln_1p()
        } else {
            0.0
        };
        Ok(self.0.ln_evidence(data)? + forgotten)
    }

    fn ln_predictive(&self, x: &f64) -> f64 {
        self.0.ln_predictive(x)
    }
}

fn violations_of<const FAULT: u8>() -> Violations {
    let prior = Broken::<FAULT>(NormalGamma::new(-0.2, 0.7, 2.1, 1.3).unwrap());
    normal_gamma_pair(
        prior,
        |p, rng| p.0.sample(rng),
        |p, t| p.0.ln_density(t.0, t.1),
    )
    .violations(7)
}

#[test]
fn broken_pairs_are_caught() {
    assert!(violations_of::<99>().none());
    let half = violations_of::<HALF_COUNT_FORGOTTEN>();
    assert!(half.predictive > 1e-3 && half.bayes > 1e-3, "{half:?}");
    let shrinkage = violations_of::<SHRINKAGE_FORGOTTEN>();
    assert!(
        shrinkage.predictive > 1e-3 && shrinkage.bayes > 1e-3,
        "{shrinkage:?}"
    );
    let evidence = violations_of::<EVIDENCE_WITHOUT_STRENGTH>();
    assert!(
        evidence.predictive > 1e-3 && evidence.bayes > 1e-3 && evidence.evidence > 4.5,
        "{evidence:?}"
    );
}

fn ln_multivariate_normal(x: &[f64], mean: &[f64], precision: MatRef<'_, f64>) -> f64 {
    let factor = Cholesky::new(precision).unwrap();
    let mut d: Vec<f64> = x.iter().zip(mean).map(|(x, m)| x - m).collect();
    factor.mul_lt(&mut d);
    let distance: f64 = d.iter().map(|v| v * v).sum();
    0.5 * (factor.ln_det() - distance) - 0.5 * x.len() as f64 * std::f64::consts::TAU.ln()
}

fn normal_wishart_prior() -> NormalWishart {
    let scale = mat![[0.8, 0.2], [0.2, 0.5]];
    NormalWishart::new(
        vec![0.1, 0.6],
        1.5,
        Wishart::new(scale.as_ref(), 4.6).unwrap(),
    )
    .unwrap()
}

#[test]
fn normal_wishart() {
    let pair: Pair<NormalWishart, (Vec<f64>, Mat<f64>), Vec<f64>> = Pair {
        prior: normal_wishart_prior(),
        nothing: Scatter::new(2),
        data: vec![vec![0.4, 1.0], vec![-0.7, 0.2], vec![1.1, 2.0]],
        draw: |prior, rng| prior.sample(rng),
        ln_density: |law, (mu, lambda)| law.ln_density(mu, lambda.as_ref()),
        ln_likelihood: |_, (mu, lambda), x| ln_multivariate_normal(x, mu, lambda.as_ref()),
    };
    pair.assert_right(8);
}

#[test]
fn normal_wishart_predictive_is_a_student_t() {
    let prior = normal_wishart_prior();
    let predictive = prior.predictive().unwrap();
    assert_eq!(predictive.df(), 4.6 - 2.0 + 1.0);
    for x in [[0.0, 0.0], [3.0, -1.0], [1e4, 1e3]] {
        assert!((predictive.ln_density(&x) - prior.ln_predictive(&x)).abs() < 1e-11);
    }
}

#[test]
fn statistics_survive_a_large_offset() {
    // Sums of squares would lose all digits of a spread of 1 around 1e9.
    let mut shifted = Reals::default();
    REALS.iter().for_each(|x| shifted.add(&(x + 1e9)));
    let mut plain = Reals::default();
    REALS.iter().for_each(|x| plain.add(x));
    assert!((shifted.centred_square_sum() - plain.centred_square_sum()).abs() < 1e-5);
    let mut scatter = Scatter::new(2);
    REALS.iter().for_each(|x| scatter.add(&[x + 1e9, 2.0 * x]));
    assert!((scatter.centred()[(1, 0)] - 2.0 * plain.centred_square_sum()).abs() < 1e-5);
}

#[test]
fn data_that_overflow_are_an_error_not_a_panic() {
    let mut data = Reals::default();
    data.add(&1e300);
    data.add(&-1e300);
    let error = NormalGamma::new(0.0, 1.0, 1.0, 1.0)
        .unwrap()
        .posterior(&data)
        .unwrap_err();
    assert!(error.to_string().contains("rate"), "{error}");
    let mut scatter = Scatter::new(2);
    scatter.add(&[1e300, 0.0]);
    scatter.add(&[-1e300, 0.0]);
    assert!(normal_wishart_prior().ln_evidence(&scatter).is_err());
}

#[test]
fn merged_statistics_are_those_of_all_numbers() {
    let numbers = [1e8 + 1.0, 1e8 + 3.0, 1e8 - 2.0, 1e8 + 0.5, 1e8 + 9.0];
    let of = |numbers: &[f64]| {
        let mut stats = Reals::default();
        numbers.iter().for_each(|x| stats.add(x));
        stats
    };
    let all = of(&numbers);
    for cut in 0..=numbers.len() {
        let mut merged = of(&numbers[..cut]);
        merged.merge(&of(&numbers[cut..]));
        assert_eq!(merged.n(), all.n());
        assert!((merged.mean() - all.mean()).abs() < 1e-7);
        assert!((merged.centred_square_sum() - all.centred_square_sum()).abs() < 1e-6);
    }
}
