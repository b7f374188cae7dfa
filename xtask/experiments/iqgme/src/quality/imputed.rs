//! Figure 3.9: how often the true value of a hidden cell is within one and two posterior standard deviations.

use npb_iqgme::{IqgmeConfig, MissingCell};

use super::OURS;
use super::data::{Data, IONOSPHERE, Side, Sides};
use super::methods::fit;
use npb_kit::draw::{At, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Experiment, Figure, Outcome, Report, Result, ResultRow, Scale, Trial, summarise,
};

pub(crate) const FIG_3_9: Experiment = Experiment {
    id: "iqgme/fig-3.9",
    what: "ionosphere, 25% missing: share of hidden values within one and two posterior standard deviations against training fraction",
    paper: "a figure without printed numbers: near nominal at large training sizes",
    data: &["ionosphere"],
    run,
};

const MISSING: f64 = 0.25;
const FRACTIONS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
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
    let (fractions, n): (Vec<f64>, u64) = match context.scale {
        Scale::Smoke => (vec![0.5], 2),
        Scale::Quick | Scale::Paper => (fractions(&data), 10),
    };
    let mut trials = Vec::new();
    for train in fractions {
        trials.extend((0..n).map(|trial| Trial {
            dataset: data.name.to_owned(),
            setting: setting(train),
            method: OURS.to_owned(),
            trial,
            config: format!("{}\n{:?}", data.checksums, IqgmeConfig::default()),
            work: train,
        }));
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let sides = data.masked_sides(MISSING, trial.work, trial.trial, context.seed)?;
        let fit = fit(&sides.train, seed)?;
        let Sides { train, test, .. } = &sides;
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
        tables: vec![overview("Share of hidden values", &results, &METRICS)],
        figures: vec![figure(&results)?],
        notes: notes.map(str::to_owned).to_vec(),
        results,
    })
}

/// Given splits have every other fraction only.
fn fractions(data: &Data) -> Vec<f64> {
    let step = if data.has_given_splits() { 2 } else { 1 };
    FRACTIONS.into_iter().step_by(step).collect()
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
    let mut layers = Vec::new();
    for nominal in NOMINAL {
        layers.push(Layer {
            name: "normal distribution".to_owned(),
            colour: colours::GREY,
            shape: Shape::Dashed(vec![vec![[0.0, nominal], [1.0, nominal]]]),
        });
    }
    let names = [
        ("training rows, 1 sd", colours::VERMILLION),
        ("training rows, 2 sd", colours::BLUE),
        ("new rows, 1 sd", colours::ORANGE),
        ("new rows, 2 sd", colours::GREEN),
    ];
    for (metric, (name, colour)) in METRICS.into_iter().zip(names) {
        let place = |train: &f64| -> Option<At> {
            let setting = setting(*train);
            let of = |r: &&ResultRow| r.metric == metric && r.setting == setting;
            Some([*train, results.iter().find(of)?.mean])
        };
        let points: Vec<At> = FRACTIONS.iter().filter_map(place).collect();
        let layer = |shape| Layer {
            name: name.to_owned(),
            colour,
            shape,
        };
        layers.push(layer(Shape::Curves(vec![points.clone()], 2)));
        layers.push(layer(Shape::Dots(points)));
    }
    let panel = Panel {
        title: "ionosphere, 25% missing".to_owned(),
        x_label: "fraction of rows in training".to_owned(),
        y_label: "share of hidden values".to_owned(),
        x: (0.0, 1.0),
        y: (0.5, 1.0),
        layers,
    };
    let caption = "Mean over trials. Dashed: what a normal distribution has within one and two standard deviations.";
    picture(
        "within",
        "Hidden values within posterior standard deviations",
        caption,
        &[panel],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::data::tests::example;

    #[test]
    fn shares_are_shares_and_two_deviations_hold_more() {
        let sides = example().masked_sides(0.25, 0.5, 0, 1).unwrap();
        let fit = fit(&sides.train, 1).unwrap();
        let Sides { train, test, .. } = &sides;
        let of_training = fit.training_cells(&train.rows, &train.labels).unwrap();
        let of_test = fit.cells_by_row(&test.rows).unwrap();
        for (side, cells) in [(train, &of_training), (test, &of_test)] {
            let [one, two] = within(side, cells).unwrap();
            assert!(0.3 < one && one < two && two <= 1.0, "{one} {two}");
        }
    }
}
