//! What fits say of data from the model.

use npb_bpfa::npb_data::{Rating, Ratings, Table};
use npb_bpfa::npb_infer::watch::Checkpoint;
use npb_bpfa::npb_infer::{Watch, maximise};
use npb_bpfa::{
    BpfaConfig, BpfaError, BpfaFit, BpfaSampler, BpfaState, BpfaVb, BpfaVbConfig, Cells, Role,
    Saved, ScorePrior, SlabPrior, SpikePrior, compare_atoms, fit, fit_ratings,
};

use crate::simulated::{Simulated, config, simulated};

/// Root mean squared error of the cells that were missing, and that of column means.
fn errors(data: &Simulated, full: &Table) -> (f64, f64) {
    let (mut square, mut plain, mut n) = (0.0, 0.0, 0.0);
    for i in 0..data.n {
        for j in 0..data.p {
            if !data.observed[i * data.p + j] {
                let truth = data.truth[i * data.p + j];
                square += (full.row(i)[j] - truth).powi(2);
                plain += truth.powi(2);
                n += 1.0;
            }
        }
    }
    ((square / n).sqrt(), f64::sqrt(plain / n))
}

#[test]
fn missing_cells_noise_and_atoms_are_recovered() {
    let data = simulated(300, 20, 4, 0.1, 0.3, 3);
    let table = data.table();
    let model = fit(&table, &config(16, 300, 200)).unwrap();
    let (error, plain) = errors(&data, &model.impute_training(&table).unwrap());
    assert!(error < 0.15 * plain, "{error} of {plain}");
    // Atoms in at least a twentieth of the rows. The chain starts with 16 rows as atoms and leaves sums of the four true ones only slowly: fewer than were
    // offered, more than there are; draws differ by a few (13 to 10).
    let common = |draw: &BpfaState| draw.scores.counts().iter().filter(|&&n| n >= 15).count();
    let used: Vec<usize> = model.draws.iter().map(common).collect();
    let mean = used.iter().sum::<usize>() as f64 / used.len() as f64;
    assert!((4.0..=12.0).contains(&mean), "{used:?}");
    assert!(used.iter().all(|&k| (4..16).contains(&k)), "{used:?}");
    // 90% intervals.
    let (mut inside, mut n) = (0, 0);
    for (at, found) in model.followed().iter().enumerate() {
        let found = found.unwrap();
        let (i, j) = (
            model.cells.rows[at] as usize,
            model.cells.columns[at] as usize,
        );
        let off = (found.mean - data.noisy[i * data.p + j]).abs();
        inside += usize::from(off < 1.645 * found.predictive_sd);
        n += 1;
    }
    let share = inside as f64 / f64::from(n);
    assert!((0.85..0.96).contains(&share), "{share}");
}

#[test]
fn dense_and_laplace_scores_recover_too() {
    let data = simulated(200, 15, 3, 0.1, 0.3, 4);
    let table = data.table();
    let lasso = ScorePrior::Lasso {
        per_entry: false,
        rate: npb_bpfa::npb_priors::GammaPrior {
            shape: 1.0,
            rate: 1.0,
        },
    };
    for scores in [ScorePrior::Dense, lasso] {
        let config = BpfaConfig {
            scores,
            ..config(6, 300, 200)
        };
        let model = fit(&table, &config).unwrap();
        let (error, plain) = errors(&data, &model.impute_training(&table).unwrap());
        assert!(error < 0.2 * plain, "{scores:?}: {error} of {plain}");
    }
}

#[test]
fn new_rows_are_filled_and_transformed() {
    let data = simulated(400, 12, 3, 0.1, 0.25, 6);
    let table = data.table();
    let train = table.select_rows(&(0..300).collect::<Vec<_>>());
    let new = table.select_rows(&(300..400).collect::<Vec<_>>());
    let model = fit(&train, &config(8, 300, 100)).unwrap();
    let rest = Simulated {
        n: 100,
        p: 12,
        truth: data.truth[300 * 12..].to_vec(),
        noisy: Vec::new(),
        observed: data.observed[300 * 12..].to_vec(),
    };
    let (error, plain) = errors(&rest, &model.impute(&new).unwrap());
    assert!(error < 0.3 * plain, "{error} of {plain}");
    let scores = model.transform(&new).unwrap();
    assert_eq!(
        (scores.n_rows(), scores.n_cols()),
        (100, model.draws.last().unwrap().n_atoms())
    );
}

/// New rows are seen with the atoms of the fit, though they use few of them and the burn-in is as short as theirs.
#[test]
fn new_rows_leave_the_atoms_alone() {
    let data = simulated(100, 8, 3, 0.1, 0.2, 7);
    let table = data.table();
    for (prune, max_atoms) in [(true, None), (false, Some(40))] {
        let config = BpfaConfig {
            prune,
            max_atoms,
            ..config(12, 30, 10)
        };
        let model = fit(&table, &config).unwrap();
        let few = table.select_rows(&[0, 1]);
        let atoms = model.draws.last().unwrap().n_atoms();
        assert_eq!(model.transform(&few).unwrap().n_cols(), atoms);
        model.impute(&few).unwrap();
    }
}

/// The predictive density of an entry counts spikes: it integrates to one, and has the mean and standard deviation that are predicted.
#[test]
fn densities_and_spreads_count_spikes() {
    let mut data = simulated(150, 10, 3, 0.1, 0.1, 9);
    let spiked = (0..data.noisy.len()).filter(|at| at % 19 == 0);
    spiked.for_each(|at| data.noisy[at] += if at % 2 == 0 { 6.0 } else { -6.0 });
    let config = BpfaConfig {
        spikes: Some(SpikePrior::default()),
        ..config(6, 150, 50)
    };
    let model = fit(&data.table(), &config).unwrap();
    let step = 0.02;
    let grid: Vec<Rating> = (-4000..=4000)
        .map(|k| Rating {
            row: 2,
            column: 3,
            value: f64::from(k) * step,
        })
        .collect();
    let density = model.ln_density(&grid).unwrap();
    let moment = |power: i32| -> f64 {
        let terms = grid.iter().zip(&density);
        terms
            .map(|(e, d)| e.value.powi(power) * d.exp() * step)
            .sum()
    };
    let found = model.predict(2, 3).unwrap();
    assert!((moment(0) - 1.0).abs() < 1e-3, "{}", moment(0));
    assert!((moment(1) - found.mean).abs() < 1e-2);
    let variance = moment(2) - moment(1).powi(2);
    assert!(
        (variance.sqrt() / found.predictive_sd - 1.0).abs() < 0.01,
        "{variance} {found:?}"
    );
    // White noise alone would be .1.
    assert!(found.predictive_sd > 0.5);
}

#[test]
fn new_rows_do_not_change_the_atoms() {
    let data = simulated(120, 10, 3, 0.1, 0.2, 7);
    let table = data.table();
    // A burn-in as short as the sweeps that new rows get: atoms that three rows do not use must stay where they are.
    let adapting = BpfaConfig {
        prune: true,
        max_atoms: Some(12),
        ..config(8, 20, 20)
    };
    let model = fit(&table, &adapting).unwrap();
    let mut fixed = model.clone();
    fixed.config.prune = false;
    fixed.config.max_atoms = None;
    let new = table.select_rows(&[0, 1, 2]);
    let scores = model.transform(&new).unwrap();
    assert_eq!(scores, fixed.transform(&new).unwrap());
    assert!(scores.values().iter().any(|&x| x != 0.0));
}

#[test]
fn a_column_without_values_stays_missing() {
    let data = simulated(60, 5, 2, 0.1, 0.2, 8);
    let cells: Vec<f64> = (0..300)
        .map(|at| {
            if at % 5 == 3 || !data.observed[at] {
                f64::NAN
            } else {
                data.noisy[at]
            }
        })
        .collect();
    let table = Table::from_nan_coded(60, 5, &cells).unwrap();
    let model = fit(&table, &config(4, 50, 50)).unwrap();
    assert_eq!(model.unobserved_columns(), [3]);
    let full = model.impute_training(&table).unwrap();
    assert!((0..60).all(|i| (0..5).all(|j| full.is_observed(i, j) == (j != 3))));
    assert!(model.predict(0, 3).is_err());
}

#[test]
fn held_out_density_prefers_the_right_number_of_factors() {
    let data = simulated(150, 12, 3, 0.3, 0.2, 9);
    let entries: Vec<Rating> = (0..data.n * data.p)
        .filter(|&at| data.observed[at])
        .map(|at| Rating {
            row: (at / data.p) as u32,
            column: (at % data.p) as u32,
            value: data.noisy[at],
        })
        .collect();
    let ratings = Ratings::new(data.n, data.p, &entries).unwrap();
    let held_out: Vec<usize> = (0..entries.len()).step_by(7).collect();
    let dense = BpfaConfig {
        scores: ScorePrior::Dense,
        ..config(3, 150, 100)
    };
    let found = compare_atoms(&ratings, &held_out, &[1, 3], &dense).unwrap();
    assert!(found[1].rmse < 0.6 * found[0].rmse, "{found:?}");
    assert!(found[1].ln_density > found[0].ln_density + 0.3, "{found:?}");
    let cells = Cells {
        rows: vec![0],
        columns: vec![12],
    };
    assert!(fit_ratings(&ratings, &cells, &dense, &Watch::none()).is_err());
}

#[test]
fn the_bound_finds_the_number_of_factors() {
    let data = simulated(200, 12, 3, 0.3, 0.2, 10);
    let rows = data.rows();
    let bound = |atoms: usize| {
        let config = BpfaVbConfig {
            atoms,
            slab: SlabPrior::Shared {
                prior: npb_bpfa::npb_priors::GammaPrior {
                    shape: 1.0,
                    rate: 1.0,
                },
            },
            ..BpfaVbConfig::default()
        };
        let limits = config.limits;
        let begin = |_| BpfaVb::new(&rows, config);
        let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
        let mut part = watch.part("run", 1.0);
        let (_, outcome) = maximise(&limits, "elbo", &mut part, (&memory, 0), begin).unwrap();
        outcome.trace.last().unwrap().elbo
    };
    let bounds: Vec<f64> = [1, 2, 3, 5].into_iter().map(bound).collect();
    let best = (0..4).max_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
    assert_eq!(best, Some(2), "{bounds:?}");
}

#[test]
fn atoms_grow_when_all_are_used_and_unused_ones_go() {
    let rows = simulated(400, 16, 8, 0.1, 0.0, 11).rows();
    let grown = BpfaConfig {
        atoms: 3,
        max_atoms: Some(32),
        ..config(3, 200, 1)
    };
    let mut sampler = BpfaSampler::new(&rows, grown).unwrap();
    (0..200).for_each(|_| sampler.sweep().unwrap());
    assert!(
        sampler.state().n_atoms() > 8,
        "{}",
        sampler.state().n_atoms()
    );
    let pruned = BpfaConfig {
        prune: true,
        ..config(64, 200, 1)
    };
    let mut sampler = BpfaSampler::new(&rows, pruned).unwrap();
    (0..200).for_each(|_| sampler.sweep().unwrap());
    assert!(
        sampler.state().n_atoms() < 50,
        "{}",
        sampler.state().n_atoms()
    );
}

/// Answers for new rows do not depend on which rows are asked with them; a row without cells has what is expected of any row.
#[test]
fn new_rows_are_answered_one_by_one() {
    let data = simulated(80, 6, 2, 0.1, 0.3, 12);
    let table = data.table();
    let model = fit(&table, &config(5, 60, 20)).unwrap();
    let backwards: Vec<usize> = (0..80).rev().collect();
    let turned = table.select_rows(&backwards);
    for ask in [BpfaFit::transform, BpfaFit::impute] {
        let all = ask(&model, &table).unwrap();
        assert_eq!(ask(&model, &turned).unwrap(), all.select_rows(&backwards));
        let few = ask(&model, &table.select_rows(&[7, 3])).unwrap();
        assert_eq!(few, all.select_rows(&[7, 3]));
    }
    let mut values = table.select_rows(&[0, 1]).values().to_vec();
    values[..6].fill(f64::NAN);
    let empty = Table::from_nan_coded(2, 6, &values).unwrap();
    let scores = model.transform(&empty).unwrap();
    assert_eq!(
        model.transform(&empty.select_rows(&[0])).unwrap(),
        scores.select_rows(&[0])
    );
    assert!(scores.row(0).iter().all(|&s| s == 0.0));
    assert!(
        model
            .impute(&empty)
            .unwrap()
            .row(0)
            .iter()
            .all(|x| x.is_finite())
    );
}

/// A table with some more columns.
fn beside(table: &Table, more: impl Fn(usize) -> Vec<f64>) -> Table {
    let row = |i: usize| {
        let own = (0..table.n_cols()).map(|j| table.get(i, j).unwrap_or(f64::NAN));
        own.chain(more(i)).collect::<Vec<f64>>()
    };
    let cells: Vec<f64> = (0..table.n_rows()).flat_map(row).collect();
    Table::from_nan_coded(table.n_rows(), cells.len() / table.n_rows(), &cells).unwrap()
}

/// A column that is constant, or there again in other units, changes no answer for the others; it is given back, and filled from what it copies.
#[test]
fn constants_and_copies_change_no_answer() {
    let data = simulated(60, 6, 2, 0.3, 0.25, 13);
    let table = data.table();
    let cell = |i: usize, j: usize| table.get(i, j).unwrap_or(f64::NAN);
    let config = config(5, 60, 40);
    let model = fit(&table, &config).unwrap();
    let (full, new) = (
        model.impute_training(&table).unwrap(),
        model.impute(&table).unwrap(),
    );
    let scores = model.transform(&table).unwrap();
    // The last column says what its original does, and something where that does not.
    let constant = beside(&table, |_| vec![3.0]);
    let copy = beside(&table, |i| vec![8.0 - 4.0 * cell(i, 0)]);
    let twice = beside(&table, |i| (0..6).map(|j| cell(i, j)).collect());
    for (what, wider) in [("constant", &constant), ("copy", &copy), ("twice", &twice)] {
        let found = fit(wider, &config).unwrap();
        assert_eq!(found.transform(wider).unwrap(), scores, "{what}");
        let same = |a: &Table, b: &Table| (0..60).all(|i| a.row(i)[..6] == b.row(i)[..6]);
        assert!(
            same(&found.impute_training(wider).unwrap(), &full),
            "{what}"
        );
        assert!(same(&found.impute(wider).unwrap(), &new), "{what}");
        assert_eq!(
            found.predict(3, 2).unwrap(),
            model.predict(3, 2).unwrap(),
            "{what}"
        );
        assert_eq!(
            BpfaFit::from_bytes(&found.to_bytes().unwrap()).unwrap(),
            found
        );
    }
    let found = fit(&constant, &config).unwrap();
    assert_eq!(found.roles()[6], Role::Constant { value: 3.0 });
    let certain = found.predict(1, 6).unwrap();
    assert_eq!(
        (certain.mean, certain.sd, certain.predictive_sd),
        (3.0, 0.0, 0.0)
    );
    let found = fit(&copy, &config).unwrap();
    let Role::CopyOf {
        column: 0,
        factor,
        offset,
    } = found.roles()[6]
    else {
        panic!("{:?}", found.roles());
    };
    assert!((factor + 4.0).abs() < 1e-6 && (offset - 8.0).abs() < 1e-6);
    let (a, b) = (found.predict(5, 0).unwrap(), found.predict(5, 6).unwrap());
    assert!((b.mean - (8.0 - 4.0 * a.mean)).abs() < 1e-6 && (b.sd - 4.0 * a.sd).abs() < 1e-6);
    let density = |column, value| {
        let entry = Rating {
            row: 5,
            column,
            value,
        };
        found.ln_density(&[entry]).unwrap()[0]
    };
    assert!((density(0, 0.7) - 4.0_f64.ln() - density(6, 8.0 - 4.0 * 0.7)).abs() < 1e-6);
    // Known by its copy alone.
    let hidden = beside(&table, |i| vec![8.0 - 4.0 * data.noisy[i * 6]]);
    let found = fit(&hidden, &config)
        .unwrap()
        .impute_training(&hidden)
        .unwrap();
    let lost = (0..60).filter(|i| !table.is_observed(*i, 0));
    assert!(lost.clone().count() > 5);
    lost.for_each(|i| assert!((found.row(i)[0] - data.noisy[i * 6]).abs() < 1e-6));
    // Nothing but constants.
    let flat = Table::complete(3, 2, vec![1.0, 5.0, 1.0, 5.0, 1.0, 5.0]).unwrap();
    assert!(matches!(fit(&flat, &config), Err(BpfaError::NothingVaries)));
}

/// Columns are in units of their own: what one is measured in changes no answer but by that unit.
#[test]
fn units_of_columns_do_not_matter() {
    let data = simulated(50, 5, 2, 0.3, 0.2, 14);
    let table = data.table();
    let unit = |j: usize| [1.0, 1024.0, 1.0 / 64.0, 1.0, 4.0][j];
    let other = table.map(|_, j, v| unit(j) * v).unwrap();
    let config = config(5, 50, 30);
    let (a, b) = (fit(&table, &config).unwrap(), fit(&other, &config).unwrap());
    let (full, scaled) = (
        a.impute_training(&table).unwrap(),
        b.impute_training(&other).unwrap(),
    );
    for at in 0..250 {
        assert_eq!(unit(at % 5) * full.values()[at], scaled.values()[at]);
    }
    assert_eq!(a.transform(&table).unwrap(), b.transform(&other).unwrap());
}

/// Columns with noise of their own: ones that others nearly determine, or exactly, take little from what is said of the rest.
#[test]
fn near_copies_do_not_ruin_the_rest() {
    let (mut plain, mut near, mut sums) = (0.0, 0.0, 0.0);
    for seed in 0..4 {
        let data = simulated(120, 8, 2, 0.5, 0.2, 20 + seed);
        let table = data.table();
        let cell = |i: usize, j: usize| table.get(i, j).unwrap_or(f64::NAN);
        let error = |table: &Table| {
            let model = fit(table, &config(16, 150, 150)).unwrap();
            let full = model.impute_training(table).unwrap();
            let holes = (0..960).filter(|&at| !data.observed[at]);
            let square = |at: usize| (full.row(at / 8)[at % 8] - data.noisy[at]).powi(2);
            (holes.clone().map(square).sum::<f64>() / holes.count() as f64).sqrt()
        };
        plain += error(&table);
        // The first is a copy, the second is not near enough for one.
        let more = |i: usize| {
            vec![
                cell(i, 0) + 0.02 * (i as f64 * 1.7).sin(),
                cell(i, 1) + 0.2 * (i as f64 * 2.3).cos(),
            ]
        };
        near += error(&beside(&table, more));
        sums += error(&beside(&table, |i| vec![cell(i, 0) + cell(i, 1)]));
    }
    assert!(
        near < 1.2 * plain && sums < 1.2 * plain,
        "{plain} {near} {sums}"
    );
}
