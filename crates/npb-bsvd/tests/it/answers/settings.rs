//! Settings: each prior is of its own unknown, and where entries say nothing unknowns are as their priors say.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::npb_priors::GammaPrior;
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdFit, BsvdMove, BsvdSampler, BsvdState, BsvdUnits, Cells,
    FactorUpdate, Likelihood, Scheduled, SideInformation, fit,
};
use npb_infer::SweepPlan;

use super::{Example, close, config, mean};

/// So sure a prior that a hundred rows do not move it.
fn known(value: f64) -> GammaPrior {
    GammaPrior {
        shape: 1e7,
        rate: 1e7 / value,
    }
}

#[test]
fn each_prior_is_of_its_own_unknown() {
    let example = Example::new(Likelihood::Gaussian, 41);
    let settings = BsvdConfig {
        noise: known(0.37),
        scale: known(0.53),
        intercept: known(1.7),
        coefficient: known(2.3),
        link: known(0.9),
        common: known(3.1),
        ..config(Likelihood::Gaussian, 5, 3)
    };
    let fit = example.fitted(&Cells::default(), &settings);
    for draw in fit.draws() {
        close(draw.noise_precision, 0.37, 0.01);
        close(draw.scale_precision, 0.53, 0.01);
        for side in [&draw.rows, &draw.columns] {
            close(side.intercept_precision, 1.7, 0.02);
            close(side.link_precision, 0.9, 0.01);
            close(side.common_precision, 3.1, 0.02);
            assert!(!side.coefficient_precision.is_empty());
            side.coefficient_precision
                .iter()
                .for_each(|p| close(*p, 2.3, 0.02));
        }
    }
}

/// Three by three cells that say next to nothing, as their noise is a thousand times their spread.
fn say_nothing(likelihood: Likelihood, more: impl Fn(&mut BsvdConfig)) -> BsvdFit {
    let value = |n: u32| match likelihood {
        Likelihood::Gaussian => f64::from(n % 5),
        _ => 1.0,
    };
    let entry = |n: u32| Rating {
        row: n / 3,
        column: n % 3,
        value: value(n),
    };
    let n = if likelihood == Likelihood::Gaussian {
        9
    } else {
        1
    };
    let entries: Vec<Rating> = (0..n).map(entry).collect();
    let ratings = Ratings::new(3, 3, &entries).unwrap();
    let mut settings = BsvdConfig {
        units: BsvdUnits::Given {
            centre: 2.0,
            scale: 1.0,
        },
        candidates: 5,
        max_candidates: 5,
        noise: GammaPrior {
            shape: 1e3,
            rate: 1e9,
        },
        noise_shape_range: (2.0, 8.0),
        factor_precision_shape_range: (1.0, 4.0),
        ..config(likelihood, 50, 4000)
    };
    for scheduled in &mut settings.moves {
        scheduled.every = 1;
    }
    more(&mut settings);
    let side = SideInformation::default();
    fit(&ratings, side, &Cells::default(), &settings).unwrap()
}

fn each(fit: &BsvdFit, f: impl Fn(&BsvdState) -> f64) -> Vec<f64> {
    fit.draws().iter().map(f).collect()
}

#[test]
fn unknowns_that_nothing_is_said_of_are_as_their_priors_have_them() {
    let fit = say_nothing(Likelihood::Gaussian, |config| {
        (config.rank_a, config.rank_b) = (1.4, 0.6);
        config.offset_precision = 4.0;
    });
    // Each of five switches is on with odds 1.4 / (0.6 4).
    let odds = 1.4 / 2.4;
    let on: f64 = odds / (1.0 + odds);
    let ranks = fit.rank_distribution().unwrap();
    for (k, share) in ranks.iter().enumerate() {
        let ways = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0][k];
        let wanted = ways * on.powi(k as i32) * (1.0 - on).powi(5 - k as i32);
        assert!((share - wanted).abs() < 0.05, "{k}: {ranks:?} {wanted}");
    }
    let offset = mean(&each(&fit, |draw| draw.offset * draw.offset));
    assert!((offset - 0.25).abs() < 0.035, "{offset}");
    let scale = mean(&each(&fit, |draw| draw.scale_precision));
    assert!((scale - 1.0).abs() < 0.12, "{scale}");
    let intercept = mean(&each(&fit, |draw| draw.rows.intercept_precision));
    assert!((intercept - 2.0).abs() < 0.25, "{intercept}");
    // All shapes of the ranges are alike: nine of the noise, from 2 on, nine of the spreads, from 1 on.
    let logs = |f: &dyn Fn(&BsvdState) -> f64| mean(&each(&fit, |draw| f(draw).log2()));
    let noise = [
        logs(&|d| d.rows.noise_shape),
        logs(&|d| d.columns.noise_shape),
    ];
    assert!(noise.iter().all(|l| (l - 2.0).abs() < 0.12), "{noise:?}");
    let spread = [
        logs(&|d| d.rows.factor_shape),
        logs(&|d| d.columns.factor_shape),
    ];
    assert!(spread.iter().all(|l| (l - 1.0).abs() < 0.12), "{spread:?}");
}

/// A level below all thresholds says nothing of those that are free: two half-normal numbers in order.
#[test]
fn free_thresholds_are_as_their_prior_has_them() {
    let fit = say_nothing(Likelihood::Ordinal { levels: 4 }, |config| {
        config.threshold_precision = 4.0;
        (config.row_noise, config.column_noise) = (false, false);
        // Thresholds of levels that nobody has given move slowly.
        (config.sweeps.keep, config.stored_draws) = (20_000, 20_000);
    });
    let squares = each(&fit, |draw| {
        draw.thresholds[1].powi(2) + draw.thresholds[2].powi(2)
    });
    assert!(
        (mean(&squares) - 2.0 / 4.0).abs() < 0.06,
        "{}",
        mean(&squares)
    );
    assert!(
        fit.draws()
            .iter()
            .all(|draw| draw.thresholds[0] == 0.0 && draw.thresholds[1] < draw.thresholds[2])
    );
}

#[test]
fn parts_of_the_model_can_be_left_out() {
    let example = Example::new(Likelihood::Gaussian, 42);
    let all = config(Likelihood::Gaussian, 3, 2);
    let draw = |change: &dyn Fn(&mut BsvdConfig)| {
        let mut settings = all.clone();
        change(&mut settings);
        example.fitted(&Cells::default(), &settings).draws()[1].clone()
    };
    let whole = draw(&|_| {});
    assert_eq!(
        (
            whole.rows.noise_weights.len(),
            whole.columns.noise_weights.len()
        ),
        (14, 11)
    );
    assert_eq!(
        (
            whole.rows.factor_weights.len(),
            whole.columns.factor_weights.len()
        ),
        (14, 11)
    );
    assert_eq!(
        (whole.rows.intercepts.len(), whole.columns.intercepts.len()),
        (14, 11)
    );
    assert_eq!(
        (
            whole.rows.coefficients.len(),
            whole.columns.coefficients.len()
        ),
        (14, 22)
    );
    let rank = whole.rank();
    assert_eq!(
        (whole.rows.links.len(), whole.columns.links.len()),
        (2 * rank, rank)
    );
    assert!(
        whole
            .rows
            .factor_mean
            .iter()
            .chain(&whole.columns.factor_mean)
            .all(|m| *m != 0.0)
    );
    assert!(
        whole
            .rows
            .coefficient_mean
            .iter()
            .chain(&whole.columns.coefficient_mean)
            .all(|m| *m != 0.0)
    );

    let of_rows = draw(&|c| c.row_noise = false);
    assert_eq!(
        (
            of_rows.rows.noise_weights.len(),
            of_rows.columns.noise_weights.len()
        ),
        (0, 11)
    );
    let of_columns = draw(&|c| c.column_noise = false);
    assert_eq!(
        (
            of_columns.rows.noise_weights.len(),
            of_columns.columns.noise_weights.len()
        ),
        (14, 0)
    );
    let of_rows = draw(&|c| c.row_factor_precision = false);
    assert_eq!(
        (
            of_rows.rows.factor_weights.len(),
            of_rows.columns.factor_weights.len()
        ),
        (0, 11)
    );
    let of_columns = draw(&|c| c.column_factor_precision = false);
    assert_eq!(
        (
            of_columns.rows.factor_weights.len(),
            of_columns.columns.factor_weights.len()
        ),
        (14, 0)
    );
    let of_rows = draw(&|c| c.row_intercepts = false);
    assert_eq!(
        (
            of_rows.rows.intercepts.len(),
            of_rows.columns.intercepts.len()
        ),
        (0, 11)
    );
    let of_columns = draw(&|c| c.column_intercepts = false);
    assert_eq!(
        (
            of_columns.rows.intercepts.len(),
            of_columns.columns.intercepts.len()
        ),
        (14, 0)
    );
    let centred = draw(&|c| c.factor_means = false);
    assert!(
        centred
            .rows
            .factor_mean
            .iter()
            .chain(&centred.columns.factor_mean)
            .all(|m| *m == 0.0)
    );
    let unlinked = draw(&|c| c.feature_links = false);
    assert!(unlinked.rows.links.is_empty() && unlinked.columns.links.is_empty());
    let apart = draw(&|c| c.common_coefficients = false);
    assert!(
        apart
            .rows
            .coefficient_mean
            .iter()
            .chain(&apart.columns.coefficient_mean)
            .all(|m| *m == 0.0)
    );
}

/// Four shapes for each doubling, both ends of the range among them, and no others in the draws.
#[test]
fn shapes_are_those_of_their_ranges() {
    let settings = BsvdConfig {
        noise_shape_range: (3.0, 12.0),
        factor_precision_shape_range: (0.5, 0.9),
        ..config(Likelihood::Gaussian, 3, 20)
    };
    let noise: Vec<f64> = (0..9)
        .map(|k| 3.0 * 2f64.powf(f64::from(k) / 4.0))
        .collect();
    let spread: Vec<f64> = (0..4)
        .map(|k| 0.5 * 2f64.powf(f64::from(k) / 4.0))
        .collect();
    for (found, wanted) in [
        (settings.noise_shapes(), &noise),
        (settings.factor_precision_shapes(), &spread),
    ] {
        assert_eq!(found.len(), wanted.len());
        found
            .iter()
            .zip(wanted)
            .for_each(|(a, b)| close(*a, *b, 1e-12));
    }
    let fit = Example::new(Likelihood::Gaussian, 43).fitted(&Cells::default(), &settings);
    let among = |shape: f64, of: &[f64]| of.iter().any(|s| (s - shape).abs() < 1e-9);
    for side in fit
        .draws()
        .iter()
        .flat_map(|draw| [&draw.rows, &draw.columns])
    {
        assert!(among(side.noise_shape, &noise) && among(side.factor_shape, &spread));
    }
}

/// A move is made in the sweeps whose number it divides, and never when it is not among the moves.
#[test]
fn moves_are_made_when_they_are_due() {
    let example = Example::new(Likelihood::Gaussian, 44);
    let mut settings = config(Likelihood::Gaussian, 0, 12);
    for scheduled in &mut settings.moves {
        if scheduled.step == BsvdMove::Noise {
            scheduled.every = 3;
        }
    }
    settings
        .moves
        .retain(|s| s.step != BsvdMove::ScalePrecision);
    assert!(settings.moves.contains(&Scheduled {
        step: BsvdMove::Noise,
        every: 3
    }));
    let fit = example.fitted(&Cells::default(), &settings);
    let noise: Vec<f64> = fit.draws().iter().map(|d| d.noise_precision).collect();
    for sweep in 2..=12usize {
        let moved = noise[sweep - 1] != noise[sweep - 2];
        assert_eq!(moved, sweep.is_multiple_of(3), "{sweep}: {noise:?}");
    }
    let first = fit.draws()[0].scale_precision;
    assert!(fit.draws().iter().all(|draw| draw.scale_precision == first));
}

/// Stored draws are every so many of the kept ones; chains and seeds are streams of their own.
#[test]
fn draws_are_stored_evenly_and_chains_are_numbered() {
    let example = Example::new(Likelihood::Gaussian, 45);
    let mut settings = config(Likelihood::Gaussian, 3, 20);
    settings.sweeps.thin = 2;
    let run = |settings: &BsvdConfig| example.fitted(&Cells::default(), settings);
    let all = run(&settings);
    assert_eq!((all.trace.n_sweeps(), all.draws().len()), (43, 20));
    let few = run(&BsvdConfig {
        stored_draws: 4,
        ..settings.clone()
    });
    assert_eq!(few.draws(), [4, 9, 14, 19].map(|k| all.draws()[k].clone()));
    let two = run(&BsvdConfig {
        chains: 2,
        chain: 6,
        ..settings.clone()
    });
    let each = [6, 7].map(|chain| {
        run(&BsvdConfig {
            chain,
            ..settings.clone()
        })
    });
    assert_eq!(two.draws(), [each[0].draws(), each[1].draws()].concat());
    assert_ne!(each[0].draws()[0], all.draws()[0]);
    let other = run(&BsvdConfig {
        seed: 6,
        ..settings.clone()
    });
    assert_ne!(other.draws()[0], all.draws()[0]);
    assert_eq!(run(&settings), all);
}

/// So many components at the start, and no more than there may be at any time.
#[test]
fn components_are_as_many_as_they_may_be() {
    let example = Example::new(Likelihood::Gaussian, 46);
    let settings = BsvdConfig {
        candidates: 3,
        max_candidates: 5,
        noise: known(1e4),
        ..config(Likelihood::Gaussian, 80, 5)
    };
    let data = BsvdData::new(&example.entries, example.side.clone(), &settings).unwrap();
    let mut sampler = BsvdSampler::new(&data, settings).unwrap();
    assert_eq!((sampler.state().rank(), sampler.state().candidates), (3, 3));
    let mut most = 0;
    for _ in 0..85 {
        sampler.sweep().unwrap();
        most = most.max(sampler.state().candidates);
        assert!(sampler.state().rank() <= sampler.state().candidates);
    }
    // Without noise all are wanted: three grow to five.
    assert_eq!(most, 5);
}

/// An automatic choice goes on, in the same bits, as the way that it has chosen.
#[test]
fn the_choice_between_ways_to_draw_rows_is_one_of_them() {
    let example = Example::new(Likelihood::Gaussian, 47);
    let auto = BsvdConfig {
        factor_update: FactorUpdate::Auto,
        ..config(Likelihood::Gaussian, 24, 6)
    };
    let data = BsvdData::new(&example.entries, example.side.clone(), &auto).unwrap();
    let mut sampler = BsvdSampler::new(&data, auto.clone()).unwrap();
    (0..24).for_each(|_| sampler.sweep().unwrap());
    let state = sampler.state().clone();
    (0..6).for_each(|_| sampler.sweep().unwrap());
    let ways = [FactorUpdate::Joint, FactorUpdate::Coordinate];
    let ends = ways.map(|factor_update| {
        let settings = BsvdConfig {
            factor_update,
            ..auto.clone()
        };
        let mut rest = BsvdSampler::resume(&data, settings, state.clone(), 24).unwrap();
        (0..6).for_each(|_| rest.sweep().unwrap());
        rest.state().clone()
    });
    let same = |other: &BsvdState| {
        let own = sampler.state();
        own.rows.factors == other.rows.factors && own.noise_precision == other.noise_precision
    };
    let chosen = usize::from(state.tuning.coordinates);
    assert!(same(&ends[chosen]) && !same(&ends[1 - chosen]));
}

/// Entries in other units, the model in the same: what is said is in the entries' units.
#[test]
fn units_are_changed_and_changed_back() {
    let example = Example::new(Likelihood::Gaussian, 48);
    let settings = |centre: f64, scale: f64| BsvdConfig {
        units: BsvdUnits::Given { centre, scale },
        ..config(Likelihood::Gaussian, 10, 10)
    };
    let doubled: Vec<Rating> = example
        .entries
        .iter()
        .map(|e| Rating {
            value: 2.0 * e.value - 16.0,
            ..e
        })
        .collect();
    let doubled = Ratings::new(14, 11, &doubled).unwrap();
    let side = || example.side.clone();
    let own = fit(
        &example.entries,
        side(),
        &Cells::default(),
        &settings(32.0, 8.0),
    )
    .unwrap();
    let other = fit(&doubled, side(), &Cells::default(), &settings(48.0, 16.0)).unwrap();
    assert_eq!((own.units(), other.units()), ((32.0, 8.0), (48.0, 16.0)));
    let (a, b) = (own.predict(4, 7).unwrap(), other.predict(4, 7).unwrap());
    close(b.mean, 2.0 * a.mean - 16.0, 1e-5);
    close(b.sd, 2.0 * a.sd, 1e-5);
    close(b.predictive_sd, 2.0 * a.predictive_sd, 1e-5);
    close(
        b.predictive_interval.lower,
        2.0 * a.predictive_interval.lower - 16.0,
        1e-5,
    );
    close(
        other.noise_sd(0.9).unwrap().mean,
        2.0 * own.noise_sd(0.9).unwrap().mean,
        1e-5,
    );
    close(
        other.row_noise().unwrap()[2],
        2.0 * own.row_noise().unwrap()[2],
        1e-5,
    );
    // Observed units are mean and standard deviation, in which nothing depends on the entries' own.
    let observed = |entries: &Ratings| {
        let settings = config(Likelihood::Gaussian, 10, 10);
        fit(entries, side(), &Cells::default(), &settings).unwrap()
    };
    let (a, b) = (
        observed(&example.entries).predict(4, 7).unwrap(),
        observed(&doubled).predict(4, 7).unwrap(),
    );
    close(b.mean, 2.0 * a.mean - 16.0, 1e-3);
    close(b.sd, 2.0 * a.sd, 1e-2);
    let plan = SweepPlan {
        burn_in: 10,
        keep: 10,
        thin: 1,
    };
    assert_eq!(own.config.sweeps, plan);
}
