//! The move of the rows against their law on a grid: all rows are alike and everything else fixed, so that one move draws that law many times.

use npb_infer::testing::largest_z;
use npb_priors::special::normal_cdf;

use super::*;

const COPIES: usize = 40_000;
/// Largest z-score of a mean that is right.
const LARGEST: f64 = 4.5;
/// A row whose second feature is missing.
const ROW: [f64; 3] = [0.8, 0.0, -0.5];
const OBSERVED: [bool; 3] = [true, false, true];

fn config() -> FactorConfig {
    FactorConfig {
        truncation: 2,
        max_factors: 2,
        ..FactorConfig::default()
    }
}

/// Two clusters, the second of which does not use the second factor.
fn draw(sign: f64) -> FactorDraw {
    let coefficients = [
        [1.1, -0.4, 0.2, -0.3],
        [0.3, 0.9, -0.1, 0.4],
        [-0.6, 0.8, -0.4, 0.1],
    ];
    FactorDraw {
        concentration: 1.0,
        ln_weights: vec![0.55_f64.ln(), 0.45_f64.ln()],
        ln_rest: 0.45_f64.ln(),
        indicators: vec![vec![true, true], vec![true, false]],
        coefficients: Mat::from_fn(3, 4, |p, d| coefficients[p][d]),
        noise: vec![2.0, 1.0, 1.5],
        cluster_noise: vec![0.8, 1.3],
        loading_precisions: vec![1.0; 2],
        mean_precision: 1.0,
        experts: vec![vec![1.6, -1.2, 0.3], vec![-2.0, 0.5, -0.4]],
        expert_prior: vec![(0.0, 1.0); 3],
        labels: (0..COPIES).map(|i| i % 2).collect(),
        factors: Mat::zeros(2, COPIES),
        scores: vec![sign; COPIES],
    }
}

/// For each cluster whether it is this one, and with that the factors, their products and the score, alone and with each factor.
fn functions(h: usize, s: [f64; 2], t: f64) -> Vec<f64> {
    let of_row = [
        1.0,
        s[0],
        s[1],
        s[0] * s[0],
        s[0] * s[1],
        s[1] * s[1],
        t,
        t * s[0],
        t * s[1],
    ];
    let here = |of: usize| f64::from(u8::from(of == h));
    (0..2).flat_map(|of| of_row.map(|f| f * here(of))).collect()
}

/// Values of the functions at every row after the move.
fn drawn(sign: f64) -> Vec<Vec<f64>> {
    let mask = Mask::from_fn(COPIES, 3, |_, p| OBSERVED[p]).unwrap();
    let table = Table::from_parts([ROW; COPIES].concat(), mask).unwrap();
    let cells = Cells::new(&table);
    let labelled: Vec<usize> = match sign {
        0.0 => Vec::new(),
        _ => (0..COPIES).collect(),
    };
    let class = (sign != 0.0).then_some(usize::from(sign > 0.0));
    let config = config();
    let data = FactorData {
        columns: cells.columns(),
        cells,
        labels: RowLabels::new(vec![class; COPIES], 2),
        units: Units::fit(&table, FeatureScale::Standardised).unwrap(),
        classes: vec!["a".to_owned(), "b".to_owned()],
        n_labelled: labelled.len(),
    };
    let mut sampler = FactorSampler {
        data: &data,
        priors: Priors::new(&config),
        config,
        moves: Vec::new(),
        chain: 0,
        sweep: 0,
        uses: 0,
        draw: draw(sign),
        forms: None,
    };
    sampler.apply(FactorMove::Rows).unwrap();
    let after = sampler.draw;
    (0..COPIES)
        .map(|i| {
            let s = [after.factors[(0, i)], after.factors[(1, i)]];
            functions(after.labels[i], s, after.scores[i])
        })
        .collect()
}

/// Means of the functions. `spread`: whether the label is given its probability at every place of the factors, or that at their mean.
fn expected(sign: f64, spread: bool) -> Vec<f64> {
    let draw = draw(sign);
    let along: Vec<f64> = (-120..=120).map(|k| f64::from(k) / 20.0).collect();
    let places: Vec<[f64; 2]> = along
        .iter()
        .flat_map(|a| along.iter().map(|b| [*a, *b]))
        .collect();
    let (mut total, mut means) = (0.0, vec![0.0; 18]);
    for h in 0..2 {
        let seen = |s: &[f64; 2]| {
            let on = |l: usize| f64::from(u8::from(draw.indicators[h][l]));
            [s[0] * on(0), s[1] * on(1)]
        };
        let density = |s: &[f64; 2]| {
            let f = seen(s);
            let mut ln = draw.ln_weights[h] - 0.5 * (s[0] * s[0] + s[1] * s[1]);
            for p in (0..3).filter(|&p| OBSERVED[p]) {
                let c = |d: usize| draw.coefficients[(p, d)];
                let psi = draw.noise[p] * draw.cluster_noise[h];
                let apart = ROW[p] - c(0) * f[0] - c(1) * f[1] - c(2 + h);
                ln += 0.5 * (psi.ln() - psi * apart * apart);
            }
            ln.exp()
        };
        let score = |s: &[f64; 2]| {
            let (f, w) = (seen(s), &draw.experts[h]);
            w[0] * f[0] + w[1] * f[1] + w[2]
        };
        let mass: f64 = places.iter().map(density).sum();
        let centre = [0, 1].map(|l| places.iter().map(|s| density(s) * s[l]).sum::<f64>() / mass);
        for s in &places {
            let mean = score(s);
            let (label, t) = if sign == 0.0 {
                (1.0, 0.0)
            } else {
                let at = if spread { mean } else { score(&centre) };
                // Of a normal number about the mean that has this sign.
                let ln_density = -0.5 * (mean * mean + std::f64::consts::TAU.ln());
                let hazard = (ln_density - ln_phi(sign * mean)).exp();
                (normal_cdf(sign * at), mean + sign * hazard)
            };
            let weight = density(s) * label;
            total += weight;
            for (sum, f) in means.iter_mut().zip(functions(h, *s, t)) {
                *sum += weight * f;
            }
        }
    }
    means.iter().map(|mean| mean / total).collect()
}

#[test]
fn rows_are_drawn_from_their_law() {
    for sign in [1.0, -1.0, 0.0] {
        let z = largest_z(&drawn(sign), &expected(sign, true));
        assert!(z < LARGEST, "{sign}: {z}");
    }
}

/// The label weighed at the mean of the factors, and no say for it in them.
#[test]
fn a_spread_left_out_is_noticed() {
    let z = largest_z(&drawn(1.0), &expected(1.0, false));
    assert!(z > 2.0 * LARGEST, "{z}");
}
