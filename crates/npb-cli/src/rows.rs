//! New rows, about which a model is asked: those of a file, some at a time.

use std::cell::Cell as Counter;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use npb_arrow::{FileReader, Source};
use npb_data::read::{
    DelimitedOptions, RawReader, ReadingReport, ReadingRules, TextReader, Unexpected, WrittenCells,
};
use npb_data::schema::{Design, Role, Schema, SchemaData};
use npb_data::{MixedTable, RawColumn, RawTable, Table};

use crate::args::HowToAsk;
use crate::failure::{Failure, Result, in_file};
use crate::input::{
    Untyped, cannot_read, check_size, laid_out, note_of, unreadable, untyped, warn,
};
use crate::job::Asking;
use crate::model::ModelFile;
use crate::output::Answers;
use crate::sheet::{Cell, Sheet, Type};

/// So many cells are asked about at once, and no more rows than this.
const CELLS: usize = 1 << 18;
const ROWS: usize = 1 << 16;

/// So much of a file is looked at to see what it is.
const BEGINNING: u64 = 1 << 17;

/// What a question needs of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs<'a> {
    /// Its rows all at once.
    pub(crate) all_rows: bool,
    /// The cells as they stand there.
    pub(crate) written: bool,
    /// Not these columns, which are asked for.
    pub(crate) targets: &'a [String],
}

/// Rows of a file, read as the file of the fit was.
pub(crate) struct NewRows<'a> {
    pub(crate) data: SchemaData,
    pub(crate) file: &'a Path,
    /// How many rows of the file are before these.
    pub(crate) before: usize,
    originals: Originals<'a>,
}

/// A column of a sheet.
pub(crate) type Named = (String, Type, Vec<Cell>);

/// Completed tables, with columns of standard deviations and of the ends of intervals.
pub(crate) type Completed = (Vec<MixedTable>, Vec<Named>);

impl NewRows<'_> {
    /// What a model finds wrong with them; it counts from the first of these rows.
    pub(crate) fn wrong<E: Display>(&self) -> impl Fn(E) -> Failure + '_ {
        let from = match self.before {
            0 => String::new(),
            n => format!("after {n} rows: "),
        };
        move |problem| in_file(self.file)(format_args!("{from}{problem}"))
    }

    /// How their features become numbers.
    pub(crate) fn design(&self) -> Design {
        Design::new(&self.data.schema)
    }

    /// Their features as numbers.
    pub(crate) fn numbers(&self) -> Result<Table> {
        let numbers = self.design().table(&self.data.features);
        numbers.map_err(self.wrong())
    }

    /// A table of answers, which begins with their names.
    pub(crate) fn sheet(&self) -> Sheet {
        Sheet::of_rows(&self.data, self.before)
    }

    /// Adds the completed features; cells that the file has are as it has them.
    pub(crate) fn push_completed(&self, completed: &MixedTable, sheet: &mut Sheet) {
        let first = sheet.width();
        sheet.push_features(&self.data.schema, completed);
        self.originals.put_back(&self.data.features, sheet, first);
    }
}

/// The cells of features as they stand in a file.
enum Originals<'a> {
    /// Nobody asks.
    None,
    Text(&'a WrittenCells, &'a DelimitedOptions),
    /// Columns that lose something as numbers, with their places among the features.
    Typed(Vec<(usize, RawColumn)>),
}

impl Originals<'_> {
    fn typed(table: &RawTable, schema: &Schema) -> Self {
        let loses = |cells: &RawColumn| matches!(cells, RawColumn::Whole(_) | RawColumn::Times(_));
        let features = schema.with_role(Role::Feature).enumerate();
        let columns = features.filter_map(|(k, feature)| {
            let at = table
                .names()
                .iter()
                .position(|name| *name == feature.name)?;
            let cells = Some(&table.columns()[at]).filter(|cells| loses(cells))?;
            Some((k, cells.clone()))
        });
        Self::Typed(columns.collect())
    }

    /// Puts the known cells of the features, which begin at a column of a sheet, back as they were.
    fn put_back(&self, known: &MixedTable, sheet: &mut Sheet, first: usize) {
        let is_known = |k: usize, row: usize| known.column(k).is_observed(row);
        match self {
            Self::None => {}
            Self::Text(written, options) => {
                for k in 0..known.n_cols() {
                    for row in (0..known.n_rows()).filter(|&row| is_known(k, row)) {
                        let cell = options.with_point(written.cell(row, k));
                        sheet.set_written(first + k, row, &cell);
                    }
                }
            }
            Self::Typed(columns) => {
                // Numbers hold whole numbers up to here.
                let exact = 1_i64 << 53;
                for (k, cells) in columns {
                    for row in (0..cells.len()).filter(|&row| is_known(*k, row)) {
                        let cell = match cells {
                            RawColumn::Whole(cells) => cells[row]
                                .filter(|v| !(-exact..=exact).contains(v))
                                .map(Cell::Stored),
                            RawColumn::Times(cells) => cells[row].map(Cell::Time),
                            _ => None,
                        };
                        if let Some(cell) = cell {
                            sheet.set(first + k, row, cell);
                        }
                    }
                }
            }
        }
    }
}

/// Asks about the rows of a file and writes the answers.
pub(crate) fn answer(
    model: &ModelFile,
    (file, how): (&Path, &HowToAsk),
    needs: Needs<'_>,
    quiet: bool,
    mut ask: impl FnMut(&NewRows<'_>) -> Result<Sheet>,
) -> Result<()> {
    let mut answers = Answers::open(&how.out)?;
    each(model, (file, how), needs, quiet, |rows| {
        answers.push(ask(rows)?)?;
        Ok(!answers.is_unread())
    })?;
    answers.finish()
}

/// Calls `visit` for the rows of a new file, some at a time, until it returns false; then says what was not as in the file of the fit. A file without rows is visited once. It is
/// laid out as the file of the fit unless its first lines or the options say otherwise.
pub(crate) fn each(
    model: &ModelFile,
    (file, how): (&Path, &HowToAsk),
    needs: Needs<'_>,
    quiet: bool,
    mut visit: impl FnMut(&NewRows<'_>) -> Result<bool>,
) -> Result<()> {
    let mut schema = model.schema()?;
    schema.missing.extend(how.layout.missing.iter().cloned());
    let n_rows = rows_at_once(&schema, how, needs);
    if n_rows == usize::MAX && file.as_os_str() != "-" {
        check_size(file)?;
    }
    let input = Input::open(file)?;
    let (n_bytes, length) = (input.n_bytes.clone(), input.length);
    let content = Content::of(file, input, &schema)?;
    let mut rules = rules(model, (file, how), content.text(), quiet)?;
    // Which of the columns that are not there may be so is looked at here.
    let strict = !needs.targets.is_empty() && rules.missing_columns == Unexpected::Error;
    if strict {
        rules.missing_columns = Unexpected::Missing;
    }
    let mut walk = Walk {
        file,
        schema: &schema,
        rules: &rules,
        n_rows,
        written: needs.written,
        only: strict.then_some(needs.targets),
        before: 0,
        asking: Asking::new(quiet)?,
        visit: &mut visit,
    };
    let mut report = match content {
        Content::Text(beginning, rest) => {
            let share = || Some(n_bytes.get() as f64 / length?.max(1) as f64);
            walk.through_text(Cursor::new(beginning).chain(rest), share)?
        }
        Content::Tables(tables) => walk.through_tables(tables)?,
    };
    walk.asking.end();
    let is_target = |name: &String| needs.targets.contains(name);
    report.absent.retain(|name| !is_target(name));
    warn(quiet, file, &report.to_string());
    if walk.before == 0 {
        note_of(quiet, file, "there is no row of data");
    }
    Ok(())
}

/// The way through a file.
struct Walk<'a> {
    file: &'a Path,
    schema: &'a Schema,
    rules: &'a ReadingRules,
    /// So many rows at a time.
    n_rows: usize,
    /// Whether cells are kept as they stand there.
    written: bool,
    /// The columns that alone may be absent, if any column may not.
    only: Option<&'a [String]>,
    before: usize,
    asking: Asking,
    visit: &'a mut dyn FnMut(&NewRows<'_>) -> Result<bool>,
}

impl Walk<'_> {
    fn through_text(
        &mut self,
        input: impl Read,
        share: impl Fn() -> Option<f64>,
    ) -> Result<ReadingReport> {
        let name = self.file.display().to_string();
        let reader = TextReader::new(&name, input, self.schema, self.rules);
        let mut reader = reader.map_err(|e| unreadable(&e))?;
        if self.written {
            reader = reader.keeping_texts();
        }
        while let Some(data) = reader.next(self.n_rows).map_err(|e| unreadable(&e))? {
            self.check_absent(&reader.report())?;
            let originals = match reader.written() {
                Some(written) => Originals::Text(written, &self.rules.layout),
                None => Originals::None,
            };
            if !self.go_on(data, originals, share())? {
                break;
            }
        }
        Ok(reader.report())
    }

    fn through_tables(&mut self, mut tables: Tables) -> Result<ReadingReport> {
        let name = self.file.display().to_string();
        let reader = RawReader::new(&name, self.schema, self.rules);
        let mut reader = reader.map_err(|e| unreadable(&e))?;
        while let Some((table, share)) = tables.next(self.n_rows)? {
            let originals = match self.written {
                true => Originals::typed(&table, self.schema),
                false => Originals::None,
            };
            let data = reader.next(table).map_err(|e| unreadable(&e))?;
            self.check_absent(&reader.report())?;
            if !self.go_on(data, originals, Some(share))? {
                break;
            }
        }
        Ok(reader.report())
    }

    fn check_absent(&self, report: &ReadingReport) -> Result<()> {
        let Some(only) = self.only else {
            return Ok(());
        };
        let absent = report.absent.iter().find(|name| !only.contains(name));
        absent.map_or(Ok(()), |name| {
            Err(in_file(self.file)(format_args!(
                "there is no column {name:?}, which the schema has; add it, or let the option --missing-columns be missing"
            )))
        })
    }

    fn go_on(
        &mut self,
        data: SchemaData,
        originals: Originals<'_>,
        share: Option<f64>,
    ) -> Result<bool> {
        let rows = NewRows {
            data,
            file: self.file,
            before: self.before,
            originals,
        };
        let go_on = (self.visit)(&rows)?;
        self.before += rows.data.n_rows;
        self.asking.hear(self.before, share)?;
        Ok(go_on)
    }
}

/// So many that their cells are about as many for every file. Levels that the schema does not list are those of the whole file.
fn rows_at_once(schema: &Schema, how: &HowToAsk, needs: Needs<'_>) -> usize {
    let mut columns = schema.columns.iter();
    let open = |role| matches!(role, Role::Feature | Role::Label);
    let lists_all = columns.all(|c| !c.kind.has_levels() || c.levels.is_some() || !open(c.role));
    if needs.all_rows || !lists_all {
        return usize::MAX;
    }
    let n_features = schema.with_role(Role::Feature).count();
    let usual = (CELLS / n_features.max(1)).clamp(1, ROWS);
    how.chunk_rows.map_or(usual, usize::from)
}

/// What is done where the file is not like that of the fit.
fn rules(
    model: &ModelFile,
    (file, how): (&Path, &HowToAsk),
    text: Option<&[u8]>,
    quiet: bool,
) -> Result<ReadingRules> {
    let (origin, rules) = (&model.origin, how.rules);
    Ok(ReadingRules {
        layout: laid_out(file, text, &how.layout, Some(&origin.layout), quiet)?,
        missing_columns: rules.missing_columns.into(),
        unseen_levels: rules.unseen_levels.into(),
        impossible_values: rules
            .impossible_values
            .map_or(origin.impossible_values(), Unexpected::from),
    })
}

/// An open file, or standard input; it counts what is read.
struct Input {
    from: Box<dyn Read>,
    /// A file that can be read anywhere.
    file: Option<File>,
    length: Option<u64>,
    n_bytes: Rc<Counter<u64>>,
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let of = |from: Box<dyn Read>, file, length| Self {
            from,
            file,
            length,
            n_bytes: Rc::default(),
        };
        if path.as_os_str() == "-" {
            return Ok(of(Box::new(io::stdin()), None, None));
        }
        let open = || {
            let file = File::open(path)?;
            let about = file.metadata()?;
            Ok(match about.is_file() {
                true => of(Box::new(file.try_clone()?), Some(file), Some(about.len())),
                false => of(Box::new(file), None, None),
            })
        };
        open().map_err(cannot_read(path))
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.from.read(to)?;
        self.n_bytes.set(self.n_bytes.get() + n_bytes as u64);
        Ok(n_bytes)
    }
}

/// What a file holds.
enum Content {
    /// The beginning of a text, and the rest.
    Text(Vec<u8>, Box<dyn Read>),
    Tables(Tables),
}

/// Raw columns.
enum Tables {
    /// Of a file that is read as it is needed.
    File(Box<FileReader>),
    /// All of them.
    Whole(Option<RawTable>),
}

impl Content {
    /// By the first bytes. Parquet and Arrow need a file in which they can go about: all of a pipe is read.
    fn of(path: &Path, mut input: Input, schema: &Schema) -> Result<Self> {
        let mut beginning = Vec::new();
        let read = input.by_ref().take(BEGINNING).read_to_end(&mut beginning);
        read.map_err(cannot_read(path))?;
        if npb_arrow::Format::of(&beginning).is_none() {
            return Ok(match untyped(path, beginning, input)? {
                Untyped::Text(beginning, rest) => Self::Text(beginning, rest),
                Untyped::Table(table, _) => Self::Tables(Tables::Whole(Some(table))),
            });
        }
        let source = match input.file.take() {
            Some(file) => Source::file(file).map_err(cannot_read(path))?,
            None => {
                let read = input.read_to_end(&mut beginning);
                read.map_err(cannot_read(path))?;
                beginning.into()
            }
        };
        let names = schema.columns.iter().map(|column| column.name.clone());
        let options = npb_arrow::Options {
            only: Some(names.collect()),
        };
        let reader = FileReader::open(&path.display().to_string(), source, &options);
        let reader = reader.map_err(Failure::bad_data)?;
        Ok(Self::Tables(Tables::File(Box::new(reader))))
    }

    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(beginning, _) => Some(beginning),
            Self::Tables(_) => None,
        }
    }
}

impl Tables {
    /// The next rows, and the share of the file that has been read.
    fn next(&mut self, n_rows: usize) -> Result<Option<(RawTable, f64)>> {
        Ok(match self {
            Self::File(reader) => {
                let table = reader.next(n_rows).map_err(Failure::bad_data)?;
                table.map(|table| (table, reader.share()))
            }
            Self::Whole(table) => table.take().map(|table| (table, 1.0)),
        })
    }
}
