//! Time of a sweep by number of rows and of columns, on one thread.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_itf::{ItfConfig, ItfData, ItfSampler};
use npb_priors::dist::Normal;
use rand::RngExt;

use super::groups::poisson;
use super::names::ITF;
use npb_kit::processor::seconds_of;
use npb_kit::tables::header;
use npb_kit::{
    Context, Experiment, Figure, Outcome, Panel, Point, Report, Result, ResultRow, Scale, Series,
    TextTable, Trial, lines, short, summarise,
};

pub(super) const SCALING: Experiment = Experiment {
    id: "itf/scaling",
    what: "time of a sweep of the default schedule and of the start for 1e3 to 1e6 rows and 20 to 160 columns, one thread",
    paper: "no printed numbers",
    data: &[],
    run,
};

/// Rows and columns.
type Size = (usize, usize);

/// More rows, and more columns.
const ROWS: [Size; 4] = [(1_000, 20), (10_000, 20), (100_000, 20), (1_000_000, 20)];
const COLUMNS: [Size; 4] = [(1_000, 20), (1_000, 40), (1_000, 80), (1_000, 160)];
/// Cells that are swept over before the clock starts, and while it runs.
const SETTLING: usize = 6_000_000;
const TIMED: usize = 20_000_000;
/// Least number of sweeps, before and while the clock runs.
const LEAST: usize = 5;
/// Share of the cells that are missing.
const MISSING: f64 = 0.1;
const N_CLUSTERS: usize = 3;

fn run(context: &Context<'_>) -> Result<Report> {
    let (most, timed) = match context.scale {
        Scale::Smoke => (20_000, 0),
        Scale::Quick | Scale::Paper => (usize::MAX, TIMED),
    };
    let mut records = Vec::new();
    for size in ROWS.into_iter().chain(COLUMNS.into_iter().skip(1)) {
        if size.0 * size.1 <= most {
            // One at a time: trials side by side would share caches.
            let measured = |_: &Trial<()>, seed| measure(size, timed, seed);
            records.extend(context.run_trials(&[trial(size)], measured)?);
        }
    }
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![table(&results)],
        figures: vec![figure(&results)?],
        notes: vec![format!(
            "Two independent groups of real, count and category columns in turn, {N_CLUSTERS} clusters each, {}% of the cells missing. The default \
             configuration on one thread; processor time, averaged over at least {LEAST} sweeps and {TIMED} cells, after at least {LEAST} sweeps.",
            100.0 * MISSING
        )],
        results,
    })
}

fn trial(size: Size) -> Trial<()> {
    Trial {
        dataset: "simulated".to_owned(),
        setting: setting(size),
        method: ITF.to_owned(),
        trial: 0,
        config: format!("{:?}", ItfConfig::default()),
        work: (),
    }
}

fn setting((rows, columns): Size) -> String {
    format!("missing={MISSING};rows={rows};columns={columns}")
}

/// Columns of the first half have the clusters of one group, the others those of another.
fn simulated((n_rows, n_columns): Size, seed: u64) -> Result<MixedTable> {
    let rng = &mut stream(seed, [0; 4]);
    let groups: [Vec<usize>; 2] = std::array::from_fn(|_| {
        (0..n_rows)
            .map(|_| rng.random_range(0..N_CLUSTERS))
            .collect()
    });
    let columns: Result<Vec<MixedColumn>> = (0..n_columns)
        .map(|j| column(j, &groups[2 * j / n_columns], rng))
        .collect();
    let names = (0..n_columns).map(|j| format!("c{j}")).collect();
    Ok(MixedTable::new(names, columns?)?)
}

fn column(j: usize, clusters: &[usize], rng: &mut Xoshiro256PlusPlus) -> Result<MixedColumn> {
    let noise = Normal::new(0.0, 1.0)?;
    let turn = rng.random_range(0..N_CLUSTERS);
    let clusters = clusters.iter().map(|z| (z + turn) % N_CLUSTERS);
    Ok(match j % 3 {
        0 => {
            let cell = |z| shown(3.0 * z as f64 + noise.sample(rng), rng);
            MixedColumn::Real(clusters.map(cell).collect())
        }
        1 => {
            let cell = |z: usize| shown(poisson([2.0, 8.0, 20.0][z], rng) as u64, rng);
            MixedColumn::Count(clusters.map(cell).collect())
        }
        _ => {
            let cell = |z| {
                let any = rng.random_range(0..N_CLUSTERS);
                let level = if rng.random::<f64>() < 0.8 { z } else { any };
                shown(level as u32, rng)
            };
            MixedColumn::Categorical {
                levels: ["a", "b", "c"].map(str::to_owned).to_vec(),
                codes: clusters.map(cell).collect(),
            }
        }
    })
}

fn shown<T>(cell: T, rng: &mut Xoshiro256PlusPlus) -> Option<T> {
    (rng.random::<f64>() >= MISSING).then_some(cell)
}

fn measure(size: Size, timed: usize, seed: u64) -> Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    pool.install(|| measure_here(size, timed, seed))
}

/// On this thread, for at least `timed` cells.
fn measure_here(size: Size, timed: usize, seed: u64) -> Result<Outcome> {
    let data = ItfData::from_table(&simulated(size, seed)?)?;
    let sweeps = |cells: usize| LEAST.max(cells / (size.0 * size.1));
    let config = ItfConfig {
        seed,
        ..ItfConfig::default()
    };
    let (start, sampler) = seconds_of(|| ItfSampler::new(&data, config, 0));
    let mut sampler = sampler?;
    (0..sweeps(SETTLING.min(timed))).for_each(|_| sampler.sweep());
    let n = sweeps(timed);
    let (seconds, ()) = seconds_of(|| (0..n).for_each(|_| sampler.sweep()));
    let labels = (0..data.n_columns()).map(|j| distinct(sampler.state().labels(j)));
    Ok(Outcome::metrics([
        ("seconds_per_sweep", seconds / n as f64),
        ("seconds_to_start", start),
        ("blocks", sampler.state().blocks.len() as f64),
        ("clusters", labels.sum::<usize>() as f64 / size.1 as f64),
    ]))
}

fn distinct(labels: &[u32]) -> usize {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels.dedup();
    labels.len()
}

fn metric(results: &[ResultRow], size: Size, metric: &str) -> Option<f64> {
    let wanted = setting(size);
    let mut same = (results.iter()).filter(|r| r.setting == wanted && r.metric == metric);
    same.next().map(|row| row.mean)
}

fn table(results: &[ResultRow]) -> TextTable {
    let line = |size: Size| {
        let of = |name: &str| metric(results, size, name);
        let (seconds, start) = (of("seconds_per_sweep")?, of("seconds_to_start")?);
        Some(vec![
            size.0.to_string(),
            size.1.to_string(),
            short(1e3 * seconds),
            short(1e9 * seconds / (size.0 * size.1) as f64),
            short(start),
            short(start / seconds),
            of("blocks").map_or(String::new(), short),
            of("clusters").map_or(String::new(), short),
        ])
    };
    let sizes = ROWS.into_iter().chain(COLUMNS.into_iter().skip(1));
    TextTable {
        title: "Processor time of a sweep".to_owned(),
        header: header(&[
            "rows",
            "columns",
            "milliseconds",
            "nanoseconds per cell",
            "seconds to start",
            "start in sweeps",
            "blocks",
            "clusters per column",
        ]),
        rows: sizes.filter_map(line).collect(),
    }
}

fn figure(results: &[ResultRow]) -> Result<Figure> {
    let panel = |title: &str, x_label: &str, sizes: [Size; 4], x: fn(Size) -> usize| {
        let series = |name: &str, key: &str| Series {
            name: name.to_owned(),
            points: sizes
                .into_iter()
                .filter_map(|size| {
                    Some(Point {
                        x: (x(size) as f64).log10(),
                        y: metric(results, size, key)?.log10(),
                        sd: None,
                    })
                })
                .collect(),
        };
        Panel {
            title: title.to_owned(),
            x_label: format!("log10 of the number of {x_label}"),
            y_label: "log10 of seconds".to_owned(),
            series: vec![
                series("sweep", "seconds_per_sweep"),
                series("start", "seconds_to_start"),
            ],
        }
    };
    let panels = [
        panel("20 columns", "rows", ROWS, |size| size.0),
        panel("1000 rows", "columns", COLUMNS, |size| size.1),
    ];
    lines(
        "scaling",
        "Infinite tensor factorisation: time by number of rows and of columns",
        "A line of slope one is linear.",
        &panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_kit::data::DataFolder;
    use npb_kit::testing::Scratch;
    use npb_kit::testing::with_context;

    #[test]
    fn small_sizes_have_their_times() {
        let scratch = Scratch::new("itf-scaling");
        let data = DataFolder::resolve(Some(scratch.path("data")), scratch.root());
        let report = with_context(&scratch, &data, |context| run(context).unwrap());
        assert_eq!(report.tables[0].rows.len(), 1);
        assert!(report.results.iter().all(|r| r.mean > 0.0));
    }
}
