//! The Dirichlet process: urn, partitions, labels, concentration draws and swaps.

use npb_priors::GammaPrior;
use npb_priors::dp::*;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ContinuousCDF, Gamma};

use crate::check::{
    LEVEL, assert_mean, assert_moments, chi_square_p, counts_of, ks_p, rng, tally, z_score,
};

/// Every partition of `n` items, as labels in order of appearance.
fn partitions(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..n {
        let extend = |labels: Vec<usize>| {
            let k = counts_of(&labels).len();
            (0..=k).map(move |h| [labels.as_slice(), &[h]].concat())
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all
}

#[test]
fn partition_probabilities_sum_to_one() {
    let bell = [1, 1, 2, 5, 15, 52, 203, 877, 4140];
    for (n, bell) in bell.into_iter().enumerate() {
        let all = partitions(n);
        assert_eq!(all.len(), bell);
        for alpha in [1e-3, 0.7, 1.0, 30.0] {
            let total: f64 = all
                .iter()
                .map(|p| ln_partition_probability(&counts_of(p), alpha).exp())
                .sum();
            assert!((total - 1.0).abs() < 1e-12, "n {n} alpha {alpha}: {total}");
        }
    }
}

#[test]
fn the_number_of_clusters_agrees_with_enumeration() {
    for n in 0..=8 {
        for alpha in [0.05, 1.7, 12.0] {
            let mut expected = vec![0.0; n + 1];
            for p in partitions(n) {
                let sizes = counts_of(&p);
                expected[sizes.len()] += ln_partition_probability(&sizes, alpha).exp();
            }
            let found = cluster_count_distribution(n, alpha);
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(f, e)| (f - e).abs() < 1e-13)
            );
            let (mean, variance) = cluster_count_moments(n, alpha);
            let m: f64 = (0..=n).map(|k| k as f64 * expected[k]).sum();
            let v: f64 = (0..=n).map(|k| (k as f64 - m).powi(2) * expected[k]).sum();
            assert!((mean - m).abs() < 1e-12 && (variance - v).abs() < 1e-12);
        }
    }
}

#[test]
fn the_urn_draws_partitions_with_their_probability() {
    let (n, alpha) = (5, 1.3);
    let all = partitions(n);
    let probabilities: Vec<f64> = all
        .iter()
        .map(|p| ln_partition_probability(&counts_of(p), alpha).exp())
        .collect();
    let mut rng = rng(1);
    let mut observe = |alpha: f64| {
        let draws = (0..40_000).map(|_| {
            let labels = sample_urn(n, alpha, &mut rng);
            all.iter().position(|p| *p == labels).unwrap()
        });
        chi_square_p(&tally(draws, all.len()), &probabilities)
    };
    assert!(observe(alpha) > LEVEL);
    assert!(observe(1.4) < LEVEL);
}

#[test]
fn the_urn_opens_clusters_at_the_stated_rate() {
    let (n, alpha) = (60, 3.0);
    let mut rng = rng(2);
    let counts: Vec<usize> = (0..40_000)
        .map(|_| counts_of(&sample_urn(n, alpha, &mut rng)).len())
        .collect();
    let (mean, variance) = cluster_count_moments(n, alpha);
    assert_moments(
        &counts.iter().map(|&k| k as f64).collect::<Vec<_>>(),
        mean,
        variance,
    );
    assert!(chi_square_p(&tally(counts, n + 1), &cluster_count_distribution(n, alpha)) > LEVEL);
}

#[test]
fn stick_weights_have_their_moments_and_distribution() {
    let alpha = 2.5;
    let mut rng = rng(3);
    let mut w = [0.0; 4];
    let mut columns = vec![Vec::new(); 4];
    for _ in 0..40_000 {
        sample_weights(alpha, &mut w, &mut rng);
        assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        columns.iter_mut().zip(w).for_each(|(c, w)| c.push(w));
    }
    for (h, column) in columns.iter().enumerate().take(3) {
        // E of V is 1/(1+alpha), of its square 2/((1+alpha)(2+alpha)); of (1-V)^j it is alpha/(alpha+j).
        let first: f64 = (alpha / (1.0 + alpha)).powi(h as i32) / (1.0 + alpha);
        let second = (alpha / (2.0 + alpha)).powi(h as i32) * 2.0 / ((1.0 + alpha) * (2.0 + alpha));
        assert_moments(column, first, second - first * first);
    }
    assert_mean(&columns[3], (alpha / (1.0 + alpha)).powi(3));
    assert!(ks_p(columns[0].clone(), |x| 1.0 - (1.0 - x).powf(alpha)) > LEVEL);
    assert!(ks_p(columns[0].clone(), |x| 1.0 - (1.0 - x).powf(alpha + 0.1)) < LEVEL);
}

#[test]
fn a_vanishing_or_zero_concentration_gives_one_weight() {
    let mut rng = rng(4);
    for alpha in [0.0, f64::MIN_POSITIVE, 1e-100] {
        let mut w = [0.5; 3];
        sample_weights(alpha, &mut w, &mut rng);
        assert_eq!(w, [1.0, 0.0, 0.0]);
    }
}

/// Labels 0..limit for n items.
fn labelings(n: usize, limit: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..n {
        all = all
            .into_iter()
            .flat_map(|l: Vec<usize>| (0..limit).map(move |h| [l.as_slice(), &[h]].concat()))
            .collect();
    }
    all
}

#[test]
fn label_probabilities_sum_to_one_and_to_the_partition_probability() {
    // Labels above 60 have probability below (0.7/1.7)^60 each.
    let (n, alpha) = (2, 0.7);
    let all = labelings(n, 60);
    let total: f64 = all
        .iter()
        .map(|l| ln_label_probability(&counts_of(l), alpha).exp())
        .sum();
    assert!((total - 1.0).abs() < 1e-12, "{total}");
    let together: f64 = all
        .iter()
        .filter(|l| l[0] == l[1])
        .map(|l| ln_label_probability(&counts_of(l), alpha).exp())
        .sum();
    assert!((together - ln_partition_probability(&[2], alpha).exp()).abs() < 1e-12);
}

#[test]
fn predictive_weights_are_ratios_of_label_probabilities() {
    let alpha = 0.9;
    for counts in [vec![], vec![3, 0, 2], vec![0, 0, 5, 1], vec![1]] {
        let mut out = [0.0; 6];
        let beyond = predictive_weights(&counts, alpha, &mut out);
        assert!((out.iter().sum::<f64>() + beyond - 1.0).abs() < 1e-13);
        for (h, weight) in out.iter().enumerate() {
            let mut more = counts.clone();
            more.resize(more.len().max(h + 1), 0);
            more[h] += 1;
            let ratio =
                (ln_label_probability(&more, alpha) - ln_label_probability(&counts, alpha)).exp();
            assert!((weight / ratio - 1.0).abs() < 1e-12, "{counts:?} label {h}");
        }
    }
}

#[test]
fn lazy_sticks_draw_labels_with_their_probability() {
    let alpha = 1.2;
    let all = labelings(3, 4);
    let mut p: Vec<f64> = all
        .iter()
        .map(|l| ln_label_probability(&counts_of(l), alpha).exp())
        .collect();
    p.push(1.0 - p.iter().sum::<f64>());
    let mut rng = rng(5);
    let draws = (0..60_000).map(|_| {
        let mut sticks = LazySticks::new(alpha).unwrap();
        let labels: Vec<usize> = (0..3).map(|_| sticks.draw_label(&mut rng)).collect();
        all.iter().position(|l| *l == labels).unwrap_or(all.len())
    });
    assert!(chi_square_p(&tally(draws, p.len()), &p) > LEVEL);

    let mut sticks = LazySticks::new(alpha).unwrap();
    let labels: Vec<usize> = (0..400_000).map(|_| sticks.draw_label(&mut rng)).collect();
    let weights = sticks.weights();
    assert!((weights.iter().sum::<f64>() + sticks.rest() - 1.0).abs() < 1e-14);
    assert!(chi_square_p(&tally(labels, weights.len()), weights) > LEVEL);
}

const PRIOR: GammaPrior = GammaPrior {
    shape: 2.0,
    rate: 1.0,
};

fn prior_alpha(rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(PRIOR.shape, PRIOR.rate)
        .unwrap()
        .inverse_cdf(rng.random())
}

fn draw_labels(alpha: f64, n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut sticks = LazySticks::new(alpha).unwrap();
    (0..n).map(|_| sticks.draw_label(rng)).collect()
}

type AlphaRule = fn(f64, &[usize], &mut Xoshiro256PlusPlus) -> f64;

/// Draws (α, labels) from the joint prior, α again by `rule`, and compares: the joint law must not move.
///
/// Returns z-scores of α, of α times the largest label, and the p-value of α's marginal.
fn alpha_rule_moves(rule: AlphaRule, seed: u64) -> (f64, f64, f64) {
    let mut rng = rng(seed);
    let (mut alphas, mut products, mut shifts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50_000 {
        let alpha = prior_alpha(&mut rng);
        let counts = counts_of(&draw_labels(alpha, 8, &mut rng));
        let moved = rule(alpha, &counts, &mut rng);
        alphas.push(moved);
        shifts.push(moved - alpha);
        products.push((moved - alpha) * counts.len() as f64);
    }
    let prior = Gamma::new(PRIOR.shape, PRIOR.rate).unwrap();
    (
        z_score(&shifts, 0.0),
        z_score(&products, 0.0),
        ks_p(alphas, |x| prior.cdf(x)),
    )
}

fn from_labels(alpha: f64, counts: &[usize], rng: &mut Xoshiro256PlusPlus) -> f64 {
    draw_concentration_given_labels(alpha, [counts], PRIOR, rng)
}

fn from_partition(alpha: f64, counts: &[usize], rng: &mut Xoshiro256PlusPlus) -> f64 {
    let k = counts.iter().filter(|&&m| m > 0).count();
    draw_concentration_given_partitions(alpha, &[counts.iter().sum()], k, PRIOR, rng)
}

#[test]
fn the_concentration_draw_given_labels_leaves_the_joint_law() {
    let (mean, product, p) = alpha_rule_moves(from_labels, 6);
    assert!(
        mean.abs() < 3.9 && product.abs() < 3.9 && p > LEVEL,
        "{mean} {product} {p}"
    );
}

/// The printed rule 1(a) of the tensor factorisation conditions on the partition where the state holds labels.
#[test]
fn the_printed_concentration_draw_moves_the_joint_law() {
    let (_, product, _) = alpha_rule_moves(from_partition, 6);
    assert!(product.abs() > 10.0, "{product}");
}

#[test]
fn the_concentration_draw_given_a_partition_leaves_the_joint_law() {
    let mut rng = rng(7);
    let (mut alphas, mut products) = (Vec::new(), Vec::new());
    for _ in 0..50_000 {
        let alpha = prior_alpha(&mut rng);
        let groups: Vec<Vec<usize>> = [9, 0, 4, 1]
            .map(|n| counts_of(&sample_urn(n, alpha, &mut rng)))
            .into();
        let k: usize = groups.iter().map(Vec::len).sum();
        let moved = draw_concentration_given_partitions(alpha, &[9, 0, 4, 1], k, PRIOR, &mut rng);
        alphas.push(moved);
        products.push((moved - alpha) * k as f64);
    }
    assert_mean(&alphas, 2.0);
    assert_mean(&products, 0.0);
    assert!(ks_p(alphas, |x| Gamma::new(2.0, 1.0).unwrap().cdf(x)) > LEVEL);
}

/// Exact conditional of α on a grid, against a long chain of the draw (thinned), for labels shared by three groups.
#[test]
fn the_concentration_draw_given_labels_has_the_exact_conditional() {
    let groups: [&[usize]; 3] = [&[0, 3, 0, 1], &[1], &[2, 2]];
    let ln_posterior = |a: f64| {
        (PRIOR.shape - 1.0) * a.ln() - PRIOR.rate * a
            + groups
                .iter()
                .map(|g| ln_label_probability(g, a))
                .sum::<f64>()
    };
    let step = 1e-3;
    let mut cdf: Vec<f64> = (0..20_000)
        .map(|i| ln_posterior((i as f64 + 0.5) * step).exp())
        .collect();
    let total: f64 = cdf.iter().sum();
    cdf.iter_mut().fold(0.0, |sum, p| {
        *p = sum + *p / total;
        *p
    });
    let mut rng = rng(8);
    let mut alpha = 1.0;
    let draws: Vec<f64> = (0..20_000)
        .map(|_| {
            (0..8).for_each(|_| {
                alpha = draw_concentration_given_labels(alpha, groups, PRIOR, &mut rng)
            });
            alpha
        })
        .collect();
    assert!(ks_p(draws, |x| cdf[((x / step) as usize).min(cdf.len() - 1)]) > LEVEL);
}

#[test]
fn no_data_means_the_prior() {
    let mut rng = rng(9);
    let from_labels: Vec<f64> = (0..20_000)
        .map(|_| draw_concentration_given_labels(9.0, [&[][..], &[0, 0]], PRIOR, &mut rng))
        .collect();
    let from_partitions: Vec<f64> = (0..20_000)
        .map(|_| draw_concentration_given_partitions(9.0, &[0, 0], 0, PRIOR, &mut rng))
        .collect();
    for draws in [from_labels, from_partitions] {
        assert!(ks_p(draws, |x| Gamma::new(2.0, 1.0).unwrap().cdf(x)) > LEVEL);
    }
}

#[test]
fn a_concentration_draw_stays_within_the_positive_numbers() {
    let mut rng = rng(10);
    for prior in [[1e-6, 1e-6], [1e-3, 1e300], [5.0, 1e-308]] {
        let prior = GammaPrior {
            shape: prior[0],
            rate: prior[1],
        };
        let mut alpha = 1.0;
        for _ in 0..200 {
            alpha = draw_concentration_given_labels(alpha, [&[5, 0, 2][..]], prior, &mut rng);
            assert!(alpha > 0.0 && alpha.is_finite());
            alpha = draw_concentration_given_partitions(alpha, &[5], 1, prior, &mut rng);
            assert!(alpha > 0.0 && alpha.is_finite());
            alpha = draw_concentration_given_partitions(alpha, &[], 0, prior, &mut rng);
            assert!(alpha > 0.0 && alpha.is_finite());
        }
    }
}

#[test]
fn sticks_given_labels_and_labels_given_sticks_agree() {
    // Draw labels from the prior, sticks given labels: the sticks must again be from the prior, and independent.
    let alpha = 1.5;
    let mut rng = rng(11);
    let mut columns = vec![Vec::new(); 3];
    let mut product = Vec::new();
    for _ in 0..30_000 {
        let counts = counts_of(&draw_labels(alpha, 6, &mut rng));
        let mut ln_rest = [0.0; 3];
        draw_sticks_given_labels(&counts, alpha, &mut ln_rest, &mut rng);
        let mut w = [0.0; 3];
        let rest = weights_of_sticks(&ln_rest, &mut w);
        assert!((w.iter().sum::<f64>() + rest - 1.0).abs() < 1e-14);
        columns
            .iter_mut()
            .zip(ln_rest)
            .for_each(|(c, l)| c.push(-l));
        product.push(ln_rest[0] * ln_rest[1]);
    }
    for column in columns {
        assert!(ks_p(column, |x| 1.0 - (-alpha * x).exp()) > LEVEL);
    }
    assert_mean(&product, 1.0 / (alpha * alpha));
}

type Swap = fn(&mut Vec<usize>, &mut Vec<f64>, f64, &mut Xoshiro256PlusPlus);

/// Exact draws of (sticks, labels), then `swap`: the first cluster's mean size, how far it is from its mean under the
/// prior, and the p-value of the first stick's law, which is the prior's, too.
fn swap_shift(swap: Swap, alpha: f64, seed: u64) -> (f64, f64, f64) {
    let n = 6;
    let mut rng = rng(seed);
    let (mut sizes, mut sticks) = (Vec::new(), Vec::new());
    for _ in 0..40_000 {
        let mut counts = counts_of(&draw_labels(alpha, n, &mut rng));
        let mut ln_rest = vec![0.0; occupied_labels(&counts)];
        draw_sticks_given_labels(&counts, alpha, &mut ln_rest, &mut rng);
        swap(&mut counts, &mut ln_rest, alpha, &mut rng);
        sizes.push(counts[0] as f64);
        sticks.push(-ln_rest[0]);
    }
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let p = ks_p(sticks, |x| 1.0 - (-alpha * x).exp());
    (mean, z_score(&sizes, n as f64 / (1.0 + alpha)), p)
}

#[test]
fn swapping_neighbours_leaves_the_joint_law() {
    let five_moves: Swap = |counts, ln_rest, alpha, rng| {
        for _ in 0..5 {
            propose_neighbour_swap(counts, ln_rest, alpha, rng);
        }
    };
    // A small concentration asks for a fresh stick in most moves.
    for alpha in [1.5, 0.2] {
        let (mean, z, p) = swap_shift(five_moves, alpha, 12);
        assert!(z.abs() < 3.9 && p > LEVEL, "{mean} {p}");
    }
}

#[test]
fn the_occupied_ratio_is_that_of_the_labels_before_and_after() {
    let counts_below_3 =
        (0..81).map(|code: usize| [code % 3, code / 3 % 3, code / 9 % 3, code / 27, 0]);
    for counts in counts_below_3.filter(|counts| occupied_labels(counts) > 0) {
        let k = occupied_labels(&counts);
        for h in 0..k {
            let mut swapped = counts;
            swapped.swap(h, h + 1);
            let expected = (k as f64 / occupied_labels(&swapped) as f64).ln();
            assert_eq!(ln_occupied_ratio(&counts, h), expected, "{counts:?} {h}");
        }
    }
}

#[test]
fn the_printed_swap_ratio_does_not() {
    let printed: Swap = |counts, ln_rest, alpha, rng| {
        let k = occupied_labels(counts);
        let h = rng.random_range(0..k);
        counts.resize(counts.len().max(h + 2), 0);
        if ln_rest.len() < h + 2 {
            ln_rest.push(rng.random::<f64>().ln() / alpha);
        }
        let upside_down =
            -ln_neighbour_swap_ratio([counts[h], counts[h + 1]], [ln_rest[h], ln_rest[h + 1]]);
        let last = if h + 1 == k {
            (k as f64 / (k + 1) as f64).ln()
        } else {
            0.0
        };
        if rng.random::<f64>().ln() < upside_down + last {
            counts.swap(h, h + 1);
            ln_rest.swap(h, h + 1);
        }
    };
    let (mean, z, _) = swap_shift(printed, 1.5, 13);
    // The errata's figure: one printed move takes 2.40 to 1.83.
    assert!(z.abs() > 50.0 && (mean - 1.83).abs() < 0.03, "{mean}");
}

/// Largest label after repeated swaps: the factor k_old / k_new is needed for it to keep its law.
#[test]
fn the_occupied_ratio_matters() {
    let run = |with_ratio: bool, seed| {
        let alpha = 1.5;
        let mut rng = rng(seed);
        let mut largest = Vec::new();
        for _ in 0..40_000 {
            let mut counts = counts_of(&draw_labels(alpha, 6, &mut rng));
            let before = counts.len() as f64;
            let mut ln_rest = vec![0.0; counts.len() + 6];
            draw_sticks_given_labels(&counts, alpha, &mut ln_rest, &mut rng);
            for _ in 0..5 {
                if with_ratio {
                    propose_neighbour_swap(&mut counts, &mut ln_rest, alpha, &mut rng);
                    continue;
                }
                let h = rng.random_range(0..occupied_labels(&counts));
                counts.resize(counts.len().max(h + 2), 0);
                let ratio = ln_neighbour_swap_ratio(
                    [counts[h], counts[h + 1]],
                    [ln_rest[h], ln_rest[h + 1]],
                );
                if rng.random::<f64>().ln() < ratio {
                    counts.swap(h, h + 1);
                    ln_rest.swap(h, h + 1);
                }
            }
            largest.push(occupied_labels(&counts) as f64 - before);
        }
        z_score(&largest, 0.0)
    };
    let (right, wrong) = (run(true, 14), run(false, 14));
    assert!(right.abs() < 3.9 && wrong.abs() > 8.0, "{right} {wrong}");
}

#[test]
fn swapping_labels_alone_leaves_the_law_of_labels() {
    let (n, alpha) = (6, 1.5);
    let mut rng = rng(15);
    let mut shifts = Vec::new();
    let mut twin = Vec::new();
    for _ in 0..40_000 {
        let counts = counts_of(&draw_labels(alpha, n, &mut rng));
        let mut ln_rest = vec![0.0; counts.len()];
        draw_sticks_given_labels(&counts, alpha, &mut ln_rest, &mut rng);
        let mut w = ln_rest.clone();
        weights_of_sticks(&ln_rest, &mut w);
        let occupied: Vec<usize> = (0..counts.len()).filter(|&h| counts[h] > 0).collect();
        let (a, b) = (
            occupied[rng.random_range(0..occupied.len())],
            occupied[rng.random_range(0..occupied.len())],
        );
        let ln_ratio = ln_weight_swap_ratio([counts[a], counts[b]], [w[a].ln(), w[b].ln()]);
        let moved = |ln_ratio: f64, u: f64| {
            let mut after = counts.clone();
            if u.ln() < ln_ratio {
                after.swap(a, b);
            }
            after[0] as f64 - counts[0] as f64
        };
        let u = rng.random();
        shifts.push(moved(ln_ratio, u));
        twin.push(moved(-ln_ratio, u));
    }
    assert_mean(&shifts, 0.0);
    assert!(z_score(&twin, 0.0).abs() > 10.0);
}

#[test]
fn the_log_likelihood_of_large_partitions_keeps_its_digits() {
    // One block of n at alpha = 1: (n-1)!/n! = 1/n.
    let n = 1_000_000;
    assert!((ln_partition_probability(&[n], 1.0) + (n as f64).ln()).abs() < 1e-8);
    // All alone at a huge concentration: nearly certain.
    let alone = ln_partition_probability(&vec![1; 1000], 1e10);
    assert!((alone + 999.0 * 1000.0 / 2e10).abs() < 1e-9, "{alone:e}");
}
