//! What was found beside a claim: whether it holds, and a sentence with the numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cells::Cell;
use super::claims::{Better, Between, Claim, Claims, Grows, Judge, Printed};
use super::duels::{Duel, Sides, counts, gains, losses, margin, measured, number, place};
use super::rows::ResultRow;
use super::store::Store;
use crate::Result;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// In some places.
    InPart,
    /// Neither it nor its contrary is seen.
    Level,
    /// It does not.
    Fails,
    /// Nothing can be judged.
    Shown,
    /// There are no numbers.
    NotRun,
}

impl Verdict {
    /// Those that judge, then the others.
    pub const ALL: [Self; 6] = [
        Self::Holds,
        Self::InPart,
        Self::Level,
        Self::Fails,
        Self::Shown,
        Self::NotRun,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "holds in part",
            Self::Level => "no difference seen",
            Self::Fails => "does not hold",
            Self::Shown => "not judged",
            Self::NotRun => "not run",
        }
    }

    /// Of places where it holds, where nothing is seen and where the contrary is seen.
    fn of(holds: usize, level: usize, fails: usize) -> Self {
        match (holds, level, fails) {
            (0, 0, 0) => Self::NotRun,
            (0, _, 0) => Self::Level,
            (_, _, 0) => Self::Holds,
            (holds, _, fails) if holds >= fails => Self::InPart,
            _ => Self::Fails,
        }
    }
}

/// What was found beside a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found, in sentences.
    pub sentence: String,
}

/// How many of the claims have each verdict.
pub fn verdicts<'a>(
    claims: &Claims,
    of: impl Iterator<Item = &'a Claim>,
    store: &Store,
) -> [(Verdict, usize); 6] {
    let found: Vec<Verdict> = of.map(|c| finding(claims, c, store).verdict).collect();
    Verdict::ALL.map(|wanted| (wanted, found.iter().filter(|v| **v == wanted).count()))
}

/// How many claims hold and how many do not, in sentences.
pub fn tally(claims: &Claims, store: &Store) -> String {
    let [holds, part, level, fails, (_, shown), (_, not_run)] =
        verdicts(claims, claims.claims.iter(), store);
    let judged = [holds, part, level, fails];
    let of_each = judged.map(|(verdict, n)| format!("{}: {n}", verdict.words()));
    format!(
        "Claims and questions that were run and can be judged: {}; {}. Shown without a judgement: {shown}. Not run: {not_run}.",
        judged.iter().map(|(_, n)| n).sum::<usize>(),
        of_each.join(", ")
    )
}

/// What a run or the store has to say about a claim.
pub fn finding(claims: &Claims, claim: &Claim, store: &Store) -> Finding {
    let rows = select(claim, store);
    let (verdict, made) = match &claim.judge {
        Judge::Shown => (Verdict::Shown, String::new()),
        Judge::Printed(judge) => printed(claims, judge, &rows),
        Judge::Better(judge) => better(claims, judge, &rows),
        Judge::Grows(judge) => grows(claims, judge, &rows),
        Judge::Between(judge) => between(claims, judge, &rows),
    };
    let said = fill(claim, store);
    let verdict = match store.experiments.contains_key(&claim.id) {
        true if verdict == Verdict::Shown && said.is_err() => Verdict::NotRun,
        true => verdict,
        false => Verdict::NotRun,
    };
    if verdict == Verdict::NotRun {
        let sentence = match store.experiments.contains_key(&claim.id) {
            true => "The run has not all of its numbers.".to_owned(),
            false => "Not run.".to_owned(),
        };
        return Finding { verdict, sentence };
    }
    // A sentence with numbers of its own; nothing where the run has not all of them.
    let mut parts = vec![said.unwrap_or_default(), made];
    if matches!(verdict, Verdict::InPart | Verdict::Level | Verdict::Fails) {
        parts.push(claim.why.clone());
    }
    parts.retain(|part| !part.is_empty());
    Finding {
        verdict,
        sentence: parts.join(" "),
    }
}

/// Rows that the judge of a claim asks for.
fn select(claim: &Claim, store: &Store) -> Vec<ResultRow> {
    let asked = claim.judge.asked();
    let cells = asked
        .into_iter()
        .map(|place| Cell::pattern(&claim.id, place));
    let mut found: Vec<ResultRow> = Vec::new();
    for cell in cells {
        let rows = cell.resolved(store.rows(&cell).cloned().collect());
        let new = rows.into_iter().filter(|row| !found.contains(row));
        found.extend(new.collect::<Vec<_>>());
    }
    found
}

/// The sentence of a claim with its numbers.
///
/// # Errors
/// A number that is not there, in words.
pub fn fill(claim: &Claim, store: &Store) -> Result<String> {
    let mut parts = claim.found.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (cell, after) = part.split_once('}').unwrap_or((part, ""));
        text += &store.number(&claim.cell(cell)?)?;
        text += after;
    }
    Ok(text)
}

fn printed(claims: &Claims, judge: &Printed, rows: &[ResultRow]) -> (Verdict, String) {
    let tolerance = &claims.tolerance;
    let (mut met, mut worst): (usize, Option<(f64, String)>) = (0, None);
    let with_paper: Vec<(&ResultRow, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.paper?)))
        .collect();
    for (row, paper) in &with_paper {
        // How far it is on the bad side.
        let off = match judge.higher {
            Some(true) => paper - row.mean,
            Some(false) => row.mean - paper,
            None => (row.mean - paper).abs(),
        };
        let spread = match row.sd {
            Some(_) => 2.0 * row.error(),
            None if judge.least > 0.0 => 0.0,
            None => tolerance.least(&row.metric, *paper),
        };
        let beyond = off - spread.max(judge.least);
        met += usize::from(beyond <= 0.0);
        if beyond > 0.0 && worst.as_ref().is_none_or(|(other, _)| beyond > *other) {
            let (ours, paper) = (measured(row), number(*paper));
            let text = format!(
                "; farthest off: {}, {ours} where {paper} is printed",
                place(row)
            );
            worst = Some((beyond, text));
        }
    }
    let n = with_paper.len();
    let how = match judge.higher {
        Some(_) => "met or passed",
        None => "met",
    };
    let worst = worst.map_or(String::new(), |(_, text)| text);
    let sentence = match with_paper[..] {
        [] => String::new(),
        [(row, paper)] => {
            let (metric, ours) = (claims.metric(&row.metric), measured(row));
            format!("{metric} {ours}; {} is printed.", number(paper))
        }
        _ => format!("{met} of {n} printed numbers are {how}{worst}."),
    };
    let verdict = match met == n {
        true => Verdict::of(met, 0, 0),
        false => Verdict::of(met, 0, n - met),
    };
    (verdict, sentence)
}

fn better(claims: &Claims, judge: &Better, rows: &[ResultRow]) -> (Verdict, String) {
    let sides = Sides {
        ours: &judge.at[2],
        others: &judge.others,
        higher: judge.higher,
        apart: &judge.apart,
    };
    let duels = sides.duels(rows, &claims.tolerance);
    let [ahead, level, behind] = counts(&duels);
    let verdict = match judge.level {
        true => Verdict::of(ahead + level, 0, behind),
        false => Verdict::of(ahead, level, behind),
    };
    let sentence = match &duels[..] {
        [] => String::new(),
        [Duel { ours, other, .. }] => {
            let (a, b) = (measured(ours), measured(other));
            let metric = claims.metric(&ours.metric);
            format!(
                "{metric} {a}; the best of the others, {}, {b}.",
                other.method
            )
        }
        duels => {
            let mut text = format!(
                "{} is ahead of the best of the others in {ahead} of {} settings, level in {level}, behind in {behind}",
                judge.at[2],
                duels.len()
            );
            if behind > 0 {
                let _ = write!(text, " ({})", losses(duels, 2));
            }
            text += &format!("; gains {}.", gains(duels));
            if judge.level {
                text += " Level counts as well.";
            }
            text
        }
    };
    (verdict, sentence)
}

/// The number that a setting gives to a key, and the rest of the setting.
fn along(setting: &str, key: &str) -> Option<(f64, String)> {
    let is_key = |part: &&str| part.split_once('=').is_some_and(|(name, _)| name == key);
    let value = setting.split(';').find(is_key)?.split_once('=')?.1;
    let rest: Vec<&str> = setting.split(';').filter(|part| !is_key(part)).collect();
    Some((value.parse().ok()?, rest.join(";")))
}

fn grows(claims: &Claims, judge: &Grows, rows: &[ResultRow]) -> (Verdict, String) {
    let mut series: BTreeMap<[String; 3], Vec<(f64, &ResultRow)>> = BTreeMap::new();
    for row in rows {
        if let Some((x, rest)) = along(&row.setting, &judge.along) {
            let key = [row.dataset.clone(), rest, row.method.clone()];
            series.entry(key).or_default().push((x, row));
        }
    }
    let (mut as_said, mut level, mut contrary, mut ends) = (0, 0, 0, Vec::new());
    for points in series.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [(from, first), .., (to, last)] = &points[..] else {
            continue;
        };
        let sign = if judge.falls { -1.0 } else { 1.0 };
        let (change, least) = (
            sign * (last.mean - first.mean),
            margin(&claims.tolerance, first, last),
        );
        match change {
            c if c > least => as_said += 1,
            c if c < -least => contrary += 1,
            _ => level += 1,
        }
        let (a, b) = (measured(first), measured(last));
        ends.push(format!("from {a} at {} {from} to {b} at {to}", judge.along));
    }
    let how = if judge.falls { "falls" } else { "grows" };
    let metric = claims.metric(&judge.at[3]);
    let sentence = match &ends[..] {
        [] => String::new(),
        [one] => format!("{metric} goes {one}."),
        [first, ..] => format!(
            "{metric} {how} in {as_said} of {} series; the first goes {first}.",
            ends.len()
        ),
    };
    (Verdict::of(as_said, level, contrary), sentence)
}

fn between(claims: &Claims, judge: &Between, rows: &[ResultRow]) -> (Verdict, String) {
    let inside = |row: &&ResultRow| {
        let spread = 2.0 * row.error();
        (judge.low - spread..=judge.high + spread).contains(&row.mean)
    };
    let (n, met) = (rows.len(), rows.iter().filter(inside).count());
    let least = rows.iter().map(|r| r.mean).fold(f64::INFINITY, f64::min);
    let most = rows
        .iter()
        .map(|r| r.mean)
        .fold(f64::NEG_INFINITY, f64::max);
    let metric = claims.metric(&judge.at[3]);
    let [low, high] = [judge.low, judge.high].map(|bound| {
        let text = bound.to_string();
        text.strip_prefix("0.")
            .map_or(text.clone(), |after| format!(".{after}"))
    });
    let sentence = match n {
        0 => String::new(),
        1 => format!("{metric} {}; expected {low} to {high}.", measured(&rows[0])),
        _ => format!(
            "{metric} {} to {}; {met} of {n} are within {low} to {high} by two standard errors.",
            number(least),
            number(most)
        ),
    };
    (Verdict::of(met, 0, n - met), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Stored;

    /// The setting says all of the place; spreads are of four trials, so that the standard error is half of them.
    fn row(setting: &str, method: &str, mean: f64, sd: Option<f64>) -> ResultRow {
        ResultRow {
            sd,
            trials: if sd.is_some() { 4 } else { 1 },
            ..ResultRow::single(["simulated", setting, method, "auc"], mean)
        }
    }

    fn found(claim: &str, rows: Vec<ResultRow>) -> Finding {
        let text = format!(
            "[tolerance]\nerrors = 4\nshare = 0.1\nleast = {{ auc = 0.01 }}\nmachine = []\n[[paper]]\nkey = \"A\"\ntitle = \"A\"\nabout = \"\"\nmodels = [\"a\"]\n\
             [[claim]]\nid = \"a/b\"\nsays = \"x\"\nwhy = \"Because.\"\n{claim}"
        );
        let claims = Claims::parse(&text).unwrap();
        let mut store = Store::default();
        let head = Vec::new();
        store
            .experiments
            .insert("a/b".into(), Stored { head, rows });
        finding(&claims, &claims.claims[0], &store)
    }

    const BETTER: &str =
        "judge = { better = { at = [\"*\", \"*\", \"npb:a\", \"auc\"], others = [\"b*\"] } }";

    #[test]
    fn ours_is_judged_beside_the_best_of_the_others() {
        // Standard errors .01 each, four trials: Student's quantile of 6 degrees is 2.447, and half of the interval .0346.
        let at = |ours: f64, best: f64, setting: &str| {
            vec![
                row(setting, "npb:a", ours, Some(0.02)),
                row(setting, "b1", best, Some(0.02)),
                row(setting, "b2", best - 0.1, Some(0.02)),
                row(setting, "c", 1.0, Some(0.02)),
            ]
        };
        for (ours, verdict) in [
            (0.935, Verdict::Holds),
            (0.934, Verdict::Level),
            (0.866, Verdict::Level),
            (0.865, Verdict::Fails),
        ] {
            assert_eq!(
                found(BETTER, at(ours, 0.9, "k=1")).verdict,
                verdict,
                "{ours}"
            );
        }
        let rows = [
            at(0.95, 0.9, "k=1"),
            at(0.9, 0.9, "k=2"),
            at(0.8, 0.9, "k=3"),
        ];
        let both = found(BETTER, rows.concat());
        assert_eq!(both.verdict, Verdict::InPart);
        assert_eq!(
            both.sentence,
            "npb:a is ahead of the best of the others in 1 of 3 settings, level in 1, behind in 1 (simulated, k 3: .800 (.010), b1 .900 (.010)); gains -.100 to +.050. Because."
        );
        // Of single runs the least difference of the metric counts.
        let single = |ours| vec![row("", "npb:a", ours, None), row("", "b1", 0.9, None)];
        assert_eq!(found(BETTER, single(0.911)).verdict, Verdict::Holds);
        let level = found(BETTER, single(0.909));
        assert_eq!(level.verdict, Verdict::Level);
        assert_eq!(
            level.sentence,
            "Auc .909; the best of the others, b1, .900. Because."
        );
        let lower = BETTER.replace("] }", "], higher = false }");
        assert_eq!(found(&lower, single(0.911)).verdict, Verdict::Fails);
        let as_good = BETTER.replace("] }", "], level = true }");
        assert_eq!(found(&as_good, single(0.9)).verdict, Verdict::Holds);
        assert_eq!(found(BETTER, vec![]).verdict, Verdict::NotRun);
        let unknown = "found = \"It is {simulated k=1 m auc mean .2}.\"";
        assert_eq!(found(unknown, vec![]).verdict, Verdict::NotRun);
    }

    #[test]
    fn printed_numbers_are_met_within_two_standard_errors_or_what_is_allowed() {
        let printed = |mean, sd, paper| ResultRow {
            paper: Some(paper),
            ..row("k=1", "npb:a", mean, sd)
        };
        let claim = |more: &str| {
            format!("judge = {{ printed = {{ at = [\"*\", \"*\", \"*\", \"auc\"]{more} }} }}")
        };
        let verdict = |more: &str, row| found(&claim(more), vec![row]).verdict;
        assert_eq!(verdict("", printed(0.919, Some(0.02), 0.9)), Verdict::Holds);
        assert_eq!(verdict("", printed(0.921, Some(0.02), 0.9)), Verdict::Fails);
        let higher = ", higher = true";
        assert_eq!(
            verdict(higher, printed(0.95, Some(0.02), 0.9)),
            Verdict::Holds
        );
        assert_eq!(
            verdict(higher, printed(0.879, Some(0.02), 0.9)),
            Verdict::Fails
        );
        let least = ", least = 0.15, higher = true";
        assert_eq!(verdict(least, printed(29.86, None, 30.0)), Verdict::Holds);
        assert_eq!(verdict(least, printed(29.84, None, 30.0)), Verdict::Fails);
        let two = vec![printed(0.9, None, 0.9), printed(0.8, None, 0.9)];
        let two = found(&claim(""), two);
        assert_eq!(two.verdict, Verdict::InPart);
        assert_eq!(
            two.sentence,
            "1 of 2 printed numbers are met; farthest off: simulated, k 1, .800 where .900 is printed. Because."
        );
    }

    #[test]
    fn trends_and_ranges_are_judged() {
        let grows = "judge = { grows = { at = [\"*\", \"*\", \"m\", \"auc\"], along = \"n\" } }";
        let rows = |last: f64| {
            vec![
                row("n=16;k=1", "m", last, Some(0.02)),
                row("n=2;k=1", "m", 0.5, Some(0.02)),
                row("n=4;k=1", "m", 0.99, Some(0.02)),
            ]
        };
        let up = found(grows, rows(0.75));
        assert_eq!(up.verdict, Verdict::Holds);
        assert_eq!(
            up.sentence,
            "Auc goes from .500 (.010) at n 2 to .750 (.010) at 16."
        );
        assert_eq!(found(grows, rows(0.52)).verdict, Verdict::Level);
        assert_eq!(found(grows, rows(0.4)).verdict, Verdict::Fails);
        let falls = grows.replace("\"n\" }", "\"n\", falls = true }");
        assert_eq!(found(&falls, rows(0.4)).verdict, Verdict::Holds);
        let between =
            "judge = { between = { at = [\"*\", \"*\", \"m\", \"auc\"], low = 0.45, high = 0.7 } }";
        let range = found(between, rows(0.71));
        assert_eq!(range.verdict, Verdict::InPart);
        assert_eq!(
            range.sentence,
            "Auc .500 to .990; 2 of 3 are within .45 to .7 by two standard errors. Because."
        );
    }

    #[test]
    fn a_sentence_has_its_numbers_or_is_left_out() {
        let rows = vec![row("k=1", "m", 0.75, None)];
        let claim =
            "found = \"It is {simulated k=1 m auc mean .2}, not {simulated k=1 m auc mean 0.1}.\"";
        let shown = found(claim, rows.clone());
        assert_eq!(
            (shown.verdict, &*shown.sentence),
            (Verdict::Shown, "It is .75, not 0.8.")
        );
        let lacks = found(&claim.replace("k=1", "k=2"), rows.clone());
        assert_eq!(lacks.sentence, "The run has not all of its numbers.");
        let judged = format!("{BETTER}\n{}", claim.replace("k=1", "k=2"));
        let rows = [
            rows,
            vec![row("", "npb:a", 0.9, None), row("", "b", 0.8, None)],
        ]
        .concat();
        assert_eq!(
            found(&judged, rows).sentence,
            "Auc .900; the best of the others, b, .800."
        );
    }
}
