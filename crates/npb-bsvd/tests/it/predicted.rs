//! Cells from stored draws, against the draws themselves; evaluation; longer chains.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{BsvdConfig, BsvdError, BsvdFit, Cells, Key, SideInformation, fit};
use npb_infer::{SweepPlan, Watch, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::simulated::{Simulated, low_rank};

/// Every kept draw is stored.
pub(crate) fn config(burn_in: u64, keep: u64) -> BsvdConfig {
    BsvdConfig {
        candidates: 12,
        stored_draws: keep,
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 1,
        },
        ..BsvdConfig::default()
    }
}

pub(crate) fn fitted(ratings: &Ratings, config: &BsvdConfig) -> BsvdFit {
    fit(
        ratings,
        SideInformation::default(),
        &Cells::default(),
        config,
    )
    .unwrap()
}

/// Noise-free values of a cell in the draws, in units of the data.
fn values(fit: &BsvdFit, i: usize, j: usize) -> Vec<f64> {
    let (centre, scale) = fit.units();
    let draws = fit.draws().iter();
    draws
        .map(|draw| centre + scale * draw.latent(i, j, fit.side()))
        .collect()
}

fn normal_cdf(z: f64) -> f64 {
    npb_bsvd::npb_priors::special::normal_cdf(z)
}

/// The hidden cells with noise.
fn noisy(data: &Simulated, noise: f64) -> Ratings {
    let mut rng = stream(9, [0; 4]);
    let entries: Vec<Rating> = data
        .hidden
        .iter()
        .map(|e| Rating {
            value: e.value + noise * data.signal * rng.sample::<f64, _>(StandardNormal),
            ..e
        })
        .collect();
    Ratings::new(data.hidden.n_rows(), data.hidden.n_cols(), &entries).unwrap()
}

#[test]
fn a_prediction_is_that_of_the_draws() {
    let data = low_rank(3, (30, 20), 2, 0.6, 0.3);
    let fit = fitted(&data.observed, &config(60, 80));
    let (i, j) = (4, 7);
    let draws = values(&fit, i, j);
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let variance = draws.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let noise: Vec<f64> = fit
        .draws()
        .iter()
        .map(|draw| fit.units().1 / draw.cell_noise_precision(i, j).sqrt())
        .collect();
    let noise_variance = noise.iter().map(|s| s * s).sum::<f64>() / n;
    let predicted = fit.predict(i, j).unwrap();
    assert!((predicted.mean - mean).abs() < 1e-12);
    assert!((predicted.sd - variance.sqrt()).abs() < 1e-12);
    assert!((predicted.predictive_sd - (variance + noise_variance).sqrt()).abs() < 1e-12);

    let cell = fit.cell(i, j).unwrap();
    assert_eq!(cell.values(), draws);
    let mut sorted = draws.clone();
    sorted.sort_by(f64::total_cmp);
    let within = sorted
        .iter()
        .filter(|v| **v <= cell.quantile(0.25).unwrap());
    assert_eq!(within.count(), 20);
    // The mixture of normals over the draws, by its own formula.
    let mixture = |y: f64| -> f64 {
        let terms = draws.iter().zip(&noise);
        terms.map(|(m, s)| normal_cdf((y - m) / s)).sum::<f64>() / n
    };
    for (p, end) in [
        (0.05, predicted.predictive_interval.lower),
        (0.95, predicted.predictive_interval.upper),
        (0.3, cell.predictive_quantile(0.3).unwrap()),
    ] {
        assert!((mixture(end) - p).abs() < 1e-9);
    }
    let density = |y: f64| -> f64 {
        let normal = |z: f64| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let terms = draws.iter().zip(&noise);
        terms.map(|(m, s)| normal((y - m) / s) / s).sum::<f64>() / n
    };
    assert!((cell.ln_density(mean + 1.0) - density(mean + 1.0).ln()).abs() < 1e-10);
    // New entries have the predictive moments.
    let sample = cell.sample(80 * 500, &mut stream(1, [0; 4]));
    let average = sample.iter().sum::<f64>() / sample.len() as f64;
    let error = predicted.predictive_sd / (sample.len() as f64).sqrt();
    assert!((average - mean).abs() < 4.5 * error);
}

#[test]
fn many_cells_at_once_are_those_one_by_one() {
    let data = low_rank(3, (30, 20), 2, 0.6, 0.3);
    let fit = fitted(&data.observed, &config(30, 30));
    let cells = Cells::of(&data.hidden);
    let all = fit.predict_all(&cells, 0.9).unwrap();
    let draws = fit.cell_draws(&cells).unwrap();
    for n in [0, 10, cells.len() - 1] {
        let (i, j) = (cells.rows[n] as usize, cells.columns[n] as usize);
        assert_eq!(all[n], fit.predict(i, j).unwrap());
        assert_eq!(draws[3][n], values(&fit, i, j)[3] as f32);
    }
}

#[test]
fn rows_and_columns_go_by_names() {
    let data = low_rank(3, (30, 20), 2, 0.6, 0.3);
    let ids: Vec<i64> = (0..30).map(|i| 1000 - i).collect();
    let films: Vec<String> = (0..20).map(|j| format!("film {j}")).collect();
    let fit = fitted(&data.observed, &config(30, 30));
    let fit = fit.with_names(&ids, &films).unwrap();
    let by_place = fit.predict(4, 7).unwrap();
    assert_eq!(fit.predict(Key::Id(996), "film 7").unwrap(), by_place);
    assert_eq!(fit.predict("996", &films[7]).unwrap(), by_place);
    assert_eq!(
        fit.top(4, 1, &[]).unwrap()[0].name.as_ref().unwrap()[..5],
        *"film "
    );
    let error = |found: Result<usize, BsvdError>| found.unwrap_err().to_string();
    assert!(error(fit.row(30)).contains("no row 30"));
    assert!(error(fit.row(Key::Id(30))).contains("called 30"));
    assert!(error(fit.column("film 20")).contains("film 20"));
    let twice = fit.clone().with_names(&vec!["a"; 30], &films).unwrap_err();
    assert!(twice.to_string().contains("\"a\" is given twice"));
    let short = fit.with_names(&["a"], &films).unwrap_err();
    assert!(matches!(
        short,
        BsvdError::Size {
            found: 1,
            expected: 30,
            ..
        }
    ));
}

#[test]
fn intervals_hold_what_they_say() {
    let data = low_rank(5, (80, 60), 3, 0.5, 0.4);
    let entries = noisy(&data, 0.4);
    let fit = fitted(&data.observed, &config(150, 200));
    let cells = Cells::of(&data.hidden);
    let predicted = fit.predict_all(&cells, 0.9).unwrap();
    let share = |within: &dyn Fn(usize) -> bool| {
        (0..cells.len()).filter(|&n| within(n)).count() as f64 / cells.len() as f64
    };
    // 2,400 cells that depend on 420 unknowns: standard errors of a share below 0.015.
    let noise_free = share(&|n| predicted[n].interval.holds(cells.values[n]));
    assert!((noise_free - 0.9).abs() < 0.04, "noise-free {noise_free}");
    let held_out = Cells::of(&entries);
    let entry = share(&|n| predicted[n].predictive_interval.holds(held_out.values[n]));
    assert!((entry - 0.9).abs() < 0.03, "entries {entry}");
    // The two are not to be mistaken for each other.
    let wrong = share(&|n| predicted[n].interval.holds(held_out.values[n]));
    assert!(wrong < 0.7, "{wrong}");

    let found = fit.evaluate(&entries).unwrap();
    assert!((found.coverage(0.9).unwrap() - entry).abs() < 1e-12);
    assert!((found.coverage(0.5).unwrap() - 0.5).abs() < 0.04);
}

#[test]
fn evaluation_by_stored_draws_is_that_by_streamed_ones() {
    let data = low_rank(5, (40, 30), 3, 0.5, 0.4);
    let test = noisy(&data, 0.4);
    let side = SideInformation::default();
    // All kept draws are stored, and cells are not averaged over rows, which are not the last move.
    let mut config = config(50, 60);
    config.moves.rotate_right(1);
    let fit = fit(&data.observed, side, &Cells::of(&test), &config).unwrap();
    let (streamed, stored) = (
        fit.evaluate_followed().unwrap(),
        fit.evaluate(&test).unwrap(),
    );
    for (a, b) in [
        (streamed.rmse, stored.rmse),
        (streamed.mae, stored.mae),
        (streamed.ln_density, stored.ln_density),
        (streamed.up_to[7], stored.up_to[7]),
    ] {
        assert!((a - b).abs() < 1e-10 * b.abs(), "{a} {b}");
    }
    assert_eq!(
        streamed.coverage(0.8).unwrap(),
        stored.coverage(0.8).unwrap()
    );
    let direct: f64 = (0..test.n_observed())
        .map(|n| {
            let e = test.iter().nth(n).unwrap();
            let cell = fit.cell(e.row as usize, e.column as usize).unwrap();
            (cell.mean() - e.value).powi(2)
        })
        .sum();
    assert!((stored.rmse - (direct / test.n_observed() as f64).sqrt()).abs() < 1e-10);
}

/// Two chains agree better on means that are averaged over rows exactly than on those of the same draws.
#[test]
fn averages_over_rows_have_less_error() {
    let data = low_rank(5, (40, 30), 3, 0.4, 0.4);
    let chains = [1, 2].map(|seed| {
        let config = BsvdConfig {
            seed,
            ..config(100, 60)
        };
        let cells = Cells::of(&data.hidden);
        fit(&data.observed, SideInformation::default(), &cells, &config).unwrap()
    });
    let drawn = chains.each_ref().map(|fit| {
        let predicted = fit.predict_all(&fit.cells, 0.9).unwrap();
        predicted.iter().map(|p| p.mean).collect::<Vec<f64>>()
    });
    let distance = |a: &[f64], b: &[f64]| -> f64 {
        let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
        square / a.len() as f64
    };
    let averaged = distance(&chains[0].moments.mean, &chains[1].moments.mean);
    let plain = distance(&drawn[0], &drawn[1]);
    assert!(averaged < 0.8 * plain, "{averaged} {plain}");
    // Standard deviations are those of the draws all the same.
    let predicted = chains[0].predict_all(&chains[0].cells, 0.9).unwrap();
    let n = predicted.len();
    let variance = |sd: &dyn Fn(usize) -> f64| (0..n).map(|k| sd(k).powi(2)).sum::<f64>();
    let ratio = variance(&|k| chains[0].moments.sd(k)) / variance(&|k| predicted[k].sd);
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

/// Goes on with these sweeps.
fn on(
    fit: &BsvdFit,
    entries: &Ratings,
    cells: &Cells,
    sweeps: SweepPlan,
) -> Result<BsvdFit, BsvdError> {
    let config = BsvdConfig {
        sweeps,
        ..fit.config.clone()
    };
    fit.continue_with(entries, fit.side().clone(), cells, &config, &Watch::none())
}

/// Few entries call for few components; more do, and candidates that were off come back.
#[test]
fn components_come_back_when_a_chain_goes_on() {
    let data = low_rank(8, (60, 50), 3, 0.01, 0.1);
    let first = fitted(&data.observed, &config(200, 20));
    assert!(first.last().rank() < 3, "{}", first.last().rank());
    let new = noisy(&data, 0.1);
    let more: Vec<Rating> = data.observed.iter().chain(new.iter().step_by(2)).collect();
    let more = Ratings::new(60, 50, &more).unwrap();
    let plan = SweepPlan {
        burn_in: 200,
        keep: 20,
        thin: 1,
    };
    let second = on(&first, &more, &Cells::default(), plan).unwrap();
    let rank = second.last().rank();
    assert!((3..=4).contains(&rank), "{rank}");
}

#[test]
fn a_chain_goes_on_with_more_entries() {
    let data = low_rank(8, (40, 30), 2, 0.35, 0.2);
    let first = fitted(&data.observed, &config(100, 50));
    let more: Vec<Rating> = data
        .observed
        .iter()
        .chain(data.hidden.iter().take(300))
        .collect();
    let more = Ratings::new(40, 30, &more).unwrap();
    let cells = Cells::of(&data.hidden);
    let plan = SweepPlan {
        burn_in: 30,
        keep: 50,
        thin: 1,
    };
    let second = on(&first, &more, &cells, plan).unwrap();
    assert_eq!(second.units(), first.units());
    // Of several chains each.
    let several = BsvdConfig {
        chains: 2,
        ..config(5, 5)
    };
    let few = SweepPlan {
        burn_in: 0,
        keep: 2,
        thin: 1,
    };
    let both = on(&fitted(&data.observed, &several), &more, &cells, few).unwrap();
    assert_eq!((both.config.chains, both.moments.draws), (2, 4));
    assert_ne!(second.config.seed, first.config.seed);
    assert_eq!(second.moments.draws, 50);
    let error = |fit: &BsvdFit| fit.evaluate(&data.hidden).unwrap().rmse;
    assert!(error(&second) < 0.8 * error(&first));
    // Thirty sweeps from a warm start serve as well as many from a cold one.
    let cold = fitted(&more, &config(200, 50));
    assert!(error(&second) < 1.1 * error(&cold));
    let said = |entries: &Ratings| {
        let error = on(&first, entries, &Cells::default(), plan).unwrap_err();
        error.to_string()
    };
    let smaller: Vec<Rating> = more.iter().filter(|e| e.row < 39).collect();
    let smaller = Ratings::new(39, 30, &smaller).unwrap();
    assert!(said(&smaller).contains("39 rows, where the fit had 40"));
    let last = data.observed.iter().last().unwrap();
    let fewer: Vec<Rating> = more
        .iter()
        .filter(|e| (e.row, e.column) != (last.row, last.column))
        .collect();
    let said = said(&Ratings::new(40, 30, &fewer).unwrap());
    let missing = format!("none of row {} and column {}", last.row, last.column);
    assert!(said.contains(&missing), "{said}");
}

#[test]
fn questions_that_cannot_be_answered_are_errors() {
    let data = low_rank(3, (10, 8), 1, 0.7, 0.3);
    let none = fitted(
        &data.observed,
        &BsvdConfig {
            stored_draws: 0,
            ..config(5, 5)
        },
    );
    assert!(matches!(
        none.predict(0, 0),
        Err(BsvdError::TooFewDraws { found: 0, .. })
    ));
    let fit = fitted(&data.observed, &config(5, 5));
    assert!(fit.cell(0, 0).unwrap().interval(1.0).is_err());
    assert!(fit.cell(0, 0).unwrap().quantile(f64::NAN).is_err());
    assert!(fit.predict_all(&Cells::default(), 0.0).is_err());
    let beyond = Cells {
        rows: vec![0, 10],
        columns: vec![0, 0],
        values: Vec::new(),
    };
    let error = fit.predict_all(&beyond, 0.5).unwrap_err().to_string();
    assert!(error.contains("row 10 does not exist"), "{error}");
    assert!(
        fit.evaluate(&Ratings::new(10, 8, &[] as &[Rating]).unwrap())
            .is_err()
    );
    assert!(fit.evaluate_followed().is_err());
    assert!(fit.top(0, 3, &[8]).is_err());
}

#[test]
fn fits_go_to_other_threads() {
    fn sent<T: Send + Sync>() {}
    sent::<BsvdFit>();
    sent::<npb_bsvd::CellPosterior<'static>>();
    sent::<npb_bsvd::Folded<'static>>();
}
