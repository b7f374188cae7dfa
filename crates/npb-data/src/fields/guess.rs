//! What the values of a column suggest that it measures.

use crate::Measure;
use std::f64::consts::TAU;

/// What a column was taken for, why, and what else it could be.
pub(crate) struct FieldGuess {
    /// The measure that its values suggest.
    pub(crate) measure: Measure,
    /// What in the values suggests it.
    pub(crate) why: String,
    /// Measures that fit the values as well and that only the owner of the data can tell from the guess.
    pub(crate) others: Vec<Measure>,
    /// The column seems to number or name the rows.
    pub(crate) identifier: bool,
    /// Number of observed cells.
    pub(crate) n_observed: usize,
    /// Number of distinct values among them.
    pub(crate) n_distinct: usize,
}

/// Fewer rows than this say nothing about identifiers and codes.
const FEW_ROWS: usize = 20;
/// Whole numbers of a larger mean, or with one above five times as much, measure an amount: nobody counted so far.
const LARGE_MEAN: f64 = 100.0;
/// At most so many distinct whole numbers are mentioned as possible codes or grades.
const MANY_CODES: usize = 20;
/// At most so many distinct whole numbers are grades.
const MANY_GRADES: usize = 12;
/// More texts than this, a new one in most rows, are names.
const MANY_TEXTS: usize = 50;
/// Above this skewness a logarithm is tried.
const SKEWED: f64 = 1.0;

fn found(
    measure: Measure,
    why: String,
    others: &[Measure],
    (n_observed, n_distinct): (usize, usize),
) -> FieldGuess {
    FieldGuess {
        measure,
        why,
        others: others.to_vec(),
        identifier: false,
        n_observed,
        n_distinct,
    }
}

/// The guess for a column of two texts; `sizes` as in [`FieldGuess`].
pub(crate) fn of_pair(levels: [&String; 2], sizes: (usize, usize)) -> FieldGuess {
    let why = format!("two values, {:?} and {:?}", levels[0], levels[1]);
    let others = [Measure::Categorical, Measure::Ordinal];
    found(Measure::Binary, why, &others, sizes)
}

/// The guess for a column of texts.
pub(crate) fn of_levels(n_levels: usize, sizes: (usize, usize)) -> FieldGuess {
    let why = match n_levels {
        1 => "one level of text".to_owned(),
        _ => format!("{n_levels} levels of text"),
    };
    let mut guess = found(Measure::Categorical, why, &[Measure::Ordinal], sizes);
    let (n_observed, n_distinct) = sizes;
    if n_observed >= FEW_ROWS && n_distinct == n_observed {
        guess.identifier = true;
        guess.why += ", a different one in every row";
    } else if n_distinct > MANY_TEXTS && 10 * n_distinct > 8 * n_observed {
        guess.identifier = true;
        guess.why += &format!(" in {n_observed} rows: names, or free text");
    }
    guess
}

/// The guess for a column of whole numbers, in the order of the rows.
pub(crate) fn of_counts(values: &[u64], name: &str) -> FieldGuess {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
        return nothing_observed();
    };
    let runs = || sorted.chunk_by(|a, b| a == b);
    let (n, n_distinct) = (values.len(), runs().count());
    let once = runs().filter(|run| run.len() == 1).count();
    let range = match n_distinct {
        1 => format!("always {min}"),
        _ => format!("{n_distinct} distinct whole numbers from {min} to {max}"),
    };
    let sizes = (n, n_distinct);
    if let Some(how) = numbering(values, max - min, name).filter(|_| n_distinct == n) {
        let why = format!("{range}, {how} a different one in every row");
        let mut guess = found(Measure::Count, why, &[Measure::Real], sizes);
        guess.identifier = true;
        return guess;
    }
    let spread_out = max - min >= 4 * n_distinct as u64;
    if spread_out && n_distinct <= MANY_CODES && n >= 10 * n_distinct && 4 * once <= n_distinct {
        let why = format!("{range}, with gaps and repeated: codes");
        let others = [Measure::Ordinal, Measure::Count, Measure::Real];
        return found(Measure::Categorical, why, &others, sizes);
    }
    let numbers: Vec<f64> = values.iter().map(|&v| v as f64).collect();
    if mean(&numbers) > LARGE_MEAN || max as f64 > 5.0 * LARGE_MEAN {
        let shape = shape_of(&numbers);
        let why = format!("{range}, too large to count with: an amount, {}", shape.why);
        let others: Vec<Measure> = shape.other.into_iter().chain([Measure::Count]).collect();
        return found(shape.measure, why, &others, sizes);
    }
    let filled = max - min + 1 == n_distinct as u64;
    if filled && (3..=MANY_GRADES).contains(&n_distinct) && varies_little(&numbers) {
        let (mean, variance) = mean_and_variance(&numbers);
        let why = format!(
            "{range}, none left out; variance {variance:.1}, less than half of that of chance events with this mean, {mean:.1}: grades"
        );
        let others = [Measure::Count, Measure::Real, Measure::Categorical];
        return found(Measure::Ordinal, why, &others, sizes);
    }
    let mut others = vec![Measure::Real];
    if n_distinct <= MANY_CODES {
        others.extend([Measure::Ordinal, Measure::Categorical]);
    }
    found(Measure::Count, range, &others, sizes)
}

/// How whole numbers, all different, number the rows, if they do.
fn numbering(values: &[u64], range: u64, name: &str) -> Option<&'static str> {
    let n = values.len() as u64;
    let filtered = || range < 2 * n && values.is_sorted();
    match values.len() >= FEW_ROWS {
        true if range == n - 1 => Some("consecutive and"),
        true if names_rows(name) => Some("by its name an identifier,"),
        true if filtered() => Some("rising from row to row, as where rows were taken out,"),
        _ => None,
    }
}

/// The guess for a column of numbers.
pub(crate) fn of_reals(values: &[f64]) -> FieldGuess {
    if values.is_empty() {
        return nothing_observed();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
    sorted.dedup();
    let shape = shape_of(values);
    let mut others: Vec<Measure> = shape.other.into_iter().collect();
    let circles = [
        (0.0, 360.0),
        (-180.0, 180.0),
        (0.0, TAU),
        (-TAU / 2.0, TAU / 2.0),
    ];
    // A circle that is mostly used.
    let circle = circles
        .iter()
        .find(|(from, to)| min >= *from && max <= *to && max - min > 0.8 * (to - from));
    others.extend(circle.map(|(from, to)| Measure::Angle { period: to - from }));
    let why = format!("numbers from {min} to {max}, {}", shape.why);
    let sizes = (values.len(), sorted.len());
    found(shape.measure, why, &others, sizes)
}

/// The name of a column says that it names rows.
fn names_rows(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit([' ', '_', '-', '.']).next().unwrap_or_default();
    [
        "id", "ids", "key", "uuid", "pid", "index", "no", "nr", "number",
    ]
    .contains(&last)
}

fn nothing_observed() -> FieldGuess {
    let others = [Measure::Count, Measure::Categorical];
    found(
        Measure::Real,
        "nothing observed".to_owned(),
        &others,
        (0, 0),
    )
}

/// Whether numbers are better seen by their logarithm.
struct Shape {
    measure: Measure,
    /// The choice not taken, when there was one.
    other: Option<Measure>,
    why: String,
}

fn shape_of(values: &[f64]) -> Shape {
    let as_is = skewness(values);
    let positive = values.iter().all(|&v| v > 0.0);
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let of_logs = if positive { skewness(&logs) } else { 0.0 };
    if positive && as_is > SKEWED && of_logs.abs() < as_is {
        return Shape {
            measure: Measure::Positive,
            other: Some(Measure::Real),
            why: format!("all above 0, skewness {as_is:.1}, of the logarithm {of_logs:.1}"),
        };
    }
    let sign = if positive { "all" } else { "some not" };
    Shape {
        measure: Measure::Real,
        other: positive.then_some(Measure::Positive),
        why: format!("{sign} above 0, skewness {as_is:.1}"),
    }
}

/// Whether whole numbers vary half as much as counts of chance events do, or less: variance over mean, which is 1 for these, is below a half, and two standard
/// errors below 1.
fn varies_little(values: &[f64]) -> bool {
    let (mean, variance) = mean_and_variance(values);
    let n = values.len();
    n >= FEW_ROWS && variance < mean * (1.0 - 2.0 * (2.0 / n as f64).sqrt()).min(0.5)
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let centre = mean(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - centre).powi(2)).collect();
    (centre, mean(&squares))
}

fn mean(values: &[f64]) -> f64 {
    // Divided first, so that the largest numbers do not overflow.
    let n = values.len() as f64;
    values.iter().map(|v| v / n).sum()
}

/// Third standardised moment, 0 for constant values.
fn skewness(values: &[f64]) -> f64 {
    let scale = values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    if scale == 0.0 {
        return 0.0;
    }
    let scaled: Vec<f64> = values.iter().map(|v| v / scale).collect();
    let centre = mean(&scaled);
    let moment =
        |p: i32| scaled.iter().map(|v| (v - centre).powi(p)).sum::<f64>() / scaled.len() as f64;
    let sd = moment(2).sqrt();
    if sd <= 1e-12 {
        return 0.0;
    }
    moment(3) / sd.powi(3)
}
