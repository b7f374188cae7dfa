//! The alternation with labels: accepted blocks, exact updates, kinks.

use npb_linalg::faer::Mat;

use super::*;
use crate::alternate::{Alternation, Supervision};
use crate::classes::{ClassMargins, PreparedClasses, problem_of};
use crate::config::{IlsvmConfig, LabelUpdate};
use crate::inputs::MapConfig;
use crate::loss::Slack;
use crate::tasks::{PreparedTasks, TaskMargins};

/// Rounding of an objective, as in `BoundMonitor`.
fn rounding(objective: f64) -> f64 {
    1e-10 * (1.0 + objective.abs())
}

/// Applies blocks in random order; each may only lower the objective.
fn never_rises<S: Supervision>(
    alternation: &mut Alternation<'_, S>,
    rng: &mut Xoshiro256PlusPlus,
    name: &str,
) {
    alternation.solve().unwrap();
    let mut last = alternation.objective();
    for n in 0..20 {
        let block = rng.random_range(0..7);
        match block {
            0 => alternation.factors.update_sticks(),
            1 => alternation.factors.update_loadings(1).unwrap(),
            2 => alternation.factors.update_noise(),
            3 => alternation.factors.update_loading_scale(),
            4 => alternation.factors.update_concentration(),
            5 => {
                alternation.sweep(1).unwrap();
            }
            _ => {
                alternation.step(1).unwrap();
            }
        }
        let objective = alternation.objective();
        assert!(
            objective <= last + rounding(last),
            "{name}, update {n} (block {block}): {last} -> {objective}"
        );
        last = objective;
    }
}

fn settings(rng: &mut Xoshiro256PlusPlus, number: u64) -> IlsvmConfig {
    let k = rng.random_range(1..6);
    IlsvmConfig {
        factors: factors(rng, k),
        cost: [0.1, 1.0, 5.0][number as usize % 3],
        label_update: if number.is_multiple_of(2) {
            LabelUpdate::Profiled
        } else {
            LabelUpdate::Exact
        },
        raw_inputs: if number % 4 < 2 { 0.0 } else { 0.5 },
        ones: f64::from(u8::from(!number.is_multiple_of(5))),
        label_weight: [1.0, 0.2, 20.0][number as usize / 3 % 3],
        inner_sweeps: 3,
        map: number.is_multiple_of(7).then_some(MapConfig {
            features: 6,
            ..MapConfig::default()
        }),
        seed: number,
        ..IlsvmConfig::default()
    }
}

#[test]
fn the_objective_never_rises_over_accepted_blocks() {
    for number in 0..24 {
        let rng = &mut case(number);
        let missing = if number.is_multiple_of(3) { 0.3 } else { 0.0 };
        let table = table(24, 5, missing, rng);
        let mut config = settings(rng, number);
        if number.is_multiple_of(8) {
            config.slack = Slack::Squared;
        }
        let data = tasks(&table, rng);
        let prepared = PreparedTasks::new(&data, &config).unwrap();
        let problem = prepared.problem(&data.tasks, &config);
        let mut run = prepared
            .core
            .alternation(TaskMargins::new(problem), &config);
        never_rises(&mut run, rng, &format!("tasks {number}"));

        let mut config = settings(rng, number);
        if number % 8 == 4 {
            config.slack = Slack::Squared;
        }
        let labels = classes(&table, rng);
        let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
        let problem = problem_of(&prepared, &labels, &config);
        let mut run = prepared.0.alternation(ClassMargins::new(problem), &config);
        never_rises(&mut run, rng, &format!("classes {number}"));
    }
}

/// Sweeps of the Lagrangian taken as they are: it falls in each (R (27), (33)), `L + loss` often rises, which is what acceptance is for. How often it rose.
fn rises_under_the_lagrangian<S: Supervision>(run: &mut Alternation<'_, S>, name: &str) -> u32 {
    let lagrangian = |run: &Alternation<'_, S>, pull: &Mat<f64>| {
        let psi = &run.factors.state.indicators;
        let own = |i: usize| npb_linalg::dot(pull.col_as_slice(i), psi.col_as_slice(i));
        -run.factors.elbo() - (0..psi.ncols()).map(own).sum::<f64>()
    };
    let mut rises = 0;
    run.solve().unwrap();
    for _ in 0..10 {
        let before = run.objective();
        let pull = run.labels.pull(&run.factors.state.indicators);
        let high = lagrangian(run, &pull);
        run.factors.sweep_indicators(Some(&pull));
        let low = lagrangian(run, &pull);
        assert!(low <= high + rounding(high), "{name}: {high} -> {low}");
        let loss = run.labels.objective_at(&run.factors.state.indicators);
        let after = loss.unwrap() - run.factors.elbo();
        rises += u32::from(after > before + rounding(before));
        run.solve().unwrap();
    }
    rises
}

#[test]
fn the_lagrangian_falls_in_every_sweep_and_the_objective_does_not() {
    let (mut of_tasks, mut of_classes) = (0, 0);
    for number in 0..12 {
        let rng = &mut case(500 + number);
        let table = table(18, 4, 0.0, rng);
        let config = IlsvmConfig {
            cost: 5.0,
            label_weight: 1.0,
            factors: FactorConfig {
                truncation: 3,
                warm_up: 2,
                input_weight: 0.05,
                ..FactorConfig::default()
            },
            ..IlsvmConfig::default()
        };
        let data = tasks(&table, rng);
        let prepared = PreparedTasks::new(&data, &config).unwrap();
        let labels = TaskMargins::new(prepared.problem(&data.tasks, &config));
        let mut run = prepared.core.alternation(labels, &config);
        of_tasks += rises_under_the_lagrangian(&mut run, "tasks");
        let labels = classes(&table, rng);
        let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
        let labels = ClassMargins::new(problem_of(&prepared, &labels, &config));
        let mut run = prepared.0.alternation(labels, &config);
        of_classes += rises_under_the_lagrangian(&mut run, "classes");
    }
    assert!(
        of_tasks > 10 && of_classes > 10,
        "of 120 sweeps {of_tasks} and {of_classes} rose"
    );
}

/// After an exact sweep the last indicator of each item that was looked at is at a minimum: slopes to the left and right have opposite signs.
fn last_indicator_is_at_a_minimum<S: Supervision>(
    alternation: &mut Alternation<'_, S>,
    item: usize,
    name: &str,
) -> bool {
    let k = alternation.factors.state.n_features() - 1;
    let value = |alternation: &Alternation<'_, S>, psi: f64| {
        let mut other = alternation.clone();
        other.factors.state.indicators[(k, item)] = psi;
        let loss = other
            .labels
            .objective_at(&other.factors.state.indicators)
            .unwrap();
        loss - other.factors.elbo()
    };
    let psi = alternation.factors.state.indicators[(k, item)];
    let h = 1e-6 * psi.min(1.0 - psi).max(1e-9);
    let here = value(alternation, psi);
    let [left, right] = [psi - h, psi + h].map(|p| (value(alternation, p) - here) / h);
    // Rounding of values of size `here`, over h.
    let tolerance = 1e-12 * (1.0 + here.abs()) / h + 1e-4;
    assert!(
        left >= -tolerance && right >= -tolerance,
        "{name}: psi {psi}, rises {left} to the left, {right} to the right"
    );
    // At a kink both slopes are well away from 0.
    left > 100.0 * tolerance && right > 100.0 * tolerance
}

#[test]
fn exact_updates_lower_the_objective_and_end_at_minima_kinks_included() {
    let mut kinks = 0;
    for number in 0..12 {
        let rng = &mut case(500 + number);
        let table = table(18, 4, 0.0, rng);
        let factors = FactorConfig {
            truncation: 3,
            warm_up: 2,
            input_weight: 0.3,
            ..FactorConfig::default()
        };
        let config = IlsvmConfig {
            factors,
            cost: 5.0,
            label_weight: 1.0,
            label_update: LabelUpdate::Exact,
            ..IlsvmConfig::default()
        };
        let data = tasks(&table, rng);
        let prepared = PreparedTasks::new(&data, &config).unwrap();
        let problem = prepared.problem(&data.tasks, &config);
        let mut run = prepared
            .core
            .alternation(TaskMargins::new(problem), &config);
        run.solve().unwrap();
        for _ in 0..3 {
            let before = run.objective();
            run.labels.sweep_exactly(&mut run.factors, 1.0);
            let loss = run
                .labels
                .objective_at(&run.factors.state.indicators)
                .unwrap();
            let after = loss - run.factors.elbo();
            assert!(after <= before + rounding(before), "{before} -> {after}");
            // The last item's last indicator was the last to move.
            let last = run.factors.state.n_items() - 1;
            kinks += u32::from(last_indicator_is_at_a_minimum(&mut run, last, "tasks"));
            run.solve().unwrap();
        }

        let config = IlsvmConfig {
            factors,
            cost: 5.0,
            label_weight: 1.0,
            label_update: LabelUpdate::Exact,
            ..IlsvmConfig::default()
        };
        let labels = classes(&table, rng);
        let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
        let problem = problem_of(&prepared, &labels, &config);
        let mut run = prepared.0.alternation(ClassMargins::new(problem), &config);
        run.solve().unwrap();
        for _ in 0..3 {
            let before = run.objective();
            run.labels.sweep_exactly(&mut run.factors, 1.0);
            let loss = run
                .labels
                .objective_at(&run.factors.state.indicators)
                .unwrap();
            let after = loss - run.factors.elbo();
            assert!(after <= before + rounding(before), "{before} -> {after}");
            // Items do not share a loss: every item's last indicator is at its minimum.
            for item in 0..run.factors.state.n_items() {
                kinks += u32::from(last_indicator_is_at_a_minimum(&mut run, item, "classes"));
            }
            run.solve().unwrap();
        }
    }
    assert!(kinks > 3, "only {kinks} kinks were met");
}
