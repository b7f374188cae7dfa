//! What moved between a stored run and a new one.

use npb_catalogue::results::{Claims, ResultRow, Store, Tolerance};

/// Numbers of the experiments that differ from what is stored by more than chance makes likely, and runs that cannot be compared; a line each.
pub(super) fn moved(claims: &Claims, stored: &Store, run: &Store, ids: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for id in ids {
        let (Some(old), Some(new)) = (stored.experiments.get(id), run.experiments.get(id)) else {
            lines.push(format!("{id}: nothing is stored"));
            continue;
        };
        if old.fact("scale") != new.fact("scale") {
            let (old, new) = (old.fact("scale"), new.fact("scale"));
            lines.push(format!(
                "{id}: stored at {old} scale, run at {new}; not compared"
            ));
            continue;
        }
        if old.data() != new.data() {
            lines.push(format!(
                "{id}: its data files are not those of the stored run"
            ));
        }
        let is_machine = |row: &&ResultRow| claims.tolerance.machine.contains(&row.metric);
        for row in old.rows.iter().filter(|row| !is_machine(row)) {
            let place = row.place();
            // Some places have several rows; the nearest is meant.
            let there = new.rows.iter().filter(|other| other.place() == place);
            let distance = |other: &ResultRow| (other.mean - row.mean).abs();
            let nearest = there.min_by(|a, b| distance(a).total_cmp(&distance(b)));
            let name = place.join(", ");
            match nearest {
                None => lines.push(format!("{id}: {name}: not in the run")),
                Some(other) => {
                    let most = tolerance(&claims.tolerance, row, other);
                    if distance(other) > most {
                        let (old, new) = (row.mean, other.mean);
                        lines.push(format!("{id}: {name}: {old} stored, {new} now (at most {most:.2e} apart by chance)"));
                    }
                }
            }
        }
    }
    lines
}

/// The largest difference that chance explains: standard errors of a difference of means, by the larger of both spreads, and the least difference of the
/// metric.
fn tolerance(tolerance: &Tolerance, old: &ResultRow, new: &ResultRow) -> f64 {
    let least = tolerance.least(&old.metric, old.mean);
    let sd = old.sd.unwrap_or(0.0).max(new.sd.unwrap_or(0.0));
    let error = sd * (1.0 / old.trials as f64 + 1.0 / new.trials as f64).sqrt();
    // Stored numbers have six digits.
    least
        .max(tolerance.errors * error)
        .max(1e-5 * old.mean.abs())
}

#[cfg(test)]
mod tests {
    use npb_catalogue::results::Stored;

    use super::*;

    fn store(scale: &str, rows: Vec<ResultRow>) -> Store {
        let mut store = Store::default();
        let head = vec![("scale".to_owned(), scale.to_owned())];
        store
            .experiments
            .insert("x/y".to_owned(), Stored { head, rows });
        store
    }

    fn row(metric: &str, mean: f64, sd: Option<f64>) -> ResultRow {
        ResultRow {
            sd,
            trials: if sd.is_some() { 8 } else { 1 },
            ..ResultRow::single(["d", "", "m", metric], mean)
        }
    }

    #[test]
    fn what_moved_by_more_than_chance_is_named() {
        let mut claims = Claims::default();
        claims.tolerance.errors = 4.0;
        claims.tolerance.share = 0.01;
        claims.tolerance.least.insert("psnr".to_owned(), 0.1);
        claims.tolerance.machine = vec!["seconds".to_owned()];
        let old = [
            row("auc", 0.9, Some(0.02)),
            row("psnr", 30.0, None),
            row("rank", 200.0, None),
            row("seconds", 1.0, None),
        ];
        let of = |auc: f64, psnr: f64, rank: f64| {
            let rows = vec![
                row("auc", auc, Some(0.01)),
                row("psnr", psnr, None),
                row("rank", rank, None),
                row("seconds", 9.0, None),
            ];
            let ids = ["x/y".to_owned()];
            moved(
                &claims,
                &store("quick", old.to_vec()),
                &store("quick", rows),
                &ids,
            )
        };
        // Standard error of the difference .02 sqrt(1/8 + 1/8) = .01, four of them .04.
        assert_eq!(of(0.939, 30.09, 201.9), [""; 0]);
        assert_eq!(of(0.861, 29.91, 198.1), [""; 0]);
        let lines = of(0.941, 30.11, 202.1);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0].starts_with("x/y: d, , m, auc: 0.9 stored, 0.941 now"),
            "{lines:?}"
        );
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let claims = Claims::default();
        let (old, ids) = (
            store("paper", vec![row("auc", 0.9, None)]),
            ["x/y".to_owned()],
        );
        let say = |run: Store| moved(&claims, &old, &run, &ids);
        assert!(say(store("quick", vec![]))[0].contains("stored at paper scale, run at quick"));
        assert!(say(store("paper", vec![]))[0].contains("auc: not in the run"));
        assert!(say(Store::default())[0].contains("nothing is stored"));
    }
}
