//! Files by a schema.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use npb_data::read::{
    self, Arff, DelimitedOptions, Encoding, FirstLines, ReadError, ReadProblem, ReadingReport,
    ReadingRules, Separator, Unexpected,
};
use npb_data::schema::{Design, Kind, Role, Schema, SchemaData, SchemaError, SchemaGuess};
use npb_data::{RawTable, Table};

use crate::args::{Layout, Rule, Training};
use crate::failure::{Failure, Result, in_file};
use crate::model::{ModelFile, Origin};

/// With more columns of numbers than this, something is said.
const MANY_COLUMNS: usize = 200;

/// The features as numbers.
pub(crate) fn numbers(data: &SchemaData, file: &Path, quiet: bool) -> Result<Table> {
    let design = Design::new(&data.schema);
    let table = design.table(&data.features).map_err(in_file(file))?;
    let widest = design
        .names()
        .into_iter()
        .max_by_key(Vec::len)
        .unwrap_or_default();
    if table.n_cols() > MANY_COLUMNS && widest.len() > 1 {
        let text = format_args!(
            "{} columns of numbers, {} of them for the levels of one column ({}, ...); --ignore leaves columns out",
            table.n_cols(),
            widest.len(),
            widest[0]
        );
        note_of(quiet, file, text);
    }
    Ok(table)
}

/// The last part of a path.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Everything in a file, or on standard input for `-`.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().read_to_end(&mut bytes),
        false => {
            check_size(path)?;
            File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
        }
    };
    read.map_err(cannot_read(path))?;
    Ok(bytes)
}

pub(crate) fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |e| in_file(path)(format_args!("cannot read: {e}"))
}

/// Refuses a file that has more bytes than half of the memory that is free: its cells need as much again.
pub(crate) fn check_size(path: &Path) -> Result<()> {
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    match free_memory() {
        Some(free) if size > free / 2 => Err(in_file(path)(format_args!(
            "has {:.1} GB, more than half of the {:.1} GB of memory that are free; split it, or leave out columns",
            size as f64 / 1e9,
            free as f64 / 1e9
        ))),
        _ => Ok(()),
    }
}

/// In bytes, where the system says it.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// A file with columns: text, or columns that have types of their own.
pub(crate) struct Given {
    path: PathBuf,
    name: String,
    content: Content,
    /// What a file says itself of its columns.
    declared: Option<SchemaGuess>,
    /// Columns of types that are not read.
    left_out: Vec<String>,
}

enum Content {
    Text(Vec<u8>),
    Raw(RawTable),
}

impl Given {
    /// A whole file. Parquet, Arrow and .npy files are recognised by their first bytes.
    pub(crate) fn read(path: &Path, quiet: bool) -> Result<Self> {
        Self::read_only(path, None, quiet)
    }

    /// The same, of columns that have types only those that a schema names.
    fn read_only(path: &Path, schema: Option<&Schema>, quiet: bool) -> Result<Self> {
        let bytes = bytes(path)?;
        let name = path.display().to_string();
        let (mut declared, mut left_out) = (None, Vec::new());
        let content = if npb_arrow::Format::of(&bytes).is_some() {
            let only = match schema {
                Some(schema) => schema.columns.iter().map(|c| c.name.clone()).collect(),
                None => {
                    let (readable, others) = readable(&name, &bytes, quiet)?;
                    left_out = others;
                    readable
                }
            };
            let options = npb_arrow::Options { only: Some(only) };
            let table = npb_arrow::read(&name, bytes, &options);
            Content::Raw(table.map_err(Failure::bad_data)?)
        } else {
            match untyped(path, bytes, io::empty())? {
                Untyped::Text(bytes, _) => Content::Text(bytes),
                Untyped::Table(table, guess) => {
                    declared = guess;
                    Content::Raw(table)
                }
            }
        };
        Ok(Self {
            path: path.to_owned(),
            name,
            content,
            declared,
            left_out,
        })
    }

    /// How it is laid out: [`laid_out`].
    pub(crate) fn options(
        &self,
        layout: &Layout,
        of_fit: Option<&DelimitedOptions>,
        quiet: bool,
    ) -> Result<DelimitedOptions> {
        let text = match &self.content {
            Content::Text(text) => Some(text.as_slice()),
            Content::Raw(_) => None,
        };
        laid_out(&self.path, text, layout, of_fit, quiet)
    }

    /// How a file beside the one that the options are of is laid out: as these say, but for what its first lines show.
    pub(crate) fn options_beside(&self, layout: &Layout, quiet: bool) -> Result<DelimitedOptions> {
        let asked = layout.over(&usual(&self.path))?;
        let Content::Text(text) = &self.content else {
            return Ok(asked);
        };
        let guess = asked.sniffed(text);
        let (mut options, mut differs) = (guess.options, guess.differs);
        match guess.first_lines {
            FirstLines::NoHeader => {
                options.header = false;
                differs.push("the first line is like the others, and taken for data".to_owned());
            }
            FirstLines::Header => {
                options.header = true;
                differs.push("the first line is taken for names".to_owned());
            }
            FirstLines::AsExpected | FirstLines::TwoHeaders => {}
        }
        if !differs.is_empty() {
            self.note(quiet, differs.join(", "));
        }
        Ok(options)
    }

    fn note(&self, quiet: bool, text: impl Display) {
        note_of(quiet, &self.path, text);
    }

    /// The schema that it suggests.
    pub(crate) fn guess(&self, options: &DelimitedOptions) -> Result<SchemaGuess> {
        match (&self.content, &self.declared) {
            (_, Some(declared)) => Ok(declared.clone()),
            (Content::Raw(table), None) => Ok(Schema::guess_raw(&self.name, table)),
            (Content::Text(text), None) => {
                Schema::guess(&self.name, text.as_slice(), options).map_err(|e| unreadable(&e))
            }
        }
    }

    /// Its data by a schema.
    pub(crate) fn by_schema(
        self,
        schema: &Schema,
        rules: &ReadingRules,
    ) -> Result<(SchemaData, ReadingReport)> {
        let read = match self.content {
            Content::Raw(table) => read::raw_with_schema(&self.name, table, schema, rules),
            Content::Text(text) => read::with_schema(&self.name, text.as_slice(), schema, rules),
        };
        read.map_err(|e| unreadable(&e))
    }

    /// Its text with the layout; that of typed columns is plain.
    pub(crate) fn into_text(
        self,
        layout: &Layout,
        of_fit: Option<&DelimitedOptions>,
        quiet: bool,
    ) -> Result<(Vec<u8>, DelimitedOptions)> {
        let options = self.options(layout, of_fit, quiet)?;
        let table = match self.content {
            Content::Text(text) => return Ok((text, options)),
            Content::Raw(table) => table,
        };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer
            .write_record(table.names())
            .map_err(Failure::failed)?;
        for row in 0..table.n_rows() {
            let cells = table.columns().iter();
            let cells = cells.map(|column| column.text(row).unwrap_or_default());
            writer.write_record(cells).map_err(Failure::failed)?;
        }
        let text = writer
            .into_inner()
            .map_err(|e| Failure::failed(e.error()))?;
        Ok((text, DelimitedOptions::default()))
    }
}

/// A file of no types that Arrow knows.
pub(crate) enum Untyped {
    /// The beginning of a text, and the rest.
    Text(Vec<u8>, Box<dyn Read>),
    /// A table, and what the file says of its columns.
    Table(RawTable, Option<SchemaGuess>),
}

/// What a file holds, by its first bytes: .npy and ARFF are read.
pub(crate) fn untyped(
    path: &Path,
    mut beginning: Vec<u8>,
    mut rest: impl Read + 'static,
) -> Result<Untyped> {
    if npb_data::is_npy(&beginning) {
        let read = rest.read_to_end(&mut beginning);
        read.map_err(cannot_read(path))?;
        let table = npb_data::read_npy(&beginning);
        return Ok(Untyped::Table(table.map_err(in_file(path))?, None));
    }
    if !Arff::is_beginning(&beginning) {
        return Ok(Untyped::Text(beginning, Box::new(rest)));
    }
    let name = path.display().to_string();
    let file =
        read::arff(&name, io::Cursor::new(beginning).chain(rest)).map_err(|e| unreadable(&e))?;
    let (table, guess) = file.into_raw(&name);
    Ok(Untyped::Table(table, Some(guess)))
}

/// How a file is laid out, with the beginning of its text if it is one: as the options say; else as its first lines suggest, or as the file of the fit, or as files of its name usually are. What is not usual is said.
pub(crate) fn laid_out(
    path: &Path,
    text: Option<&[u8]>,
    layout: &Layout,
    of_fit: Option<&DelimitedOptions>,
    quiet: bool,
) -> Result<DelimitedOptions> {
    let usual = of_fit.cloned().unwrap_or_else(|| usual(path));
    let asked = layout.over(&usual)?;
    let Some(text) = text else {
        return Ok(asked);
    };
    let guess = asked.sniffed(text);
    if layout.separator.is_some() && guess.options.separator != asked.separator {
        return Ok(asked);
    }
    let mut options = layout.over(&guess.options)?;
    if !guess.differs.is_empty() && options != asked {
        let how = "--separator, --decimal, --quote and --comment say otherwise";
        note_of(
            quiet,
            path,
            format_args!("{} ({how})", guess.differs.join(", ")),
        );
    }
    match guess.first_lines {
        FirstLines::AsExpected => {}
        FirstLines::NoHeader => note_of(
            quiet,
            path,
            "the first line is taken for names, and looks like the others; where it is data, say --no-header",
        ),
        FirstLines::TwoHeaders => note_of(
            quiet,
            path,
            "the second line has texts where the others have numbers; where it is a second line of names, delete it",
        ),
        // The file of the fit had none.
        FirstLines::Header if !layout.no_header => {
            options.header = true;
            note_of(quiet, path, "the first line is taken for names");
        }
        FirstLines::Header => {
            return Err(Failure::usage(format_args!(
                "{}: the first line has texts where the others have numbers, so that it holds the names of the columns; leave out --no-header",
                path.display()
            )));
        }
    }
    Ok(options)
}

/// The columns of a file with types that can be read, and the others, which are said.
fn readable(name: &str, bytes: &[u8], quiet: bool) -> Result<(HashSet<String>, Vec<String>)> {
    let columns = npb_arrow::columns(name, bytes).map_err(Failure::bad_data)?;
    for column in columns.iter().filter(|column| !column.readable) {
        let (of, kind) = (&column.name, &column.kind);
        note(
            quiet,
            format_args!("{name}: column {of:?}: is of type {kind}, which is not read: left out"),
        );
    }
    let (readable, others): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|column| column.readable);
    let names = |columns: Vec<npb_arrow::StoredColumn>| columns.into_iter().map(|c| c.name);
    Ok((names(readable).collect(), names(others).collect()))
}

/// Everything in a text file.
pub(crate) fn text(path: &Path) -> Result<String> {
    String::from_utf8(bytes(path)?).map_err(|_| in_file(path)("is not UTF-8 text"))
}

/// How files of this name are laid out.
fn usual(path: &Path) -> DelimitedOptions {
    let usual = DelimitedOptions::default();
    let name = path.to_string_lossy().to_lowercase();
    let name = name.trim_end_matches(".gz");
    match name.ends_with(".tsv") || name.ends_with(".tab") {
        true => DelimitedOptions {
            separator: Separator::Char('\t'),
            ..usual
        },
        false => usual,
    }
}

impl Layout {
    /// What is asked for, on top of what else there is.
    pub(crate) fn over(&self, usual: &DelimitedOptions) -> Result<DelimitedOptions> {
        let mut options = usual.clone();
        match self.separator.as_deref() {
            None => {}
            Some("tab" | "\\t") => options.separator = Separator::Char('\t'),
            Some("blanks") => options.separator = Separator::Blanks,
            Some("") => return Err(Failure::usage("--separator must not be empty")),
            Some(mark) => {
                options.separator = match mark.chars().collect::<Vec<_>>().as_slice() {
                    [one] if one.is_ascii() => Separator::Char(*one),
                    _ => Separator::Text(mark.to_owned()),
                }
            }
        }
        match self.quote.as_deref() {
            None => {}
            Some("none") => options.quote = None,
            Some(mark) => match mark.chars().collect::<Vec<_>>().as_slice() {
                [one] => options.quote = Some(*one),
                _ => {
                    let rule = "must be one character, or none";
                    return Err(Failure::usage(format_args!("--quote {mark}: {rule}")));
                }
            },
        }
        let more = self.missing.iter();
        let more = more.filter(|mark| !usual.missing.contains(mark));
        options.missing.extend(more.cloned());
        options.header &= !self.no_header;
        options.decimal = self.decimal.unwrap_or(options.decimal);
        options.thousands = self.thousands.or(options.thousands);
        options.comment = self.comment.or(options.comment);
        if self.latin1 {
            options.encoding = Encoding::Latin1;
        }
        Ok(options)
    }
}

/// An error of a reader, in the names of the command line.
pub(crate) fn unreadable(error: &ReadError) -> Failure {
    let options = [
        (
            "option unseen_levels be \"missing\"",
            "option --unseen-levels be missing",
        ),
        (
            "option missing_columns be \"missing\"",
            "option --missing-columns be missing",
        ),
        (
            "option impossible_values be \"missing\"",
            "option --impossible-values be missing",
        ),
        ("option decimal to", "option --decimal to"),
        ("option thousands to", "option --thousands to"),
        ("and thousands to", "and --thousands to"),
        ("set decimal to", "set --decimal to"),
        ("by the option thousands", "by the option --thousands"),
        (
            "names must differ",
            "names must differ; where the first line is data, say --no-header",
        ),
        ("add it to the missing marks", "name it by --missing"),
        (
            "or read it as Latin-1 where the reader has that option",
            "or say --latin1",
        ),
    ];
    if let ReadProblem::Fields { found, expected } = *error.problem {
        return uneven(error, found, expected);
    }
    let plain = error.to_string();
    let message = options
        .iter()
        .fold(plain, |text, (library, here)| text.replace(library, here));
    Failure::bad_data(message)
}

/// A line with another number of fields than the first one.
fn uneven(error: &ReadError, found: usize, expected: usize) -> Failure {
    let why = match (found, expected) {
        (_, 1) => {
            "the first line is no list of names, or fields are separated otherwise: say --separator, pass over lines above the table by --comment, or delete them"
        }
        _ if found == expected + 1 => {
            "where lines begin with the name of a row, as R writes them, or end with a separator, give the first line one name more"
        }
        _ if found < expected => {
            "where a line is broken or its last fields are left out, complete it; where it is a comment, say --comment"
        }
        _ => {
            "where a field holds the separator, put it between quotes (--quote), or say --separator"
        }
    };
    Failure::bad_data(format_args!("{error}; {why}"))
}

/// The schema in a file.
pub(crate) fn read_schema(path: &Path) -> Result<Schema> {
    Schema::from_toml(&text(path)?).map_err(in_file(path))
}

/// A note that is no error.
pub(crate) fn note(quiet: bool, text: impl Display) {
    if !quiet {
        let _ = writeln!(io::stderr(), "npb: {text}");
    }
}

/// A note about a file.
pub(crate) fn note_of(quiet: bool, file: &Path, text: impl Display) {
    note(quiet, format_args!("{}: {text}", file.display()));
}

/// Lines to standard error about what was not as expected.
pub(crate) fn warn(quiet: bool, file: &Path, lines: &str) {
    for line in lines.lines() {
        note_of(quiet, file, line);
    }
}

/// The schema that the file of a fit suggests; what is notable about its columns is said.
fn suggested(
    training: &Training,
    given: &Given,
    options: &DelimitedOptions,
    quiet: bool,
) -> Result<Schema> {
    let guess = given.guess(options)?;
    for (column, guess) in guess.schema.columns.iter().zip(&guess.guesses) {
        if guess.notable && training.id.as_ref() != Some(&column.name) {
            given.note(
                quiet,
                format_args!("column {:?}: {}", column.name, guess.why),
            );
        }
    }
    Ok(guess.schema)
}

/// An option that names a column which the file of a fit does not have, or cannot have in that role.
fn wrong_column(training: &Training) -> impl Fn(SchemaError) -> Failure + '_ {
    |e| Failure::usage(format_args!("{}: {e}", training.file.display()))
}

/// What the columns of the file of a fit are: as a schema says, or as the file suggests.
pub(crate) fn schema(training: &Training) -> Result<Schema> {
    if let Some(path) = &training.schema {
        return read_schema(path);
    }
    let given = Given::read(&training.file, true)?;
    let options = given.options(&training.layout, None, true)?;
    let mut schema = given.guess(&options)?.schema;
    for name in training.ignore.iter().chain(&training.id) {
        let ignored = schema.set_role(name, Role::Ignored);
        ignored.map_err(wrong_column(training))?;
    }
    Ok(schema)
}

/// The columns of these roles, if the schema does not say.
#[derive(Clone, Copy, Default)]
pub(crate) struct Roles<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
}

impl Roles<'_> {
    /// Gives the columns of a schema the roles that the options say.
    fn put(self, schema: &mut Schema, training: &Training, left_out: &[String]) -> Result<()> {
        let wrong = wrong_column(training);
        if let Some(label) = self.label {
            if let Some(old) = schema.columns.iter_mut().find(|c| c.role == Role::Label) {
                old.role = Role::Ignored;
            }
            let at = schema.position(label).map_err(&wrong)?;
            let column = &mut schema.columns[at];
            if !column.kind.has_levels() {
                // Whatever its texts look like, they are classes.
                (column.kind, column.period, column.date) = (Kind::Categorical, None, None);
            }
        }
        // What cannot be read is left out already.
        let ignored = training
            .ignore
            .iter()
            .filter(|&name| !left_out.contains(name));
        let roles = [
            (self.label, Role::Label),
            (training.id.as_deref(), Role::RowId),
            (self.group, Role::Group),
        ];
        let roles = roles
            .into_iter()
            .filter_map(|(name, role)| Some((name?, role)));
        for (name, role) in roles.chain(ignored.map(|name| (name.as_str(), Role::Ignored))) {
            schema.set_role(name, role).map_err(&wrong)?;
        }
        Ok(())
    }
}

/// Reads the file of a fit.
pub(crate) fn training(
    training: &Training,
    roles: Roles<'_>,
    quiet: bool,
) -> Result<(SchemaData, Origin)> {
    let file = &training.file;
    let declared = training.schema.as_deref().map(read_schema).transpose()?;
    let given = Given::read_only(file, declared.as_ref(), quiet)?;
    let origin = Origin {
        layout: given.options(&training.layout, None, quiet)?,
        declared: declared.is_some(),
    };
    let mut schema = match declared {
        Some(schema) => schema,
        None => suggested(training, &given, &origin.layout, quiet)?,
    };
    roles.put(&mut schema, training, &given.left_out)?;
    let rules = ReadingRules {
        layout: origin.layout.clone(),
        ..ReadingRules::default()
    };
    let (data, report) = given.by_schema(&schema, &rules)?;
    warn(quiet, file, &report.to_string());
    if data.weights.is_some() || (data.groups.is_some() && roles.group.is_none()) {
        let text = "this kind of model does not use weights or groups; they are left out";
        note_of(quiet, file, text);
    }
    match data.n_rows {
        0 => Err(in_file(file)("there is no row of data")),
        _ => Ok((data, origin)),
    }
}

/// Reads the file of a fit that goes on: by the schema of the model, of which nothing can change.
pub(crate) fn further(
    training: &Training,
    before: &ModelFile,
    quiet: bool,
) -> Result<(SchemaData, Origin)> {
    let file = &training.file;
    if training.schema.is_some() || training.id.is_some() || !training.ignore.is_empty() {
        return Err(Failure::usage(
            "--schema, --id, --ignore: with --continue the columns are those of the model file; leave these options out",
        ));
    }
    let mut schema = before.schema()?;
    schema
        .missing
        .extend(training.layout.missing.iter().cloned());
    let given = Given::read_only(file, Some(&schema), quiet)?;
    let layout = given.options(&training.layout, Some(&before.origin.layout), quiet)?;
    let rules = ReadingRules {
        layout: layout.clone(),
        missing_columns: Unexpected::Error,
        unseen_levels: Unexpected::Error,
        impossible_values: before.origin.impossible_values(),
    };
    let (data, report) = given.by_schema(&schema, &rules).map_err(without_options)?;
    warn(quiet, file, &report.to_string());
    let out = schema.with_role(Role::Ignored);
    let out: Vec<String> = out.map(|column| format!("{:?}", column.name)).collect();
    if !out.is_empty() {
        let text = format!(
            "left out as in the fit, whatever they hold by now: {}; fit all rows anew to use them",
            out.join(", ")
        );
        note_of(quiet, file, &text);
    }
    let origin = Origin {
        layout,
        declared: before.origin.declared,
    };
    match data.n_rows {
        0 => Err(in_file(file)("there is no row of data")),
        _ => Ok((data, origin)),
    }
}

/// An error of a reader where no option takes what is unexpected for missing.
pub(crate) fn without_options(error: Failure) -> Failure {
    let text = error.message.split(", or let the option").next();
    Failure {
        message: text.unwrap_or_default().to_owned(),
        ..error
    }
}

impl From<Rule> for Unexpected {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Error => Self::Error,
            Rule::Missing => Self::Missing,
        }
    }
}
