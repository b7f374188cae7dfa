//! Figure 3.9: how often the true value of a hidden cell is within one and two posterior standard deviations.

use npb_iqgme::{IqgmeConfig, MissingCell};

use crate::data::{Data, IONOSPHERE, Side, Sides};
use crate::data::{FRACTIONS, OURS};
use npb_kit::tables::{find, overview};
use npb_kit::{
    Context, Figure, Layer, Outcome, Panel, Point, Report, Result, ResultRow, Run, Trial, lines,
    summarise,
};

pub(crate) const FIG_3_9: Run = run;

const MISSING: f64 = 0.25;
/// Shares of a normal distribution within one and two standard deviations.
const NOMINAL: [f64; 2] = [0.682_689, 0.954_500];
const METRICS: [&str; 4] = [
    "training_within_1",
    "training_within_2",
    "new_within_1",
    "new_within_2",
];

fn run(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let (fractions, n): (&[f64], u64) = context.scale.smoke_or((&[0.5], 2), (&FRACTIONS, 10));
    let config = format!("{}\n{:?}", data.checksums, IqgmeConfig::default());
    let mut trials = Vec::new();
    for &train in fractions {
        let place = [data.name, &setting(train), OURS];
        trials.extend(Trial::runs(n, place, &config, train));
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let sides = data.masked(MISSING, trial.work, trial.trial, context.seed)?;
        let Sides { train, test } = &Sides::informative(sides)?;
        let fit = train.fit(seed)?;
        let [t1, t2] = within(train, &fit.training_cells(&train.rows, &train.labels)?)?;
        let [n1, n2] = within(test, &fit.cells_by_row(&test.rows)?)?;
        let values = [t1, t2, n1, n2];
        let mut outcome = Outcome::default();
        for (name, value) in METRICS.into_iter().zip(values) {
            outcome.metrics.insert(name.to_owned(), value);
        }
        Ok(outcome)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let notes = [
        "Hidden cells of the training rows and of the rows that the fit never saw, each with the mean and standard deviation that the fit gives it; \
         rows of the test side keep their labels hidden. The thesis shows one trial for each size; these are means over trials.",
        "A normal distribution has 0.683 and 0.954 of its mass within one and two standard deviations. Many cells of this set are exactly 1, -1 or 0, \
         so that the distributions of cells are far from normal.",
    ];
    Ok(Report {
        tables: vec![overview(
            "Share of hidden values",
            &results,
            &METRICS.join(" "),
        )],
        figures: vec![figure(&results)?],
        notes: notes.map(str::to_owned).to_vec(),
        results,
    })
}

fn setting(train: f64) -> String {
    format!("missing={MISSING};train={train}")
}

/// Share of the hidden cells of a side whose value is within one and two standard deviations of the mean, by what a fit says of each row's.
fn within(side: &Side, said: &[Vec<MissingCell>]) -> Result<[f64; 2]> {
    let (mut inside, mut all) = ([0_u32; 2], 0_u32);
    for (row, cells) in said.iter().enumerate() {
        for cell in cells {
            let truth = side.whole.get(row, cell.column);
            let truth = truth.ok_or("a hidden cell without truth")?;
            let distance = ((truth - cell.mean) / cell.sd).abs();
            all += 1;
            for (count, limit) in inside.iter_mut().zip([1.0, 2.0]) {
                *count += u32::from(distance <= limit);
            }
        }
    }
    Ok(inside.map(|count| f64::from(count) / f64::from(all)))
}

fn figure(results: &[ResultRow]) -> Result<Figure> {
    let level = |nominal: f64| {
        let ends = [0.0, 1.0].map(|x| Point::at(x, nominal));
        Layer::line("normal distribution", ends)
    };
    let curve = |metric: &str| {
        let point = |&train: &f64| {
            let row = find(results, &setting(train), OURS, metric)?;
            Some(Point::at(train, row.mean))
        };
        Layer::line(metric.replace('_', " "), FRACTIONS.iter().filter_map(point))
    };
    let panel = Panel::of_lines(
        "ionosphere, 25% missing",
        ["fraction of rows in training", "share of hidden values"],
        METRICS.map(curve).into_iter().chain(NOMINAL.map(level)),
    );
    let title = "Hidden values within one and two posterior standard deviations";
    lines("within", title, "Mean over trials.", &[panel])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tests::example;

    #[test]
    fn shares_are_shares_and_two_deviations_hold_more() {
        let sides = example().masked(0.25, 0.5, 0, 1).unwrap();
        let Sides { train, test } = &Sides::informative(sides).unwrap();
        let fit = train.fit(1).unwrap();
        let of_training = fit.training_cells(&train.rows, &train.labels).unwrap();
        let of_test = fit.cells_by_row(&test.rows).unwrap();
        for (side, cells) in [(train, &of_training), (test, &of_test)] {
            let [one, two] = within(side, cells).unwrap();
            assert!(0.3 < one && one < two && two <= 1.0, "{one} {two}");
        }
    }
}
