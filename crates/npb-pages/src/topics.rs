//! Topics of documents.

use npb_data::Ratings;
use npb_regbayes::topics::{MedLdaConfig, MedLdaFit};
use npb_report::{HeatMap, NamedBar, TextTable, colours, heat_map, named_bars};

use crate::bins::{Kind, histogram, largest};
use crate::page::Section;
use crate::sampling::some;
use crate::shared::{isolated, number, percent, short_name};
use crate::{Context, Page, Result, shared};

/// Words of a topic, in its name and in the table.
const IN_NAME: usize = 3;
const IN_TABLE: usize = 6;
/// Topics and classes in pictures.
const MOST_TOPICS: usize = 40;
const MOST_CLASSES: usize = 30;
/// Documents that the fit is tried on, and documents that are named.
const MOST_DOCUMENTS: usize = 2_000;
const NAMED: usize = 8;

/// Documents to try a fit on.
#[derive(Clone, Debug)]
pub struct Documents {
    /// Name of their file.
    pub file: String,
    /// Counts of the words of the fit.
    pub counts: Ratings,
    /// Their classes by number, where the file says them.
    pub classes: Option<Vec<Option<usize>>>,
    /// They may be those of the fit.
    pub may_be_of_fit: bool,
}

/// Names of words and classes; their numbers where there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// Of the words.
    pub words: &'a [String],
    /// Of the classes.
    pub classes: &'a [String],
}

impl Names<'_> {
    fn of(names: &[String], k: usize) -> String {
        let name = names.get(k).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| k.to_string())
    }

    fn class(&self, k: usize) -> String {
        Self::of(self.classes, k)
    }
}

/// The page of a fit, with documents to try it on if there are some.
///
/// # Errors
/// Documents of other words than those of the fit.
pub fn page(
    fit: &MedLdaFit,
    context: &Context<'_>,
    names: Names<'_>,
    documents: Option<&Documents>,
) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::bound(
        fit.trace(),
        fit.stop(),
        "limits.max_iterations",
    )?);
    let topics = topic_names(fit, names)?;
    page.push(topics_section(fit, names, &topics)?);
    page.push(responses(fit, names, &topics)?);
    if fit.n_scores() > 0 {
        page.push(match documents {
            Some(documents) => held_out(fit, names, documents, context.seed)?,
            None => shared::ask_for_rows("(documents) with their classes"),
        });
    }
    page.push(shared::settings(fit.config(), &MedLdaConfig::default())?);
    Ok(page)
}

/// Topics by their first words.
fn topic_names(fit: &MedLdaFit, names: Names<'_>) -> Result<Vec<String>> {
    let name = |topic: usize| {
        let words = fit.top_words(topic, IN_NAME)?;
        let words: Vec<String> = words
            .iter()
            .map(|top| isolated(&Names::of(names.words, top.word)))
            .collect();
        Ok(format!("{}: {}", topic + 1, words.join(" ")))
    };
    (0..fit.n_topics()).map(name).collect()
}

/// Mean share of each topic in the documents of the fit.
fn mean_shares(fit: &MedLdaFit) -> Vec<f64> {
    let (k, shares) = (fit.n_topics(), fit.training_shares());
    let n = (shares.len() / k).max(1) as f64;
    (0..k)
        .map(|topic| shares.iter().skip(topic).step_by(k).sum::<f64>() / n)
        .collect()
}

fn topics_section(fit: &MedLdaFit, names: Names<'_>, topics: &[String]) -> Result<Section> {
    let mut section = Section::new("Topics");
    let shares = mean_shares(fit);
    let few = shares
        .iter()
        .filter(|share| **share < 0.1 / topics.len() as f64)
        .count();
    let n_documents = fit.training_shares().len() / fit.n_topics();
    section.say(format!(
        "{} topics of {} words in {n_documents} documents; {few} of them are hardly used (a tenth of an equal share).",
        topics.len(),
        fit.n_words()
    ));
    let order = largest(&shares, topics.len());
    let bar = |&topic: &usize| NamedBar {
        name: topics[topic].clone(),
        value: shares[topic],
        sd: None,
    };
    let bars: Vec<NamedBar> = order.iter().take(MOST_TOPICS).map(bar).collect();
    let look = "Share of the documents' words, the largest first: one long bar is often a topic of the words that all documents have.";
    section.draw(named_bars(
        "shares",
        "How much each topic is used",
        look,
        &bars,
        0.0,
    )?);
    let row = |&topic: &usize| -> Result<Vec<String>> {
        let top = fit.top_words(topic, IN_TABLE)?;
        let word = |top: &npb_regbayes::TopWord| {
            format!(
                "{} ({})",
                short_name(&Names::of(names.words, top.word)),
                percent(top.probability)
            )
        };
        let words: Vec<String> = top.iter().map(word).collect();
        Ok(vec![
            (topic + 1).to_string(),
            percent(shares[topic]),
            words.join(", "),
        ])
    };
    let rows = order.iter().map(row).collect::<Result<Vec<_>>>()?;
    let header = ["topic", "share", "most probable words"];
    section.tabulate(TextTable::new("Words of the topics", &header, rows));
    Ok(section)
}

/// What topics say of classes or of a number.
fn responses(fit: &MedLdaFit, names: Names<'_>, topics: &[String]) -> Result<Section> {
    let mut section = Section::new("What topics say");
    let (k, n, weights) = (fit.n_topics(), fit.n_scores(), fit.coefficients());
    if n == 0 {
        section.say("The fit is of words alone: there is nothing that topics are to tell.");
        return Ok(section);
    }
    if n == 1 {
        let order = largest(&weights, k);
        let bar = |&topic: &usize| NamedBar {
            name: topics[topic].clone(),
            value: weights[topic],
            sd: None,
        };
        let bars: Vec<NamedBar> = order.iter().take(MOST_TOPICS).map(bar).collect();
        let look = "What a document of this topic alone would have above the mean; topics at the ends say most.";
        section.draw(named_bars(
            "weights",
            "What topics say of the number",
            look,
            &bars,
            0.0,
        )?);
        return Ok(section);
    }
    let (shown, classes) = (k.min(MOST_TOPICS), n.min(MOST_CLASSES));
    let of_topic = |topic: usize| {
        (0..n)
            .map(|class| weights[class * k + topic].abs())
            .fold(0.0, f64::max)
    };
    let mut order = largest(&(0..k).map(of_topic).collect::<Vec<_>>(), shown);
    order.sort_unstable();
    let values = order
        .iter()
        .flat_map(|&t| (0..classes).map(move |class| (t, class)));
    let values: Vec<f64> = values
        .map(|(topic, class)| weights[class * k + topic])
        .collect();
    let most = values.iter().fold(1e-9_f64, |most, v| most.max(v.abs()));
    let map = HeatMap {
        rows: order.iter().map(|&topic| topics[topic].clone()).collect(),
        columns: (0..classes).map(|class| names.class(class)).collect(),
        values,
        range: (-most, most),
        marked: Vec::new(),
    };
    let mut part = String::new();
    if shown < k || classes < n {
        part = format!(" ({shown} of {k} topics, {classes} of {n} classes)");
    }
    let look = format!(
        "Red: the topic speaks for the class, blue: against it; a pale line is a topic that tells no classes apart{part}."
    );
    section.draw(heat_map(
        "weights",
        "What topics say of the classes",
        &look,
        &map,
    )?);
    let scores = training_scores(fit);
    let margins: Vec<f64> = scores
        .chunks_exact(n)
        .map(|scores| best_two(scores).1)
        .collect();
    draw_margins(&mut section, fit, &margins)?;
    Ok(section)
}

/// Scores of the documents of the fit, document by document.
fn training_scores(fit: &MedLdaFit) -> Vec<f64> {
    let (k, weights) = (fit.n_topics(), fit.coefficients());
    let document = |shares: &[f64]| -> Vec<f64> {
        let score = |own: &[f64]| shares.iter().zip(own).map(|(s, w)| s * w).sum();
        weights.chunks_exact(k).map(score).collect()
    };
    fit.training_shares()
        .chunks_exact(k)
        .flat_map(document)
        .collect()
}

/// The class of the highest score, and how far it is above the next one.
fn best_two(scores: &[f64]) -> (usize, f64) {
    let order = largest(scores, 2);
    (order[0], scores[order[0]] - scores[order[1]])
}

fn draw_margins(section: &mut Section, fit: &MedLdaFit, margins: &[f64]) -> Result<()> {
    let kind = Kind {
        name: "documents of the fit",
        colour: colours::BLUE,
        values: margins,
    };
    let look = format!(
        "How far the best class is above the next one: documents near 0 may be of either; the fit asks for {}.",
        fit.config().margin
    );
    let words = ["margins", "How clearly documents are told", &look];
    section.draw_any(histogram(words, "margin", &[kind])?);
    Ok(())
}

fn held_out(
    fit: &MedLdaFit,
    names: Names<'_>,
    documents: &Documents,
    seed: u64,
) -> Result<Section> {
    let mut section = Section::new("Does it hold on these documents?");
    let (file, n) = (&documents.file, fit.n_scores());
    let Some(classes) = documents.classes.as_ref().filter(|_| n > 1) else {
        section.say(format!(
            "{file} says no classes of its documents: they would show it."
        ));
        return Ok(section);
    };
    let known: Vec<(usize, usize)> = classes
        .iter()
        .enumerate()
        .filter_map(|(document, class)| Some((document, (*class)?)))
        .filter(|(_, class)| *class < n)
        .collect();
    if known.len() < classes.len() {
        section.warn(format!(
            "{} of {} documents of {file} are of no class of the fit, and are left out here.",
            classes.len() - known.len(),
            classes.len()
        ));
    }
    if known.is_empty() {
        return Ok(section);
    }
    let known: Vec<(usize, usize)> = some(known.len(), MOST_DOCUMENTS, seed)
        .into_iter()
        .map(|k| known[k])
        .collect();
    section.say(format!("By {} documents of {file}.", known.len()));
    if documents.may_be_of_fit {
        section.warn(format!(
            "{file} has as many documents as the file of the fit: if it is that file, what stands here is better than it will be for new ones."
        ));
    }
    let mut entries = Vec::new();
    for (row, &(document, _)) in (0..).zip(&known) {
        let (words, values) = documents.counts.row(document);
        let own = words.iter().zip(values);
        entries.extend(own.map(|(&column, &value)| npb_data::Rating { row, column, value }));
    }
    let counts = Ratings::new(known.len(), documents.counts.n_cols(), &entries)?;
    judge(&mut section, names, &known, &fit.predict(&counts)?, n)?;
    Ok(section)
}

/// `known`: number and class of each document.
fn judge(
    section: &mut Section,
    names: Names<'_>,
    known: &[(usize, usize)],
    scores: &[f64],
    n: usize,
) -> Result<()> {
    let said: Vec<(usize, f64)> = scores.chunks_exact(n).map(best_two).collect();
    let margin = |(scores, &(_, class)): (&[f64], &(usize, usize))| {
        let others = scores
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != class);
        scores[class]
            - others
                .map(|(_, score)| *score)
                .fold(f64::NEG_INFINITY, f64::max)
    };
    let margins: Vec<f64> = scores.chunks_exact(n).zip(known).map(margin).collect();
    let is_right = |k: usize| said[k].0 == known[k].1;
    let of_class = |class: usize| (0..known.len()).filter(move |&k| known[k].1 == class);
    let largest_class = (0..n)
        .map(|class| of_class(class).count())
        .max()
        .unwrap_or(0);
    let right = (0..known.len()).filter(|&k| is_right(k)).count();
    let share = |count: usize| percent(count as f64 / known.len() as f64);
    section.say(format!(
        "{} are told right; always saying the most frequent class would be right for {}.",
        share(right),
        share(largest_class)
    ));
    if right < largest_class {
        section.warn(
            "The fit does worse on these documents than always saying the most frequent class.",
        );
    }
    let kind = Kind {
        name: "documents",
        colour: colours::BLUE,
        values: &margins,
    };
    let look = "How far the true class is above the best other one: what lies left of 0 is told wrong, far left it is wrong and sure.";
    let words = ["true-margins", "Margins of the true class", look];
    section.draw_any(histogram(words, "margin of the true class", &[kind])?);
    let row = |class: usize| {
        let own: Vec<usize> = of_class(class).collect();
        let wrong = |other: usize| own.iter().filter(|&&k| said[k].0 == other).count() as f64;
        let others: Vec<f64> = (0..n)
            .map(|o| if o == class { 0.0 } else { wrong(o) })
            .collect();
        let taken = largest(&others, 1)[0];
        let taken = match others[taken] > 0.0 {
            true => format!(
                "{} ({})",
                names.class(taken),
                percent(others[taken] / own.len() as f64)
            ),
            false => String::new(),
        };
        let right = own.iter().filter(|&&k| is_right(k)).count() as f64;
        let right = percent(right / own.len() as f64);
        vec![names.class(class), own.len().to_string(), right, taken]
    };
    let header = ["class", "documents", "right", "most often taken for"];
    let rows = (0..n)
        .filter(|&class| of_class(class).next().is_some())
        .map(row);
    section.tabulate(TextTable::new("Class by class", &header, rows));
    let sure: Vec<f64> = said.iter().map(|(_, margin)| *margin).collect();
    let negated: Vec<f64> = sure.iter().map(|margin| -margin).collect();
    for (title, order) in [
        ("Most sure documents", &sure),
        ("Least sure documents", &negated),
    ] {
        let row = |k: usize| {
            let (document, class) = known[k];
            let document = (document + 1).to_string();
            vec![
                document,
                names.class(class),
                names.class(said[k].0),
                number(sure[k]),
            ]
        };
        let header = ["document", "class", "said", "margin"];
        section.fold(TextTable::new(
            title,
            &header,
            largest(order, NAMED).into_iter().map(row),
        ));
    }
    Ok(())
}
