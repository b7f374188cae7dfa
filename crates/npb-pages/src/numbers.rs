//! What pages of models of rows of numbers share: features as numbers, clusters, made-up rows, hidden cells.

use std::ops::Range;

use npb_data::schema::{Design, Kind, Role};
use npb_data::{Mask, MixedTable, Table};
use npb_infer::{Stop, VbReport};
use npb_iqgme::{IqgmeFit, MissingCell};
use npb_report::{HeatMap, heat_map};

use crate::cells::{self, LEVEL, Refilled, is_number, value};
use crate::page::Section;
use crate::predictive::{self, DRAWN};
use crate::sampling::{hidden, some_rows};
use crate::shared::{left_out_words, short_name};
use crate::{Context, Page, Result, Rows, shared};

/// Rows of one draw of the parameters are alike in these: so many draws.
const DRAWS: usize = 200;
/// Clusters and columns in pictures.
const MOST_CLUSTERS: usize = 16;
const MOST_COLUMNS: usize = 40;
/// A mean is drawn as so many standard deviations from that of all, at most.
const FARTHEST: f64 = 3.0;
/// Cells whose interval is drawn: it is looked for by halving.
const WITH_INTERVAL: usize = 120;

/// How features become numbers; none where they are numbers already.
pub(crate) struct Numbers {
    design: Option<Design>,
    /// Where the numbers of each feature stand.
    pub(crate) places: Vec<Range<usize>>,
    /// Features that are logarithms in the model.
    logarithms: Vec<bool>,
}

impl Numbers {
    pub(crate) fn of(context: &Context<'_>, features: &MixedTable) -> Self {
        let Some(schema) = context.schema else {
            let p = features.n_cols();
            return Self {
                design: None,
                places: (0..p).map(|j| j..j + 1).collect(),
                logarithms: vec![false; p],
            };
        };
        let design = Design::new(schema);
        let mut end = 0;
        let place = |names: Vec<String>| {
            end += names.len();
            end - names.len()..end
        };
        let kinds = schema.with_role(Role::Feature).map(|c| c.kind);
        Self {
            places: design.names().into_iter().map(place).collect(),
            logarithms: kinds.map(|kind| kind == Kind::Positive).collect(),
            design: Some(design),
        }
    }

    /// Features as the numbers of the model.
    pub(crate) fn table(&self, features: &MixedTable) -> Result<Table> {
        let all: Vec<usize> = (0..features.n_cols()).collect();
        Ok(match &self.design {
            Some(design) => design.table(features)?,
            None => features.numeric_table(&all)?,
        })
    }

    /// Features whose missing cells are taken from numbers.
    fn completed(&self, features: &MixedTable, numbers: &Table) -> Result<MixedTable> {
        if let Some(design) = &self.design {
            return Ok(design.completed(features, numbers)?);
        }
        let cells = |j: usize| {
            (0..numbers.n_rows())
                .map(move |i| numbers.get(i, j))
                .collect()
        };
        let columns = (0..numbers.n_cols()).map(|j| npb_data::MixedColumn::Real(cells(j)));
        let names = features.column_names().to_vec();
        Ok(MixedTable::new(names, columns.collect())?)
    }

    fn width(&self) -> usize {
        self.places.last().map_or(0, |place| place.end)
    }

    /// So many rows that their missing patterns take seconds: the work for each is the cube of their numbers.
    pub(crate) fn most_rows(&self) -> usize {
        let p = self.width().max(1) as f64;
        (2e7 / (p * p)).clamp(200.0, 1000.0) as usize
    }
}

/// A page with what went in, what is not used, and whether the bound has settled.
///
/// `names`: of all columns of numbers; `unused`: those that were not taken; `setting`: of the most iterations.
pub(crate) fn begin(
    context: &Context<'_>,
    (names, unused): (&[String], &[usize]),
    (trace, stop): (&[VbReport], Stop),
    setting: &str,
) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(left_out(context, names, unused));
    page.push(shared::bound(trace, stop, setting)?);
    Ok(page)
}

/// Says which columns are not in the model: columns of numbers that it has not taken, and features that become no number.
fn left_out(context: &Context<'_>, names: &[String], columns: &[usize]) -> Section {
    let mut section = Section::new("Columns that are not used");
    let mut found: Vec<String> = columns.iter().map(|&j| names[j].clone()).collect();
    if let Some(schema) = context.schema {
        let of_design = Design::new(schema).names();
        let features = schema.with_role(Role::Feature).zip(of_design);
        let without = features.filter(|(_, numbers)| numbers.is_empty());
        found.extend(without.map(|(feature, _)| feature.name.clone()));
    }
    if !found.is_empty() {
        section.warn(left_out_words(
            "constant or without a value, and not in the model",
            &found.iter().map(String::as_str).collect::<Vec<_>>(),
        ));
    }
    section
}

/// A cluster as it is drawn.
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) mean: Vec<f64>,
    /// By column.
    pub(crate) variance: Vec<f64>,
}

/// Clusters by size, each mean in standard deviations from that of all rows.
///
/// `names`: of the columns of the means.
pub(crate) fn draw_clusters(
    section: &mut Section,
    clusters: &[Cluster],
    names: &[String],
) -> Result<()> {
    let total: f64 = clusters.iter().map(|c| c.weight).sum();
    let all = |of: &dyn Fn(&Cluster) -> f64| {
        clusters.iter().map(|c| c.weight * of(c)).sum::<f64>() / total
    };
    let scale = |j: usize| {
        let mean = all(&|c| c.mean[j]);
        let square = all(&|c| c.variance[j] + (c.mean[j] - mean).powi(2));
        (mean, square.sqrt())
    };
    let scales: Vec<(f64, f64)> = (0..names.len()).map(scale).collect();
    let apart = |c: &Cluster, j: usize| (c.mean[j] - scales[j].0) / scales[j].1;
    let mut columns: Vec<usize> = (0..names.len()).collect();
    if columns.len() > MOST_COLUMNS {
        // Those in which clusters differ most.
        let spread = |j: usize| all(&|c| apart(c, j).powi(2));
        columns.sort_by(|&a, &b| spread(b).total_cmp(&spread(a)));
        columns.truncate(MOST_COLUMNS);
        columns.sort_unstable();
    }
    let shown = &clusters[..clusters.len().min(MOST_CLUSTERS)];
    let map = HeatMap {
        rows: shown.iter().map(|c| c.name.clone()).collect(),
        columns: columns.iter().map(|&j| short_name(&names[j])).collect(),
        values: shown
            .iter()
            .flat_map(|c| columns.iter().map(|&j| apart(c, j)))
            .collect(),
        range: (-FARTHEST, FARTHEST),
        marked: Vec::new(),
    };
    if map.values.iter().any(|value| value.is_finite()) {
        let look = "Means in standard deviations from the mean of all rows: strong colours say what sets a cluster apart.";
        section.draw(heat_map("clusters", "What the clusters are", look, &map)?);
    }
    Ok(())
}

/// The clusters of a fit.
pub(crate) fn clusters(fit: &IqgmeFit) -> Result<Section> {
    let mut section = Section::new("Clusters");
    let n = fit.n_clusters();
    section.say(format!(
        "{n} {} rows of training by itself.",
        if n == 1 {
            "cluster has"
        } else {
            "clusters have"
        }
    ));
    let mut found = fit.components();
    found.sort_by(|a, b| b.size.total_cmp(&a.size));
    found.truncate(n.max(1));
    let total: f64 = found.iter().map(|c| c.weight).sum();
    let cluster = |(k, c): (usize, npb_iqgme::ComponentSummary)| Cluster {
        name: format!(
            "{}: {:.1} rows ({:.0}%)",
            k + 1,
            c.size,
            100.0 * c.weight / total
        ),
        weight: c.weight,
        variance: (0..c.mean.len()).map(|j| c.covariance[(j, j)]).collect(),
        mean: c.mean,
    };
    let clusters: Vec<Cluster> = found.into_iter().enumerate().map(cluster).collect();
    let names = fit
        .model_columns()
        .iter()
        .map(|&j| fit.column_names()[j].clone());
    draw_clusters(&mut section, &clusters, &names.collect::<Vec<_>>())?;
    Ok(section)
}

/// Known cells that are hidden and filled again.
pub(crate) fn imputation(fit: &IqgmeFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Does it fill holes well?");
    let numbers = Numbers::of(context, &rows.features);
    let rows = some_rows(rows, numbers.most_rows(), context.seed);
    let (left, places) = hidden(&rows, context.seed)?;
    if places.is_empty() {
        return Ok(section);
    }
    section.say(format!(
        "{} known cells of {} rows (about a tenth) are hidden, by seed {}, and filled again from the other cells of their rows. {}",
        places.len(),
        rows.n_rows(),
        context.seed,
        rows.held_out()
    ));
    let table = numbers.table(&left)?;
    let filled = fit.impute(&table)?.completed;
    let completed = numbers.completed(&left, &filled)?;
    let laws = fit.cells_by_row(&table)?;
    let step = places.len().div_ceil(WITH_INTERVAL);
    let mut found = Vec::new();
    for (k, &(row, column)) in places.iter().enumerate() {
        let [truth, guess] = [&rows.features, &completed].map(|t| value(t.column(column), row));
        let (Some(truth), Some(guess)) = (truth, guess) else {
            continue;
        };
        let law = laws[row]
            .iter()
            .find(|cell| cell.column == numbers.places[column].start);
        let law = law.filter(|_| {
            numbers.places[column].len() == 1 && is_number(rows.features.column(column))
        });
        let with_interval = k % step == 0;
        let (inside, interval) = match law {
            Some(law) => judged(law, truth, numbers.logarithms[column], with_interval)?,
            None => (None, None),
        };
        found.push(Refilled {
            column,
            truth,
            guess,
            inside,
            interval,
        });
    }
    cells::write(&mut section, &rows.features, &found)?;
    Ok(section)
}

/// Whether the central interval of a law holds a number, and its ends where these are wanted.
fn judged(
    law: &MissingCell,
    truth: f64,
    is_logarithm: bool,
    with_ends: bool,
) -> Result<(Option<bool>, Option<[f64; 2]>)> {
    let inner = if is_logarithm { truth.ln() } else { truth };
    let tail = 0.5 * (1.0 - LEVEL);
    let below = law.cdf(inner);
    let inside = (tail..=1.0 - tail).contains(&below);
    if !with_ends {
        return Ok((Some(inside), None));
    }
    let ends = [law.quantile(tail)?, law.quantile(1.0 - tail)?];
    let outer = |end: f64| if is_logarithm { end.exp() } else { end };
    Ok((Some(inside), Some(ends.map(outer))))
}

/// Rows that the model makes up against rows as they are.
pub(crate) fn made_up(fit: &IqgmeFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Does the model know the shape of the data?");
    let numbers = Numbers::of(context, &rows.features);
    section.say(format!(
        "{DRAWN} rows that the model makes up (seed {}) against the {} rows of {}, the columns that are least alike first.",
        context.seed,
        rows.n_rows(),
        rows.file
    ));
    let first = rows.features.select_rows(&[0; DRAWN / DRAWS]);
    let nothing = Mask::from_fn(first.n_rows(), first.n_cols(), |_, _| true)?;
    let nothing = first.hide(&nothing)?;
    let fit = fit.clone().with_seed(context.seed);
    let drawn = fit.impute_draws(&numbers.table(&nothing)?, DRAWS)?;
    let width = numbers.width();
    let cell = |table: &Table, i: usize, j: usize| table.get(i, j).unwrap_or(f64::NAN);
    let values = drawn.iter().flat_map(|table| {
        let rows = 0..table.n_rows();
        rows.flat_map(move |i| (0..width).map(move |j| cell(table, i, j)))
    });
    let all: Vec<f64> = values.collect();
    let all = Table::from_nan_coded(DRAWN, width, &all)?;
    let known = nothing.select_rows(&[0; DRAWN]);
    let all = all.with_column_names(drawn[0].column_names().to_vec())?;
    predictive::write(
        &mut section,
        &rows.features,
        &numbers.completed(&known, &all)?,
    )?;
    Ok(section)
}
