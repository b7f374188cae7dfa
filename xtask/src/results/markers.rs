//! Numbers of pages that come from the store: `<!--= bsvd/table-5.2 movielens-1m code=0000 npb:bsvd rmse mean .4 -->.8571<!--/-->`, and whole tables:
//! `<!--= jobs -->`, `<!--= job classify -->`, `<!--= claims W -->`. Comments are seen neither on the web nor by rustdoc.

use npb_catalogue::results::{Cell, Claims, Store};

use super::page::{PAGE, claims_table, job_section, jobs_table};

const OPEN: &str = "<!--= ";
const SHUT: &str = " -->";
const END: &str = "<!--/-->";

/// A marked place of a page that is not as it should be.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Whether numbers of a file may be marked.
pub(crate) fn is_page(path: &str) -> bool {
    path.ends_with(".md") && path != PAGE
}

/// A marker: what it names, and where its text stands.
struct Marker<'a> {
    name: &'a str,
    line: usize,
    start: usize,
    end: Option<usize>,
}

/// Those of a page; one behind a backtick is an example.
fn markers(page: &str) -> Vec<Marker<'_>> {
    let mut found = Vec::new();
    for (at, _) in page.match_indices(OPEN) {
        let inside = &page[at + OPEN.len()..];
        let Some((name, after)) = inside.split_once(SHUT) else {
            continue;
        };
        if !page[..at].ends_with('`') {
            let start = at + OPEN.len() + name.len() + SHUT.len();
            // What is not ended before the next one begins is not ended at all.
            let end = after.find(END).filter(|&end| !after[..end].contains(OPEN));
            found.push(Marker {
                name,
                line: page[..at].matches('\n').count() + 1,
                start,
                end: end.map(|end| start + end),
            });
        }
    }
    found
}

/// What stands in a marker.
fn wanted(claims: &Claims, store: &Store, name: &str) -> Result<String, String> {
    let known = |what: &str, found: Option<String>| {
        let text = found.ok_or_else(|| format!("there is no {what} in the list of claims"))?;
        Ok(format!("\n\n{text}\n"))
    };
    match name.split_once(' ') {
        Some(("job", job)) => {
            let found = claims.jobs.iter().find(|j| j.name == job);
            known(name, found.map(|job| job_section(claims, job, store)))
        }
        Some(("claims", key)) => {
            let found = claims.papers.iter().find(|p| p.key == key);
            known(name, found.map(|paper| claims_table(claims, paper, store)))
        }
        _ if name == "jobs" => Ok(format!(
            "\n\n{}\n",
            jobs_table(claims, store, str::to_owned)
        )),
        _ => store.number(&Cell::parse(name)?),
    }
}

/// The page with what the store says in its markers, and the markers to which it says nothing.
pub(crate) fn rewritten(claims: &Claims, store: &Store, page: &str) -> (String, Vec<Fault>) {
    let (mut text, mut faults, mut done) = (String::new(), Vec::new(), 0);
    for Marker {
        name,
        line,
        start,
        end,
    } in markers(page)
    {
        let wanted = match end {
            Some(_) => wanted(claims, store, name),
            None => Err(format!("{OPEN}{name}{SHUT} has no {END}")),
        };
        match (wanted, end) {
            (Ok(wanted), Some(end)) => {
                text += &page[done..start];
                text += &wanted;
                done = end;
            }
            (Err(message), _) => faults.push(Fault { line, message }),
            (Ok(_), None) => {}
        }
    }
    (text + &page[done..], faults)
}

/// The markers of a page that do not hold what the store says.
pub(crate) fn faults(claims: &Claims, store: &Store, page: &str) -> Vec<Fault> {
    let fault = |Marker {
                     name,
                     line,
                     start,
                     end,
                 }: Marker<'_>| {
        let stands = &page[start..end.unwrap_or(start)];
        let message = match (wanted(claims, store, name), end) {
            (_, None) => format!("{OPEN}{name}{SHUT} has no {END}"),
            (Err(message), _) => message,
            (Ok(wanted), _) if wanted == stands => return None,
            (Ok(_), _) if stands.contains('\n') => {
                format!("the table {name} is not that of the store; `cargo xtask results` makes it")
            }
            (Ok(wanted), _) => {
                format!(
                    "{stands} stands here, {wanted} is stored ({name}); `cargo xtask results` mends it"
                )
            }
        };
        Some(Fault { line, message })
    };
    markers(page).into_iter().filter_map(fault).collect()
}

/// The numbers that a page names.
pub(crate) fn cells(page: &str) -> Result<Vec<Cell>, String> {
    let names = markers(page).into_iter().map(|marker| marker.name);
    let is_table =
        |name: &str| name == "jobs" || name.starts_with("job ") || name.starts_with("claims ");
    let numbers = names.filter(|name| !is_table(name));
    numbers.map(Cell::parse).collect()
}

#[cfg(test)]
mod tests {
    use npb_catalogue::results::{ResultRow, Stored};

    use super::*;

    fn store() -> Store {
        let mut store = Store::default();
        let rows = vec![ResultRow::single(["d", "k=1", "m", "auc"], 0.9624)];
        let stored = Stored {
            head: Vec::new(),
            rows,
        };
        store.experiments.insert("x/y".to_owned(), stored);
        store
    }

    const NAME: &str = "x/y d k=1 m auc mean .3";

    fn page(number: &str, name: &str) -> String {
        format!("# A\n\nAUC <!--= {name} -->{number}<!--/-->, `<!--= like this -->`.\n")
    }

    #[test]
    fn a_number_that_differs_is_found_and_mended() {
        let (claims, store) = (Claims::default(), store());
        let good = page(".962", NAME);
        assert_eq!(faults(&claims, &store, &good), []);
        let broken = page(".963", NAME);
        let found = faults(&claims, &store, &broken);
        assert_eq!((found.len(), found[0].line), (1, 3));
        let message = &found[0].message;
        assert!(
            message.contains(".963 stands here, .962 is stored"),
            "{message}"
        );
        assert_eq!(rewritten(&claims, &store, &broken), (good.clone(), vec![]));
        assert_eq!(rewritten(&claims, &store, &good).0, good);
    }

    #[test]
    fn a_marker_that_names_nothing_is_found_and_left() {
        let (claims, store) = (Claims::default(), store());
        for (name, words) in [
            ("x/z d k=1 m auc mean .3", "no run of x/z is stored"),
            ("x/y d k=2 m auc mean .3", "nothing stored is"),
            ("x/y d k=1", "is not: experiment"),
            ("job classify", "there is no job classify"),
        ] {
            let broken = page(".962", name);
            let found = faults(&claims, &store, &broken);
            assert!(
                found.len() == 1 && found[0].message.contains(words),
                "{found:?}"
            );
            assert_eq!(rewritten(&claims, &store, &broken).0, broken);
        }
        let open = page("", NAME).replace(END, "");
        assert!(
            faults(&claims, &store, &open)[0]
                .message
                .contains("has no <!--/-->")
        );
    }
}
