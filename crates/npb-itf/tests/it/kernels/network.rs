//! Links between rows.

use super::support::*;
use npb_itf::kernels::{CellError, Network, NetworkData};
use npb_itf::{Kernel, RowLabels};

const N: usize = 9;

fn network(directed: bool) -> (Network, NetworkData) {
    let kernel = Network::new(N, directed).expect("valid");
    let links = [(0, 3), (3, 6), (0, 6), (1, 4), (4, 1), (7, 2), (8, 0)];
    let data = NetworkData::new(&kernel, &links, &[(5, 2), (0, 7), (2, 8)]).expect("valid");
    (kernel, data)
}

/// ln p of all known links given all labels, each counted once.
fn ln_joint(
    kernel: &Network,
    data: &NetworkData,
    params: &<Network as Kernel>::Params,
    labels: &[u32],
    directed: bool,
) -> f64 {
    let mut sum = 0.0;
    for i in 0..kernel.n_rows(data) {
        for j in (if directed { 0 } else { i + 1 }..N).filter(|&j| j != i) {
            let p = params.probability(labels[i] as usize, labels[j] as usize);
            sum += match data.link(i, j) {
                Some(true) => p.ln(),
                Some(false) => (-p).ln_1p(),
                None => 0.0,
            };
        }
    }
    sum
}

/// Likelihoods of a row's clusters differ as the joint law of all links does when its label is changed.
#[test]
fn a_row_knows_all_its_links() {
    for directed in [false, true] {
        let (kernel, data) = network(directed);
        let params = prior(&kernel, &mut rng(6));
        let old = labels(N);
        let counts = counts(&old);
        for row in 0..N {
            let others = RowLabels {
                labels: &old,
                counts: &counts,
            };
            let found = ln_likelihoods(&kernel, &data, &params, row, others);
            let joint = |label: u32| {
                let mut labels = old.clone();
                labels[row] = label;
                ln_joint(&kernel, &data, &params, &labels, directed)
            };
            for k in 1..CLUSTERS {
                let (a, b) = (found[k] - found[0], joint(k as u32) - joint(0));
                assert!(
                    (a - b).abs() < 1e-10 * (1.0 + b.abs()),
                    "{directed} {row} {k}: {a} {b}"
                );
            }
        }
    }
}

#[test]
fn the_joint_law_of_networks() {
    for directed in [false, true] {
        let (kernel, data) = network(directed);
        let probe = NetworkData::new(&kernel, &[(0, 1), (2, 5)], &[]).expect("valid");
        joint_distribution(kernel, data, probe);
    }
}

#[test]
fn links_are_predicted() {
    for directed in [false, true] {
        let (kernel, data) = network(directed);
        let labels = labels(N);
        let counts = counts(&labels);
        let others = RowLabels {
            labels: &labels,
            counts: &counts,
        };
        expected_is_the_mean_of_draws(&kernel, &data, 0, false, others);
        expected_is_the_mean_of_draws(&kernel, &data, 5, true, others);
        let mut cells = vec![Some(false); N];
        (cells[3], cells[4]) = (None, Some(true));
        let new = NetworkData::new_rows(&kernel, &[cells, vec![None; N]]).expect("valid");
        expected_is_the_mean_of_draws(&kernel, &new, 0, false, others);
        let params = prior(&kernel, &mut rng(6));
        let found = ln_likelihoods(&kernel, &new, &params, 0, others);
        let ln = |j: usize| {
            let p = params.probability(2, labels[j] as usize);
            if j == 4 { p.ln() } else { (-p).ln_1p() }
        };
        let exact: f64 = (0..N).filter(|&j| j != 3).map(ln).sum();
        assert!((found[2] - exact).abs() < 1e-10 * (1.0 + exact.abs()));
        assert_eq!(
            ln_likelihoods(&kernel, &new, &params, 1, others),
            [0.0; CLUSTERS]
        );
    }
}

#[test]
fn extreme_networks() {
    for directed in [false, true] {
        let (kernel, data) = network(directed);
        stays_finite(&kernel, &data);
        let pairs: Vec<(usize, usize)> = (0..N)
            .flat_map(|i| (0..N).map(move |j| (i, j)))
            .filter(|(i, j)| i != j)
            .collect();
        for (links, unknown) in [(&pairs[..], &[][..]), (&[], &pairs[..]), (&[], &[])] {
            stays_finite(
                &kernel,
                &NetworkData::new(&kernel, links, unknown).expect("valid"),
            );
        }
    }
    let alone = Network::new(1, false).expect("valid");
    stays_finite(&alone, &NetworkData::new(&alone, &[], &[]).expect("valid"));
}

#[test]
fn tables_of_links_are_read_from_both_sides() {
    let (t, f, m) = (Some(true), Some(false), None);
    let kernel = Network::new(3, false).expect("valid");
    let rows = [vec![t, t, m], vec![m, f, m], vec![f, m, m]];
    let data = NetworkData::from_rows(&kernel, &rows).expect("agrees");
    assert_eq!(
        data,
        NetworkData::new(&kernel, &[(0, 1)], &[(1, 2)]).expect("valid")
    );
    assert_eq!(data.link(1, 0), t);
    assert_eq!([data.link(0, 2), data.link(2, 1)], [f, m]);
    let error = NetworkData::from_rows(&kernel, &[vec![m, t, m], vec![f, m, m], vec![m, m, m]]);
    assert_eq!(error, Err(CellError::OneSided { row: 0, other: 1 }));
    let directed = Network::new(3, true).expect("valid");
    let data = NetworkData::from_rows(&directed, &rows).expect("valid");
    assert_eq!(
        [
            data.link(0, 1),
            data.link(1, 0),
            data.link(2, 0),
            data.link(0, 2)
        ],
        [t, m, f, m]
    );
}

#[test]
fn bad_links_are_named() {
    let kernel = Network::new(3, false).expect("valid");
    for (pair, value) in [((0, 3), 3.0), ((7, 1), 7.0), ((1, 1), 1.0)] {
        let error = NetworkData::new(&kernel, &[pair], &[]).expect_err("bad");
        assert!(
            matches!(error, CellError::Value { row, value: v, .. } if row == pair.0 && v == value),
            "{error}"
        );
        assert!(NetworkData::new(&kernel, &[], &[pair]).is_err());
    }
    assert!(
        NetworkData::new(&kernel, &[(0, 1)], &[(1, 0)]).is_err(),
        "linked and unknown"
    );
    let error = NetworkData::new_rows(&kernel, &[vec![None; 2]]).expect_err("short");
    assert_eq!(
        error,
        CellError::Parts {
            row: 0,
            found: 2,
            expected: 3
        }
    );
    assert!(NetworkData::from_rows(&kernel, &[]).is_err() && Network::new(0, true).is_err());
}
