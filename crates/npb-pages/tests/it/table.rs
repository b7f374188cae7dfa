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
    // The oddest cell, by how far it is above what is usual of its column.
    let new = fit.field_rows(&rows.features, &rows.fields, false).unwrap();
    let usual = fit.usual_surprisals(&new).unwrap();
    let excess = |cell: &npb_itf::CellSurprisal| cell.surprisal - usual[cell.column];
    let odd = fit.surprisals(&new).unwrap();
    let odd = odd
        .iter()
        .max_by(|a, b| excess(a).total_cmp(&excess(b)))
        .unwrap();
    let at = html.find("The oddest cells of 160 rows").unwrap();
    let first = html[at..].split("<tr>").nth(2).unwrap();
    let number = npb_report::short(excess(odd));
    assert!(first.contains(&format!("<td class=\"n\">{}</td>", odd.row + 1)));
    assert!(
        first.contains(&format!(">{number}</td></tr>")),
        "{number}: {first}"
    );
    // Clusters by column, counted draw by draw.
    let bars = page.figure("clusters").unwrap();
    let mut own: Vec<usize> = fit.places().iter().map(|place| place.column).collect();
    own.dedup();
    assert_eq!(bars.rows.len(), own.len());
    for (bar, column) in bars.rows.iter().zip(own) {
        let of = |draw: &npb_itf::Draw| {
            let mut labels = draw.labels(column).unwrap().to_vec();
            labels.sort_unstable();
            labels.dedup();
            labels.len() as f64
        };
        let counts: Vec<f64> = fit.draws().iter().map(of).collect();
        let mean = counts.iter().sum::<f64>() / 40.0;
        let sd = (counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 40.0).sqrt();
        let found = [1, 2].map(|k| bar[k].parse::<f64>().unwrap());
        assert!(
            (found[0] - mean).abs() < 1e-9 && (found[1] - sd).abs() < 1e-9,
            "{bar:?}"
        );
    }
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
