//! Pairs of columns and of rows: information, verdicts, similarities.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::kernels::{Column, FullNormal};
use npb_itf::{
    ClusteringLoss, DependenceConfig, Draw, Grouping, ItfConfig, ItfFit, Structure, Verdict, fit,
};

use super::{close, config, fitted, psi, table};
use crate::tables::ALL;

/// Law of the clusters of three columns in one draw, by definition.
fn law(draw: &Draw, [a, b, c]: [usize; 3]) -> Vec<([usize; 3], f64)> {
    let n = |j: usize| draw.columns[j].n_clusters;
    let of = |j: usize, k: usize| -> Vec<f64> {
        let weights = draw.blocks[draw.columns[j].block]
            .weights
            .iter()
            .enumerate();
        weights
            .map(|(r, weight)| weight * psi(draw, j, r, k))
            .collect()
    };
    let mut law = Vec::new();
    for (k, l, m) in
        (0..n(a)).flat_map(|k| (0..n(b)).flat_map(move |l| (0..n(c)).map(move |m| (k, l, m))))
    {
        // Columns of one block share its top-level cluster, columns of others are independent of it.
        let mut probability = 1.0;
        let columns = [(a, k), (b, l), (c, m)];
        for block in 0..draw.blocks.len() {
            let inside: Vec<&(usize, usize)> = columns
                .iter()
                .filter(|(j, _)| draw.columns[*j].block == block)
                .collect();
            match inside[..] {
                [] => {}
                [&(j, k)] => probability *= of(j, k).iter().sum::<f64>(),
                _ => {
                    let weights = draw.blocks[block].weights.iter().enumerate();
                    let all = |(r, weight): (usize, &f64)| {
                        weight
                            * inside
                                .iter()
                                .map(|&&(j, k)| psi(draw, j, r, k))
                                .product::<f64>()
                    };
                    probability *= weights.map(all).sum::<f64>();
                }
            }
        }
        if probability > 0.0 {
            law.push(([k, l, m], probability));
        }
    }
    law
}

/// Entropy of some of the three.
fn entropy(law: &[([usize; 3], f64)], keep: [bool; 3]) -> f64 {
    let mut sums = std::collections::BTreeMap::new();
    for (key, p) in law {
        let key = [0, 1, 2].map(|j| if keep[j] { key[j] } else { 0 });
        *sums.entry(key).or_insert(0.0) += p;
    }
    sums.values().map(|p: &f64| -p * p.ln()).sum()
}

#[test]
fn information_is_that_of_the_joint_law_of_the_clusters() {
    for structure in ALL {
        let (_, fit) = fitted(structure, 21);
        let mut of_draws = [Vec::new(), Vec::new()];
        for draw in fit.draws() {
            let all = law(draw, [0, 1, 2]);
            let total: f64 = all.iter().map(|(_, p)| p).sum();
            close(total, 1.0, 1e-6);
            let h = |keep| entropy(&all, keep);
            let both = h([true, false, false]) + h([false, true, false]) - h([true, true, false]);
            close(draw.mutual_information(0, 1), both, 1e-6);
            close(draw.mutual_information(1, 0), both, 1e-6);
            let given = h([true, false, true]) + h([false, true, true])
                - h([true; 3])
                - h([false, false, true]);
            close(draw.conditional_mutual_information(0, 1, &[2]), given, 1e-6);
            assert_eq!(draw.conditional_mutual_information(0, 1, &[0]), 0.0);
            match draw.joint_weights(0, 1) {
                None => assert_ne!(draw.columns[0].block, draw.columns[1].block),
                Some(joint) => {
                    let n = draw.columns[1].n_clusters;
                    let mut wanted = vec![0.0; joint.len()];
                    all.iter().for_each(|([k, l, _], p)| wanted[k * n + l] += p);
                    joint
                        .iter()
                        .zip(&wanted)
                        .for_each(|(a, b)| close(*a, *b, 1e-9));
                }
            }
            of_draws[0].push(both);
            of_draws[1].push(given);
        }
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let sd = |of: &[f64]| {
            let squares = of.iter().map(|x| (x - mean(of)).powi(2)).sum::<f64>();
            (squares / of.len() as f64).sqrt()
        };
        let found = fit
            .conditional_information("x", "c", &["y"], &[0.0, 1.0])
            .unwrap();
        close(found.mean, mean(&of_draws[1]), 1e-6);
        close(found.sd, sd(&of_draws[1]), 1e-5);
        let least = of_draws[1].iter().copied().fold(f64::INFINITY, f64::min);
        let most = of_draws[1]
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        close(found.quantiles[0], least, 1e-6);
        close(found.quantiles[1], most, 1e-6);
    }
}

/// Given two columns: entropies of the clusters of all four, enumerated; and in the table of all pairs.
#[test]
fn information_given_several_columns_is_that_of_their_clusters() {
    let (trained, fit) = fitted(Structure::Tensor, 29);
    let mut of_draws = Vec::new();
    for draw in fit.draws() {
        let n = |j: usize| draw.columns[j].n_clusters;
        let mut sums = [(); 4].map(|()| std::collections::BTreeMap::new());
        for (r, top) in draw.blocks[0].weights.iter().enumerate() {
            for k in 0..n(0) * n(1) * n(2) * n(3) {
                let [a, b, c, d] = [
                    k / (n(1) * n(2) * n(3)),
                    k / (n(2) * n(3)) % n(1),
                    k / n(3) % n(2),
                    k % n(3),
                ];
                let p = top
                    * psi(draw, 0, r, a)
                    * psi(draw, 1, r, b)
                    * psi(draw, 2, r, c)
                    * psi(draw, 3, r, d);
                let keys = [
                    [a, n(1), c, d],
                    [n(0), b, c, d],
                    [a, b, c, d],
                    [n(0), n(1), c, d],
                ];
                for (sums, key) in sums.iter_mut().zip(keys) {
                    *sums.entry(key).or_insert(0.0) += p;
                }
            }
        }
        let entropy = |of: &std::collections::BTreeMap<[usize; 4], f64>| -> f64 {
            of.values().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
        };
        let [one, other, all, rest] = [0, 1, 2, 3].map(|k| entropy(&sums[k]));
        let wanted = one + other - all - rest;
        close(
            draw.conditional_mutual_information(0, 1, &[2, 3]),
            wanted,
            1e-6,
        );
        close(
            draw.conditional_mutual_information(0, 1, &[3, 2]),
            wanted,
            1e-6,
        );
        of_draws.push(wanted);
    }
    let mean = of_draws.iter().sum::<f64>() / of_draws.len() as f64;
    close(
        fit.conditional_information("x", "c", &["w", "y"], &[])
            .unwrap()
            .mean,
        mean,
        1e-6,
    );
    let config = DependenceConfig {
        permutations: 99,
        given: ["w", "y"].map(str::to_owned).to_vec(),
        ..DependenceConfig::default()
    };
    let rows = fit.training_rows(&trained).unwrap();
    let found = fit.dependence(&rows, &config).unwrap();
    assert_eq!(found.pairs().len(), 1);
    close(found.pair("c", "x").unwrap().information.mean, mean, 1e-6);
    assert!(
        found
            .pair("c", "y")
            .unwrap_err()
            .to_string()
            .contains("given")
    );
    // The test is that of dependence as such.
    let plain = DependenceConfig {
        given: Vec::new(),
        ..config.clone()
    };
    let plain = fit.dependence(&rows, &plain).unwrap();
    assert_eq!(
        plain.pair("c", "x").unwrap().p_value,
        found.pairs()[0].p_value
    );
    for given in [&["x", "y", "w"][..], &["nothing"]] {
        let given = given.iter().map(ToString::to_string).collect();
        assert!(
            fit.dependence(
                &rows,
                &DependenceConfig {
                    given,
                    ..config.clone()
                }
            )
            .is_err()
        );
    }
}

fn in_groups() -> ItfFit {
    let given = vec![["x", "y"].map(str::to_owned).to_vec()];
    let config = ItfConfig {
        groups: Grouping::Given(given),
        ..config(Structure::TensorBlocks, 23)
    };
    fit(&table(60, 23), &config).unwrap()
}

fn of_group(law: &Column) -> (&FullNormal, &<FullNormal as npb_itf::Kernel>::Params) {
    match law {
        Column::FullNormal(fitted) => (&fitted.kernel, &fitted.params),
        law => panic!("{law:?}"),
    }
}

/// Inside a group: that of its law with its clusters' shares, as they are and given a cluster of another column.
#[test]
fn information_within_groups_is_that_of_their_clusters() {
    let fit = in_groups();
    assert_eq!(fit.groups(), [["x", "y"].map(str::to_owned).to_vec()]);
    let places: Vec<(usize, Option<usize>)> =
        fit.places().iter().map(|p| (p.column, p.part)).collect();
    let group = places[0].0;
    assert_eq!(places[2].0, group);
    let mut parts = [places[0].1.unwrap(), places[2].1.unwrap()];
    // Of the two columns with each other, on both sides of the diagonal.
    let at = 2 * parts[0] + parts[1];
    parts.sort_unstable();
    assert_eq!(parts, [0, 1]);
    let other = places[1].0;
    let mut conditional = Vec::new();
    for draw in fit.draws() {
        let (kernel, params) = of_group(&draw.columns[group].law);
        let n = draw.columns[group].n_clusters;
        let own: Vec<f64> = (0..n)
            .map(|k| {
                let weights = draw.blocks[draw.columns[group].block]
                    .weights
                    .iter()
                    .enumerate();
                weights.map(|(r, w)| w * psi(draw, group, r, k)).sum()
            })
            .collect();
        let wanted = kernel.information(params, &own);
        let found = draw.information_within(group);
        assert_eq!(found.len(), 4);
        (1..3).for_each(|k| close(found[k], wanted[k], 1e-9));
        // Given its own cluster: the mean over clusters of each one's.
        let found = draw.information_within_given(group, &[group]);
        let mut wanted = [0.0; 4];
        for (k, share) in own.iter().enumerate() {
            let alone: Vec<f64> = (0..n).map(|l| f64::from(u8::from(l == k))).collect();
            let of_one = kernel.information(params, &alone);
            wanted
                .iter_mut()
                .zip(of_one)
                .for_each(|(sum, x)| *sum += share * x);
        }
        (1..3).for_each(|k| close(found[k], wanted[k], 1e-9));
        let found = draw.information_within_given(group, &[other]);
        if draw.columns[group].block != draw.columns[other].block {
            let own = draw.information_within(group);
            (1..3).for_each(|k| assert_eq!(found[k], own[k]));
        } else {
            let top = &draw.blocks[draw.columns[group].block].weights;
            let mut wanted = [0.0; 4];
            for m in 0..draw.columns[other].n_clusters {
                let joint: Vec<f64> = (0..n)
                    .map(|k| {
                        let each = top.iter().enumerate();
                        each.map(|(r, w)| w * psi(draw, group, r, k) * psi(draw, other, r, m))
                            .sum()
                    })
                    .collect();
                let share: f64 = joint.iter().sum();
                if share > 0.0 {
                    let of_one = kernel.information(params, &joint);
                    wanted
                        .iter_mut()
                        .zip(of_one)
                        .for_each(|(sum, x)| *sum += share * x);
                }
            }
            (1..3).for_each(|k| close(found[k], wanted[k], 1e-9));
        }
        conditional.push(draw.information_within_given(group, &[other])[at]);
    }
    let found = fit.conditional_information("x", "y", &["c"], &[]).unwrap();
    close(
        found.mean,
        conditional.iter().sum::<f64>() / conditional.len() as f64,
        1e-9,
    );
}

fn quick() -> DependenceConfig {
    DependenceConfig {
        permutations: 199,
        sweeps: SweepPlan {
            burn_in: 10,
            keep: 4,
            thin: 2,
        },
        quantiles: vec![0.25, 0.9],
        seed: 3,
        ..DependenceConfig::default()
    }
}

/// Of every pair: rows in which both are seen, information, shares of draws, and p-values as they are corrected.
#[test]
fn reports_of_pairs_are_those_of_the_draws() {
    let (table, fit) = fitted(Structure::TensorBlocks, 25);
    let rows = fit.training_rows(&table).unwrap();
    let found = fit.dependence(&rows, &quick()).unwrap();
    assert_eq!(found.names(), ["x", "c", "y", "w"]);
    let order: Vec<(usize, usize)> = found.pairs().iter().map(|p| (p.a, p.b)).collect();
    assert_eq!(order, [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]);
    let quantile = |values: &[f64], level: f64| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = level * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + at.fract() * (high - low)
    };
    for pair in found.pairs() {
        let (a, b) = (pair.a, pair.b);
        let seen = (0..60).filter(|&i| table.is_observed(i, a) && table.is_observed(i, b));
        assert_eq!(pair.n_rows, seen.count());
        let values: Vec<f64> = fit
            .draws()
            .iter()
            .map(|d| d.mutual_information(a, b))
            .collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        close(pair.information.mean, mean, 1e-12);
        close(pair.information.sd, (squares / n).sqrt(), 1e-9);
        close(
            pair.information.quantiles[0],
            quantile(&values, 0.25),
            1e-12,
        );
        close(pair.information.quantiles[1], quantile(&values, 0.9), 1e-12);
        let together = fit
            .draws()
            .iter()
            .filter(|d| d.columns[a].block == d.columns[b].block);
        close(pair.same_block, together.count() as f64 / n, 1e-12);
        // One of 200, two of 200, ..
        let step = pair.p_value * 200.0;
        assert!((step - step.round()).abs() < 1e-9 && step >= 1.0);
        close(pair.adjusted_p_value, (6.0 * pair.p_value).min(1.0), 1e-12);
        assert_eq!(pair.dependent, pair.p_value <= 0.01);
        let shared = values.iter().filter(|&&v| v > 1e-9).count();
        let verdict = match (pair.dependent, 2 * shared >= values.len()) {
            (false, _) => Verdict::NotShown,
            (true, true) => Verdict::Dependent,
            (true, false) => Verdict::Unexplained,
        };
        assert_eq!(pair.verdict, verdict);
        close(pair.least_p_value, 1.0 / 200.0, 1e-15);
        let words = match pair.p_value > 0.0051 {
            true => format!("p = {}", pair.p_value).chars().take(7).collect(),
            false => "p <= 0.005 (199 permutations)".to_owned(),
        };
        assert!(
            pair.p_in_words().starts_with(&words),
            "{words} {}",
            pair.p_in_words()
        );
        let names = found.names();
        assert_eq!(found.pair(&names[b], &names[a]).unwrap(), pair);
        let matrix = found.matrix(7.0, |pair| pair.p_value);
        assert_eq!(
            [matrix[4 * a + b], matrix[4 * b + a], matrix[5 * a]],
            [pair.p_value, pair.p_value, 7.0]
        );
    }
    assert!(
        found.pairs().iter().any(|p| p.dependent) && found.pairs().iter().any(|p| !p.dependent)
    );
    // At its own p-value a pair is dependent, just below it is not.
    let pair = found.pairs().iter().find(|p| p.p_value > 0.02).unwrap();
    let at = |level: f64| {
        let config = DependenceConfig { level, ..quick() };
        fit.dependence(&rows, &config)
            .unwrap()
            .pair(&found.names()[pair.a], &found.names()[pair.b])
            .unwrap()
            .dependent
    };
    assert!(at(pair.p_value) && !at(pair.p_value - 1e-9));
    // Other random numbers, and other draws of the clusters of single columns, change verdicts of numbers a little.
    let p_values = |config: &DependenceConfig| -> Vec<f64> {
        let found = fit.dependence(&rows, config).unwrap();
        found.pairs().iter().map(|p| p.p_value).collect()
    };
    let own = p_values(&quick());
    assert_ne!(own, p_values(&DependenceConfig { seed: 4, ..quick() }));
    let longer = SweepPlan {
        burn_in: 40,
        keep: 9,
        thin: 1,
    };
    assert_ne!(
        own,
        p_values(&DependenceConfig {
            sweeps: longer,
            ..quick()
        })
    );
    assert_eq!(
        own,
        p_values(&DependenceConfig {
            quantiles: vec![0.5],
            ..quick()
        })
    );
}

/// All orders of so many places.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for next in 0..n {
        let longer = |order: &Vec<usize>| {
            let put = |at: usize| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            };
            (0..=order.len()).map(put).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Two columns of levels in seven rows: the p-value is the share of all orders of rows whose chi squared is as large.
#[test]
fn p_values_of_levels_are_those_of_all_orders() {
    let codes = [[0, 0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 0, 0, 2]];
    let column = |codes: &[u32; 7]| MixedColumn::Categorical {
        levels: crate::tables::levels(&["a", "b", "c"]),
        codes: codes.iter().map(|c| Some(*c)).collect(),
    };
    let names = ["u", "v"].map(str::to_owned).to_vec();
    let table = MixedTable::new(names, codes.iter().map(column).collect()).unwrap();
    let fit = fit(&table, &config(Structure::Joint, 27)).unwrap();
    let chi_squared = |order: &[usize]| -> f64 {
        let cell = |a: u32, b: u32| {
            (0..7)
                .filter(|&i| codes[0][i] == a && codes[1][order[i]] == b)
                .count() as f64
        };
        let margin =
            |of: usize, level: u32| codes[of].iter().filter(|c| **c == level).count() as f64;
        let cells = (0..3).flat_map(|a| (0..3).map(move |b| (a, b)));
        cells
            .map(|(a, b)| {
                let wanted = margin(0, a) * margin(1, b) / 7.0;
                (cell(a, b) - wanted).powi(2) / wanted
            })
            .sum()
    };
    let own = chi_squared(&[0, 1, 2, 3, 4, 5, 6]);
    let orders = permutations(7);
    let as_large = orders
        .iter()
        .filter(|order| chi_squared(order) > own - 1e-9)
        .count();
    let wanted = as_large as f64 / orders.len() as f64;
    assert!((0.01..0.9).contains(&wanted), "{wanted}");
    let config = DependenceConfig {
        permutations: 20_000,
        ..quick()
    };
    let rows = fit.training_rows(&table).unwrap();
    let found = fit
        .dependence(&rows, &config)
        .unwrap()
        .pair("u", "v")
        .unwrap()
        .p_value;
    assert!((found - wanted).abs() < 0.014, "{found} {wanted}");
}

/// Shares of draws, and of draws and columns, in which two rows are together.
#[test]
fn rows_are_as_alike_as_the_draws_have_them() {
    for structure in [Structure::Tensor, Structure::Joint] {
        let (_, fit) = fitted(structure, 29);
        let rows = [7, 3, 40, 3];
        let n = fit.draws().len() as f64;
        let share = |columns: &[usize], i: usize, j: usize| {
            let of = |draw: &Draw, c: usize| {
                let labels = draw.labels(c).unwrap();
                assert_eq!(labels.len(), 60);
                usize::from(labels[i] == labels[j])
            };
            let all = fit
                .draws()
                .iter()
                .map(|d| columns.iter().map(|&c| of(d, c)).sum::<usize>());
            all.sum::<usize>() as f64 / n / columns.len() as f64
        };
        let of_c = fit.row_similarity(&["c"], &rows).unwrap();
        let of_two = fit.row_similarity(&["w", "x"], &rows).unwrap();
        let of_all = fit.row_similarity(&[], &rows).unwrap();
        assert_eq!(of_c.rows(), rows);
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            let (i, j) = (rows[a], rows[b]);
            assert!(fit.similar_rows(&["nothing"], i).is_err());
            close(of_c.get(a, b), share(&[1], i, j), 1e-6);
            close(of_two.get(a, b), share(&[0, 3], i, j), 1e-6);
            close(of_all.get(a, b), share(&[0, 1, 2, 3], i, j), 1e-6);
            let alike = fit.similar_rows(&["w", "x"], i).unwrap();
            close(alike[j], share(&[0, 3], i, j), 1e-12);
        }
        for loss in [
            ClusteringLoss::Binder,
            ClusteringLoss::VariationOfInformation,
        ] {
            let draws: Vec<&[u32]> = fit.draws().iter().map(|d| d.labels(2).unwrap()).collect();
            assert_eq!(
                fit.point_clustering("y", loss).unwrap(),
                npb_itf::point_clustering(&draws, loss)
            );
        }
    }
}
