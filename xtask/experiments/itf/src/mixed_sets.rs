//! Real tables with columns of different kinds.

use std::fs::{self, File};
use std::io::Read;

use flate2::read::GzDecoder;
use npb_data::read::{self, Column, DelimitedOptions, ReadingRules};
use npb_data::schema::{ColumnSchema, Kind, Role, Schema};
use npb_data::{Field, Measure, MixedTable, splits};
use npb_infer::stream;

use npb_kit::data::sha256_of_bytes;
use npb_kit::{Context, Result, Scale};

/// Rows of adult that are used.
const ADULT_ROWS: usize = 5000;
/// Rows at smoke scale.
const FEW_ROWS: usize = 120;
/// Key of the random streams of rows.
const ROWS: u64 = 1;

/// A table with what its columns measure, one field for each column.
pub(super) struct Mixed {
    pub(super) name: &'static str,
    /// How the file became a table.
    pub(super) note: &'static str,
    pub(super) checksums: String,
    table: MixedTable,
    measures: Vec<Measure>,
    /// Rows that are drawn, if not all.
    sample: Option<usize>,
}

impl Mixed {
    pub(super) fn n_rows(&self, scale: Scale) -> usize {
        let wanted = scale.smoke_or(Some(FEW_ROWS), self.sample);
        wanted.map_or(self.table.n_rows(), |n| n.min(self.table.n_rows()))
    }

    /// The rows of a trial.
    pub(super) fn table(&self, scale: Scale, seed: u64) -> Result<MixedTable> {
        let rng = &mut stream(seed, [0, 0, 0, ROWS]);
        let rows = splits::sample_rows(self.table.n_rows(), self.n_rows(scale), rng)?;
        Ok(self.table.select_rows(&rows))
    }

    /// Fields of a table with only these columns.
    pub(super) fn fields_of(&self, columns: &[usize]) -> Vec<Field> {
        let names = self.table.column_names();
        let field = |(at, &column): (usize, &usize)| {
            Field::new(&names[column], self.measures[column], vec![at])
        };
        columns.iter().enumerate().map(field).collect()
    }

    fn read(
        name: &'static str,
        note: &'static str,
        text: &str,
        options: &DelimitedOptions,
        categorical: &[Column],
    ) -> Result<Self> {
        // Every column has a part, also those that look like names.
        let guess = Schema::guess(name, text.as_bytes(), options)?;
        let mut schema = guess.schema;
        for (column, guess) in schema.columns.iter_mut().zip(&guess.guesses) {
            if let (Kind::Identifier, Some(measured)) = (column.kind, guess.others.first()) {
                *column = measured.clone();
            }
            column.role = Role::Feature;
        }
        for column in categorical {
            let at = match column {
                Column::Index(index) => *index,
                Column::Name(name) => schema.position(name)?,
            };
            let name = schema.columns[at].name.clone();
            schema.columns[at] = ColumnSchema::new(&name, Kind::Categorical);
        }
        let rules = ReadingRules {
            layout: options.clone(),
            ..ReadingRules::default()
        };
        let (read, _) = read::with_schema(name, text.as_bytes(), &schema, &rules)?;
        Ok(Self {
            name,
            note,
            checksums: sha256_of_bytes(text.as_bytes()),
            measures: read.fields.iter().map(|field| field.measure).collect(),
            table: read.features,
            sample: None,
        })
    }
}

/// Tables of numbers that depend on each other, with a class.
pub(super) fn load_numbers(context: &Context<'_>) -> Result<Vec<Mixed>> {
    Ok(vec![wdbc(context)?, mice(context)?, segment(context)?])
}

fn wdbc(context: &Context<'_>) -> Result<Mixed> {
    let text = fs::read_to_string(context.data_file("wdbc", "wdbc.data"))?;
    let options = DelimitedOptions {
        header: false,
        skip: vec![Column::Index(0)],
        ..Default::default()
    };
    let note = "30 numbers and the diagnosis.";
    Mixed::read("wdbc", note, text.trim_end(), &options, &[])
}

/// Rows of mice-protein and of segment that are used, and proteins.
const MICE_ROWS: usize = 800;
const SEGMENT_ROWS: usize = 1000;
const PROTEINS: usize = 30;

fn mice(context: &Context<'_>) -> Result<Mixed> {
    let text = fs::read_to_string(context.data_file("mice-protein", "Data_Cortex_Nuclear.csv"))?;
    let names: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    // The number of the mouse, then proteins, then how it was treated, then the class.
    let is_used = |j: usize| (1..=PROTEINS).contains(&j) || j + 1 == names.len();
    let skipped = (0..names.len()).filter(|&j| !is_used(j));
    let options = DelimitedOptions {
        skip: skipped.map(|j| Column::from(names[j])).collect(),
        ..Default::default()
    };
    let note =
        "the first 30 proteins and the class; 800 rows, drawn for each trial. A mouse has 15 rows.";
    let mixed = Mixed::read("mice-protein", note, text.trim_end(), &options, &[])?;
    Ok(Mixed {
        sample: Some(MICE_ROWS),
        ..mixed
    })
}

fn segment(context: &Context<'_>) -> Result<Mixed> {
    let text = fs::read_to_string(context.data_file("segment", "segment.csv"))?;
    let note = "1,000 rows, drawn for each trial.";
    let options = DelimitedOptions::default();
    let mixed = Mixed::read("segment", note, text.trim_end(), &options, &[])?;
    Ok(Mixed {
        sample: Some(SEGMENT_ROWS),
        ..mixed
    })
}

/// The stand-ins of table 3; the widest, which takes longest, comes last.
pub(super) fn load(context: &Context<'_>) -> Result<Vec<Mixed>> {
    Ok(vec![heart(context)?, adult(context)?, ames(context)?])
}

fn ames(context: &Context<'_>) -> Result<Mixed> {
    let stored = context.data_file("ames-housing", "AmesHousing.csv");
    let mut options = DelimitedOptions {
        skip: vec![Column::from("Order"), Column::from("PID")],
        ..Default::default()
    };
    let text = if stored.is_file() {
        fs::read_to_string(stored)?
    } else {
        options.separator = read::Separator::Char('\t');
        fs::read_to_string(context.data_file("ames-housing", "AmesHousing.txt"))?
    };
    let note = "kinds as guessed from the values, but `MS SubClass`, a code; NA (mostly: the house has no such part) counts as missing.";
    Mixed::read(
        "ames-housing",
        note,
        text.trim_start_matches('\u{feff}'),
        &options,
        &[Column::from("MS SubClass")],
    )
}

/// Columns of heart-disease that hold codes: sex, cp, fbs, restecg, exang, slope, thal, num.
const HEART_CODES: [usize; 8] = [1, 2, 5, 6, 8, 10, 12, 13];
const HEART_CHOLESTEROL: usize = 4;

fn heart(context: &Context<'_>) -> Result<Mixed> {
    let mut text = String::new();
    for place in ["cleveland", "hungarian", "switzerland", "va"] {
        let file = format!("processed.{place}.data");
        for line in fs::read_to_string(context.data_file("heart-disease", &file))?.lines() {
            text += &heart_line(line);
        }
    }
    let options = DelimitedOptions {
        header: false,
        ..Default::default()
    };
    let note =
        "the four hospitals together; a cholesterol of 0 counts as missing; codes are categories.";
    let codes = HEART_CODES.map(Column::Index);
    Mixed::read("heart-disease", note, &text, &options, &codes)
}

/// One hospital writes 1.0 where others write 1; a cholesterol of 0 was not measured.
fn heart_line(line: &str) -> String {
    let cell = |(column, cell): (usize, &str)| {
        let cell = cell.trim();
        let plain = cell.strip_suffix(".0").unwrap_or(cell);
        match column == HEART_CHOLESTEROL && plain == "0" {
            true => "?".to_owned(),
            false => plain.to_owned(),
        }
    };
    let cells: Vec<String> = line.split(',').enumerate().map(cell).collect();
    cells.join(",") + "\n"
}

fn adult(context: &Context<'_>) -> Result<Mixed> {
    let stored = context.data_file("adult", "adult.data.gz");
    let mut text = String::new();
    if stored.is_file() {
        GzDecoder::new(File::open(stored)?).read_to_string(&mut text)?;
    } else {
        File::open(context.data_file("adult", "adult.data"))?.read_to_string(&mut text)?;
    }
    let options = DelimitedOptions {
        header: false,
        ..Default::default()
    };
    let note =
        "5,000 rows of the training file, drawn for each trial; kinds as guessed from the values.";
    let mixed = Mixed::read("adult", note, text.trim_end(), &options, &[])?;
    Ok(Mixed {
        sample: Some(ADULT_ROWS),
        ..mixed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hospitals_agree_on_how_they_write() {
        let lines = ["63.0,1.0,1.0,145.0,0,1.0", "63,1,1,145,?,1"];
        assert_eq!(heart_line(lines[0]), heart_line(lines[1]));
        assert_eq!(heart_line("1.5,0,4,0"), "1.5,0,4,0\n");
    }

    #[test]
    fn fields_follow_their_columns() {
        let text = "a,b,c\n1.5,x,3\n2.5,y,1\n0.5,z,2\n";
        let options = DelimitedOptions::default();
        let mixed = Mixed::read("d", "", text, &options, &[Column::from("c")]).unwrap();
        let fields = mixed.fields_of(&[2, 0]);
        assert_eq!(
            (&*fields[0].name, fields[0].measure),
            ("c", Measure::Categorical)
        );
        assert_eq!(
            (&fields[1].columns[..], fields[1].measure),
            (&[1][..], Measure::Real)
        );
        let table = mixed.table(Scale::Quick, 1).unwrap();
        Field::check_all(&fields, &table.select_columns(&[2, 0]).unwrap()).unwrap();
    }
}
