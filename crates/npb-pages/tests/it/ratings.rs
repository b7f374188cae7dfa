//! Pages of ratings.

use npb_bsvd::{BsvdConfig, BsvdFit, Cells, SideInformation, fit};
use npb_data::{Rating, Ratings};
use npb_infer::SweepPlan;
use npb_pages::ratings::{Known, page};
use npb_pages::{Context, Page};

use crate::{HEBREW, QUOTES, SCRIPT, assert_whole, long};

fn value(i: u32, j: u32) -> f64 {
    let noise = f64::from((i * 37 + j * 101) % 17) / 17.0 - 0.5;
    (f64::from(i % 5) - 2.0) * (f64::from(j % 3) - 1.0) + noise
}

/// Cells of 30 rows and 16 columns: those of the fit, or every fourth.
fn cells(held_out: bool) -> Vec<Rating> {
    let all = (0..30u32).flat_map(|i| (0..16u32).map(move |j| (i, j)));
    all.filter(|(i, j)| ((i + j) % 4 == 0) == held_out)
        .filter(|(i, _)| *i != 29)
        .map(|(row, column)| Rating {
            row,
            column,
            value: value(row, column),
        })
        .collect()
}

fn fitted() -> BsvdFit {
    let config = BsvdConfig {
        candidates: 4,
        sweeps: SweepPlan {
            burn_in: 60,
            keep: 60,
            thin: 1,
        },
        stored_draws: 30,
        ..BsvdConfig::default()
    };
    let ratings = Ratings::new(30, 16, &cells(false)).unwrap();
    let fit = fit(
        &ratings,
        SideInformation::default(),
        &Cells::default(),
        &config,
    )
    .unwrap();
    let mut columns: Vec<String> = (0..16).map(|j| format!("item {j}")).collect();
    columns.splice(
        0..4,
        [
            SCRIPT.to_owned(),
            QUOTES.to_owned(),
            HEBREW.to_owned(),
            long(),
        ],
    );
    let rows: Vec<String> = (0..30).map(|i| format!("{SCRIPT} {i}")).collect();
    fit.with_names(&rows, &columns).unwrap()
}

fn known(more: &[Rating], shift: f64) -> Known {
    let all: Vec<Rating> = cells(true)
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    Known {
        file: "<held>.csv".to_owned(),
        cells: Cells {
            rows: all.iter().map(|r| r.row).collect(),
            columns: all.iter().map(|r| r.column).collect(),
            values: all.iter().map(|r| r.value + shift).collect(),
        },
        unknown: 0,
    }
}

fn context() -> Context<'static> {
    Context {
        kind: "ratings",
        name: "m.npb".to_owned(),
        seed: 3,
        ..Context::default()
    }
}

fn numbers(page: &Page, figure: &str, column: usize) -> Vec<f64> {
    let rows = &page.figure(figure).expect(figure).rows;
    rows.iter()
        .filter_map(|row| row[column].parse().ok())
        .collect()
}

#[test]
fn ratings_have_a_page_whose_numbers_are_those_of_the_fit() {
    let fit = fitted();
    let known = known(&[], 0.0);
    let page = page(&fit, &context(), Some(&known)).unwrap();
    let html = assert_whole(&page);
    assert!(html.contains("&lt;script&gt;") && html.contains("&lt;held&gt;.csv"));
    for name in [
        "entries",
        "rank",
        "strength",
        "ends",
        "plane-rows",
        "sd",
        "coverage",
        "predicted",
    ] {
        assert!(page.figure(name).is_some(), "{name}");
    }
    // Row 29 has no entry.
    assert!(
        page.warnings()
            .iter()
            .any(|w| w.starts_with("1 rows and 0 columns have no entry"))
    );

    // Shares of the kept sweeps by rank.
    let plan = fit.config.sweeps;
    let ranks = fit.trace.kept(&plan, 0);
    let by_hand = |rank: f64| ranks.iter().filter(|r| **r == rank).count() as f64 / 60.0;
    let (x, shares) = (numbers(&page, "rank", 3), numbers(&page, "rank", 4));
    assert!(
        x.iter()
            .zip(&shares)
            .all(|(&rank, share)| (by_hand(rank) - share).abs() < 1e-12)
    );
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);

    // Entries within the intervals of `predict_all`, counted.
    let found = fit.predict_all(&known.cells, 0.9).unwrap();
    let inside = |(p, y): (&npb_bsvd::Prediction, &f64)| {
        p.predictive_interval.lower < *y && *y < p.predictive_interval.upper
    };
    let n = found
        .iter()
        .zip(&known.cells.values)
        .filter(|pair| inside(*pair))
        .count();
    let coverage = &page.figure("coverage").unwrap().rows;
    let at = coverage
        .iter()
        .find(|row| row[1] == "share of the cells" && row[3] == "0.9");
    let share: f64 = at.unwrap()[4].parse().unwrap();
    assert!(
        (share - n as f64 / found.len() as f64).abs() < 1e-12,
        "{share} {n}"
    );
}

#[test]
fn cells_of_the_fit_are_left_out_and_intervals_that_do_not_hold_are_said() {
    let fit = fitted();
    let seen = &cells(false)[..5];
    let good = page(&fit, &context(), Some(&known(seen, 0.0))).unwrap();
    let says = |page: &Page, words: &str| page.warnings().iter().any(|w| w.contains(words));
    assert!(says(
        &good,
        "Cells of <held>.csv are left out: 5 are entries of the fit."
    ));
    assert!(!says(&good, "Intervals do not hold"));
    let n = cells(true).len();
    assert!(
        good.html()
            .contains(&format!("By the {n} cells of &lt;held&gt;.csv."))
    );
    let shifted = page(&fit, &context(), Some(&known(&[], 9.0))).unwrap();
    assert!(says(
        &shifted,
        "Intervals do not hold: those of 90.0% have 0.0%"
    ));
    assert!(says(
        &shifted,
        "more than the mean of all these cells would be"
    ));
    let none = Known {
        unknown: 3,
        ..Known::default()
    };
    let none = page(&fit, &context(), Some(&none)).unwrap();
    assert!(says(&none, "3 are of rows or columns") && says(&none, "nothing can be judged"));
    assert_whole(&none);
}
