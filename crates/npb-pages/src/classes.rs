//! Whether probabilities of classes hold: scores, reliability, ROC, confusion, which columns matter.

use npb_data::metrics::{self, LOG_LOSS_CLIP};
use npb_data::{Labels, MixedTable};
use npb_report::{
    Figure, HeatMap, Layer, NamedBar, Panel, Point, Shape, TextTable, colours, heat_map,
    named_bars, picture,
};

use crate::Result;
use crate::page::Section;
use crate::shared::{first_of, number, percent, short_name};

/// Classes in pictures.
const MOST_CLASSES: usize = 12;
const MOST_CURVES: usize = 6;
/// Bins of probabilities.
const BINS: usize = 10;
/// Points of a curve.
const MOST_POINTS: usize = 400;
/// Columns that are drawn.
const MOST_COLUMNS: usize = 30;
/// Standard errors beyond which a difference is no accident.
const FAR: f64 = 3.0;

/// Rows whose class is known, with what a model says of them.
pub(crate) struct Judged<'a> {
    pub(crate) classes: &'a [String],
    /// Class of each row.
    pub(crate) truth: Vec<usize>,
    /// By row and class.
    pub(crate) probabilities: Vec<Vec<f64>>,
}

/// The rows that have a class of the fit, with its number; and how many have another one.
pub(crate) fn known(labels: &Labels, classes: &[String]) -> (Vec<(usize, usize)>, usize) {
    let mut other = 0;
    let mut found = Vec::new();
    for row in 0..labels.n_rows() {
        let Some(name) = labels.name(row) else {
            continue;
        };
        match classes.iter().position(|class| class == name) {
            Some(class) => found.push((row, class)),
            None => other += 1,
        }
    }
    (found, other)
}

impl Judged<'_> {
    fn n(&self) -> usize {
        self.truth.len()
    }

    /// Log probability of the class that each row has.
    pub(crate) fn ln_scores(&self) -> Vec<f64> {
        ln_scores(&self.truth, &self.probabilities)
    }

    fn of_class(&self, class: usize) -> (Vec<f64>, Vec<bool>) {
        let p = self.probabilities.iter().map(|row| row[class]);
        let is = self.truth.iter().map(|&own| own == class);
        (p.map(|p| p.clamp(0.0, 1.0)).collect(), is.collect())
    }

    /// The most probable class of each row; of equals the first.
    fn predicted(&self) -> Vec<usize> {
        let best = |row: &Vec<f64>| {
            (0..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
        };
        self.probabilities.iter().map(best).collect()
    }

    /// Whether the most probable class of each row is its own.
    pub(crate) fn right(&self) -> Vec<bool> {
        let predicted = self.predicted();
        self.truth
            .iter()
            .zip(&predicted)
            .map(|(a, b)| a == b)
            .collect()
    }

    /// Probabilities that are to hold, and whether they did: of the second of two classes, or of the most probable one.
    fn claims(&self) -> (Vec<f64>, Vec<bool>) {
        if self.classes.len() == 2 {
            return self.of_class(1);
        }
        let predicted = self.predicted();
        let rows = self.probabilities.iter().zip(&predicted);
        let p = rows.map(|(row, &class)| row[class].clamp(0.0, 1.0));
        (p.collect(), self.right())
    }

    /// Classes by how many rows they have.
    fn by_size(&self) -> Vec<usize> {
        let count = |class: &usize| self.truth.iter().filter(|own| *own == class).count();
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        order.sort_by_key(|class| std::cmp::Reverse(count(class)));
        order
    }

    fn has_both(&self, class: usize) -> bool {
        let n = self.truth.iter().filter(|&&own| own == class).count();
        n > 0 && n < self.n()
    }

    /// Says all of it.
    pub(crate) fn write(&self, section: &mut Section) -> Result<()> {
        section.tabulate(self.scores()?);
        let z = surprise(&self.claims());
        if z.abs() > FAR {
            section.warn(format!(
                "The probabilities do not hold on these rows: they are {} than they should be ({:.1} standard errors in Spiegelhalter's test).",
                if z > 0.0 { "surer" } else { "less sure" },
                z.abs()
            ));
        }
        section.draw(self.reliability()?);
        if let Some(roc) = self.roc()? {
            section.draw(roc);
        }
        section.draw(self.confusion()?);
        Ok(())
    }

    fn scores(&self) -> Result<TextTable> {
        let mut rows = vec![vec!["rows".to_owned(), self.n().to_string(), String::new()]];
        let share = |class: usize| {
            self.truth.iter().filter(|&&own| own == class).count() as f64 / self.n() as f64
        };
        let shares: Vec<f64> = (0..self.classes.len()).map(share).collect();
        let most = shares.iter().copied().fold(0.0, f64::max);
        let right = metrics::accuracy(&self.predicted(), &self.truth)?;
        let mut push = |name: &str, own: String, without: String| {
            rows.push(vec![name.to_owned(), own, without]);
        };
        push("right", percent(right), percent(most));
        let loss = -self.ln_scores().iter().sum::<f64>() / self.n() as f64;
        let usual = -shares
            .iter()
            .filter(|p| **p > 0.0)
            .map(|p| p * p.ln())
            .sum::<f64>();
        push("log loss (nats)", number(loss), number(usual));
        if self.classes.len() == 2 {
            let (p, is) = self.of_class(1);
            push(
                "Brier score",
                number(metrics::brier(&p, &is)?),
                number(most * (1.0 - most)),
            );
            if self.has_both(1) {
                push(
                    "area under ROC",
                    number(metrics::auc(&p, &is)?),
                    "0.5000".to_owned(),
                );
            }
        }
        let header = ["", "model", "by the shares of the classes alone"];
        Ok(TextTable::new("Scores", &header, rows))
    }

    /// Bins of probabilities against shares.
    fn reliability(&self) -> Result<Figure> {
        let (p, is) = self.claims();
        let bins = metrics::calibration_curve(&p, &is, BINS)?;
        let what = match self.classes.len() {
            2 => format!("P({})", short_name(&self.classes[1])),
            _ => "probability of the most probable class".to_owned(),
        };
        let point = |bin: &metrics::CalibrationBin| {
            let share = bin.share_positive;
            // One row more of each kind, so that the error of a share of 0 or 1 is not 0.
            let about = (share * bin.n as f64 + 1.0) / (bin.n as f64 + 2.0);
            Point {
                x: bin.mean_probability,
                y: share,
                sd: Some((about * (1.0 - about) / bin.n as f64).sqrt()),
            }
        };
        let of_bins = Layer {
            colour: Some(colours::BLUE),
            ..Layer::line("rows of these, by probability", bins.iter().map(point))
        };
        let ideal = Shape::Dashed(vec![vec![[0.0, 0.0], [1.0, 1.0]]]);
        let layers = vec![Layer::new("as it should be", colours::GREY, ideal), of_bins];
        let (x, y) = ((0.0, 1.0), (0.0, 1.0));
        let panel = Panel::new("", [&what, "share that is so"], x, y, layers);
        let look = "Points should lie on the dashed line within their bars (one standard error): below it the model is too sure of what it says there.";
        Ok(picture(
            "reliability",
            "Do the probabilities hold?",
            look,
            &[panel],
        )?)
    }

    /// For two classes the curve of the second, else one for each of the largest.
    fn roc(&self) -> Result<Option<Figure>> {
        let classes = match self.classes.len() {
            2 => vec![1],
            _ => self.by_size().into_iter().take(MOST_CURVES).collect(),
        };
        let mut layers = Vec::new();
        for class in classes.into_iter().filter(|&class| self.has_both(class)) {
            let (p, is) = self.of_class(class);
            let area = metrics::auc(&p, &is)?;
            let roc = metrics::roc(&p, &is)?;
            let step = roc.len().div_ceil(MOST_POINTS);
            let kept = (0..roc.len()).filter(|k| k % step == 0 || k + 1 == roc.len());
            let at = |k: usize| [roc[k].false_positive_rate, roc[k].true_positive_rate];
            let shape = Shape::Curves(vec![kept.map(at).collect()], 2);
            let name = format!(
                "{}, area {}",
                short_name(&self.classes[class]),
                number(area)
            );
            layers.push(Layer {
                colour: None,
                ..Layer::new(name, colours::BLUE, shape)
            });
        }
        if layers.is_empty() {
            return Ok(None);
        }
        let chance = Shape::Dashed(vec![vec![[0.0, 0.0], [1.0, 1.0]]]);
        layers.push(Layer::new("by chance", colours::GREY, chance));
        let labels = ["share of the others called so", "share found"];
        let panel = Panel::new("", labels, (0.0, 1.0), (0.0, 1.0), layers);
        let look = "The nearer to the upper left corner, the better the classes are told apart, whatever the threshold.";
        Ok(Some(picture(
            "roc",
            "ROC: what a threshold finds",
            look,
            &[panel],
        )?))
    }

    /// Shares of the rows of each class by predicted class.
    fn confusion(&self) -> Result<Figure> {
        let mut shown = self.by_size();
        shown.truncate(MOST_CLASSES);
        shown.sort_unstable();
        let predicted = self.predicted();
        let count = |a: usize, b: Option<usize>| {
            let rows = self.truth.iter().zip(&predicted);
            let is = |(own, said): &(&usize, &usize)| **own == a && b.is_none_or(|b| **said == b);
            rows.filter(is).count()
        };
        let share = |a: usize, b: usize| count(a, Some(b)) as f64 / count(a, None) as f64;
        let name = |&class: &usize| short_name(&self.classes[class]);
        let map = HeatMap {
            rows: shown
                .iter()
                .map(|class| format!("{} ({} rows)", name(class), count(*class, None)))
                .collect(),
            columns: shown.iter().map(name).collect(),
            values: shown
                .iter()
                .flat_map(|&a| shown.iter().map(move |&b| share(a, b)))
                .collect(),
            range: (0.0, 1.0),
            marked: Vec::new(),
        };
        let look = "Of the rows of the class on the left, the share that is given the class above: squares off the diagonal are what it takes for what.";
        Ok(heat_map("confusion", "What is taken for what", look, &map)?)
    }
}

pub(crate) fn ln_scores(truth: &[usize], probabilities: &[Vec<f64>]) -> Vec<f64> {
    let rows = truth.iter().zip(probabilities);
    rows.map(|(&class, row)| row[class].max(LOG_LOSS_CLIP).ln())
        .collect()
}

/// Spiegelhalter's statistic: normal with sd 1 where the probabilities hold, above 0 where they are surer than they should be.
fn surprise((p, is): &(Vec<f64>, Vec<bool>)) -> f64 {
    let rows = || {
        p.iter()
            .zip(is)
            .map(|(&p, &is)| (p, f64::from(u8::from(is))))
    };
    let excess: f64 = rows().map(|(p, y)| (y - p) * (1.0 - 2.0 * p)).sum();
    let variance: f64 = rows()
        .map(|(p, _)| (1.0 - 2.0 * p).powi(2) * p * (1.0 - p))
        .sum();
    match variance > 0.0 {
        true => excess / variance.sqrt(),
        false => 0.0,
    }
}

/// What the log score of rows loses where a feature is taken for missing.
pub(crate) struct Loss {
    pub(crate) feature: String,
    pub(crate) mean: f64,
    pub(crate) standard_error: f64,
}

impl Loss {
    /// Of paired scores, with the feature and without it.
    pub(crate) fn of(feature: &str, with: &[f64], without: &[f64]) -> Self {
        let n = with.len() as f64;
        let lost = || {
            with.iter()
                .zip(without)
                .map(|(with, without)| with - without)
        };
        let mean = lost().sum::<f64>() / n;
        let square: f64 = lost().map(|loss| (loss - mean).powi(2)).sum();
        Self {
            feature: feature.to_owned(),
            mean,
            standard_error: (square / (n - 1.0).max(1.0) / n).sqrt(),
        }
    }
}

/// Nats a row that are drawn at full length although no column loses more.
const LEAST_LOSS: f64 = 0.01;

/// Features by what the score loses without them.
pub(crate) fn draw_losses(mut losses: Vec<Loss>, n_rows: usize) -> Result<Figure> {
    losses.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let n = losses.len();
    losses.truncate(MOST_COLUMNS);
    let bar = |loss: &Loss| NamedBar {
        name: loss.feature.clone(),
        value: loss.mean,
        sd: Some(loss.standard_error),
    };
    let bars: Vec<NamedBar> = losses.iter().map(bar).collect();
    let first = first_of(losses.len(), n, "columns");
    let look = format!(
        "Nats a row that are lost where a column is taken for missing, in {n_rows} rows{first}: long bars are columns that the others cannot stand in for; those near 0 tell nothing that the others do not."
    );
    Ok(named_bars(
        "columns",
        "Which columns matter",
        &look,
        &bars,
        LEAST_LOSS,
    )?)
}

/// Features without one of them.
pub(crate) fn without(features: &MixedTable, feature: usize) -> Result<MixedTable> {
    let (n, p) = (features.n_rows(), features.n_cols());
    let mask = npb_data::Mask::from_fn(n, p, |_, j| j == feature)?;
    Ok(features.hide(&mask)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(classes: &[String]) -> Judged<'_> {
        let p = [0.1, 0.15, 0.9, 0.95, 1.0, 0.5];
        Judged {
            classes,
            truth: vec![0, 1, 1, 1, 1, 0],
            probabilities: p.iter().map(|&p| vec![1.0 - p, p]).collect(),
        }
    }

    #[test]
    fn figures_hold_the_numbers_of_the_metrics() {
        let classes = ["no", "<yes>"].map(str::to_owned);
        let judged = judged(&classes);
        let reliability = judged.reliability().unwrap();
        let points: Vec<_> = reliability
            .rows
            .iter()
            .filter(|r| r[1].starts_with("rows"))
            .collect();
        // 0.1 and 0.15 in the second bin, one of them so; 0.5 alone; 0.9, 0.95 and 1 in the last.
        assert_eq!(points.len(), 3);
        assert_eq!(points[0][3..5], ["0.125", "0.5"]);
        assert!((points[2][3].parse::<f64>().unwrap() - 0.95).abs() < 1e-12);
        assert_eq!(points[2][4], "1");
        let (p, is) = judged.of_class(1);
        let area = metrics::auc(&p, &is).unwrap();
        assert_eq!(area, 0.875);
        let roc = judged.roc().unwrap().unwrap();
        assert!(roc.svg.contains("area 0.8750") && roc.svg.contains("&lt;yes&gt;"));
        let confusion = judged.confusion().unwrap();
        let values: Vec<&str> = confusion.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(values, ["1", "0", "0.25", "0.75"]);
        let scores = judged.scores().unwrap();
        assert_eq!(scores.rows[1][1..], ["83.3%", "66.7%"]);
        assert_eq!(scores.rows[4][1], "0.8750");
    }

    #[test]
    fn probabilities_that_are_too_sure_are_warned_of() {
        let classes = ["a", "b", "c"].map(str::to_owned);
        // Said to be right nine times of ten.
        let warned = |n_right: usize| {
            let judged = Judged {
                classes: &classes,
                truth: (0..200).map(|i| usize::from(i >= n_right)).collect(),
                probabilities: vec![vec![0.9, 0.05, 0.05]; 200],
            };
            let mut section = Section::new("s");
            judged.write(&mut section).unwrap();
            let mut page = crate::Page::new("p");
            page.push(section);
            page.warnings().first().map(|words| (*words).to_owned())
        };
        assert_eq!(warned(180), None);
        assert!(warned(100).unwrap().contains("surer than they should be"));
        assert!(warned(200).unwrap().contains("less sure"));
    }

    #[test]
    fn losses_are_means_with_their_errors() {
        let loss = Loss::of("x", &[-1.0, -2.0, -3.0], &[-2.0, -2.0, -5.0]);
        assert!((loss.mean - 1.0).abs() < 1e-12);
        assert!((loss.standard_error - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn classes_that_the_fit_has_not_seen_are_counted() {
        let labels = Labels::from_strings(&[Some("b"), None, Some("z"), Some("a")]);
        let classes = ["a", "b"].map(str::to_owned);
        assert_eq!(known(&labels, &classes), (vec![(0, 1), (3, 0)], 1));
    }
}
