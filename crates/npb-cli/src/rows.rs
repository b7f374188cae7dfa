//! New rows, about which a model is asked.

use std::fmt::Display;
use std::path::Path;

use npb_data::schema::{Design, SchemaData};
use npb_data::{MixedTable, Table};

use crate::args::HowToAsk;
use crate::failure::{Failure, Result, in_file};
use crate::input::{Originals, like_training};
use crate::model::ModelFile;
use crate::sheet::{Cell, Sheet};

/// The rows of a file, read as the file of the fit was.
pub(crate) struct NewRows<'a> {
    pub(crate) data: SchemaData,
    pub(crate) file: &'a Path,
    originals: Originals,
}

impl<'a> NewRows<'a> {
    pub(crate) fn read(
        model: &ModelFile,
        file: &'a Path,
        how: &HowToAsk,
        quiet: bool,
    ) -> Result<Self> {
        let (data, originals) = like_training(file, model, how, quiet)?;
        Ok(Self {
            data,
            file,
            originals,
        })
    }

    /// What a model finds wrong with them.
    pub(crate) fn wrong<E: Display>(&self) -> impl Fn(E) -> Failure + '_ {
        in_file(self.file)
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
        Sheet::of_rows(&self.data)
    }

    /// Adds the completed features; cells that the file has are as it has them.
    pub(crate) fn push_completed(&self, completed: &MixedTable, sheet: &mut Sheet) -> Result<()> {
        let first = sheet.width();
        sheet.push_features(&self.data.schema, completed);
        self.originals.put_back(&self.data.features, sheet, first)
    }
}

/// A column of a sheet.
pub(crate) type Named = (String, Vec<Cell>);

/// Completed tables, with columns of standard deviations and of the ends of intervals.
pub(crate) type Completed = (Vec<MixedTable>, Vec<Named>);
