use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use npb_data::{Labels, Table};
use npb_infer::checkpoint::Every;
use npb_infer::watch::Checkpoint;
use npb_infer::{Saved, Watch, maximise, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::local::{LocalShards, cut};
use super::outline::{Outline, dealt};
use super::*;
use crate::shards::shard::{PreparedShard, RowShard};
use crate::start::of_sample;
use crate::{
    Init, IqgmeConfig, IqgmeData, IqgmeFit, IqgmeVb, VbUpdate, answer_of_sample, fit_shards,
    laplace,
};

/// Rows of three clusters, a fifth of the cells missing, in which a class depends on the first feature; some rows have no label.
fn rows(seed: u64, n: usize, n_classes: usize) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 21, 0]);
    let (mut values, mut seen, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n {
        let centre = [-4.0, 0.0, 4.0][i % 3];
        let noise: [f64; 4] = std::array::from_fn(|_| rng.sample(StandardNormal));
        let row = [
            centre + noise[0],
            noise[1],
            noise[0] + 0.3 * noise[2],
            centre - noise[3],
        ];
        values.extend(row);
        seen.extend(row.map(|_| rng.random::<f64>() > 0.2));
        let class = ((noise[0] + 1.5) as usize).min(n_classes - 1);
        classes.push((i % 7 != 0).then(|| format!("class {class}")));
    }
    let table = Table::new(n, 4, values, &seen).unwrap();
    (table, Labels::from_strings(&classes))
}

fn config() -> IqgmeConfig {
    let mut config = IqgmeConfig {
        truncation: 6,
        starts: vec![Init::PerClass(2), Init::Mixture(3)],
        unlabelled_starts: vec![Init::KMeans(3)],
        folds: 3,
        ..IqgmeConfig::default()
    };
    config.limits.max_iterations = 12;
    config
}

/// Workers, as far as they are bytes: every question reaches a shard that has been read anew, and what it keeps is written down.
#[derive(Debug)]
struct Far {
    rows: Vec<Vec<u8>>,
    prepared: Mutex<HashMap<usize, Vec<Vec<u8>>>>,
    kept: Mutex<HashMap<u64, Vec<Vec<u8>>>>,
}

impl Far {
    fn of(table: &Table, labels: &Labels, shard_rows: usize) -> Arc<dyn Shards> {
        let rows = cut(table, labels, shard_rows).map(|shard| shard?.to_bytes());
        Arc::new(Self {
            rows: rows.collect::<Result<_>>().unwrap(),
            prepared: Mutex::default(),
            kept: Mutex::default(),
        })
    }
}

impl Shards for Far {
    fn n_shards(&self) -> usize {
        self.rows.len()
    }

    fn ask(&self, asked: Asked, question: &[u8], own: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let own = |k: usize| own.get(k).map_or(&[][..], Vec::as_slice);
        // The last shard answers first: the order of answers is not that of the work.
        let mut answers = Vec::new();
        for k in (0..self.n_shards()).rev() {
            let rows = RowShard::from_bytes(&self.rows[k])?;
            answers.push(match asked {
                Asked::Describe | Asked::Sample => rows.answer(asked, question, own(k))?,
                Asked::Prepare(scale) => {
                    let (made, answer) = rows.prepare(question)?;
                    let mut prepared = self.prepared.lock().unwrap();
                    let of_scale = prepared.entry(scale).or_default();
                    of_scale.resize(self.n_shards(), Vec::new());
                    of_scale[k] = made.to_bytes()?;
                    answer
                }
                Asked::Begin(scale, run) | Asked::Step(scale, run) | Asked::Tell(scale, run) => {
                    let bytes = self.prepared.lock().unwrap()[&scale][k].clone();
                    let shard = PreparedShard::from_bytes(&bytes)?;
                    let mut all = self.kept.lock().unwrap();
                    let kept = all.entry(run).or_default();
                    kept.resize(self.n_shards(), Vec::new());
                    let (answer, left) = shard.answer(asked, &kept[k], question, own(k))?;
                    if let Some(left) = left {
                        kept[k] = left;
                    }
                    answer
                }
            });
        }
        answers.reverse();
        Ok(answers)
    }

    fn ask_anyone(&self, question: &[u8], own: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>> {
        let answers = own.iter().map(|own| answer_of_sample(question, own));
        Ok(Some(answers.collect::<Result<_>>()?))
    }

    fn forget(&self, run: u64) {
        self.kept.lock().unwrap().remove(&run);
    }
}

fn near(shards: &(Table, Labels), n: usize) -> Arc<dyn Shards> {
    Arc::new(LocalShards::new(&shards.0, &shards.1, n).unwrap())
}

fn fitted(shards: Arc<dyn Shards>) -> IqgmeFit {
    fit_shards(shards, &config(), &Watch::none()).unwrap()
}

#[test]
fn who_answers_changes_no_bit() {
    for n_classes in [2, 3] {
        let data = rows(1, 330, n_classes);
        let here = fitted(near(&data, 50));
        let far = fitted(Far::of(&data.0, &data.1, 50));
        assert_eq!(here.to_bytes().unwrap(), far.to_bytes().unwrap());
        assert_eq!(here.members().len(), 2 * 2);
    }
    let (table, _) = rows(2, 330, 2);
    let data = (table, Labels::from_strings(&[None::<&str>; 330]));
    let [here, far] = [near(&data, 50), Far::of(&data.0, &data.1, 50)].map(fitted);
    assert_eq!(here.to_bytes().unwrap(), far.to_bytes().unwrap());
}

/// The known answer: one E-step, one bound and the experts' precisions over all rows at once.
#[test]
fn sums_over_shards_are_those_over_all_rows() {
    for n_classes in [2, 3] {
        let (table, labels) = rows(3, 300, n_classes);
        let config = config();
        let outline = Outline::new(&near(&(table.clone(), labels.clone()), 70), &config).unwrap();
        let sharded = &outline.data[0];
        let mut whole = IqgmeData::of_shard(
            &table,
            &labels,
            sharded.units.clone(),
            sharded.classes.clone(),
            sharded.rows.n_utilities,
        )
        .unwrap();
        whole.covariance.clone_from(&sharded.covariance);
        assert_eq!(whole.n_rows(), sharded.n_rows());
        assert_eq!(whole.n_observed(), sharded.n_observed());
        assert_eq!(whole.n_labelled, sharded.n_labelled);
        let mut parts = IqgmeVb::new(sharded, config.clone(), Init::PerClass(2), 0).unwrap();
        let mut state = parts.state().clone();
        state.utility_means = whole.utilities_by_row(&whole.first_locations());
        let mut all = IqgmeVb::resume(&whole, config.clone(), state, &[]).unwrap();
        for _ in 0..8 {
            let (a, b) = (all.step().unwrap(), parts.step().unwrap());
            assert!((a - b).abs() < 1e-9 * a.abs(), "{a} {b}");
        }
        npb_infer::Variational::settle(&mut parts).unwrap();
        let (a, b) = (&all.state().utility_means, &parts.state().utility_means);
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-8));
        let [a, b] = [&mut all, &mut parts].map(|vb| laplace::experts(vb).unwrap());
        for (a, b) in a.iter().zip(&b) {
            let apart = &a.covariance - &b.covariance;
            assert!(apart.norm_max() < 1e-8 * a.covariance.norm_max());
            assert!(
                a.mean
                    .iter()
                    .zip(&b.mean)
                    .all(|(a, b)| (a - b).abs() < 1e-8)
            );
        }
    }
}

#[test]
fn the_bound_over_shards_does_not_fall() {
    let data = rows(4, 260, 3);
    let config = config();
    let outline = Outline::new(&near(&data, 60), &config).unwrap();
    let mut vb = IqgmeVb::new(&outline.data[0], config, Init::PerClass(2), 0).unwrap();
    let mut last = f64::NEG_INFINITY;
    for _ in 0..6 {
        for update in [VbUpdate::Rows].iter().chain(&VbUpdate::PARAMETERS) {
            vb.apply(*update).unwrap();
            let now = vb.bound().unwrap();
            if *update == VbUpdate::Rows {
                assert!(
                    now.total() > last - 1e-9 * last.abs(),
                    "{last} {}",
                    now.total()
                );
                last = now.total();
            }
        }
    }
}

#[test]
fn a_fit_over_shards_goes_on_from_its_checkpoint() {
    let data = rows(5, 240, 2);
    let whole = fitted(near(&data, 50));
    let path = std::env::temp_dir().join(format!("npb-shards-{}", std::process::id()));
    for stop_at in [0.05, 0.3, 0.6, 0.9] {
        let stop = |share: f64| match share > stop_at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let watch = Watch::new(|progress| stop(progress.share));
        let watch = watch.with_checkpoint(&path, Every::sweeps(3));
        fit_shards(near(&data, 50), &config(), &watch).unwrap();
        let watch = Watch::none().with_checkpoint(&path, Every::sweeps(3));
        let far = Far::of(&data.0, &data.1, 50);
        let resumed = fit_shards(far, &config(), &watch).unwrap();
        assert_eq!(resumed.to_bytes().unwrap(), whole.to_bytes().unwrap());
        // Of other rows.
        let other = rows(6, 240, 2);
        let error = fit_shards(near(&other, 50), &config(), &watch).unwrap_err();
        assert!(
            error.to_string().contains("checkpoint of other data"),
            "{error}"
        );
        std::fs::remove_file(&path).unwrap();
    }
}

/// Members are fitted to all rows: what shards say of new rows is what one process says, but for starts and folds.
#[test]
fn answers_are_as_good_as_those_of_one_process() {
    let (train, test) = (rows(7, 1500, 2), rows(8, 600, 2));
    let whole = crate::fit(&train.0, &train.1, &config()).unwrap();
    let parts = fitted(near(&train, 300));
    let loss = |fit: &IqgmeFit| {
        let found = fit.predict_classes(&test.0).unwrap();
        let each = found.iter().zip(test.1.codes());
        let each = each.filter_map(|(p, class)| class.map(|class| -p[class].ln()));
        each.sum::<f64>() / 600.0
    };
    let density = |fit: &IqgmeFit| fit.ln_density(&test.0).unwrap().iter().sum::<f64>() / 600.0;
    assert!(
        (loss(&whole) - loss(&parts)).abs() < 0.02,
        "{} {}",
        loss(&whole),
        loss(&parts)
    );
    let [a, b] = [&whole, &parts].map(density);
    assert!((a - b).abs() < 0.02, "{a} {b}");
    assert_eq!(parts.column_names(), whole.column_names());
}

/// Where the sample is all rows, a run over shards starts where the run of the sample has ended: at its bound. A start that was only begun is far below.
#[test]
fn a_run_over_all_rows_starts_where_that_of_the_sample_has_ended() {
    let (table, labels) = rows(11, 300, 2);
    let mut config = config();
    config.limits.max_iterations = 200;
    let outline = Outline::new(&near(&(table, labels), 400), &config).unwrap();
    let sharded = outline.data[0].sharded.as_ref().unwrap();
    let start = || IqgmeVb::new(&sharded.sample, config.clone(), Init::Mixture(3), 0).unwrap();
    let (mut begun, watch) = (start(), Watch::none());
    let (memory, mut part) = (Checkpoint::in_memory([None]), watch.part("run", 1.0));
    let begin = |_| Ok::<_, IqgmeError>(start());
    let (_, ended) = maximise(&config.limits, "elbo", &mut part, (&memory, 0), begin).unwrap();
    let ended = ended.trace.last().unwrap().elbo;
    assert!(begun.step().unwrap() < ended - 1.0);
    let reached = of_sample(&sharded.sample, &config, (Init::Mixture(3), 0)).unwrap();
    let mut again = IqgmeVb::resume(&sharded.sample, config.clone(), reached, &[]).unwrap();
    assert!((again.step().unwrap() - ended).abs() < 1e-5 * ended.abs());
    let mut over_all = IqgmeVb::new(&outline.data[0], config, Init::Mixture(3), 0).unwrap();
    // Utilities start anew from the labels.
    let found = (0..4)
        .map(|_| over_all.step().unwrap())
        .fold(0.0, |_, bound| bound);
    assert!((found - ended).abs() < 0.5, "{found} {ended}");
}

/// A table of one shard has the fingerprint of its rows: answers about rows of training need it.
#[test]
fn rows_of_a_fit_over_one_shard_are_known() {
    let (table, labels) = rows(12, 200, 2);
    let fit = fitted(near(&(table.clone(), labels.clone()), 200));
    let cells = fit.training_cells(&table, &labels).unwrap();
    assert!(cells.iter().flatten().count() > 100);
    let (others, _) = rows(13, 200, 2);
    assert!(fit.training_cells(&others, &labels).is_err());
}

#[test]
fn the_sample_has_rows_of_all_shards_and_classes() {
    let (table, labels) = rows(9, 1000, 2);
    // A class of four rows, in the last shard, and few labels.
    let name = |i: usize| match i {
        996.. => Some("rare"),
        _ if i.is_multiple_of(9) => labels.name(i),
        _ => None,
    };
    let labels = Labels::from_strings(&(0..1000).map(name).collect::<Vec<_>>());
    let outline = Outline::new(&near(&(table.clone(), labels.clone()), 200), &config()).unwrap();
    let counts = outline.labels.counts();
    let rare = outline.labels.classes().iter().position(|c| c == "rare");
    assert_eq!(counts[rare.unwrap()], 4);
    let n_labelled: usize = counts.iter().sum();
    let all: usize = labels.counts().iter().sum();
    assert!(
        n_labelled.abs_diff(100.min(all)) <= 4,
        "{n_labelled} of {all}"
    );
    assert!(outline.table.n_rows().abs_diff(200) <= 4);
    let stats = table.column_stats();
    let units = &outline.data[0].units.standardiser;
    for (j, of) in stats.iter().enumerate() {
        assert!((units.mean()[j] - of.mean).abs() < 1e-12);
        assert!((units.sd()[j] - of.sd).abs() < 1e-12);
    }
    // Rows as they are.
    let same = |i: usize, k: usize| (0..4).all(|j| table.get(i, j) == outline.table.get(k, j));
    let mut next = 0;
    for k in 0..outline.table.n_rows() {
        next += (next..1000).position(|i| same(i, k)).unwrap() + 1;
        assert_eq!(labels.name(next - 1), outline.labels.name(k));
    }
}

#[test]
fn rows_are_dealt_by_their_numbers() {
    assert_eq!(dealt(10, &[50, 50]), [5, 5]);
    assert_eq!(dealt(3, &[10, 10, 10, 2]), [1, 1, 1, 0]);
    assert_eq!(dealt(7, &[1, 0, 6]), [1, 0, 6]);
    assert_eq!(dealt(0, &[0, 0]), [0, 0]);
    for n in 0..40 {
        let of = dealt(n, &[13, 1, 26]);
        assert_eq!(of.iter().sum::<usize>(), n);
        assert!(of[0] <= 13 && of[1] <= 1 && of[2] <= 26);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_row() {
    let message = |table: &Table, labels: &Labels| {
        let shards = near(&(table.clone(), labels.clone()), 2);
        let error = fit_shards(shards, &config(), &Watch::none()).unwrap_err();
        error.to_string()
    };
    let none = Labels::from_strings(&[None::<&str>; 5]);
    let far = Table::complete(5, 1, vec![1.0, 2.0, f64::MIN, 3.0, f64::MAX]).unwrap();
    let whole = crate::fit(&far, &none, &config()).unwrap_err();
    assert_eq!(message(&far, &none), whole.to_string());
    let table = Table::complete(5, 1, vec![1.0, 2.0, 4.0, 3.0, 5.0]).unwrap();
    let one = Labels::from_strings(&[Some("a"), None, None, Some("a"), None]);
    let whole = crate::fit(&table, &one, &config()).unwrap_err();
    assert_eq!(message(&table, &one), whole.to_string());
    // More labels of one class than the sample has.
    let all = Labels::from_strings(&[Some("a"); 5]);
    let whole = crate::fit(&table, &all, &config()).unwrap_err();
    assert_eq!(message(&table, &all), whole.to_string());
    let empty = Table::complete(5, 0, Vec::new());
    if let Ok(empty) = empty {
        assert_eq!(message(&empty, &none), IqgmeError::NoColumns.to_string());
    }
    let short = RowShard::new(0, table.clone(), Labels::from_strings(&[Some("a")])).unwrap_err();
    assert!(short.to_string().contains("1 labels for 5 rows"), "{short}");
    // Columns of another name in the second shard.
    let other = table.clone().with_column_names(vec!["other"]).unwrap();
    let shards = [(0, table), (5, other)].map(|(first, table)| {
        RowShard::new(first, table, none.clone())
            .unwrap()
            .to_bytes()
            .unwrap()
    });
    let far = Far {
        rows: shards.to_vec(),
        prepared: Mutex::default(),
        kept: Mutex::default(),
    };
    let error = fit_shards(Arc::new(far), &config(), &Watch::none()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rows from number 5 on have columns [\"other\"]"),
        "{error}"
    );
}

#[test]
fn nobody_is_asked_what_is_not_for_it() {
    let (table, labels) = rows(10, 6, 2);
    let shard = RowShard::new(0, table, labels).unwrap();
    for asked in [Asked::Prepare(0), Asked::Step(0, 1), Asked::Tell(0, 1)] {
        assert!(shard.answer(asked, &[], &[]).is_err());
    }
    assert!(shard.prepare(b"no question").is_err());
    assert!(RowShard::from_bytes(b"no shard").is_err());
    assert!(PreparedShard::from_bytes(&shard.to_bytes().unwrap()).is_err());
}
