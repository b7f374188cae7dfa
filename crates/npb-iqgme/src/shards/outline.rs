//! From shards to the data of a fit: units, classes, and the sample by which runs start.

use std::sync::Arc;

use npb_data::{ColumnStats, DataError, Labels, Table};
use npb_infer::storage;

use super::local::cut;
use super::shard::{Description, Preparation, Prepared, Sample};
use super::{Asked, SAMPLE_ROWS, SHARD_ROWS, Shards, ask, encode};
use crate::data::{IqgmeData, Sharded, Task, classes_seen, fingerprint, too_far};
use crate::ensemble::crossval::{folds_that_keep, sides};
use crate::ensemble::scales;
use crate::rows::Rows;
use crate::units::Units;
use crate::{IqgmeConfig, IqgmeError, Result};

/// Rows of a class in the sample, at least, where there are as many.
const LEAST_OF_CLASS: usize = 10;

/// The data of a fit over shards, by scale, and the sample as it is.
pub(crate) struct Outline {
    pub(crate) data: Vec<IqgmeData>,
    pub(crate) table: Table,
    pub(crate) labels: Labels,
    /// In which the sample is dealt; runs start from the rows that the first one keeps.
    pub(crate) folds: usize,
}

impl Outline {
    /// Asks the shards. Errors: no rows, no columns, other columns or classes in one shard than in the first, one class only, values too far apart.
    pub(crate) fn new(shards: &Arc<dyn Shards>, config: &IqgmeConfig) -> Result<Self> {
        let described: Vec<Description> = ask(&**shards, Asked::Describe, &(), &[])?;
        let first = described.first().ok_or(IqgmeError::NoRows)?;
        check_alike(&described)?;
        if first.columns.is_empty() {
            return Err(IqgmeError::NoColumns);
        }
        let stats = joint_stats(&described)?;
        let (table, labels) = sample(&**shards, &described, config)?;
        let classes = classes_seen(&labels).map_err(|error| of_all(error, &described))?;
        let own = Units::of(&first.columns, &stats, None);
        let folds = folds_that_keep(SAMPLE_ROWS, table.n_rows(), config.folds);
        let dealt = match holds_out(&described, config) {
            true => sides(&[&labels], folds, config.seed),
            false => Vec::new(),
        };
        let all = || (0..table.n_rows()).collect();
        let kept = dealt.first().map_or_else(all, |of| of[0].kept.clone());
        let (kept, of_kept) = (table.select_rows(&kept), labels.select_rows(&kept));
        let sampled = IqgmeData::with_units(&kept, &of_kept, own, classes)?;
        let tasks = [Task::only(&kept, &of_kept)];
        let mut samples = vec![sampled];
        if scales::scores_wanted(&tasks, &samples[0].units.active, config) {
            samples.push(samples[0].on_scores(&kept, &of_kept)?);
        }
        let n_rows: Vec<usize> = described.iter().map(|of| of.n_rows).collect();
        let n_labelled = described.iter().flat_map(|of| &of.counts).sum();
        let each = samples.into_iter().enumerate();
        let data = each
            .map(|(scale, sample)| on_scale(shards, (scale, sample), n_rows.clone(), n_labelled));
        let data = data.collect::<Result<_>>()?;
        Ok(Self {
            data,
            table,
            labels,
            folds,
        })
    }
}

/// Makes the shards ready in the units of the sample.
fn on_scale(
    shards: &Arc<dyn Shards>,
    (scale, sample): (usize, IqgmeData),
    n_rows: Vec<usize>,
    n_labelled: usize,
) -> Result<IqgmeData> {
    let preparation = Preparation {
        units: sample.units.clone(),
        classes: sample.classes.clone(),
        n_utilities: sample.rows.n_utilities,
    };
    let prepared: Vec<Prepared> = ask(&**shards, Asked::Prepare(scale), &preparation, &[])?;
    let mut rows = Rows::of_features(sample.rows.n_features);
    rows.n_utilities = sample.rows.n_utilities;
    let prints = prepared.iter().map(|of| of.print);
    Ok(IqgmeData {
        rows,
        units: sample.units.clone(),
        classes: sample.classes.clone(),
        covariance: sample.covariance.clone(),
        n_labelled,
        sharded: Some(Sharded {
            shards: Arc::clone(shards),
            scale,
            n_rows,
            n_observed: prepared.iter().map(|of| of.n_observed).sum(),
            print: joint_print(prints.collect())?,
            sample: Box::new(sample),
            starts: Arc::default(),
        }),
    })
}

/// An error that counts rows of the sample, with those of the table in their place.
fn of_all(mut error: IqgmeError, described: &[Description]) -> IqgmeError {
    if let IqgmeError::OneClass { rows, .. } = &mut error {
        *rows = described.iter().flat_map(|of| &of.counts).sum();
    }
    error
}

fn joint_print(prints: Vec<u64>) -> Result<u64> {
    if let [only] = prints[..] {
        return Ok(only);
    }
    Ok(storage::fingerprint(&prints)?)
}

/// What [`fingerprint`] says of the rows of a fit, whether it was one over shards or not.
pub(crate) fn print_of_training(data: &IqgmeData, table: &Table, labels: &Labels) -> Result<u64> {
    if table.n_rows() <= SHARD_ROWS {
        return fingerprint(data);
    }
    let prints = cut(table, labels, SHARD_ROWS).map(|shard| {
        let (units, classes) = (data.units.clone(), data.classes.clone());
        let n_utilities = data.rows.n_utilities;
        fingerprint(&shard?.on_scale(units, classes, n_utilities)?)
    });
    joint_print(prints.collect::<Result<_>>()?)
}

fn check_alike(described: &[Description]) -> Result<()> {
    let mut n_rows = 0;
    for of in described {
        let first = &described[0];
        if of.columns != first.columns || of.classes != first.classes {
            return Err(IqgmeError::Shard(format!(
                "the rows from number {n_rows} on have columns {:?} and classes {:?}, those before {:?} and {:?}",
                of.columns, of.classes, first.columns, first.classes
            )));
        }
        n_rows += of.n_rows;
    }
    Ok(())
}

/// Of the columns of all shards.
fn joint_stats(described: &[Description]) -> Result<Vec<ColumnStats>> {
    let mut stats = described[0].stats.clone();
    for of in &described[1..] {
        let each = stats.iter_mut().zip(&of.stats);
        each.for_each(|(all, of)| *all = all.with(of));
    }
    for (column, of) in stats.iter().enumerate() {
        let Some(value) = too_far(of.min, of.max) else {
            continue;
        };
        let here =
            |of: &&Description| [of.stats[column].min, of.stats[column].max].contains(&value);
        let row = described.iter().find(here).map_or(0, |of| {
            of.extremes[column][usize::from(of.stats[column].max == value)]
        });
        return Err(IqgmeError::Data(DataError::TooFar { row, column, value }));
    }
    Ok(stats)
}

/// Whether the sample has further rows whose labels are held out.
fn holds_out(described: &[Description], config: &IqgmeConfig) -> bool {
    let n_labelled: usize = described.iter().flat_map(|of| &of.counts).sum();
    config.folds > 1 && n_labelled >= SAMPLE_ROWS && described[0].n_rows > SAMPLE_ROWS
}

/// As many rows as the first shard has, or with labels [`SAMPLE_ROWS`] of many, dealt to shards and classes by their numbers of rows; at least half of them with labels, where there are as many.
fn sample(
    shards: &dyn Shards,
    described: &[Description],
    config: &IqgmeConfig,
) -> Result<(Table, Labels)> {
    let first = &described[0];
    let of_class = |class: usize| described.iter().map(move |of| of.counts[class]);
    let labelled = |of: &Description| of.counts.iter().sum::<usize>();
    let n_rows: usize = described.iter().map(|of| of.n_rows).sum();
    let n_labelled: usize = described.iter().map(labelled).sum();
    // Half of them to start from, where the others have labels enough to be held out.
    let size = match n_labelled {
        0 => first.n_rows.min(n_rows),
        _ => first
            .n_rows
            .min(SAMPLE_ROWS << u32::from(holds_out(described, config))),
    };
    let fair = (size as f64 * n_labelled as f64 / n_rows as f64).round() as usize;
    let with_labels = fair.max(size / 2).min(n_labelled);
    let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); described.len()];
    let mut deal = |n: usize, counts: Vec<usize>| {
        let each = wanted.iter_mut().zip(dealt(n, &counts));
        each.for_each(|(of_shard, n)| of_shard.push(n));
    };
    for class in 0..first.classes.len() {
        let n: usize = of_class(class).sum();
        let share = (with_labels as f64 * n as f64 / n_labelled.max(1) as f64).round() as usize;
        deal(share.max(LEAST_OF_CLASS).min(n), of_class(class).collect());
    }
    let unlabelled = described.iter().map(|of| of.n_rows - labelled(of));
    deal(
        (size - with_labels).min(n_rows - n_labelled),
        unlabelled.collect(),
    );
    let own: Vec<Vec<u8>> = wanted.iter().map(encode).collect::<Result<_>>()?;
    let parts: Vec<Sample> = ask(shards, Asked::Sample, &config.seed, &own)?;
    joined(first, &parts)
}

/// The rows of the parts, one after the other.
fn joined(first: &Description, parts: &[Sample]) -> Result<(Table, Labels)> {
    let tables = || parts.iter().map(|part| &part.table);
    let values: Vec<f64> = tables().flat_map(|table| table.values()).copied().collect();
    let seen = |table: &Table| -> Vec<bool> {
        let cells = (0..table.n_rows()).flat_map(|i| (0..table.n_cols()).map(move |j| (i, j)));
        cells.map(|(i, j)| table.is_observed(i, j)).collect()
    };
    let seen: Vec<bool> = tables().flat_map(seen).collect();
    let n_rows = tables().map(Table::n_rows).sum();
    let table = Table::new(n_rows, first.columns.len(), values, &seen)?;
    let codes = parts.iter().flat_map(|part| part.labels.codes()).copied();
    let labels = Labels::from_codes(first.classes.clone(), codes.collect())?;
    Ok((table.with_column_names(first.columns.clone())?, labels))
}

/// `n` of the rows that shards have, by their numbers: what is left of whole shares goes to the largest remainders, the first ones where these are equal.
pub(super) fn dealt(n: usize, counts: &[usize]) -> Vec<usize> {
    let all: usize = counts.iter().sum();
    let share = |count: &usize| n as u128 * *count as u128;
    let whole = |count| (share(count) / all.max(1) as u128) as usize;
    let mut dealt: Vec<usize> = counts.iter().map(whole).collect();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&k| std::cmp::Reverse(share(&counts[k]) % all.max(1) as u128));
    let left = n - dealt.iter().sum::<usize>();
    order.into_iter().take(left).for_each(|k| dealt[k] += 1);
    dealt
}
