//! Is the coin fair? Three Beta posteriors of a success probability.

use npb_priors::dist::{Beta, Conjugate, Trials};
use npb_priors::special::beta_regularized;

use npb_kit::{Context, Layer, Panel, Point, Report, Result, ResultRow, lines, short, text_table};

/// Prior Beta(a, a), heads and tails, and the posterior that is printed.
struct Case {
    prior: f64,
    flips: Trials,
    printed: [f64; 2],
}

const CASES: [Case; 3] = [
    Case {
        prior: 2.0,
        flips: Trials {
            successes: 8,
            failures: 2,
        },
        printed: [10.0, 4.0],
    },
    Case {
        prior: 50.0,
        flips: Trials {
            successes: 8,
            failures: 2,
        },
        printed: [58.0, 52.0],
    },
    Case {
        prior: 50.0,
        flips: Trials {
            successes: 80,
            failures: 20,
        },
        printed: [130.0, 70.0],
    },
];

/// "Fair" is a success probability within this distance of one half.
const FAIR: f64 = 0.05;

pub(super) fn run(_: &Context<'_>) -> Result<Report> {
    let mut results = Vec::new();
    let mut table = text_table(
        "What ten and a hundred flips say under two priors",
        "prior | heads | tails | posterior | mean | sd | P(0.45 < p < 0.55)",
        Vec::new(),
    );
    let mut panels = Vec::new();
    for Case {
        prior,
        flips,
        printed,
    } in &CASES
    {
        let before = Beta::new(*prior, *prior)?;
        let after = before.posterior(flips)?;
        let (heads, tails) = (flips.successes, flips.failures);
        let fair = probability_fair(&after);
        let (mean, sd) = (after.mean(), after.variance().sqrt());
        for (metric, value, paper) in [
            ("a", after.a(), Some(printed[0])),
            ("b", after.b(), Some(printed[1])),
            ("mean", mean, None),
            ("sd", sd, None),
            ("fair", fair, None),
        ] {
            results.push(ResultRow {
                paper,
                ..ResultRow::single(
                    [
                        "simulated",
                        &format!("prior={prior};heads={heads};tails={tails}"),
                        "npb:conjugate",
                        metric,
                    ],
                    value,
                )
            });
        }
        let names = [&before, &after].map(|law| format!("Beta({}, {})", law.a(), law.b()));
        let [name_before, name_after] = names.clone();
        table.rows.push(vec![
            name_before,
            heads.to_string(),
            tails.to_string(),
            name_after,
            short(mean),
            short(sd),
            short(fair),
        ]);
        panels.push(Panel::of_lines(
            format!("{heads} heads, {tails} tails"),
            ["probability of heads", "density"],
            [&before, &after]
                .into_iter()
                .zip(names)
                .map(|(law, name)| density(law, name)),
        ));
    }
    let caption = "Prior and posterior densities: the weaker the prior and the longer the data, the further they part.";
    let figure = lines("coin", "Is the coin fair?", caption, &panels)?;
    Ok(Report {
        results,
        tables: vec![table],
        figures: vec![figure],
        ..Default::default()
    })
}

/// P(|p − 1/2| < 0.05).
fn probability_fair(law: &Beta) -> f64 {
    let cdf = |x| beta_regularized(law.a(), law.b(), x);
    cdf(0.5 + FAIR) - cdf(0.5 - FAIR)
}

fn density(law: &Beta, name: String) -> Layer {
    let point = |i: u32| {
        let x = f64::from(i) / 200.0;
        Point::at(x, law.ln_density(x).exp())
    };
    Layer::line(name, (0..=200).map(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_posteriors_are_the_printed_ones() {
        for case in &CASES {
            let after = Beta::new(case.prior, case.prior)
                .unwrap()
                .posterior(&case.flips)
                .unwrap();
            assert_eq!([after.a(), after.b()], case.printed);
        }
    }

    #[test]
    fn the_probability_of_a_fair_coin_is_the_integral_of_the_density() {
        let law = Beta::new(10.0, 4.0).unwrap();
        let n = 1000;
        let middle = |i: i32| 0.45 + 0.1 * (f64::from(i) + 0.5) / f64::from(n);
        let sum: f64 = (0..n).map(|i| law.ln_density(middle(i)).exp()).sum();
        assert!((probability_fair(&law) - 0.1 * sum / f64::from(n)).abs() < 1e-6);
    }
}
