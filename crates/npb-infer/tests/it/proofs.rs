//! Exact enumeration, bounds, bits and hostile files: each harness passes what is right and fails
//! what is wrong.

use std::cell::Cell;

use npb_infer::{
    Xoshiro256PlusPlus, storage, stream,
    testing::{
        BoundMonitor, Exact, ExactTest, HostileFailure, assignments, attack_file, check_stationary,
        partitions, same_bits_on_threads, same_bits_when_resumed,
    },
};
use npb_priors::special::{digamma, ln_gamma};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::storage::{MODEL, Wire, fit};

// ---- Exact enumeration -------------------------------------------------------------------------------------------------

/// Three spins in a row with fields.
fn ln_weight(s: &[usize]) -> f64 {
    let spin = |i: usize| 2.0 * s[i] as f64 - 1.0;
    0.8 * spin(0) * spin(1) + 0.8 * spin(1) * spin(2) + 0.3 * spin(0) - 0.6 * spin(2)
}

/// Gibbs over the three spins; `coupling` should be 1.
fn gibbs(s: &mut [usize], coupling: f64, rng: &mut Xoshiro256PlusPlus) {
    for i in 0..3 {
        let ln = [0, 1].map(|value| {
            let mut with = s.to_owned();
            with[i] = value;
            ln_weight(&with)
        });
        s[i] = usize::from(rng.random::<f64>() < 1.0 / (1.0 + (coupling * (ln[0] - ln[1])).exp()));
    }
}

#[test]
fn exact_probabilities_are_normalised_and_expectations_right() {
    let exact = Exact::new(assignments(&[2, 2, 2]), |s| ln_weight(s));
    assert!((exact.probabilities().iter().sum::<f64>() - 1.0).abs() < 1e-14);
    let total: f64 = exact.points().iter().map(|s| ln_weight(s).exp()).sum();
    let first: f64 = exact
        .points()
        .iter()
        .filter(|s| s[0] == 1)
        .map(|s| ln_weight(s).exp())
        .sum();
    assert!((exact.expectation(|s| s[0] as f64) - first / total).abs() < 1e-14);
}

#[test]
fn samplers_are_compared_with_exact_probabilities() {
    let exact = Exact::new(assignments(&[2, 2, 2]), |s| ln_weight(s));
    let test = ExactTest {
        seed: 1,
        chains: 64,
        length: 300,
        false_alarm: 0.001,
    };
    let run = |coupling: f64| {
        test.run(
            &exact,
            Vec::clone,
            |s, rng| gibbs(s, coupling, rng),
            Vec::clone,
        )
    };
    assert!(run(1.0).passed(), "{}", run(1.0));
    assert!(!run(1.1).passed(), "{}", run(1.1));

    let leaves = test.run(&exact, Vec::clone, |s, _| s[0] = 2, Vec::clone);
    assert_eq!((leaves.p_value(), leaves.outside), (0.0, 64 * 300));

    // Going to the likeliest point and staying there: no chain differs from another, yet all are
    // wrong.
    let stuck = test.run(&exact, Vec::clone, |s, _| *s = vec![1, 1, 0], Vec::clone);
    assert!(
        !stuck.passed() && stuck.checks.iter().all(|c| c.p <= 1.0),
        "{stuck}"
    );

    // 200 seeds at 5%: 10 alarms expected at most, more than 20 with probability 0.001.
    let alarms = (0..200).filter(|&seed| {
        let test = ExactTest {
            seed,
            chains: 32,
            length: 50,
            false_alarm: 0.05,
        };
        !test
            .run(&exact, Vec::clone, |s, rng| gibbs(s, 1.0, rng), Vec::clone)
            .passed()
    });
    let alarms = alarms.count();
    assert!(alarms <= 20, "{alarms} of 200");
}

#[test]
fn rare_points_are_pooled_and_every_point_is_compared_once() {
    let exact = Exact::new((0..40_usize).collect(), |&i| -(i as f64));
    let test = ExactTest {
        seed: 1,
        chains: 32,
        length: 100,
        false_alarm: 0.001,
    };
    let report = test.run(&exact, |&i| i, |_, _| (), |&i| i);
    let mut points: Vec<usize> = report
        .checks
        .iter()
        .flat_map(|c| c.points.clone())
        .collect();
    points.sort_unstable();
    assert_eq!(points, (0..40).collect::<Vec<_>>());
    assert!(report.checks.iter().all(|c| c.probability >= 0.05));
    assert!(
        report.passed(),
        "a sampler that never moves is right, if useless: {report}"
    );
}

#[test]
fn all_partitions_and_assignments_are_listed_once() {
    assert_eq!(
        (1..7).map(|n| partitions(n).len()).collect::<Vec<_>>(),
        [1, 2, 5, 15, 52, 203]
    );
    assert_eq!(
        partitions(3),
        [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    );
    assert_eq!(
        assignments(&[2, 3]),
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    );
    assert_eq!(assignments(&[2, 0]), Vec::<Vec<usize>>::new());
}

// ---- Variational bounds ------------------------------------------------------------------------------------------------

const DATA: [f64; 5] = [0.3, 1.7, -0.4, 2.2, 0.9];

/// q(mu) = N(m, v), q(tau) = Gamma(a, b) for DATA ~ N(mu, 1/tau), mu ~ N(0, 2), tau ~ Gamma(1.5,
/// 0.7).
#[derive(Clone)]
struct MeanField {
    m: f64,
    v: f64,
    a: f64,
    b: f64,
}

impl MeanField {
    fn squares(&self) -> f64 {
        DATA.iter().map(|x| (x - self.m).powi(2)).sum::<f64>() + 5.0 * self.v
    }

    fn terms(&self) -> Vec<f64> {
        let Self { m, v, a, b } = *self;
        let ln_2pi = std::f64::consts::TAU.ln();
        let (tau, ln_tau) = (a / b, digamma(a) - b.ln());
        vec![
            2.5 * (ln_tau - ln_2pi) - 0.5 * tau * self.squares(),
            -0.5 * (2_f64.ln() + ln_2pi) - 0.25 * (m * m + v),
            1.5 * 0.7_f64.ln() - ln_gamma(1.5) + 0.5 * ln_tau - 0.7 * tau,
            0.5 * (ln_2pi + 1.0 + v.ln()),
            a - b.ln() + ln_gamma(a) + (1.0 - a) * digamma(a),
        ]
    }

    fn bound(&self) -> f64 {
        self.terms().iter().sum()
    }

    fn update_mu(&mut self) {
        let tau = self.a / self.b;
        self.v = 1.0 / (0.5 + 5.0 * tau);
        self.m = self.v * tau * DATA.iter().sum::<f64>();
    }

    /// `excess` should be 0.
    fn update_tau(&mut self, excess: f64) {
        self.a = 1.5 + 2.5 + excess;
        self.b = 0.7 + 0.5 * self.squares();
    }

    fn tau_is_optimal(&self) -> bool {
        let bound = |p: &[f64]| {
            Self {
                a: p[0].exp(),
                b: p[1].exp(),
                ..self.clone()
            }
            .bound()
        };
        check_stationary(&[self.a.ln(), self.b.ln()], 1e-6, bound).is_ok()
    }

    fn mu_is_optimal(&self) -> bool {
        let bound = |p: &[f64]| {
            Self {
                m: p[0],
                v: p[1].exp(),
                ..self.clone()
            }
            .bound()
        };
        check_stationary(&[self.m, self.v.ln()], 1e-6, bound).is_ok()
    }
}

const START: MeanField = MeanField {
    m: -3.0,
    v: 2.0,
    a: 1.0,
    b: 5.0,
};

#[test]
fn right_updates_never_let_the_bound_fall_and_are_stationary() {
    let mut q = START;
    let mut monitor = BoundMonitor::new();
    for _ in 0..200 {
        q.update_mu();
        monitor.check("q(mu)", &q.terms()).unwrap();
        assert!(q.mu_is_optimal());
        q.update_tau(0.0);
        monitor.check("q(tau)", &q.terms()).unwrap();
        assert!(q.tau_is_optimal());
    }
}

#[test]
fn wrong_updates_are_seen_by_both() {
    let mut q = START;
    let mut monitor = BoundMonitor::new();
    let mut fell = None;
    for _ in 0..50 {
        q.update_mu();
        fell = fell.or(monitor.check("q(mu)", &q.terms()).err());
        q.update_tau(0.5);
        fell = fell.or(monitor.check("q(tau)", &q.terms()).err());
    }
    assert_eq!(fell.unwrap().update, "q(tau)");
    assert!(!q.tau_is_optimal());

    // Even 1e-5 of the shape is seen by the derivative.
    q.update_tau(1e-5);
    assert!(!q.tau_is_optimal());
    // At the joint optimum tau is optimal even with a stale mean; away from it, it is not.
    q.update_tau(0.0);
    q.m += 0.1;
    assert!(!q.tau_is_optimal() && !q.mu_is_optimal());
}

#[test]
fn the_monitor_allows_rounding_only_and_no_nan() {
    let mut monitor = BoundMonitor::new();
    monitor.check("a", &[1e6, -1e6, 1.0]).unwrap();
    monitor.check("b", &[1e6, -1e6, 1.0 - 1e-6]).unwrap();
    assert!(monitor.check("c", &[1e6, -1e6, 1.0 - 1e-5]).is_err());
    assert!(monitor.check("d", &[f64::NAN]).is_err());
    assert!(monitor.check("e", &[f64::INFINITY]).is_err());
    monitor.check("f", &[2.0]).unwrap();
}

#[test]
fn stationarity_needs_no_scale_and_refuses_minima_and_nan() {
    for scale in [1e-8, 1.0, 1e8] {
        let at = |optimum: f64| move |p: &[f64]| -50.0 - ((p[0] - optimum) / scale).powi(2);
        assert!(
            check_stationary(&[3.0 * scale], 1e-6, at(3.0 * scale)).is_ok(),
            "{scale}"
        );
        assert!(
            check_stationary(&[3.0001 * scale], 1e-6, at(3.0 * scale)).is_err(),
            "{scale}"
        );
    }
    assert!(
        check_stationary(&[1.0], 1e-6, |p| (p[0] - 1.0).powi(2)).is_err(),
        "minimum"
    );
    assert!(check_stationary(&[1.0], 1e-6, |_| f64::NAN).is_err());
    assert!(check_stationary(&[1.0], 1e-6, |_| 7.0).is_ok(), "flat");
    // Defined on one side only, close to the border.
    assert!(check_stationary(&[1e-3], 1e-6, |p| 1e-3 * p[0].ln() - p[0]).is_ok());
}

// ---- Bits --------------------------------------------------------------------------------------------------------------

#[test]
fn dependence_on_threads_is_seen() {
    same_bits_on_threads(&[1, 2, 4], || vec![1, 2]).unwrap();
    let differ =
        same_bits_on_threads(&[1, 2], || vec![9, rayon::current_num_threads() as u8]).unwrap_err();
    assert_eq!(
        (
            differ.position,
            differ.run.as_str(),
            differ.reference.as_str()
        ),
        (1, "2 threads", "1 threads")
    );
}

/// A walk keyed by its step number, which `keep_step` says whether to save.
fn resumed(keep_step: bool) -> Result<(), npb_infer::testing::BitsDiffer> {
    let advance = |run: &mut (f64, u64), n: u64| {
        for _ in 0..n {
            run.0 += stream(1, [0, run.1, 0, 0]).random::<f64>();
            run.1 += 1;
        }
    };
    same_bits_when_resumed(
        10,
        &[0, 4, 10],
        || (0.0, 0),
        advance,
        |run| storage::to_bytes("walk", "0", &(run.0, if keep_step { run.1 } else { 0 })).unwrap(),
        |bytes| storage::from_bytes("walk", bytes).unwrap(),
    )
}

#[test]
fn a_run_that_forgets_its_step_is_seen() {
    resumed(true).unwrap();
    assert!(resumed(false).unwrap_err().run.contains("after 4 steps"));
}

// ---- Hostile files -----------------------------------------------------------------------------------------------------

#[test]
fn ten_thousand_flips_every_truncation_and_forged_lengths_do_no_harm() {
    let good = storage::to_bytes(MODEL, "0.1.0", &fit()).unwrap();
    let summary = attack_file(
        &good,
        10_000,
        1,
        |bytes| storage::from_bytes::<Wire>(MODEL, bytes),
        |fit| {
            storage::to_bytes(MODEL, "0.1.0", fit).unwrap();
        },
    )
    .unwrap();
    assert_eq!((summary.flips, summary.truncations), (10_000, good.len()));
    assert!(
        summary.accepted > 1000,
        "flips in numbers give other numbers: the attack reaches the decoder"
    );
}

#[test]
fn harm_is_seen() {
    // A permutation that is used without looking.
    let good = storage::to_bytes("p", "0", &vec![2_usize, 0, 1]).unwrap();
    let load = |bytes: &[u8]| storage::from_bytes::<Vec<usize>>("p", bytes);
    let used = |p: &Vec<usize>| assert!(p.iter().all(|&i| i < p.len()), "index outside");
    let failure = attack_file(&good, 1000, 1, load, used).unwrap_err();
    assert!(
        matches!(&failure, HostileFailure::Panicked { message, .. } if message == "index outside"),
        "{failure}"
    );

    // A loader that believes anything.
    let careless = |bytes: &[u8]| Ok::<_, storage::FormatError>(bytes.len());
    assert!(matches!(
        attack_file(&good, 0, 1, careless, |_| ()),
        Err(HostileFailure::TruncationAccepted(_))
    ));
    assert!(matches!(
        attack_file(&good[1..], 0, 1, load, |_| ()),
        Err(HostileFailure::GoodFileRefused(_))
    ));
}

thread_local! {
    /// Bytes of `Fat` made on this thread, and the largest announced length that reached a visitor.
    static FAT: Cell<u64> = const { Cell::new(0) };
}

/// One byte in a file, 4096 in memory.
struct Fat([u8; 4096]);

impl<'de> Deserialize<'de> for Fat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FAT.set(FAT.get() + 4096);
        u8::deserialize(deserializer).map(|byte| Self([byte; 4096]))
    }
}

/// Memory of decoded elements and of the vectors that hold them stays within 16 times the file + 1
/// MiB.
#[test]
fn memory_is_bounded_however_fat_the_elements() {
    for n in [10_000_u64, 1_000_000] {
        FAT.set(0);
        let bytes = storage::to_bytes("fat", "0", &vec![0_u8; n as usize]).unwrap();
        let refused = storage::from_bytes::<Vec<Fat>>("fat", &bytes)
            .err()
            .unwrap();
        assert!(
            refused.to_string().contains("16 times its size"),
            "{refused}"
        );
        // A growing vector holds up to three times its elements.
        assert!(3 * FAT.get() < 15 * bytes.len() as u64 + (1 << 20));
    }
    let few = storage::to_bytes("fat", "0", &vec![7_u8; 60]).unwrap();
    let few: Vec<Fat> = storage::from_bytes("fat", &few).unwrap();
    assert!(few.len() == 60 && few.iter().all(|fat| fat.0 == [7; 4096]));
}

#[test]
fn announced_lengths_are_not_believed() {
    let forged = storage::to_bytes("v", "0", &(u64::MAX, 1_u64)).unwrap();
    assert!(storage::from_bytes::<Vec<u64>>("v", &forged).is_err());
    assert!(storage::from_bytes::<String>("v", &forged).is_err());
    assert!(storage::from_bytes::<std::collections::HashMap<u64, u64>>("v", &forged).is_err());
    // Elements that take nothing from the file: refused soon instead of counted to 2^64.
    assert!(storage::from_bytes::<Vec<()>>("v", &forged).is_err());
    assert!(storage::from_bytes::<Vec<[u64; 0]>>("v", &forged).is_err());
}

/// Ordinary content of every shape is far from the limit, small or large.
#[test]
fn ordinary_content_is_never_refused() {
    fn round_trip<T: Serialize + for<'de> Deserialize<'de> + PartialEq>(value: &T) -> bool {
        storage::from_bytes::<T>("v", &storage::to_bytes("v", "0", value).unwrap()).unwrap()
            == *value
    }
    for n in [0, 1, 2, 3, 10, 1000, 300_000] {
        assert!(
            round_trip(&vec![1.5_f64; n])
                && round_trip(&vec![7_u8; n])
                && round_trip(&vec![true; n])
        );
        assert!(round_trip(&vec![(1_u32, 2_u64); n]) && round_trip(&vec![vec![1.0_f64; 2]; n / 3]));
        assert!(
            round_trip(&vec![Some(3_usize); n]) && round_trip(&vec![String::from("name"); n / 3])
        );
        assert!(round_trip(
            &(0..n as u64)
                .map(|i| (i, 1.0))
                .collect::<std::collections::BTreeMap<_, _>>()
        ));
        assert!(round_trip(
            &(0..n as u64)
                .map(|i| (i, 1.0))
                .collect::<std::collections::HashMap<_, f64>>()
        ));
    }
    assert!(
        round_trip(&vec![None::<usize>; 10_000]) && round_trip(&vec![Vec::<f64>::new(); 10_000])
    );
}
