//! The variational fit of one table.

use npb_data::{Labels, Mask, Table};
use npb_infer::VbLimits;
use npb_iqgme::{
    FeatureScale, Init, IqgmeConfig, IqgmeData, IqgmeFit, IqgmeState, IqgmeVb, Member, fit,
    fit_unlabelled,
};
use npb_priors::special::ln_gamma;
use npb_priors::{GammaPrior, NormalScore};

use super::written_out::{
    Part, Row, apart, below, calibrated, classes, ln_density, moments, parts, responsibilities,
    square, standardised, weights_of_sticks,
};
use crate::data::three_gaussians;
use crate::gaussians::sectors;

/// All priors and rules off their defaults.
pub(super) fn odd(seed: u64) -> IqgmeConfig {
    IqgmeConfig {
        truncation: 6,
        concentration: GammaPrior {
            shape: 2.0,
            rate: 0.7,
        },
        mean_strength: 0.4,
        dof_excess: 3.5,
        dof_per_feature: 0.5,
        expert: GammaPrior {
            shape: 2.0,
            rate: 1.5,
        },
        expert_mean_strength: 3.0,
        starts: vec![Init::KMeans(3), Init::PerClass(1)],
        unlabelled_starts: vec![Init::KMeans(3), Init::KMeans(1)],
        folds: 3,
        elbo_temperature: 5.0,
        limits: VbLimits {
            max_iterations: 60,
            tolerance: 1e-6,
        },
        seed,
        ..IqgmeConfig::default()
    }
}

/// The same table in units far from one.
pub(super) fn in_units(table: &Table) -> Table {
    let scale = [3.0, -0.01, 20.0];
    table
        .map(|_, j, x| 50.0 * (j + 1) as f64 + scale[j] * x)
        .unwrap()
}

/// Rows of a table on each scale of a fit.
fn by_scale(of: &Table, table: &Table) -> [Vec<Row>; 2] {
    let score = |j: usize| NormalScore::fit(of.observed_in_column(j).collect());
    let scores: Vec<NormalScore> = (0..of.n_cols()).map(score).collect();
    let on = |table: &Table| table.map(|_, j, x| scores[j].score(x)).unwrap();
    [standardised(of, table), standardised(&on(of), &on(table))]
}

/// The components of a state, the last of which stands for all that are vacant.
fn of_state(state: &IqgmeState, student: bool) -> Vec<Part> {
    let mut weights = weights_of_sticks(state.sticks.sticks().parameters());
    let n = state.components.len();
    let rest: f64 = weights.drain(n..).sum();
    weights[n - 1] += rest;
    parts(&state.components, &weights, &state.experts, student)
}

/// What a fit should say of the classes of a row: with calibration and uncertain experts, or without.
fn wanted(fitted: &IqgmeFit, rows: &[Vec<Row>; 2], i: usize, plug_in: bool) -> Vec<f64> {
    let mut sums = vec![0.0; fitted.classes().len()];
    for member in fitted.members() {
        let row = &rows[member.scale as usize][i];
        let mut own = classes(&of_state(&member.state, false), row, !plug_in);
        if !plug_in {
            own = calibrated(&member.calibration, &own);
        }
        let each = sums.iter_mut().zip(own);
        each.for_each(|(sum, p)| *sum += member.stacking_weight * p);
    }
    sums
}

/// Two starts on two scales, all of which weigh, none as it was found.
fn all_have_a_part(members: &[Member]) {
    assert_eq!(members.len(), 4);
    assert!(members.iter().all(|m| m.stacking_weight > 1e-3));
    assert!(members[..2].iter().all(|m| m.elbo_weight > 1e-3));
    let sharp = |m: &Member| m.calibration.inverse_temperature != 1.0;
    assert!(members.iter().any(sharp));
}

/// Rows with holes in columns of other units, priors off their defaults, four members on two scales.
#[test]
fn answers_are_those_of_the_posterior() {
    let (table, labels) = three_gaussians(51, 100, 1, 0.2, 0.1);
    let (new, _) = three_gaussians(52, 16, 1, 0.35, 0.3);
    let (table, new) = (in_units(&table), in_units(&new));
    let fitted = fit(&table, &labels, &odd(51)).unwrap();
    let members = fitted.members();
    all_have_a_part(members);
    let rows = by_scale(&table, &new);
    let units = table.column_stats();

    let density = fitted.ln_density(&new).unwrap();
    let both = fitted.predict_classes(&new).unwrap();
    let second = fitted.predict_proba(&new).unwrap();
    let plug_in = fitted.predict_plug_in(&new).unwrap();
    let best = fitted.predict(&new).unwrap();
    let shares = fitted.responsibilities(&new).unwrap();
    let clusters = fitted.clusters(&new).unwrap();
    let cells = fitted.cells_by_row(&new).unwrap();
    let own: Vec<(f64, Vec<Part>)> = members[..2]
        .iter()
        .map(|m| (m.elbo_weight, of_state(&m.state, true)))
        .collect();
    for i in 0..16 {
        let row = &rows[0][i];
        // Densities are of the features' own scale, for which members weigh by their bounds.
        let each = own
            .iter()
            .map(|(w, parts)| w * ln_density(parts, row).exp());
        let observed = (0..3).filter(|&j| row[j].is_some());
        let jacobian: f64 = observed.map(|j| units[j].sd.ln()).sum();
        let ln = each.sum::<f64>().ln() - jacobian;
        assert!((density[i] - ln).abs() < 1e-9, "{i}: {} {ln}", density[i]);

        let p = wanted(&fitted, &rows, i, false);
        assert!(apart(&both[i], &p) < 1e-9, "{i}: {:?} {p:?}", both[i]);
        assert_eq!(second[i], both[i][1]);
        assert_eq!(best[i], fitted.classes()[usize::from(p[1] > p[0])]);
        let p = wanted(&fitted, &rows, i, true)[1];
        assert!((plug_in[i] - p).abs() < 1e-9, "{i}: {} {p}", plug_in[i]);

        let r = responsibilities(&own[0].1, row);
        assert!(apart(&shares[i], &r) < 1e-9, "{i}: {:?} {r:?}", shares[i]);
        assert!(r.iter().all(|r| *r <= shares[i][clusters[i]] + 1e-12));

        let mut sums = vec![[0.0; 2]; cells[i].len()];
        for (weight, parts) in &own {
            for (sum, own) in sums.iter_mut().zip(moments(parts, row)) {
                (0..2).for_each(|k| sum[k] += weight * own[k]);
            }
        }
        let missing = (0..3).filter(|&j| row[j].is_none());
        for ((j, cell), [mean, second]) in missing.zip(&cells[i]).zip(sums) {
            let sd = (second - mean * mean).sqrt() * units[j].sd;
            let mean = units[j].mean + units[j].sd * mean;
            assert_eq!(cell.column, j);
            assert!((cell.mean - mean).abs() < 1e-9 * units[j].sd, "{i} {j}");
            assert!((cell.sd / sd - 1.0).abs() < 1e-9, "{i} {j}: {}", cell.sd);
        }
    }
}

/// The distribution of a missing cell, by summing the density of the row along it.
#[test]
fn distributions_of_cells_are_those_of_the_joint_density() {
    let (table, labels) = three_gaussians(53, 80, 1, 0.2, 0.1);
    let table = in_units(&table);
    let mut config = odd(53);
    (config.normal_scores, config.folds) = (false, 0);
    let fitted = fit(&table, &labels, &config).unwrap();
    let row = Table::new(1, 3, vec![51.0, 100.01, 0.0], &[true, true, false]).unwrap();
    let standard = standardised(&table, &row).swap_remove(0);
    let unit = table.column_stats()[2];
    let cell = &fitted.cells_by_row(&row).unwrap()[0][0];
    let values = [-1.7, -0.4, 0.1, 0.9];
    let mut shares = vec![0.0; 4];
    for member in fitted.members() {
        let own = below(&of_state(&member.state, true), &standard, 2, &values);
        let each = shares.iter_mut().zip(own);
        each.for_each(|(share, own)| *share += member.elbo_weight * own);
    }
    for (value, share) in values.iter().zip(shares) {
        let value = unit.mean + unit.sd * value;
        let found = cell.cdf(value);
        assert!((found - share).abs() < 1e-4, "{value}: {found} {share}");
        let back = cell.quantile(share).unwrap();
        assert!((back - value).abs() < 5e-3 * unit.sd, "{value}: {back}");
    }
}

/// Three classes, with offsets: probabilities by summing over the two utilities.
#[test]
fn probabilities_of_three_classes_are_those_of_the_largest_utility() {
    let (table, labels) = sectors(54, 90, 3, 0.15, 0.1);
    let (new, _) = sectors(55, 8, 3, 0.3, 0.3);
    let fitted = fit(&table, &labels, &odd(54)).unwrap();
    let rows = by_scale(&table, &new);
    let found = fitted.predict_classes(&new).unwrap();
    let offsets = fitted.members().iter().map(|m| &m.calibration.class_offset);
    assert!(offsets.filter(|of| of.len() == 3).count() > 1);
    for (i, found) in found.iter().enumerate() {
        let p = wanted(&fitted, &rows, i, false);
        let complete = rows[0][i].iter().all(Option::is_some);
        let tolerance = if complete { 2e-3 } else { 0.015 };
        assert!(apart(found, &p) < tolerance, "{i}: {found:?} {p:?}");
    }
}

/// Sizes, weights, means, covariances and classifiers of components, from the posterior of the best run.
#[test]
fn components_are_told_in_the_units_of_the_table() {
    let (table, labels) = three_gaussians(56, 90, 1, 0.2, 0.1);
    let table = in_units(&table);
    let mut config = odd(56);
    (config.normal_scores, config.folds) = (false, 0);
    let fitted = fit(&table, &labels, &config).unwrap();
    let (state, units) = (fitted.state(), table.column_stats());
    let sticks = state.sticks.sticks().parameters();
    let means = weights_of_sticks(sticks);
    // Second moments: products of those of independent sticks.
    let (mut rest, mut second) = (1.0, Vec::new());
    for [a, b] in sticks {
        let both = (a + b) * (a + b + 1.0);
        second.push(rest * a * (a + 1.0) / both);
        rest *= b * (b + 1.0) / both;
    }
    second.push(rest);
    let components = fitted.components();
    assert!(components.len() >= 2);
    let holds_rows = |h: &usize| state.components[*h].strength > 0.4;
    let kept: Vec<usize> = (0..state.components.len()).filter(holds_rows).collect();
    assert_eq!(components.len(), kept.len());
    let mut with_rows = 0;
    for (component, &h) in components.iter().zip(&kept) {
        let own = &state.components[h];
        assert!((component.weight - means[h]).abs() < 1e-12);
        let variance = second[h] - means[h] * means[h];
        assert!((component.weight_sd / variance.sqrt() - 1.0).abs() < 1e-6);
        assert!((component.size - (own.strength - 0.4)).abs() < 1e-12);
        // Rows and degrees of freedom are counted alike: 3 + 3.5 + 1.5 of the prior.
        assert!((component.size - (own.dof - 8.0)).abs() < 1e-9);
        with_rows += usize::from(component.size > 1.0 - 1e-6);
        let classifier = component.classifier.as_ref().unwrap();
        let expert = &state.experts[h];
        for j in 0..3 {
            let mean = units[j].mean + units[j].sd * own.mean[j];
            assert!((component.mean[j] - mean).abs() < 1e-9 * units[j].sd);
            for i in 0..3 {
                let covariance = own.scale_inverse[(i, j)] / (own.dof - 4.0);
                let covariance = covariance * units[i].sd * units[j].sd;
                let found = component.covariance[(i, j)];
                assert!((found - covariance).abs() < 1e-9 * units[i].sd * units[j].sd);
            }
            assert_eq!(classifier.effects[j], expert.mean[j]);
            let sd = fitted.best().derived[h].covariance[(j, j)].sqrt();
            assert!((classifier.effect_sds[j] - sd).abs() < 1e-12);
        }
        // The score of a point is the same in both units.
        let point = [0.3, -1.2, 0.7];
        let standard: f64 = (0..3).map(|j| expert.mean[j] * point[j]).sum();
        let own = |j: usize| units[j].mean + units[j].sd * point[j];
        let score: f64 = (0..3).map(|j| classifier.coefficients[j] * own(j)).sum();
        let (found, wanted) = (classifier.intercept + score, standard + expert.mean[3]);
        assert!((found - wanted).abs() < 1e-8, "{found} {wanted}");
    }
    assert_eq!(fitted.n_clusters(), with_rows);
}

/// Two weights, V and 1 - V: how many exceed a threshold is the integral of a Beta density.
#[test]
fn dominant_components_are_counted_as_the_sticks_have_them() {
    let (table, _) = three_gaussians(57, 40, 0, 0.0, 0.0);
    let config = IqgmeConfig {
        truncation: 2,
        ..odd(57)
    };
    let fitted = fit_unlabelled(&table, &config).unwrap();
    let [a, b] = fitted.state().sticks.sticks().parameters()[0];
    let ln_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    for threshold in [0.3, 0.4, 0.6, 0.7] {
        let mut wanted = vec![0.0; 3];
        for k in 0..10_000 {
            let v = (f64::from(k) + 0.5) / 1e4;
            let ln = (a - 1.0) * v.ln() + (b - 1.0) * (1.0 - v).ln() - ln_beta;
            let above = [v, 1.0 - v].iter().filter(|w| **w > threshold).count();
            wanted[above] += 1e-4 * ln.exp();
        }
        let mut found = fitted.dominant_components(threshold, 40_000).unwrap();
        found.resize(3, 0.0);
        assert!(apart(&found, &wanted) < 0.012, "{found:?} {wanted:?}");
    }
}

/// One component, one hole: the others' rows alone give the posterior that the hole is of.
#[test]
fn cells_of_training_are_given_the_other_rows() {
    let (table, _) = three_gaussians(58, 70, 1, 0.0, 0.0);
    let hole = Mask::from_fn(70, 3, |row, j| (row, j) == (5, 1)).unwrap();
    let table = in_units(&table).hide(&hole).unwrap();
    let labels = Labels::from_strings(&[None::<&str>; 70]);
    let config = IqgmeConfig {
        truncation: 1,
        unlabelled_starts: vec![Init::KMeans(1)],
        ..odd(58)
    };
    let fitted = fit_unlabelled(&table, &config).unwrap();
    let data = IqgmeData::new(&table, &labels, &config).unwrap();
    let vb = IqgmeVb::new(&data, config, Init::KMeans(1), 0).unwrap();
    let mut component = fitted.state().components[0].clone();
    let mut scale = square(&vb.prior_scale_inverse());
    let rows = standardised(&table, &table);
    let (u, mut sums) = (0.4 + 69.0, vec![0.0; 3]);
    for (i, row) in rows.iter().enumerate().filter(|(i, _)| *i != 5) {
        let x: Vec<f64> = row.iter().map(|x| x.unwrap()).collect();
        assert_eq!(x.len(), 3, "{i}");
        for j in 0..3 {
            sums[j] += x[j];
            (0..3).for_each(|k| scale[j][k] += x[j] * x[k]);
        }
    }
    component.mean = sums.iter().map(|sum| sum / u).collect();
    for j in 0..3 {
        for k in 0..3 {
            component.scale_inverse[(j, k)] =
                scale[j][k] - u * component.mean[j] * component.mean[k];
        }
    }
    (component.strength, component.dof) = (u, 8.0 + 69.0);
    let without = parts(&[component], &[1.0], &[], true);
    let [mean, second] = moments(&without, &rows[5])[0];
    let unit = table.column_stats()[1];
    let cells = fitted.training_cells(&table, &labels).unwrap();
    assert!(
        cells
            .iter()
            .enumerate()
            .all(|(i, of)| of.is_empty() == (i != 5))
    );
    let cell = &cells[5][0];
    let (mean, sd) = (
        unit.mean + unit.sd * mean,
        unit.sd * (second - mean * mean).sqrt(),
    );
    assert!((cell.mean - mean).abs() < 1e-9 * unit.sd);
    assert!((cell.sd / sd - 1.0).abs() < 1e-9, "{} {sd}", cell.sd);
    let imputed = fitted.impute_training(&table, &labels).unwrap();
    assert_eq!(imputed.completed.get(5, 1), Some(cell.mean));
    assert_eq!(imputed.sd.get(5, 1), Some(cell.sd));
    // As a new row it is used twice.
    let twice = &fitted.cells_by_row(&table).unwrap()[5][0];
    assert!((twice.sd / sd - 1.0).abs() > 1e-4);
}

/// The scale does not matter to runs on normal scores, if the order of values is kept.
#[test]
fn runs_on_normal_scores_are_of_ranks_alone() {
    let (table, labels) = three_gaussians(59, 60, 1, 0.1, 0.0);
    let bent = |_: usize, j: usize, x: f64| match j {
        0 => (0.7 * x).exp(),
        1 => x * x * x + x,
        _ => x.atan(),
    };
    let mut config = odd(59);
    config.folds = 2;
    let runs = [table.clone(), table.map(bent).unwrap()].map(|table| {
        let fitted = fit(&table, &labels, &config).unwrap();
        let on_scores = |m: &&Member| m.scale == FeatureScale::NormalScores;
        let runs = fitted.members().iter().filter(on_scores);
        let each = runs.map(|m| (m.elbo(), m.state.components[0].mean.clone()));
        each.collect::<Vec<_>>()
    });
    assert_eq!(runs[0].len(), 2);
    for (a, b) in runs[0].iter().zip(&runs[1]) {
        assert!((a.0 - b.0).abs() < 1e-9 * a.0.abs(), "{} {}", a.0, b.0);
        assert!(apart(&a.1, &b.1) < 1e-9);
    }
    // On scores a column is normal: what is said there is not what is said of the features.
    let moved = fit(&table, &labels, &config).unwrap().members()[0].elbo();
    assert!(runs[0].iter().all(|(elbo, _)| (elbo - moved).abs() > 1e-3));
}
