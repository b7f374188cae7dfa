//! `docs/results.md`: claims and what came out, tables beside what people use, and the runs behind them.

use npb_catalogue::Entry;
use npb_catalogue::results::{
    Claim, Claims, FOLDER, Job, Paper, Store, Verdict, capital, file_of, finding, job_table,
    verdicts,
};

/// Where the page stands, below the project's root.
pub(crate) const PAGE: &str = "docs/results.md";

/// The whole page, by what is stored alone.
pub(crate) fn page(claims: &Claims, store: &Store, all: &[&Entry]) -> String {
    let run = all.iter().filter(|e| store.experiments.contains_key(&e.id));
    let mut page = format!(
        "# Results\n\nMade by `cargo xtask results` from the files in [`{FOLDER}`](results); {} of {} experiments have been run and stored{}. Means are over trials (splits, seeds or \
         generated data sets: see the experiment), with standard errors in brackets; a number without brackets is a single run. *Quick* scale has fewer trials and settings than the papers, \
         *paper* scale has theirs. Settings and methods are named as in the files.\n\n\
         *Ahead* and *behind*: the difference of two means is outside its 95% interval (Welch), trials taken as independent, though methods share their splits, which hides some differences; where one is a single run, \
         outside the least difference of its metric ([listed](#runs)), if that is more. *Level* is what is neither: often too few trials to tell. A claim *holds* if it is seen in some settings and its contrary \
         in none, holds *in part* if its contrary is seen in no more settings than it is, *does not hold* if in more; *no difference*: neither is seen; *not judged*: numbers are shown alone. Where a claim is to be as good \
         as others, level counts as well.\n\n",
        run.count(),
        all.len(),
        scales(store),
    );
    if store.experiments.is_empty() {
        page += "**No run is stored yet**, so that this page has no numbers: `cargo xtask reproduce --scale quick`, then `cargo xtask results --store target/reproduce`.\n\n";
    }
    page += &in_short(claims, store);
    page += &lost(claims, store);
    page += "## Beside what people use\n\nThe best of each line and what is level with it are bold. Seconds are by the clock, with whatever else the \
         machine did: tell a factor of three from them, no less.\n\n";
    for job in &claims.jobs {
        page += &format!("### {}\n\n{}\n", job.title, job_section(claims, job, store));
    }
    page += "## What the papers claim\n\n";
    for paper in &claims.papers {
        let table = claims_table(claims, paper, store);
        page += &format!("### {}\n\n{}\n\n{table}\n", paper.title, paper.about);
    }
    page += &runs(store, all);
    page + &format!("\nLeast differences of single runs: {}.\n", least(claims))
}

/// At which scales the runs are.
fn scales(store: &Store) -> String {
    let of = |scale: &str| {
        let runs = store.experiments.values();
        runs.filter(|run| run.fact("scale") == scale).count()
    };
    match (of("quick"), of("paper")) {
        (_, 0) => ", all at quick scale".to_owned(),
        (quick, paper) => format!(", {quick} at quick and {paper} at paper scale"),
    }
}

/// Least differences of single runs, by metric.
fn least(claims: &Claims) -> String {
    let tolerance = &claims.tolerance;
    let of_each =
        |(metric, value): (&String, &f64)| format!("{} {value}", metric.replace('_', " "));
    let known: Vec<String> = tolerance.least.iter().map(of_each).collect();
    format!(
        "{}; others {} of the number",
        known.join(", "),
        tolerance.share
    )
}

/// In how many settings of each job ours is better than what people use; `title` writes the name of a job.
pub(super) fn jobs_table(claims: &Claims, store: &Store, title: fn(&str) -> String) -> String {
    let of_job = |job: &Job| {
        let found = job_table(claims, job, store);
        let mut cells = vec![title(&job.title), job.ours[0].clone()];
        match found.lines.is_empty() {
            true => cells.push("not run".to_owned()),
            false => cells.extend(found.counts.map(|n| n.to_string())),
        }
        cells.resize(5, String::new());
        cells.push(match found.trials {
            [0, _] => String::new(),
            [least, most] if least == most => most.to_string(),
            [least, most] => format!("{least} to {most}"),
        });
        cells.push(match found.lines.is_empty() {
            true => String::new(),
            false => format!("{} {}", found.gains, job.metric.replace('_', " ")),
        });
        cells
    };
    let header = [
        "job",
        "ours",
        "settings ahead",
        "level",
        "behind",
        "trials",
        "how much better than the best other (below 0: worse)",
    ];
    table(&header, &claims.jobs.iter().map(of_job).collect::<Vec<_>>())
}

/// In how many settings ours is better than what people use, and how many claims hold.
fn in_short(claims: &Claims, store: &Store) -> String {
    let of_paper = |paper: &Paper| {
        let own = claims.claims.iter().filter(|claim| paper.has(&claim.id));
        let counts = verdicts(claims, own, store);
        let counts = counts.iter().map(|(_, n)| n.to_string());
        std::iter::once(link(&paper.title)).chain(counts).collect()
    };
    let papers: Vec<Vec<String>> = claims.papers.iter().map(of_paper).collect();
    let words = Verdict::ALL.map(Verdict::words);
    let header: Vec<&str> = std::iter::once("claims and questions of")
        .chain(words)
        .collect();
    let jobs = jobs_table(claims, store, link);
    let papers = table(&header, &papers);
    format!("## In short\n\nBeside the best of what people use:\n\n{jobs}\n{papers}\n")
}

/// A link to the section with this heading.
fn link(title: &str) -> String {
    let kept = title.chars().filter_map(|c| match c {
        ' ' | '-' => Some('-'),
        c => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    });
    format!("[{title}](#{})", kept.collect::<String>())
}

/// Where ours is behind what people use, and claims that do not hold.
fn lost(claims: &Claims, store: &Store) -> String {
    let of_job = |job: &Job| {
        let table = job_table(claims, job, store);
        let [ahead, level, behind] = table.counts;
        (behind > 0).then(|| {
            let (n, title, losses) = (ahead + level + behind, link(&job.title), table.losses);
            format!("- {title}, in {behind} of {n} settings: {losses}.\n")
        })
    };
    let of_claim = |claim: &Claim| {
        let found = finding(claims, claim, store);
        let place = if claim.place.is_empty() {
            "ours"
        } else {
            &claim.place
        };
        let is_lost = matches!(
            found.verdict,
            Verdict::Fails | Verdict::InPart | Verdict::Level
        );
        is_lost.then(|| {
            let (says, words) = (&claim.says, found.verdict.words());
            format!(
                "- `{}` ({place}; {says}) {words}: {}\n",
                claim.id, found.sentence
            )
        })
    };
    let jobs: String = claims.jobs.iter().filter_map(of_job).collect();
    let failed: String = claims.claims.iter().filter_map(of_claim).collect();
    let or_none = |text: String| match (text.is_empty(), store.experiments.is_empty()) {
        (true, true) => "Not known: nothing is stored.\n".to_owned(),
        (true, false) => "Nowhere among what is stored.\n".to_owned(),
        (false, _) => text,
    };
    format!(
        "## Where others are better\n\n{}\n## Claims that do not hold, hold in part, or show no difference\n\n{}\n",
        or_none(jobs),
        or_none(failed)
    )
}

fn line(cells: &[String]) -> String {
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", escaped.join(" | "))
}

fn table(header: &[&str], lines: &[Vec<String>]) -> String {
    let names: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(header.len()));
    let lines: String = lines.iter().map(|cells| line(cells)).collect();
    line(&names) + &rule + &lines
}

/// The claims of a paper, one line each.
pub(crate) fn claims_table(claims: &Claims, paper: &Paper, store: &Store) -> String {
    let of_claim = |claim: &Claim| {
        let found = finding(claims, claim, store);
        let place = match claim.place.is_empty() {
            true => "our question".to_owned(),
            false => claim.place.clone(),
        };
        let source = store
            .experiments
            .get(&claim.id)
            .map_or(String::new(), |stored| {
                let of_rows = || stored.rows.iter().map(|row| row.trials);
                let name = file_of(&claim.id);
                let name = name.trim_start_matches("docs/");
                let trials = match (of_rows().min().unwrap_or(0), of_rows().max().unwrap_or(0)) {
                    (1, 1) => "1 trial".to_owned(),
                    (least, most) if least == most => format!("{most} trials"),
                    (least, most) => format!("{least} to {most} trials"),
                };
                let scale = stored.fact("scale");
                format!("[`{}`]({name}), {scale}, {trials}", claim.id)
            });
        let from = match source.is_empty() {
            true => format!("`{}`", claim.id),
            false => source,
        };
        vec![
            place,
            claim.says.clone(),
            found.verdict.words().to_owned(),
            found.sentence,
            from,
        ]
    };
    let of_paper = claims.claims.iter().filter(|claim| paper.has(&claim.id));
    let lines: Vec<Vec<String>> = of_paper.map(of_claim).collect();
    table(&["where", "the paper", "agreement", "here", "from"], &lines)
}

/// A job: where ours is behind, and the table.
pub(crate) fn job_section(claims: &Claims, job: &Job, store: &Store) -> String {
    let found = job_table(claims, job, store);
    let header: Vec<&str> = found.header.iter().map(|name| &**name).collect();
    let better = if job.higher { "higher" } else { "lower" };
    let table = match found.lines.is_empty() {
        true => String::new(),
        false => format!("\n{}", table(&header, &found.lines)),
    };
    let about = match job.about.is_empty() {
        true => String::new(),
        false => format!(" {}.", job.about),
    };
    let (unit, ours, [ahead, level, behind]) = (capital(&job.unit), &job.ours[0], found.counts);
    let found = match found.lines.is_empty() {
        true => "Not run.".to_owned(),
        false => format!(
            "{ours} is ahead of the best of the others in {ahead} of {} settings, level in {level}, behind in {behind}.",
            ahead + level + behind
        ),
    };
    format!("{found} {unit}; {better} is better.{about}\n{table}")
}

/// What is stored of each experiment, and what is not.
fn runs(store: &Store, all: &[&Entry]) -> String {
    let fact_line = |entry: &&Entry| {
        let stored = store.experiments.get(&entry.id)?;
        let fact = |name: &str| stored.fact(name).to_owned();
        let (revision, changes) = (fact("revision"), fact("revision").contains(' '));
        let short: String = revision.chars().take(10).collect();
        Some(vec![
            format!(
                "[`{}`]({})",
                entry.id,
                file_of(&entry.id).trim_start_matches("docs/")
            ),
            fact("scale"),
            fact("trials").replace(", 0 of them from an earlier run", ""),
            fact("seconds"),
            format!("{}, seed {}", fact("date"), fact("seed")),
            short + if changes { " and changes" } else { "" },
            stored.data().len().to_string(),
        ])
    };
    let lines: Vec<Vec<String>> = all.iter().filter_map(fact_line).collect();
    let header = [
        "experiment",
        "scale",
        "fits",
        "seconds",
        "date",
        "revision",
        "data files",
    ];
    let mut text = "## Runs\n\n".to_owned();
    if !lines.is_empty() {
        let mut machines: Vec<String> = store
            .experiments
            .values()
            .map(|s| format!("{}, {} threads", s.fact("processor"), s.fact("cores")))
            .collect();
        machines.sort_unstable();
        machines.dedup();
        text += &format!(
            "On {}. Checksums of the data files stand in the head of each file.\n\n",
            machines.join("; ")
        );
        text += &(table(&header, &lines) + "\n");
    }
    let missing = all
        .iter()
        .filter(|e| !store.experiments.contains_key(&e.id));
    let missing: Vec<String> = missing
        .map(|e| format!("- `{}`: {}\n", e.id, e.what))
        .collect();
    if !missing.is_empty() {
        text += &format!("**Not run** ({}):\n\n{}", missing.len(), missing.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_linked_as_they_are_read() {
        let title = "Tables, and few-row tasks (W)";
        let link_of = "[Tables, and few-row tasks (W)](#tables-and-few-row-tasks-w)";
        assert_eq!(link(title), link_of);
    }
}
