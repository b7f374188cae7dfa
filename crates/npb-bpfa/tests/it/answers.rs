//! Each answer of a fit and each setting, beside its value found in another way.

use npb_bpfa::npb_data::{Rating, Ratings, Table};
use npb_bpfa::npb_infer::watch::Checkpoint;
use npb_bpfa::npb_infer::{Stop, SweepPlan, VbLimits, Watch, maximise};
use npb_bpfa::npb_priors::GammaPrior;
use npb_bpfa::{
    BpfaConfig, BpfaFit, BpfaMove, BpfaRows, BpfaSampler, BpfaState, BpfaVb, BpfaVbConfig,
    BpfaVbUpdate, Cells, Centring, Dependence, Factorisation, Role, Saved, ScorePrior, Scores,
    SlabPrior, SpikePrior, UsagePrior, compare_atoms, fit, fit_ratings,
};

use crate::simulated::{config, simulated};

const MILD: GammaPrior = GammaPrior {
    shape: 2.0,
    rate: 0.5,
};

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= 1e-6 * expected.abs().max(1.0),
        "{what}: {found} for {expected}"
    );
}

/// A fit whose every kept draw is stored, from the first sweep on: its chains disagree.
fn early(chains: usize, keep: u64) -> BpfaConfig {
    BpfaConfig {
        chains,
        stored_draws: keep,
        ..config(3, 0, keep)
    }
}

/// `(D s_i)_p` in double precision, atom by atom.
fn product(draw: &BpfaState, i: usize, p: usize) -> f64 {
    let atoms = &draw.shared.dictionary;
    let own = draw.scores.row(i);
    own.iter()
        .map(|(k, s)| f64::from(atoms.atom(k)[p]) * f64::from(s))
        .sum()
}

/// Mean and standard deviation, nothing taken off the number.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (square / n).sqrt())
}

fn normal_density(x: f64, variance: f64) -> f64 {
    (-0.5 * x * x / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
}

/// Variance of the noise of a channel, spikes among it.
fn noise_variance(draw: &BpfaState, channel: usize) -> f64 {
    let all = &draw.shared.noise_precisions;
    let spikes = match draw.spikes.rates.len() {
        0 => 0.0,
        n => draw.spikes.rates[channel.min(n - 1)] / draw.spikes.precision,
    };
    1.0 / all[channel.min(all.len() - 1)] + spikes
}

/// Columns 0, 3 and 4 say something, 1 is 3 less twice the first, 2 is constant, of 5 nothing is known; all have holes.
struct Mixed {
    table: Table,
    /// What is known of the columns 0, 3 and 4.
    merged: [Vec<Option<f64>>; 3],
}

fn mixed() -> Mixed {
    let data = simulated(16, 3, 2, 0.6, 0.25, 31);
    let value = |i: usize, j: usize| (data.observed[i * 3 + j], 2.0 + 3.0 * data.noisy[i * 3 + j]);
    let (mut cells, mut merged) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for i in 0..16 {
        let seen = |j: usize| Some(value(i, j)).filter(|x| x.0).map(|x| x.1);
        let copied = Some(value(i, 0).1).filter(|_| i % 4 != 1);
        let all = [
            seen(0),
            copied.map(|x| 3.0 - 2.0 * x),
            Some(5.0).filter(|_| i % 5 != 2),
            seen(1),
            seen(2),
            None,
        ];
        cells.extend(all.map(|x| x.unwrap_or(f64::NAN)));
        for (column, x) in merged
            .iter_mut()
            .zip([seen(0).or(copied), seen(1), seen(2)])
        {
            column.push(x);
        }
    }
    let names = ["a", "b", "c", "d", "e", "f"];
    let table = Table::from_nan_coded(16, 6, &cells).unwrap();
    Mixed {
        table: table.with_column_names(names).unwrap(),
        merged,
    }
}

fn spiky(chains: usize, keep: u64) -> BpfaConfig {
    BpfaConfig {
        spikes: Some(SpikePrior {
            a: 2.0,
            b: 5.0,
            precision: MILD,
        }),
        ..early(chains, keep)
    }
}

/// Every answer for a cell of a table is an average over draws: here over those that are stored, which are all, of two chains that disagree; with spikes, noise
/// by column, a copy, a constant and holes.
#[test]
fn answers_for_cells_are_averages_over_the_draws() {
    let Mixed { table, merged } = mixed();
    let model = fit(&table, &spiky(2, 6)).unwrap();
    assert_eq!(model.draws.len(), 12);
    let full = model.impute_training(&table).unwrap();
    let followed = model.followed();
    // Place among the modelled columns, factor and offset.
    let follows = [
        Some((0, 1.0, 0.0)),
        Some((0, -2.0, 3.0)),
        None,
        Some((1, 1.0, 0.0)),
        Some((2, 1.0, 0.0)),
    ];
    for i in 0..16 {
        for (j, follows) in follows.into_iter().enumerate() {
            let what = format!("row {i}, column {j}");
            let found = model.predict(i, j).unwrap();
            let place = |at: &usize| {
                let cells = &model.cells;
                (cells.rows[*at], cells.columns[*at]) == (i as u32, j as u32)
            };
            let at = (0..followed.len()).find(place);
            assert_eq!(at.is_none(), table.is_observed(i, j));
            let Some((place, factor, offset)) = follows else {
                assert_eq!((found.mean, found.sd, found.predictive_sd), (5.0, 0.0, 0.0));
                assert_eq!(full.row(i)[j], 5.0);
                continue;
            };
            let known: Vec<f64> = merged[place].iter().copied().flatten().collect();
            let (centre, scale) = moments(&known);
            let values: Vec<f64> = model
                .draws
                .iter()
                .map(|draw| offset + factor * (centre + scale * product(draw, i, place)))
                .collect();
            let (mean, sd) = moments(&values);
            let spread = (factor * scale).abs();
            let noises = model.draws.iter().map(|d| noise_variance(d, place));
            let noise = noises.sum::<f64>() / 12.0;
            let predictive = (sd * sd + spread * spread * noise).sqrt();
            near(found.mean, mean, &what);
            near(found.sd, sd, &what);
            near(found.predictive_sd, predictive, &what);
            if let Some(at) = at {
                let followed = followed[at].unwrap();
                near(followed.mean, mean, &what);
                near(followed.sd, sd, &what);
                near(followed.predictive_sd, predictive, &what);
                let filled = match merged[place][i] {
                    Some(known) => offset + factor * known,
                    None => mean,
                };
                near(full.row(i)[j], filled, &what);
            } else {
                assert_eq!(full.row(i)[j], table.row(i)[j], "{what}");
            }
            let y = mean + 0.7 * predictive;
            let densities = model.draws.iter().zip(&values).map(|(draw, x)| {
                let white = spread * spread / draw.shared.noise_precisions[place];
                let spike = spread * spread / draw.spikes.precision;
                let rate = draw.spikes.rates[place];
                (1.0 - rate) * normal_density(y - x, white)
                    + rate * normal_density(y - x, white + spike)
            });
            let density = densities.sum::<f64>() / 12.0;
            let entry = Rating {
                row: i as u32,
                column: j as u32,
                value: y,
            };
            near(model.ln_density(&[entry]).unwrap()[0], density.ln(), &what);
        }
        assert!(!full.is_observed(i, 5));
    }
    assert!(model.predict(0, 5).is_err());
}

/// Fewer draws are stored than kept: what is asked later is answered from those, followed cells from all.
#[test]
fn stored_draws_answer_what_was_not_followed() {
    let table = simulated(20, 4, 2, 0.4, 0.2, 32).table();
    let whole = fit(&table, &early(2, 10)).unwrap();
    let few = BpfaConfig {
        stored_draws: 3,
        ..early(2, 10)
    };
    let few = fit(&table, &few).unwrap();
    // The last of each three and a third, of each chain.
    let chosen = [3, 6, 9, 13, 16, 19].map(|at| whole.draws[at].clone());
    assert_eq!(few.draws, chosen);
    assert_eq!(few.followed(), whole.followed());
    let column: Vec<f64> = (0..20).filter_map(|i| table.get(i, 1)).collect();
    let (centre, scale) = moments(&column);
    let values = chosen.map(|draw| centre + scale * product(&draw, 4, 1));
    near(few.predict(4, 1).unwrap().mean, moments(&values).0, "mean");
    near(few.predict(4, 1).unwrap().sd, moments(&values).1, "sd");
}

/// Burn-in, spacing, chains and seed: which sweeps of which chain are kept, by a run that keeps all.
#[test]
fn kept_draws_are_those_of_the_plan() {
    let table = simulated(20, 4, 2, 0.4, 0.2, 33).table();
    let all = fit(&table, &early(1, 11)).unwrap();
    let thinned = BpfaConfig {
        sweeps: SweepPlan {
            burn_in: 3,
            keep: 4,
            thin: 2,
        },
        ..early(1, 4)
    };
    let thinned = fit(&table, &thinned).unwrap();
    let chosen = [4, 6, 8, 10].map(|at: usize| all.draws[at].clone());
    assert_eq!(thinned.draws, chosen);
    assert_eq!(thinned.traces, all.traces);
    assert_eq!(thinned.stop(), Stop::Completed);
    let at = 2;
    let (i, j) = (
        thinned.cells.rows[at] as usize,
        thinned.cells.columns[at] as usize,
    );
    near(
        thinned.followed()[at].unwrap().mean,
        thinned.predict(i, j).unwrap().mean,
        "followed",
    );
    let two = fit(&table, &early(2, 11)).unwrap();
    assert_eq!((two.traces.len(), two.draws.len()), (2, 22));
    assert_eq!(two.traces[0], all.traces[0]);
    assert_eq!(two.draws[..11], all.draws);
    assert_ne!(two.draws[21], all.draws[10]);
    let other = BpfaConfig {
        seed: 6,
        ..early(1, 11)
    };
    assert_ne!(fit(&table, &other).unwrap().draws[0], all.draws[0]);
}

#[test]
fn what_was_handed_in_comes_back() {
    let Mixed { table, .. } = mixed();
    let config = spiky(2, 3);
    let model = fit(&table, &config).unwrap();
    let model = BpfaFit::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!((model.n_rows(), model.n_columns()), (16, 6));
    assert_eq!(model.column_names(), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(model.unobserved_columns(), [5]);
    assert_eq!(model.config, config);
    let roles = model.roles();
    assert_eq!(roles.len(), 6);
    assert_eq!(roles[2], Role::Constant { value: 5.0 });
    for j in [0, 3, 4, 5] {
        assert_eq!(roles[j], Role::Modelled);
    }
    let Role::CopyOf {
        column: 0,
        factor,
        offset,
    } = roles[1]
    else {
        panic!("{roles:?}");
    };
    near(factor, -2.0, "factor");
    near(offset, 3.0, "offset");
    let used = |draw: &BpfaState| {
        let on = |k: usize| (0..16).any(|i| draw.scores.row(i).iter().any(|(at, _)| at == k));
        (0..draw.n_atoms()).filter(|&k| on(k)).count()
    };
    let expected: Vec<usize> = model.draws.iter().map(used).collect();
    assert_eq!(model.used_atoms(), expected);
}

/// Entries of 12 rows and 5 columns, the last column with one entry only, row 11 without any.
fn few_ratings() -> Vec<Rating> {
    let data = simulated(12, 5, 2, 0.5, 0.4, 34);
    let seen = |at: &usize| match (at / 5, at % 5) {
        (11, _) => false,
        (i, 4) => i == 3,
        _ => data.observed[*at],
    };
    let rating = |at: usize| Rating {
        row: (at / 5) as u32,
        column: (at % 5) as u32,
        value: 3.0 + (at % 5) as f64 + 1.5 * data.noisy[at],
    };
    (0..60).filter(seen).map(rating).collect()
}

/// Centres of columns and rows, and the scale, by their definition.
fn centres(entries: &[Rating], centring: Centring) -> (Vec<f64>, Vec<f64>, f64) {
    let n = entries.len() as f64;
    let overall = entries.iter().map(|e| e.value).sum::<f64>() / n;
    let shrunk = |values: Vec<f64>| values.iter().sum::<f64>() / (values.len() as f64 + 5.0);
    let by_column = centring != Centring::Overall;
    let column = |j: u32| {
        let own = entries.iter().filter(|e| e.column == j && by_column);
        overall + shrunk(own.map(|e| e.value - overall).collect())
    };
    let columns: Vec<f64> = (0..5).map(column).collect();
    let by_row = centring == Centring::RowsAndColumns;
    let row = |i: u32| {
        let own = entries.iter().filter(|e| e.row == i && by_row);
        shrunk(own.map(|e| e.value - columns[e.column as usize]).collect())
    };
    let rows: Vec<f64> = (0..12).map(row).collect();
    let rest = |e: &Rating| e.value - columns[e.column as usize] - rows[e.row as usize];
    let square = entries.iter().map(|e| rest(e).powi(2)).sum::<f64>() / n;
    (columns, rows, square.sqrt())
}

#[test]
fn centres_of_ratings_are_shrunk_means() {
    let entries = few_ratings();
    let ratings = Ratings::new(12, 5, &entries).unwrap();
    let cells = Cells {
        rows: vec![0, 3, 11, 11],
        columns: vec![2, 4, 0, 4],
    };
    let of = |centring| {
        let config = BpfaConfig {
            centring,
            ..early(2, 4)
        };
        fit_ratings(&ratings, &cells, &config, &Watch::none()).unwrap()
    };
    for centring in [
        Centring::Overall,
        Centring::Columns,
        Centring::RowsAndColumns,
    ] {
        let model = of(centring);
        let (columns, rows, scale) = centres(&entries, centring);
        for (at, found) in model.followed().into_iter().enumerate() {
            let (i, j) = (cells.rows[at] as usize, cells.columns[at] as usize);
            let what = format!("{centring:?}, row {i}, column {j}");
            let value = |draw: &BpfaState| rows[i] + columns[j] + scale * product(draw, i, j);
            let (mean, sd) = moments(&model.draws.iter().map(value).collect::<Vec<_>>());
            let noise = model.draws.iter().map(|d| noise_variance(d, 0) / 8.0);
            let predictive = (sd * sd + scale * scale * noise.sum::<f64>()).sqrt();
            for found in [found.unwrap(), model.predict(i, j).unwrap()] {
                near(found.mean, mean, &what);
                near(found.sd, sd, &what);
                near(found.predictive_sd, predictive, &what);
            }
            let y = mean + predictive;
            let density = model.draws.iter().map(|draw| {
                let g = draw.shared.noise_precisions[0];
                normal_density(y - value(draw), scale * scale / g) / 8.0
            });
            let entry = Rating {
                row: cells.rows[at],
                column: cells.columns[at],
                value: y,
            };
            let found = model.ln_density(&[entry]).unwrap()[0];
            near(found, density.sum::<f64>().ln(), &what);
        }
    }
    // Ratings are in one unit.
    let (a, b) = (of(Centring::Standardised), of(Centring::Columns));
    assert_eq!(a.followed(), b.followed());
}

/// Held-out scores of numbers of atoms, from a fit without these entries: a column that is left without any entry does not count.
#[test]
fn held_out_scores_are_those_of_a_fit_without_them() {
    let entries = few_ratings();
    let ratings = Ratings::new(12, 5, &entries).unwrap();
    let lonely = entries.iter().position(|e| e.column == 4).unwrap();
    let held_out = [1, lonely, 17, 21];
    assert!(lonely > 1 && lonely < 17);
    let config = early(2, 5);
    let found = compare_atoms(&ratings, &held_out, &[2, 4], &config).unwrap();
    let pick = |inside: bool| -> Vec<Rating> {
        let all = entries.iter().enumerate();
        all.filter(|(at, _)| held_out.contains(at) == inside)
            .map(|(_, e)| *e)
            .collect()
    };
    let train = Ratings::new(12, 5, &pick(false)).unwrap();
    let test: Vec<Rating> = pick(true).into_iter().filter(|e| e.column != 4).collect();
    for (atoms, found) in [2, 4].into_iter().zip(found) {
        let config = BpfaConfig {
            atoms,
            ..config.clone()
        };
        let model = fit_ratings(&train, &Cells::default(), &config, &Watch::none()).unwrap();
        let off = |e: &Rating| {
            let mean = model.predict(e.row as usize, e.column as usize).unwrap();
            (mean.mean - e.value).powi(2)
        };
        assert_eq!(found.atoms, atoms);
        let square = test.iter().map(off).sum::<f64>() / 3.0;
        near(found.rmse, square.sqrt(), "error");
        let density = model.ln_density(&test).unwrap().iter().sum::<f64>() / 3.0;
        near(found.ln_density, density, "density");
    }
}

/// Posterior mean scores of a row on two atoms, switches enumerated.
fn enumerated(draw: &BpfaState, columns: &[usize], y: &[f64]) -> [f64; 2] {
    let shared = &draw.shared;
    let all = &shared.noise_precisions;
    let (mut total, mut mean) = (0.0, [0.0; 2]);
    for z in [[false, false], [true, false], [false, true], [true, true]] {
        let (mut a, mut b) = ([[0.0; 2]; 2], [0.0; 2]);
        let mut ln = 0.0;
        for k in 0..2 {
            let slab = shared.slab_precisions[0];
            let odds = shared.ln_odds[k].exp();
            let pi = odds / (1.0 + odds);
            ln += if z[k] { pi.ln() } else { (1.0 - pi).ln() };
            a[k][k] = if z[k] { slab } else { 1.0 };
            ln += if z[k] { 0.5 * slab.ln() } else { 0.0 };
        }
        for (&p, &y) in columns.iter().zip(y) {
            let g = all[p.min(all.len() - 1)];
            for k in (0..2).filter(|&k| z[k]) {
                let d = f64::from(shared.dictionary.atom(k)[p]);
                b[k] += g * d * y;
                for (l, a) in a[k].iter_mut().enumerate().filter(|(l, _)| z[*l]) {
                    *a += g * d * f64::from(shared.dictionary.atom(l)[p]);
                }
            }
        }
        let det = a[0][0] * a[1][1] - a[0][1] * a[1][0];
        let s = [
            (a[1][1] * b[0] - a[0][1] * b[1]) / det,
            (a[0][0] * b[1] - a[1][0] * b[0]) / det,
        ];
        let weight = (ln - 0.5 * det.ln() + 0.5 * (b[0] * s[0] + b[1] * s[1])).exp();
        total += weight;
        (0..2).for_each(|k| mean[k] += weight * s[k]);
    }
    mean.map(|x| x / total)
}

/// New rows of columns 0 to 2, the middle one not observed, so near to each other that one answer is right for all, and so different that each is drawn anew.
const NEW_ROWS: usize = 1500;

fn new_rows(first: f64, last: f64) -> Table {
    let jitter = |i: usize| 1e-6 * (i as f64 - 0.5 * NEW_ROWS as f64);
    let row = |i: usize| [first + jitter(i), f64::NAN, last - jitter(i)];
    let cells: Vec<f64> = (0..NEW_ROWS).flat_map(row).collect();
    Table::from_nan_coded(NEW_ROWS, 3, &cells).unwrap()
}

/// Within four standard errors of the mean of a column, which must be small.
#[track_caller]
fn mean_is(table: &Table, column: usize, expected: f64, most: f64) {
    let values: Vec<f64> = (0..NEW_ROWS).map(|i| table.row(i)[column]).collect();
    let (mean, sd) = moments(&values);
    let error = sd / (NEW_ROWS as f64).sqrt();
    assert!(
        error < most && (mean - expected).abs() < 4.0 * error + 1e-4,
        "{mean} +- {error} for {expected}"
    );
}

/// Scores of new rows, and the cells that they lack, by enumeration of the switches: with noise by column in standard units, and of ratings with centres of rows,
/// which are those of the new rows.
#[test]
fn new_rows_have_the_scores_that_follow_from_their_cells() {
    let data = simulated(40, 3, 2, 0.7, 0.2, 35);
    let table = data.table().map(|_, j, y| 4.0 * y + j as f64).unwrap();
    let two = BpfaConfig {
        atoms: 2,
        slab: SlabPrior::Shared { prior: MILD },
        ..config(2, 30, 2)
    };
    let model = fit(&table, &two).unwrap();
    let new = new_rows(3.0, -2.0);
    let column = |j: usize| {
        let known: Vec<f64> = (0..40).filter_map(|i| table.get(i, j)).collect();
        moments(&known)
    };
    let units = [0, 1, 2].map(column);
    let y = [0, 2].map(|j: usize| ([3.0, 0.0, -2.0][j] - units[j].0) / units[j].1);
    let means: Vec<[f64; 2]> = model
        .draws
        .iter()
        .map(|draw| enumerated(draw, &[0, 2], &y))
        .collect();
    assert_eq!(means.len(), 2);
    let fitted = |draw: usize| {
        let atoms = &model.draws[draw].shared.dictionary;
        (0..2)
            .map(|k| f64::from(atoms.atom(k)[1]) * means[draw][k])
            .sum::<f64>()
    };
    let scores = model.transform(&new).unwrap();
    (0..2).for_each(|k| mean_is(&scores, k, means[1][k], 0.02));
    let expected = units[1].0 + units[1].1 * 0.5 * (fitted(0) + fitted(1));
    let full = model.impute(&new).unwrap();
    mean_is(&full, 1, expected, 0.05);
    assert!((0..NEW_ROWS).all(|i| full.row(i)[0] == new.row(i)[0]));

    let entry = |at: usize| Rating {
        row: (at / 3) as u32,
        column: (at % 3) as u32,
        value: table.get(at / 3, at % 3).unwrap_or(0.0),
    };
    let known = |at: &usize| table.is_observed(at / 3, at % 3);
    let entries: Vec<Rating> = (0..120).filter(known).map(entry).collect();
    let config = BpfaConfig {
        centring: Centring::RowsAndColumns,
        ..two
    };
    let ratings = Ratings::new(40, 3, &entries).unwrap();
    let model = fit_ratings(&ratings, &Cells::default(), &config, &Watch::none()).unwrap();
    let n = entries.len() as f64;
    let overall = entries.iter().map(|e| e.value).sum::<f64>() / n;
    let shrunk = |values: &[f64]| values.iter().sum::<f64>() / (values.len() as f64 + 5.0);
    let centre = |j: u32| {
        let own = entries.iter().filter(|e| e.column == j);
        overall + shrunk(&own.map(|e| e.value - overall).collect::<Vec<_>>())
    };
    let columns = [0, 1, 2].map(centre);
    let rest = |i: u32| {
        let own = entries.iter().filter(|e| e.row == i);
        own.map(|e| e.value - columns[e.column as usize])
            .collect::<Vec<f64>>()
    };
    let square = |i: u32| {
        let own = rest(i);
        let centre = shrunk(&own);
        own.iter().map(|x| (x - centre).powi(2)).sum::<f64>()
    };
    let scale = ((0..40).map(square).sum::<f64>() / n).sqrt();
    let own = [3.0 - columns[0], -2.0 - columns[2]];
    let centre = shrunk(&own);
    let y = own.map(|x| (x - centre) / scale);
    let fitted = |draw: &BpfaState| {
        let mean = enumerated(draw, &[0, 2], &y);
        let atoms = &draw.shared.dictionary;
        (0..2)
            .map(|k| f64::from(atoms.atom(k)[1]) * mean[k])
            .sum::<f64>()
    };
    let fitted: f64 = model.draws.iter().map(|draw| 0.5 * fitted(draw)).sum();
    let full = model.impute(&new).unwrap();
    mean_is(&full, 1, columns[1] + centre + scale * fitted, 0.05);
}

/// More rows than are stored together, some of them empty.
#[test]
fn scores_are_those_that_were_given() {
    let k = 3;
    let value = |at: usize| match (at / k, at % 7) {
        (256, _) | (_, 0 | 3 | 5) => 0.0,
        (i, _) => i as f32 - 300.5,
    };
    let values: Vec<f32> = (0..601 * k).map(value).collect();
    let scores = Scores::sparse(k, &values).unwrap();
    assert_eq!((scores.n_rows(), scores.n_atoms()), (601, 3));
    assert!(!scores.is_dense());
    let mut counts = vec![0; k];
    for i in 0..601 {
        let own: Vec<(usize, f32)> = (0..k)
            .map(|atom| (atom, values[i * k + atom]))
            .filter(|x| x.1 != 0.0)
            .collect();
        own.iter().for_each(|x| counts[x.0] += 1);
        let row = scores.row(i);
        assert_eq!(row.iter().collect::<Vec<_>>(), own, "row {i}");
        assert_eq!(row.n_active(), own.len());
    }
    assert_eq!(scores.counts(), counts);
    assert_eq!(scores.n_active() as u64, counts.iter().sum::<u64>());
    assert!(Scores::sparse(2, &[1.0; 3]).is_err() && Scores::sparse(0, &[]).is_err());
    let rows = simulated(300, 4, 2, 0.3, 0.0, 36).rows();
    let dense = BpfaConfig {
        scores: ScorePrior::Dense,
        ..config(3, 1, 1)
    };
    let mut sampler = BpfaSampler::new(&rows, dense).unwrap();
    sampler.sweep().unwrap();
    let scores = &sampler.state().scores;
    assert!(scores.is_dense());
    assert_eq!((scores.n_active(), scores.counts()), (900, vec![300; 3]));
    let row: Vec<usize> = scores.row(299).iter().map(|(atom, _)| atom).collect();
    assert_eq!(row, [0, 1, 2]);
}

/// A state with all that a move may change.
fn warm<'r>(rows: &'r BpfaRows, change: impl Fn(&mut BpfaConfig)) -> BpfaSampler<'r> {
    let mut config = BpfaConfig {
        slab: SlabPrior::PerAtom {
            shape: 2.0,
            rate: MILD,
        },
        spikes: Some(SpikePrior {
            a: 2.0,
            b: 5.0,
            precision: MILD,
        }),
        ..config(6, 0, 1)
    };
    let mut sampler = BpfaSampler::new(rows, config.clone()).unwrap();
    (0..5).for_each(|_| sampler.sweep().unwrap());
    let state = sampler.into_state();
    change(&mut config);
    BpfaSampler::resume(rows, config, 0, state, 5).unwrap()
}

/// Each move changes what it is of and nothing else.
#[test]
fn moves_change_what_they_are_of() {
    let rows = simulated(60, 5, 3, 0.5, 0.2, 37).rows();
    let rows = rows.with_channels(vec![0, 1, 0, 1, 1]).unwrap();
    for (step, expected) in [
        (BpfaMove::Latents, &[][..]),
        (BpfaMove::Scores, &["scores"]),
        (BpfaMove::CollapsedSwitches, &["scores", "weights"]),
        (BpfaMove::Weights, &["weights"]),
        (BpfaMove::Dictionary, &["dictionary"]),
        (BpfaMove::Lengths, &["scores", "dictionary"]),
        (BpfaMove::SlabPrecision, &["slab", "slab rate"]),
        (BpfaMove::Spikes, &["spikes", "spike rates"]),
        (BpfaMove::NoisePrecision, &["noise", "spike precision"]),
    ] {
        let mut sampler = warm(&rows, |config| config.moves = vec![step]);
        let before = sampler.state().clone();
        sampler.sweep().unwrap();
        let after = sampler.state();
        let (a, b) = (&before.shared, &after.shared);
        let changed = [
            ("scores", before.scores != after.scores),
            ("weights", a.ln_odds != b.ln_odds),
            ("dictionary", a.dictionary != b.dictionary),
            ("slab", a.slab_precisions != b.slab_precisions),
            ("slab rate", a.slab_rate != b.slab_rate),
            ("noise", a.noise_precisions != b.noise_precisions),
            ("spikes", before.spikes.sites != after.spikes.sites),
            ("spike rates", before.spikes.rates != after.spikes.rates),
            (
                "spike precision",
                before.spikes.precision != after.spikes.precision,
            ),
        ];
        let changed = changed.iter().filter(|x| x.1).map(|x| x.0);
        assert_eq!(changed.collect::<Vec<_>>(), expected, "{step:?}");
    }
}

/// As many atoms as the setting says have their switches drawn with the weights integrated out.
#[test]
fn collapsed_moves_are_of_a_subset() {
    // Tables of which the chain uses all atoms, so that each that is drawn moves.
    let is_used = |rows: &BpfaRows| {
        let sampler = warm(rows, |_| ());
        sampler.state().scores.counts().iter().all(|&n| n > 0)
    };
    let mut tables = (38..80).map(|seed| simulated(60, 5, 3, 0.5, 0.2, seed).rows());
    let rows = tables.find(is_used).unwrap();
    for m in [1, 2, 5] {
        let mut sampler = warm(&rows, |config| {
            config.moves = vec![BpfaMove::CollapsedSwitches];
            config.collapsed_atoms = m;
        });
        let of = |state: &BpfaState, atom: usize| -> Vec<f32> {
            let row = |i: usize| state.scores.row(i).iter().find(|x| x.0 == atom);
            (0..60).map(|i| row(i).map_or(0.0, |x| x.1)).collect()
        };
        let before = sampler.state().clone();
        assert!(before.scores.counts().iter().all(|&n| n > 0));
        sampler.sweep().unwrap();
        let moved = (0..6).filter(|&k| of(&before, k) != of(sampler.state(), k));
        assert_eq!(moved.count(), m);
    }
}

#[test]
fn the_dictionary_is_held_in_the_first_sweeps() {
    let rows = simulated(40, 5, 3, 0.5, 0.2, 39).rows();
    let held = BpfaConfig {
        hold_dictionary: 3,
        ..config(4, 5, 5)
    };
    let mut sampler = BpfaSampler::new(&rows, held).unwrap();
    let start = sampler.state().shared.dictionary.clone();
    for sweep in 1..=5 {
        sampler.sweep().unwrap();
        let same = sampler.state().shared.dictionary == start;
        assert_eq!(same, sweep <= 3, "sweep {sweep}");
    }
}

/// Atoms come and go every ten sweeps of the second half of the burn-in: half as many more where all are used, up to the most; of unused ones an eighth of the
/// used ones stay.
#[test]
fn atoms_come_and_go_by_their_rules() {
    let rows = simulated(150, 12, 8, 0.1, 0.0, 40).rows();
    let growing = BpfaConfig {
        max_atoms: Some(7),
        ..config(3, 60, 30)
    };
    let pruned = BpfaConfig {
        prune: true,
        ..config(48, 60, 30)
    };
    for (config, prune) in [(growing, false), (pruned, true)] {
        let mut sampler = BpfaSampler::new(&rows, config.clone()).unwrap();
        let mut sizes = vec![config.atoms];
        for sweep in 1..=90 {
            let before = sampler.state().n_atoms();
            sampler.sweep().unwrap();
            // Atoms that are added are used by no row yet.
            let used = sampler.state().n_used();
            let spare = used / 8 + 1;
            let most = if prune { 48 } else { 7 };
            let now = sampler.state().n_atoms();
            let expected = match sweep {
                40 | 50 | 60 if prune && used + spare < before => used + spare,
                40 | 50 | 60 if used == before => (before + before / 2 + 1).min(most),
                _ => before,
            };
            assert_eq!(now, expected, "sweep {sweep}");
            sizes.push(now);
        }
        match prune {
            true => assert!(sizes[90] < 40, "{sizes:?}"),
            false => assert_eq!(sizes[90], 7, "{sizes:?}"),
        }
    }
}

/// Weights of atoms given their switches have the mean of their Beta law: with the floor of the prior by rows reached and not, and of the process.
#[test]
fn weights_have_the_mean_of_their_law() {
    let n = 12;
    let rows = BpfaRows::complete(n, 2, (0..2 * n).map(|x| x as f32 - 11.5).collect()).unwrap();
    // Three and nine rows.
    let value = |at: usize| {
        f32::from(u8::from(if at.is_multiple_of(2) {
            at < 6
        } else {
            at < 18
        }))
    };
    let scores = Scores::sparse(2, &(0..2 * n).map(value).collect::<Vec<_>>()).unwrap();
    for (usage, a, b) in [
        (UsagePrior::Rows { a: 2.0, rows: 4.0 }, 2.0, 4.0),
        (UsagePrior::Rows { a: 0.5, rows: 2.0 }, 0.5, 6.0),
        (UsagePrior::Process { a: 3.0, b: 5.0 }, 1.5, 2.5),
    ] {
        let config = BpfaConfig {
            usage,
            moves: vec![BpfaMove::Weights],
            ..config(2, 0, 1)
        };
        let start = BpfaSampler::new(&rows, config.clone()).unwrap();
        let mut state = start.into_state();
        state.scores = scores.clone();
        let mut sampler = BpfaSampler::resume(&rows, config, 0, state, 0).unwrap();
        let (mut sums, draws) = ([0.0; 2], 4000);
        for _ in 0..draws {
            sampler.sweep().unwrap();
            let own = &sampler.state().shared.ln_odds;
            let both = sums.iter_mut().zip(own);
            both.for_each(|(sum, x)| *sum += 1.0 / (1.0 + (-x).exp()));
        }
        for (sum, on) in sums.into_iter().zip([3.0, 9.0]) {
            let all = a + b + n as f64;
            let mean = (a + on) / all;
            let error = (mean * (1.0 - mean) / (all + 1.0) / f64::from(draws)).sqrt();
            let found = sum / f64::from(draws);
            assert!(
                (found - mean).abs() < 4.0 * error,
                "{usage:?}: {found} for {mean}"
            );
        }
    }
}

#[test]
fn dependence_is_modelled_where_rows_have_anchors() {
    assert!(!Dependence::default().is_modelled());
    let rows = simulated(20, 3, 2, 0.4, 0.0, 41).rows();
    let rows = rows.with_locations(1, (0..20).map(|i| i as f32).collect());
    let rows = rows.unwrap();
    for prior in [
        None,
        Some(npb_bpfa::DependentPrior {
            anchors: 3,
            neighbours: 2,
            ..Default::default()
        }),
    ] {
        let mut config = config(3, 1, 1);
        if let Some(prior) = prior {
            config.usage = UsagePrior::Dependent { prior };
        }
        let sampler = BpfaSampler::new(&rows, config).unwrap();
        let own = &sampler.state().dependence;
        assert_eq!(own.is_modelled(), prior.is_some());
        assert_eq!(own.anchors.len(), if prior.is_some() { 20 } else { 0 });
    }
}

fn variational(rows: &BpfaRows, change: impl Fn(&mut BpfaVbConfig)) -> BpfaVb<'_> {
    let mut config = BpfaVbConfig {
        atoms: 3,
        ..BpfaVbConfig::default()
    };
    change(&mut config);
    BpfaVb::new(rows, config).unwrap()
}

/// A run starts with rows of unit length as atoms, as many as were asked for, which the seed chooses.
#[test]
fn variational_runs_start_from_rows_that_the_seed_chooses() {
    let data = simulated(30, 4, 2, 0.4, 0.0, 42);
    let rows = data.rows();
    let atoms_of = |seed: u64, atoms: usize| -> Vec<usize> {
        let run = variational(&rows, |config| (config.seed, config.atoms) = (seed, atoms));
        let state = run.state();
        assert_eq!(state.n_atoms(), atoms);
        let row = |i: usize| -> Vec<f64> {
            let own = &data.noisy[i * 4..(i + 1) * 4];
            let length = own.iter().map(|y| y * y).sum::<f64>().sqrt();
            own.iter().map(|y| y / length).collect()
        };
        let is = |k: usize, i: usize| {
            let own = row(i);
            (0..4).all(|p| (state.dictionary_mean[p * atoms + k] - own[p]).abs() < 1e-5)
        };
        let found = |k: usize| (0..30).find(|&i| is(k, i)).expect("a row");
        (0..atoms).map(found).collect()
    };
    assert_eq!(atoms_of(1, 5), atoms_of(1, 5));
    assert_ne!(atoms_of(1, 5), atoms_of(2, 5));
    assert_eq!(atoms_of(1, 7)[..5], atoms_of(1, 5));
}

#[test]
fn variational_runs_end_at_their_limits() {
    let rows = simulated(30, 4, 2, 0.4, 0.2, 43).rows();
    let run = |max_iterations: u64, tolerance: f64| {
        let limits = VbLimits {
            max_iterations,
            tolerance,
        };
        let run = variational(&rows, |config| config.limits = limits);
        let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
        let mut part = watch.part("run", 1.0);
        let (_, outcome) = maximise(&limits, "elbo", &mut part, (&memory, 0), |_| Ok(run)).unwrap();
        let bounds: Vec<f64> = outcome.trace.iter().map(|r| r.elbo).collect();
        (outcome.stop, bounds)
    };
    let (stop, seven) = run(7, 0.0);
    assert_eq!((stop, seven.len()), (Stop::MaxIterations, 7));
    let (stop, bounds) = run(500, 1e-3);
    assert!(matches!(stop, Stop::Converged { .. }));
    assert_eq!(bounds[..7], seven);
    let change = |at: usize| (bounds[at] - bounds[at - 1]).abs() / bounds[at].abs().max(1.0);
    // Twice in a row, for the first time.
    let last = bounds.len() - 1;
    let small = |at: usize| change(at) < 1e-3 && change(at - 1) < 1e-3;
    assert!(small(last) && !(2..last).any(small));
}

/// Updates of the Gamma and Beta factors are sums that can be had without the rest: prior, counts, expected squares.
#[test]
fn variational_factors_are_priors_and_counts() {
    let data = simulated(25, 4, 2, 0.5, 0.3, 44);
    let rows = data.rows().with_channels(vec![0, 1, 1, 0]).unwrap();
    let mut run = variational(&rows, |config| {
        config.scores = ScorePrior::SpikeSlab;
        config.factorisation = Factorisation::Joint;
        config.usage = UsagePrior::Rows { a: 1.5, rows: 2.5 };
        config.slab = SlabPrior::Shared { prior: MILD };
        config.noise = MILD;
        config.channel_noise = true;
    });
    (0..3).for_each(|_| {
        run.step().unwrap();
    });
    run.apply(BpfaVbUpdate::Scores).unwrap();
    for update in [
        BpfaVbUpdate::Weights,
        BpfaVbUpdate::Slab,
        BpfaVbUpdate::Noise,
    ] {
        run.apply(update).unwrap();
    }
    let q = run.state();
    let on: Vec<f64> = (0..3)
        .map(|k| (0..25).map(|i| q.on[i * 3 + k]).sum())
        .collect();
    let usage = q.usage();
    for k in 0..3 {
        near(usage[k], on[k], "usage");
        near(q.weights[k].0, 1.5 + on[k], "on");
        // N / 2.5 is 10, three atoms of 1.5 are less.
        near(q.weights[k].1, 10.0 + 25.0 - on[k], "off");
    }
    let second = |at: usize| q.on[at] * (q.score_mean[at].powi(2) + q.score_variance[at]);
    near(q.slab[0].0, 2.0 + 0.5 * on.iter().sum::<f64>(), "slab");
    let squares: f64 = (0..75).map(second).sum();
    near(q.slab[0].1, 0.5 + 0.5 * squares, "slab rate");
    let (mut counts, mut squares) = ([0.0; 2], [0.0; 2]);
    for at in (0..100).filter(|&at| data.observed[at]) {
        let (i, p) = (at / 4, at % 4);
        let (mut mean, mut variance) = (0.0, 0.0);
        for k in 0..3 {
            let (d, v) = (
                q.dictionary_mean[p * 3 + k],
                q.dictionary_variance[p * 3 + k],
            );
            let first = q.on[i * 3 + k] * q.score_mean[i * 3 + k];
            mean += d * first;
            variance += (d * d + v) * second(i * 3 + k) - (d * first).powi(2);
        }
        let (found, spread) = q.moments(i, p);
        near(found, mean, "mean");
        near(q.fitted(i, p), mean, "fitted");
        near(spread, variance, "variance");
        let channel = [0, 1, 1, 0][p];
        counts[channel] += 1.0;
        squares[channel] += (f64::from(data.noisy[at] as f32) - mean).powi(2) + variance;
    }
    for channel in 0..2 {
        near(q.noise[channel].0, 2.0 + 0.5 * counts[channel], "noise");
        near(
            q.noise[channel].1,
            0.5 + 0.5 * squares[channel],
            "noise rate",
        );
    }
}

/// One noise for all columns or one for each, as asked; with Laplace scores always one.
#[test]
fn noise_is_by_column_where_asked() {
    let table = simulated(20, 4, 2, 0.4, 0.2, 45).table();
    let lasso = ScorePrior::Lasso {
        per_entry: true,
        rate: MILD,
    };
    for (channel_noise, scores, expected) in [
        (true, ScorePrior::SpikeSlab, 4),
        (false, ScorePrior::SpikeSlab, 1),
        (true, lasso, 1),
    ] {
        let config = BpfaConfig {
            channel_noise,
            scores,
            ..early(1, 3)
        };
        let model = fit(&table, &config).unwrap();
        let (centre, scale) = {
            let known: Vec<f64> = (0..20).filter_map(|i| table.get(i, 2)).collect();
            moments(&known)
        };
        for draw in &model.draws {
            assert_eq!(draw.shared.noise_precisions.len(), expected);
        }
        let value = |draw: &BpfaState| centre + scale * product(draw, 5, 2);
        let (mean, sd) = moments(&model.draws.iter().map(value).collect::<Vec<_>>());
        let noise = model.draws.iter().map(|d| noise_variance(d, 2) / 3.0);
        let found = model.predict(5, 2).unwrap();
        near(found.mean, mean, "mean");
        let expected = (sd * sd + scale * scale * noise.sum::<f64>()).sqrt();
        near(found.predictive_sd, expected, "spread");
    }
}
