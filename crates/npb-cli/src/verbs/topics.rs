//! Topics of documents, and what they say of a class or a number.

use std::path::Path;

use npb_data::read::{self, BagsOfWords};
use npb_data::schema::Schema;
use npb_regbayes::topics::{Response, fit_watched};
use npb_regbayes::{MedLdaConfig, MedLdaFit, RegBayesError, Saved};

use crate::args::{ModelKind, PredictArgs, TopicsArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, unreadable};
use crate::job::Job;
use crate::keep::{keep, of_bound};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

/// Words of a topic in `npb summary`.
const WORDS: usize = 8;

pub(crate) fn fit(args: &TopicsArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: MedLdaConfig = args.settings.read(ModelKind::Topics)?;
    config.validate().map_err(Failure::usage)?;
    let words = match &args.words {
        Some(path) => lines(path)?,
        None => Vec::new(),
    };
    let bags = documents(&args.file, Some(words.len()).filter(|&n| n > 0))?;
    let n = bags.counts.n_rows();
    let in_file =
        |e: RegBayesError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let targets = args
        .target
        .as_deref()
        .map(|path| numbers(path, n))
        .transpose()?;
    let mut names: Vec<String> = bags
        .keys
        .iter()
        .filter_map(|key| key.first().cloned())
        .collect();
    let has_classes = targets.is_none() && names.len() == n && !args.no_classes;
    let of_rows = names.clone();
    names.sort_unstable();
    names.dedup();
    if !has_classes {
        names.clear();
    }
    let classes: Vec<u32> = match has_classes {
        true => of_rows
            .iter()
            .filter_map(|name| names.binary_search(name).ok())
            .map(|k| k as u32)
            .collect(),
        false => Vec::new(),
    };
    let response = match &targets {
        Some(values) => Response::Real(values),
        None if has_classes => Response::Classes {
            classes: &classes,
            n_classes: names.len(),
        },
        None => Response::None,
    };
    job.listen()?;
    let fit = fit_watched(&bags.counts, response, &config, &job.watch());
    job.finished()?;
    let fit = fit.map_err(in_file)?;
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut model = ModelFile::new(
        ModelKind::Topics.name(),
        &Schema::default(),
        settings::text(&config)?,
        &args.file,
        bytes,
    );
    (model.n_rows, model.places, model.names) = (n as u64, names, words);
    let what = format!(
        "{n} documents, {} words, {} topics",
        fit.n_words(),
        fit.n_topics()
    );
    keep(
        &job,
        &model,
        &what,
        &of_bound(&fit.stop(), "limits.max_iterations"),
    )
}

/// The first field of every line that is not empty.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text = read::tokens(
        &path.display().to_string(),
        input::bytes(path)?.as_slice(),
        read::Encoding::Utf8,
    );
    let lines = text.map_err(|e| unreadable(&e))?;
    Ok(lines
        .into_iter()
        .filter_map(|line| line.into_iter().next())
        .collect())
}

fn documents(path: &Path, n_words: Option<usize>) -> Result<BagsOfWords> {
    let bytes = input::bytes(path)?;
    read::bags_of_words(&path.display().to_string(), bytes.as_slice(), n_words)
        .map_err(|e| unreadable(&e))
}

/// One number for each document.
fn numbers(path: &Path, n: usize) -> Result<Vec<f64>> {
    let lines = lines(path)?;
    let number = |(k, text): (usize, &String)| {
        let value = text.parse().ok().filter(|v: &f64| v.is_finite());
        value.ok_or_else(|| {
            Failure::bad_data(format_args!(
                "{}:{}: {text:?} is not a number",
                path.display(),
                k + 1
            ))
        })
    };
    let values: Vec<f64> = lines
        .iter()
        .enumerate()
        .map(number)
        .collect::<Result<_>>()?;
    match values.len() == n {
        true => Ok(values),
        false => Err(Failure::bad_data(format_args!(
            "{}: has {} numbers for {n} documents",
            path.display(),
            values.len()
        ))),
    }
}

pub(crate) fn load(model: &ModelFile, path: &Path) -> Result<MedLdaFit> {
    model.fit(path)
}

/// Classes or numbers of documents.
pub(crate) fn predict(args: &PredictArgs, model: &ModelFile) -> Result<()> {
    if args.interval.is_some() {
        return Err(Failure::usage(
            "--interval: models of kind topics predict without intervals",
        ));
    }
    let fit = load(model, &args.model)?;
    let bags = documents(&args.file, Some(fit.n_words()))?;
    let in_file =
        |e: RegBayesError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let mut sheet = Sheet::of_rows(&Schema::default(), None, bags.counts.n_rows());
    if fit.n_scores() > 1 {
        let classes = fit.predict_classes(&bags.counts).map_err(in_file)?;
        let name = |k: u32| Cell::from(model.places.get(k as usize).map(String::as_str));
        sheet.push_column("class", classes.into_iter().map(name));
    } else if fit.n_scores() == 1 {
        let values = fit.predict(&bags.counts).map_err(in_file)?;
        sheet.push_column("value", values.into_iter().map(Cell::Number));
    }
    let shares = fit.shares(&bags.counts).map_err(in_file)?;
    for k in 0..fit.n_topics() {
        let share = shares.iter().skip(k).step_by(fit.n_topics());
        sheet.push_column(
            format!("topic{}", k + 1),
            share.map(|&share| Cell::Number(share)),
        );
    }
    output::sheet(&sheet, &args.out)
}

/// The most probable words of every topic.
pub(crate) fn words(model: &ModelFile, path: &Path) -> Result<Sheet> {
    let fit = load(model, path)?;
    let mut sheet = Sheet::new(&["topic", "words"]);
    for k in 0..fit.n_topics() {
        let top = fit.top_words(k, WORDS).map_err(Failure::failed)?;
        let name = |word: usize| {
            model
                .names
                .get(word)
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
