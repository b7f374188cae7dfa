//! The move of the rows against their law on a grid: all rows are alike and the parameters fixed, so that one move draws that law many times.

use npb_data::{Labels, Table};
use npb_infer::testing::largest_z;
use npb_linalg::faer::{Mat, mat};
use npb_priors::special::{ln_phi, normal_cdf};

use super::super::*;
use super::P;
use crate::state::dot;
use state::DrawnComponent;

const COPIES: usize = 40_000;
/// Largest z-score of a mean that is right.
const LARGEST: f64 = 4.5;

/// A row, of which there are many; features that are not seen are ignored.
#[derive(Clone, Copy)]
struct Row {
    seen: [bool; P],
    x: [f64; P],
    class: Option<usize>,
}

/// Three components that overlap; their experts look at what may be missing.
fn parameters(n_utilities: usize) -> GibbsParameters {
    let component = |mean: [f64; P], precision: Mat<f64>| DrawnComponent {
        mean: mean.to_vec(),
        precision,
    };
    let experts = [
        [[0.4, 1.8, 0.3], [-1.1, 0.5, 0.2]],
        [[-0.7, -2.2, 0.8], [0.6, 1.4, -0.9]],
        [[1.5, 0.2, -0.6], [0.3, -1.9, 0.4]],
    ];
    let of_component = |h: &[[f64; 3]; 2]| h.map(|w| w.to_vec())[..n_utilities].to_vec();
    GibbsParameters {
        concentration: 1.0,
        ln_rests: vec![0.6_f64.ln(), 0.5_f64.ln(), -700.0],
        components: vec![
            component([0.0, 0.3], mat![[1.2, 0.4], [0.4, 0.9]]),
            component([0.6, -0.4], mat![[0.8, -0.3], [-0.3, 0.5]]),
            component([-0.5, 0.9], mat![[2.0, 0.9], [0.9, 1.6]]),
        ],
        experts: experts.iter().flat_map(of_component).collect(),
        expert_means: vec![0.0; n_utilities * (P + 1)],
        expert_precisions: vec![1.0; n_utilities * (P + 1)],
    }
}

/// Utilities of the rows before the move, in the region of their class.
fn first_utilities(class: Option<usize>, n_utilities: usize) -> Vec<f64> {
    (0..n_utilities)
        .map(|k| match class {
            Some(class) if class == k + 1 => 0.7,
            Some(_) => -0.4,
            None => 0.0,
        })
        .collect()
}

/// Functions of a component, features and the first utility whose means are compared: for each component whether it is this one, and with that the missing
/// features, their squares and, if it is asked for, the utility with all of these.
fn functions(h: usize, x: [f64; P], t: Option<f64>, seen: [bool; P]) -> Vec<f64> {
    let mut of_row = vec![1.0];
    for j in (0..P).filter(|&j| !seen[j]) {
        of_row.extend([x[j], x[j] * x[j]]);
    }
    if let Some(t) = t {
        let with_utility: Vec<f64> = of_row.iter().map(|f| f * t).collect();
        of_row.extend(with_utility);
    }
    let here = |of: usize| f64::from(u8::from(of == h));
    (0..3)
        .flat_map(|of| of_row.iter().map(move |f| f * here(of)))
        .collect()
}

/// Values of the functions at every row after the move.
fn drawn(row: Row, n_classes: usize) -> Vec<Vec<f64>> {
    let n_utilities = n_classes - 1;
    // And one that has a label in any case, without which there are no experts.
    let (values, seen) = ([row.x; COPIES + 1], [row.seen; COPIES + 1]);
    let table = Table::new(COPIES + 1, P, values.concat(), &seen.concat()).unwrap();
    let classes: Vec<String> = (0..n_classes).map(|k| k.to_string()).collect();
    let mut codes = vec![row.class; COPIES];
    codes.push(row.class.or(Some(0)));
    let labels = Labels::from_codes(classes.clone(), codes).unwrap();
    let covariance = Mat::identity(P, P);
    let data = IqgmeData::in_given_units(&table, &labels, &classes, &covariance).unwrap();
    let config = GibbsConfig::default();
    let n_missing = row.seen.iter().filter(|seen| !**seen).count();
    let mut utilities = first_utilities(row.class, n_utilities).repeat(COPIES);
    utilities.extend(first_utilities(row.class.or(Some(0)), n_utilities));
    let state = GibbsState {
        sweep: 0,
        parameters: parameters(n_utilities),
        labels: (0..=COPIES).map(|i| (i % 3) as u32).collect(),
        utilities,
        missing: vec![0.0; n_missing * (COPIES + 1)],
    };
    let mut sampler = IqgmeSampler::resume(&data, config, 0, state).unwrap();
    // With slices of zero every component is open to a row, and its label is drawn by likelihood alone.
    let streams = sampler.streams();
    let laws = Laws::new(&sampler.parameters, &data.rows, 0).unwrap();
    let drawn = Drawn {
        labels: &mut sampler.labels,
        utilities: &mut sampler.utilities,
        values: &mut sampler.values,
    };
    let slices = vec![0.0; COPIES + 1];
    rows::draw(&data.rows, &laws, &slices, drawn, 0, streams).unwrap();
    let after = sampler.state();
    (0..COPIES)
        .map(|i| {
            let mut missing = after.missing[i * n_missing..][..n_missing].iter();
            let x = std::array::from_fn(|j| match row.seen[j] {
                true => row.x[j],
                false => *missing.next().unwrap(),
            });
            let with_utility = n_classes == 2 && row.class.is_some();
            let t = with_utility.then(|| after.utilities[i]);
            functions(after.labels[i] as usize, x, t, row.seen)
        })
        .collect()
}

/// Every place on a grid that agrees with what is seen.
fn grid(row: Row) -> Vec<[f64; P]> {
    let along = |j: usize| -> Vec<f64> {
        match row.seen[j] {
            true => vec![row.x[j]],
            false => (-240..=240).map(|k| f64::from(k) / 30.0).collect(),
        }
    };
    let (first, second) = (along(0), along(1));
    first
        .iter()
        .flat_map(|a| second.iter().map(|b| [*a, *b]))
        .collect()
}

/// Means of the functions. `spread`: whether the label is given its probability at every place, or that at the features' mean.
fn expected(row: Row, n_classes: usize, spread: bool) -> Vec<f64> {
    let n = n_classes - 1;
    let parameters = parameters(n);
    let utilities = first_utilities(row.class, n);
    let (mut total, mut means) = (0.0, Vec::new());
    for (h, component) in parameters.components.iter().enumerate() {
        let density = |x: &[f64; P]| {
            let d: Vec<f64> = (0..P).map(|j| x[j] - component.mean[j]).collect();
            let m = &component.precision;
            let along = |j: usize| d[j] * (m[(j, 0)] * d[0] + m[(j, 1)] * d[1]);
            let ln_det = (m[(0, 0)] * m[(1, 1)] - m[(0, 1)] * m[(1, 0)]).ln();
            (0.5 * (ln_det - along(0) - along(1))).exp()
        };
        let score = |x: &[f64; P], k: usize| {
            let w = &parameters.experts[h * n + k];
            dot(&w[..P], x) + w[P]
        };
        let places = grid(row);
        let mass: f64 = places.iter().map(density).sum();
        let centre: [f64; P] =
            std::array::from_fn(|j| places.iter().map(|x| density(x) * x[j]).sum::<f64>() / mass);
        for x in &places {
            let sign = row.class.map(|class| if class > 0 { 1.0 } else { -1.0 });
            let (label, t) = match sign {
                None => (1.0, None),
                Some(sign) if n == 1 => {
                    let s = score(x, 0);
                    let at = if spread { s } else { score(&centre, 0) };
                    // Of a normal number about s that has this sign.
                    let mean = s + sign * (ln_phi_density(s) - ln_phi(sign * s)).exp();
                    (normal_cdf(sign * at), Some(mean))
                }
                Some(_) => {
                    let apart = |k: usize| (utilities[k] - score(x, k)).powi(2);
                    ((-0.5 * (0..n).map(apart).sum::<f64>()).exp(), None)
                }
            };
            let weight = density(x) * label;
            total += weight;
            let here = functions(h, *x, t, row.seen);
            means.resize(here.len(), 0.0);
            for (mean, f) in means.iter_mut().zip(here) {
                *mean += weight * f;
            }
        }
    }
    means.iter().map(|mean| mean / total).collect()
}

fn ln_phi_density(s: f64) -> f64 {
    -0.5 * s * s - 0.5 * std::f64::consts::TAU.ln()
}

#[test]
fn rows_are_drawn_from_their_law() {
    let x = [0.5, -0.2];
    for n_classes in [2, 3] {
        let classes = (0..n_classes).map(Some).chain([None]);
        for (class, seen) in classes.flat_map(|class| {
            [[true, true], [true, false], [false, true], [false, false]].map(|seen| (class, seen))
        }) {
            let row = Row { seen, x, class };
            let z = largest_z(&drawn(row, n_classes), &expected(row, n_classes, true));
            assert!(z < LARGEST, "{n_classes} classes, {class:?}, {seen:?}: {z}");
        }
    }
}

/// The label weighed at the mean of the missing features, as if they had no spread.
#[test]
fn a_spread_left_out_is_noticed() {
    let row = Row {
        seen: [true, false],
        x: [0.5, -0.2],
        class: Some(1),
    };
    let z = largest_z(&drawn(row, 2), &expected(row, 2, false));
    assert!(z > 2.0 * LARGEST, "{z}");
}
