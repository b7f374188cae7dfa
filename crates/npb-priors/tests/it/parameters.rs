//! Parameters no distribution can have are refused by name; extreme ones give finite results.

use npb_linalg::faer::{Mat, mat};
use npb_priors::ParameterError;
use npb_priors::dist::*;

/// The message of a refusal.
fn refusal<T>(result: Result<T, ParameterError>) -> String {
    result.err().expect("this must be refused").to_string()
}

#[test]
fn bad_parameters_are_named() {
    let nan = f64::NAN;
    let inf = f64::INFINITY;
    let identity = || Wishart::new(Mat::<f64>::identity(2, 2).as_ref(), 3.0).unwrap();
    let indefinite = mat![[1.0, 2.0], [2.0, 1.0]];
    let one = Gamma::new(1.0, 1.0).unwrap();
    let cases = [
        (refusal(Normal::new(nan, 1.0)), "normal: mean = NaN"),
        (refusal(Normal::new(0.0, 0.0)), "normal: variance = 0"),
        (refusal(Gamma::new(nan, 1.0)), "gamma: shape = NaN"),
        (refusal(Gamma::new(1.0, -2.0)), "gamma: rate = -2"),
        (refusal(Gamma::new(inf, 1.0)), "gamma: shape = inf"),
        (refusal(Beta::new(0.0, 1.0)), "beta: a = 0"),
        (refusal(Beta::new(1.0, nan)), "beta: b = NaN"),
        (refusal(Beta::new(1e308, 1e308)), "beta: a + b = inf"),
        (refusal(Bernoulli::new(1.5)), "bernoulli: p = 1.5"),
        (
            refusal(Bernoulli::from_ln_odds(nan)),
            "bernoulli: log-odds = NaN",
        ),
        (
            refusal(Categorical::from_ln_weights(&[0.0, nan])),
            "categorical: log-weight[1] = NaN",
        ),
        (
            refusal(Categorical::from_ln_weights(&[0.0, inf])),
            "categorical: log-weight[1] = inf",
        ),
        (
            refusal(Categorical::from_ln_weights(&[])),
            "categorical: log of the total weight = -inf",
        ),
        (
            refusal(Dirichlet::new(vec![1.0, 0.0])),
            "dirichlet: concentrations[1] = 0",
        ),
        (
            refusal(Dirichlet::new(vec![])),
            "dirichlet: number of concentrations = 0",
        ),
        (
            refusal(NormalGamma::new(0.0, nan, 1.0, 1.0)),
            "normal-gamma: strength = NaN",
        ),
        (
            refusal(NormalGamma::new(0.0, 1.0, 1.0, 0.0)),
            "normal-gamma: rate = 0",
        ),
        (
            refusal(Wishart::new(Mat::<f64>::identity(3, 3).as_ref(), 2.0)),
            "wishart: df = 2",
        ),
        (
            refusal(Wishart::new(Mat::<f64>::zeros(3, 2).as_ref(), 5.0)),
            "wishart: scale (columns) has size 2",
        ),
        (
            refusal(Wishart::new(indefinite.as_ref(), 5.0)),
            "wishart: scale must be positive definite",
        ),
        (
            refusal(Wishart::from_inverse_scale(indefinite.as_ref(), 5.0)),
            "wishart: inverse scale must be positive",
        ),
        (
            refusal(NormalWishart::new(vec![0.0], 1.0, identity())),
            "normal-Wishart: mean has size 1",
        ),
        (
            refusal(NormalWishart::new(vec![0.0, nan], 1.0, identity())),
            "normal-Wishart: mean[1] = NaN",
        ),
        (
            refusal(NormalWishart::new(vec![0.0, 1.0], 0.0, identity())),
            "normal-Wishart: strength = 0",
        ),
        (
            refusal(StudentT::new(vec![0.0, 0.0], indefinite.as_ref(), 3.0)),
            "student-t: scale must be positive definite",
        ),
        (
            refusal(StudentT::new(vec![0.0], indefinite.as_ref(), 3.0)),
            "student-t: scale (rows) has size 2",
        ),
        (
            refusal(StudentT::new(vec![inf, 0.0], indefinite.as_ref(), 3.0)),
            "student-t: location[0] = inf",
        ),
        (
            refusal(StudentT::new(vec![0.0, 0.0], indefinite.as_ref(), nan)),
            "student-t: df = NaN",
        ),
        (
            refusal(TruncatedNormal::new(nan, 1.0, 0.0, 1.0)),
            "truncated normal: mean = NaN",
        ),
        (
            refusal(TruncatedNormal::new(0.0, 0.0, 0.0, 1.0)),
            "truncated normal: sd = 0",
        ),
        (
            refusal(TruncatedNormal::new(0.0, 1.0, nan, 1.0)),
            "truncated normal: lower = NaN",
        ),
        (
            refusal(TruncatedNormal::new(0.0, 1.0, 0.0, nan)),
            "truncated normal: upper = NaN",
        ),
        (
            refusal(TruncatedNormal::new(0.0, 1.0, 1.0, 1.0)),
            "truncated normal: upper = 1",
        ),
        (
            refusal(TruncatedNormal::new(0.0, 1e-300, 1e300, inf)),
            "truncated normal: mean = 0",
        ),
        (
            refusal(InverseGaussian::new(0.0, 1.0)),
            "inverse gaussian: mean = 0",
        ),
        (
            refusal(InverseGaussian::new(1.0, inf)),
            "inverse gaussian: shape = inf",
        ),
        (
            refusal(NormalMean::new(Normal::new(0.0, 1.0).unwrap(), nan)),
            "normal with known variance: variance = NaN",
        ),
        (
            refusal(NormalPrecision::new(one, nan)),
            "normal with known mean: mean = NaN",
        ),
    ];
    for (message, start) in cases {
        assert!(
            message.starts_with(start),
            "{message:?} should start with {start:?}"
        );
    }
}

#[test]
fn the_pivot_is_the_source_of_the_error() {
    let error = Wishart::new(mat![[1.0, 2.0], [2.0, 1.0]].as_ref(), 5.0).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains('1'), "{source}");
}

#[test]
fn extreme_parameters_give_finite_results() {
    for (a, b) in [
        (1e-300, 1e-300),
        (1e-300, 1e300),
        (1e300, 1e300),
        (1e15, 1e-8),
    ] {
        let beta = Beta::new(a, b).unwrap();
        for value in [
            beta.mean(),
            beta.variance(),
            beta.ln_density(0.5),
            beta.kl(&beta),
        ] {
            assert!(!value.is_nan(), "Beta({a}, {b})");
        }
    }
    for (a, b) in [
        (1e-300, 1e300),
        (1e300, 1e-300),
        (1e-8, 1e-8),
        (1e15, 1e-300),
    ] {
        let gamma = Gamma::new(a, b).unwrap();
        for value in [
            gamma.mean_ln(),
            gamma.entropy(),
            gamma.kl(&gamma),
            gamma.ln_density_at_ln(0.0),
        ] {
            assert!(!value.is_nan(), "Gamma({a}, {b})");
        }
        assert!(gamma.kl(&gamma).abs() < 1e-9 && gamma.mean_ln().is_finite());
    }
    let sizes = [1e-300, 1e-8, 1.0, 1e8, 1e300];
    for a in sizes {
        for b in [1e-8, 1.0, 1e300] {
            for a0 in sizes {
                let gamma = Gamma::new(a, b).unwrap().kl(&Gamma::new(a0, 1.0).unwrap());
                let (beta, beta0) = (Beta::new(a, b).unwrap(), Beta::new(a0, 1.0).unwrap());
                assert!(
                    gamma > -1e-9,
                    "Gamma({a:e}, {b:e}) from ({a0:e}, 1): {gamma}"
                );
                assert!(
                    beta.kl(&beta0) > -1e-9,
                    "Beta({a:e}, {b:e}) from ({a0:e}, 1)"
                );
            }
        }
    }
    let empty = Wishart::new(Mat::<f64>::zeros(0, 0).as_ref(), 0.5).unwrap();
    assert_eq!(
        (empty.mean_ln_det(), empty.ln_normalizer(), empty.entropy()),
        (0.0, 0.0, 0.0)
    );
}

/// What is read back from `value` with one piece of its text replaced.
fn forged<T: serde::Serialize + serde::de::DeserializeOwned>(
    value: &T,
    old: &str,
    new: &str,
) -> Result<T, String> {
    let text = serde_json::to_string(value).unwrap();
    assert!(text.contains(old), "{text}");
    serde_json::from_str(&text.replacen(old, new, 1)).map_err(|e| e.to_string())
}

#[test]
fn stored_distributions_come_back_and_forged_ones_do_not() {
    let gamma = Gamma::new(0.1, 3.0).unwrap();
    assert_eq!(forged(&gamma, "", "").unwrap(), gamma);
    let beta = Beta::new(0.1, 3.0).unwrap();
    assert_eq!(forged(&beta, "", "").unwrap(), beta);
    let normal = Normal::new(0.1, 3.0).unwrap();
    assert_eq!(forged(&normal, "", "").unwrap(), normal);
    let normal_gamma = NormalGamma::new(0.1, 3.0, 7.0, 0.3).unwrap();
    assert_eq!(forged(&normal_gamma, "", "").unwrap(), normal_gamma);
    let dirichlet = Dirichlet::new(vec![0.1, 0.2, 0.7]).unwrap();
    assert_eq!(forged(&dirichlet, "", "").unwrap(), dirichlet);
    let scale = mat![[2.0, 0.1], [0.1, 0.3]];
    let law = Wishart::new(scale.as_ref(), 3.5).unwrap();
    let law = NormalWishart::new(vec![0.1, 0.7], 2.0, law).unwrap();
    let back = forged(&law, "", "").unwrap();
    assert_eq!((back.mean(), back.strength()), (law.mean(), law.strength()));
    let (old, new) = (law.precision(), back.precision());
    assert_eq!((new.scale(), new.df()), (old.scale(), old.df()));
    assert_eq!(new.factor().l(), old.factor().l());

    for (error, expected) in [
        (
            forged(&gamma, "3.0", "-3.0").unwrap_err(),
            "gamma: rate = -3",
        ),
        (forged(&beta, "0.1", "0.0").unwrap_err(), "beta: a = 0"),
        (
            forged(&normal, "3.0", "0.0").unwrap_err(),
            "normal: variance = 0",
        ),
        (
            forged(&normal_gamma, "7.0", "-7.0").unwrap_err(),
            "gamma: shape = -7",
        ),
        (
            forged(&normal_gamma, "3.0", "-3.0").unwrap_err(),
            "normal-gamma: strength = -3",
        ),
        (
            forged(&dirichlet, "0.2", "-0.2").unwrap_err(),
            "dirichlet: concentrations[1] = -0.2",
        ),
        (forged(&law, "3.5", "1.0").unwrap_err(), "wishart: df = 1"),
        (
            forged(&law, "0.1,0.3", "0.1,-0.3").unwrap_err(),
            "wishart: scale must be positive definite",
        ),
        (
            forged(&law, "[0.1,0.7]", "[0.1]").unwrap_err(),
            "normal-Wishart: mean has size 1",
        ),
    ] {
        assert!(
            error.starts_with(expected),
            "{error:?} should start with {expected:?}"
        );
    }
}
