//! Diagnostics against an independent program, known answers and known failures.

use npb_infer::{
    SweepPlan, Trace,
    diagnostics::{
        ChainDiagnostics, ess_bulk, ess_mean, ess_tail, mcse_mean, quantile, rhat, summarise,
    },
    stream,
};
use rand::{Rng, RngExt};

/// y_t = phi y_{t-1} + e_t with uniform e_t from the multiplicative generator 16807 mod 2^31 - 1:
/// the same in any language.
fn portable_chain(start: u64, phi: f64, n: usize) -> Vec<f64> {
    let (mut u, mut y) = (start, 0.0);
    let step = |_| {
        u = u * 16807 % 2_147_483_647;
        y = phi * y + (u as f64 / 2_147_483_647.0 - 0.5);
        y
    };
    (0..n).map(step).collect()
}

fn portable(phis: &[f64], n: usize, shift: f64) -> Vec<Vec<f64>> {
    let chain = |(i, &phi): (usize, &f64)| {
        let chain = portable_chain(1000 + 7 * i as u64, phi, n);
        chain.iter().map(|y| y + shift * i as f64).collect()
    };
    phis.iter().enumerate().map(chain).collect()
}

#[track_caller]
fn assert_all(chains: &[Vec<f64>], expected: [f64; 5]) {
    let d = ChainDiagnostics::new(chains);
    let found = [
        d.rhat,
        d.ess_bulk,
        d.ess_tail,
        ess_mean(chains),
        d.mcse_mean,
    ]
    .map(Option::unwrap);
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found / expected - 1.0).abs() < 1e-10,
            "{found} instead of {expected}"
        );
    }
}

/// R-hat, bulk, tail and mean effective size, standard error of the mean: written out in numpy from
/// the paper's definitions.
#[test]
fn agrees_with_an_independent_program() {
    assert_all(
        &portable(&[0.7; 4], 101, 0.0),
        [
            1.0269561322958796,
            79.4850027601695,
            114.13084188520183,
            79.28303085466413,
            0.046508004617971145,
        ],
    );
    assert_all(
        &portable(&[0.9, 0.2, 0.5], 60, 0.3),
        [
            1.0722505432558802,
            33.042495105827406,
            28.321028157748454,
            30.079900755597407,
            0.08301230285035995,
        ],
    );
    assert_all(
        &portable(&[-0.4; 2], 80, 0.0),
        [
            0.9955036133187919,
            352.6591972249479,
            188.17580246913587,
            352.6591972249479,
            0.016758778027748625,
        ],
    );
    let rounded = |start| {
        portable_chain(start, 0.6, 50)
            .iter()
            .map(|y| (y * 4.0).round() / 4.0)
            .collect()
    };
    assert_all(
        &[rounded(5), rounded(9)],
        [
            1.2811364764878634,
            7.131572318952202,
            72.94350048717979,
            6.709506441262852,
            0.14641720434154448,
        ],
    );
}

/// Normal draws, stationary from the start.
fn ar1(seed: u64, phi: f64, chains: u64, n: usize) -> Vec<Vec<f64>> {
    let chain = |c| {
        let mut rng = stream(seed, [c, 0, 0, 0]);
        let mut y = normal(&mut rng) / (1.0 - phi * phi).sqrt();
        let step = |_| {
            y = phi * y + normal(&mut rng);
            y
        };
        (0..n).map(step).collect()
    };
    (0..chains).map(chain).collect()
}

fn normal(rng: &mut impl Rng) -> f64 {
    // Box and Muller.
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The mean of an AR(1) chain is worth S (1 - phi) / (1 + phi) independent draws. Averaged over 20
/// seeds, within 8% (cutting off the noise costs antithetic chains some 6%).
#[test]
fn autoregressive_chains_have_their_known_effective_size() {
    for phi in [-0.5, 0.0, 0.5, 0.9] {
        let expected = 4.0 * 2000.0 * (1.0 - phi) / (1.0 + phi);
        let runs: Vec<_> = (0..20).map(|seed| ar1(seed, phi, 4, 2000)).collect();
        for ess in [ess_mean, ess_bulk] {
            let mean = runs.iter().map(|chains| ess(chains).unwrap()).sum::<f64>() / 20.0;
            assert!(
                (mean / expected - 1.0).abs() < 0.08,
                "phi {phi}: {mean} instead of {expected}"
            );
        }
        let sd_of_mean = ((1.0 / (1.0 - phi * phi)) / expected).sqrt();
        let mcse = runs
            .iter()
            .map(|chains| mcse_mean(chains).unwrap())
            .sum::<f64>()
            / 20.0;
        assert!((mcse / sd_of_mean - 1.0).abs() < 0.08, "phi {phi}");
        assert!(
            runs.iter().all(|chains| rhat(chains).unwrap() < 1.02),
            "phi {phi}"
        );
    }
}

#[test]
fn disagreement_in_place_in_scale_and_over_time_is_seen() {
    let same = ar1(3, 0.3, 4, 400);
    assert!(rhat(&same).unwrap() < 1.01);

    let mut moved = same.clone();
    moved[2].iter_mut().for_each(|x| *x += 1.0);
    assert!(rhat(&moved).unwrap() > 1.05);

    let mut wider = same.clone();
    wider[1].iter_mut().for_each(|x| *x *= 3.0);
    assert!(
        rhat(&wider).unwrap() > 1.05,
        "scale is seen by folding only"
    );

    let mut drifting = same.clone();
    drifting.iter_mut().for_each(|chain| {
        chain
            .iter_mut()
            .enumerate()
            .for_each(|(t, x)| *x += t as f64 / 200.0)
    });
    assert!(
        rhat(&drifting).unwrap() > 1.05,
        "common drift is seen by splitting only"
    );
}

#[test]
fn heavy_tails_do_no_harm() {
    let cauchy: Vec<Vec<f64>> = (0..4)
        .map(|c| {
            (0..1000)
                .map(|t| {
                    (std::f64::consts::PI * (stream(5, [c, t, 0, 0]).random::<f64>() - 0.5)).tan()
                })
                .collect()
        })
        .collect();
    let d = ChainDiagnostics::new(&cauchy);
    assert!(d.rhat.unwrap() < 1.01 && d.ess_bulk.unwrap() > 3000.0 && d.ess_tail.unwrap() > 3000.0);
}

#[test]
fn what_is_not_defined_is_none() {
    let undefined = |chains: &[Vec<f64>]| {
        [
            rhat(chains),
            ess_bulk(chains),
            ess_tail(chains),
            ess_mean(chains),
            mcse_mean(chains),
        ]
    };
    for chains in [
        vec![],
        vec![vec![]],
        vec![vec![1.0, 2.0, 3.0]],
        vec![vec![1.0; 100]; 4],
        vec![vec![1.0, 2.0, f64::NAN, 4.0, 5.0]],
        vec![vec![1.0, 2.0, 3.0, f64::INFINITY], vec![1.0, 2.0, 3.0, 4.0]],
        vec![vec![1.0, 2.0, 3.0, 4.0], vec![]],
    ] {
        assert_eq!(undefined(&chains), [None; 5], "{chains:?}");
    }
    assert_eq!(ChainDiagnostics::new(&[vec![2.0; 9]]).mean, Some(2.0));
    assert_eq!(ChainDiagnostics::new(&[vec![f64::NAN; 9]]).mean, None);
}

/// Multiplied by a power of two, draws have the same R-hat and sizes to the last bit, and mean and deviation times as much: where their squares are no
/// numbers as well.
#[test]
fn units_do_not_matter_however_large() {
    let chains = portable(&[0.5, 0.2], 60, 0.3);
    let plain = ChainDiagnostics::new(&chains);
    for power in [-900, -3, 40, 1010] {
        let unit = 2_f64.powi(power);
        let times: Vec<Vec<f64>> = chains
            .iter()
            .map(|chain| chain.iter().map(|x| x * unit).collect())
            .collect();
        let by_unit = |x: Option<f64>| x.map(|x| x * unit);
        let expected = ChainDiagnostics {
            mean: by_unit(plain.mean),
            sd: by_unit(plain.sd),
            mcse_mean: by_unit(plain.mcse_mean),
            ..plain
        };
        assert_eq!(ChainDiagnostics::new(&times), expected, "2^{power}");
    }
    let mut forged = chains;
    forged[0][7] = -1e308;
    let d = ChainDiagnostics::new(&forged);
    let n = forged.iter().flatten().count() as f64;
    // One draw is all of the mean and of the deviation.
    let close = |found: Option<f64>, x: f64| (found.unwrap() / x - 1.0).abs() < 1e-12;
    assert!(close(d.mean, -1e308 / n) && close(d.sd, 1e308 / n.sqrt()));
    assert!(
        [d.mcse_mean, d.rhat, d.ess_bulk, d.ess_tail]
            .iter()
            .all(|x| x.unwrap().is_finite())
    );
    let d = ChainDiagnostics::new(&[[f64::MAX, -f64::MAX, f64::MAX, -f64::MAX]; 2]);
    assert!(d.mean == Some(0.0) && d.sd.is_none() && d.rhat.unwrap().is_finite());
}

#[test]
fn chains_stuck_at_different_values_never_agree() {
    let stuck = [vec![1.0; 50], vec![2.0; 50]];
    assert_eq!(rhat(&stuck), Some(f64::INFINITY));
    assert!(ess_bulk(&stuck).unwrap() < 5.0);
}

#[test]
fn two_values_and_long_ties_are_defined() {
    let coin: Vec<Vec<f64>> = (0..2)
        .map(|c| {
            (0..200)
                .map(|t| f64::from(stream(8, [c, t, 0, 0]).random::<bool>()))
                .collect()
        })
        .collect();
    let d = ChainDiagnostics::new(&coin);
    assert!(d.rhat.unwrap() < 1.05 && d.ess_bulk.unwrap() > 150.0);
    // At or below the 95% quantile lies everything, at or below the 5% quantile lie the zeros: one
    // indicator speaks.
    assert!(d.ess_tail.unwrap() > 150.0);
}

#[test]
fn traces_are_summarised_by_name_at_the_kept_sweeps() {
    let plan = SweepPlan {
        burn_in: 3,
        keep: 4,
        thin: 2,
    };
    let mut traces = vec![];
    for chain in 0..2_u64 {
        let mut trace = Trace::new(["a", "b"]);
        for number in 1..=plan.total() {
            let first = (number * (chain + 1) % 5) as f64;
            let first = if plan.is_kept(number) {
                first
            } else {
                f64::NAN
            };
            trace.push(&[first, 1.0]);
        }
        traces.push(trace);
    }
    let summary = summarise(&traces.iter().collect::<Vec<&Trace>>(), &plan);
    assert_eq!(summary[0].0, "a");
    // Kept sweeps 5, 7, 9, 11 of chain 0: 0, 2, 4, 1; of chain 1: 0, 4, 3, 2.
    assert_eq!(summary[0].1.mean, Some(2.0));
    assert_eq!(
        summary[0].1,
        ChainDiagnostics::new(&[vec![0.0, 2.0, 4.0, 1.0], vec![0.0, 4.0, 3.0, 2.0]])
    );
    assert_eq!(
        (summary[1].0.as_str(), summary[1].1.mean, summary[1].1.rhat),
        ("b", Some(1.0), None)
    );
}

#[test]
fn quantiles_lie_between_order_statistics() {
    let line = [1.0, 2.0, 3.0, 4.0, 5.0];
    let found = [-1.0, 0.0, 0.25, 0.6, 1.0, 2.0].map(|p| quantile(&line, p));
    for (found, expected) in found.iter().zip([1.0, 1.0, 2.0, 3.4, 5.0, 5.0]) {
        assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    }
    // One value, the range of f64, equal neighbours, no values.
    assert_eq!(quantile(&[7.0], 0.3), 7.0);
    assert_eq!(quantile(&[-f64::MAX, f64::MAX], 0.5), 0.0);
    assert_eq!(quantile(&[0.1, 0.3, 0.3, 0.9], 0.5), 0.3);
    assert!(quantile(&[], 0.5).is_nan());
}
