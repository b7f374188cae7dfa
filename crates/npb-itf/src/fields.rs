//! Data from a table whose columns are measured alone or together.

use npb_data::{Field, Measure, MixedColumn, MixedTable};

use crate::columns::{codes, levels, prototype_stream};
use crate::find::MAX_NUMBERS;
use crate::groups::read_members;
use crate::kernels::{
    Categorical, CellError, Cells, Column, DiagonalNormal, DiagonalNormalData, FullNormal,
    FullNormalData, LogNormal, LogNormalData, Network, NetworkData, Ordinal, OrdinalData, Series,
    SeriesData, VonMises, VonMisesData,
};
use crate::place::{Place, members};
use crate::predict::in_levels_of_training;
use crate::{ColumnInfo, ItfData, ItfError};

impl ItfData {
    /// One column of the model per field, with a kernel for its measure: [`Normal`](crate::kernels::Normal) for reals
    /// ([`SpikedNormal`](crate::kernels::SpikedNormal) where one value stands out),
    /// [`LogNormal`] for positive numbers, [`NegativeBinomial`](crate::kernels::NegativeBinomial) for counts (large ones: normal),
    /// [`Categorical`], [`Ordinal`], [`VonMises`], [`FullNormal`] for vectors of up to 32 coordinates ([`DiagonalNormal`] for
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
                    let law = law_of(field, table).map_err(|e| column_error(field, &e))?;
                    let cells = cells_of(&law, field, table)?;
                    data.push(&field.name, law, cells)?;
                    if field.measure == Measure::Ordinal {
                        data.describe_last(only());
                    }
                }
            }
        }
        data.check_not_empty()?;
        Ok(data)
    }

    /// Other rows, read by the kernels of this data (their centres, scales and levels): for questions to a fit about new rows. The fields must be
    /// those that this data was made from, in the same order, of a table with the same columns.
    ///
    /// # Errors
    /// As [`ItfData::from_fields`]; another number of fields, or cells that do not fit the kernel of their column.
    pub fn read_like(&self, table: &MixedTable, fields: &[Field]) -> Result<Self, ItfError> {
        read_by(
            self.laws().iter(),
            self.infos(),
            self.places(),
            table,
            fields,
        )
    }
}

/// Rows of a table read by kernels, one for each field.
pub(crate) fn read_by<'a>(
    laws: impl Iterator<Item = &'a Column>,
    infos: &[ColumnInfo],
    places: &[Place],
    table: &MixedTable,
    fields: &[Field],
) -> Result<ItfData, ItfError> {
    if fields.len() != infos.len() {
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
    Field::check_all(&checked.collect::<Vec<_>>(), table)?;
    let mut data = ItfData::new();
    for (law, of_column) in laws.zip(members(places)) {
        let field = &fields[of_column[0]];
        let bad = |what| ItfError::Column {
            name: field.name.clone(),
            what,
        };
        let is_group = places[of_column[0]].part.is_some();
        let cells = match infos[of_column[0]].kind {
            kind if is_group || kind.is_some() && field.columns.len() == 1 => {
                let column = |&j: &usize| {
                    let column = table.column(fields[j].columns[0]);
                    match infos[j].kind {
                        Some(_) => in_levels_of_training(column, &infos[j]),
                        None => Ok(column.clone()),
                    }
                };
                let columns: Vec<MixedColumn> =
                    of_column.iter().map(column).collect::<Result<_, _>>()?;
                read_members(law, &columns.iter().collect::<Vec<_>>()).map_err(bad)?
            }
            _ => cells_of(law, field, table)?,
        };
        data.push(&field.name, law.clone(), cells)?;
    }
    data.check_not_empty()?;
    data.describe(infos.to_vec(), places.to_vec());
    Ok(data)
}

fn column_error(field: &Field, error: &CellError) -> ItfError {
    ItfError::Column {
        name: field.name.clone(),
        what: error.to_string(),
    }
}

/// Cells of the columns of a field, row by row.
fn numbers(field: &Field, table: &MixedTable) -> Vec<Vec<Option<f64>>> {
    let row = |i| {
        field
            .columns
            .iter()
            .map(|&j| table.column(j).number(i))
            .collect()
    };
    (0..table.n_rows()).map(row).collect()
}

fn links(field: &Field, table: &MixedTable) -> Vec<Vec<Option<bool>>> {
    let linked = |row: Vec<Option<f64>>| row.into_iter().map(|x| x.map(|x| x == 1.0)).collect();
    numbers(field, table).into_iter().map(linked).collect()
}

/// Mean and standard deviation; a scale that is not 0 where all values are equal.
fn centre_and_scale(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean: f64 = values.clone().map(|x| x / n).sum();
    let largest = values.clone().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    let square = |x: f64| ((x - mean) / largest).powi(2);
    let scale = match largest {
        0.0 if mean != 0.0 => mean.abs(),
        0.0 => 1.0,
        _ => largest * (values.map(square).sum::<f64>() / n).sqrt(),
    };
    (mean, scale)
}

/// The kernel of a field whose columns are no plain column of the model.
fn law_of(field: &Field, table: &MixedTable) -> Result<Column, CellError> {
    let rng = &mut prototype_stream();
    let rows = numbers(field, table);
    let of_part = |j: usize| centre_and_scale(rows.iter().filter_map(move |r| r[j]));
    let overall = || centre_and_scale(rows.iter().flatten().filter_map(|x| *x));
    Ok(match field.measure {
        Measure::Positive => {
            let logs = rows.iter().flatten().filter_map(|x| x.map(f64::ln));
            let (centre, scale) = centre_and_scale(logs);
            LogNormal::new(centre, scale)?.column(rng)
        }
        Measure::Ordinal => {
            Ordinal::for_data(&ordinal_data(table.column(field.columns[0]))?)?.column(rng)
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
            let (centre, scale) = overall();
            Series::new(1, field.columns.len(), centre, scale)?.column(rng)
        }
        Measure::Network => {
            let undirected = Network::new(table.n_rows(), false)?;
            match NetworkData::from_rows(&undirected, &links(field, table)) {
                Err(CellError::OneSided { .. }) => Network::new(table.n_rows(), true)?.column(rng),
                _ => undirected.column(rng),
            }
        }
        Measure::Real | Measure::Count | Measure::Binary | Measure::Categorical => {
            let n_levels = levels(table.column(field.columns[0])).len().max(1);
            Categorical::new(n_levels)
                .map(|k| k.column(rng))
                .ok_or(CellError::Setting {
                    setting: "levels",
                    value: n_levels as f64,
                    rule: "at most 100,000",
                })?
        }
    })
}

fn ordinal_data(column: &MixedColumn) -> Result<OrdinalData, CellError> {
    OrdinalData::new(levels(column).len(), &codes(column).unwrap_or_default())
}

/// The cells of a field, read by a kernel.
fn cells_of(law: &Column, field: &Field, table: &MixedTable) -> Result<Cells, ItfError> {
    let rows = || numbers(field, table);
    let single = || {
        rows()
            .into_iter()
            .map(|r| r.first().copied().flatten())
            .collect::<Vec<_>>()
    };
    let cells = match law {
        Column::LogNormal(_) => LogNormalData::new(&single()).map(Cells::LogNormal),
        Column::VonMises(of) => {
            VonMisesData::new(of.kernel.period(), &single()).map(Cells::VonMises)
        }
        Column::Ordinal(_) => ordinal_data(table.column(field.columns[0])).map(Cells::Ordinal),
        Column::FullNormal(of) => FullNormalData::new(&of.kernel, &rows()).map(Cells::FullNormal),
        Column::DiagonalNormal(of) if of.kernel.n_coordinates() == field.columns.len() => {
            DiagonalNormalData::new(&rows()).map(Cells::DiagonalNormal)
        }
        Column::Series(of) if of.kernel.n_times() == field.columns.len() => {
            SeriesData::new(&of.kernel, &rows()).map(Cells::Series)
        }
        Column::Network(of) => {
            let links = links(field, table);
            let made = match links.len() == field.columns.len() {
                true => NetworkData::from_rows(&of.kernel, &links),
                false => NetworkData::new_rows(&of.kernel, &links),
            };
            made.map(Cells::Network)
        }
        _ => {
            return Err(ItfError::OtherKernel {
                name: field.name.clone(),
            });
        }
    };
    cells.map_err(|e| column_error(field, &e))
}
