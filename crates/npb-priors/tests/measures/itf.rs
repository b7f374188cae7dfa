//! The infinite tensor factorisation's prior: co-assignment, labels, and the draws its sampler borrows from `dp`.

use npb_priors::GammaPrior;
use npb_priors::dp::{
    draw_concentration_given_labels, ln_label_probability, ln_neighbour_swap_ratio,
    ln_occupied_ratio,
};
use npb_priors::itf::{ItfDraw, ItfPrior};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ContinuousCDF, Gamma};

use crate::check::{LEVEL, assert_mean, chi_square_p, counts_of, ks_p, rng, tally, z_score};

#[test]
fn pairs_agree_at_the_stated_rates() {
    let prior = ItfPrior::new(1.3, vec![0.4, 2.0, 0.9]).unwrap();
    let mut rng = rng(500);
    let subsets: [&[usize]; 6] = [&[], &[0], &[1], &[2], &[0, 1], &[0, 1, 2]];
    let mut agree = vec![Vec::new(); subsets.len()];
    let mut top = Vec::new();
    for _ in 0..150_000 {
        let draw = prior.sample(2, &mut rng);
        top.push(f64::from(draw.top_labels[0] == draw.top_labels[1]));
        for (agree, subset) in agree.iter_mut().zip(subsets) {
            agree.push(f64::from(
                subset
                    .iter()
                    .all(|&j| draw.labels[j][0] == draw.labels[j][1]),
            ));
        }
    }
    assert_mean(&top, prior.top_co_assignment());
    for (agree, subset) in agree.iter().zip(subsets) {
        assert_mean(agree, prior.co_assignment(subset));
    }
    // A product of marginals, which a model without a top level would have, fails.
    assert!(
        z_score(
            &agree[4],
            prior.co_assignment(&[0]) * prior.co_assignment(&[1])
        )
        .abs()
            > 3.9
    );
}

/// Shares by the concentrations that the prior tells: those of a stick-breaking law, 1 / (1 + concentration), and, for rows of two top clusters, the lower
/// labels that two laws of their own share, 1 / (1 + 2 concentration).
#[test]
fn the_concentrations_that_a_prior_tells_are_those_of_its_shares() {
    let prior = ItfPrior::new(1.3, vec![0.4, 2.0, 0.9]).unwrap();
    let same = 1.0 / (1.0 + prior.alpha());
    assert!((prior.top_co_assignment() - same).abs() < 1e-15);
    assert_eq!(prior.betas().len(), 3);
    for (j, beta) in prior.betas().iter().enumerate() {
        let share = same / (1.0 + beta) + (1.0 - same) / (1.0 + 2.0 * beta);
        assert!((prior.co_assignment(&[j]) - share).abs() < 1e-15);
    }
}

/// Lower label counts of one column per top cluster.
fn lower_counts(draw: &ItfDraw, column: usize) -> Vec<Vec<usize>> {
    let n_top = draw.lower[column].len();
    let of = |r: usize| (0..draw.top_labels.len()).filter(move |&i| draw.top_labels[i] == r);
    (0..n_top)
        .map(|r| counts_of(&of(r).map(|i| draw.labels[column][i]).collect::<Vec<_>>()))
        .collect()
}

#[test]
fn labels_have_their_exact_probability() {
    let prior = ItfPrior::new(0.8, vec![1.1]).unwrap();
    let mut rng = rng(501);
    // Two rows, labels below 3 at both levels; everything else is one cell.
    let cell = |top: &[usize], low: &[usize]| ((top[0] * 3 + top[1]) * 3 + low[0]) * 3 + low[1];
    let mut p = vec![0.0; 82];
    let below_3 = |n: usize| [n / 3, n % 3];
    for t in 0..9 {
        for l in 0..9 {
            let (top, low) = (below_3(t), below_3(l));
            let lower = if top[0] == top[1] {
                ln_label_probability(&counts_of(&low), 1.1)
            } else {
                low.iter()
                    .map(|&h| ln_label_probability(&counts_of(&[h]), 1.1))
                    .sum()
            };
            p[cell(&top, &low)] = (ln_label_probability(&counts_of(&top), 0.8) + lower).exp();
        }
    }
    p[81] = 1.0 - p.iter().sum::<f64>();
    let draws = (0..40_000).map(|_| {
        let draw = prior.sample(2, &mut rng);
        let inside = draw
            .top_labels
            .iter()
            .chain(&draw.labels[0])
            .all(|&h| h < 3);
        if inside {
            cell(&draw.top_labels, &draw.labels[0])
        } else {
            81
        }
    });
    assert!(chi_square_p(&tally(draws, 82), &p) > LEVEL);
}

/// One β shared by all top clusters: groups of one row count.
fn shared_beta(keep_singletons: bool, seed: u64) -> (f64, f64) {
    let hyper = GammaPrior {
        shape: 2.0,
        rate: 1.0,
    };
    let law = Gamma::new(2.0, 1.0).unwrap();
    let mut rng = rng(seed);
    let (mut moved, mut products) = (Vec::new(), Vec::new());
    for _ in 0..30_000 {
        let beta: f64 = law.inverse_cdf(rng.random());
        let draw = ItfPrior::new(3.0, vec![beta]).unwrap().sample(6, &mut rng);
        let counts = lower_counts(&draw, 0);
        let groups = counts
            .iter()
            .filter(|c| keep_singletons || c.iter().sum::<usize>() > 1);
        let new = draw_concentration_given_labels(beta, groups.map(Vec::as_slice), hyper, &mut rng);
        let singles = counts.iter().filter(|c| c.iter().sum::<usize>() == 1);
        products.push((new - beta) * singles.map(|c| c.len() as f64).sum::<f64>());
        moved.push(new);
    }
    (z_score(&products, 0.0), ks_p(moved, |x| law.cdf(x)))
}

#[test]
fn the_shared_concentration_draw_leaves_the_joint_law() {
    let (product, p) = shared_beta(true, 502);
    assert!(product.abs() < 3.9 && p > LEVEL, "{product} {p}");
}

/// The paper leaves out top clusters of one row; given labels they do contribute.
#[test]
fn leaving_out_singletons_moves_the_joint_law() {
    let (product, _) = shared_beta(false, 502);
    assert!(product.abs() > 8.0, "{product}");
}

/// Swaps labels h and h+1 of the column in every top cluster at once, `sign` = −1 for the printed ratio.
fn lower_swap_shift(sign: f64, seed: u64) -> f64 {
    let (alpha, beta, n) = (1.0, 1.5, 6);
    let mut rng = rng(seed);
    let mut shift = Vec::new();
    for _ in 0..40_000 {
        let draw = ItfPrior::new(alpha, vec![beta])
            .unwrap()
            .sample(n, &mut rng);
        let mut counts = lower_counts(&draw, 0);
        let width = counts.iter().map(Vec::len).max().unwrap() + 6;
        counts.iter_mut().for_each(|c| c.resize(width, 0));
        let mut sticks: Vec<Vec<f64>> = counts
            .iter()
            .map(|c| posterior_sticks(c, beta, &mut rng))
            .collect();
        let before: usize = counts.iter().map(|c| c[0]).sum();
        for _ in 0..3 {
            let total: Vec<usize> = (0..width)
                .map(|h| counts.iter().map(|c| c[h]).sum())
                .collect();
            let k = npb_priors::dp::occupied_labels(&total);
            let h = rng.random_range(0..k);
            let groups = counts.iter().zip(&sticks);
            let ln_ratio: f64 = groups
                .map(|(m, s)| ln_neighbour_swap_ratio([m[h], m[h + 1]], [s[h], s[h + 1]]))
                .sum();
            if rng.random::<f64>().ln() < sign * ln_ratio + ln_occupied_ratio(&total, h) {
                counts.iter_mut().for_each(|c| c.swap(h, h + 1));
                sticks.iter_mut().for_each(|s| s.swap(h, h + 1));
            }
        }
        shift.push(counts.iter().map(|c| c[0]).sum::<usize>() as f64 - before as f64);
    }
    z_score(&shift, 0.0)
}

fn posterior_sticks(counts: &[usize], beta: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut ln_rest = vec![0.0; counts.len()];
    npb_priors::dp::draw_sticks_given_labels(counts, beta, &mut ln_rest, rng);
    ln_rest
}

#[test]
fn lower_level_swaps_leave_the_joint_law_and_the_printed_ratio_does_not() {
    let (right, printed) = (lower_swap_shift(1.0, 503), lower_swap_shift(-1.0, 503));
    assert!(
        right.abs() < 3.9 && printed.abs() > 20.0,
        "{right} {printed}"
    );
}

#[test]
fn bad_parameters_are_named_and_no_rows_work() {
    let err = ItfPrior::new(0.0, vec![1.0]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "infinite tensor factorisation: alpha = 0: must be positive and at most 1e9"
    );
    let err = ItfPrior::new(1.0, vec![1.0, f64::NAN]).unwrap_err();
    assert!(err.to_string().contains("beta[1] = NaN"), "{err}");
    assert!(ItfPrior::new(1.0, vec![]).is_err());
    // One label would ask for more sticks than there is memory, or for sticks without end.
    assert!(ItfPrior::new(1e18, vec![1.0]).is_err() && ItfPrior::new(1.0, vec![1e10]).is_err());
    let mut rng = rng(504);
    let draw = ItfPrior::new(1.0, vec![1.0; 3])
        .unwrap()
        .sample(0, &mut rng);
    assert!(draw.top_labels.is_empty() && draw.labels == vec![Vec::<usize>::new(); 3]);
}
