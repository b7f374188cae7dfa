//! The joint-distribution test and calibration: right samplers pass at the stated rate, wrong ones
//! fail.

use npb_infer::{
    stream,
    testing::{Calibration, JointModel, JointReport, JointTest, same_bits_on_threads},
};

use crate::toys::{Cells, CellsFault, Spikes, SpikesFault};

const TEST: JointTest = JointTest {
    seed: 1,
    chains: 64,
    length: 400,
    false_alarm: 0.001,
};

const RIGHT: Cells = Cells {
    fault: None,
    metropolis: false,
    idle: 0.0,
};
const METROPOLIS: Cells = Cells {
    metropolis: true,
    ..RIGHT
};
const SLOW: Cells = Cells {
    idle: 0.95,
    ..RIGHT
};

#[test]
fn right_samplers_pass() {
    for report in [
        TEST.run(&RIGHT),
        TEST.run(&METROPOLIS),
        TEST.run(&SLOW),
        TEST.run(&Spikes::default()),
    ] {
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn every_planted_fault_is_caught() {
    use CellsFault::*;
    let cells = [
        ShapeOffByHalf,
        RateForScale,
        StaleResidual,
        MissingPriorTerm,
        IgnoredMask,
        WrongVariance,
        DoubleCounting,
    ];
    let mut caught = 0;
    let mut check = |fault: String, report: JointReport| {
        assert!(!report.passed(), "{fault}: {report}");
        caught += 1;
    };
    for fault in cells {
        check(
            format!("{fault:?}"),
            TEST.run(&Cells {
                fault: Some(fault),
                ..RIGHT
            }),
        );
    }
    check(
        "MissingJacobian".into(),
        TEST.run(&Cells {
            fault: Some(MissingJacobian),
            ..METROPOLIS
        }),
    );
    for fault in [
        SpikesFault::TruncatedSupport,
        SpikesFault::WeightNotRedrawnAfterCollapsedOdds,
        SpikesFault::StaleResidual,
        SpikesFault::SpikesCountedInSlab,
        SpikesFault::MissingDeterminant,
    ] {
        check(
            format!("{fault:?}"),
            TEST.run(&Spikes { fault: Some(fault) }),
        );
    }
    assert_eq!(caught, 13);
}

/// Share of 200 seeds with an alarm at 5%, and share of all single p-values below 5%.
fn alarm_rates(model: &impl JointModel) -> (f64, f64) {
    let (mut alarms, mut small, mut all) = (0.0, 0.0, 0.0);
    for seed in 0..200 {
        let report = JointTest {
            seed,
            chains: 32,
            length: 60,
            false_alarm: 0.05,
        }
        .run(model);
        alarms += f64::from(!report.passed());
        small += report.checks.iter().filter(|c| c.p < 0.05).count() as f64;
        all += report.checks.len() as f64;
    }
    (alarms / 200.0, small / all)
}

/// At 5% and 200 seeds the number of alarms has mean 10 at most and passes 20 with probability
/// 0.001. A single comparison is not bounded but exact: 5% of its p-values are below 5% (the many
/// comparisons of one seed are dependent; 200 seeds bound the error to about 1.5%).
#[test]
fn false_alarms_are_as_rare_as_stated() {
    for (name, (alarms, small)) in [
        ("cells", alarm_rates(&RIGHT)),
        ("slow cells", alarm_rates(&SLOW)),
        ("spikes", alarm_rates(&Spikes::default())),
    ] {
        assert!(alarms <= 0.10, "{name}: {alarms}");
        assert!((small - 0.05).abs() < 0.015, "{name}: {small}");
    }
}

/// What the test would be without independent chains: the states of one long chain of the slow
/// sampler, taken for independent, are too far from the prior mean of mu for 5% in most of 50
/// seeds.
#[test]
fn a_naive_standard_error_raises_false_alarms() {
    let alarm = |&seed: &u64| {
        let rng = &mut stream(seed, [0; 4]);
        let mut state = SLOW.prior(rng);
        let mut mu = vec![];
        for _ in 0..2000 {
            let data = SLOW.simulate(&state, rng);
            SLOW.sweep(&mut state, &data, rng);
            mu.push(SLOW.summary(&state, &data)[0]);
        }
        let mean = mu.iter().sum::<f64>() / 2000.0;
        let variance = mu.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 1999.0;
        ((mean - 0.5) / (variance / 2000.0).sqrt()).abs() > 1.96
    };
    let alarms = (0..50).filter(alarm).count();
    assert!(alarms > 25, "{alarms} of 50");
}

#[test]
fn a_summary_that_is_not_a_number_fails_and_a_constant_one_passes() {
    struct Odd(f64);
    impl JointModel for Odd {
        type State = ();
        type Data = ();
        fn names(&self) -> Vec<String> {
            vec!["odd".into()]
        }
        fn prior(&self, _: &mut npb_infer::Xoshiro256PlusPlus) {}
        fn simulate(&self, (): &(), _: &mut npb_infer::Xoshiro256PlusPlus) {}
        fn sweep(&self, (): &mut (), (): &(), _: &mut npb_infer::Xoshiro256PlusPlus) {}
        fn summary(&self, (): &(), (): &()) -> Vec<f64> {
            vec![self.0]
        }
    }
    assert_eq!(TEST.run(&Odd(3.0)).p_value(), 1.0);
    assert_eq!(TEST.run(&Odd(f64::NAN)).p_value(), 0.0);
}

#[test]
fn reports_do_not_depend_on_threads() {
    let small = JointTest {
        chains: 16,
        length: 20,
        ..TEST
    };
    let bytes = || {
        small
            .run(&RIGHT)
            .checks
            .iter()
            .flat_map(|c| c.t.to_bits().to_le_bytes())
            .collect()
    };
    same_bits_on_threads(&[1, 2, 4], bytes).unwrap();
}

const CALIBRATION: Calibration = Calibration {
    seed: 1,
    replications: 400,
    draws: 49,
    burn_in: 30,
    thin: 4,
    false_alarm: 0.001,
};

#[test]
fn right_samplers_are_calibrated() {
    for report in [CALIBRATION.run(&RIGHT), CALIBRATION.run(&Spikes::default())] {
        assert!(report.passed(), "{report}");
        let (nominal, covered) = report.coverage(0, 0.9);
        assert!(
            (nominal - 0.9).abs() < 0.021 && (covered - nominal).abs() < 0.06,
            "{nominal} {covered}"
        );
        assert_eq!(report.band.len(), 49);
    }
}

#[test]
fn wrong_samplers_are_not() {
    for fault in [
        CellsFault::RateForScale,
        CellsFault::IgnoredMask,
        CellsFault::WrongVariance,
        CellsFault::DoubleCounting,
    ] {
        let report = CALIBRATION.run(&Cells {
            fault: Some(fault),
            ..RIGHT
        });
        assert!(!report.passed(), "{fault:?}: {report}");
    }
    let report = CALIBRATION.run(&Spikes {
        fault: Some(SpikesFault::MissingDeterminant),
    });
    assert!(!report.passed(), "{report}");
}

/// 100 seeds at 5%: 5 alarms expected at most, more than 12 with probability 0.001.
#[test]
fn calibration_fails_as_rarely_as_stated() {
    let run = |seed| {
        Calibration {
            seed,
            replications: 60,
            draws: 19,
            burn_in: 20,
            thin: 3,
            false_alarm: 0.05,
        }
        .run(&RIGHT)
    };
    let alarms = (0..100).filter(|&seed| !run(seed).passed()).count();
    assert!(alarms <= 12, "{alarms} of 100");
}
