//! Pages of tables.

use npb_infer::SweepPlan;
use npb_itf::{DependenceConfig, ItfConfig, ItfData, ItfFit, Verdict, fit_data};
use npb_pages::{Context, Rows, table};

use super::{QUOTES, SCRIPT, assert_whole, rows};

fn fitted(rows: &Rows) -> ItfFit {
    let config = ItfConfig {
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 60,
            keep: 20,
            thin: 2,
        },
        ..ItfConfig::default()
    };
    let data = ItfData::from_fields(&rows.features, &rows.fields).unwrap();
    fit_data(&data, &config).unwrap()
}

fn context() -> Context<'static> {
    Context {
        kind: "table",
        name: "t.npb".to_owned(),
        n_rows: Some(160),
        ..Context::default()
    }
}

#[test]
fn a_page_of_a_table_has_the_numbers_of_its_answers() {
    let mut rows = rows(160);
    rows.may_be_of_fit = true;
    let fit = fitted(&rows);
    let page = table::page(&fit, &context(), Some(&rows)).unwrap();
    let html = assert_whole(&page);
    // The information of the question itself.
    let asked = fit.field_rows(&rows.features, &rows.fields, true).unwrap();
    let config = DependenceConfig {
        permutations: 199,
        ..DependenceConfig::default()
    };
    let found = fit.dependence(&asked, &config).unwrap();
    let map = page.figure("dependence").unwrap();
    for pair in found.pairs() {
        let [a, b] = [pair.a, pair.b].map(|j| npb_pages::shared::short_name(&found.names()[j]));
        let mut rows = map.rows.iter();
        let row = rows.find(|row| row[0] == a && row[1] == b).unwrap();
        let value: f64 = row[2].parse().unwrap();
        assert!((value - pair.information.mean).abs() < 1e-12, "{a} {b}");
    }
    // The strongest of the pairs that are called dependent comes first.
    let dependent = found
        .pairs()
        .iter()
        .filter(|p| p.verdict == Verdict::Dependent);
    let all: Vec<_> = dependent.filter(|p| p.information.mean > 0.0).collect();
    let most = all.iter().map(|p| p.information.mean).fold(0.0, f64::max);
    let links = page.figure("links").unwrap();
    assert_eq!(links.rows.len(), all.len());
    assert_eq!(links.rows[0][2], most.to_string());
    assert!(found.pair(SCRIPT, QUOTES).unwrap().dependent);
    assert!(html.contains("The oddest cells of 160 rows"));
    let bars = page.figure("clusters").unwrap();
    assert!(
        bars.rows
            .iter()
            .all(|row| row[1].parse::<f64>().unwrap() >= 1.0)
    );
    assert!(page.figure("hidden").is_some());
    assert_eq!(
        html,
        table::page(&fit, &context(), Some(&rows)).unwrap().html()
    );
}

#[test]
fn a_page_without_rows_says_which_columns_are_in_one_block() {
    let fit = fitted(&rows(160));
    let page = table::page(&fit, &context(), None).unwrap();
    assert_whole(&page);
    let blocks = page.figure("blocks").unwrap();
    let value = |a: &str, b: &str| -> f64 {
        let mut rows = blocks.rows.iter();
        let row = rows.find(|row| row[0] == a && row[1] == b).unwrap();
        row[2].parse().unwrap()
    };
    let places = fit.places();
    let block = |draw: &npb_itf::Draw, j: usize| draw.columns[places[j].column].block;
    let together = fit
        .draws()
        .iter()
        .filter(|d| block(d, 0) == block(d, 2))
        .count();
    assert_eq!(
        value(SCRIPT, QUOTES),
        together as f64 / fit.draws().len() as f64
    );
}
