//! The hierarchical Dirichlet process: franchise, table counts and weights.

use npb_priors::GammaPrior;
use npb_priors::dp::{
    cluster_count_distribution, draw_concentration_given_partitions, ln_partition_probability,
    sample_weights,
};
use npb_priors::hdp::*;
use rand::RngExt;
use statrs::distribution::{Beta, ContinuousCDF, Gamma};

use crate::check::{
    LEVEL, assert_mean, assert_moments, chi_square_p, counts_of, ks_p, rng, tally, z_score,
};

#[test]
fn customers_share_dishes_at_the_stated_rates() {
    let (alpha, beta) = (0.8, 2.5);
    let mut rng = rng(200);
    let (mut within, mut across, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..40_000 {
        let franchise = sample_franchise(&[3, 2], alpha, beta, &mut rng);
        let labels: Vec<Vec<usize>> = (0..2).map(|j| franchise.labels(j).collect()).collect();
        within.push(f64::from(labels[0][1] == labels[0][2]));
        across.push(f64::from(labels[0][2] == labels[1][1]));
        tables.push(franchise.n_tables() as f64);
        assert!(franchise.n_dishes() == 1 + labels.iter().flatten().max().unwrap());
    }
    let same_dish = 1.0 / (1.0 + beta);
    assert_mean(
        &within,
        1.0 / (1.0 + alpha) + alpha / (1.0 + alpha) * same_dish,
    );
    assert_mean(&across, same_dish);
    assert_mean(
        &tables,
        2.0 + 2.0 * alpha / (1.0 + alpha) + alpha / (2.0 + alpha),
    );
    assert!(z_score(&across, 1.0 / (1.0 + alpha)).abs() > 3.9);
}

/// Both levels drawn by sticks give the same pairs as the franchise.
#[test]
fn sticks_and_franchise_agree() {
    let (alpha, beta) = (0.8, 2.5);
    let mut rng = rng(201);
    let mut within = Vec::new();
    let mut across = Vec::new();
    let mut eta = vec![0.0; 200];
    for _ in 0..20_000 {
        sample_weights(beta, &mut eta, &mut rng);
        let groups = [0, 1].map(|_| sample_group_weights(alpha, &eta, &mut rng));
        within.push(groups[0].iter().map(|w| w * w).sum::<f64>());
        across.push(
            groups[0]
                .iter()
                .zip(&groups[1])
                .map(|(a, b)| a * b)
                .sum::<f64>(),
        );
    }
    let same_dish = 1.0 / (1.0 + beta);
    assert_mean(
        &within,
        1.0 / (1.0 + alpha) + alpha / (1.0 + alpha) * same_dish,
    );
    assert_mean(&across, same_dish);
}

#[test]
fn stirling_numbers_are_the_integers() {
    let stirling = LnStirling::new(10);
    let row_9 = [
        0.0, 40320.0, 109584.0, 118124.0, 67284.0, 22449.0, 4536.0, 546.0, 36.0, 1.0,
    ];
    assert!(
        stirling
            .row(9)
            .iter()
            .zip(row_9)
            .all(|(ln_s, s): (&f64, f64)| (ln_s.exp() - s).abs() <= 1e-12 * s)
    );
    assert_eq!(stirling.row(0), [0.0]);
    for n in 0..=10 {
        for c in [1e-300, 0.01, 1.0, 40.0] {
            let found = stirling.ln_table_counts(n, c);
            let expected = cluster_count_distribution(n, c);
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(f, e)| (f.exp() - e).abs() < 1e-13),
                "{n} {c}"
            );
        }
    }
}

#[test]
fn table_counts_have_antoniaks_distribution() {
    let mut rng = rng(202);
    let stirling = LnStirling::new(12);
    for c in [0.05, 1.0, 6.0] {
        let p: Vec<f64> = stirling
            .ln_table_counts(12, c)
            .iter()
            .map(|l| l.exp())
            .collect();
        let counts = tally((0..30_000).map(|_| draw_table_count(12, c, &mut rng)), 13);
        assert!(chi_square_p(&counts, &p) > LEVEL, "{c}");
    }
    assert_eq!(draw_table_count(0, 1.0, &mut rng), 0);
    assert_eq!(
        (0..100)
            .map(|_| draw_table_count(50, 1e-300, &mut rng))
            .max(),
        Some(1)
    );
}

/// Labels and weights drawn from the prior, tables and weights drawn again: nothing may move.
#[test]
fn tables_and_weights_given_labels_leave_the_joint_law() {
    let (alpha, beta) = (1.5, 2.0);
    let sizes = [6, 4];
    let mut rng = rng(203);
    let (mut first_weight, mut share) = (Vec::new(), Vec::new());
    for _ in 0..30_000 {
        let franchise = sample_franchise(&sizes, alpha, beta, &mut rng);
        let k = franchise.n_dishes();
        let mut tables = vec![0; k];
        franchise
            .dish_of
            .iter()
            .flatten()
            .for_each(|&d| tables[d] += 1);
        let eta = draw_top_weights(&tables, beta, &mut rng);
        assert!(eta.len() == k + 1 && (eta.iter().sum::<f64>() - 1.0).abs() < 1e-13);
        // A dish in order of appearance is size-biased: eta_1 ~ Beta(1, beta).
        first_weight.push(eta[0]);
        let labels: Vec<usize> = franchise.labels(0).collect();
        let pi = draw_group_weights(alpha, &eta, &counts_of(&labels), &mut rng);
        // One more customer of the group eats what its third one eats.
        share.push(pi[labels[2]]);
    }
    let law = Beta::new(1.0, beta).unwrap();
    assert!(ks_p(first_weight, |x| law.cdf(x)) > LEVEL);
    assert_mean(
        &share,
        1.0 / (1.0 + alpha) + alpha / (1.0 + alpha) / (1.0 + beta),
    );
}

#[test]
fn group_weights_have_dirichlet_moments() {
    let eta = [0.5, 0.3, 0.2];
    let counts = [2, 0, 1];
    let alpha = 1.4;
    let mut rng = rng(204);
    let draws: Vec<Vec<f64>> = (0..30_000)
        .map(|_| draw_group_weights(alpha, &eta, &counts, &mut rng))
        .collect();
    let total = alpha + 3.0;
    for s in 0..3 {
        let mean = (alpha * eta[s] + counts[s] as f64) / total;
        let column: Vec<f64> = draws.iter().map(|w| w[s]).collect();
        assert_moments(&column, mean, mean * (1.0 - mean) / (total + 1.0));
    }
    let zero = draw_group_weights(1.0, &[0.0, 1.0], &[0, 0], &mut rng);
    assert_eq!(zero, [0.0, 1.0]);
    let tiny = draw_group_weights(1e-9, &[0.5, 0.5], &[], &mut rng);
    assert!(tiny.iter().sum::<f64>() == 1.0 && tiny.contains(&1.0));
}

/// Both concentrations from their priors, the franchise, both drawn again by their conditionals.
#[test]
fn concentration_draws_leave_the_joint_law() {
    let prior = GammaPrior {
        shape: 3.0,
        rate: 2.0,
    };
    let law = Gamma::new(3.0, 2.0).unwrap();
    let sizes = [7, 1, 12, 0];
    let mut rng = rng(205);
    let mut moved = [Vec::new(), Vec::new()];
    let mut products = [Vec::new(), Vec::new()];
    let mut twin = Vec::new();
    for _ in 0..30_000 {
        let [alpha, beta] = [0; 2].map(|_| law.inverse_cdf(rng.random()));
        let franchise = sample_franchise(&sizes, alpha, beta, &mut rng);
        let (tables, dishes) = (franchise.n_tables(), franchise.n_dishes());
        let new_alpha = draw_concentration_given_partitions(alpha, &sizes, tables, prior, &mut rng);
        let new_beta =
            draw_concentration_given_partitions(beta, &[tables], dishes, prior, &mut rng);
        products[0].push((new_alpha - alpha) * tables as f64);
        products[1].push((new_beta - beta) * dishes as f64);
        moved[0].push(new_alpha);
        moved[1].push(new_beta);
        // Wrong: dishes for tables.
        twin.push(draw_concentration_given_partitions(
            alpha,
            &sizes,
            dishes.max(3),
            prior,
            &mut rng,
        ));
    }
    for (alphas, products) in moved.into_iter().zip(products) {
        assert_mean(&products, 0.0);
        assert!(ks_p(alphas, |x| law.cdf(x)) > LEVEL);
    }
    assert!(ks_p(twin, |x| law.cdf(x)) < LEVEL);
}

#[test]
fn a_franchise_of_one_group_has_the_probability_of_its_urns() {
    // P(3 customers all at one table) = 2 / ((1 + alpha)(2 + alpha)).
    let alpha = 0.7;
    let mut rng = rng(206);
    let together: Vec<f64> = (0..40_000)
        .map(|_| f64::from(sample_franchise(&[3], alpha, 1.0, &mut rng).n_tables() == 1))
        .collect();
    assert_mean(&together, ln_partition_probability(&[3], alpha).exp());
}
