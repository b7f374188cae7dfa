//! A table of 690 rows and 16 columns like one of credit approvals: the default fit and all answers.

use npb_benches::{Seconds, timed};
use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_itf::{DependenceConfig, ItfConfig, ItfFit, fit};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::Outcome;

const N_TRAIN: usize = 690;
const N_TEST: usize = 1_000;
/// Share of the cells that are missing in training, and hidden in the rows that are asked about.
const MISSING: f64 = 0.01;
const HIDDEN: f64 = 0.2;
/// Levels of the columns that are not numbers, the outcome first; the last three tell nothing of it.
const LEVELS: [usize; 10] = [2, 2, 4, 14, 9, 2, 2, 3, 3, 2];
const N_NUMBERS: usize = 6;
const N_COLUMNS: usize = N_NUMBERS + LEVELS.len();

pub(crate) fn run() -> Outcome {
    let rng = &mut stream(crate::table_seed(), [0; 4]);
    let all = draw(rng);
    let train = holes(
        &all.select_rows(&(0..N_TRAIN).collect::<Vec<_>>()),
        MISSING,
        rng,
    );
    let test = all.select_rows(&(N_TRAIN..N_TRAIN + N_TEST).collect::<Vec<_>>());
    let hidden = holes(&test, HIDDEN, rng);
    let mut total = Seconds {
        clock: 0.0,
        processor: 0.0,
    };
    let model = stage("fit", &mut total, || {
        fit(&train, &ItfConfig::default()).expect("good input")
    });
    let verdicts = answers(&model, &train, &mut total);
    let rows = model.rows(&test).expect("columns of the fit");
    let density = model.ln_density(&rows).expect("rows of the fit");
    let [of_levels, of_numbers] = errors(&model, &test, &hidden);
    Outcome {
        seconds: total,
        quality: vec![
            (
                "ln_density",
                density.iter().sum::<f64>() / density.len() as f64,
            ),
            ("wrong_levels", of_levels),
            ("error_of_numbers", of_numbers),
            ("right_verdicts", verdicts),
        ],
    }
}

/// Times a part of the work, tells of it, and adds its time to the whole.
#[allow(clippy::print_stderr)] // parts are for who looks, no part of the result
fn stage<T>(name: &str, total: &mut Seconds, work: impl FnOnce() -> T) -> T {
    let (made, seconds) = timed(work);
    eprintln!("{name}: {:.2} s", seconds.processor);
    total.clock += seconds.clock;
    total.processor += seconds.processor;
    made
}

/// Asks everything; returns the share of pairs of columns about which the verdict is right.
fn answers(model: &ItfFit, train: &MixedTable, total: &mut Seconds) -> f64 {
    let training = model.training_rows(train).expect("the rows of the fit");
    stage("missing cells", total, || {
        model
            .impute_training(train, 0.9)
            .expect("the rows of the fit")
    });
    let dependence = stage("dependence", total, || {
        (model.dependence(&training, &DependenceConfig::default())).expect("good input")
    });
    let everyone: Vec<usize> = (0..train.n_rows()).collect();
    stage("similarity", total, || {
        model
            .row_similarity(&[], &everyone)
            .expect("labels that are kept")
    });
    let rows = model.rows(train).expect("columns of the fit");
    stage("odd cells", total, || {
        model.surprisals(&rows).expect("columns of the fit");
        model.usual_surprisals(&rows).expect("a row");
    });
    let empty = empty_row(train);
    stage("simulated", total, || {
        model
            .simulate(&empty, &fields(train), 0..1000)
            .expect("an empty row")
    });
    let right = dependence.pairs().iter().filter(|pair| {
        let [a, b] = [pair.a, pair.b].map(factor);
        pair.dependent == (a == b)
    });
    right.count() as f64 / dependence.pairs().len() as f64
}

fn empty_row(table: &MixedTable) -> MixedTable {
    holes(&table.select_rows(&[0]), 1.0, &mut stream(0, [0; 4]))
}

fn fields(table: &MixedTable) -> Vec<Field> {
    let field = |j: usize| {
        let measure = match table.column(j) {
            MixedColumn::Real(_) => Measure::Real,
            MixedColumn::Count(_) => Measure::Count,
            MixedColumn::Binary { .. } => Measure::Binary,
            MixedColumn::Categorical { .. } => Measure::Categorical,
        };
        Field::new(&table.column_names()[j], measure, vec![j])
    };
    (0..N_COLUMNS).map(field).collect()
}

/// What a column depends on: how good the applicant is, or where it is from.
fn factor(column: usize) -> usize {
    usize::from(column >= N_COLUMNS - 3)
}

/// Applicants of three kinds, from places of two.
fn draw(rng: &mut Xoshiro256PlusPlus) -> MixedTable {
    let n = N_TRAIN + N_TEST;
    let kinds: Vec<usize> = (0..n).map(|_| rng.random_range(0..3)).collect();
    let places: Vec<usize> = (0..n).map(|_| rng.random_range(0..2)).collect();
    let ages: Vec<f64> = (0..n).map(|_| rng.sample(StandardNormal)).collect();
    let mut columns: Vec<MixedColumn> = (0..N_NUMBERS)
        .map(|j| number(j, &kinds, &ages, rng))
        .collect();
    for (l, &size) in LEVELS.iter().enumerate() {
        let kinds = [&kinds, &places][factor(N_NUMBERS + l)];
        columns.push(levels(size, kinds, rng));
    }
    let names = (0..N_COLUMNS).map(|j| format!("a{j}")).collect();
    MixedTable::new(names, columns).expect("columns of one length")
}

/// Age, debt, years at work, score, postal code, income: all but the first are skewed, and all but these two have a spike at zero.
fn number(j: usize, kinds: &[usize], ages: &[f64], rng: &mut Xoshiro256PlusPlus) -> MixedColumn {
    let spike = [0.0, 0.0, 0.12, 0.55, 0.2, 0.45][j];
    let of_kind = [0.4, 0.5, 0.9, 0.8, -0.5, 1.2][j];
    let of_age = [1.0, 0.2, 0.8, 0.0, 0.0, 0.3][j];
    let values: Vec<f64> = (kinds.iter().zip(ages))
        .map(|(&kind, age)| {
            let noise: f64 = rng.sample(StandardNormal);
            let z = of_kind * kind as f64 + of_age * age + 0.6 * noise;
            let is_zero = rng.random::<f64>() < spike * (1.5 - 0.5 * kind as f64);
            match (j, is_zero) {
                (0, _) => (32.0 + 9.0 * z).max(16.0),
                (_, true) => 0.0,
                (3, _) => z.exp().ceil(),
                (4, _) => 10.0 * (2.5 + 0.5 * z).exp().round(),
                (5, _) => (4.0 + 1.3 * z).exp().round(),
                _ => z.exp(),
            }
        })
        .collect();
    match j {
        3..=5 => MixedColumn::Count(values.iter().map(|&x| Some(x as u64)).collect()),
        _ => MixedColumn::Real(values.iter().map(|&x| Some(x)).collect()),
    }
}

/// Levels, about as many as three of which each kind prefers.
fn levels(size: usize, kinds: &[usize], rng: &mut Xoshiro256PlusPlus) -> MixedColumn {
    let shares: Vec<Vec<f64>> = (0..3)
        .map(|_| {
            (0..size)
                .map(|_| rng.random::<f64>().powi(3) + 0.02)
                .collect()
        })
        .collect();
    let turn = rng.random_range(0..size);
    let cell = |&kind: &usize| {
        if rng.random::<f64>() < 0.4 {
            return Some(((kind + turn) % size) as u32);
        }
        let mut u = rng.random::<f64>() * shares[kind].iter().sum::<f64>();
        let level = shares[kind].iter().position(|share| {
            u -= share;
            u < 0.0
        });
        Some(level.unwrap_or(0) as u32)
    };
    MixedColumn::Categorical {
        levels: (0..size).map(|l| format!("l{l}")).collect(),
        codes: kinds.iter().map(cell).collect(),
    }
}

/// The same table with a share of its cells missing.
fn holes(table: &MixedTable, share: f64, rng: &mut Xoshiro256PlusPlus) -> MixedTable {
    fn thin<T: Clone>(cells: &[Option<T>], share: f64, rng: &mut impl rand::Rng) -> Vec<Option<T>> {
        let cells = cells.iter();
        cells
            .map(|cell| cell.clone().filter(|_| rng.random::<f64>() >= share))
            .collect()
    }
    let columns = table.columns().iter().map(|column| match column {
        MixedColumn::Real(cells) => MixedColumn::Real(thin(cells, share, rng)),
        MixedColumn::Count(cells) => MixedColumn::Count(thin(cells, share, rng)),
        MixedColumn::Categorical { levels, codes } => MixedColumn::Categorical {
            levels: levels.clone(),
            codes: thin(codes, share, rng),
        },
        MixedColumn::Binary { levels, values } => MixedColumn::Binary {
            levels: levels.clone(),
            values: thin(values, share, rng),
        },
    });
    MixedTable::new(table.column_names().to_vec(), columns.collect())
        .expect("columns of one length")
}

/// Share of the hidden levels that are not the most probable one, and the mean error of hidden numbers over their mean distance from the median.
fn errors(model: &ItfFit, test: &MixedTable, hidden: &MixedTable) -> [f64; 2] {
    let filled = model
        .impute(hidden, 0.9)
        .expect("columns of the fit")
        .completed;
    let (mut of_levels, mut of_numbers) = (Vec::new(), Vec::new());
    for j in 0..N_COLUMNS {
        let values = |table: &MixedTable| -> Vec<Option<f64>> {
            match table.column(j) {
                MixedColumn::Real(cells) => cells.clone(),
                MixedColumn::Count(cells) => cells.iter().map(|x| x.map(|x| x as f64)).collect(),
                MixedColumn::Categorical { codes, .. } => {
                    codes.iter().map(|x| x.map(f64::from)).collect()
                }
                MixedColumn::Binary { .. } => Vec::new(),
            }
        };
        let [truth, shown, filled] = [test, hidden, &filled].map(values);
        let asked = (0..N_TEST).filter(|&row| shown[row].is_none());
        let pairs: Vec<[f64; 2]> = asked
            .filter_map(|row| Some([truth[row]?, filled[row]?]))
            .collect();
        if j >= N_NUMBERS {
            of_levels.extend(pairs.iter().map(|[x, y]| f64::from(u8::from(x != y))));
            continue;
        }
        let mut sorted: Vec<f64> = truth.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[N_TEST / 2];
        let around: f64 = pairs.iter().map(|[x, _]| (x - middle).abs()).sum();
        of_numbers.push(pairs.iter().map(|[x, y]| (x - y).abs()).sum::<f64>() / around);
    }
    [of_levels, of_numbers].map(|errors| errors.iter().sum::<f64>() / errors.len() as f64)
}
