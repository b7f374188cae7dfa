//! Delimited text read by a schema.

use super::cells::{Cells, Filled, fill, fill_raw};
use super::delimited::{DelimitedOptions, Layout};
use super::rules::{ReadingReport, ReadingRules, Unexpected};
use super::text::Text;
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
    let text = Text::read(file, input, rules.layout.encoding)?;
    schema.validate().map_err(|e| text.error(e.into()))?;
    let options = DelimitedOptions {
        missing: schema.missing.clone(),
        skip: Vec::new(),
        ..rules.layout.clone()
    };
    let mut report = ReadingReport::default();
    let place = |layout: &Layout| {
        places(schema, rules, &layout.names, &mut report).map_err(|p| text.error(p))
    };
    let filled = fill(&text, &options, rules, &schema.columns, place)?;
    finished(schema, filled, report).map_err(|problem| text.error(problem))
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
    let error = |problem| ReadError::new(file, problem);
    schema.validate().map_err(|e| error(e.into()))?;
    let mut report = ReadingReport::default();
    let places = places(schema, rules, table.names(), &mut report).map_err(error)?;
    let filled = fill_raw(file, table, rules, schema, &places)?;
    finished(schema, filled, report).map_err(error)
}

/// The data and the report on them.
fn finished(
    schema: &Schema,
    filled: Filled,
    mut report: ReadingReport,
) -> Result<(SchemaData, ReadingReport), ReadProblem> {
    (report.unseen, report.impossible) = (filled.unseen, filled.impossible);
    let data = sorted_by_role(schema, filled.cells, filled.n_rows)?;
    Ok((data, report))
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
