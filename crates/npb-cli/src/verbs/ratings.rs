//! Models of matrices most of whose entries are missing.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use npb_bsvd::{
    Acquisition, BsvdConfig, BsvdError, BsvdFit, CellPosterior, Cells, Features, Likelihood,
    Ranked, SideInformation, fit_watched,
};
use npb_data::read::{
    self, Column, DelimitedOptions, RatingFile, ReadProblem, ReadingRules, Repeats,
};
use npb_data::schema::{Design, Role, Schema};

use crate::args::{
    Duplicates, Layout, ModelKind, NextArgs, PredictArgs, RatingsArgs, RecommendArgs, Rule, Values,
};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::input::{Given, note, note_of, unreadable};
use crate::join;
use crate::keep::of_chains;
use crate::model::{ModelFile, Origin};
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

/// So many open cells are looked at for the next ones to ask.
const CANDIDATES: usize = 20_000;

/// Values from here on are beyond what squares of squares can hold.
const TOO_LARGE: f64 = 1e75;

/// Fewer users or items than this are levels of a column.
const FEW_NAMES: usize = 10;
/// More different values than this are no ratings.
const MANY_VALUES: usize = 20;

pub(crate) fn fit(args: &RatingsArgs, quiet: bool) -> Result<()> {
    let file = &args.file;
    let mut fitting: Fitting<'_, BsvdConfig> =
        Fitting::new(ModelKind::Ratings, file, &args.how, quiet)?;
    let places = [&args.row, &args.column, &args.value].map(String::clone);
    let how = How::of_training(&args.layout, args.duplicates, quiet);
    let (mut entries, layout) = triplets(file, &places, &how)?;
    let old: Option<BsvdFit> = fitting.before.as_ref().map(ModelFile::fit).transpose()?;
    if let Some(old) = &old {
        fitting.config = (args.how.settings).read_on(&old.config, ModelKind::Ratings)?;
        after_those_of(old, fitting.before.as_ref(), &places, &mut entries)?;
    }
    let ratings = entries.ratings().map_err(in_file(file))?;
    let config = &mut fitting.config;
    config.chains = args.chains.unwrap_or(config.chains);
    check_values(config, &entries, args, old.is_some())?;
    config.validate().map_err(Failure::usage)?;
    if config.likelihood == Likelihood::Binomial {
        let rule =
            "likelihood = binomial: successes among trials can be fitted in Rust alone (npb-bsvd)";
        return Err(Failure::usage(rule));
    }
    let (row_ids, column_ids) = (&entries.row_ids, &entries.column_ids);
    let of = |file: &Option<PathBuf>, ids| features(file.as_deref(), ids, &args.layout, quiet);
    let side = SideInformation {
        rows: of(&args.row_features, row_ids)?,
        columns: of(&args.column_features, column_ids)?,
    };
    let (none, config) = (Cells::default(), &fitting.config);
    let fit = fitting.run(file, |watch| {
        let fit = match &old {
            Some(old) => old.continue_with(&ratings, side, &none, config, watch),
            None => fit_watched(&ratings, side, &none, config, watch),
        };
        fit?.with_names(row_ids, column_ids)
    })?;
    let n_ratings = entries.entries.len();
    let what = format!(
        "{n_ratings} ratings, {} rows, {} columns",
        fit.n_rows(),
        fit.n_cols()
    );
    let unmet = of_chains(fit.unmet(), &fitting.config.sweeps);
    let mut model = fitting.model(
        &fit,
        &Schema::default(),
        (n_ratings, Origin::laid_out(layout)),
    )?;
    model.places = places.to_vec();
    if old.is_some() {
        // Its seed is another one, and its units are those of the first entries.
        model.config = settings::text(&fit.config)?;
    }
    fitting.keep(&model, &what, &unmet)
}

/// Sets the likelihood that the options say, and checks that values can be of it; that of a fit that goes on stays.
fn check_values(
    config: &mut BsvdConfig,
    entries: &RatingFile,
    args: &RatingsArgs,
    goes_on: bool,
) -> Result<()> {
    let rule = "is too large to be computed with; rescale the column or correct it";
    all_are(entries, args, |v| v.abs() < TOO_LARGE, rule)?;
    match args.likelihood {
        _ if goes_on => are_like_those_of_the_fit(entries, args, config.likelihood)?,
        Values::Gaussian => {}
        Values::Binary => {
            let rule = "is not 0 or 1; recode it, or leave --likelihood gaussian";
            all_are(entries, args, |v| v == 0.0 || v == 1.0, rule)?;
            config.likelihood = Likelihood::Binary;
        }
        Values::Ordinal => {
            let levels = levels(entries, args)?;
            config.likelihood = Likelihood::Ordinal { levels };
        }
    }
    Ok(())
}

/// Numbers rows and columns as a fit does, those that it does not have after them.
fn after_those_of(
    fit: &BsvdFit,
    model: Option<&ModelFile>,
    places: &[String],
    entries: &mut RatingFile,
) -> Result<()> {
    let wrong = |what: &str| Failure::usage(format_args!("--continue: {what}"));
    if model.is_some_and(|model| model.places != places) {
        let rule = "--row, --column and --value must name the columns that they named at the fit";
        return Err(wrong(rule));
    }
    if fit.row_names().is_empty() || fit.column_names().is_empty() {
        let rule = "the fit knows no names of rows and columns by which those of the file could be found: fit anew";
        return Err(wrong(rule));
    }
    let after = |own: &[String], found: &[String]| {
        let mut all = own.to_vec();
        let mut at: HashMap<String, u32> = own.iter().cloned().zip(0..).collect();
        let place = |name: &String| {
            *at.entry(name.clone()).or_insert_with(|| {
                all.push(name.clone());
                all.len() as u32 - 1
            })
        };
        let places: Vec<u32> = found.iter().map(place).collect();
        (all, places)
    };
    let (rows, row_at) = after(fit.row_names(), &entries.row_ids);
    let (columns, column_at) = after(fit.column_names(), &entries.column_ids);
    (entries.row_ids, entries.column_ids) = (rows, columns);
    for entry in &mut entries.entries {
        entry.row = row_at[entry.row as usize];
        entry.column = column_at[entry.column as usize];
    }
    Ok(())
}

/// Whether values can be those of a fit with this likelihood, which is that of the options if they say one.
fn are_like_those_of_the_fit(
    entries: &RatingFile,
    args: &RatingsArgs,
    likelihood: Likelihood,
) -> Result<()> {
    let (asked, levels) = match likelihood {
        Likelihood::Binary => (Values::Binary, 0.0..=1.0),
        Likelihood::Ordinal { levels } => (Values::Ordinal, 1.0..=f64::from(levels)),
        Likelihood::Gaussian | Likelihood::Binomial => (Values::Gaussian, 0.0..=0.0),
    };
    if ![Values::Gaussian, asked].contains(&args.likelihood) {
        return Err(Failure::usage(
            "--likelihood: with --continue it is that of the fit; leave the option out",
        ));
    }
    let is_level = |v: f64| v.fract() == 0.0 && levels.contains(&v);
    let rule = "is no level that the fit knows; recode it, or fit anew";
    match asked {
        Values::Gaussian => Ok(()),
        _ => all_are(entries, args, is_level, rule),
    }
}

/// How a file of ratings is read.
pub(crate) struct How<'a> {
    layout: &'a Layout,
    /// The layout of the file of the fit.
    of_fit: Option<&'a DelimitedOptions>,
    repeats: Repeats,
    quiet: bool,
}

impl<'a> How<'a> {
    /// The file of a fit.
    pub(crate) fn of_training(layout: &'a Layout, duplicates: Duplicates, quiet: bool) -> Self {
        Self {
            layout,
            of_fit: None,
            repeats: duplicates.into(),
            quiet,
        }
    }

    /// A later file of ratings, of which the last count.
    pub(crate) fn like_training(layout: &'a Layout, model: &'a ModelFile, quiet: bool) -> Self {
        Self {
            layout,
            of_fit: Some(&model.origin.layout),
            repeats: Repeats::Last,
            quiet,
        }
    }
}

/// Whether a file is one of ratings: users, items, few values, perhaps a time; no pair twice, and each user and item three times on average or more.
pub(crate) fn are_ratings(file: &Path, names: &[String], layout: &Layout) -> bool {
    if !(3..=4).contains(&names.len()) {
        return false;
    }
    let how = How::of_training(layout, Duplicates::Error, true);
    let Ok((found, _)) = triplets(file, &names[..3], &how) else {
        return false;
    };
    let values: BTreeSet<u64> = found.entries.iter().map(|e| e.value.to_bits()).collect();
    let (rows, columns) = (found.row_ids.len(), found.column_ids.len());
    rows.min(columns) >= FEW_NAMES
        && found.entries.len() >= 3 * rows.max(columns)
        && (2..=MANY_VALUES).contains(&values.len())
}

/// Lines of row, column and value.
pub(crate) fn triplets(
    file: &Path,
    places: &[String],
    how: &How<'_>,
) -> Result<(RatingFile, DelimitedOptions)> {
    let [row, column, value] = places else {
        return Err(Failure::bad_data(
            "the model file does not say which columns hold row, column and value",
        ));
    };
    let given = Given::read(file, how.quiet)?;
    let (text, options) = given.into_text(how.layout, how.of_fit, how.quiet)?;
    let columns = [row, column, value].map(|name| place(name, &options));
    let name = file.display().to_string();
    let columns = columns.each_ref();
    let entries = read::triplets(&name, text.as_slice(), columns, &options, how.repeats);
    let entries = entries.map_err(|e| match *e.problem {
        ReadProblem::Duplicate { .. } => Failure::bad_data(format_args!(
            "{e}; where that is no mistake, say --duplicates last or --duplicates mean"
        )),
        _ => unreadable(&e),
    })?;
    Ok((entries, options))
}

impl From<Duplicates> for Repeats {
    fn from(duplicates: Duplicates) -> Self {
        match duplicates {
            Duplicates::Error => Self::Error,
            Duplicates::Last => Self::Last,
            Duplicates::Mean => Self::Mean,
        }
    }
}

/// A column by name; without a header `x0`, `x1`, ... or 0, 1, ...
fn place(name: &str, options: &DelimitedOptions) -> Column {
    let number = name.strip_prefix('x').unwrap_or(name).parse();
    match (options.header, number) {
        (false, Ok(index)) => Column::Index(index),
        _ => Column::from(name),
    }
}

/// L of ratings 1, ..., L.
fn levels(entries: &RatingFile, args: &RatingsArgs) -> Result<u32> {
    let whole = |v: f64| v.fract() == 0.0 && (1.0..=1000.0).contains(&v);
    let rule = "is no level 1, 2, ...; recode it, or leave --likelihood gaussian";
    all_are(entries, args, whole, rule)?;
    let levels = entries.entries.iter().map(|e| e.value as u32);
    Ok(levels.max().unwrap_or(1).max(2))
}

/// Names the first rating that does not fit.
fn all_are(
    entries: &RatingFile,
    args: &RatingsArgs,
    fits: impl Fn(f64) -> bool,
    rule: &str,
) -> Result<()> {
    let Some(found) = entries.entries.iter().find(|e| !fits(e.value)) else {
        return Ok(());
    };
    let row = &entries.row_ids[found.row as usize];
    let column = &entries.column_ids[found.column as usize];
    let (what, of_row, of_column) = (&args.value, &args.row, &args.column);
    Err(in_file(&args.file)(format_args!(
        "{what} of {of_row} {row:?} and {of_column} {column:?}: {:?} {rule}",
        found.value
    )))
}

/// Features of named rows or columns; what a file does not know of a name is the mean of the others.
pub(crate) fn features(
    file: Option<&Path>,
    names: &[String],
    layout: &Layout,
    quiet: bool,
) -> Result<Option<Features>> {
    let Some(path) = file else { return Ok(None) };
    let given = Given::read(path, quiet)?;
    let options = given.options_beside(layout, quiet)?;
    let mut schema = given.guess(&options)?.schema;
    let Some(id) = schema.columns.first().map(|column| column.name.clone()) else {
        let rule = "has no column; the first one must name what the features are of";
        return Err(in_file(path)(rule));
    };
    schema.set_role(&id, Role::RowId).map_err(Failure::failed)?;
    let rules = ReadingRules {
        layout: options,
        ..ReadingRules::default()
    };
    let (data, _) = given.by_schema(&schema, &rules)?;
    let table = Design::new(&data.schema)
        .table(&data.features)
        .map_err(Failure::failed)?;
    let ids = data.row_ids.unwrap_or_default();
    let at = join::places(path, &ids)?;
    let wanted: Vec<Option<String>> = names.iter().cloned().map(Some).collect();
    let at = join::joined(path, &wanted, &at, quiet)?;
    let stats = npb_data::Standardiser::fit(&table);
    let mut values = Vec::with_capacity(names.len() * table.n_cols());
    for row in at {
        for j in 0..table.n_cols() {
            let value = row.and_then(|i| table.get(i, j));
            values.push(value.map_or(0.0, |v| (v - stats.mean()[j]) / stats.sd()[j]));
        }
    }
    Features::dense(names.len(), table.n_cols(), &values)
        .map(Some)
        .map_err(Failure::failed)
}

fn load(model: &ModelFile, verb: &str) -> Result<BsvdFit> {
    if model.is(ModelKind::Ratings) {
        return model.fit();
    }
    let kinds = match verb {
        "recommend" => "ratings or groups",
        _ => "ratings",
    };
    Err(model.cannot(verb, kinds))
}

/// Pairs of row and column, predicted.
pub(crate) fn predict(
    args: &PredictArgs,
    model: &ModelFile,
    level: f64,
    quiet: bool,
) -> Result<()> {
    let fit = load(model, "predict")?;
    let pairs = pairs(args, model, quiet)?;
    let (cells, known) = cells(&fit, &pairs, args, quiet)?;
    let predictions = fit.predict_all(&cells, level);
    let predictions = predictions.map_err(in_file(args.file()))?;
    let mut sheet = Sheet::new(&[
        model.place(0, "row"),
        model.place(1, "column"),
        "mean",
        "sd",
        "lower",
        "upper",
        "predictive_sd",
        "predictive_lower",
        "predictive_upper",
    ]);
    let mut predictions = predictions.iter();
    for (pair, known) in pairs.into_iter().zip(known) {
        let prediction = known.then(|| predictions.next()).flatten();
        let numbers = prediction.map(|p| {
            let (inner, outer) = (p.interval, p.predictive_interval);
            let mean = [p.mean, p.sd, inner.lower, inner.upper];
            let value = [p.predictive_sd, outer.lower, outer.upper];
            mean.into_iter().chain(value).map(Cell::Number)
        });
        sheet.push_row(
            pair.map(Cell::Text)
                .into_iter()
                .chain(numbers.into_iter().flatten()),
        );
    }
    output::sheet(sheet, &args.how.out)
}

/// The names of row and column in each line of a file.
fn pairs(args: &PredictArgs, model: &ModelFile, quiet: bool) -> Result<Vec<[String; 2]>> {
    let (file, of_fit) = (args.file(), Some(&model.origin.layout));
    let given = Given::read(file, quiet)?;
    let (text, options) = given.into_text(&args.how.layout, of_fit, quiet)?;
    let name = file.display().to_string();
    let lines = read::delimited_strings(&name, text.as_slice(), &options);
    let lines = lines.map_err(|e| unreadable(&e))?;
    let [row, column, _] = model.places.as_slice() else {
        let rule = "does not say which columns hold row and column";
        return Err(in_file(&model.path)(rule));
    };
    let find = |wanted: &String| {
        let position = match place(wanted, &options) {
            Column::Index(index) => Some(index).filter(|&j| j < lines.column_names.len()),
            Column::Name(wanted) => lines.column_names.iter().position(|name| *name == wanted),
        };
        position.ok_or_else(|| {
            in_file(file)(format_args!(
                "there is no column {wanted:?}, which the fit had"
            ))
        })
    };
    let places = [(find(row)?, "row"), (find(column)?, "column")];
    let names = |(number, line): (usize, &Vec<Option<String>>)| {
        let name = |(at, what): (usize, &str)| {
            line[at].clone().ok_or_else(|| {
                in_file(file)(format_args!("row {}: the {what} is missing", number + 1))
            })
        };
        Ok([name(places[0])?, name(places[1])?])
    };
    lines.rows.iter().enumerate().map(names).collect()
}

/// The cells of pairs that the fit knows, and which these are; the others are said.
fn cells(
    fit: &BsvdFit,
    pairs: &[[String; 2]],
    args: &PredictArgs,
    quiet: bool,
) -> Result<(Cells, Vec<bool>)> {
    let mut cells = Cells::default();
    let mut known = vec![true; pairs.len()];
    let mut first_unknown = None;
    for (at, [row, column]) in pairs.iter().enumerate() {
        match (fit.row(row), fit.column(column)) {
            (Ok(i), Ok(j)) => {
                cells.rows.push(i as u32);
                cells.columns.push(j as u32);
            }
            (Err(e), _) | (_, Err(e)) => {
                known[at] = false;
                first_unknown.get_or_insert((at, e));
            }
        }
    }
    if let Some((at, e)) = first_unknown {
        let of_fit = fit.row_names().iter().chain(fit.column_names());
        let names = pairs[at].each_ref().map(String::as_str);
        let alike = join::alike(&names, of_fit.map(String::as_str));
        let first = format!("row {}: {e}{alike}", at + 1);
        if args.how.rules.unseen_levels == Rule::Error {
            let text = format_args!("{first}; --unseen-levels missing goes on");
            return Err(in_file(args.file())(text));
        }
        let n = known.iter().filter(|known| !**known).count();
        let text = format_args!("{first}; {n} such lines have no prediction");
        note_of(quiet, args.file(), text);
    }
    // What was observed there is not looked at, but must be possible.
    cells.values = vec![1.0; cells.rows.len()];
    Ok((cells, known))
}

/// Ratings that are known beside those of the fit, by the names of their rows, at the places of its columns.
#[derive(Default)]
struct Known(Vec<(String, usize, f64)>);

impl Known {
    /// Of a file; those of columns that the fit has not are left out, with a count.
    fn read(
        file: Option<&Path>,
        (fit, model): (&BsvdFit, &ModelFile),
        layout: &Layout,
        quiet: bool,
    ) -> Result<Self> {
        let Some(path) = file else {
            return Ok(Self::default());
        };
        let how = How::like_training(layout, model, quiet);
        let (file, _) = triplets(path, &model.places, &how)?;
        let places: Vec<Option<usize>> = file
            .column_ids
            .iter()
            .map(|id| fit.column(id).ok())
            .collect();
        unknown_items(path, (&file.column_ids, &places), fit.column_names(), quiet);
        let entry = |entry: &npb_data::Rating| {
            let row = file.row_ids[entry.row as usize].clone();
            Some((row, places[entry.column as usize]?, entry.value))
        };
        Ok(Self(file.entries.iter().filter_map(entry).collect()))
    }

    /// Columns and values of a row.
    fn of<'a>(&'a self, row: &'a str) -> impl Iterator<Item = (usize, f64)> + 'a {
        let own = self.0.iter().filter(move |(name, ..)| name == row);
        own.map(|&(_, column, value)| (column, value))
    }
}

/// Says which names of a file the fit has not.
pub(crate) fn unknown_items(
    path: &Path,
    (names, places): (&[String], &[Option<usize>]),
    of_fit: &[String],
    quiet: bool,
) {
    let mut unknown = names
        .iter()
        .zip(places)
        .filter(|(_, place)| place.is_none());
    let n = unknown.clone().count();
    if let Some((first, _)) = unknown.next() {
        let all = names.len();
        let alike = join::alike(&[first.as_str()], of_fit.iter().map(String::as_str));
        let text = format_args!(
            "{n} of {all} names are not in the fit, such as {first:?}: left out{alike}"
        );
        note_of(quiet, path, text);
    }
}

/// What is best.
#[derive(Clone, Copy)]
enum By {
    /// Chance of a rating at all times that of a like.
    Choice,
    Mean,
    /// Probability of a rating of at least this.
    AtLeast(f64),
}

fn by(text: &str) -> Result<By> {
    let inner = text
        .trim()
        .strip_prefix("P(")
        .and_then(|rest| rest.strip_suffix(')'));
    match (
        text.trim(),
        inner.and_then(|rest| rest.trim().strip_prefix(">=")),
    ) {
        ("choice", _) => Ok(By::Choice),
        ("mean", _) => Ok(By::Mean),
        (_, Some(number)) => number
            .trim()
            .parse()
            .ok()
            .filter(|least: &f64| least.is_finite())
            .map(By::AtLeast)
            .ok_or_else(|| Failure::usage(format_args!("--by {text}: {number:?} is not a number"))),
        _ => Err(Failure::usage(format_args!(
            "--by {text}: write choice, mean, or a probability such as 'P(>=4)'"
        ))),
    }
}

pub(crate) fn recommend(args: &RecommendArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    let how = by(&args.by)?;
    if args.liked.is_some() && !matches!(how, By::Choice) {
        return Err(Failure::usage(
            "--liked: goes with --by choice; a probability says itself what is a like",
        ));
    }
    let fit = load(model, "recommend")?;
    let known = Known::read(args.exclude.as_deref(), (&fit, model), &args.layout, quiet)?;
    let column = model.place(1, "column");
    let own: Vec<(usize, f64)> = known.of(&args.row).collect();
    let mut rated: Vec<u32> = own.iter().map(|&(column, _)| column as u32).collect();
    let sheet = match fit.row(&args.row) {
        Ok(row) => {
            rated.extend(fit.observed().nth(row).unwrap_or_default());
            let of_row = OfRow {
                fit: &fit,
                row,
                rated,
            };
            of_row.recommend(args, how, column)?
        }
        // Somebody new, known by the ratings of the file.
        Err(_) if !own.is_empty() => {
            if matches!(how, By::Choice) {
                let why = "was not in the fit: known by the ratings of --exclude, by their means";
                note(quiet, format_args!("--row {} {why}", args.row));
            }
            let new = fit.fold_in_row(&own, &[]).map_err(|e| {
                Failure::bad_data(format_args!(
                    "--row {}: is not in the fit, and cannot be added: {e}",
                    args.row
                ))
            })?;
            let chance = |j: usize| new.cell(j);
            let top = || new.top(args.top, &rated);
            ranked(&fit, (args.top, &rated), how, column, chance, top)?
        }
        Err(e) => {
            return Err(Failure::usage(format_args!(
                "--row: {e}; ratings of somebody new go into the file of --exclude"
            )));
        }
    };
    output::sheet(sheet, &args.out)
}

/// A row of the fit, and the columns that are not recommended.
struct OfRow<'a> {
    fit: &'a BsvdFit,
    row: usize,
    rated: Vec<u32>,
}

impl OfRow<'_> {
    fn recommend(&self, args: &RecommendArgs, how: By, column: &str) -> Result<Sheet> {
        let Self { fit, row, rated } = self;
        let By::Choice = how else {
            let cell = |j: usize| fit.cell(*row, j);
            let top = || fit.top(*row, args.top, rated);
            return ranked(fit, (args.top, rated), how, column, cell, top);
        };
        let mut sheet = Sheet::new(&[column, "P(rated)", "P(like)", "mean", "sd"]);
        let best = fit.recommend(*row, args.top, args.liked, Some(rated));
        for best in best.map_err(|e| match e {
            BsvdError::Argument { .. } => Failure::usage(format_args!("--liked: {e}")),
            e => Failure::failed(e),
        })? {
            let numbers = [best.exposure, best.liked, best.mean, best.sd].map(Cell::Number);
            sheet.push_row([named(best.name, best.index)].into_iter().chain(numbers));
        }
        Ok(sheet)
    }
}

fn named(name: Option<String>, j: usize) -> Cell {
    Cell::Text(name.unwrap_or_else(|| j.to_string()))
}

/// Columns by their means, or by the probability of a rating of at least so much.
fn ranked<'f>(
    fit: &BsvdFit,
    (n, rated): (usize, &[u32]),
    how: By,
    column: &str,
    cell: impl Fn(usize) -> std::result::Result<CellPosterior<'f>, BsvdError>,
    top: impl Fn() -> std::result::Result<Vec<Ranked>, BsvdError>,
) -> Result<Sheet> {
    let By::AtLeast(least) = how else {
        let mut sheet = Sheet::new(&[column, "mean", "sd", "P(in top)"]);
        for best in top().map_err(Failure::failed)? {
            let numbers = [best.mean, best.sd, best.in_top].map(Cell::Number);
            sheet.push_row([named(best.name, best.index)].into_iter().chain(numbers));
        }
        return Ok(sheet);
    };
    let open = (0..fit.n_cols()).filter(|j| !rated.contains(&(*j as u32)));
    let chance = |j: usize| {
        let cell = cell(j)?;
        // Just below, so that a level itself counts.
        Ok((j, 1.0 - cell.cdf(least - 1e-9), cell.mean(), cell.sd()))
    };
    let mut all = open
        .map(chance)
        .collect::<std::result::Result<Vec<_>, BsvdError>>()
        .map_err(Failure::failed)?;
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)));
    let mut sheet = Sheet::new(&[column, &format!("P(>={least})"), "mean", "sd"]);
    for (j, chance, mean, sd) in all.into_iter().take(n) {
        let numbers = [chance, mean, sd].map(Cell::Number);
        let name = named(fit.column_names().get(j).cloned(), j);
        sheet.push_row([name].into_iter().chain(numbers));
    }
    Ok(sheet)
}

pub(crate) fn next(args: &NextArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let fit = load(&model, "next")?;
    let failed = |e: &dyn Display| Failure::failed(format_args!("{}: {e}", args.model.display()));
    let known = Known::read(args.exclude.as_deref(), (&fit, &model), &args.layout, quiet)?;
    let only = match &args.row {
        None => None,
        Some(row) => Some(
            fit.row(row)
                .map_err(|e| Failure::usage(format_args!("--row: {e}")))?,
        ),
    };
    let open = open_cells(&fit, &known, only).map_err(|e| failed(&e))?;
    let wanted = fit
        .next_cells(&open, args.n, Acquisition::Uncorrelated)
        .map_err(|e| failed(&e))?;
    let places = [0, 1].map(|k| model.place(k, ""));
    let mut sheet = Sheet::new(&[places[0], places[1], "sd", "remaining_sd"]);
    let name = |names: &[String], k: u32| Cell::from(names.get(k as usize).map(String::as_str));
    for cell in wanted {
        sheet.push_row([
            name(fit.row_names(), cell.row),
            name(fit.column_names(), cell.column),
            Cell::Number(cell.sd),
            Cell::Number(cell.remaining_sd),
        ]);
    }
    output::sheet(sheet, &args.out)
}

/// Cells that neither the fit nor the file of ratings knows: of a row all, of the matrix some thousand at random.
fn open_cells(
    fit: &BsvdFit,
    known: &Known,
    only: Option<usize>,
) -> std::result::Result<Cells, npb_data::DataError> {
    let at_fit = (0..).zip(fit.observed());
    let at_fit = at_fit.flat_map(|(row, columns)| columns.iter().map(move |&j| (row, j)));
    let later = known.0.iter();
    let later = later.filter_map(|(row, j, _)| Some((fit.row(row).ok()? as u32, *j as u32)));
    let taken: BTreeSet<(u32, u32)> = at_fit.chain(later).collect();
    if let Some(row) = only {
        let row = row as u32;
        let columns = (0..fit.n_cols() as u32).filter(|&j| !taken.contains(&(row, j)));
        let columns: Vec<u32> = columns.collect();
        return Ok(Cells {
            rows: vec![row; columns.len()],
            values: Vec::new(),
            columns,
        });
    }
    let entry = |(row, column)| npb_data::Rating {
        row,
        column,
        value: 1.0,
    };
    let entries: Vec<_> = taken.into_iter().map(entry).collect();
    let ratings = npb_data::Ratings::new(fit.n_rows(), fit.n_cols(), &entries)?;
    Ok(Cells::unobserved(&ratings, CANDIDATES, 0))
}

/// Posterior of the rank, scalar by scalar: for `npb summary`.
pub(crate) fn ranks(model: &ModelFile) -> Result<Sheet> {
    let fit = load(model, "summary")?;
    let ranks = fit.rank_distribution().map_err(Failure::failed)?;
    let mut sheet = Sheet::new(&["rank", "probability"]);
    for (&p, rank) in ranks.iter().zip(0..).filter(|(p, _)| **p > 0.0) {
        sheet.push_row([Cell::Whole(rank), Cell::Number(p)]);
    }
    Ok(sheet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_best() {
        assert!(matches!(by("choice"), Ok(By::Choice)));
        assert!(matches!(by("mean"), Ok(By::Mean)));
        assert!(matches!(by(" P( >= 3.5) "), Ok(By::AtLeast(3.5))));
        for wrong in ["", "P(4)", "P(>=x)", "P(>=nan)", "sd"] {
            assert!(by(wrong).is_err(), "{wrong}");
        }
    }
}
