//! Data from a table whose columns are measured alone or together.

use npb_data::{Field, Measure, MixedColumn, MixedTable};

use crate::columns::{MAX_NUMBERS, levels, parts_of, prototype_stream};
use crate::data::in_levels_of_training;
use crate::identity::fingerprints;
use crate::kernels::{
    CategoricalData, CellError, Cells, Column, DiagonalNormal, FullNormal, LogNormal, Network,
    NetworkData, Ordinal, Series, VonMises,
};
use crate::numeric::centre_and_scale;
use crate::place::{Place, members};
use crate::{ColumnInfo, ItfData, ItfError};

impl ItfData {
    /// One column of the model per field, with a kernel for its measure: [`Normal`](crate::kernels::Normal) for reals
    /// ([`SpikedNormal`](crate::kernels::SpikedNormal) where one value stands out),
    /// [`LogNormal`] for positive numbers, [`NegativeBinomial`](crate::kernels::NegativeBinomial) for counts (large ones: normal),
    /// [`Categorical`](crate::kernels::Categorical), [`Ordinal`], [`VonMises`], [`FullNormal`] for vectors of up to 32 coordinates ([`DiagonalNormal`] for
    /// longer ones, with coordinates that are independent within a cluster: [`independent_vectors`](crate::ItfFit::independent_vectors)), [`Series`] of order 1, and [`Network`] (undirected when every link is the same from both sides). Centres
    /// and scales are means and standard deviations of the observed values. Columns of other kernels: [`ItfData::push`].
    ///
    /// ```
    /// use npb_itf::npb_data::read::{self, ReadingRules};
    /// use npb_itf::npb_data::schema::Schema;
    /// use npb_itf::ItfData;
    ///
    /// let schema = Schema::from_toml(r#"
    /// columns = [{ name = "x", kind = "real" }, { name = "y", kind = "real" }, { name = "wind", kind = "angle", period = 360.0 }]
    /// blocks = [{ name = "place", kind = "vector", columns = ["x", "y"] }]
    /// "#)?;
    /// let file = "x,y,wind\n0.5,1.0,350\n0.7,?,10\n?,?,5\n";
    /// let (read, _) = read::with_schema("f.csv", file.as_bytes(), &schema, &ReadingRules::default())?;
    /// let data = ItfData::from_fields(&read.features, &read.fields)?;
    /// assert_eq!((data.n_rows(), data.n_columns()), (3, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fields that do not fit the table ([`Field::check_all`]), no rows, no fields, values that a kernel cannot take.
    pub fn from_fields(table: &MixedTable, fields: &[Field]) -> Result<Self, ItfError> {
        Field::check_all(fields, table)?;
        let mut data = Self::new();
        for field in fields {
            let only = || table.column(field.columns[0]);
            match field.measure {
                Measure::Real | Measure::Count | Measure::Binary | Measure::Categorical => {
                    data.push_table_column(&field.name, only())?;
                }
                _ => {
                    let rows = parts_of(&columns_of(field, table));
                    let law = law_of(field, table, &rows);
                    let read = law.and_then(|law| Ok((law.read(&rows)?, law)));
                    let (cells, law) = read.map_err(|e| ItfError::cells(&field.name, &e))?;
                    data.push(&field.name, law, cells)?;
                    if field.measure == Measure::Ordinal {
                        data.describe_last(only());
                    }
                }
            }
        }
        data.check_not_empty()?;
        data.know_rows(fingerprints(table, &columns_of_fields(fields))?);
        Ok(data)
    }
}

/// Whether fields are as many as in training, and fit the table.
pub(crate) fn check_fields(table: &MixedTable, fields: &[Field], n: usize) -> Result<(), ItfError> {
    if fields.len() != n {
        return Err(ItfError::Argument {
            argument: "fields (number of)",
            value: fields.len().to_string(),
            rule: "those that the training data was made from",
        });
    }
    // New rows of a network are no nodes of it: its columns are checked one by one.
    let checked = fields.iter().flat_map(|field| match field.measure {
        Measure::Network => field
            .columns
            .iter()
            .map(|&c| Field::new(format!("{} to {c}", field.name), Measure::Binary, vec![c]))
            .collect(),
        _ => vec![field.clone()],
    });
    Ok(Field::check_all(&checked.collect::<Vec<_>>(), table)?)
}

/// The columns of the table that hold the parts of every field.
pub(crate) fn columns_of_fields(fields: &[Field]) -> Vec<Vec<usize>> {
    fields.iter().map(|field| field.columns.clone()).collect()
}

/// Cells of a table read by kernels; `columns`: those of the table that hold the parts of each column of training.
pub(crate) fn read_by<'a>(
    laws: impl Iterator<Item = &'a Column>,
    infos: &[ColumnInfo],
    places: &[Place],
    table: &MixedTable,
    columns: &[Vec<usize>],
) -> Result<Vec<Cells>, ItfError> {
    let like_training = |(j, at): (usize, usize)| match infos[j].kind {
        Some(_) => in_levels_of_training(table.column(at), &infos[j]),
        None => Ok(table.column(at).clone()),
    };
    let cells = laws.zip(members(places)).map(|(law, of_column)| {
        let parts = of_column
            .iter()
            .flat_map(|&j| columns[j].iter().map(move |&at| (j, at)));
        let parts: Vec<MixedColumn> = parts.map(like_training).collect::<Result<_, _>>()?;
        law.read(&parts_of(&parts.iter().collect::<Vec<_>>()))
            .map_err(|e| ItfError::cells(&infos[of_column[0]].name, &e))
    });
    cells.collect()
}

fn columns_of<'t>(field: &Field, table: &'t MixedTable) -> Vec<&'t MixedColumn> {
    field.columns.iter().map(|&at| table.column(at)).collect()
}

/// The kernel of a field with these cells, whose columns are no plain column of the model.
fn law_of(
    field: &Field,
    table: &MixedTable,
    rows: &[Vec<Option<f64>>],
) -> Result<Column, CellError> {
    let rng = &mut prototype_stream();
    let of_part = |j: usize| centre_and_scale(rows.iter().filter_map(move |r| r[j]));
    let all = || rows.iter().flatten().filter_map(|x| *x);
    Ok(match field.measure {
        Measure::Positive => {
            let (centre, scale) = centre_and_scale(all().map(f64::ln));
            LogNormal::new(centre, scale)?.column(rng)
        }
        Measure::Angle { period } => VonMises::new(period)?.column(rng),
        Measure::Vector => {
            let parts: Vec<(f64, f64)> = (0..field.columns.len()).map(of_part).collect();
            match parts.len() <= MAX_NUMBERS {
                true => FullNormal::new(&parts)?.column(rng),
                false => DiagonalNormal::new(&parts)?.column(rng),
            }
        }
        Measure::Series => {
            let (centre, scale) = centre_and_scale(all());
            Series::new(1, field.columns.len(), centre, scale)?.column(rng)
        }
        Measure::Network => {
            let undirected = Network::new(table.n_rows(), false)?;
            match NetworkData::of_parts(&undirected, rows) {
                Err(CellError::OneSided { .. }) => Network::new(table.n_rows(), true)?.column(rng),
                _ => undirected.column(rng),
            }
        }
        // The others are plain columns.
        _ => {
            let n_levels = levels(table.column(field.columns[0])).len();
            let codes: Vec<Option<u32>> = rows.iter().map(|r| r[0].map(|x| x as u32)).collect();
            Ordinal::for_data(&CategoricalData::new(n_levels, &codes)?)?.column(rng)
        }
    })
}
