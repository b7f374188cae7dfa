//! `npb merge` and `npb import`: models from models.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use npb_bsvd::BsvdFit;
use npb_data::ColumnKind;
use npb_data::schema::{ColumnSchema, Design, Kind, Schema};
use npb_iqgme::{IqgmeFit, MultiTaskFit, Saved};
use npb_itf::ItfFit;
use npb_regbayes::{LabelsFit, MedLdaFit};
use serde::Serialize;

use crate::args::{ImportArgs, MergeArgs, ModelKind};
use crate::failure::{Failure, Result, in_file};
use crate::input::{self, note};
use crate::model::ModelFile;
use crate::output::check_folder;
use crate::settings;

pub(crate) fn merge(args: &MergeArgs, quiet: bool) -> Result<()> {
    check_folder(&args.out)?;
    let files = args.models.iter().map(|path| ModelFile::load(path));
    let files = files.collect::<Result<Vec<_>>>()?;
    let (Some(first), Some(first_path)) = (files.first(), args.models.first()) else {
        return Err(Failure::usage("name the model files"));
    };
    if !first.is(ModelKind::Ratings) && !first.is(ModelKind::Table) {
        return Err(first.cannot("merge", "ratings or table"));
    }
    for (file, path) in files.iter().zip(&args.models).skip(1) {
        if !file.is_of_the_data_of(first) {
            return Err(in_file(path)(format_args!(
                "is not of the kind, schema, columns or number of rows of {}",
                first_path.display()
            )));
        }
    }
    let mut merged = first.clone();
    let n_draws = match merged.is(ModelKind::Ratings) {
        true => {
            let fits: Vec<BsvdFit> = loaded(&files)?;
            let [rows, columns] = [BsvdFit::row_names, BsvdFit::column_names]
                .map(|names| fits.iter().all(|fit| names(fit) == names(&fits[0])));
            if !(rows && columns) {
                return Err(Failure::bad_data(
                    "the models are of other rows or columns; fit them to the same file",
                ));
            }
            let seed = |fit: &BsvdFit| (fit.config.seed, fit.config.chain);
            differ(&args.models, &fits, seed)?;
            let all = BsvdFit::pooled(fits).map_err(Failure::bad_data)?;
            merged.config = settings::text(&all.config)?;
            merged.fit = all.to_bytes().map_err(Failure::failed)?;
            all.draws().len()
        }
        false => {
            let fits: Vec<ItfFit> = loaded(&files)?;
            differ(&args.models, &fits, |fit| (fit.config().seed, 0))?;
            let all = ItfFit::pooled(fits).map_err(Failure::bad_data)?;
            merged.config = settings::text(all.config())?;
            merged.fit = all.to_bytes().map_err(Failure::failed)?;
            all.draws().len()
        }
    };
    merged.save(&args.out)?;
    let (n, out) = (files.len(), args.out.display());
    note(
        quiet,
        format_args!("{n} models, {n_draws} draws; {out} written"),
    );
    Ok(())
}

fn loaded<F: Saved<Error: Display>>(files: &[ModelFile]) -> Result<Vec<F>> {
    files.iter().map(ModelFile::fit).collect()
}

/// The same chains twice would pass for twice as many.
fn differ<F>(paths: &[PathBuf], fits: &[F], seed: impl Fn(&F) -> (u64, u64)) -> Result<()> {
    for (k, fit) in fits.iter().enumerate() {
        if let Some(before) = fits[..k].iter().position(|other| seed(other) == seed(fit)) {
            return Err(Failure::usage(format_args!(
                "{} and {} have the same seed, so the same draws; fit with another --seed",
                paths[before].display(),
                paths[k].display()
            )));
        }
    }
    Ok(())
}

pub(crate) fn import(args: &ImportArgs, quiet: bool) -> Result<()> {
    check_folder(&args.out)?;
    let bytes = input::bytes(&args.fit)?;
    let imported = Saving(&bytes, &args.fit).described()?;
    let schema = match (&args.schema, imported.schema) {
        (Some(file), _) => input::read_schema(file)?,
        (None, Some(schema)) => schema,
        (None, None) => {
            return Err(Failure::usage(format_args!(
                "{}: say by --schema what the columns are",
                args.fit.display()
            )));
        }
    };
    if let Some(names) = &imported.numbers {
        let made = Design::new(&schema).names().concat();
        if made != *names {
            return Err(in_file(&args.fit)(format_args!(
                "has the columns {}; the schema makes {}",
                listed(names),
                listed(&made)
            )));
        }
    }
    let model = ModelFile {
        n_rows: imported.n_rows as u64,
        places: imported.places,
        ..ModelFile::new(imported.kind, &schema, imported.config, &args.fit, bytes)
    };
    model.save(&args.out)?;
    let (kind, out) = (&model.kind, args.out.display());
    note(quiet, format_args!("a model of kind {kind}; {out} written"));
    Ok(())
}

fn listed(names: &[String]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(10)
        .map(|name| format!("{name:?}"))
        .collect();
    let more = if names.len() > first.len() {
        ", ..."
    } else {
        ""
    };
    first.join(", ") + more
}

/// Numbers by their names, in that order.
fn reals(names: &[String]) -> Schema {
    Schema {
        columns: names
            .iter()
            .map(|name| ColumnSchema::new(name, Kind::Real))
            .collect(),
        ..Schema::default()
    }
}

/// What a model file needs to know of a fit of the library.
struct Imported {
    kind: ModelKind,
    config: String,
    /// Names of the columns of numbers.
    numbers: Option<Vec<String>>,
    schema: Option<Schema>,
    n_rows: usize,
    places: Vec<String>,
}

impl Imported {
    /// A fit that needs no columns.
    fn plain(kind: ModelKind, config: &impl Serialize) -> Result<Self> {
        Ok(Self {
            kind,
            config: settings::text(config)?,
            numbers: None,
            schema: Some(Schema::default()),
            n_rows: 0,
            places: Vec::new(),
        })
    }

    /// A fit to columns of numbers.
    fn of_numbers(kind: ModelKind, config: &impl Serialize, names: &[String]) -> Result<Self> {
        Ok(Self {
            schema: Some(reals(names)),
            numbers: Some(names.to_vec()),
            ..Self::plain(kind, config)?
        })
    }
}

/// What `save` of the library has written, and where it is.
struct Saving<'a>(&'a [u8], &'a Path);

impl Saving<'_> {
    fn fit<F: Saved<Error: Display>>(&self) -> Result<F> {
        F::from_bytes(self.0).map_err(in_file(self.1))
    }

    fn described(&self) -> Result<Imported> {
        match ModelFile::library_model(self.1, self.0)?.as_str() {
            IqgmeFit::MODEL => {
                let fit: IqgmeFit = self.fit()?;
                let kind = match fit.classes().is_empty() {
                    true => ModelKind::Mixture,
                    false => ModelKind::Classifier,
                };
                Imported::of_numbers(kind, fit.config(), fit.column_names())
            }
            MultiTaskFit::MODEL => {
                let fit: MultiTaskFit = self.fit()?;
                // Which column names the task, only a schema says.
                Ok(Imported {
                    schema: None,
                    ..Imported::of_numbers(ModelKind::Tasks, fit.config(), fit.column_names())?
                })
            }
            LabelsFit::MODEL => Ok(Imported {
                schema: None,
                ..Imported::plain(ModelKind::Labels, &self.fit::<LabelsFit>()?.config)?
            }),
            MedLdaFit::MODEL => {
                let fit: MedLdaFit = self.fit()?;
                let classes = Some(fit.n_scores()).filter(|&n| n > 1).unwrap_or(0);
                Ok(Imported {
                    places: (0..classes).map(|k| k.to_string()).collect(),
                    ..Imported::plain(ModelKind::Topics, fit.config())?
                })
            }
            ItfFit::MODEL | ItfFit::BEFORE => {
                let fit: ItfFit = self.fit()?;
                Ok(Imported {
                    schema: of_columns(&fit),
                    n_rows: fit.n_rows(),
                    ..Imported::plain(ModelKind::Table, fit.config())?
                })
            }
            BsvdFit::MODEL => {
                let fit: BsvdFit = self.fit()?;
                Ok(Imported {
                    n_rows: fit.row_counts().iter().map(|&n| n as usize).sum(),
                    places: ["row", "column", "value"].map(str::to_owned).to_vec(),
                    ..Imported::plain(ModelKind::Ratings, &fit.config)?
                })
            }
            other => Err(Failure::usage(format_args!(
                "{}: holds a {other:?}, which no kind of model here asks",
                self.1.display()
            ))),
        }
    }
}

/// The schema of a table whose columns are read as the kinds that they have in memory.
fn of_columns(fit: &ItfFit) -> Option<Schema> {
    let column = |info: &npb_itf::ColumnInfo| {
        let kind = match info.kind? {
            ColumnKind::Real => Kind::Real,
            ColumnKind::Count => Kind::Count,
            ColumnKind::Binary => Kind::Binary,
            ColumnKind::Categorical => Kind::Categorical,
        };
        Some(ColumnSchema {
            levels: kind.has_levels().then(|| info.levels.clone()),
            ..ColumnSchema::new(&info.name, kind)
        })
    };
    let columns = fit.columns().iter().map(column).collect::<Option<_>>()?;
    Some(Schema {
        columns,
        ..Schema::default()
    })
}
