//! Topics of documents, and what they say of a class or a number.

mod documents;

use std::path::Path;

use npb_data::schema::Schema;
use npb_data::{Rating, Ratings};
use npb_regbayes::topics::{Response, fit_watched};
use npb_regbayes::{MedLdaConfig, MedLdaFit};

use self::documents::{Corpus, classes_of, like_training, lines, read};
use crate::args::{Layout, ModelKind, PredictArgs, TopicsArgs};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::input::{name_of, note_of};
use crate::keep::of_bound;
use crate::model::{ModelFile, Origin};
use crate::output;
use crate::sheet::{Cell, Sheet, Type};

/// Words of a topic in `npb summary`.
const WORDS: usize = 8;
/// With more classes than this that are numbers, they are no classes.
const MANY_NUMBERS: usize = 50;

/// What is known of documents.
enum Known {
    Nothing,
    Numbers(Vec<f64>),
    /// Classes by their places among the names.
    Classes(Vec<u32>, Vec<String>),
}

pub(crate) fn fit(args: &TopicsArgs, quiet: bool) -> Result<()> {
    let fitting: Fitting<'_, MedLdaConfig> =
        Fitting::new(ModelKind::Topics, &args.file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let corpus = read(args, quiet)?;
    if corpus.counts.n_observed() == 0 {
        return Err(in_file(&args.file)("no document has a word"));
    }
    let (known, rows) = known(args, &corpus, quiet)?;
    let counts = rows_of(&corpus.counts, rows.as_deref())?;
    let response = match &known {
        Known::Nothing => Response::None,
        Known::Numbers(values) => Response::Real(values),
        Known::Classes(classes, names) => Response::Classes {
            classes,
            n_classes: names.len(),
        },
    };
    let fit = fitting.run(&args.file, |watch| {
        fit_watched(&counts, response, &fitting.config, watch)
    })?;
    let what = format!(
        "{} documents, {} words, {} topics",
        counts.n_rows(),
        fit.n_words(),
        fit.n_topics()
    );
    let unmet = of_bound(fit.stop(), "limits.max_iterations");
    let origin = Origin::laid_out(corpus.layout);
    let mut model = fitting.model(&fit, &corpus.schema, (counts.n_rows(), origin))?;
    model.names = corpus.words;
    if let Known::Classes(_, names) = known {
        model.places = names;
    }
    fitting.keep(&model, &what, &unmet)
}

/// What is known of the documents, and of which, where not of all. The others have no part in the fit.
fn known(args: &TopicsArgs, corpus: &Corpus, quiet: bool) -> Result<(Known, Option<Vec<usize>>)> {
    let n = corpus.counts.n_rows();
    let file = &args.file;
    let texts = match (&args.target, &args.classes, &corpus.classes) {
        _ if args.no_classes => return Ok((Known::Nothing, None)),
        (Some(path), _, _) | (None, Some(path), _) => by_line(path, n)?,
        (None, None, Some(classes)) => classes.clone(),
        (None, None, None) => return Ok((Known::Nothing, None)),
    };
    let rows: Vec<usize> = (0..n).filter(|&i| texts[i].is_some()).collect();
    let what = if args.target.is_some() {
        "number"
    } else {
        "class"
    };
    if rows.is_empty() {
        let text = format_args!("no document has a {what}: topics alone");
        note_of(quiet, file, text);
        return Ok((Known::Nothing, None));
    }
    let left_out = n - rows.len();
    if left_out > 0 {
        let text = format_args!("{left_out} of {n} documents have no {what}: left out of the fit");
        note_of(quiet, file, text);
    }
    let texts: Vec<&str> = rows.iter().filter_map(|&i| texts[i].as_deref()).collect();
    let known = match &args.target {
        Some(path) => Known::Numbers(numbers(path, &rows, &texts)?),
        None => classes(&texts, file, quiet)?,
    };
    Ok((known, (left_out > 0).then_some(rows)))
}

fn classes(texts: &[&str], file: &Path, quiet: bool) -> Result<Known> {
    let mut names: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    if let [only] = names.as_slice() {
        let text = format_args!(
            "all documents are of class {only:?}, so that there is nothing to tell apart: topics alone"
        );
        note_of(quiet, file, text);
        return Ok(Known::Nothing);
    }
    if names.len() > MANY_NUMBERS && names.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(in_file(file)(format_args!(
            "before the pairs stand {} different numbers; where they are to be predicted, give them by --target, else say --no-classes",
            names.len()
        )));
    }
    let place = |text: &&str| names.binary_search_by(|name| name.as_str().cmp(text)).ok();
    let places = texts.iter().filter_map(place).map(|k| k as u32).collect();
    Ok(Known::Classes(places, names))
}

/// Some documents, or all.
fn rows_of(counts: &Ratings, rows: Option<&[usize]>) -> Result<Ratings> {
    let Some(rows) = rows else {
        return Ok(counts.clone());
    };
    let mut entries = Vec::new();
    for (row, &n) in (0..).zip(rows) {
        let (words, values) = counts.row(n);
        let own = words.iter().zip(values);
        entries.extend(own.map(|(&column, &value)| Rating { row, column, value }));
    }
    Ratings::new(rows.len(), counts.n_cols(), &entries).map_err(Failure::failed)
}

/// What a file says of each document, one a line; missing marks are none.
fn by_line(path: &Path, n: usize) -> Result<Vec<Option<String>>> {
    let missing = Schema::default().missing;
    let mut lines = lines(path)?;
    while lines.len() > n && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if lines.len() != n {
        let found = lines.len();
        return Err(in_file(path)(format_args!(
            "has {found} lines for {n} documents"
        )));
    }
    let known = |text: String| (!missing.contains(&text)).then_some(text);
    Ok(lines.into_iter().map(known).collect())
}

fn numbers(path: &Path, rows: &[usize], texts: &[&str]) -> Result<Vec<f64>> {
    let number = |(row, text): (&usize, &&str)| {
        let value = text.parse().ok().filter(|v: &f64| v.is_finite());
        value.ok_or_else(|| {
            let (file, line) = (path.display(), row + 1);
            Failure::bad_data(format_args!("{file}:{line}: {text:?} is not a number"))
        })
    };
    rows.iter().zip(texts).map(number).collect()
}

/// Classes or numbers of documents.
pub(crate) fn predict(args: &PredictArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    if args.interval.is_some() {
        return Err(Failure::usage(
            "--interval: models of kind topics predict without intervals",
        ));
    }
    let fit: MedLdaFit = model.fit()?;
    let how = (fit.n_words(), &args.how.layout, quiet);
    let counts = like_training(args.file(), model, how)?;
    let mut sheet = Sheet::of_numbers(1..=counts.n_rows());
    if fit.n_scores() > 1 {
        let classes = fit.predict_classes(&counts).map_err(in_file(args.file()))?;
        let name = |k: u32| Cell::from(model.places.get(k as usize).map(String::as_str));
        sheet.push_column("class", Type::Text, classes.into_iter().map(name));
    } else if fit.n_scores() == 1 {
        let values = fit.predict(&counts).map_err(in_file(args.file()))?;
        sheet.push_column("value", Type::Number, values.into_iter().map(Cell::Number));
    }
    let shares = fit.shares(&counts).map_err(in_file(args.file()))?;
    for k in 0..fit.n_topics() {
        let share = shares.iter().skip(k).step_by(fit.n_topics());
        sheet.push_column(
            format!("topic{}", k + 1),
            Type::Number,
            share.map(|&share| Cell::Number(share)),
        );
    }
    output::sheet(sheet, &args.how.out)
}

/// Documents of a file, with their classes where it says them, for a page.
pub(crate) fn known_documents(
    file: &Path,
    model: &ModelFile,
    how: (usize, &Layout, bool),
) -> Result<npb_pages::topics::Documents> {
    let counts = like_training(file, model, how)?;
    Ok(npb_pages::topics::Documents {
        file: name_of(file),
        may_be_of_fit: counts.n_rows() as u64 == model.n_rows,
        counts,
        classes: classes_of(file, model, how)?,
    })
}

/// The most probable words of every topic.
pub(crate) fn words(model: &ModelFile) -> Result<Sheet> {
    let fit: MedLdaFit = model.fit()?;
    let mut sheet = Sheet::new(&["topic", "words"]);
    for k in 0..fit.n_topics() {
        let top = fit.top_words(k, WORDS).map_err(Failure::failed)?;
        let name = |word: usize| {
            model
                .names
                .get(word)
                .filter(|name| !name.is_empty())
                .cloned()
                .unwrap_or_else(|| word.to_string())
        };
        let words: Vec<String> = top.iter().map(|top| name(top.word)).collect();
        sheet.push_row(vec![
            Cell::Number((k + 1) as f64),
            Cell::Text(words.join(" ")),
        ]);
    }
    Ok(sheet)
}
