//! Which parts need a second look: a table with holes in, a decision for each row out.
//!
//! `cargo run -p npb-iqgme --example second_look [file.csv label]`: a file with a header line, numbers, and a column of labels (some may be empty); or made-up readings.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::read;
use std::ops::ControlFlow;

use npb_iqgme::npb_data::read::{Column, DelimitedOptions, labelled_table};
use npb_iqgme::{IqgmeConfig, Watch, fit_watched};

/// Two sensors; a part fails when they disagree. Every fifth reading was lost.
fn made_up() -> String {
    let line = |i: u32| {
        let a = f64::from(i * 37 % 101) / 25.0 - 2.0;
        let b = a + f64::from(i * 53 % 89) / 22.0 - 2.0;
        let label = match i % 3 {
            0 => "",
            _ if (a - b).abs() > 1.0 => "fails",
            _ => "good",
        };
        match i % 5 {
            0 => format!("{a:.2},,{label}\n"),
            _ => format!("{a:.2},{b:.2},{label}\n"),
        }
    };
    ["first,second,state\n".to_owned()]
        .into_iter()
        .chain((0..90).map(line))
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().map_or(Ok(made_up().into_bytes()), read)?;
    let label = arguments.next().unwrap_or_else(|| "state".to_owned());
    let options = DelimitedOptions::default();
    let (table, labels) = labelled_table("readings", &text[..], &Column::Name(label), &options)?;

    // One watch for all fits: a line each fifth of the work.
    let mut told = 0.0;
    let watch = Watch::new(|progress| {
        if progress.share >= told + 0.2 {
            told = progress.share;
            println!("{:3.0}% ({})", 100.0 * told, progress.part);
        }
        ControlFlow::Continue(())
    });
    let model = fit_watched(&table, &labels, &IqgmeConfig::default(), &watch)?;
    println!(
        "{} clusters; classes {:?}",
        model.n_clusters(),
        model.classes()
    );

    // A second look where the decision is not sure, or where nothing like the row was seen.
    let probabilities = model.predict_classes(&table)?;
    let intervals = model.predict_class_intervals(&table, 0.9)?;
    let densities = model.ln_density(&table)?;
    let mut sorted = densities.clone();
    sorted.sort_by(f64::total_cmp);
    let strange = sorted[sorted.len() / 50];
    for (row, of_row) in intervals
        .iter()
        .enumerate()
        .filter(|(row, _)| labels.name(*row).is_none())
    {
        let p = &probabilities[row];
        let best = (0..of_row.len()).max_by(|&a, &b| p[a].total_cmp(&p[b]));
        let class = best.unwrap_or(0);
        let found = of_row[class];
        let look = if found.lower < 0.7 || densities[row] < strange {
            " -> second look"
        } else {
            ""
        };
        let (name, p, low, high) = (&model.classes()[class], p[class], found.lower, found.upper);
        println!("row {row}: {name} with {p:.2} ({low:.2} to {high:.2}){look}");
    }
    Ok(())
}
