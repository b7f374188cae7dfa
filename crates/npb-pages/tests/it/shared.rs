//! What pages of all kinds share.

use npb_data::schema::{ColumnSchema, Kind, Role, Schema};
use npb_data::{MixedColumn, MixedTable};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_infer::{Stop, SweepPlan, Trace, VbLimits, VbReport};
use npb_pages::{Context, Page, Rows, Section, shared};

use super::{HEBREW, SCRIPT};

fn warnings(section: Section) -> Vec<String> {
    let mut page = Page::new("p");
    page.push(section);
    page.warnings().into_iter().map(str::to_owned).collect()
}

fn real(cells: &[Option<f64>]) -> MixedColumn {
    MixedColumn::Real(cells.to_vec())
}

#[test]
fn columns_that_are_left_out_are_said() {
    let mut out = ColumnSchema::new("note", Kind::Categorical);
    out.role = Role::Ignored;
    let columns = vec![ColumnSchema::new("<x>", Kind::Real), out];
    let schema = Schema {
        columns,
        ..Schema::default()
    };
    let turned = shared::left_out_words("not used", &[HEBREW, SCRIPT]);
    assert_eq!(
        turned,
        format!("2 columns are not used: \u{2068}{HEBREW}\u{2069}, {SCRIPT}.")
    );
    let context = Context {
        kind: "mixture",
        name: "m.npb".to_owned(),
        n_rows: Some(12),
        schema: Some(&schema),
        ..Context::default()
    };
    let page = shared::begin(&context);
    assert_eq!(page.warnings(), ["1 column is not used: note."]);
    assert!(
        page.html().contains("fitted to 12 rows and 2 columns.")
            && page.html().contains("&lt;x&gt;")
    );
}

#[test]
fn settings_that_differ_stand_first_with_their_defaults() {
    let usual = VbLimits {
        max_iterations: 100,
        tolerance: 1e-6,
    };
    let own = VbLimits {
        tolerance: f64::INFINITY,
        ..usual
    };
    let mut page = Page::new("p");
    page.push(shared::settings(&own, &usual).unwrap());
    let html = page.html();
    let row = "<tr><td>tolerance</td><td>∞</td><td class=\"n\">0.000001</td></tr>";
    assert!(html.contains(row), "{html}");
    assert!(!html.contains("<tr><td>max_iterations</td><td class=\"n\">100</td><td"));
}

#[test]
fn a_bound_that_still_changes_is_warned_of() {
    let mut trace: Vec<VbReport> = Vec::new();
    for k in 0..2000 {
        let bound = -1e6 / f64::from(k + 1);
        trace.push(VbReport::after(trace.last(), bound));
    }
    let good = shared::bound(&trace, Stop::Converged { rel_change: 0.0 }, "n").unwrap();
    assert_eq!(warnings(good), [""; 0]);
    let bad = shared::bound(&trace, Stop::MaxIterations, "limits.n").unwrap();
    let mut page = Page::new("p");
    page.push(bad);
    assert!(page.warnings()[0].contains("after 2000 iterations: allow more by limits.n"));
    let figure = page.figure("bound").unwrap();
    assert!(figure.rows.len() <= 302 && figure.svg.len() < 40_000);
    assert_eq!(figure.rows.last().unwrap()[3..5], ["2000", "-500"]);
    // One step has no change before it.
    assert!(!page.html().contains("NaN") && !page.html().contains(">inf<"));
}

#[test]
fn chains_that_have_not_met_and_few_draws_are_warned_of() {
    let plan = SweepPlan {
        burn_in: 0,
        keep: 40,
        thin: 1,
    };
    let chain = |level: f64| {
        let mut trace = Trace::new(["<noise>"]);
        (0..40).for_each(|t| trace.push(&[level + f64::from(t * 7 % 11)]));
        trace
    };
    let found = |levels: [f64; 2]| {
        let traces = levels.map(chain);
        let draws = traces.each_ref().map(|t| t.kept(&plan, 0));
        let d = ChainDiagnostics::new(&draws);
        let section = shared::chains(&[("<noise>".to_owned(), d)], &traces.each_ref(), &plan);
        (d, warnings(section.unwrap()))
    };
    let (d, apart) = found([0.0, 50.0]);
    assert!(
        d.rhat.unwrap() > 1.05 && apart[0].starts_with("The chains have not met: R-hat of <noise>")
    );
    assert!(apart[1].starts_with("Few effective draws"), "{apart:?}");
    let (d, alike) = found([0.0, 0.0]);
    assert!(d.rhat.unwrap() < 1.01);
    assert!(alike.iter().all(|words| !words.contains("R-hat")));
}

#[test]
fn the_map_of_holes_has_the_shares_of_rows_and_the_patterns() {
    let a = real(&[Some(1.0), None, None, Some(2.0)]);
    let b = real(&[Some(1.0), None, None, None]);
    let features = MixedTable::new(vec!["a".into(), "b".into()], vec![a, b]).unwrap();
    let rows = Rows {
        file: "f.csv".to_owned(),
        features,
        ..Rows::default()
    };
    let mut page = Page::new("p");
    page.push(shared::holes(&rows).unwrap());
    let figure = page.figure("holes").unwrap();
    let values: Vec<&str> = figure.rows.iter().map(|row| row[2].as_str()).collect();
    // Shares of all; both missing in two rows; none; b alone.
    assert_eq!(values, ["0.5", "0.75", "1", "1", "0", "0", "0", "1"]);
    assert_eq!(figure.rows[2][0], "2 rows (50.0%)");
    assert!(
        page.html()
            .contains("5 of the 8 cells of f.csv are missing (62.5%)")
    );
}
