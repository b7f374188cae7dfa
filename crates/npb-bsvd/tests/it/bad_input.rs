//! Bad input: an error that names the entry, or a finite result.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdError, BsvdMove, BsvdSampler, BsvdUnits, Cells, Features, Likelihood,
    SideInformation, fit,
};
use npb_infer::SweepPlan;

fn entry(row: u32, column: u32, value: f64) -> Rating {
    Rating { row, column, value }
}

fn ratings(n_rows: usize, n_cols: usize, entries: &[Rating]) -> Ratings {
    Ratings::new(n_rows, n_cols, entries).unwrap()
}

fn config(likelihood: Likelihood) -> BsvdConfig {
    BsvdConfig {
        likelihood,
        candidates: 4,
        sweeps: SweepPlan {
            burn_in: 5,
            keep: 5,
            thin: 1,
        },
        ..BsvdConfig::default()
    }
}

/// The message of the error that these entries give.
fn refused(data: &Ratings, side: SideInformation, config: &BsvdConfig) -> String {
    fit(data, side, &Cells::default(), config)
        .unwrap_err()
        .to_string()
}

fn none() -> SideInformation {
    SideInformation::default()
}

/// Fits, and checks that every cell has a finite mean.
fn finite(data: &Ratings, config: &BsvdConfig) {
    let places =
        || (0..data.n_rows() as u32).flat_map(|i| (0..data.n_cols() as u32).map(move |j| (i, j)));
    let cells = Cells {
        rows: places().map(|p| p.0).collect(),
        columns: places().map(|p| p.1).collect(),
        values: Vec::new(),
    };
    let fit = fit(data, none(), &cells, config).unwrap();
    assert!(fit.moments.mean.iter().all(|x| x.is_finite()));
}

#[test]
fn entries_out_of_place_or_infinite() {
    let beyond = Ratings::new(2, 2, &[entry(0, 0, 1.0), entry(2, 1, 1.0)]).unwrap_err();
    assert!(beyond.to_string().contains("row 2"), "{beyond}");
    let infinite = Ratings::new(2, 2, &[entry(1, 0, f64::INFINITY)]).unwrap_err();
    assert!(
        infinite.to_string().contains("row 1, column 0"),
        "{infinite}"
    );
}

#[test]
fn nothing_to_explain() {
    let gaussian = config(Likelihood::Gaussian);
    let empty = refused(&ratings(2, 2, &[]), none(), &gaussian);
    assert!(empty.contains("no entry"), "{empty}");
    let equal = ratings(2, 2, &[entry(0, 0, 3.0), entry(1, 1, 3.0)]);
    let message = refused(&equal, none(), &gaussian);
    assert!(message.contains("all 2 entries are 3"), "{message}");
    let one = refused(&ratings(2, 2, &[entry(0, 1, 7.0)]), none(), &gaussian);
    assert!(one.contains("all 1 entries are 7"), "{one}");
    // With units given there is something to say about both.
    let given = BsvdConfig {
        units: BsvdUnits::Given {
            centre: 3.0,
            scale: 1.0,
        },
        ..gaussian
    };
    finite(&equal, &given);
    finite(&ratings(1, 1, &[entry(0, 0, 3.0)]), &given);
}

#[test]
fn full_and_empty_rows_and_extreme_values() {
    let gaussian = config(Likelihood::Gaussian);
    // Row 0 has every entry, row 1 none, and there are more columns than rows.
    let mut full: Vec<Rating> = (0..7).map(|j| entry(0, j, f64::from(j))).collect();
    full.push(entry(2, 3, -2.0));
    finite(&ratings(3, 7, &full), &gaussian);
    for size in [1e-300, 1e300] {
        let scaled: Vec<Rating> = full
            .iter()
            .map(|e| Rating {
                value: e.value / 7.0 * size,
                ..*e
            })
            .collect();
        finite(&ratings(3, 7, &scaled), &gaussian);
    }
}

#[test]
fn levels_and_counts_out_of_range() {
    let ordinal = config(Likelihood::Ordinal { levels: 5 });
    for value in [0.0, 6.0, 2.5] {
        let data = ratings(2, 2, &[entry(0, 0, 3.0), entry(1, 1, value)]);
        let message = refused(&data, none(), &ordinal);
        assert!(
            message.contains(&format!("row 1, column 1: {value}")),
            "{message}"
        );
    }
    let binary = refused(
        &ratings(1, 2, &[entry(0, 1, 2.0)]),
        none(),
        &config(Likelihood::Binary),
    );
    assert!(
        binary.contains("row 0, column 1: 2 is not 0 or 1"),
        "{binary}"
    );

    let binomial = config(Likelihood::Binomial);
    let successes = |h: f64| ratings(2, 2, &[entry(0, 0, 1.0), entry(1, 0, h)]);
    let trials = |n: f64| ratings(2, 2, &[entry(0, 0, 2.0), entry(1, 0, n)]);
    let message = |h: &Ratings, n: &Ratings| {
        BsvdData::binomial(h, n, none(), &binomial)
            .unwrap_err()
            .to_string()
    };
    let more = message(&successes(4.0), &trials(3.0));
    assert!(
        more.contains("row 1, column 0: 4 successes are more"),
        "{more}"
    );
    assert!(message(&successes(0.0), &trials(0.0)).contains("row 1, column 0: 0 trials"));
    assert!(message(&successes(0.5), &trials(3.0)).contains("row 1, column 0: 0.5"));
    let elsewhere = ratings(2, 2, &[entry(0, 0, 2.0), entry(1, 1, 3.0)]);
    assert!(message(&successes(1.0), &elsewhere).contains("row 1, column 0"));
    let fewer = ratings(2, 2, &[entry(0, 0, 1.0)]);
    assert!(message(&fewer, &trials(3.0)).contains("row 1, column 0"));
    assert!(matches!(
        BsvdData::new(&successes(1.0), none(), &binomial),
        Err(BsvdError::Config(out)) if out.field == "likelihood"
    ));
}

#[test]
fn features_that_do_not_fit() {
    let data = ratings(3, 2, &[entry(0, 0, 1.0), entry(1, 1, 2.0)]);
    let side =
        |rows: Option<Features>, columns: Option<Features>| SideInformation { rows, columns };
    let four = Features::dense(4, 1, &[0.0; 4]).unwrap();
    let gaussian = config(Likelihood::Gaussian);
    let message = refused(&data, side(Some(four.clone()), None), &gaussian);
    assert!(message.contains("row features: 4, expected 3"), "{message}");
    let message = refused(&data, side(None, Some(four)), &gaussian);
    assert!(
        message.contains("column features: 4, expected 2"),
        "{message}"
    );
    let nan = Features::dense(2, 2, &[0.0, 1.0, f64::NAN, 0.0]).unwrap_err();
    assert!(nan.to_string().contains("1, feature 0"), "{nan}");
    let beyond = Features::sparse(2, 2, &[(0, 0, 1.0), (0, 2, 1.0)]).unwrap_err();
    assert!(beyond.to_string().contains("feature entry 1"), "{beyond}");
}

#[test]
fn settings_out_of_range() {
    let data = ratings(2, 2, &[entry(0, 0, 1.0), entry(1, 1, 2.0)]);
    let base = || config(Likelihood::Gaussian);
    let mut cases = Vec::new();
    let mut case = |field: &'static str, change: fn(&mut BsvdConfig)| {
        let mut config = base();
        change(&mut config);
        cases.push((field, config));
    };
    case("candidates", |c| c.candidates = 1);
    case("max_candidates", |c| c.max_candidates = 2);
    case("rank_a", |c| c.rank_a = 0.0);
    case("rank_b", |c| c.rank_b = f64::NAN);
    case("noise", |c| c.noise.rate = -1.0);
    case("factor_precision_shape_range.0", |c| {
        c.factor_precision_shape_range.0 = -1.0
    });
    case("factor_precision_shape_range.1", |c| {
        c.factor_precision_shape_range.1 = f64::NAN
    });
    case("noise_shape_range.0", |c| c.noise_shape_range.0 = f64::NAN);
    case("noise_shape_range.0", |c| c.noise_shape_range.0 = 0.0);
    case("noise_shape_range.1", |c| c.noise_shape_range = (2.0, 1.0));
    case("noise_shape_range.1", |c| {
        c.noise_shape_range.1 = f64::INFINITY
    });
    case("offset_precision", |c| c.offset_precision = f64::INFINITY);
    case("units.scale", |c| {
        c.units = BsvdUnits::Given {
            centre: 0.0,
            scale: 0.0,
        };
    });
    case("moves (number of)", |c| c.moves.clear());
    case("moves.every", |c| c.moves[0].every = 0);
    case("sweeps.keep", |c| c.sweeps.keep = 0);
    case("moves", |c| {
        c.likelihood = Likelihood::Binary;
        c.moves.retain(|s| s.step != npb_bsvd::BsvdMove::Latents);
    });
    case("likelihood.levels", |c| {
        c.likelihood = Likelihood::Ordinal { levels: 1 }
    });
    for (field, config) in cases {
        match BsvdData::new(&data, none(), &config) {
            Err(BsvdError::Config(out)) => assert_eq!(out.field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn states_of_another_matrix() {
    let gaussian = config(Likelihood::Gaussian);
    let small = BsvdData::new(
        &ratings(2, 2, &[entry(0, 0, 1.0), entry(1, 1, 2.0)]),
        none(),
        &gaussian,
    )
    .unwrap();
    let large = BsvdData::new(
        &ratings(3, 2, &[entry(0, 0, 1.0), entry(1, 1, 2.0)]),
        none(),
        &gaussian,
    )
    .unwrap();
    let state = BsvdSampler::new(&small, gaussian.clone())
        .unwrap()
        .into_state();
    let error = BsvdSampler::resume(&large, gaussian, state, 0)
        .err()
        .unwrap();
    assert!(error.to_string().contains("factors"), "{error}");
}

#[test]
fn data_of_another_likelihood_and_moves_out_of_order_are_errors() {
    let entry = |n: u32| Rating {
        row: n % 3,
        column: n % 4,
        value: f64::from(n % 2),
    };
    let ratings = Ratings::new(3, 4, &(0..8).map(entry).collect::<Vec<_>>()).unwrap();
    let of = |likelihood| BsvdConfig {
        likelihood,
        candidates: 2,
        ..BsvdConfig::default()
    };
    let gaussian = of(Likelihood::Gaussian);
    let data = BsvdData::new(&ratings, SideInformation::default(), &gaussian).unwrap();
    let error = BsvdSampler::new(&data, of(Likelihood::Binary))
        .err()
        .unwrap();
    assert!(error.to_string().contains("likelihood"), "{error}");

    let binary = of(Likelihood::Binary);
    let data = BsvdData::new(&ratings, SideInformation::default(), &binary).unwrap();
    let mut sampler = BsvdSampler::new(&data, binary).unwrap();
    let error = sampler.apply(BsvdMove::Rows).unwrap_err();
    assert!(error.to_string().contains("after Latents"), "{error}");
    sampler.apply(BsvdMove::Latents).unwrap();
    sampler.apply(BsvdMove::Rows).unwrap();
}
