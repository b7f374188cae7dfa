//! `npb merge` and `npb import`: models from models.

use std::path::{Path, PathBuf};

use npb_bsvd::BsvdFit;
use npb_data::ColumnKind;
use npb_data::schema::{ColumnSchema, Design, Kind, Schema};
use npb_iqgme::{IqgmeFit, MultiTaskFit, Saved};
use npb_itf::ItfFit;
use npb_regbayes::{LabelsFit, MedLdaFit};

use crate::args::{ImportArgs, MergeArgs, ModelKind};
use crate::failure::{Failure, Result};
use crate::input::{self, bad_schema, note};
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
    if !["ratings", "table"].contains(&first.kind.as_str()) {
        return Err(first.cannot(first_path, "merge", "ratings or table"));
    }
    for (file, path) in files.iter().zip(&args.models).skip(1) {
        if !file.is_of_the_data_of(first) {
            return Err(Failure::bad_data(format_args!(
                "{}: is not of the kind, schema, columns or number of rows of {}",
                path.display(),
                first_path.display()
            )));
        }
    }
    let mut merged = first.clone();
    let n_draws = match first.kind.as_str() {
        "ratings" => {
            let fits = loaded::<BsvdFit>(&files, &args.models)?;
            let [rows, columns] = [BsvdFit::row_names, BsvdFit::column_names]
                .map(|names| fits.iter().all(|fit| names(fit) == names(&fits[0])));
            if !(rows && columns) {
                return Err(Failure::bad_data(
                    "the models are of other rows or columns; fit them to the same file",
                ));
            }
            differ(&args.models, &fits, |fit| {
                (fit.config.seed, fit.config.chain)
            })?;
            let all = BsvdFit::pooled(fits).map_err(Failure::bad_data)?;
            merged.config = settings::text(&all.config)?;
            merged.fit = all.to_bytes().map_err(Failure::failed)?;
            all.draws().len()
        }
        _ => {
            let fits = loaded::<ItfFit>(&files, &args.models)?;
            differ(&args.models, &fits, |fit| (fit.config().seed, 0))?;
            let all = ItfFit::pooled(fits).map_err(Failure::bad_data)?;
            merged.config = settings::text(all.config())?;
            merged.fit = all.to_bytes().map_err(Failure::failed)?;
            all.draws().len()
        }
    };
    merged.save(&args.out)?;
    note(
        quiet,
        format_args!(
            "{} models, {n_draws} draws; {} written",
            files.len(),
            args.out.display()
        ),
    );
    Ok(())
}

fn loaded<F: Saved>(files: &[ModelFile], paths: &[PathBuf]) -> Result<Vec<F>>
where
    F::Error: std::fmt::Display,
{
    let fits = files
        .iter()
        .zip(paths)
        .map(|(file, path)| fit(&file.fit, path));
    fits.collect()
}

fn fit<F: Saved>(bytes: &[u8], path: &Path) -> Result<F>
where
    F::Error: std::fmt::Display,
{
    F::from_bytes(bytes).map_err(|e| Failure::bad_data(format_args!("{}: {e}", path.display())))
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

pub(crate) fn import(args: &ImportArgs, quiet: bool) -> Result<()> {
    check_folder(&args.out)?;
    let bytes = input::bytes(&args.fit)?;
    let path = args.fit.display();
    let imported = described(&bytes, &args.fit)?;
    let schema = match &args.schema {
        Some(file) => {
            Schema::from_toml(&input::text(file)?).map_err(|e| bad_schema(Some(file), &e))?
        }
        None => imported.schema.clone().ok_or_else(|| {
            Failure::usage(format_args!("{path}: say by --schema what the columns are"))
        })?,
    };
    if let Some(names) = &imported.numbers {
        let made = Design::new(&schema).names().concat();
        if made != *names {
            return Err(Failure::bad_data(format_args!(
                "{path}: has the columns {}; the schema makes {}",
                listed(names),
                listed(&made)
            )));
        }
    }
    let mut model = ModelFile::new(
        imported.kind.name(),
        &schema,
        imported.config,
        &args.fit,
        bytes,
    );
    (model.n_rows, model.places) = (imported.n_rows as u64, imported.places);
    model.save(&args.out)?;
    note(
        quiet,
        format_args!(
            "a model of kind {}; {} written",
            model.kind,
            args.out.display()
        ),
    );
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

fn described(bytes: &[u8], path: &Path) -> Result<Imported> {
    let plain = |kind, config| Imported {
        kind,
        config,
        numbers: None,
        schema: Some(Schema::default()),
        n_rows: 0,
        places: Vec::new(),
    };
    let of_numbers = |kind, config, names: &[String]| Imported {
        schema: Some(reals(names)),
        numbers: Some(names.to_vec()),
        ..plain(kind, config)
    };
    Ok(match ModelFile::library_model(path, bytes)?.as_str() {
        IqgmeFit::MODEL => {
            let fit: IqgmeFit = fit(bytes, path)?;
            let kind = match fit.classes().is_empty() {
                true => ModelKind::Mixture,
                false => ModelKind::Classifier,
            };
            of_numbers(kind, settings::text(fit.config())?, fit.column_names())
        }
        MultiTaskFit::MODEL => {
            let fit: MultiTaskFit = fit(bytes, path)?;
            let found = of_numbers(
                ModelKind::Tasks,
                settings::text(fit.config())?,
                fit.column_names(),
            );
            // Which column names the task, only a schema says.
            Imported {
                schema: None,
                ..found
            }
        }
        LabelsFit::MODEL => {
            let fit: LabelsFit = fit(bytes, path)?;
            Imported {
                schema: None,
                ..plain(ModelKind::Labels, settings::text(&fit.config)?)
            }
        }
        MedLdaFit::MODEL => {
            let fit: MedLdaFit = fit(bytes, path)?;
            let classes = if fit.n_scores() > 1 {
                fit.n_scores()
            } else {
                0
            };
            Imported {
                places: (0..classes).map(|k| k.to_string()).collect(),
                ..plain(ModelKind::Topics, settings::text(fit.config())?)
            }
        }
        ItfFit::MODEL => {
            let fit: ItfFit = fit(bytes, path)?;
            Imported {
                schema: of_columns(&fit),
                n_rows: fit.n_rows(),
                ..plain(ModelKind::Table, settings::text(fit.config())?)
            }
        }
        BsvdFit::MODEL => {
            let fit: BsvdFit = fit(bytes, path)?;
            Imported {
                n_rows: fit.row_counts().iter().map(|&n| n as usize).sum(),
                places: ["row", "column", "value"].map(str::to_owned).to_vec(),
                ..plain(ModelKind::Ratings, settings::text(&fit.config)?)
            }
        }
        other => {
            return Err(Failure::usage(format_args!(
                "{}: holds a {other:?}, which no kind of model here asks",
                path.display()
            )));
        }
    })
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
