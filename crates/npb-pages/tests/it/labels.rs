//! Pages of labels and of topics.

use npb_data::{MixedColumn, MixedTable, Rating, Ratings};
use npb_pages::topics::{Documents, Names};
use npb_pages::{Context, Page, Rows, labels, topics};
use npb_regbayes::labels::{Decisions, LabelInputs};
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::topics::{MedLdaFit, Response};
use npb_regbayes::{LabelsConfig, LabelsFit, MedLdaConfig};

use crate::{HEBREW, QUOTES, SCRIPT, assert_whole, long};

fn context(kind: &'static str) -> Context<'static> {
    Context {
        kind,
        name: "m.npb".to_owned(),
        seed: 3,
        ..Context::default()
    }
}

fn number(i: usize, j: usize) -> f64 {
    ((i * (7 * j + 3) + j * j * i * i) % 23) as f64 / 11.0 - 1.0
}

/// Labels that lines decide, one of them with noise; a number; a constant column.
fn rows(n: usize) -> Rows {
    let mut columns: Vec<MixedColumn> = (0..3)
        .map(|j| MixedColumn::Real((0..n).map(|i| Some(number(i, j))).collect()))
        .collect();
    columns.push(MixedColumn::Real(vec![Some(2.0); n]));
    let names = vec![
        SCRIPT.to_owned(),
        long(),
        HEBREW.to_owned(),
        "constant".to_owned(),
    ];
    let is = |i: usize, k: usize| {
        (number(i, k) + number(i, 2) > 0.0) != (k == 1 && i.is_multiple_of(11))
    };
    let label = |k: usize| MixedColumn::Binary {
        levels: ["no".to_owned(), "yes".to_owned()],
        values: (0..n).map(|i| (i % 10 != 3).then(|| is(i, k))).collect(),
    };
    let sum = (0..n).map(|i| Some(3.0 * number(i, 0) + 10.0 + number(i, 1)));
    let targets = vec![label(0), label(1), MixedColumn::Real(sum.collect())];
    let of_targets = vec![QUOTES.to_owned(), "b".to_owned(), "<sum>".to_owned()];
    Rows {
        file: "<new>.csv".to_owned(),
        features: MixedTable::new(names, columns).unwrap(),
        targets: MixedTable::new(of_targets, targets).unwrap(),
        ..Rows::default()
    }
}

fn fitted(inputs: LabelInputs) -> LabelsFit {
    let rows = rows(90);
    let task = |k: usize| {
        let name = rows.targets.column_names()[k].clone();
        match rows.targets.column(k) {
            MixedColumn::Binary { values, .. } => Task::label(name, values),
            column => {
                let values: Vec<_> = (0..90).map(|i| column.number(i)).collect();
                Task::real(name, &values).unwrap()
            }
        }
    };
    let table = rows.features.numeric_table(&[0, 1, 2, 3]).unwrap();
    let data = TaskData::new(table, (0..3).map(task).collect()).unwrap();
    let config = LabelsConfig {
        inputs,
        decisions: Decisions::Accuracy,
        folds: 4,
        costs: vec![0.1, 1.0],
        ..LabelsConfig::default()
    };
    npb_regbayes::labels::fit(&data, &config).unwrap()
}

#[test]
fn labels_have_a_page_whose_numbers_are_those_of_the_fit() {
    let fit = fitted(LabelInputs::Linear);
    let new = rows(140);
    let page = labels::page(&fit, &context("labels"), Some(&new)).unwrap();
    let html = assert_whole(&page);
    assert!(html.contains("&lt;script&gt;alert(1)") && html.contains("&lt;new&gt;.csv"));
    let out = "1 column is constant or without a value, and not in the model: constant.";
    assert!(page.warnings().contains(&out), "{:?}", page.warnings());
    // Weights of inputs, by their names.
    let weights = &page.figure("inputs").unwrap().rows;
    assert_eq!(weights.len(), 9);
    for row in weights {
        let input = fit
            .columns()
            .names()
            .iter()
            .position(|name| *name == row[0])
            .unwrap();
        let label = fit
            .task_names()
            .iter()
            .position(|name| *name == row[1])
            .unwrap();
        assert_eq!(row[2], fit.input_weights()[3 * label + input].to_string());
    }
    // What adds up to the number stands in its weights: three to one.
    let of_sum = |input: &str| {
        let row = weights
            .iter()
            .find(|row| row[0] == input && row[1] == "<sum>");
        row.unwrap()[2].parse::<f64>().unwrap()
    };
    assert!((of_sum(SCRIPT) / of_sum(&long()) - 3.0).abs() < 0.6);
    // Right by hand, of the rows where the label is known.
    let table = new.features.numeric_table(&[0, 1, 2, 3]).unwrap();
    let said = fit.predict(&table).unwrap().labels(1).unwrap();
    let MixedColumn::Binary { values, .. } = new.targets.column(1) else {
        panic!("a label");
    };
    let known = values
        .iter()
        .zip(&said)
        .filter_map(|(is, said)| Some((*is)? == *said));
    let known: Vec<bool> = known.collect();
    let right = known.iter().filter(|right| **right).count() as f64 / known.len() as f64;
    let at = html
        .find("<tr><td>b</td><td class=\"n\">126</td>")
        .expect("126 rows of b");
    assert!(html[at..at + 200].contains(&format!("<td class=\"n\">{:.1}%</td>", 100.0 * right)));
    assert!(page.figure("margins").is_some() && page.figure("number-0").is_some());
}

#[test]
fn margins_and_rows_without_labels_have_a_page() {
    let fit = fitted(LabelInputs::None);
    let page = labels::page(&fit, &context("labels"), Some(&rows(60))).unwrap();
    let html = assert_whole(&page);
    assert!(html.contains("scores are margins") && page.figure("reliability").is_none());
    assert!(html.contains("The inputs have no weights of their own"));
    // Features with their weights, largest first in the report of the fit.
    let drives = &page.figure("features").unwrap().rows;
    let most = &fit.features()[0];
    let name = format!("1: {}", most.columns[0].0);
    let row = drives
        .iter()
        .find(|row| row[0] == name && row[1] == most.drives[0].0);
    assert_eq!(row.unwrap()[2], most.drives[0].1.to_string());
    let mut bare = rows(20);
    bare.targets = MixedTable::default();
    let page = labels::page(&fit, &context("labels"), Some(&bare)).unwrap();
    assert!(page.html().contains("has no column of a label"));
    assert_whole(&labels::page(&fit, &context("labels"), None).unwrap());
}

/// Documents of two kinds: words 0 and 1, or 2 and 3, word 4 in all; some are of the other class.
fn documents(n: u32) -> (Ratings, Vec<u32>) {
    let count = |row: u32, w: u32| f64::from((row * 7 + w * 5) % 4 + if w == 0 { 6 } else { 2 });
    let word = |row: u32, w: u32| Rating {
        row,
        column: if w == 4 { 4 } else { w + 2 * (row % 2) },
        value: count(row, w),
    };
    let entries: Vec<Rating> = (0..n)
        .flat_map(|row| [0, 1, 4].map(|w| word(row, w)))
        .collect();
    let classes = (0..n)
        .map(|row| (row + u32::from(row % 9 == 4)) % 2)
        .collect();
    (Ratings::new(n as usize, 5, &entries).unwrap(), classes)
}

fn topics_fit(with_classes: bool) -> MedLdaFit {
    let (counts, classes) = documents(60);
    let config = MedLdaConfig {
        topics: 3,
        ..MedLdaConfig::default()
    };
    let response = match with_classes {
        true => Response::Classes {
            classes: &classes,
            n_classes: 2,
        },
        false => Response::None,
    };
    npb_regbayes::topics::fit(&counts, response, &config).unwrap()
}

fn topics_page(fit: &MedLdaFit, documents: Option<&Documents>) -> Page {
    let words = [SCRIPT, QUOTES, HEBREW, &long(), "all"].map(str::to_owned);
    let classes = [HEBREW, SCRIPT].map(str::to_owned);
    let names = Names {
        words: &words,
        classes: &classes,
    };
    topics::page(fit, &context("topics"), names, documents).unwrap()
}

#[test]
fn topics_have_a_page_whose_numbers_are_those_of_the_fit() {
    let fit = topics_fit(true);
    let (counts, classes) = documents(80);
    let known = |&class: &u32| Some(class as usize);
    let new = Documents {
        file: "<new>.txt".to_owned(),
        counts: counts.clone(),
        classes: Some(classes.iter().map(known).collect()),
        may_be_of_fit: false,
    };
    let page = topics_page(&fit, Some(&new));
    let html = assert_whole(&page);
    assert!(html.contains("&lt;script&gt;") && html.contains("80 documents of &lt;new&gt;.txt"));
    // Words by their probabilities, the largest first.
    let mut names = page
        .figure("shares")
        .unwrap()
        .rows
        .iter()
        .map(|row| row[0].as_str());
    let words = [SCRIPT, QUOTES, HEBREW, &long(), "all"].map(str::to_owned);
    for topic in 0..3 {
        let top = fit.top_words(topic, 5).unwrap();
        assert!(top.is_sorted_by(|a, b| a.probability >= b.probability));
        assert!((top.iter().map(|word| word.probability).sum::<f64>() - 1.0).abs() < 1e-9);
        let first: Vec<String> = top[..3]
            .iter()
            .map(|top| npb_pages::shared::isolated(&words[top.word]))
            .collect();
        let name = format!("{}: {}", topic + 1, first.join(" "));
        assert!(names.clone().any(|own| own == name), "{name}");
    }
    assert!(names.next().is_some());
    let shares = page.figure("shares").unwrap().rows.iter();
    let total: f64 = shares.map(|row| row[1].parse::<f64>().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9);
    // Told right, by hand.
    let said = fit.predict_classes(&counts).unwrap();
    let right = said.iter().zip(&classes).filter(|(a, b)| a == b).count() as f64 / 80.0;
    assert!(
        html.contains(&format!("{:.1}% are told right", 100.0 * right)),
        "{right}"
    );
    assert!(page.figure("margins").is_some() && page.figure("true-margins").is_some());
}

#[test]
fn topics_of_words_alone_and_documents_without_classes_have_a_page() {
    let page = topics_page(&topics_fit(false), None);
    assert!(assert_whole(&page).contains("The fit is of words alone"));
    let none = Documents {
        file: "f.txt".to_owned(),
        counts: documents(8).0,
        classes: None,
        may_be_of_fit: false,
    };
    let page = topics_page(&topics_fit(true), Some(&none));
    assert!(assert_whole(&page).contains("f.txt says no classes"));
}
