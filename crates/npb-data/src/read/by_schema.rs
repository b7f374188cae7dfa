//! Delimited text read by a schema.

use super::cells::{Cells, Fillers, Misfit};
use super::delimited::{DelimitedOptions, Rows};
use super::rules::{Place, ReadingReport, ReadingRules, Unexpected};
use super::text::TextStream;
use super::{ReadError, ReadProblem};
use crate::schema::{ColumnSchema, Role, Schema, SchemaData};
use crate::{Field, MixedTable, RawTable};
use std::collections::{HashMap, HashSet};
use std::io::Read;

/// Reads a file by a schema: the same kinds, codes and order of columns whatever its values look like.
///
/// Columns may stand in any order. Columns that the schema does not have are skipped and reported; labels, row ids, groups, weights and ignored columns may be
/// absent. Numbers that name levels match as numbers (`1.0` is `1`). Where the schema lists no levels they are those that occur, and
/// [`SchemaData::schema`] lists them: read the file of a fit so, and later files by that schema. Compressed files (gzip) are recognised.
///
/// Cost: one pass; memory for the file and the data.
///
/// # Errors
/// [`ReadError`] names line, column and text of a cell that does not fit its kind; [`ReadProblem::MissingColumn`], [`ReadProblem::UnseenLevel`] unless the
/// rules say otherwise; [`ReadProblem::Schema`].
///
/// ```
/// use npb_data::read::{self, ReadProblem, ReadingRules, Unexpected};
/// use npb_data::schema::Schema;
/// let schema = Schema::from_toml(r#"columns = [{ name = "size", kind = "real" }, { name = "town", kind = "categorical", levels = ["A", "B"] }]"#)?;
/// let mut rules = ReadingRules { unseen_levels: Unexpected::Error, ..ReadingRules::default() };
/// (rules.layout.separator, rules.layout.decimal) = (read::Separator::Char(';'), ',');
/// let error = read::with_schema("new.csv", "town;size\nA;1,5\nC;2\n".as_bytes(), &schema, &rules).unwrap_err();
/// assert!(error.to_string().starts_with(r#"new.csv:3: column 1 ("town"): "C" is not one of the declared levels "A", "B""#));
/// # Ok::<(), npb_data::schema::SchemaError>(())
/// ```
pub fn with_schema(
    file: &str,
    input: impl Read,
    schema: &Schema,
    rules: &ReadingRules,
) -> Result<(SchemaData, ReadingReport), ReadError> {
    let mut reader = TextReader::new(file, input, schema, rules)?;
    reader.read(usize::MAX)?;
    Ok((reader.taken()?, reader.report()))
}

/// Reads a table of numbers, texts and times by a schema, as [`with_schema`] reads text: the same kinds, codes and bits.
///
/// Of the layout of `rules` only `trim`, `decimal` and `thousands` count, for texts. Truth values are levels of those names in any spelling (`true`, `TRUE`), or else 0
/// and 1. `file` is used in errors only.
///
/// # Errors
/// As [`with_schema`], with rows from 1 instead of lines.
pub fn raw_with_schema(
    file: &str,
    table: RawTable,
    schema: &Schema,
    rules: &ReadingRules,
) -> Result<(SchemaData, ReadingReport), ReadError> {
    let mut reader = RawReader::new(file, schema, rules)?;
    let data = reader.next(table)?;
    Ok((data, reader.report()))
}

/// What two readers share: columns that grow, and what is said of them.
struct Growing<'a> {
    file: String,
    schema: &'a Schema,
    rules: &'a ReadingRules,
    report: ReadingReport,
    /// There when the names of the columns are known.
    fillers: Option<Fillers<'a>>,
}

impl<'a> Growing<'a> {
    fn new(file: &str, schema: &'a Schema, rules: &'a ReadingRules) -> Result<Self, ReadError> {
        let valid = schema.validate();
        valid.map_err(|e| ReadError::new(file, e.into()))?;
        Ok(Self {
            file: file.to_owned(),
            schema,
            rules,
            report: ReadingReport::default(),
            fillers: None,
        })
    }

    /// The columns, which begin when there is the first row of a file with these names.
    fn fillers(&mut self, names: &[String]) -> Result<&mut Fillers<'a>, ReadError> {
        let fillers = match self.fillers.take() {
            Some(fillers) => fillers,
            None => {
                let places = places(self.schema, self.rules, names, &mut self.report);
                let places = places.map_err(|problem| ReadError::new(&self.file, problem))?;
                Fillers::new(self.schema, self.rules, places)
            }
        };
        Ok(self.fillers.insert(fillers))
    }

    /// The rows since the last ones were taken.
    fn taken(&mut self) -> Result<SchemaData, Misfit<'a>> {
        let taken = self.fillers.as_mut().map(Fillers::take);
        let (cells, n_rows) = taken.unwrap_or(Ok((Vec::new(), 0)))?;
        sorted_by_role(self.schema, cells, n_rows).map_err(Misfit::anywhere)
    }

    fn error(&self, misfit: Misfit<'_>, named: bool) -> ReadError {
        let error = ReadError::new(&self.file, *misfit.problem);
        let error = error.named(misfit.column.filter(|_| named));
        match misfit.at {
            Some(at) => error.at_column(at),
            None => error,
        }
    }

    fn report(&self, place: fn(u64) -> Place) -> ReadingReport {
        let mut report = self.report.clone();
        if let Some(fillers) = &self.fillers {
            fillers.report(place, &mut report);
        }
        report
    }
}

/// Reads raw columns by a schema as [`raw_with_schema`] does, some rows at a time: tables of the same columns, one after the other.
///
/// Levels that the schema does not list are those of each table and the ones before it: list them where there are several.
pub struct RawReader<'a>(Growing<'a>);

impl<'a> RawReader<'a> {
    /// Before the first table.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub fn new(file: &str, schema: &'a Schema, rules: &'a ReadingRules) -> Result<Self, ReadError> {
        Growing::new(file, schema, rules).map(Self)
    }

    /// The next rows.
    ///
    /// # Errors
    /// As [`raw_with_schema`]; rows are counted from the first table.
    pub fn next(&mut self, table: RawTable) -> Result<SchemaData, ReadError> {
        let pushed = self.0.fillers(table.names())?.push_raw(table);
        let taken = pushed.and_then(|()| self.0.taken());
        taken.map_err(|misfit| {
            let row = misfit.place;
            let error = self.0.error(misfit, true);
            ReadError { row, ..error }
        })
    }

    /// What was not as the schema expects in all rows so far.
    pub fn report(&self) -> ReadingReport {
        self.0.report(Place::Row)
    }
}

/// Reads delimited text by a schema as [`with_schema`] does, some rows at a time, with memory for these.
///
/// Levels that the schema does not list are those of the rows so far: list them where rows are not read at once.
///
/// ```
/// use npb_data::read::{ReadingRules, TextReader};
/// use npb_data::schema::Schema;
/// let schema = Schema::from_toml(r#"columns = [{ name = "size", kind = "real" }]"#)?;
/// let rules = ReadingRules::default();
/// let mut reader = TextReader::new("new.csv", "size\n1\n2.5\n?\n".as_bytes(), &schema, &rules)?;
/// let mut n_rows = Vec::new();
/// while let Some(data) = reader.next(2)? {
///     n_rows.push(data.n_rows);
/// }
/// assert_eq!(n_rows, [2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TextReader<'a> {
    growing: Growing<'a>,
    stream: TextStream<'a>,
    rows: Rows<'a>,
    written: Option<WrittenCells>,
}

impl<'a> TextReader<'a> {
    /// Before the first row.
    ///
    /// # Errors
    /// A schema that cannot be used, an input that cannot be read.
    pub fn new(
        file: &str,
        input: impl Read + 'a,
        schema: &'a Schema,
        rules: &'a ReadingRules,
    ) -> Result<Self, ReadError> {
        let options = DelimitedOptions {
            missing: schema.missing.clone(),
            skip: Vec::new(),
            ..rules.layout.clone()
        };
        Ok(Self {
            stream: TextStream::open(file, input, rules.layout.encoding)?,
            growing: Growing::new(file, schema, rules)?,
            rows: Rows::new(options, &[]),
            written: None,
        })
    }

    /// Keeps the features as they are written, for [`written`](Self::written).
    #[must_use]
    pub fn keeping_texts(mut self) -> Self {
        self.written = Some(WrittenCells::default());
        self
    }

    /// The next `n_rows` rows, or those that are left; `None` after the last. Of a file without rows an empty table comes first.
    ///
    /// # Errors
    /// As [`with_schema`].
    pub fn next(&mut self, n_rows: usize) -> Result<Option<SchemaData>, ReadError> {
        let is_first = self.growing.fillers.is_none();
        match self.read(n_rows.max(1))? {
            0 if !is_first => Ok(None),
            _ => self.taken().map(Some),
        }
    }

    /// Reads the next rows: how many there were.
    fn read(&mut self, n_rows: usize) -> Result<usize, ReadError> {
        if let Some(written) = &mut self.written {
            written.clear();
        }
        let mut n_read = 0;
        loop {
            n_read += self.read_piece(n_rows - n_read)?;
            if n_read == n_rows || self.stream.piece().last {
                break;
            }
            self.stream.more()?;
        }
        // A file without rows may lack columns, too.
        self.growing.fillers(self.rows.names())?;
        Ok(n_read)
    }

    fn taken(&mut self) -> Result<SchemaData, ReadError> {
        let taken = self.growing.taken();
        taken.map_err(|misfit| {
            let line = misfit.place;
            let error = self.growing.error(misfit, self.rows.has_header());
            ReadError { line, ..error }
        })
    }

    /// Reads at most `n_rows` rows of the text that is there: how many there were.
    fn read_piece(&mut self, n_rows: usize) -> Result<usize, ReadError> {
        let Self {
            growing,
            stream,
            rows,
            written,
        } = self;
        let mut n_read = 0;
        let used = rows.visit(&stream.piece(), |row| {
            let fillers = growing.fillers(&row.layout.names)?;
            fillers.push(row)?;
            if let Some(written) = written {
                written.push(fillers.feature_cells(row));
            }
            n_read += 1;
            Ok(n_read < n_rows)
        })?;
        stream.used(used.n_bytes, used.line);
        Ok(n_read)
    }

    /// The cells of the features of the last rows as they are written, where these are kept.
    pub fn written(&self) -> Option<&WrittenCells> {
        self.written.as_ref()
    }

    /// What was not as the schema expects in all rows so far.
    pub fn report(&self) -> ReadingReport {
        self.growing.report(Place::Line)
    }
}

/// Cells of the features of some rows as a text has them, blanks around them and quotes left out.
#[derive(Clone, Debug, Default)]
pub struct WrittenCells {
    text: String,
    /// Where in the text the cells end, row by row.
    ends: Vec<usize>,
    n_columns: usize,
}

impl WrittenCells {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// A row more. A feature that the file lacks has an empty cell.
    fn push<'t>(&mut self, cells: impl Iterator<Item = &'t str>) {
        let before = self.ends.len();
        for cell in cells {
            self.text.push_str(cell);
            self.ends.push(self.text.len());
        }
        self.n_columns = self.ends.len() - before;
    }

    /// The cell of a row in the column of a feature.
    pub fn cell(&self, row: usize, feature: usize) -> &str {
        let at = row * self.n_columns + feature;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }
}

/// Where the columns of the schema stand in the file.
fn places(
    schema: &Schema,
    rules: &ReadingRules,
    names: &[String],
    report: &mut ReadingReport,
) -> Result<Vec<Option<usize>>, ReadProblem> {
    let at: HashMap<&str, usize> = names
        .iter()
        .zip(0..)
        .map(|(n, j)| (n.as_str(), j))
        .collect();
    let mut known = vec![false; names.len()];
    let mut places = Vec::with_capacity(schema.columns.len());
    for column in &schema.columns {
        let place = at.get(column.name.as_str()).copied();
        match place {
            Some(j) => known[j] = true,
            None if column.role.is_optional() => {}
            None if rules.missing_columns == Unexpected::Missing => {
                report.absent.push(column.name.clone())
            }
            None => return Err(ReadProblem::missing_column(&column.name, names)),
        }
        places.push(place);
    }
    let skipped = names.iter().zip(known).filter(|(_, known)| !known);
    report.skipped = skipped.map(|(name, _)| name.clone()).collect();
    Ok(places)
}

/// Cells by the role of their columns.
fn sorted_by_role(
    schema: &Schema,
    cells: Vec<Cells>,
    n_rows: usize,
) -> Result<SchemaData, ReadProblem> {
    let mut schema = schema.clone();
    let (mut features, mut labels) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let (mut row_ids, mut groups, mut weights) = (None, None, None);
    let mut position: HashMap<&str, usize> = HashMap::new();
    for (column, cells) in schema.columns.iter_mut().zip(cells) {
        match (column.role, cells) {
            (Role::RowId, Cells::Texts(texts)) => row_ids = Some(texts),
            (Role::Group, Cells::Texts(texts)) => groups = Some(texts),
            (Role::Weight, Cells::Column(cells)) => weights = Some(cells),
            (Role::Feature | Role::Label, Cells::Column(cells)) => {
                column.levels = cells.levels().map(<[String]>::to_vec);
                let feature = column.role == Role::Feature;
                let (names, columns) = if feature { &mut features } else { &mut labels };
                names.push(column.name.clone());
                columns.push(cells);
            }
            _ => {}
        }
    }
    position.extend(
        features
            .0
            .iter()
            .zip(0..)
            .map(|(name, at): (&String, usize)| (name.as_str(), at)),
    );
    let fields = fields_of(&schema, &position);
    let weights = weights.map(|cells| {
        (0..n_rows)
            .map(|i| cells.number(i).unwrap_or(1.0))
            .collect()
    });
    Ok(SchemaData {
        n_rows,
        fields,
        features: MixedTable::new(features.0, features.1)?,
        labels: MixedTable::new(labels.0, labels.1)?,
        row_ids,
        groups,
        weights,
        schema,
    })
}

/// Fields of single features and of blocks, in the order of their first columns.
fn fields_of(schema: &Schema, position: &HashMap<&str, usize>) -> Vec<Field> {
    let in_blocks: HashSet<&String> = schema.blocks.iter().flat_map(|b| &b.columns).collect();
    let single = |c: &&ColumnSchema| !in_blocks.contains(&c.name);
    let singles = schema.with_role(Role::Feature).filter(single);
    let singles =
        singles.map(|c| Field::new(&c.name, c.measure(), vec![position[c.name.as_str()]]));
    let blocks = schema.blocks.iter().map(|block| {
        let columns = block.columns.iter().map(|name| position[name.as_str()]);
        Field::new(&block.name, block.kind.measure(), columns.collect())
    });
    let mut fields: Vec<Field> = singles.chain(blocks).collect();
    fields.sort_by_key(|field| field.columns.first().copied());
    fields
}
