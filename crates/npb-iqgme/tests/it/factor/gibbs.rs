//! Gibbs sampling and variational Bayes agree.

use std::ops::ControlFlow;

use npb_data::metrics;
use npb_infer::SweepPlan;
use npb_iqgme::{FactorConfig, FactorData, FactorSampler, FactorStart, FactorVb, fit_factor};

use super::data::{Simulation, config};

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
    };
    let (table, labels, _) = simulation.draw(5);
    let (train, test): (Vec<usize>, Vec<usize>) = (0..240).partition(|i| i % 3 > 0);
    let config = FactorConfig {
        truncation: 4,
        max_factors: 4,
        starts: vec![FactorStart::Own(2)],
        ..config(5)
    };
    let (rows, names) = (table.select_rows(&train), labels.select_rows(&train));
    let unseen = table.select_rows(&test);
    let fit = fit_factor(&rows, &names, &config).unwrap();
    let data = FactorData::new(&rows, &names, &config).unwrap();
    let mut vb = FactorVb::new(&data, config.clone(), FactorStart::Own(2), 0).unwrap();
    vb.run(|_, _| ControlFlow::Continue(())).unwrap();

    let mut sampler = FactorSampler::new(&data, config, vb.state(), 0).unwrap();
    let plan = SweepPlan {
        burn_in: 300,
        keep: 900,
        thin: 1,
    };
    let mut kept = 0.0;
    let mut probability = vec![0.0; test.len()];
    let (mut first, mut second) = (Vec::new(), Vec::new());
    sampler
        .run(&plan, |report, sampler| {
            if report.kept {
                kept += 1.0;
                let drawn = sampler.predict_proba(&unseen).unwrap();
                probability
                    .iter_mut()
                    .zip(drawn)
                    .for_each(|(sum, p)| *sum += p);
                let cells = sampler.missing_means();
                first.resize(cells.len(), 0.0);
                second.resize(cells.len(), 0.0);
                for (k, cell) in cells.into_iter().enumerate() {
                    first[k] += cell;
                    second[k] += cell * cell;
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
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
fn the_sampler_finds_factors_from_a_run_without() {
    let (table, labels, _) = Simulation::small().draw(3);
    let config = config(3);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let mut vb = FactorVb::new(&data, config.clone(), FactorStart::NoFactors(1), 0).unwrap();
    vb.run(|_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(vb.state().n_factors(), 0);
    let mut sampler = FactorSampler::new(&data, config, vb.state(), 0).unwrap();
    let used = |sampler: &FactorSampler<'_>| {
        let switches = sampler.draw().switches.iter().flatten();
        switches.filter(|on| **on).count()
    };
    (0..50).for_each(|_| sampler.sweep().unwrap());
    assert!(used(&sampler) > 0);
}
