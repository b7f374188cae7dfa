//! Pages of groups: of users who like items, and of rows with two classes.

use npb_data::{Labels, MixedColumn, MixedTable, Rating, Ratings, Table};
use npb_hbrec::{GroupedConfig, GroupedFit, Likes, Recommender, RecommenderConfig, fit_groups};
use npb_pages::groups::Known;
use npb_pages::{Context, Page, Rows, grouped, groups};

use crate::{HEBREW, QUOTES, SCRIPT, assert_whole, long};

fn context(kind: &'static str) -> Context<'static> {
    Context {
        kind,
        name: "m.npb".to_owned(),
        seed: 3,
        ..Context::default()
    }
}

/// 50 users of two tastes, who rated most of 8 items.
fn recommender() -> Recommender {
    let likes = |u: u32, i: u32| (u + i).is_multiple_of(2) && !(u * 3 + i).is_multiple_of(11);
    let rated = |u: u32| (0..8).filter(move |i| !(i + u / 2).is_multiple_of(4));
    let entry = |u: u32, i: u32| Rating {
        row: u,
        column: i,
        value: f64::from(u8::from(likes(u, i))),
    };
    let entries: Vec<Rating> = (0..50)
        .flat_map(|u| rated(u).map(move |i| entry(u, i)))
        .collect();
    let ratings = Ratings::new(50, 8, &entries).unwrap();
    Recommender::fit(&ratings, None, &RecommenderConfig::default()).unwrap()
}

#[test]
fn users_and_items_have_a_page_whose_numbers_are_those_of_the_fit() {
    let fit = recommender();
    let mut items: Vec<String> = (0..8).map(|i| format!("film {i}")).collect();
    items.splice(
        0..4,
        [
            SCRIPT.to_owned(),
            QUOTES.to_owned(),
            HEBREW.to_owned(),
            long(),
        ],
    );
    let user = |u: u32| {
        let pairs: Vec<(u32, bool)> = (0..8).map(|i| (i, (u + i).is_multiple_of(2))).collect();
        (format!("{SCRIPT}{u}"), Likes::new(8, &pairs).unwrap())
    };
    let known = Known {
        file: "<new>.csv".to_owned(),
        users: (0..30).map(user).collect(),
        may_be_of_fit: false,
    };
    let page = groups::page(&fit, &context("groups"), &items, Some(&known)).unwrap();
    let html = assert_whole(&page);
    assert!(html.contains("&lt;script&gt;") && html.contains("30 users of &lt;new&gt;.csv"));
    // Half of eight ratings of each of thirty are predicted, and told apart.
    assert!(html.contains("<td>rows</td><td class=\"n\">120</td>"));
    let roc = page.figure("roc").unwrap();
    let area = roc
        .svg
        .split("area ")
        .nth(1)
        .and_then(|rest| rest.split('<').next());
    let area: f64 = area.unwrap().trim().parse().unwrap();
    assert!(area > 0.9, "{area}");
    // Bars are the chances of somebody without ratings, the largest first.
    let new = fit.profile(&Likes::new(8, &[]).unwrap()).unwrap();
    let bars = &page.figure("new").unwrap().rows;
    assert_eq!(bars.len(), 8);
    for row in bars {
        let item = items.iter().position(|item| *item == row[0]).unwrap();
        let chance = fit.chance(&new, item).unwrap();
        assert_eq!(
            row[1..],
            [chance.probability.to_string(), chance.sd.to_string()]
        );
    }
    assert!(bars.is_sorted_by(|a, b| a[1].parse::<f64>().unwrap() >= b[1].parse().unwrap()));
    let nobody = Known::default();
    let page = groups::page(&fit, &context("groups"), &[], Some(&nobody)).unwrap();
    assert!(
        page.warnings()
            .iter()
            .any(|w| w.ends_with("nothing can be judged."))
    );
    assert_whole(&page);
}

const GROUPS: [&str; 4] = [SCRIPT, QUOTES, HEBREW, "d"];

/// In the last two groups the first column speaks for the other class.
fn rows(n: usize) -> Rows {
    let noise = |i: usize, k: usize| ((i * 37 + k * 11) % 101) as f64 / 50.5 - 1.0;
    let columns = [1, 2].map(|k| MixedColumn::Real((0..n).map(|i| Some(noise(i, k))).collect()));
    let names = vec![long(), SCRIPT.to_owned()];
    let class = |i: usize| {
        Some(if (noise(i, 1) > 0.0) == (i % 4 < 2) {
            HEBREW
        } else {
            SCRIPT
        })
    };
    let labels: Vec<Option<&str>> = (0..n).map(class).collect();
    Rows {
        file: "<rows>.csv".to_owned(),
        features: MixedTable::new(names, columns.to_vec()).unwrap(),
        labels: Some(Labels::from_strings(&labels)),
        parts: Some((0..n).map(|i| Some(GROUPS[i % 4].to_owned())).collect()),
        ..Rows::default()
    }
}

fn table(rows: &Rows) -> Table {
    rows.features.numeric_table(&[0, 1]).unwrap()
}

fn grouped_fit() -> GroupedFit {
    let rows = rows(120);
    let groups = Labels::from_strings(rows.parts.as_deref().unwrap());
    let labels = rows.labels.clone().unwrap();
    fit_groups(&table(&rows), &labels, &groups, &GroupedConfig::default()).unwrap()
}

#[test]
fn rows_in_groups_have_a_page_whose_numbers_are_those_of_the_fit() {
    let fit = grouped_fit();
    let new = rows(203);
    let page = grouped::page(&fit, &context("grouped"), Some(&new)).unwrap();
    let html = assert_whole(&page);
    assert!(html.contains("&lt;script&gt;alert(1)") && html.contains("&lt;rows&gt;.csv"));
    for row in &page.figure("own").unwrap().rows {
        let group = fit.group(&row[0]).unwrap();
        let all: f64 = group.own_weight + group.weights.iter().sum::<f64>();
        assert!((row[1].parse::<f64>().unwrap() - group.own_weight / all).abs() < 1e-12);
    }
    // The first column has another sign in the last two groups.
    let weights = &page.figure("coefficients").unwrap().rows;
    let sign = |group: &str| {
        let own = weights
            .iter()
            .find(|row| row[0] == group && row[1] == long());
        own.unwrap()[2].parse::<f64>().unwrap().signum()
    };
    assert_eq!([sign(SCRIPT), sign(HEBREW)], [-sign("d"), sign("d")]);
    assert_eq!(sign(SCRIPT), sign(QUOTES));
    // Rows that are told right, counted group by group.
    let (labels, table) = (new.labels.clone().unwrap(), table(&new));
    for (k, name) in GROUPS.iter().enumerate() {
        let own: Vec<usize> = (0..203).filter(|i| i % 4 == k).collect();
        let p = fit
            .predict(fit.group(name).unwrap(), &table.select_rows(&own))
            .unwrap();
        let is = own
            .iter()
            .map(|&i| labels.name(i) == Some(fit.classes()[1].as_str()));
        let right = p
            .iter()
            .zip(is)
            .filter(|(p, is)| (**p > 0.5) == *is)
            .count();
        let right = format!("{:.1}%</td></tr>", 100.0 * right as f64 / own.len() as f64);
        let line = format!("<td class=\"n\">{}</td>", own.len());
        let name = npb_report::html::escape(name);
        let at = html.find(&format!("<tr><td>{name}</td>{line}")).unwrap();
        assert!(html[at..at + 300].contains(&right), "{name} {right}");
    }
}

#[test]
fn rows_of_no_group_are_left_out() {
    let fit = grouped_fit();
    let mut new = rows(40);
    new.parts = Some(
        (0..40)
            .map(|i| (i > 0).then(|| GROUPS[i % 4].to_owned()))
            .collect(),
    );
    let page: Page = grouped::page(&fit, &context("grouped"), Some(&new)).unwrap();
    let said = "1 of 40 rows have no group or no class of the fit, or a missing cell, and are left out here.";
    assert!(page.warnings().contains(&said), "{:?}", page.warnings());
    new.labels = None;
    let page = grouped::page(&fit, &context("grouped"), Some(&new)).unwrap();
    assert!(page.html().contains("has no labels"));
    assert_whole(&grouped::page(&fit, &context("grouped"), None).unwrap());
}
