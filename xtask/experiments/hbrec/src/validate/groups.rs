//! What intervals of class probabilities of groups hold, on simulated groups.

use npb_data::{Labels, Table};
use npb_hbrec::{GroupedConfig, fit_groups};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_kit::Result;
use npb_kit::validate::coverage::{LEVELS, Quantity, Share, findings};
use npb_kit::validate::{Findings, Plan};
use npb_priors::dist::Normal;
use npb_priors::special::normal_cdf;
use rand::RngExt;

const GROUPS: usize = 30;
/// Rows of a group.
const ROWS: usize = 12;
/// New rows of each group.
const NEW: usize = 20;

/// Features of a row, and the probability of its second class under these coefficients.
fn row(w: [f64; 3], normal: &Normal, rng: &mut Xoshiro256PlusPlus) -> ([f64; 2], f64) {
    let x = [normal.sample(rng), normal.sample(rng)];
    (x, normal_cdf(w[0] + w[1] * x[0] + w[2] * x[1]))
}

/// Groups whose coefficients are normal about a common mean, or about those of two kinds.
fn held(kinds: &[[f64; 3]], seed: u64) -> Result<Option<[f64; 2]>> {
    let rng = &mut stream(seed, [kinds.len() as u64, 0, 0, 0]);
    let normal = Normal::new(0.0, 1.0)?;
    let (mut cells, mut labels, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    let mut coefficients = Vec::new();
    for group in 0..GROUPS {
        let w = kinds[group % kinds.len()].map(|w| w + 0.5 * normal.sample(rng));
        for _ in 0..ROWS {
            let (x, p) = row(w, &normal, rng);
            cells.extend(x);
            labels.push(Some(["no", "yes"][usize::from(rng.random::<f64>() < p)]));
            groups.push(Some(format!("g{group:02}")));
        }
        coefficients.push(w);
    }
    let table = Table::complete(GROUPS * ROWS, 2, cells)?;
    let config = GroupedConfig::default();
    let (labels, groups) = (Labels::from_strings(&labels), Labels::from_strings(&groups));
    let fit = fit_groups(&table, &labels, &groups, &config)?;
    let mut share = Share::default();
    for (group, w) in coefficients.into_iter().enumerate() {
        let known = fit.group(&format!("g{group:02}"))?;
        let (x, truth): (Vec<_>, Vec<f64>) = (0..NEW).map(|_| row(w, &normal, rng)).unzip();
        let new = Table::complete(NEW, 2, x.concat())?;
        let wide = fit.predict_interval(known, &new, LEVELS[0])?;
        let narrow = fit.predict_interval(known, &new, LEVELS[1])?;
        for ((p, wide), narrow) in truth.iter().zip(wide).zip(narrow) {
            share.add([wide, narrow].map(|interval| interval.holds(*p)));
        }
    }
    Ok(share.of_table())
}

pub(super) fn coverage(plan: &Plan) -> Result<Findings> {
    let tables = plan.scale.pick(1, 40, 1_000);
    let kinds = [[0.5, 1.5, 0.0], [-0.5, -1.0, 1.0]];
    let mut quantities = Vec::new();
    for (name, kinds) in [
        ("one kind of groups", &kinds[..1]),
        ("two kinds", &kinds[..]),
    ] {
        let mut by_table = Vec::new();
        for t in 0..tables {
            by_table.extend(held(kinds, plan.seed * 1000 + t)?);
        }
        quantities.extend(Quantity::of_levels(name, &by_table));
    }
    let notes = "30 groups of 12 rows, two features, probit coefficients with standard deviation .5 about those of their kind: how often intervals of 20 new rows of each group \
                 hold the true probability.";
    Ok(findings(plan, "npb:hbrec/groups", &quantities, notes))
}
