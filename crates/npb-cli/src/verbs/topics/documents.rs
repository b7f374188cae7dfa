//! Documents as files have them: `word:count` pairs, texts in a column of a table, a text a line.

use std::path::Path;

use npb_data::read::{self, DelimitedOptions, Encoding, Separator};
use npb_data::schema::{ColumnSchema, Kind, Role, Schema};
use npb_data::{Ratings, Vocabulary};
use unicode_segmentation::UnicodeSegmentation;

use crate::args::{Layout, TopicsArgs};
use crate::failure::{Failure, Result, in_file};
use crate::input::{self, Given, note_of, unreadable};
use crate::model::ModelFile;

/// Stands for the column in files whose lines are texts.
const LINE: &str = "line";

/// Documents of a fit.
pub(super) struct Corpus {
    pub(super) counts: Ratings,
    /// What the file says of the class of each.
    pub(super) classes: Option<Vec<Option<String>>>,
    /// The words, if they have names.
    pub(super) words: Vec<String>,
    /// Of texts the column that they stand in, as a guess takes free text: an identifier.
    pub(super) schema: Schema,
    pub(super) layout: DelimitedOptions,
}

/// The documents that a topic model is fitted to.
pub(super) fn read(args: &TopicsArgs, quiet: bool) -> Result<Corpus> {
    match args.lines || args.text.is_some() {
        true => texts(args, quiet),
        false => pairs(args, quiet),
    }
}

/// `word:count` pairs.
fn pairs(args: &TopicsArgs, quiet: bool) -> Result<Corpus> {
    let words = match &args.words {
        Some(path) => vocabulary(path)?,
        None => Vec::new(),
    };
    let n_words = Some(words.len()).filter(|&n| n > 0);
    let (file, bytes) = (args.file.display().to_string(), input::bytes(&args.file)?);
    let bags = read::bags_of_words(&file, bytes.as_slice(), n_words);
    let in_words = || {
        let rule = "has no word:count pairs; where documents are in plain words, say --lines (a document a line) or --text COLUMN (a table)";
        in_file(&args.file)(rule)
    };
    let bags = bags.map_err(|e| match is_of_pairs(&bytes) || e.line.is_none() {
        true => unreadable(&e),
        false => in_words(),
    })?;
    if bags.counts.n_observed() == 0 && bags.keys.iter().any(|key| key.len() > 1) {
        return Err(in_words());
    }
    if bags.lengths {
        let text = "the number before the pairs is that of the pairs (LDA-C), no class";
        note_of(quiet, &args.file, text);
    }
    let missing = Schema::default().missing;
    let class = |key: &Vec<String>| key.first().filter(|text| !missing.contains(text)).cloned();
    let keyed = bags.keys.iter().any(|key| !key.is_empty());
    Ok(Corpus {
        classes: keyed.then(|| bags.keys.iter().map(class).collect()),
        counts: bags.counts,
        words,
        schema: Schema::default(),
        layout: DelimitedOptions::default(),
    })
}

/// Some of the first lines have a pair.
fn is_of_pairs(bytes: &[u8]) -> bool {
    let first = String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 12)]).into_owned();
    let is_pair = |field: &str| {
        let parts = field.split_once(':');
        parts.is_some_and(|(word, count)| {
            word.parse::<u32>().is_ok() && count.parse::<f64>().is_ok()
        })
    };
    first.split_whitespace().any(is_pair)
}

/// How files whose lines are texts are read.
fn of_lines() -> DelimitedOptions {
    DelimitedOptions {
        separator: Separator::Text("\n".to_owned()),
        ..DelimitedOptions::default()
    }
}

/// Texts: a column of a table, or lines.
fn texts(args: &TopicsArgs, quiet: bool) -> Result<Corpus> {
    if !(args.max_share > 0.0 && args.max_share <= 1.0) {
        let what = format!(
            "--max-share {}: must be above 0 and at most 1",
            args.max_share
        );
        return Err(Failure::usage(what));
    }
    let stop = stop_words(args)?;
    let column = args.text.as_deref().unwrap_or(LINE);
    let of_fit = args.lines.then(of_lines);
    let wanted: Vec<&str> = std::iter::once(column)
        .chain(args.label.as_deref())
        .collect();
    let (mut cells, layout) = columns(&args.file, &wanted, &args.layout, of_fit.as_ref(), quiet)?;
    let classes = args.label.as_ref().and_then(|_| cells.pop());
    let documents: Vec<Vec<String>> = cells.swap_remove(0).iter().map(words_of).collect();
    let known = counted(args, &documents, stop)?;
    let text = ColumnSchema {
        role: Role::Ignored,
        ..ColumnSchema::new(column, Kind::Identifier)
    };
    Ok(Corpus {
        counts: known.count(&documents).map_err(Failure::bad_data)?,
        classes,
        words: known.words().to_vec(),
        schema: Schema {
            columns: vec![text],
            ..Schema::default()
        },
        layout,
    })
}

/// Words that say little in the language of `--stop-words`.
fn stop_words(args: &TopicsArgs) -> Result<&'static [&'static str]> {
    let Some(language) = args.stop_words.as_deref() else {
        return Ok(&[]);
    };
    stop_words::lookup(language).ok_or_else(|| {
        Failure::usage(format_args!(
            "--stop-words {language}: write the code of a language, such as en, de, fr or es"
        ))
    })
}

/// The words that count: those of a file, or those in enough documents and not in too many.
fn counted(args: &TopicsArgs, documents: &[Vec<String>], stop: &[&str]) -> Result<Vocabulary> {
    let words = match &args.words {
        Some(path) => {
            let mut words = vocabulary(path)?;
            words.retain(|word| !word.is_empty());
            words
        }
        None => {
            let all = Vocabulary::of_documents(documents, args.min_documents, args.max_share);
            let mut words = all.words().to_vec();
            words.retain(|word| !stop.contains(&word.as_str()));
            words
        }
    };
    if words.is_empty() {
        let (least, share) = (args.min_documents, 100.0 * args.max_share);
        return Err(in_file(&args.file)(format_args!(
            "no word stands in at least {least} documents and in at most {share} % of them; --min-documents and --max-share say otherwise"
        )));
    }
    Vocabulary::new(words).map_err(|e| in_file(&args.file)(format_args!("words: {e}")))
}

/// New documents, counted as those of a model's fit.
pub(super) fn like_training(
    path: &Path,
    model: &ModelFile,
    (n_words, layout, quiet): (usize, &Layout, bool),
) -> Result<Ratings> {
    let file = path.display().to_string();
    let schema = model.schema()?;
    let Some(column) = schema.columns.first() else {
        let bytes = input::bytes(path)?;
        let bags = read::bags_of_known_words(&file, bytes.as_slice(), n_words);
        let bags = bags.map_err(|e| unreadable(&e))?;
        let n_pairs = bags.n_unknown + bags.counts.n_observed();
        if n_pairs == 0 {
            let rule =
                "no line has a word and its count (word:count), as documents of the fit have";
            return Err(in_file(path)(rule));
        }
        unknown(path, "pairs", (bags.n_unknown, n_pairs), quiet);
        return Ok(bags.counts);
    };
    let of_fit = Some(&model.origin.layout);
    let (mut cells, _) = columns(path, &[&column.name], layout, of_fit, quiet)?;
    let documents: Vec<Vec<String>> = cells.swap_remove(0).iter().map(words_of).collect();
    let known = Vocabulary::new(model.names.clone()).map_err(Failure::bad_data)?;
    let all = || documents.iter().flatten();
    let n_unknown = all().filter(|word| known.column(word).is_none()).count();
    unknown(path, "words", (n_unknown, all().count()), quiet);
    known.count(&documents).map_err(Failure::bad_data)
}

/// The classes of new documents, by their places among those of the fit: before their pairs, or in the first column of a table most of whose cells are classes.
pub(super) fn classes_of(
    path: &Path,
    model: &ModelFile,
    (n_words, layout, quiet): (usize, &Layout, bool),
) -> Result<Option<Vec<Option<usize>>>> {
    let place = |name: &String| model.places.iter().position(|class| class == name);
    let places = |cells: Vec<Option<&String>>| -> Option<Vec<Option<usize>>> {
        let places: Vec<_> = cells.into_iter().map(|name| name.and_then(place)).collect();
        let known = places.iter().flatten().count();
        (2 * known > places.len()).then_some(places)
    };
    let file = path.display().to_string();
    if model.schema()?.columns.is_empty() {
        let bags = read::bags_of_known_words(&file, input::bytes(path)?.as_slice(), n_words);
        let bags = bags.map_err(|e| unreadable(&e))?;
        return Ok(places(bags.keys.iter().map(|key| key.first()).collect()));
    }
    let of_fit = Some(&model.origin.layout);
    if of_fit.is_some_and(|o| o.separator == of_lines().separator) {
        return Ok(None);
    }
    let (text, options) = Given::read(path, quiet)?.into_text(layout, of_fit, quiet)?;
    let table = read::delimited_strings(&file, text.as_slice(), &options);
    let table = table.map_err(|e| unreadable(&e))?;
    let column = |j: usize| places(table.rows.iter().map(|row| row[j].as_ref()).collect());
    Ok((0..table.column_names.len()).find_map(column))
}

/// Says how much was not in training.
fn unknown(file: &Path, what: &str, (n, all): (usize, usize), quiet: bool) {
    if n > 0 {
        let text = format_args!("{n} of {all} {what} are not among the words of the fit: left out");
        note_of(quiet, file, text);
    }
}

/// Cells of a column; a missing mark is none.
type Texts = Vec<Option<String>>;

/// Columns of a table of texts, or the lines of a file.
fn columns(
    path: &Path,
    wanted: &[&str],
    layout: &Layout,
    of_fit: Option<&DelimitedOptions>,
    quiet: bool,
) -> Result<(Vec<Texts>, DelimitedOptions)> {
    let name = path.display().to_string();
    if let Some(of_lines) = of_fit.filter(|o| o.separator == of_lines().separator) {
        let encoding = if layout.latin1 {
            Encoding::Latin1
        } else {
            of_lines.encoding
        };
        let lines = read::tokens(&name, input::bytes(path)?.as_slice(), encoding);
        let lines = lines.map_err(|e| unreadable(&e))?;
        let lines = lines.into_iter().map(|words| Some(words.join(" ")));
        let of_lines = DelimitedOptions {
            encoding,
            ..of_lines.clone()
        };
        return Ok((vec![lines.collect()], of_lines));
    }
    let (text, options) = Given::read(path, quiet)?.into_text(layout, of_fit, quiet)?;
    let table = read::delimited_strings(&name, text.as_slice(), &options);
    let mut table = table.map_err(|e| unreadable(&e))?;
    let mut found = Vec::with_capacity(wanted.len());
    for &column in wanted {
        let at = table.column_names.iter().position(|own| own == column);
        let at = at.ok_or_else(|| {
            in_file(path)(format_args!(
                "there is no column {column:?}; the file has {}",
                table.column_names.join(", ")
            ))
        })?;
        found.push(table.rows.iter_mut().map(|row| row[at].take()).collect());
    }
    Ok((found, options))
}

/// The words of a text in lower case, by Unicode's rules (UAX 29): of two characters or more, with a letter among them.
fn words_of(text: &Option<String>) -> Vec<String> {
    let text = text.as_deref().unwrap_or_default();
    let words = text
        .unicode_words()
        .filter(|word| word.chars().nth(1).is_some() && word.chars().any(char::is_alphabetic));
    words.map(str::to_lowercase).collect()
}

/// Lines of a file, blanks around them removed.
pub(super) fn lines(path: &Path) -> Result<Vec<String>> {
    let file = path.display().to_string();
    let lines = read::tokens(&file, input::bytes(path)?.as_slice(), Encoding::Utf8);
    let lines = lines.map_err(|e| unreadable(&e))?;
    Ok(lines.into_iter().map(|words| words.join(" ")).collect())
}

/// The words, one a line; numbers after every word, such as how often it occurs, are none of it.
fn vocabulary(path: &Path) -> Result<Vec<String>> {
    let mut lines = lines(path)?;
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let counted = |line: &String| {
        let mut fields = line.split(' ').skip(1).peekable();
        fields.peek().is_some() && fields.all(is_number)
    };
    if lines.iter().all(counted) {
        for line in &mut lines {
            line.truncate(line.find(' ').unwrap_or(line.len()));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_unicode() {
        let words = |text: &str| words_of(&Some(text.to_owned()));
        assert_eq!(
            words("The ball isn't 2 big; Äpfel, C3PO-like \u{2014} 1.5"),
            ["the", "ball", "isn't", "big", "äpfel", "c3po", "like"]
        );
        assert!(words_of(&None).is_empty());
    }
}
