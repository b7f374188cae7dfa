//! Table 3: hidden cells of real tables with columns of different kinds.

use npb_baselines::{Cell, CellValue, MixedChainedConfig, chained_cells};
use npb_data::{ColumnKind, Mask, MixedColumn, MixedTable, splits};
use npb_infer::stream;
use npb_itf::{Grouping, ImputedCell, ItfConfig, ItfData, Structure, fit_data};

use super::mixed_sets::{self, Mixed};
use super::names::{self, DPM, ITF};
use npb_kit::tables::{differences, overview};
use npb_kit::{Context, Outcome, Report, Result, Scale, Trial, mean_and_sd, summarise};

/// The default with groups of columns found.
const GROUPS: &str = "npb:itf/groups";
/// Every column a mixture of its own.
const INDEPENDENT: &str = "independent";
const CHAINED: &str = "chained";
const METHODS: [(&str, Method); 4] = [
    (ITF, Method::Mixture(Structure::TensorBlocks, Grouping::Off)),
    (DPM, Method::Mixture(Structure::Joint, Grouping::Off)),
    (INDEPENDENT, Method::Independent),
    (CHAINED, Method::Chained),
];

const GROUPED: [(&str, Method); 3] = [
    (
        GROUPS,
        Method::Mixture(Structure::TensorBlocks, Grouping::Found),
    ),
    (ITF, Method::Mixture(Structure::TensorBlocks, Grouping::Off)),
    (CHAINED, Method::Chained),
];

const METRICS: &str = "ln_predictive nrmse nrmse_columns error_rate coverage seconds";

/// Share of the observed cells that are hidden.
const HIDDEN: f64 = 0.1;
/// Probability that intervals hold.
const LEVEL: f64 = 0.9;
/// Draws of every hidden cell, for its place in its predictive law.
const DRAWS: usize = 100;
/// Key of the random streams of hidden cells.
const MASK: u64 = 2;

#[derive(Debug)]
enum Method {
    Mixture(Structure, Grouping),
    Independent,
    Chained,
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    run_on(context, &mixed_sets::load(context)?, &METHODS, ITF)
}

pub(super) fn run_grouped(context: &Context<'_>) -> Result<Report> {
    let mut sets = mixed_sets::load_numbers(context)?;
    sets.extend(mixed_sets::load(context)?);
    run_on(context, &sets, &GROUPED, GROUPS)
}

fn run_on(
    context: &Context<'_>,
    sets: &[Mixed],
    methods: &[(&'static str, Method)],
    own: &str,
) -> Result<Report> {
    let scale = context.scale;
    let mut trials = Vec::new();
    for set in sets {
        for trial in 0..scale.pick(1, 2, 10) {
            for (name, method) in methods {
                let place = [set.name, &format!("missing={HIDDEN}"), name];
                let settings = (
                    mixture(scale, Structure::Joint, Grouping::Off, 0),
                    chained(scale),
                );
                let rows = set.n_rows(scale);
                let config = format!("{}\n{rows} rows\n{method:?}\n{settings:?}", set.checksums);
                trials.push(Trial::new(place, trial, config, (set, method)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (set, method) = trial.work;
        let hidden = Hidden::draw(set.table(scale, seed)?, seed)?;
        hidden.run(set, method, scale, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let others: Vec<&str> = methods.iter().map(|m| m.0).filter(|&m| m != own).collect();
    Ok(Report {
        tables: vec![
            overview("Held-out cells", &results, METRICS),
            differences(
                &records,
                own,
                &others,
                "ln_predictive nrmse nrmse_columns error_rate",
            ),
        ],
        notes: notes(sets),
        results,
        ..Default::default()
    })
}

fn mixture(scale: Scale, structure: Structure, groups: Grouping, seed: u64) -> ItfConfig {
    names::mixture(scale, (20, 5), structure, groups, seed)
}

fn chained(scale: Scale) -> MixedChainedConfig {
    let config = MixedChainedConfig::default();
    let (rounds, steps) = scale.smoke_or((1, 5), (config.rounds, config.steps));
    MixedChainedConfig {
        rounds,
        steps,
        ..config
    }
}

/// A table with the cells that were hidden.
struct Hidden {
    whole: MixedTable,
    shown: MixedTable,
    mask: Mask,
}

/// A mixture's answers: ln predictive densities of the hidden cells, their imputations, and the probabilities with which its central
/// intervals hold the hidden numbers.
#[derive(Default)]
struct Answers {
    ln_predictive: Vec<f64>,
    cells: Vec<ImputedCell>,
    held: Vec<f64>,
}

impl Hidden {
    /// Hides observed cells completely at random.
    fn draw(whole: MixedTable, seed: u64) -> Result<Self> {
        let (n_rows, n_cols) = (whole.n_rows(), whole.n_cols());
        let cells = (0..n_rows * n_cols).filter(|c| whole.is_observed(c / n_cols, c % n_cols));
        let cells: Vec<usize> = cells.collect();
        let n = (HIDDEN * cells.len() as f64).round() as usize;
        let rng = &mut stream(seed, [0, 0, 0, MASK]);
        let mut mask = Mask::new(n_rows, n_cols, false)?;
        for chosen in splits::sample_rows(cells.len(), n, rng)? {
            mask.set(cells[chosen] / n_cols, cells[chosen] % n_cols, true);
        }
        Ok(Self {
            shown: whole.hide(&mask)?,
            whole,
            mask,
        })
    }

    fn run(&self, set: &Mixed, method: &Method, scale: Scale, seed: u64) -> Result<Outcome> {
        Ok(match method {
            Method::Chained => {
                let mut outcome = Outcome::default();
                let cells = chained_cells(&self.shown, &self.mask, &chained(scale))?;
                self.add_errors(&cells, &mut outcome);
                outcome
            }
            Method::Mixture(structure, groups) => {
                let all: Vec<usize> = (0..self.shown.n_cols()).collect();
                let mut answers = Answers::default();
                let config = mixture(scale, *structure, groups.clone(), seed);
                self.ask(set, &all, &config, &mut answers)?;
                self.score(&answers)
            }
            Method::Independent => {
                let config = mixture(scale, Structure::Joint, Grouping::Off, seed);
                let mut answers = Answers::default();
                for column in 0..self.shown.n_cols() {
                    self.ask(set, &[column], &config, &mut answers)?;
                }
                self.score(&answers)
            }
        })
    }

    /// Fits a mixture to some columns and adds what it says about their hidden cells.
    fn ask(
        &self,
        set: &Mixed,
        columns: &[usize],
        config: &ItfConfig,
        answers: &mut Answers,
    ) -> Result<()> {
        let fields = set.fields_of(columns);
        let data = ItfData::from_fields(&self.shown.select_columns(columns)?, &fields)?;
        let fit = fit_data(&data, config)?;
        let shown = fit.rows_of(&data, true)?;
        // The fit knows its rows by what they show; of these only the hidden cells are taken.
        let whole = fit.field_rows(&self.whole.select_columns(columns)?, &fields, false)?;
        let mut hidden = Vec::new();
        for mut cell in fit.impute_cells(&shown, LEVEL)? {
            let place = (cell.row, cell.column);
            cell.column = columns[cell.column];
            if self.mask.get(cell.row, cell.column) {
                hidden.push(place);
                answers.cells.push(cell);
            }
        }
        let densities = fit.ln_held_out(&shown, &whole, &hidden)?;
        answers.ln_predictive.extend(densities);
        for cell in fit.impute_cell_draws(&shown, DRAWS)? {
            let column = columns[cell.column];
            let value = self.number(cell.row, column);
            let value = value.filter(|_| self.mask.get(cell.row, column));
            let drawn = cell.draws.iter().map(|parts| parts[0]);
            answers.held.extend(value.map(|value| held(value, drawn)));
        }
        Ok(())
    }

    fn score(&self, answers: &Answers) -> Outcome {
        let mut outcome = Outcome::default();
        let (mean, _) = mean_and_sd(&answers.ln_predictive);
        outcome.metrics.insert("ln_predictive".to_owned(), mean);
        let points: Vec<Cell> = answers.cells.iter().map(|c| self.point(c)).collect();
        self.add_errors(&points, &mut outcome);
        if !answers.held.is_empty() {
            let share = mean_and_sd(&answers.held).0;
            outcome.metrics.insert("coverage".to_owned(), share);
        }
        outcome
    }

    /// A mixture's cell as the comparators give theirs.
    fn point(&self, cell: &ImputedCell) -> Cell {
        Cell {
            row: cell.row,
            column: cell.column,
            value: match self.is_number(cell.column) {
                true => CellValue::Number(cell.expected[0]),
                false => CellValue::Levels(cell.expected.clone()),
            },
        }
    }

    fn is_number(&self, column: usize) -> bool {
        let kind = self.whole.column(column).kind();
        matches!(kind, ColumnKind::Real | ColumnKind::Count)
    }

    /// The value of a cell of a column of numbers.
    fn number(&self, row: usize, column: usize) -> Option<f64> {
        let column = Some(column).filter(|&c| self.is_number(c))?;
        self.whole.column(column).number(row)
    }

    /// `nrmse`: root mean over the number columns of their mean squared errors over their variances; `nrmse_columns`: mean over these columns
    /// of the roots; `error_rate`: mean over the columns with
    /// levels of their shares of wrong levels.
    fn add_errors(&self, cells: &[Cell], outcome: &mut Outcome) {
        let (mut squares, mut rates) = (Vec::new(), Vec::new());
        for column in 0..self.whole.n_cols() {
            let own = || cells.iter().filter(|c| c.column == column);
            let numbers: Vec<f64> = own().filter_map(|c| self.squared_error(c)).collect();
            let wrong: Vec<f64> = own().filter_map(|c| self.is_wrong(c)).collect();
            let variance = self.variance(column);
            if !numbers.is_empty() && variance > 0.0 {
                squares.push(mean_and_sd(&numbers).0 / variance);
            }
            if !wrong.is_empty() {
                rates.push(mean_and_sd(&wrong).0);
            }
        }
        if !squares.is_empty() {
            let nrmse = mean_and_sd(&squares).0.sqrt();
            outcome.metrics.insert("nrmse".to_owned(), nrmse);
            let roots: Vec<f64> = squares.iter().map(|square| square.sqrt()).collect();
            let mean = mean_and_sd(&roots).0;
            outcome.metrics.insert("nrmse_columns".to_owned(), mean);
        }
        if !rates.is_empty() {
            let rate = mean_and_sd(&rates).0;
            outcome.metrics.insert("error_rate".to_owned(), rate);
        }
    }

    fn squared_error(&self, cell: &Cell) -> Option<f64> {
        let CellValue::Number(found) = cell.value else {
            return None;
        };
        let value = self.whole.column(cell.column).number(cell.row)?;
        Some((found - value).powi(2))
    }

    fn is_wrong(&self, cell: &Cell) -> Option<f64> {
        let CellValue::Levels(p) = &cell.value else {
            return None;
        };
        let level = match self.whole.column(cell.column) {
            MixedColumn::Categorical { codes, .. } => codes[cell.row]? as usize,
            MixedColumn::Binary { values, .. } => usize::from(values[cell.row]?),
            _ => return None,
        };
        let best = (0..p.len()).reduce(|a, b| if p[b] > p[a] { b } else { a })?;
        Some(f64::from(best != level))
    }

    /// Variance of all observed numbers of a column.
    fn variance(&self, column: usize) -> f64 {
        let column = self.whole.column(column);
        let values: Vec<f64> = (0..column.len()).filter_map(|i| column.number(i)).collect();
        match values.is_empty() {
            true => 0.0,
            false => mean_and_sd(&values).1.map_or(0.0, |sd| sd * sd),
        }
    }
}

/// Probability that the central interval holds a value, ends that have a probability of their own (counts, spikes) counted as in or out by
/// chance so that the interval holds exactly `LEVEL` of the predictive law.
fn held(value: f64, draws: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut below, mut equal) = (0.0, 0.0, 0.0);
    for draw in draws {
        n += 1.0;
        below += f64::from(draw < value);
        equal += f64::from(draw == value);
    }
    // The value's place among the draws is uniform on this range.
    let (from, to) = (below / (n + 1.0), (below + equal + 1.0) / (n + 1.0));
    let tail = 0.5 * (1.0 - LEVEL);
    (to.min(1.0 - tail) - from.max(tail)).max(0.0) / (to - from)
}

fn notes(sets: &[Mixed]) -> Vec<String> {
    let general = [
        "OAI is not public: these tables stand in for it. A tenth of the observed cells is hidden at random and predicted from all others.",
        "`ln_predictive`: mean over hidden cells of the log density (nats; probability for levels and counts) given what is shown of the row, all mixtures \
         with the same kernels. `independent`: a mixture for each column by itself.",
        "`nrmse`: root of the mean over number columns of mean squared error over variance; `nrmse_columns`: mean over these columns of the root; `error_rate`: mean over the other columns of the share of \
         wrong levels. `coverage`: share of hidden numbers inside the central 90% interval, a value at an end that has a probability of its own \
         (counts, numbers that are 0 in many rows) counted by the part of that probability which belongs to the 90%.",
        "Numbers that are one value in a tenth of the rows or more, and three times as often as any other, have a kernel with a probability at that \
         value in all mixtures: their `ln_predictive` is that probability there, and a density elsewhere.",
        "`chained`: chained equations (ridge and multinomial regressions).",
    ];
    let general = general.map(str::to_owned).into_iter();
    let of_sets = sets.iter().map(|set| format!("{}: {}", set.name, set.note));
    general.chain(of_sets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns, 20 rows; the numbers are 0 or 10 as the levels are.
    fn hidden() -> Hidden {
        let levels = ["a", "b"].map(str::to_owned).to_vec();
        let codes = (0..20).map(|i| Some(i % 2)).collect();
        let numbers = (0..20).map(|i| Some(f64::from(i % 2) * 10.0)).collect();
        let columns = vec![
            MixedColumn::Real(numbers),
            MixedColumn::Categorical { levels, codes },
        ];
        let table = MixedTable::new(vec!["x".into(), "c".into()], columns).unwrap();
        Hidden::draw(table, 1).unwrap()
    }

    #[test]
    fn a_tenth_of_the_cells_is_hidden() {
        let hidden = hidden();
        assert_eq!((hidden.mask.count_ones(), hidden.shown.n_missing()), (4, 4));
    }

    #[test]
    fn intervals_hold_a_spike_in_part() {
        // 100 draws 0.5, 1.5, ...: places are within 1 / 101 of the values.
        let grid = || (0..100).map(|i| f64::from(i) + 0.5);
        assert_eq!(
            (held(50.0, grid()), held(3.0, grid()), held(98.0, grid())),
            (1.0, 0.0, 0.0)
        );
        // Half of the draws are 0: of places from 0 to a half, those above a twentieth.
        let spiked = || (0..99).map(|i| f64::from((i - 48).max(0)));
        assert!((held(0.0, spiked()) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn errors_are_in_units_of_the_column() {
        let hidden = hidden();
        let cell = |row, column, value| Cell { row, column, value };
        let cells = [
            cell(0, 0, CellValue::Number(10.0)),
            cell(1, 0, CellValue::Number(10.0)),
            cell(2, 1, CellValue::Levels(vec![0.2, 0.8])),
            cell(3, 1, CellValue::Levels(vec![0.2, 0.8])),
        ];
        let mut outcome = Outcome::default();
        hidden.add_errors(&cells, &mut outcome);
        // Mean squared error 50, variance 25 * 20 / 19.
        let nrmse = (50.0_f64 / (25.0 * 20.0 / 19.0)).sqrt();
        assert!((outcome.metrics["nrmse"] - nrmse).abs() < 1e-12);
        assert!((outcome.metrics["nrmse_columns"] - nrmse).abs() < 1e-12);
        assert_eq!(outcome.metrics["error_rate"], 0.5);
    }
}
