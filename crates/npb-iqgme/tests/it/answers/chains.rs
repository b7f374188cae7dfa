//! Gibbs chains: every answer is an average over the stored draws, or over all that are kept, chains pooled that do not agree.

use npb_data::{Labels, Table};
use npb_infer::SweepPlan;
use npb_infer::diagnostics::ChainDiagnostics;
use npb_iqgme::npb_infer::Interval;
use npb_iqgme::{
    GibbsConfig, GibbsDraw, GibbsFit, GibbsMove, Init, IqgmeConfig, IqgmeSampler, fit_gibbs,
};

use super::single::{in_units, odd};
use super::written_out::{Part, apart, classes, ln_density, moments, parts_of, standardised};
use crate::data::three_gaussians;
use crate::gaussians::sectors;

/// Short chains from starts far apart, every sweep of which is stored.
fn config(seed: u64, burn_in: u64, keep: u64, thin: u64) -> GibbsConfig {
    GibbsConfig {
        model: IqgmeConfig {
            starts: vec![Init::KMeans(1), Init::KMeans(3), Init::PerClass(2)],
            ..odd(seed)
        },
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin,
        },
        chains: 3,
        stored_draws: keep,
        ..GibbsConfig::default()
    }
}

fn example(seed: u64) -> (Table, Labels, Table) {
    let (table, labels) = three_gaussians(seed, 60, 1, 0.2, 0.1);
    let (new, _) = three_gaussians(seed + 1, 12, 1, 0.35, 0.3);
    (in_units(&table), labels, in_units(&new))
}

fn draws(fitted: &GibbsFit) -> Vec<&GibbsDraw> {
    let chains = fitted.chains().iter();
    chains.flat_map(|chain| chain.draws()).collect()
}

/// Quantile, linear between order statistics.
fn quantile(values: &[f64], level: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = level * (sorted.len() - 1) as f64;
    let below = at as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn answers_are_averages_over_the_draws() {
    let (table, labels, new) = example(81);
    let fitted = fit_gibbs(&table, &labels, &config(81, 1, 6, 1)).unwrap();
    let draws = draws(&fitted);
    assert_eq!((fitted.chains().len(), draws.len()), (3, 18));
    let mixtures: Vec<Vec<Part>> = draws.iter().map(|draw| parts_of(&draw.mixture)).collect();
    let (rows, units) = (standardised(&table, &new), table.column_stats());
    let density = fitted.ln_density(&new).unwrap();
    let both = fitted.predict_classes(&new).unwrap();
    let second = fitted.predict_proba(&new).unwrap();
    let intervals = fitted.predict_class_intervals(&new, 0.8).unwrap();
    let of_second = fitted.predict_interval(&new, 0.8).unwrap();
    let cells = fitted.cells_by_row(&new).unwrap();
    let imputed = fitted.impute(&new).unwrap();
    let names = fitted.predict(&new).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let observed = (0..3).filter(|&j| row[j].is_some());
        let jacobian: f64 = observed.map(|j| units[j].sd.ln()).sum();
        let each: Vec<f64> = mixtures.iter().map(|m| ln_density(m, row).exp()).collect();
        let ln = mean(&each).ln() - jacobian;
        assert!((density[i] - ln).abs() < 1e-8, "{i}: {} {ln}", density[i]);
        let p: Vec<f64> = mixtures.iter().map(|m| classes(m, row, false)[1]).collect();
        assert!(
            (both[i][1] - mean(&p)).abs() < 1e-8 && (both[i][0] + both[i][1] - 1.0).abs() < 1e-12
        );
        assert_eq!(
            (second[i], names[i]),
            (
                both[i][1],
                &*fitted.classes()[usize::from(both[i][1] > both[i][0])]
            )
        );
        // Four fifths of the draws are within, unless the mean is not.
        let ends = [
            quantile(&p, 0.1).min(mean(&p)),
            quantile(&p, 0.9).max(mean(&p)),
        ];
        let Interval {
            lower,
            upper,
            level,
        } = intervals[i][1];
        assert!(apart(&[lower, upper], &ends) < 1e-8, "{i}");
        assert_eq!(level, 0.8);
        assert_eq!(of_second[i], intervals[i][1]);
        assert!((intervals[i][0].lower - (1.0 - upper)).abs() < 1e-8);
        let of_draws: Vec<Vec<[f64; 2]>> = mixtures.iter().map(|m| moments(m, row)).collect();
        let missing = (0..3).filter(|&j| row[j].is_none()).enumerate();
        for ((k, j), cell) in missing.zip(&cells[i]) {
            let [first, second] =
                [0, 1].map(|m| mean(&of_draws.iter().map(|d| d[k][m]).collect::<Vec<_>>()));
            let sd = (second - first * first).sqrt() * units[j].sd;
            let first = units[j].mean + units[j].sd * first;
            assert!((cell.mean - first).abs() < 1e-4 * units[j].sd, "{i} {j}");
            assert!(
                (cell.sd / sd - 1.0).abs() < 1e-3,
                "{i} {j}: {} {sd}",
                cell.sd
            );
            assert_eq!(imputed.completed.get(i, j), Some(cell.mean));
            assert_eq!(imputed.sd.get(i, j), Some(cell.sd));
        }
    }
}

/// Three classes: all of them, by draw and on average.
#[test]
fn three_classes_are_averages_over_the_draws() {
    let (table, labels) = sectors(83, 60, 3, 0.1, 0.1);
    let (new, _) = sectors(84, 5, 3, 0.2, 0.0);
    let fitted = fit_gibbs(&table, &labels, &config(83, 2, 3, 1)).unwrap();
    let rows = standardised(&table, &new);
    let found = fitted.predict_classes(&new).unwrap();
    let intervals = fitted.predict_class_intervals(&new, 0.5).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let each: Vec<Vec<f64>> = draws(&fitted)
            .iter()
            .map(|draw| classes(&parts_of(&draw.mixture), row, false))
            .collect();
        for k in 0..3 {
            let of: Vec<f64> = each.iter().map(|p| p[k]).collect();
            assert!(
                (found[i][k] - mean(&of)).abs() < 0.015,
                "{i} {k}: {:?}",
                found[i]
            );
            let (lower, upper) = (
                quantile(&of, 0.25).min(mean(&of)),
                quantile(&of, 0.75).max(mean(&of)),
            );
            assert!(
                (intervals[i][k].lower - lower).abs() < 0.02
                    && (intervals[i][k].upper - upper).abs() < 0.02
            );
        }
    }
}

/// Scalars of every second sweep after the first three: what is kept of the traces, and what is told of it.
#[test]
fn scalars_are_those_of_the_kept_sweeps() {
    let (table, labels, _) = example(85);
    let config = GibbsConfig {
        stored_draws: 4,
        ..config(85, 3, 8, 2)
    };
    let fitted = fit_gibbs(&table, &labels, &config).unwrap();
    let names = IqgmeSampler::scalar_names();
    let kept = |scalar: usize| -> Vec<Vec<f64>> {
        let of = |chain: &npb_iqgme::GibbsChain| {
            assert_eq!(chain.trace.n_sweeps(), 3 + 16);
            let column: Vec<f64> = chain.trace.column(scalar).collect();
            (0..8).map(|k| column[3 + 2 * k + 1]).collect()
        };
        fitted.chains().iter().map(of).collect()
    };
    let diagnostics = fitted.diagnostics();
    for (scalar, name) in names.iter().enumerate() {
        assert_eq!(fitted.scalar(name), kept(scalar).concat(), "{name}");
        assert_eq!(diagnostics[scalar].0, *name);
        assert_eq!(diagnostics[scalar].1, ChainDiagnostics::new(&kept(scalar)));
    }
    assert!(fitted.scalar("no such").is_empty());
    let clusters = kept(1).concat();
    let found = fitted.cluster_distribution();
    for (k, share) in found.iter().enumerate() {
        let count = clusters.iter().filter(|c| **c == k as f64).count();
        assert!(
            (share - count as f64 / 24.0).abs() < 1e-12,
            "{k}: {found:?}"
        );
    }
    assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(fitted.chains().iter().all(|chain| chain.draws().len() == 4));
}

/// Missing cells of the rows of training over all kept sweeps of all chains, which are at different places.
#[test]
fn cells_of_training_are_moments_over_all_chains() {
    let (table, labels, _) = example(87);
    let fitted = fit_gibbs(&table, &labels, &config(87, 0, 7, 1)).unwrap();
    let (draws, units) = (draws(&fitted), table.column_stats());
    let cells = fitted.training_cells(&[0.2, 0.9]).unwrap();
    let missing: Vec<[usize; 2]> = (0..60)
        .flat_map(|i| (0..3).map(move |j| [i, j]))
        .filter(|[i, j]| !table.is_observed(*i, *j))
        .collect();
    assert_eq!(
        cells.iter().map(|c| [c.row, c.column]).collect::<Vec<_>>(),
        missing
    );
    for (k, cell) in cells.iter().enumerate() {
        let unit = units[cell.column];
        let values: Vec<f64> = draws
            .iter()
            .map(|draw| unit.mean + unit.sd * draw.missing[k])
            .collect();
        let squares: f64 = values.iter().map(|v| (v - mean(&values)).powi(2)).sum();
        assert!((cell.mean - mean(&values)).abs() < 1e-9 * unit.sd);
        assert!((cell.sd / (squares / 20.0).sqrt() - 1.0).abs() < 1e-9);
        let wanted = [0.2, 0.9].map(|level| quantile(&values, level));
        assert!(apart(&cell.quantiles, &wanted) < 1e-9);
    }
}

/// Moves that are not made leave their part as it was; chains start from the starts in turn, and other seeds make other chains.
#[test]
fn moves_starts_and_seeds_are_taken_from_the_configuration() {
    let (table, labels, _) = example(89);
    let all = config(89, 0, 2, 1);
    let without: Vec<GibbsMove> = GibbsMove::SWEEP
        .into_iter()
        .filter(|m| *m != GibbsMove::Concentration)
        .collect();
    let still = GibbsConfig {
        moves: without,
        ..all.clone()
    };
    let fitted = fit_gibbs(&table, &labels, &still).unwrap();
    let alpha = |fitted: &GibbsFit| -> Vec<f64> { fitted.chains()[0].trace.column(0).collect() };
    assert_eq!(alpha(&fitted)[0], alpha(&fitted)[1]);
    let moving = fit_gibbs(&table, &labels, &all).unwrap();
    assert_ne!(alpha(&moving)[0], alpha(&moving)[1]);
    let other = GibbsConfig {
        model: IqgmeConfig {
            seed: 90,
            ..all.model.clone()
        },
        ..all
    };
    assert_ne!(
        alpha(&fit_gibbs(&table, &labels, &other).unwrap()),
        alpha(&moving)
    );
    // With nothing but draws of parameters chains are as many clusters as their starts.
    let fixed = GibbsConfig {
        moves: vec![GibbsMove::Components, GibbsMove::Experts],
        ..still
    };
    let fitted = fit_gibbs(&table, &labels, &fixed).unwrap();
    let clusters = fitted
        .chains()
        .iter()
        .map(|chain| chain.trace.column(1).next().unwrap());
    let clusters: Vec<f64> = clusters.collect();
    assert_eq!(clusters[..2], [1.0, 3.0]);
    assert!(clusters[2] >= 2.0 && clusters[2] <= 4.0);
}
