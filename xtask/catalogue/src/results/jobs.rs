//! Tables beside what people use.

use super::cells::{Cell, decimals};
use super::claims::{Claims, Job, Tolerance};
use super::duels::{Sides, best, counts, gains, losses, margin, place};
use super::rows::ResultRow;
use super::store::Store;

/// A table beside what people use: header, lines, and how often ours is ahead.
pub struct JobTable {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells in Markdown: means with standard errors, the best and those level with it bold.
    pub lines: Vec<Vec<String>>,
    /// In so many lines ours is ahead, level and behind.
    pub counts: [usize; 3],
    /// How much better ours is than the best of the others, from the least to the most.
    pub gains: String,
    /// Numbers of trials of ours, from the least to the most.
    pub trials: [usize; 2],
    /// Where ours is behind, the worst first.
    pub losses: String,
}

/// The table of a job; no lines where nothing of it was run. Where none of the others was run, there is no line.
pub fn job_table(claims: &Claims, job: &Job, store: &Store) -> JobTable {
    let of = |metric: &str| -> Vec<ResultRow> {
        let cell = |source: &super::claims::Rows| {
            Cell::pattern(&source.id, [&source.dataset, &source.setting, "*", metric])
        };
        let cells: Vec<Cell> = job.rows.iter().map(cell).collect();
        cells
            .iter()
            .flat_map(|cell| store.rows(cell))
            .cloned()
            .collect()
    };
    let (scores, seconds) = (of(&job.metric), of("seconds"));
    let others: Vec<String> = job.peers.iter().chain(&job.others).cloned().collect();
    let duels = sides(job, &others).duels(&scores, &claims.tolerance);
    let mut header = vec![String::new()];
    header.extend(job.ours.iter().chain(&job.peers).cloned());
    header.push("the best other, where it is none of these".to_owned());
    header.push("trials".to_owned());
    header.push("seconds: ours, the best other".to_owned());
    let time = |row: &ResultRow| {
        let found = seconds.iter().find(|s| s.place()[..3] == row.place()[..3]);
        found.map_or("–".to_owned(), |s| two_digits(s.mean))
    };
    let mut lines = Vec::new();
    for duel in &duels {
        let of_method = |method: &String| {
            let method = std::slice::from_ref(method);
            best(
                sides(job, method).beside(&scores, duel.ours).into_iter(),
                job.higher,
            )
        };
        let rest = job.ours[1..].iter().chain(&job.peers);
        let found: Vec<Option<&ResultRow>> = std::iter::once(Some(duel.ours))
            .chain(rest.map(of_method))
            .collect();
        let named = (!job.peers.contains(&duel.other.method)).then_some(duel.other);
        let top = best(found.iter().copied().chain([named]).flatten(), job.higher);
        let cell = |row: &Option<&ResultRow>| {
            row.map_or(String::new(), |row| cell(job, &claims.tolerance, row, top))
        };
        let mut line = vec![place(duel.ours)];
        line.extend(found.iter().map(cell));
        line.push(named.map_or(String::new(), |row| {
            format!("{} {}", row.method, cell(&Some(row)))
        }));
        line.push(duel.ours.trials.to_string());
        line.push(format!("{}, {}", time(duel.ours), time(duel.other)));
        lines.push(line);
    }
    // A method that no line has is left out.
    let used: Vec<bool> = (0..header.len())
        .map(|at| at == 0 || lines.iter().any(|line: &Vec<String>| !line[at].is_empty()))
        .collect();
    for line in lines.iter_mut().chain([&mut header]) {
        let mut kept = used.iter();
        line.retain(|_| *kept.next().unwrap_or(&true));
    }
    let trials = || duels.iter().map(|duel| duel.ours.trials);
    JobTable {
        header,
        lines,
        counts: counts(&duels),
        gains: gains(&duels),
        trials: [trials().min().unwrap_or(0), trials().max().unwrap_or(0)],
        losses: losses(&duels, 3),
    }
}

/// A number to two digits.
fn two_digits(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let size = value.log10().floor() as i32;
    let unit = 10_f64.powi(size - 1);
    let places = usize::try_from(1 - size).unwrap_or(0);
    format!("{:.places$}", (value / unit).round() * unit)
}

fn sides<'a>(job: &'a Job, others: &'a [String]) -> Sides<'a> {
    Sides {
        ours: &job.ours[0],
        others,
        higher: job.higher,
        apart: &job.apart,
    }
}

fn cell(job: &Job, tolerance: &Tolerance, row: &ResultRow, top: Option<&ResultRow>) -> String {
    let error = match row.sd {
        Some(_) => format!(" ({})", decimals(row.error(), job.digits)),
        None => String::new(),
    };
    let mean = decimals(row.mean, job.digits);
    let is_level = |top: &ResultRow| {
        let least = if row == top {
            0.0
        } else {
            margin(tolerance, row, top)
        };
        (row.mean - top.mean).abs() <= least
    };
    match top.is_some_and(is_level) {
        true => format!("**{mean}**{error}"),
        false => format!("{mean}{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Stored;

    fn row(setting: &str, method: &str, mean: f64, sd: Option<f64>) -> ResultRow {
        ResultRow {
            sd,
            trials: if sd.is_some() { 4 } else { 1 },
            ..ResultRow::single(["simulated", setting, method, "auc"], mean)
        }
    }

    #[test]
    fn seconds_have_two_digits() {
        let found = [298.2, 75.06, 7.25, 0.0634, 0.0].map(two_digits);
        assert_eq!(found, ["300", "75", "7.3", "0.063", "0"]);
    }

    #[test]
    fn others_need_not_have_a_key_that_is_set_apart() {
        let rows = vec![
            row("task=x;k=5", "npb:a", 0.7, None),
            row("task=x;k=9", "npb:a", 0.8, None),
            row("task=x;k=5", "b", 0.6, None),
            row("task=x", "c", 0.75, None),
            row("task=y", "c", 0.99, None),
        ];
        let others = ["b".to_owned(), "c".to_owned()];
        let found = |apart: &[String]| {
            let sides = Sides {
                ours: "npb:a",
                others: &others,
                higher: true,
                apart,
            };
            let names = |ours| {
                let beside = sides.beside(&rows, ours);
                beside.iter().map(|r| r.mean).collect::<Vec<_>>()
            };
            [names(&rows[0]), names(&rows[1])]
        };
        assert_eq!(found(&[]), [vec![0.6], vec![]]);
        // A method that has the setting itself is taken there, else wherever the rest agrees.
        assert_eq!(found(&["k".to_owned()]), [vec![0.6, 0.75], vec![0.6, 0.75]]);
    }

    #[test]
    fn a_job_says_where_ours_is_behind_and_marks_the_best() {
        let rows = vec![
            row("k=1", "npb:a", 0.95, Some(0.02)),
            row("k=1", "b", 0.94, Some(0.02)),
            row("k=1", "c", 0.8, Some(0.02)),
            row("k=2", "npb:a", 0.8, Some(0.02)),
            row("k=2", "c", 0.9, Some(0.02)),
            row("k=3", "c", 0.9, Some(0.02)),
            ResultRow::single(["simulated", "k=1", "npb:a", "seconds"], 2.0),
        ];
        let job = "[tolerance]\nerrors = 4\nshare = 0.1\nleast = {}\nmachine = []\n[[job]]\nname = \"j\"\ntitle = \"J\"\nmetric = \"auc\"\nunit = \"AUC\"\nhigher = true\n\
                   ours = [\"npb:a\"]\npeers = [\"b\", \"d\"]\nothers = [\"c*\"]\nrows = [{ id = \"a/b\" }]\n";
        let claims = Claims::parse(job).unwrap();
        let mut store = Store::default();
        let head = Vec::new();
        store
            .experiments
            .insert("a/b".into(), Stored { head, rows });
        let table = job_table(&claims, &claims.jobs[0], &store);
        assert_eq!(
            table.header,
            [
                "",
                "npb:a",
                "b",
                "the best other, where it is none of these",
                "trials",
                "seconds: ours, the best other"
            ]
        );
        assert_eq!(
            table.lines,
            [
                [
                    "simulated, k 1",
                    "**.950** (.010)",
                    "**.940** (.010)",
                    "",
                    "4",
                    "2.0, –"
                ],
                [
                    "simulated, k 2",
                    ".800 (.010)",
                    "",
                    "c **.900** (.010)",
                    "4",
                    "–, –"
                ],
            ]
        );
        assert_eq!(table.counts, [0, 1, 1]);
        assert_eq!(table.gains, "-.100 to +.010");
        assert_eq!(table.losses, "simulated, k 2: .800 (.010), c .900 (.010)");
    }
}
