//! Columns of a table that share a joint law.
//!
//! A group of columns, numbers with or without levels beside them, is one column of the model: its cells are those of a
//! [`FullNormal`]. Users go on asking about their own columns; a [`Place`] says where each of these is.

use crate::columns::prototype_stream;
use crate::kernels::{
    Categorical, Cells, Column, FullNormal, FullNormalData, LogNormal, NegativeBinomial, Normal,
    Number, SpikedNormal, normal_like,
};
use crate::place::{Place, members};
use crate::{ItfData, ItfError};

/// Whether places fill columns of the model, in whole or part by part.
pub(crate) fn are_places(places: &[Place], laws: &[&Column]) -> bool {
    let inside = places.iter().all(|place| place.column < laws.len());
    inside
        && members(places).len() == laws.len()
        && members(places).iter().zip(laws).all(|(of_column, law)| {
            let parts: Vec<Option<usize>> = of_column.iter().map(|&j| places[j].part).collect();
            match law {
                Column::FullNormal(law) if parts != [None] => {
                    parts == (0..law.kernel.size()).map(Some).collect::<Vec<_>>()
                }
                _ => parts == [None],
            }
        })
}

impl ItfData {
    /// The same data with groups of columns that share a joint law: a multivariate normal law in each cluster, whose mean the levels move
    /// ([`FullNormal`]). `groups`: names, no column twice; columns of numbers ([`Normal`], [`SpikedNormal`], [`NegativeBinomial`], of [`LogNormal`] the
    /// logarithm) and ordered levels (by their places), two at least or one with unordered categories, and these. Counts and ordered levels are spread over
    /// the units around them, by fixed random numbers: see [`Number`].
    ///
    /// # Errors
    /// Names that no column has or that come twice, columns of other kernels, groups too small, or levels that can be chosen in more than
    /// 4,096 ways.
    pub fn with_groups(&self, groups: &[Vec<String>]) -> Result<Self, ItfError> {
        if self.places().iter().any(|place| place.part.is_some()) {
            return Err(bad("given twice", "given once"));
        }
        let mut group_of = vec![None; self.infos().len()];
        let mut orders = Vec::with_capacity(groups.len());
        for (g, names) in groups.iter().enumerate() {
            let order = self.order(names)?;
            for &j in &order {
                if group_of[j].replace(g).is_some() {
                    return Err(bad(&self.infos()[j].name, "each column once"));
                }
            }
            orders.push(order);
        }
        let mut grouped = Self::new();
        let mut places = vec![None; self.infos().len()];
        for j in 0..self.infos().len() {
            let column = grouped.n_columns();
            match group_of[j] {
                None => {
                    places[j] = Some(Place { column, part: None });
                    grouped.push_column(self.law_of(j).clone(), self.cells_of(j).clone());
                }
                Some(_) if places[j].is_some() => {}
                Some(g) => {
                    for (part, &member) in orders[g].iter().enumerate() {
                        let part = Some(part);
                        places[member] = Some(Place { column, part });
                    }
                    let (law, cells) = self.joined(&orders[g])?;
                    grouped.push_column(law, cells);
                }
            }
        }
        grouped.describe(
            self.infos().to_vec(),
            places.into_iter().flatten().collect(),
        );
        grouped.know_rows(self.fingerprints().to_vec());
        Ok(grouped)
    }

    /// The columns of a group in the order of parts: that of the table, whatever that of the names, numbers first.
    fn order(&self, names: &[String]) -> Result<Vec<usize>, ItfError> {
        let (mut numbers, mut levels) = (Vec::new(), Vec::new());
        for name in names {
            let Some(j) = self.infos().iter().position(|info| info.name == *name) else {
                return Err(bad(name, "names of columns"));
            };
            match self.law_of(j) {
                law if is_number(law) => numbers.push(j),
                Column::Categorical(_) => levels.push(j),
                _ => return Err(bad(name, "columns of single numbers or levels")),
            }
        }
        let is_count = |&j: &usize| matches!(self.law_of(j), Column::NegativeBinomial(_));
        let enough = numbers.len() + levels.len() > 1 || numbers.iter().all(is_count);
        if numbers.is_empty() || !enough {
            let rule = "two columns at least, and one of numbers, or a single count";
            return Err(bad(&names.join(", "), rule));
        }
        numbers.sort_unstable();
        levels.sort_unstable();
        Ok([numbers, levels].concat())
    }

    /// Law and cells of a group.
    fn joined(&self, members: &[usize]) -> Result<(Column, Cells), ItfError> {
        let (mut coordinates, mut numbers, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = vec![Vec::with_capacity(members.len()); self.n_rows()];
        let bad = |what: String| ItfError::Column {
            name: self.infos()[members[0]].name.clone(),
            what,
        };
        for &j in members {
            let (law, cells) = (self.law_of(j), self.cells_of(j));
            let values = || (0..self.n_rows()).map(|row| law.part(cells, row, 0).value());
            let spread = || normal_like(values().collect::<Vec<_>>().into_iter());
            let number = match law {
                Column::Normal(law) => Some((law.kernel.coordinate(), Number::Real)),
                Column::LogNormal(law) => Some((law.kernel.coordinate(), Number::Logarithm)),
                Column::SpikedNormal(law) => {
                    let at = Number::Spiked(law.kernel.at());
                    Some((law.kernel.coordinate(), at))
                }
                Column::NegativeBinomial(_) => {
                    Some((spread().map_err(bad)?.coordinate(), Number::Count))
                }
                Column::Ordinal(_) => {
                    let n = law.n_levels(0).unwrap_or(1);
                    Some((spread().map_err(bad)?.coordinate(), Number::Ordinal(n)))
                }
                _ => None,
            };
            match number {
                Some((coordinate, number)) => {
                    coordinates.push(coordinate);
                    numbers.push(number);
                }
                None => levels.push(law.n_levels(0).unwrap_or(1)),
            }
            rows.iter_mut()
                .zip(values())
                .for_each(|(row, x)| row.push(x));
        }
        let bad = |e| ItfError::cells(&self.infos()[members[0]].name, &e);
        let kernel = FullNormal::with_levels(&coordinates, &levels);
        let kernel = kernel.and_then(|k| k.measured(&numbers)).map_err(bad)?;
        let mut cells = FullNormalData::new(&kernel, &rows).map_err(bad)?;
        cells.spread(&kernel, &mut prototype_stream());
        let law = kernel.column(&mut prototype_stream());
        Ok((law, Cells::FullNormal(cells)))
    }
}

fn bad(value: &str, rule: &'static str) -> ItfError {
    ItfError::Argument {
        argument: "groups",
        value: value.to_owned(),
        rule,
    }
}

/// Whether cells of a law enter a group as numbers.
pub(crate) fn is_number(law: &Column) -> bool {
    matches!(
        law,
        Column::Normal(_)
            | Column::LogNormal(_)
            | Column::SpikedNormal(_)
            | Column::NegativeBinomial(_)
            | Column::Ordinal(_)
    )
}

/// Cells like those of some rows of a group: `change` takes the place among these rows, the part and what is there.
pub(crate) fn changed(
    law: &Column,
    cells: &Cells,
    rows: &[usize],
    change: impl Fn(usize, usize, Option<f64>) -> Option<f64>,
) -> Cells {
    let row = |(at, &row): (usize, &usize)| -> Vec<Option<f64>> {
        let parts = law.parts(cells, row).into_iter().enumerate();
        parts.map(|(part, x)| change(at, part, x)).collect()
    };
    let rows: Vec<Vec<Option<f64>>> = rows.iter().enumerate().map(row).collect();
    law.read(&rows).expect("parts of valid cells of a group")
}

/// A part of a group as a column by itself, with the kernel that it would have without the group.
pub(crate) fn alone(law: &Column, cells: &Cells, part: usize) -> Option<(Column, Cells)> {
    let Column::FullNormal(of) = law else {
        return None;
    };
    let rng = &mut prototype_stream();
    let levels = |n: usize| Some(Categorical::new(n).ok()?.column(&mut prototype_stream()));
    let single = match of.kernel.number(part).zip(of.kernel.coordinate(part)) {
        Some((Number::Logarithm, (centre, scale))) => {
            LogNormal::new(centre, scale).ok()?.column(rng)
        }
        Some((Number::Real, (centre, scale))) => Normal::new(centre, scale).ok()?.column(rng),
        Some((Number::Spiked(at), (centre, scale))) => {
            let rest = Normal::new(centre, scale).ok()?;
            SpikedNormal::new(at, rest).ok()?.column(rng)
        }
        Some((Number::Count, _)) => NegativeBinomial.column(rng),
        // As scores ordered levels are levels.
        Some((Number::Ordinal(n), _)) => levels(n)?,
        None => levels(law.n_levels(part)?)?,
    };
    let value = |row| vec![law.part(cells, row, part).value()];
    let rows: Vec<Vec<Option<f64>>> = (0..law.n_rows(cells)).map(value).collect();
    let cells = single.read(&rows).ok()?;
    Some((single, cells))
}
