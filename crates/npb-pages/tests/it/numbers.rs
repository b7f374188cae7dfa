//! Pages of classifiers, mixtures and tasks.

use npb_data::schema::{ColumnSchema, Design, Kind, Schema};
use npb_data::{Labels, Mask, MixedTable, Table, metrics};
use npb_infer::Stop;
use npb_iqgme::{Init, IqgmeConfig, IqgmeFit, Task, TasksConfig, fit, fit_tasks, fit_unlabelled};
use npb_pages::{Context, Rows, classifier, mixture, tasks};

use super::{HEBREW, QUOTES, SCRIPT, assert_whole, long, rows};

fn schema() -> Schema {
    let mut level = ColumnSchema::new(QUOTES, Kind::Categorical);
    level.levels = Some(vec![QUOTES.to_owned(), HEBREW.to_owned()]);
    Schema {
        columns: vec![
            ColumnSchema::new(SCRIPT, Kind::Real),
            ColumnSchema::new(long(), Kind::Real),
            level,
            ColumnSchema::new("constant", Kind::Count),
        ],
        ..Schema::default()
    }
}

fn config() -> IqgmeConfig {
    IqgmeConfig {
        starts: vec![Init::PerClass(1)],
        unlabelled_starts: vec![Init::KMeans(2)],
        normal_scores: false,
        folds: 0,
        ..IqgmeConfig::default()
    }
}

fn table(features: &MixedTable) -> Table {
    Design::new(&schema()).table(features).unwrap()
}

fn context<'a>(kind: &'a str, schema: &'a Schema) -> Context<'a> {
    Context {
        kind,
        name: "m.npb".to_owned(),
        file: Some(format!("{SCRIPT}.csv")),
        n_rows: Some(160),
        schema: Some(schema),
        ..Context::default()
    }
}

fn fitted(rows: &Rows) -> IqgmeFit {
    fit(
        &table(&rows.features),
        rows.labels.as_ref().unwrap(),
        &config(),
    )
    .unwrap()
}

/// The class of each row, and the second of the classes of the fit.
fn truth(labels: &Labels) -> Vec<bool> {
    let positive = labels.classes()[1].clone();
    (0..labels.n_rows())
        .map(|i| labels.name(i) == Some(&positive))
        .collect()
}

#[test]
fn a_page_of_a_classifier_has_the_numbers_of_its_answers() {
    let rows = rows(160);
    let fit = fitted(&rows);
    let schema = schema();
    let page = classifier::page(&fit, &context("classifier", &schema), Some(&rows)).unwrap();
    let html = assert_whole(&page);

    let labels = rows.labels.as_ref().unwrap();
    let (p, is) = (
        fit.predict_proba(&table(&rows.features)).unwrap(),
        truth(labels),
    );
    let area = metrics::auc(&p, &is).unwrap();
    assert!(html.contains(&format!("area {}", npb_report::short(area))));
    // Bins, counted by hand.
    let reliability = page.figure("reliability").unwrap();
    let points: Vec<_> = reliability
        .rows
        .iter()
        .filter(|row| row[1].starts_with("rows"))
        .collect();
    let bin = |p: f64| ((p * 10.0) as usize).min(9);
    let filled: Vec<usize> = (0..10)
        .filter(|&b| p.iter().any(|&p| bin(p) == b))
        .collect();
    assert_eq!(points.len(), filled.len());
    for (point, b) in points.iter().zip(filled) {
        let own: Vec<usize> = (0..160).filter(|&i| bin(p[i]) == b).collect();
        let share = own.iter().filter(|&&i| is[i]).count() as f64 / own.len() as f64;
        assert!((point[4].parse::<f64>().unwrap() - share).abs() < 1e-9);
    }
    // Without a column: the probabilities of the rows that lack it.
    let drop = page.figure("columns").unwrap();
    for (k, name) in rows.features.column_names().iter().enumerate() {
        let mask = Mask::from_fn(160, 4, |_, j| j == k).unwrap();
        let less = fit
            .predict_proba(&table(&rows.features.hide(&mask).unwrap()))
            .unwrap();
        let score = |p: &[f64]| -metrics::log_loss(p, &is).unwrap();
        let found = drop.rows.iter().find(|row| row[0] == *name).unwrap();
        let found: f64 = found[1].parse().unwrap();
        assert!(
            (found - (score(&p) - score(&less))).abs() < 1e-9,
            "{name:.20}: {found}"
        );
    }
    assert_eq!(
        drop.rows[0][0], SCRIPT,
        "the column that tells the class is first"
    );
    assert!(
        html.contains("not in the model: constant."),
        "a constant column is said"
    );
    assert!(page.figure("hidden").is_some() && page.figure("holes").is_some());
}

#[test]
fn a_page_without_rows_asks_for_some_and_one_of_the_fit_is_honest() {
    let mut rows = rows(160);
    let fit = fitted(&rows);
    let schema = schema();
    let context = context("classifier", &schema);
    let alone = classifier::page(&fit, &context, None).unwrap();
    assert!(assert_whole(&alone).contains("Give a file of rows with labels"));
    rows.may_be_of_fit = true;
    let page = classifier::page(&fit, &context, Some(&rows)).unwrap();
    assert!(page.html().contains("may be what the model was fitted to"));
    rows.labels = Some(Labels::from_strings(&vec![Some("another"); 160]));
    let page = classifier::page(&fit, &context, Some(&rows)).unwrap();
    assert!(
        page.warnings()
            .iter()
            .any(|words| words.contains("160 rows are of a class"))
    );
    assert!(page.figure("roc").is_none());
}

#[test]
fn a_page_of_a_mixture_compares_made_up_rows_and_fills_hidden_cells() {
    let rows = rows(160);
    let fit = fit_unlabelled(&table(&rows.features), &config()).unwrap();
    let schema = schema();
    let context = context("mixture", &schema);
    let page = mixture::page(&fit, &context, Some(&rows)).unwrap();
    assert_whole(&page);
    let hidden = page.figure("hidden").unwrap();
    assert!(
        hidden
            .rows
            .iter()
            .filter(|row| row[1] == "hidden cells")
            .count()
            > 20
    );
    let marginal = page.figure("marginal-2").unwrap();
    // Shares of the two levels, of the data and of made-up rows.
    let of_data: Vec<f64> = marginal.rows[..2]
        .iter()
        .map(|row| row[2].parse().unwrap())
        .collect();
    let codes = (0..160)
        .filter(|&i| ((i * 7) % 10 < 4) != (i % 13 == 0))
        .count() as f64;
    assert!((of_data[1] - codes / 160.0).abs() < 1e-9);
    let again = mixture::page(&fit, &context, Some(&rows)).unwrap();
    assert_eq!(
        page.html(),
        again.html(),
        "a page depends on its seed alone"
    );
    let other = Context { seed: 5, ..context };
    assert_ne!(
        page.html(),
        mixture::page(&fit, &other, Some(&rows)).unwrap().html()
    );
}

#[test]
fn numbers_without_a_schema_have_a_page() {
    let rows = rows(160);
    let numbers = table(&rows.features);
    let fit = fit_unlabelled(&numbers, &config()).unwrap();
    let column = |j: usize| (0..160).map(|i| numbers.get(i, j)).collect();
    let columns = (0..4).map(|j| npb_data::MixedColumn::Real(column(j)));
    let features = MixedTable::new(numbers.column_names().to_vec(), columns.collect()).unwrap();
    let bare = Rows {
        features,
        ..Rows::default()
    };
    let context = Context {
        kind: "mixture",
        ..Context::default()
    };
    let page = mixture::page(&fit, &context, Some(&bare)).unwrap();
    assert_whole(&page);
    assert!(page.figure("marginal-0").is_some());
}

#[test]
fn a_page_of_tasks_has_the_similarity_and_scores_by_task() {
    let mut all = rows(160);
    let part = |i: usize| [SCRIPT, QUOTES][i % 2];
    let labels = all.labels.clone().unwrap();
    let of = |k: usize| -> Vec<usize> { (0..160).filter(|i| i % 2 == k).collect() };
    let parts = [0, 1].map(|k| {
        let rows = of(k);
        (
            table(&all.features).select_rows(&rows),
            labels.select_rows(&rows),
        )
    });
    let named: Vec<Task<'_>> = [SCRIPT, QUOTES]
        .iter()
        .zip(&parts)
        .map(|(name, (table, labels))| Task {
            name,
            table,
            labels,
        })
        .collect();
    let config = TasksConfig {
        single: IqgmeConfig {
            folds: 0,
            ..IqgmeConfig::default()
        },
        ..TasksConfig::default()
    };
    let fit = fit_tasks(&named, &config).unwrap();
    all.parts = Some((0..160).map(|i| Some(part(i).to_owned())).collect());
    all.parts.as_mut().unwrap()[3] = Some("elsewhere".to_owned());
    let schema = schema();
    let page = tasks::page(&fit, &context("tasks", &schema), Some(&all)).unwrap();
    let html = assert_whole(&page);
    let similarity = page.figure("similarity").unwrap();
    let off: Vec<f64> = similarity
        .rows
        .iter()
        .filter(|row| row[0] != row[1])
        .map(|row| row[2].parse().unwrap())
        .collect();
    assert!((off[0] - fit.similarity()[(0, 1)]).abs() < 1e-12 && off.len() == 2);
    assert!(html.contains("1 rows are of no task of the fit"));
    // Probabilities of the first task, asked of the fit.
    let own = of(0);
    let p = fit.predict_proba(SCRIPT, &parts[0].0).unwrap();
    let is = truth(&labels);
    let right = own
        .iter()
        .zip(&p)
        .filter(|(i, p)| (**p > 0.5) == is[**i])
        .count();
    let share = format!("{:.1}%", 100.0 * right as f64 / 80.0);
    let row = format!("<td class=\"n\">80</td><td class=\"n\">{share}</td>");
    assert!(html.contains(&row), "{row}");
    assert!(!matches!(fit.stop(), Stop::Cancelled));
}
