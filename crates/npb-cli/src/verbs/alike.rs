//! Which rows of a table belong together: rows like one, and the clusters of each column.

use std::collections::HashMap;

use npb_data::schema::Role;
use npb_itf::{CellSummary, ClusteringLoss, ItfFit, PointClustering, summarise_clusters};

use super::cells::{check_columns, read};
use crate::args::{ClustersArgs, SimilarArgs};
use crate::failure::Result;
use crate::model::ModelFile;
use crate::rows::{self, Needs, NewRows};
use crate::sheet::{Cell, Sheet, Type};

const WHOLE: Needs<'_> = Needs {
    all_rows: true,
    written: true,
    targets: &[],
};

/// The rows of a file must be those of the fit, which has clustered them.
fn check_rows(fit: &ItfFit, rows: &NewRows<'_>, model: &ModelFile) -> Result<()> {
    read(fit, rows, true)?;
    model.check_names(rows.data.row_ids.as_deref(), rows.file)
}

pub(super) fn similar(args: &SimilarArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    let fit: ItfFit = model.fit()?;
    check_columns(&fit, "--column", &args.column)?;
    let asked = (args.file.as_path(), &args.how);
    rows::answer(model, asked, WHOLE, quiet, |rows| {
        check_rows(&fit, rows, model)?;
        let row = row_named(rows, &args.row)?;
        let columns: Vec<&str> = args.column.iter().map(String::as_str).collect();
        let alike = fit.similar_rows(&columns, row).map_err(rows.wrong())?;
        let mut all = rows.sheet();
        all.push_column(
            "similarity",
            Type::Number,
            alike.iter().map(|&x| Cell::Number(x)),
        );
        rows.push_completed(&rows.data.features, &mut all);
        let mut order: Vec<usize> = (0..alike.len()).filter(|&other| other != row).collect();
        // Among equals the first of the file.
        order.sort_by(|&a, &b| alike[b].total_cmp(&alike[a]));
        let mut sheet = all.clone().split_to(0);
        for &row in order.iter().take(args.top.get()) {
            sheet.push_row(all.row(row).cloned());
        }
        Ok(sheet)
    })
}

/// The place of a row by its name, or by its number where rows have no names.
fn row_named(rows: &NewRows<'_>, name: &str) -> Result<usize> {
    let n_rows = rows.data.n_rows;
    let (found, what) = match &rows.data.row_ids {
        Some(ids) => {
            let mut places = ids
                .iter()
                .enumerate()
                .filter(|(_, id)| id.as_deref() == Some(name));
            let found = places.next().map(|(row, _)| row);
            if places.next().is_some() {
                return Err(rows.wrong()(format_args!(
                    "--row {name}: more than one row has this name"
                )));
            }
            let column = rows.data.schema.with_role(Role::RowId).next();
            let column = column.map_or(String::new(), |column| {
                format!("no row of this name in column {:?}", column.name)
            });
            (found, column)
        }
        None => {
            let number = name
                .parse::<usize>()
                .ok()
                .filter(|k| (1..=n_rows).contains(k));
            (
                number.map(|k| k - 1),
                format!("rows have no names here: give a number from 1 to {n_rows}"),
            )
        }
    };
    found.ok_or_else(|| rows.wrong()(format_args!("--row {name}: {what}")))
}

pub(super) fn clusters(args: &ClustersArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    let fit: ItfFit = model.fit()?;
    check_columns(&fit, "--column", &args.column)?;
    let asked = (args.file.as_path(), &args.how);
    rows::answer(model, asked, WHOLE, quiet, |rows| {
        check_rows(&fit, rows, model)?;
        let found = clusterings(&fit, &args.column).map_err(rows.wrong())?;
        if args.rows {
            let mut sheet = rows.sheet();
            for (name, point) in found {
                let numbers = point.labels.iter().map(|&k| Cell::Whole(u64::from(k) + 1));
                sheet.push_column(name, Type::Whole, numbers);
            }
            return Ok(sheet);
        }
        let mut sheet = Sheet::default();
        for (name, kind) in [
            ("clustering", Type::Text),
            ("cluster", Type::Whole),
            ("size", Type::Whole),
            ("support", Type::Number),
            ("column", Type::Text),
            ("divergence", Type::Number),
            ("mean", Type::Number),
            ("sd", Type::Number),
            ("level", Type::Text),
            ("share", Type::Number),
        ] {
            sheet.push_column(name, kind, []);
        }
        for (name, point) in &found {
            push_clusters(&mut sheet, rows, (name, point), args.top.get())?;
        }
        Ok(sheet)
    })
}

/// The clustering of each column or group that is wanted, by its names.
fn clusterings(
    fit: &ItfFit,
    wanted: &[String],
) -> std::result::Result<Vec<(String, PointClustering)>, npb_itf::ItfError> {
    let mut names: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut at: HashMap<usize, usize> = HashMap::new();
    for (info, place) in fit.columns().iter().zip(fit.places()) {
        let k = *at.entry(place.column).or_insert(names.len());
        if k == names.len() {
            names.push((place.column, Vec::new()));
        }
        names[k].1.push(&info.name);
    }
    let is_wanted = |names: &[&str]| {
        wanted.is_empty() || names.iter().any(|name| wanted.iter().any(|w| w == name))
    };
    let wanted = names.into_iter().filter(|(_, names)| is_wanted(names));
    let loss = ClusteringLoss::VariationOfInformation;
    let found =
        wanted.map(|(_, names)| Ok((names.join(" + "), fit.point_clustering(names[0], loss)?)));
    found.collect()
}

/// The clusters of a clustering, each by the columns in which it is least like the whole table.
fn push_clusters(
    sheet: &mut Sheet,
    rows: &NewRows<'_>,
    (name, point): (&str, &PointClustering),
    top: usize,
) -> Result<()> {
    let features = &rows.data.features;
    for cluster in summarise_clusters(features, &point.labels).map_err(rows.wrong())? {
        let own = point
            .labels
            .iter()
            .zip(&point.support)
            .filter(|(k, _)| **k == cluster.label);
        let support = own.map(|(_, support)| support).sum::<f64>() / cluster.size as f64;
        let mut columns: Vec<_> = cluster.columns.iter().collect();
        columns.sort_by(|a, b| b.divergence.total_cmp(&a.divergence));
        for column in columns.into_iter().take(top) {
            let [mut mean, mut sd, mut level, mut share] = [const { Cell::Missing }; 4];
            match &column.cells {
                CellSummary::Nothing => {}
                CellSummary::Numbers { mean: m, sd: s, .. } => {
                    (mean, sd) = (Cell::Number(*m), Cell::Number(*s));
                }
                CellSummary::Levels { shares } => {
                    let most = (0..shares.len())
                        .rev()
                        .max_by(|&a, &b| shares[a].total_cmp(&shares[b]));
                    let at = features
                        .column_names()
                        .iter()
                        .position(|name| *name == column.column);
                    let levels = at.and_then(|at| features.column(at).levels());
                    level = Cell::from(most.zip(levels).map(|(k, levels)| levels[k].as_str()));
                    share = Cell::from(most.map(|k| shares[k]));
                }
            }
            sheet.push_row([
                Cell::Text(name.to_owned()),
                Cell::Whole(u64::from(cluster.label) + 1),
                Cell::Whole(cluster.size as u64),
                Cell::Number(support),
                Cell::Text(column.column.clone()),
                Cell::Number(column.divergence),
                mean,
                sd,
                level,
                share,
            ]);
        }
    }
    Ok(())
}
