//! Time of an iteration and memory by number of rows, on one thread.

use std::fs;

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::{Init, IqgmeConfig, IqgmeData, IqgmeState, IqgmeVb};
use rand::{Rng, RngExt};

use npb_kit::processor::seconds_of;
use npb_kit::{
    Context, Experiment, Outcome, Panel, Point, Report, Result, ResultRow, Scale, Series,
    TextTable, Trial, lines, short, summarise,
};

pub(super) const SCALING: Experiment = Experiment {
    id: "iqgme/scaling",
    what: "time of an iteration and memory for 1e3 to 1e6 rows, one thread",
    paper: "no printed numbers",
    data: &[],
    run,
};

const COMPONENTS: usize = 20;
/// Rows that a start is found on, however many rows an iteration then has.
const START_ROWS: usize = 5_000;
/// Each time is the smallest of as many repetitions as fit into this, and of at least [`LEAST`].
const SECONDS: f64 = 2.0;
const LEAST: usize = 5;
/// With fewer rows, memory that was used before and is used again hides what is needed.
const ENOUGH_FOR_MEMORY: usize = 100_000;

/// A simulated mixture with as many clusters as the model has components.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    features: usize,
    /// Standard deviation of the centres, in those of the clusters.
    spread: f64,
    missing: f64,
    most_rows: usize,
}

const CASES: [Case; 3] = [
    Case {
        name: "P = 16, complete, clusters apart",
        features: 16,
        spread: 3.0,
        missing: 0.0,
        most_rows: 1_000_000,
    },
    Case {
        name: "P = 16, complete, clusters overlap",
        features: 16,
        spread: 0.5,
        missing: 0.0,
        most_rows: 1_000_000,
    },
    Case {
        name: "P = 34, 25% missing",
        features: 34,
        spread: 3.0,
        missing: 0.25,
        most_rows: 100_000,
    },
];

fn run(context: &Context<'_>) -> Result<Report> {
    let (most, seconds) = match context.scale {
        Scale::Smoke => (1_000, 0.0),
        Scale::Quick | Scale::Paper => (usize::MAX, SECONDS),
    };
    let mut records = Vec::new();
    for case in CASES {
        for rows in [1_000, 10_000, 100_000, 1_000_000] {
            if rows <= case.most_rows.min(most) {
                // One at a time: trials side by side would share caches and memory.
                let trials = [trial(case, rows)];
                let measured = |_: &Trial<()>, seed| measure(case, rows, seconds, seed);
                records.extend(context.run_trials(&trials, measured)?);
            }
        }
    }
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![table(&results)],
        figures: vec![figure(&results)?],
        notes: vec![format!(
            "One thread. All {COMPONENTS} components are occupied; the second iteration from a posterior of {START_ROWS} rows is timed, bound included: \
             processor time, the smallest of at least {LEAST} repetitions. Memory is what the process grows by beyond the table, for \
             {ENOUGH_FOR_MEMORY} rows or more."
        )],
        results,
    })
}

fn trial(case: Case, rows: usize) -> Trial<()> {
    Trial {
        dataset: "simulated".to_owned(),
        setting: setting(case, rows),
        method: "npb:iqgme".to_owned(),
        trial: 0,
        config: format!("{case:?}\n{:?}", config()),
        work: (),
    }
}

fn setting(case: Case, rows: usize) -> String {
    let Case {
        features,
        spread,
        missing,
        ..
    } = case;
    format!("columns={features};missing={missing};rows={rows};spread={spread}")
}

fn config() -> IqgmeConfig {
    IqgmeConfig {
        truncation: COMPONENTS,
        starts: vec![Init::KMeans(COMPONENTS)],
        ..IqgmeConfig::default()
    }
}

/// Nearly normal: the sum of four uniform numbers, scaled to variance 1.
fn bell(rng: &mut impl Rng) -> f64 {
    let sum: f64 = (0..4).map(|_| rng.random::<f64>() - 0.5).sum();
    sum * 3f64.sqrt()
}

/// Rows of the components in turn, each component with its own centre and its own linear classifier.
fn simulated(case: Case, n_rows: usize, seed: u64) -> Result<(Table, Labels)> {
    let mut rng = stream(seed, [0; 4]);
    let p = case.features;
    let mut vectors = |scale: f64| -> Vec<f64> {
        let cells = 0..COMPONENTS * p;
        cells.map(|_| scale * bell(&mut rng)).collect()
    };
    let (centres, slopes) = (vectors(case.spread), vectors(1.0));
    let mut values = Vec::with_capacity(n_rows * p);
    let mut seen = Vec::with_capacity(n_rows * p);
    let mut labels = Vec::with_capacity(n_rows);
    for row in 0..n_rows {
        let first = row % COMPONENTS * p;
        let mut score = bell(&mut rng);
        for j in first..first + p {
            let deviation = bell(&mut rng);
            values.push(centres[j] + deviation);
            seen.push(rng.random::<f64>() >= case.missing);
            score += slopes[j] * deviation;
        }
        labels.push(Some(if score > 0.0 { "yes" } else { "no" }));
    }
    let table = Table::new(n_rows, p, values, &seen)?;
    Ok((table, Labels::from_strings(&labels)))
}

/// A posterior from some of the rows, to go on from with `n_rows`.
fn start(case: Case, n_rows: usize, seed: u64) -> Result<IqgmeState> {
    let (table, labels) = simulated(case, START_ROWS, seed)?;
    let data = IqgmeData::new(&table, &labels, &config())?;
    let mut vb = IqgmeVb::new(&data, config(), Init::KMeans(COMPONENTS), 0)?;
    for _ in 0..3 {
        vb.step()?;
    }
    let mut state = vb.into_state();
    state.utility_means = vec![0.0; n_rows];
    Ok(state)
}

fn measure(case: Case, n_rows: usize, seconds: f64, seed: u64) -> Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    pool.install(|| measure_here(case, n_rows, seconds, seed))
}

/// On this thread, for at least `seconds`.
fn measure_here(case: Case, n_rows: usize, seconds: f64, seed: u64) -> Result<Outcome> {
    let state = start(case, n_rows, seed)?;
    let (table, labels) = simulated(case, n_rows, seed)?;
    let before = resident_bytes();
    let data = IqgmeData::new(&table, &labels, &config())?;
    let mut memory = None;
    let mut times: Vec<f64> = Vec::new();
    while times.len() < LEAST || times.iter().sum::<f64>() < seconds {
        let mut vb = IqgmeVb::resume(&data, config(), state.clone(), &[])?;
        vb.step()?;
        let (time, bound) = seconds_of(|| vb.step());
        bound?;
        times.push(time);
        if vb.state().components.len() != COMPONENTS {
            return Err("a component is empty: the time would be of fewer".into());
        }
        memory = memory.or_else(|| Some(resident_bytes()? - before?));
    }
    let least = times.into_iter().fold(f64::INFINITY, f64::min);
    let mut outcome = Outcome::metrics([("seconds_per_iteration", least)]);
    if let Some(bytes) = memory.filter(|_| n_rows >= ENOUGH_FOR_MEMORY) {
        let each = bytes / n_rows as f64;
        outcome.metrics.insert("bytes_per_row".to_owned(), each);
    }
    Ok(outcome)
}

/// Memory of this process, where the system tells.
fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kilobytes)
}

/// A metric of a case by number of rows.
fn by_rows(results: &[ResultRow], case: Case, metric: &str) -> Vec<(usize, f64)> {
    let sizes = [1_000, 10_000, 100_000, 1_000_000];
    let found = |rows: usize| {
        let wanted = setting(case, rows);
        let mut same = results
            .iter()
            .filter(|r| r.setting == wanted && r.metric == metric);
        same.next().map(|row| (rows, row.mean))
    };
    sizes.into_iter().filter_map(found).collect()
}

fn table(results: &[ResultRow]) -> TextTable {
    let mut rows = Vec::new();
    for case in CASES {
        let memory = by_rows(results, case, "bytes_per_row");
        for (n, seconds) in by_rows(results, case, "seconds_per_iteration") {
            let bytes = memory.iter().find(|(rows, _)| *rows == n);
            rows.push(vec![
                case.name.to_owned(),
                n.to_string(),
                short(seconds),
                short(1e6 * seconds / n as f64),
                bytes.map_or(String::new(), |(_, bytes)| format!("{bytes:.0}")),
            ]);
        }
    }
    let header = [
        "data",
        "rows",
        "seconds per iteration",
        "microseconds per row",
        "bytes per row",
    ];
    TextTable {
        title: "Time and memory".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
    }
}

fn figure(results: &[ResultRow]) -> Result<npb_kit::Figure> {
    let panel = |title: &str, y_label: &str, metric: &str, y: fn(f64) -> f64| {
        let series = CASES.map(|case| Series {
            name: case.name.to_owned(),
            points: by_rows(results, case, metric)
                .into_iter()
                .map(|(rows, value)| Point {
                    x: (rows as f64).log10(),
                    y: y(value),
                    sd: None,
                })
                .collect(),
        });
        Panel {
            title: title.to_owned(),
            x_label: "log10 of the number of rows".to_owned(),
            y_label: y_label.to_owned(),
            series: series.into(),
        }
    };
    let panels = [
        panel(
            "time of an iteration",
            "log10 of seconds",
            "seconds_per_iteration",
            f64::log10,
        ),
        panel(
            "memory beyond the table",
            "bytes per row",
            "bytes_per_row",
            |bytes| bytes,
        ),
    ];
    lines(
        "scaling",
        "iQGME by variational Bayes: time and memory by number of rows",
        "A line of slope one is linear in the number of rows.",
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
    fn every_size_has_its_time_and_a_point() {
        let scratch = Scratch::new("iqgme-scaling");
        let data = DataFolder::resolve(Some(scratch.path("data")), scratch.root());
        let report = with_context(&scratch, &data, |context| run(context).unwrap());
        assert_eq!(report.tables[0].rows.len(), CASES.len());
        assert_eq!(report.figures[0].rows.len(), CASES.len());
        let seconds = |row: &ResultRow| row.metric == "seconds_per_iteration";
        assert!(
            report
                .results
                .iter()
                .filter(|r| seconds(r))
                .all(|r| r.mean > 0.0)
        );
    }
}
