//! False alarms of joint-distribution tests over consecutive seeds.

use npb_infer::testing::{JointModel, JointTest};

use super::{Findings, Plan};
use crate::{Report, Result, ResultRow, short, text_table};

/// Seeds that are tried.
const SEEDS: u64 = 20;
/// Share of false alarms at which a single test is run: one of 20 seeds is expected to give one.
const RATE: f64 = 0.05;
/// So many alarms or more give an alarm of the check: their probability is at most this for a right sampler.
const CHECK_RATE: f64 = 0.001;

/// A joint-distribution test at one seed: p-value, and the summary that looks worst.
struct Outcome {
    seed: u64,
    /// Of the whole test.
    p: f64,
    /// The summary with the smallest p-value.
    worst: String,
}

/// Tests a model at consecutive seeds.
fn consecutive<M: JointModel>(
    plan: &Plan,
    model: &M,
    (chains, length): (usize, usize),
) -> Vec<Outcome> {
    let seeds = plan.scale.smoke_or(2, SEEDS);
    let test = |seed| {
        let test = JointTest {
            seed,
            chains,
            length,
            false_alarm: RATE,
        };
        let report = test.run(model);
        let worst = report.checks.iter().min_by(|a, b| a.p.total_cmp(&b.p));
        let worst = worst.map(|c| format!("{} ({:?})", c.name, c.functional));
        Outcome {
            seed,
            p: report.p_value(),
            worst: worst.unwrap_or_default(),
        }
    };
    (0..seeds).map(|k| test(plan.seed + k)).collect()
}

/// Tests each of several models with a name at consecutive seeds, each time with so many chains of so many sweeps.
pub fn findings<'n, M: JointModel>(
    plan: &Plan,
    models: impl IntoIterator<Item = Result<(&'n str, M)>>,
    length: (usize, usize),
    method: &str,
) -> Result<Findings> {
    let tested = models.into_iter().map(|model| {
        let (name, model) = model?;
        Ok((name, consecutive(plan, &model, length)))
    });
    Ok(judged(tested.collect::<Result<_>>()?, method))
}

/// The report of several models, each with its outcomes.
fn judged(models: Vec<(&str, Vec<Outcome>)>, method: &str) -> Findings {
    let (mut rows, mut details, mut results) = (Vec::new(), Vec::new(), Vec::new());
    let mut passed = true;
    for (name, outcomes) in models {
        let n = outcomes.len();
        let alarms = outcomes.iter().filter(|o| o.p <= RATE).count();
        let tail = upper_tail(alarms, n);
        passed &= tail > CHECK_RATE;
        let smallest = outcomes.iter().map(|o| o.p).fold(1.0, f64::min);
        let counts = [n, alarms].map(|count| count.to_string());
        let numbers = [RATE * n as f64, tail, smallest].map(short);
        rows.push([&[name.to_owned()], &counts[..], &numbers].concat());
        let share = alarms as f64 / n as f64;
        let what = [method, "false_alarms"];
        results.push(ResultRow::simulated(("model", name), what, share, n));
        for Outcome { seed, p, worst } in outcomes {
            details.push(vec![name.to_owned(), seed.to_string(), short(p), worst]);
        }
    }
    let report = Report {
        tables: vec![
            text_table(
                format!("Alarms of the joint-distribution test at a rate of {RATE}"),
                "model | seeds | alarms | expected | probability of so many | smallest p",
                rows,
            ),
            text_table("Seed by seed", "model | seed | p | worst summary", details),
        ],
        results,
        notes: vec![format!(
            "The test's p-value is exact up to the bound of Bonferroni, so that a right sampler gives at most {RATE} of false alarms. The \
             check gives an alarm when so many have a probability of at most {CHECK_RATE}."
        )],
        ..Default::default()
    };
    Findings { report, passed }
}

/// P(X >= alarms) for X binomial of n with the stated rate.
fn upper_tail(alarms: usize, n: usize) -> f64 {
    let mut mass = (1.0 - RATE).powi(n as i32);
    let mut below = 0.0;
    for k in 0..alarms {
        below += mass;
        mass *= (n - k) as f64 / (k + 1) as f64 * RATE / (1.0 - RATE);
    }
    1.0 - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_binomial() {
        assert_eq!(upper_tail(0, 20), 1.0);
        assert!((upper_tail(1, 20) - (1.0 - 0.95f64.powi(20))).abs() < 1e-12);
        assert!((upper_tail(2, 2) - 0.0025).abs() < 1e-12);
    }

    #[test]
    fn many_alarms_are_an_alarm() {
        let outcomes = |bad: u64| -> Vec<Outcome> {
            (0..20)
                .map(|seed| Outcome {
                    seed,
                    p: if seed < bad { 0.01 } else { 0.5 },
                    worst: String::new(),
                })
                .collect()
        };
        let run = |bad| judged(vec![("m", outcomes(bad))], "npb:m");
        assert!(run(0).passed && run(3).passed && !run(7).passed);
        assert_eq!(run(3).report.results[0].mean, 0.15);
    }
}
