//! A table with holes: fill them with intervals, and say which columns depend on each other.
//!
//! `cargo run -p npb-itf --example holes`
#![allow(clippy::print_stdout)]

use std::error::Error;

use npb_itf::npb_data::{MixedColumn, MixedTable};
use npb_itf::npb_infer::SweepPlan;
use npb_itf::{DependenceConfig, Grouping, ItfConfig, fit};

fn main() -> Result<(), Box<dyn Error>> {
    // Height and weight go together and differ between two kinds; the day has nothing to do with them. Some weights are missing.
    let n = 200;
    let noise = |i: usize, by: usize| ((i * by) % 97) as f64 / 97.0 - 0.5;
    let kind = |i: usize| i % 2;
    let height = |i: usize| 160.0 + 15.0 * kind(i) as f64 + 20.0 * noise(i, 31);
    let weight = |i: usize| 0.9 * height(i) - 85.0 + 6.0 * noise(i, 57);
    let levels = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let day = |i: usize| (i * i / 7 % 3) as u32;
    let columns = vec![
        MixedColumn::Real((0..n).map(|i| Some(height(i))).collect()),
        MixedColumn::Real((0..n).map(|i| (i % 10 != 3).then(|| weight(i))).collect()),
        MixedColumn::Categorical {
            levels: levels(&["a", "b"]),
            codes: (0..n).map(|i| Some(kind(i) as u32)).collect(),
        },
        MixedColumn::Categorical {
            levels: levels(&["mon", "tue", "wed"]),
            codes: (0..n).map(|i| Some(day(i))).collect(),
        },
    ];
    let names = ["height", "weight", "kind", "day"].map(str::to_owned);
    let table = MixedTable::new(names.to_vec(), columns)?;

    let config = ItfConfig {
        groups: Grouping::Found,
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 200,
            ..ItfConfig::default().sweeps
        },
        ..ItfConfig::default()
    };
    let model = fit(&table, &config)?;
    println!("groups that share a joint law: {:?}", model.groups());

    let filled = model.impute_training(&table, 0.9)?;
    for cell in filled.cells.iter().take(3) {
        let (low, high) = (cell.lower[0], cell.upper[0]);
        println!(
            "row {}: weight {:.1}, 90% interval {low:.1} to {high:.1}, was {:.1}",
            cell.row,
            cell.expected[0],
            weight(cell.row)
        );
    }

    let rows = model.training_rows(&table)?;
    for pair in model
        .dependence(&rows, &DependenceConfig::default())?
        .pairs()
    {
        println!(
            "{} and {}: {:.2} nats, p = {:.3}",
            names[pair.a], names[pair.b], pair.information.mean, pair.p_value
        );
    }
    Ok(())
}
