//! Rows as they are against rows that a model makes up: marginals, and pairs of numbers.

use npb_data::{MixedColumn, MixedTable};
use npb_report::{
    At, Bars, Figure, HeatMap, Layer, Panel, Point, Shape, colours, heat_map, picture,
};

use crate::Result;
use crate::cells::{is_number, value};
use crate::page::Section;
use crate::shared::{percent, short_name};

/// Rows that are made up.
pub(crate) const DRAWN: usize = 1000;
/// Columns that are drawn, and pairs of them.
const MOST_COLUMNS: usize = 12;
const MOST_PAIRS: usize = 4;
/// Bins of numbers, and levels in a picture.
const BINS: usize = 20;
const MOST_LEVELS: usize = 10;
/// Dots of each kind.
const MOST_DOTS: usize = 300;
/// A difference beyond what chance makes by more than this is said.
const FAR: f64 = 0.1;

/// Shares of a column in bins: of the data, and of rows that are made up.
struct Marginal {
    column: usize,
    /// Middles of bins, or none for levels.
    middles: Vec<f64>,
    data: Vec<f64>,
    drawn: Vec<f64>,
    /// The share that would have to move to make them alike, and about how much of it chance makes.
    apart: f64,
    chance: f64,
}

/// Says where rows that are made up are unlike the data.
pub(crate) fn write(section: &mut Section, data: &MixedTable, drawn: &MixedTable) -> Result<()> {
    let mut found: Vec<Marginal> = (0..data.n_cols())
        .filter_map(|j| marginal(j, data.column(j), drawn.column(j)))
        .collect();
    found.sort_by(|a, b| (b.apart - b.chance).total_cmp(&(a.apart - a.chance)));
    let far: Vec<String> = found
        .iter()
        .filter(|m| m.apart > m.chance + FAR)
        .take(5)
        .map(|m| {
            format!(
                "{} ({})",
                short_name(&data.column_names()[m.column]),
                percent(m.apart)
            )
        })
        .collect();
    if !far.is_empty() {
        section.warn(format!(
            "Made-up rows are unlike the data in {}: in brackets the share of rows that would have to move.",
            far.join(", ")
        ));
    }
    for marginal in found.iter().take(MOST_COLUMNS) {
        section.draw(draw(marginal, data)?);
    }
    for figure in pairs(data, drawn)? {
        section.draw(figure);
    }
    Ok(())
}

fn observed(column: &MixedColumn) -> Vec<f64> {
    (0..column.len()).filter_map(|i| value(column, i)).collect()
}

fn marginal(j: usize, data: &MixedColumn, drawn: &MixedColumn) -> Option<Marginal> {
    let (own, other) = (observed(data), observed(drawn));
    if own.is_empty() || other.is_empty() {
        return None;
    }
    let (middles, bin): (Vec<f64>, Box<dyn Fn(f64) -> usize>) = match data.levels() {
        Some(levels) => {
            let last = levels.len().max(1) - 1;
            (Vec::new(), Box::new(move |x| (x as usize).min(last)))
        }
        None => bins(&own)?,
    };
    let n_bins = data.levels().map_or(middles.len(), <[String]>::len);
    let shares = |values: &[f64]| {
        let mut shares = vec![0.0; n_bins];
        values.iter().for_each(|&x| shares[bin(x)] += 1.0);
        shares
            .iter_mut()
            .for_each(|count| *count /= values.len() as f64);
        shares
    };
    let (a, b) = (shares(&own), shares(&other));
    let each = 1.0 / own.len() as f64 + 1.0 / other.len() as f64;
    let chance = a
        .iter()
        .zip(&b)
        .map(|(a, b)| (0.5 * (a + b) * each).sqrt())
        .sum::<f64>();
    let apart = 0.5 * a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum::<f64>();
    Some(Marginal {
        column: j,
        middles,
        data: a,
        drawn: b,
        apart,
        // The mean of |N(0, 1)| is 0.8.
        chance: 0.4 * chance,
    })
}

/// The bin of a value.
type BinOf = Box<dyn Fn(f64) -> usize>;

/// Middles of bins, and the bin of a value: one for each value where there are few, else of one width between the ends of nearly all.
fn bins(values: &[f64]) -> Option<(Vec<f64>, BinOf)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    if distinct.len() <= BINS {
        let middles = distinct.clone();
        let nearest = move |x: f64| {
            let above = distinct.partition_point(|&d| d < x).min(distinct.len() - 1);
            match above > 0 && x - distinct[above - 1] < distinct[above] - x {
                true => above - 1,
                false => above,
            }
        };
        return Some((middles, Box::new(nearest)));
    }
    let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
    let (low, high) = (at(0.005), at(0.995));
    let width = (high - low) / BINS as f64;
    if !(width > 0.0 && width.is_finite()) {
        return None;
    }
    let middles = (0..BINS).map(|k| low + (k as f64 + 0.5) * width);
    let bin = move |x: f64| (((x - low) / width).max(0.0) as usize).min(BINS - 1);
    Some((middles.collect(), Box::new(bin)))
}

fn draw(marginal: &Marginal, data: &MixedTable) -> Result<Figure> {
    let name = short_name(&data.column_names()[marginal.column]);
    let file = format!("marginal-{}", marginal.column);
    let title = format!("{name}: {} apart", percent(marginal.apart));
    if let Some(levels) = data.column(marginal.column).levels() {
        return draw_levels(&file, &title, levels, marginal);
    }
    let middles = &marginal.middles;
    let width = middles
        .windows(2)
        .map(|w| w[1] - w[0])
        .fold(f64::INFINITY, f64::min);
    let width = if width.is_finite() { 0.8 * width } else { 0.8 };
    let at = |(x, y): (&f64, &f64)| [*x, *y];
    let bars = Shape::Bars(Bars {
        bars: middles.iter().zip(&marginal.data).map(at).collect(),
        sds: Vec::new(),
        width,
        shift: 0.0,
    });
    let points = middles
        .iter()
        .zip(&marginal.drawn)
        .map(|(x, y)| Point::at(*x, *y));
    let line = Layer {
        colour: Some(colours::VERMILLION),
        ..Layer::line("rows that the model makes up", points)
    };
    let layers = [Layer::new("data", colours::SKY, bars), line];
    let panel = Panel::of_lines("", [&name, "share of rows"], layers);
    let look = "The line should follow the bars; where it does not, the model does not know the shape of this column.";
    Ok(picture(&file, &title, look, &[panel])?)
}

/// Shares of the most frequent levels.
fn draw_levels(file: &str, title: &str, levels: &[String], m: &Marginal) -> Result<Figure> {
    let mut shown: Vec<usize> = (0..levels.len()).collect();
    shown.sort_by(|&a, &b| m.data[b].total_cmp(&m.data[a]));
    shown.truncate(MOST_LEVELS);
    shown.sort_unstable();
    let values = [&m.data, &m.drawn].into_iter();
    let map = HeatMap {
        rows: vec!["data".to_owned(), "model".to_owned()],
        columns: shown.iter().map(|&k| short_name(&levels[k])).collect(),
        values: values
            .flat_map(|shares| shown.iter().map(|&k| shares[k]))
            .collect(),
        range: (0.0, 1.0),
        marked: Vec::new(),
    };
    let of = match levels.len() > MOST_LEVELS {
        true => format!(" (the {MOST_LEVELS} most frequent of {})", levels.len()),
        false => String::new(),
    };
    let look = format!("Both lines should have the same shares of levels{of}.");
    Ok(heat_map(file, title, &look, &map)?)
}

/// The pairs of numbers that go together most, with dots of the data and of rows that are made up.
fn pairs(data: &MixedTable, drawn: &MixedTable) -> Result<Vec<Figure>> {
    let numbers: Vec<usize> = (0..data.n_cols())
        .filter(|&j| is_number(data.column(j)))
        .collect();
    let mut found = Vec::new();
    for (k, &a) in numbers.iter().enumerate() {
        for &b in &numbers[..k] {
            if let Some(r) = correlation(&both(data, a, b)) {
                found.push((r, b, a));
            }
        }
    }
    found.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    found.truncate(MOST_PAIRS);
    let figure = |(r, a, b): (f64, usize, usize)| {
        let names = [a, b].map(|j| short_name(&data.column_names()[j]));
        let some = |table: &MixedTable| {
            let dots = both(table, a, b);
            let step = dots.len().div_ceil(MOST_DOTS).max(1);
            Shape::Dots(dots.into_iter().step_by(step).collect())
        };
        let own = both(data, a, b);
        let layers = vec![
            Layer::new("rows that the model makes up", colours::ORANGE, some(drawn)),
            Layer::new("data", colours::BLUE, some(data)),
        ];
        let [x, y] = [0, 1].map(|k| reach(&own, k));
        let panel = Panel::new("", [&names[0], &names[1]], x, y, layers);
        let title = format!("{} and {}, correlation {r:.2}", names[0], names[1]);
        let look = "Both clouds should have one shape: where only one kind of dot lies, the model has missed something or made it up.";
        Ok(picture(&format!("pair-{a}-{b}"), &title, look, &[panel])?)
    };
    found.into_iter().map(figure).collect()
}

/// Rows that have both.
fn both(table: &MixedTable, a: usize, b: usize) -> Vec<At> {
    let rows = 0..table.n_rows();
    rows.filter_map(|i| Some([table.column(a).number(i)?, table.column(b).number(i)?]))
        .collect()
}

/// The range of one coordinate, with a margin.
fn reach(dots: &[At], k: usize) -> (f64, f64) {
    let ends = dots
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), at| {
            (l.min(at[k]), h.max(at[k]))
        });
    let margin = 0.1 * (ends.1 - ends.0);
    (ends.0 - margin, ends.1 + margin)
}

/// None where one of them is constant or fewer than three rows have both.
fn correlation(dots: &[At]) -> Option<f64> {
    let n = dots.len() as f64;
    if dots.len() < 3 {
        return None;
    }
    let mean = |k: usize| dots.iter().map(|at| at[k]).sum::<f64>() / n;
    let means = [mean(0), mean(1)];
    let product = |j: usize, k: usize| {
        let each = dots
            .iter()
            .map(|at| (at[j] - means[j]) * (at[k] - means[k]));
        each.sum::<f64>()
    };
    let scale = (product(0, 0) * product(1, 1)).sqrt();
    (scale > 0.0 && scale.is_finite()).then(|| product(0, 1) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(x: &[f64], codes: &[u32]) -> MixedTable {
        let real = MixedColumn::Real(x.iter().copied().map(Some).collect());
        let town = MixedColumn::Categorical {
            levels: ["A", "<B>"].map(str::to_owned).to_vec(),
            codes: codes.iter().copied().map(Some).collect(),
        };
        let twice = MixedColumn::Real(x.iter().map(|x| Some(-2.0 * x)).collect());
        let names = ["x", "town", "y"].map(str::to_owned).to_vec();
        MixedTable::new(names, vec![real, town, twice]).unwrap()
    }

    #[test]
    fn shares_that_differ_are_counted_and_said() {
        let data = table(&[0.0, 1.0, 2.0, 3.0].repeat(100), &[0, 0, 0, 1].repeat(100));
        let drawn = table(&[0.0, 1.1, 2.0, 9.0].repeat(100), &[0, 1, 1, 1].repeat(100));
        let town = marginal(1, data.column(1), drawn.column(1)).unwrap();
        assert!((town.apart - 0.5).abs() < 1e-12);
        // Numbers in the bins of the nearest values, beyond the last in the last.
        let x = marginal(0, data.column(0), drawn.column(0)).unwrap();
        assert!(x.apart < 1e-12 && x.middles == [0.0, 1.0, 2.0, 3.0]);
        let mut section = Section::new("s");
        write(&mut section, &data, &drawn).unwrap();
        let mut page = crate::Page::new("p");
        page.push(section);
        assert_eq!(
            page.warnings(),
            [
                "Made-up rows are unlike the data in town (50.0%): in brackets the share of rows that would have to move."
            ]
        );
        let figure = page.figure("marginal-1").unwrap();
        let values: Vec<&str> = figure.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(values, ["0.75", "0.25", "0.25", "0.75"]);
        assert!(
            page.figure("pair-0-2")
                .unwrap()
                .title
                .ends_with("correlation -1.00")
        );
    }

    #[test]
    fn many_numbers_are_binned_between_the_ends_of_nearly_all() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let (middles, bin) = bins(&values).unwrap();
        assert_eq!(middles.len(), BINS);
        assert_eq!((bin(-1e9), bin(1e9)), (0, BINS - 1));
        assert_eq!(bin(middles[7]), 7);
        assert!(correlation(&[[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]).is_none());
    }
}
