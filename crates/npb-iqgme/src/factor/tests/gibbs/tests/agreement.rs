//! Gibbs sampling and variational Bayes agree.

use npb_data::metrics;
use npb_infer::{VbLimits, VbReport};
use npb_priors::special::ln_phi;

use super::super::{FactorDraw, FactorMove, FactorSampler};
use crate::factor::vb::tests::simulated::{Simulation, config};
use crate::{FactorConfig, FactorData, FactorInit, FactorVb, fit_factor};

#[test]
fn the_two_agree_on_classes_and_missing_cells() {
    let simulation = Simulation {
        n: 240,
        p: 20,
        used: vec![vec![0, 1], vec![2]],
        apart: 1.5,
        noise: 0.7,
        missing: 0.1,
        unlabelled: 0.0,
        classes: 2,
    };
    let (table, labels, _) = simulation.draw(5);
    let (train, test): (Vec<usize>, Vec<usize>) = (0..240).partition(|i| i % 3 > 0);
    let config = FactorConfig {
        truncation: 4,
        max_factors: 4,
        starts: vec![FactorInit::Own(2)],
        ..config(5)
    };
    let (rows, names) = (table.select_rows(&train), labels.select_rows(&train));
    let unseen = table.select_rows(&test);
    let fit = fit_factor(&rows, &names, &config).unwrap();
    let data = FactorData::new(&rows, &names, &config).unwrap();
    let mut vb = FactorVb::new(&data, config.clone(), FactorInit::Own(2), 0).unwrap();
    let mut trace = Vec::new();
    while config.limits.reached(&trace).is_none() {
        let bound = vb.step().unwrap();
        trace.push(VbReport::after(trace.last(), bound));
    }

    let mut sampler = FactorSampler::new(&data, config, vb.state(), 0).unwrap();
    let (burn_in, keep) = (300, 900);
    let mut kept = 0.0;
    let mut probability = vec![0.0; test.len()];
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for sweep in 1..=burn_in + keep {
        sampler.sweep().unwrap();
        if sweep <= burn_in {
            continue;
        }
        kept += 1.0;
        let drawn = sampler.predict_proba(&unseen).unwrap();
        let each = probability.iter_mut().zip(drawn);
        each.for_each(|(sum, p)| *sum += p);
        let cells = sampler.missing_means();
        first.resize(cells.len(), 0.0);
        second.resize(cells.len(), 0.0);
        for (k, cell) in cells.into_iter().enumerate() {
            first[k] += cell;
            second[k] += cell * cell;
        }
    }
    let truth: Vec<bool> = test
        .iter()
        .map(|&i| labels.name(i) == Some(fit.classes()[1].as_str()))
        .collect();
    let by_vb = metrics::auc(&fit.predict_proba(&unseen).unwrap(), &truth).unwrap();
    let by_gibbs = metrics::auc(&probability, &truth).unwrap();
    assert!((by_vb - by_gibbs).abs() < 0.01, "{by_vb} {by_gibbs}");

    // In the order of the sampler: missing patterns in the order of their first rows.
    let imputed = fit.impute(&rows).unwrap();
    let standardiser = npb_data::Standardiser::fit(&rows);
    let mut patterns: Vec<(Vec<bool>, Vec<usize>)> = Vec::new();
    for i in 0..rows.n_rows() {
        let seen: Vec<bool> = (0..20).map(|j| rows.is_observed(i, j)).collect();
        match patterns.iter_mut().find(|(pattern, _)| *pattern == seen) {
            Some((_, members)) => members.push(i),
            None => patterns.push((seen, vec![i])),
        }
    }
    let mut cells = Vec::new();
    for (seen, members) in patterns {
        for i in members {
            cells.extend((0..20).filter(|&j| !seen[j]).map(|j| (i, j)));
        }
    }
    assert_eq!(cells.len(), first.len());
    let mut far = 0;
    for (k, &(i, j)) in cells.iter().enumerate() {
        let mean = first[k] / kept;
        let noise = imputed.sd.get(i, j).unwrap() / standardiser.sd()[j];
        let filled = imputed.completed.get(i, j).unwrap();
        let by_vb = (filled - standardiser.mean()[j]) / standardiser.sd()[j];
        far += usize::from((by_vb - mean).abs() > noise);
    }
    assert!(far * 50 < cells.len(), "{far} of {}", cells.len());
}

#[test]
fn a_chain_goes_on_from_a_draw_and_repeated_moves_draw_anew() {
    let (table, labels, _) = Simulation::small().draw(4);
    let config = config(4);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let start = FactorVb::new(&data, config.clone(), FactorInit::Pooled(2), 0).unwrap();
    let start = start.into_state();
    let new = || FactorSampler::new(&data, config.clone(), &start, 3).unwrap();
    let mut whole = new();
    (0..5).for_each(|_| whole.sweep().unwrap());
    let mut first = new();
    (0..2).for_each(|_| first.sweep().unwrap());
    let draw = first.draw().clone();
    let mut rest = FactorSampler::resume(&data, config.clone(), draw.clone(), 3, 2).unwrap();
    (0..3).for_each(|_| rest.sweep().unwrap());
    assert_eq!(rest.draw().scores, whole.draw().scores);
    assert_eq!(rest.draw().coefficients, whole.draw().coefficients);

    let mut noise = Vec::new();
    for _ in 0..2 {
        rest.apply(FactorMove::ClusterNoise).unwrap();
        noise.push(rest.draw().cluster_noise.clone());
    }
    assert_ne!(noise[0], noise[1]);

    let error = rest.with_moves(&[]).err().unwrap().to_string();
    assert!(error.contains("moves"), "{error}");
    let last = FactorSampler::resume(&data, config.clone(), draw.clone(), 3, u64::MAX);
    assert!(last.is_err_and(|error| error.to_string().contains("sweep")));
    let short = FactorDraw {
        labels: vec![0],
        ..draw
    };
    let error = FactorSampler::resume(&data, config, short, 3, 2);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("labels"), "{error}");
}

/// Monitored is what factors, indicators and experts of the draw say of the labels; with the indicators left out it is another number.
#[test]
fn the_log_probability_of_the_labels_is_monitored() {
    let (table, labels, _) = Simulation::small().draw(5);
    let config = config(5);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let start = FactorVb::new(&data, config.clone(), FactorInit::Pooled(2), 0).unwrap();
    let start = start.into_state();
    let mut sampler = FactorSampler::new(&data, config, &start, 0).unwrap();
    let second = labels.classes()[1].clone();
    let by_hand = |draw: &FactorDraw, all_on: bool| -> f64 {
        let of_row = |i: usize| {
            let class = labels.name(i)?;
            let h = draw.labels[i];
            let (intercept, slopes) = draw.experts[h].split_last().unwrap();
            let seen = |l: &usize| all_on || draw.indicators[h][*l];
            let of_factors: f64 = (0..slopes.len())
                .filter(seen)
                .map(|l| slopes[l] * draw.factors[(l, i)])
                .sum();
            let sign = if class == second { 1.0 } else { -1.0 };
            Some(ln_phi(sign * (of_factors + intercept)))
        };
        (0..labels.n_rows()).filter_map(of_row).sum()
    };
    for _ in 0..3 {
        sampler.sweep().unwrap();
        let (found, draw) = (sampler.scalars()[4], sampler.draw());
        assert!((found - by_hand(draw, false)).abs() < 1e-9 * found.abs());
        assert!((found - by_hand(draw, true)).abs() > 1e-3);
    }
}

#[test]
fn three_classes_agree() {
    let (table, labels, _) = Simulation {
        n: 600,
        p: 12,
        used: vec![vec![0, 1, 2]],
        apart: 1.5,
        noise: 1.0,
        missing: 0.2,
        unlabelled: 0.1,
        classes: 3,
    }
    .draw(8);
    let part = |rows: std::ops::Range<usize>| {
        let rows: Vec<usize> = rows.collect();
        (table.select_rows(&rows), labels.select_rows(&rows))
    };
    let (train, names) = part(0..500);
    let (test, truth) = part(500..600);
    let config = FactorConfig {
        truncation: 2,
        max_factors: 4,
        starts: vec![FactorInit::Pooled(1)],
        limits: VbLimits {
            max_iterations: 60,
            ..FactorConfig::default().limits
        },
        folds: 0,
        ..config(8)
    };
    let fit = fit_factor(&train, &names, &config).unwrap();
    let data = FactorData::new(&train, &names, fit.config()).unwrap();
    let mut sampler = FactorSampler::new(&data, fit.config().clone(), fit.state(), 0).unwrap();
    let (burn_in, keep) = (100, 300);
    let mut mean = vec![[0.0; 3]; 100];
    for sweep in 1..=burn_in + keep {
        sampler.sweep().unwrap();
        if sweep > burn_in {
            for (mean, p) in mean.iter_mut().zip(sampler.predict_classes(&test).unwrap()) {
                (0..3).for_each(|c| mean[c] += p[c] / f64::from(keep));
            }
        }
    }
    let variational = fit.predict_classes(&test).unwrap();
    // The variational posterior takes scores for data and is less sure; which class is more probable than which hardly differs.
    let (mut apart, mut right, mut n) = (0.0, 0.0, 0.0);
    for i in 0..100 {
        let Some(name) = truth.name(i) else { continue };
        let best = (0..3).fold(
            0,
            |best, c| if mean[i][c] > mean[i][best] { c } else { best },
        );
        apart += (0..3)
            .map(|c| (mean[i][c] - variational[i][c]).abs())
            .sum::<f64>()
            / 3.0;
        right += f64::from(u8::from(fit.classes()[best] == name));
        n += 1.0;
    }
    let predicted = fit.predict(&test).unwrap().into_iter().enumerate();
    let by_fit = predicted
        .filter(|(i, name)| truth.name(*i) == Some(name))
        .count() as f64
        / n;
    assert!(apart / n < 0.1, "{}", apart / n);
    assert!((right / n - by_fit).abs() < 0.08, "{} {by_fit}", right / n);
    assert!(sampler.predict_proba(&test).is_err());
}
