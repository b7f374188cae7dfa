//! How often intervals hold what they should, over simulated tables.

use super::{Findings, Plan};
use crate::{Report, ResultRow, Scale, short, text_table};

/// The probabilities of the intervals that are looked at.
pub const LEVELS: [f64; 2] = [0.9, 0.5];
/// Coverage further off than this is an alarm.
const SLACK: f64 = 0.03;

/// What was found of one quantity, table by table, and the range in which its mean should be.
pub struct Quantity {
    /// What it is.
    pub name: String,
    /// Its metric in the report.
    pub metric: String,
    /// One number a table.
    pub by_table: Vec<f64>,
    /// Least and largest mean.
    pub range: [f64; 2],
}

impl Quantity {
    /// The share of intervals of a level that hold the truth.
    pub fn coverage(name: &str, level: f64, by_table: Vec<f64>) -> Self {
        Self {
            name: format!("{name}, {:.0}%", 100.0 * level),
            metric: format!("coverage_{:.0}", 100.0 * level),
            by_table,
            range: [level - SLACK, level + SLACK],
        }
    }

    /// The same of both [`LEVELS`], whose shares are pairs.
    pub fn of_levels(name: &str, by_table: &[[f64; 2]]) -> [Self; 2] {
        [0, 1].map(|k| {
            let shares = by_table.iter().map(|of_table| of_table[k]).collect();
            Self::coverage(name, LEVELS[k], shares)
        })
    }

    fn mean(&self) -> f64 {
        self.by_table.iter().sum::<f64>() / self.by_table.len() as f64
    }

    fn sd(&self) -> f64 {
        let (n, mean) = (self.by_table.len() as f64, self.mean());
        let squares = self.by_table.iter().map(|x| (x - mean).powi(2));
        (squares.sum::<f64>() / (n - 1.0).max(1.0)).sqrt()
    }

    fn passes(&self) -> bool {
        (self.range[0]..=self.range[1]).contains(&self.mean())
    }
}

/// Shares of what is inside: `(inside, all)` pairs added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    inside: [usize; 2],
    all: usize,
}

impl Share {
    /// Adds one quantity: whether it lies in its interval of each of the [`LEVELS`].
    pub fn add(&mut self, inside: [bool; 2]) {
        self.all += 1;
        for (sum, is_inside) in self.inside.iter_mut().zip(inside) {
            *sum += usize::from(is_inside);
        }
    }

    /// The shares, unless there was nothing.
    pub fn of_table(&self) -> Option<[f64; 2]> {
        let share = |inside: usize| inside as f64 / self.all as f64;
        (self.all > 0).then(|| self.inside.map(share))
    }
}

/// A few tables say nothing of coverage: the range counts from the quick scale on.
pub fn findings(plan: &Plan, method: &str, quantities: &[Quantity], notes: &str) -> Findings {
    let result = |q: &Quantity| ResultRow {
        sd: Some(q.sd()),
        ..ResultRow::simulated(
            ("quantity", &q.name),
            [method, &q.metric],
            q.mean(),
            q.by_table.len(),
        )
    };
    let row = |q: &Quantity| {
        let n = q.by_table.len();
        let error = q.sd() / (n as f64).sqrt();
        let range = q.range.map(short).join(" to ");
        vec![
            q.name.clone(),
            short(q.mean()),
            short(error),
            range,
            n.to_string(),
        ]
    };
    Findings {
        passed: plan.scale == Scale::Smoke || quantities.iter().all(Quantity::passes),
        report: Report {
            figures: Vec::new(),
            results: quantities.iter().map(result).collect(),
            tables: vec![text_table(
                "Mean over simulated tables",
                "quantity | found | standard error | wanted | tables",
                quantities.iter().map(row),
            )],
            notes: vec![notes.to_owned()],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_and_judged() {
        let mut share = Share::default();
        assert!(share.of_table().is_none());
        (0..10).for_each(|k| share.add([k > 0, k % 2 == 0]));
        let found = share.of_table().unwrap();
        assert_eq!(found, [0.9, 0.5]);
        let both = Quantity::of_levels("cells", &[found, [0.98, 0.44]]);
        assert_eq!(both[0].metric, "coverage_90");
        assert!(!both[0].passes() && both[1].passes(), "{}", both[0].mean());
        let plan = |scale| Plan { scale, seed: 1 };
        assert!(findings(&plan(Scale::Smoke), "m", &both, "").passed);
        let found = findings(&plan(Scale::Quick), "m", &both, "");
        assert!(!found.passed && found.report.results[1].trials == 2);
    }
}
