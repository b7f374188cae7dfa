//! Probit likelihoods: predictions of levels and successes, and new rows with such entries.

use npb_bsvd::npb_data::{Exposure, Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdError, BsvdFit, CellPosterior, Cells, Entries, Likelihood, Saved,
    SideInformation, Successes, fit,
};
use npb_infer::stream;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::predicted;

const SHAPE: (usize, usize) = (60, 50);

/// `f` of the latent value of every cell (rank 2) and of a source of normals; half of the cells, then the others.
fn simulated(f: impl Fn(f64, &mut dyn FnMut() -> f64) -> f64) -> (Ratings, Ratings) {
    let mut rng = stream(61, [0; 4]);
    let (n, m) = SHAPE;
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (u, v) = (normals(2 * n), normals(2 * m));
    let mut noise = normals(n * m * 40).into_iter();
    let (mut seen, mut hidden) = (Vec::new(), Vec::new());
    for i in 0..n {
        for j in 0..m {
            let x = 0.2 + u[2 * i] * v[2 * j] + 0.7 * u[2 * i + 1] * v[2 * j + 1];
            let mut next = || noise.next().unwrap();
            let entry = Rating {
                row: i as u32,
                column: j as u32,
                value: f(x, &mut next),
            };
            if next() > 0.0 { &mut seen } else { &mut hidden }.push(entry);
        }
    }
    let ratings = |entries: &[Rating]| Ratings::new(n, m, entries).unwrap();
    (ratings(&seen), ratings(&hidden))
}

fn ordinal() -> (Ratings, Ratings) {
    simulated(|x, noise| {
        let y = x + noise();
        1.0 + [-1.0, 0.3, 1.2].iter().filter(|t| y > **t).count() as f64
    })
}

const TRIALS: u32 = 12;

/// Successes of all cells, some of them hidden.
fn successes() -> (Ratings, Ratings) {
    simulated(|x, noise| (0..TRIALS).filter(|_| x + noise() > 0.0).count() as f64)
}

/// The same number of trials everywhere.
fn trials(successes: &Ratings) -> Ratings {
    let entries: Vec<Rating> = successes
        .iter()
        .map(|e| Rating {
            value: f64::from(TRIALS),
            ..e
        })
        .collect();
    Ratings::new(successes.n_rows(), successes.n_cols(), &entries).unwrap()
}

fn config(likelihood: Likelihood, burn_in: u64, keep: u64) -> BsvdConfig {
    BsvdConfig {
        likelihood,
        candidates: 6,
        ..predicted::config(burn_in, keep)
    }
}

fn fitted(entries: &impl Entries, config: &BsvdConfig) -> BsvdFit {
    fit(
        entries,
        SideInformation::default(),
        &Cells::default(),
        config,
    )
    .unwrap()
}

#[test]
fn levels_have_probabilities_and_whole_quantiles() {
    let (seen, hidden) = ordinal();
    let fit = fitted(&seen, &config(Likelihood::Ordinal { levels: 4 }, 100, 100));
    let cell = fit.cell(3, 4).unwrap();
    let p = cell.level_probabilities();
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12 && p.len() == 4);
    let mean: f64 = (1..).zip(&p).map(|(l, p)| f64::from(l) * p).sum();
    assert!((cell.mean() - mean).abs() < 1e-12);
    let square: f64 = (1..).zip(&p).map(|(l, p)| f64::from(l).powi(2) * p).sum();
    // The variance over draws is unbiased, with one draw less; the mixture's is not.
    let (sd, noise) = (cell.sd(), cell.predictive_sd());
    let mixture = noise * noise - sd * sd / 100.0;
    assert!((mixture - (square - mean * mean)).abs() < 1e-9);
    for share in [0.03, 0.2, 0.5, 0.9, 0.999] {
        let quantile = cell.predictive_quantile(share).unwrap();
        let up_to = |l: f64| {
            (1..)
                .zip(&p)
                .filter(|(k, _)| f64::from(*k) <= l)
                .map(|x| x.1)
                .sum::<f64>()
        };
        assert!(up_to(quantile) >= share && up_to(quantile - 1.0) < share);
    }
    // What is said of a cell is the same from every side: noise of its row and column included.
    let listed = fit.top(3, 5, &[]).unwrap();
    let cells = Cells {
        rows: vec![3; 50],
        columns: (0..50).collect(),
        values: Vec::new(),
    };
    let draws = fit.cell_draws(&cells).unwrap();
    for ranked in &listed {
        let mean = fit.predict(3, ranked.index).unwrap().mean;
        assert!((ranked.mean - mean).abs() < 1e-9, "{ranked:?}: {mean}");
        let drawn: f64 = draws.iter().map(|d| f64::from(d[ranked.index])).sum();
        assert!((drawn / draws.len() as f64 - mean).abs() < 1e-5);
    }
    let found = fit.evaluate(&hidden).unwrap();
    let covered = found.coverage(0.8).unwrap();
    assert!((covered - 0.8).abs() < 0.03, "{covered}");
    // Better than the shares of the levels alone.
    let mut shares = [0.0; 4];
    seen.iter()
        .for_each(|e| shares[e.value as usize - 1] += 1.0 / seen.n_observed() as f64);
    let base: f64 = hidden
        .iter()
        .map(|e| f64::ln(shares[e.value as usize - 1]))
        .sum();
    assert!(found.ln_density > base / hidden.n_observed() as f64 + 0.1);
    assert!(matches!(
        cell.ln_successes(1, 2),
        Err(BsvdError::Likelihood { .. })
    ));
}

#[test]
fn successes_have_probabilities() {
    let (seen, hidden) = successes();
    let (seen_trials, hidden_trials) = (trials(&seen), trials(&hidden));
    let entries = Successes {
        successes: &seen,
        trials: &seen_trials,
    };
    let fit = fitted(&entries, &config(Likelihood::Binomial, 100, 100));
    let cell = fit.cell(3, 4).unwrap();
    let mut total = 0.0;
    for h in 0..=7 {
        total += cell.ln_successes(h, 7).unwrap().exp();
        assert!((cell.successes_cdf(h, 7).unwrap() - total).abs() < 1e-10);
    }
    assert!((total - 1.0).abs() < 1e-10);
    assert!((cell.ln_successes(1, 1).unwrap().exp() - cell.mean()).abs() < 1e-12);
    assert_eq!(cell.level_probabilities().len(), 2);
    let held_out = Successes {
        successes: &hidden,
        trials: &hidden_trials,
    };
    let found = fit.evaluate_hits(&held_out).unwrap();
    let covered = found.coverage(0.9).unwrap();
    assert!((covered - 0.9).abs() < 0.03, "{covered}");
    let mean = seen.mean().unwrap() / f64::from(TRIALS);
    let base: f64 = hidden
        .iter()
        .map(|e| (e.value / f64::from(TRIALS) - mean).powi(2))
        .sum();
    assert!(found.rmse < 0.7 * (base / hidden.n_observed() as f64).sqrt());
    assert!(cell.ln_successes(3, 2).is_err());
}

/// Mean squared difference of posterior means in posterior standard deviations, and ratio of the mean variances.
fn compare(
    found: impl Fn(usize) -> (f64, f64),
    expected: impl Fn(usize) -> (f64, f64),
    columns: &[usize],
) -> (f64, f64) {
    let n = columns.len() as f64;
    let pairs: Vec<_> = columns.iter().map(|&j| (found(j), expected(j))).collect();
    let difference = pairs
        .iter()
        .map(|(a, b)| ((a.0 - b.0) / b.1).powi(2))
        .sum::<f64>()
        / n;
    let (a, b) = pairs.iter().fold((0.0, 0.0), |sums, (a, b)| {
        (sums.0 + a.1 * a.1, sums.1 + b.1 * b.1)
    });
    (difference, a / b)
}

fn moments(cell: &CellPosterior<'_>) -> (f64, f64) {
    (cell.mean(), cell.sd())
}

/// Without the last row; and the entries of the last row.
fn without_last(ratings: &Ratings) -> (Ratings, Vec<(usize, f64)>) {
    let last = ratings.n_rows() - 1;
    let rest: Vec<Rating> = ratings.iter().filter(|e| e.row as usize != last).collect();
    let (columns, values) = ratings.row(last);
    let own = columns.iter().zip(values).map(|(&j, &y)| (j as usize, y));
    (
        Ratings::new(last, ratings.n_cols(), &rest).unwrap(),
        own.collect(),
    )
}

/// Components are given time to grow before one can be switched off: none is lost, whatever the seed.
#[test]
fn components_of_levels_are_found() {
    let (seen, _) = ordinal();
    for seed in 0..4 {
        let config = BsvdConfig {
            seed,
            ..config(Likelihood::Ordinal { levels: 4 }, 150, 20)
        };
        assert_eq!(fitted(&seen, &config).last().rank().min(2), 2, "{seed}");
    }
}

#[test]
fn a_new_row_of_levels_agrees_with_a_fit_that_had_it() {
    let (seen, _) = ordinal();
    let likelihood = Likelihood::Ordinal { levels: 4 };
    let refit = fitted(&seen, &config(likelihood, 200, 500));
    let (before, own) = without_last(&seen);
    let fit = fitted(&before, &config(likelihood, 200, 500));
    let columns: Vec<usize> = (0..50).filter(|j| own.iter().all(|e| e.0 != *j)).collect();
    let expected = |j: usize| moments(&refit.cell(59, j).unwrap());
    let folded = |own: &[(usize, f64)]| {
        let folded = fit.fold_in_row(own, &[]).unwrap();
        compare(|j| moments(&folded.cell(j).unwrap()), expected, &columns)
    };
    let (difference, variances) = folded(&own);
    assert!(difference < 0.15, "{difference} {variances}");
    assert!((variances - 1.0).abs() < 0.3, "{variances}");
    let turned: Vec<(usize, f64)> = own.iter().map(|&(j, y)| (j, 5.0 - y)).collect();
    assert!(folded(&turned).0 > 1.0);
    let error = |entry: (usize, f64)| fit.fold_in_row(&[entry], &[]).unwrap_err().to_string();
    assert!(error((2, 5.0)).contains("column 2: 5"));
    assert!(error((2, 1.5)).contains("levels"));
    assert!(fit.fold_in_row_successes(&[(0, 1, 2)], &[]).is_err());
}

#[test]
fn a_new_row_of_hits_agrees_with_a_fit_that_had_it() {
    let (seen, _) = successes();
    let refit = {
        let trials = trials(&seen);
        let entries = Successes {
            successes: &seen,
            trials: &trials,
        };
        fitted(&entries, &config(Likelihood::Binomial, 200, 500))
    };
    let (before, own) = without_last(&seen);
    let trials = trials(&before);
    let entries = Successes {
        successes: &before,
        trials: &trials,
    };
    let fit = fitted(&entries, &config(Likelihood::Binomial, 200, 500));
    let columns: Vec<usize> = (0..50).filter(|j| own.iter().all(|e| e.0 != *j)).collect();
    let own: Vec<(usize, u32, u32)> = own.iter().map(|&(j, h)| (j, h as u32, TRIALS)).collect();
    let folded = fit.fold_in_row_successes(&own, &[]).unwrap();
    let (difference, variances) = compare(
        |j| moments(&folded.cell(j).unwrap()),
        |j| moments(&refit.cell(59, j).unwrap()),
        &columns,
    );
    assert!(difference < 0.15, "{difference}");
    assert!((variances - 1.0).abs() < 0.3, "{variances}");
    assert!(fit.fold_in_row(&[(0, 1.0)], &[]).is_err());
    assert!(fit.fold_in_row_successes(&[(0, 3, 2)], &[]).is_err());
}

/// One entry in the binary model, its posterior by quadrature: the row's number enters through its own latent value alone.
#[test]
fn a_single_level_moves_its_cell_as_it_should() {
    let (seen, _) = simulated(|x, noise| f64::from(u8::from(x + noise() > 0.0)));
    let fit = fitted(&seen, &config(Likelihood::Binary, 100, 1500));
    let j = 7;
    let (cold, folded) = (
        fit.fold_in_row(&[], &[]).unwrap(),
        fit.fold_in_row(&[(j, 1.0)], &[]).unwrap(),
    );
    // In each draw x ~ N(m, v) before; after, its density times Phi(x).
    let phi = npb_bsvd::npb_priors::special::normal_cdf;
    let mut exact = 0.0;
    for draw in fit.draws() {
        let rank = draw.rank();
        let (mut m, mut v) = (draw.offset + f64::from(draw.columns.intercepts[j]), 0.0);
        for k in 0..rank {
            let line = draw.scales[k] * f64::from(draw.columns.factors[j * rank + k]);
            m += line * draw.rows.factor_mean[k];
            v += line * line;
        }
        v += draw.rows.intercept_precision.recip();
        let (mut mass, mut first) = (0.0, 0.0);
        for step in -600..=600 {
            let z = f64::from(step) / 100.0;
            let weight = (-0.5 * z * z).exp() * phi(m + v.sqrt() * z);
            mass += weight;
            first += weight * phi(m + v.sqrt() * z);
        }
        exact += first / mass / fit.draws().len() as f64;
    }
    let found = folded.cell(j).unwrap().mean();
    assert!((found - exact).abs() < 0.02, "{found} {exact}");
    assert!(found > cold.cell(j).unwrap().mean() + 0.05);
}

/// By cells one at a time: the chance of an entry times that of a like.
#[test]
fn lists_of_everything_open_weigh_likes_by_exposure() {
    let (levels, _) = ordinal();
    let marks: Vec<Rating> = levels
        .iter()
        .map(|e| Rating {
            value: f64::from(u8::from(e.value > 2.0)),
            ..e
        })
        .collect();
    let marks = Ratings::new(levels.n_rows(), levels.n_cols(), &marks).unwrap();
    let ordinal = Likelihood::Ordinal { levels: 4 };
    for (entries, likelihood, like_from) in [
        (&levels, Likelihood::Gaussian, Some(3.0)),
        (&levels, ordinal, Some(4.0)),
        (&levels, ordinal, None),
        (&marks, Likelihood::Binary, None),
        (&levels, Likelihood::Gaussian, None),
    ] {
        let fit = fitted(entries, &config(likelihood, 20, 10));
        let fit = BsvdFit::from_bytes(&fit.to_bytes().unwrap()).unwrap();
        let (n, m, row) = (entries.n_rows(), entries.n_cols(), 3);
        let has = |i: usize, j: usize| entries.get(i, j).is_some();
        let mean = entries.iter().map(|e| e.value).sum::<f64>() / entries.n_observed() as f64;
        let from = like_from.unwrap_or(mean);
        let lists = || (0..n).map(|i| entries.row(i).0);
        let learned = Exposure::learn(m, lists()).unwrap();
        let chances = learned.chances(m, lists(), entries.row(row).0).unwrap();
        let exposure = |j: usize| chances[j];
        // Levels are whole: halfway below the first that is a like.
        let below = match likelihood {
            Likelihood::Gaussian => from,
            _ => from.ceil() - 0.5,
        };
        let liked = |j: usize| 1.0 - fit.cell(row, j).unwrap().cdf(below);
        let score = |j: usize| exposure(j) * liked(j);
        let mut order: Vec<usize> = (0..m).filter(|&j| !has(row, j)).collect();
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let found = fit.recommend(row, 7, like_from, None).unwrap();
        assert_eq!(found.len(), 7.min(order.len()));
        for (found, &j) in found.iter().zip(&order) {
            assert_eq!(found.index, j, "{likelihood:?} {like_from:?}");
            assert!((found.exposure - exposure(j)).abs() < 1e-12);
            // The mean entry is of single precision.
            assert!((found.liked - liked(j)).abs() < 1e-7);
            let cell = fit.predict(row, j).unwrap();
            assert!((found.mean - cell.mean).abs() < 1e-9 && (found.sd - cell.sd).abs() < 1e-9);
        }
        // What is left out is said, or is what the row has.
        assert_eq!(
            fit.recommend(row, m, like_from, Some(&[])).unwrap().len(),
            m
        );
        let none: Vec<u32> = (0..m as u32).collect();
        let left = fit.recommend(row, m, like_from, Some(&none)).unwrap();
        assert!(left.is_empty());
        assert!(fit.recommend(row, 3, Some(f64::NAN), None).is_err());
        assert!(fit.recommend(row, 3, None, Some(&[m as u32])).is_err());
        assert!(fit.recommend(n, 3, None, None).is_err());
    }
}
