//! Gibbs chains from outside: bits, checkpoints, saved fits, bad input, and agreement with the variational fit and with what was simulated.

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_infer::{Stop, SweepPlan};
use npb_iqgme::{
    Every, GibbsConfig, GibbsFit, GibbsMove, IqgmeData, IqgmeError, IqgmeSampler, Saved, Watch,
    fit, fit_gibbs, fit_gibbs_watched,
};
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;

use crate::data::{config, draws_agree, evaluate, intervals_agree, three_gaussians};
use crate::gaussians::sectors;

fn chains(seed: u64, burn_in: u64, keep: u64) -> GibbsConfig {
    GibbsConfig {
        model: config(seed),
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 1,
        },
        chains: 2,
        stored_draws: 20,
        ..GibbsConfig::default()
    }
}

fn no_labels(table: &Table) -> Labels {
    Labels::from_strings(&vec![None::<&str>; table.n_rows()])
}

#[test]
fn same_bits_on_1_2_and_4_threads() {
    let (table, labels) = three_gaussians(1, 300, 2, 0.3, 0.2);
    let (many, classes) = sectors(1, 150, 3, 0.3, 0.2);
    same_bits_on_threads(&[1, 2, 4], || {
        let mut bytes = Vec::new();
        for (table, labels) in [(&table, &labels), (&many, &classes)] {
            let fitted = fit_gibbs(table, labels, &chains(1, 5, 20)).unwrap();
            bytes.extend(fitted.to_bytes().unwrap());
            for p in fitted.predict_classes(table).unwrap().concat() {
                bytes.extend(p.to_bits().to_le_bytes());
            }
        }
        bytes
    })
    .unwrap();
}

#[test]
fn chains_go_on_from_checkpoints_in_the_same_bits() {
    let (table, labels) = three_gaussians(2, 80, 1, 0.3, 0.2);
    let folder = std::env::temp_dir().join(format!("npb-iqgme-gibbs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    {
        let config = chains(2, 6, 24);
        let whole = fit_gibbs(&table, &labels, &config).unwrap();
        let path = folder.join("chains");
        let go = |config: &GibbsConfig, stop: u64| {
            let watch = Watch::new(|progress| match progress.step == stop {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            let watch = watch.with_checkpoint(&path, Every::sweeps(4));
            fit_gibbs_watched(&table, &labels, config, &watch)
        };
        // Stopped before anything is stored, then at a kept sweep: chains that ended there are valid.
        assert!(go(&config, 3).unwrap_err().to_string().contains("no draw"));
        assert_eq!(go(&config, 17).unwrap().chains()[0].stop, Stop::Cancelled);
        let resumed = go(&config, u64::MAX).unwrap();
        assert_eq!(resumed.to_bytes().unwrap(), whole.to_bytes().unwrap());

        let other = GibbsConfig {
            stored_draws: 3,
            ..config.clone()
        };
        let error = go(&other, u64::MAX);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("another configuration")
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn saved_fits_answer_in_the_same_bits_and_damaged_files_do_no_harm() {
    let (table, labels) = three_gaussians(4, 10, 0, 0.3, 0.0);
    let config = GibbsConfig {
        stored_draws: 2,
        chains: 1,
        ..chains(4, 3, 4)
    };
    let fitted = fit_gibbs(&table, &labels, &config).unwrap();
    let bytes = fitted.to_bytes().unwrap();
    let loaded = GibbsFit::from_bytes(&bytes).unwrap();
    assert_eq!(
        loaded.predict_proba(&table).unwrap(),
        fitted.predict_proba(&table).unwrap()
    );
    let cells = |fit: &GibbsFit| fit.training_cells(&[0.5]).unwrap();
    assert_eq!(cells(&loaded), cells(&fitted));
    let exercise = |f: &GibbsFit| {
        let _ = f.predict_proba(&table);
        let _ = f.impute(&table);
        let _ = f.predict_interval(&table, 0.9);
        let _ = f.ln_density(&table);
        let _ = (
            f.cluster_distribution(),
            f.training_cells(&[0.5]).unwrap(),
            f.diagnostics(),
        );
    };
    attack_file(&bytes, 1000, 1, GibbsFit::from_bytes, exercise).unwrap();
}

#[test]
fn bad_configurations_are_named() {
    let (table, labels) = three_gaussians(5, 20, 0, 0.0, 0.0);
    let good = chains(5, 1, 2);
    let bad = [
        (
            "chains",
            GibbsConfig {
                chains: 0,
                ..good.clone()
            },
        ),
        (
            "moves",
            GibbsConfig {
                moves: Vec::new(),
                ..good.clone()
            },
        ),
        (
            "stored_draws",
            GibbsConfig {
                stored_draws: 0,
                ..good.clone()
            },
        ),
    ];
    for (field, config) in bad {
        let error = fit_gibbs(&table, &labels, &config).unwrap_err().to_string();
        assert!(error.contains(field), "{field}: {error}");
    }
    let unlabelled = fit_gibbs(&table, &no_labels(&table), &good).unwrap();
    assert!(unlabelled.predict_classes(&table).is_err());
}

/// Odd tables: finite answers.
#[test]
fn odd_tables_are_finite() {
    let wide = Table::complete(3, 5, (0..15).map(|k| f64::from(k * k % 7)).collect()).unwrap();
    let labels = Labels::from_strings(&["a", "b", "a"].map(Some));
    let gap = f64::NAN;
    let holes = Table::from_nan_coded(4, 2, &[gap, gap, 1.0, gap, 1.0, 2.0, 1.0, 3.0]).unwrap();
    let one = Table::complete(2, 1, vec![7.0, 7.0]).unwrap();
    let far = Table::complete(4, 1, vec![1e-300, 1e300, -1e300, 0.0]).unwrap();
    let two = |n: usize| Labels::from_strings(&["a", "b", "b", "a"].map(Some)[..n]);
    for (table, labels) in [
        (&wide, labels),
        (&holes, two(4)),
        (&one, two(2)),
        (&far, two(4)),
    ] {
        let fitted = fit_gibbs(table, &labels, &chains(6, 10, 20)).unwrap();
        let found = fitted.predict_classes(table).unwrap();
        assert!(found.iter().flatten().all(|p| p.is_finite()), "{found:?}");
        assert!(
            fitted
                .impute(table)
                .unwrap()
                .completed
                .values()
                .iter()
                .all(|x| x.is_finite())
        );
    }
}

/// Hardly ever fewer clusters than three, and often just these: a Dirichlet process likes a few rows more or less in clusters of their own.
fn mostly_three(clusters: &[f64]) -> bool {
    clusters[3] > 0.25 && clusters[..3].iter().sum::<f64>() < 0.05
}

/// Simulated clusters are counted, and intervals of hidden cells cover them.
#[test]
fn clusters_cells_and_probabilities_of_simulated_data() {
    let (table, labels) = three_gaussians(7, 300, 0, 0.2, 0.1);
    let (complete, _) = three_gaussians(7, 300, 0, 0.0, 0.1);
    {
        let config = GibbsConfig {
            stored_draws: 100,
            ..chains(7, 100, 200)
        };
        let fitted = fit_gibbs(&table, &labels, &config).unwrap();
        let clusters = fitted.cluster_distribution();
        assert!(mostly_three(&clusters), "{clusters:?}");
        let cells = fitted.training_cells(&[0.05, 0.95]).unwrap();
        assert_eq!(cells.len(), table.n_missing());
        let covered = cells.iter().filter(|cell| {
            let truth = complete.get(cell.row, cell.column).unwrap();
            cell.quantiles[0] < truth && truth < cell.quantiles[1]
        });
        let share = covered.count() as f64 / cells.len() as f64;
        assert!((0.83..0.97).contains(&share), "{share}");
        let (new, truth) = three_gaussians(8, 400, 0, 0.0, 0.0);
        let found = evaluate(
            fitted.classes(),
            &fitted.predict_classes(&new).unwrap(),
            &truth,
        );
        assert!(found.accuracy > 0.9, "{found:?}");
        for interval in fitted.predict_interval(&new, 0.9).unwrap() {
            assert!(interval.lower <= interval.upper && interval.upper <= 1.0);
        }
    }
}

/// Where the posterior has one mode, the two ways agree: probabilities, and means of missing cells within their spread.
#[test]
fn agrees_with_the_variational_fit() {
    let (table, labels) = three_gaussians(9, 240, 0, 0.15, 0.0);
    let variational = fit(&table, &labels, &config(9)).unwrap();
    let sampled = fit_gibbs(&table, &labels, &chains(9, 100, 300)).unwrap();
    let (a, b) = (
        variational.predict_proba(&table).unwrap(),
        sampled.predict_proba(&table).unwrap(),
    );
    let apart: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64;
    // Variational experts are shrunk: their probabilities are nearer to one half.
    assert!(apart < 0.1, "{apart}");
    let agree = a.iter().zip(&b).filter(|(a, b)| (**a > 0.5) == (**b > 0.5));
    assert!(agree.count() as f64 > 0.95 * a.len() as f64);
    let imputed = variational.impute(&table).unwrap();
    let cells = sampled.cells_by_row(&table).unwrap();
    for (row, cells) in cells.iter().enumerate() {
        for cell in cells {
            let mean = imputed.completed.get(row, cell.column).unwrap();
            assert!(
                (cell.mean - mean).abs() < cell.sd,
                "{row}: {} {mean} {}",
                cell.mean,
                cell.sd
            );
            let [low, middle, high] = [0.1, 0.5, 0.9].map(|level| cell.quantile(level).unwrap());
            assert!(low < middle && middle < high);
        }
    }
}

#[test]
fn more_than_two_classes() {
    let (table, labels) = sectors(10, 400, 3, 0.1, 0.1);
    let fitted = fit_gibbs(&table, &labels, &chains(10, 60, 80)).unwrap();
    let (new, truth) = sectors(11, 300, 3, 0.0, 0.0);
    let found = evaluate(
        fitted.classes(),
        &fitted.predict_classes(&new).unwrap(),
        &truth,
    );
    assert!(found.accuracy > 0.82, "{found:?}");
    let error = fitted.predict_proba(&new).unwrap_err().to_string();
    assert!(error.contains("predict_classes"), "{error}");
    let error = fitted.predict_interval(&new, 0.9).unwrap_err().to_string();
    assert!(
        error.starts_with("predict_interval") && error.contains("predict_class_intervals"),
        "{error}"
    );
    let intervals = fitted.predict_class_intervals(&new, 0.9).unwrap();
    intervals_agree(&intervals, &fitted.predict_classes(&new).unwrap()).unwrap();
}

/// The utility of a class with one label is known by its prior alone, whose tails are heavy: its draws may be in the millions, and probabilities are still such.
#[test]
fn a_class_with_one_label_has_probabilities() {
    let (table, labels) = sectors(1, 40, 2, 0.2, 0.0);
    let name = |i: usize| if i == 5 { Some("c") } else { labels.name(i) };
    let names: Vec<Option<&str>> = (0..40).map(name).collect();
    let labels = Labels::from_strings(&names);
    let plan = SweepPlan {
        burn_in: 100,
        keep: 100,
        thin: 1,
    };
    let config = GibbsConfig {
        chains: 1,
        sweeps: plan,
        ..GibbsConfig::default()
    };
    let fitted = fit_gibbs(&table, &labels, &config).unwrap();
    let found = evaluate(
        fitted.classes(),
        &fitted.predict_classes(&table).unwrap(),
        &labels,
    );
    assert!(found.log_loss < 1.1, "{found:?}");
}

/// Without labels it is a mixture of Gaussians; a single move can be made alone.
#[test]
fn unlabelled_rows_and_single_moves() {
    let (table, _) = three_gaussians(12, 200, 0, 0.1, 1.0);
    // Long: chains start with up to twelve clusters, and these merge one row at a time.
    let fitted = fit_gibbs(&table, &no_labels(&table), &chains(12, 500, 100)).unwrap();
    assert!(
        mostly_three(&fitted.cluster_distribution()),
        "{:?}",
        fitted.cluster_distribution()
    );
    let config = chains(12, 1, 1);
    let data = IqgmeData::new(&table, &no_labels(&table), &config.model).unwrap();
    let mut chain = IqgmeSampler::new(&data, config, 0).unwrap();
    for step in GibbsMove::SWEEP {
        chain.apply(step).unwrap();
    }
    assert_eq!(chain.state().labels.len(), 200);
}

#[test]
fn a_move_made_again_draws_anew() {
    let (table, labels) = three_gaussians(13, 40, 0, 0.2, 0.0);
    let config = chains(13, 1, 1);
    let data = IqgmeData::new(&table, &labels, &config.model).unwrap();
    let mut chain = IqgmeSampler::new(&data, config, 0).unwrap();
    let mut drawn = Vec::new();
    for _ in 0..3 {
        chain.apply(GibbsMove::Concentration).unwrap();
        let now = chain.parameters();
        drawn.push((now.concentration, now.ln_rests[0]));
    }
    let [a, b, c] = drawn[..] else { panic!() };
    assert!(a.0 != b.0 && b.0 != c.0 && a.1 != b.1 && b.1 != c.1);
}

/// The law of the slices asks for more and more components, the larger the concentration.
#[test]
fn a_concentration_beyond_all_bounds_is_an_error() {
    let (table, labels) = three_gaussians(14, 40, 0, 0.0, 0.0);
    let mut config = chains(14, 1, 1);
    (
        config.model.concentration.shape,
        config.model.concentration.rate,
    ) = (1e10, 1e-10);
    let error = fit_gibbs(&table, &labels, &config).unwrap_err().to_string();
    assert!(
        error.contains("4096 components") && error.contains("smaller mean"),
        "{error}"
    );
}

#[test]
fn given_units_are_checked() {
    let (table, labels) = three_gaussians(15, 10, 0, 0.0, 0.0);
    let given = |classes: [&str; 2], off: [f64; 2]| {
        let covariance = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { off[i] });
        let classes = classes.map(str::to_owned);
        let data = IqgmeData::in_given_units(&table, &labels, &classes, &covariance);
        data.map(|_| ()).map_err(|error| error.to_string())
    };
    let [a, b] = ["down", "up"];
    for (error, part) in [
        (given([a, a], [0.1, 0.1]), "twice"),
        (given([a, b], [0.1, 0.2]), "symmetric"),
        (given([a, b], [f64::NAN, f64::NAN]), "finite"),
    ] {
        let error = error.unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// A chain that was driven by hand goes on where it was, not with the random numbers of its first sweeps.
#[test]
fn a_chain_driven_by_hand_goes_on_in_the_same_bits() {
    let (table, labels) = three_gaussians(16, 40, 0, 0.2, 0.1);
    let config = chains(16, 1, 1);
    let data = IqgmeData::new(&table, &labels, &config.model).unwrap();
    let mut whole = IqgmeSampler::new(&data, config.clone(), 0).unwrap();
    (0..3).for_each(|_| whole.sweep().unwrap());
    let state = whole.state();
    (0..2).for_each(|_| whole.sweep().unwrap());
    let mut rest = IqgmeSampler::resume(&data, config, 0, state).unwrap();
    (0..2).for_each(|_| rest.sweep().unwrap());
    assert_eq!(rest.state().sweep, 5);
    assert_eq!(rest.state().utilities, whole.state().utilities);
}

#[test]
fn imputation_agrees_with_its_draws() {
    let (table, labels) = three_gaussians(23, 40, 1, 0.3, 0.2);
    let fitted = fit_gibbs(&table, &labels, &chains(23, 20, 40)).unwrap();
    let rows = table.select_rows(&(0..12).collect::<Vec<_>>());
    let draws = fitted.impute_draws(&rows, 4000).unwrap();
    draws_agree(&rows, &fitted.impute(&rows).unwrap(), &draws).unwrap();
    // Fewer than are stored are of as many draws of the parameters.
    assert_eq!(fitted.impute_draws(&rows, 3).unwrap().len(), 3);
    assert!(fitted.impute_draws(&rows, 0).is_err());
}

#[test]
fn a_chain_of_as_many_sweeps_as_there_are_numbers_is_refused() {
    let (table, labels) = three_gaussians(20, 20, 0, 0.2, 0.1);
    let config = chains(20, 1, 1);
    let data = IqgmeData::new(&table, &labels, &config.model).unwrap();
    let sampler = IqgmeSampler::new(&data, config.clone(), 0).unwrap();
    let mut state = sampler.state();
    state.sweep = u64::MAX;
    let resumed = IqgmeSampler::resume(&data, config, 0, state);
    assert!(matches!(resumed, Err(IqgmeError::State { .. })));
}

/// Whatever move asks for them: there is a limit to components, and it is no panic.
#[test]
fn no_move_holds_more_components_than_there_may_be() {
    let table = Table::complete(60, 1, (0..60).map(f64::from).collect()).unwrap();
    for moves in [
        vec![GibbsMove::SplitMerge],
        vec![GibbsMove::SplitMerge, GibbsMove::Swaps],
    ] {
        let mut config = GibbsConfig {
            moves,
            ..chains(21, 1, 1)
        };
        // Concentrations next to 3000.
        config.model.concentration = GammaPrior {
            shape: 1e8,
            rate: 1e8 / 3000.0,
        };
        let data = IqgmeData::new(&table, &no_labels(&table), &config.model).unwrap();
        let mut sampler = IqgmeSampler::new(&data, config, 0).unwrap();
        sampler.apply(GibbsMove::Concentration).unwrap();
        let mut refused = false;
        for _ in 0..60 {
            match sampler.sweep() {
                Ok(()) => {}
                Err(IqgmeError::TooManyComponents { .. }) => refused = true,
                Err(error) => panic!("{error}"),
            }
            assert!(sampler.parameters().components.len() <= 4096);
        }
        assert!(refused);
    }
}

#[test]
fn stored_draws_are_spread_over_the_chain() {
    let (table, labels) = three_gaussians(17, 20, 0, 0.1, 0.0);
    for (keep, stored, wanted) in [(10, 7, 7), (10, 3, 3), (4, 9, 4)] {
        let config = GibbsConfig {
            stored_draws: stored,
            chains: 1,
            ..chains(17, 0, keep)
        };
        let fitted = fit_gibbs(&table, &labels, &config).unwrap();
        let draws = fitted.chains()[0].draws();
        assert_eq!(draws.len(), wanted, "{keep} {stored}");
    }
}

#[test]
fn a_chain_without_labels_predicts_none() {
    let table = Table::complete(4, 1, vec![0.3, -1.0, 2.0, 0.1]).unwrap();
    let classes = ["a", "b"].map(str::to_owned);
    let labels = no_labels(&table);
    let covariance = Mat::from_fn(1, 1, |_, _| 1.0);
    let data = IqgmeData::in_given_units(&table, &labels, &classes, &covariance).unwrap();
    let chain = IqgmeSampler::new(&data, chains(18, 1, 1), 0).unwrap();
    assert!(chain.predict_classes(&table).is_err());
}

/// The ends of the draws are quantiles, too; what lies beyond is not.
#[test]
fn levels_of_quantiles_are_checked() {
    let (table, labels) = three_gaussians(19, 20, 0, 0.2, 0.0);
    let fitted = fit_gibbs(&table, &labels, &chains(19, 1, 8)).unwrap();
    let chains = fitted.chains().iter();
    let draws: Vec<f64> = chains
        .flat_map(|c| c.draws().iter().map(|draw| draw.missing[0]))
        .collect();
    let least = draws.iter().copied().fold(f64::INFINITY, f64::min);
    let most = draws.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let cell = &fitted.training_cells(&[0.0, 0.5, 1.0]).unwrap()[0];
    let units = table.column_stats()[cell.column];
    for (found, wanted) in [(cell.quantiles[0], least), (cell.quantiles[2], most)] {
        let wanted = units.mean + units.sd * wanted;
        assert!((found - wanted).abs() < 1e-9 * units.sd, "{found} {wanted}");
    }
    for level in [f64::NAN, -0.1, 1.5] {
        let error = fitted.training_cells(&[0.5, level]).unwrap_err();
        let wanted = format!("levels = {level:?}: must be between 0 and 1");
        assert_eq!(error.to_string(), wanted);
    }
}
