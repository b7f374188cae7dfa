//! `cargo xtask tidy`: the house rules, checked on manifests, `Cargo.lock` and sources.

mod answers;
mod circles;
mod equations;
mod lock;
mod manifest;
mod project;
mod results;
mod rooms;
mod rules;
pub(crate) mod tokens;
mod tree;

use std::path::Path;

use npb_catalogue::Result;
use project::Project;
pub(crate) use project::Violation;
pub(crate) use tree::Tree;

/// Checks the project at `root` and returns every violation, sorted by place.
pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    Ok(violations(&Project::new(Tree::read(root)?)?))
}

/// The files of the project at `root`.
pub(crate) fn tree(root: &Path) -> Result<Tree> {
    Tree::read(root)
}

fn violations(project: &Project) -> Vec<Violation> {
    let mut broken: Vec<Violation> = rules::ALL.iter().flat_map(|rule| rule(project)).collect();
    broken.sort();
    broken.dedup();
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small project that breaks no rule: one base crate, one model, the command line and xtask.
    fn clean() -> Vec<(String, String)> {
        let package = |name: &str, more: &str| {
            format!(
                "[package]\nname = \"{name}\"\nversion.workspace = true\n{more}\n[lints]\nworkspace = true\n\n"
            )
        };
        let lock = "version = 4\n\n[[package]]\nname = \"npb-linalg\"\nversion = \"0.1.0\"\ndependencies = [\n \"faer\",\n \"rand\",\n]\n\n\
                    [[package]]\nname = \"npb-a\"\nversion = \"0.1.0\"\ndependencies = [\n \"npb-linalg\",\n \"tester\",\n]\n\n\
                    [[package]]\nname = \"faer\"\nversion = \"0.24.0\"\n\n[[package]]\nname = \"rand\"\nversion = \"0.10.0\"\n\n\
                    [[package]]\nname = \"tester\"\nversion = \"1.0.0\"\ndependencies = [\n \"clap\",\n]\n\n\
                    [[package]]\nname = \"clap\"\nversion = \"4.0.0\"\n";
        let mut files = vec![
            (
                "Cargo.toml".into(),
                "[workspace]\nmembers = [\"crates/*\", \"xtask\", \"xtask/kit\"]\n".into(),
            ),
            ("Cargo.lock".into(), lock.into()),
            (
                "crates/npb-linalg/Cargo.toml".into(),
                package("npb-linalg", "")
                    + "[dependencies]\nfaer.workspace = true\nrand.workspace = true\n",
            ),
            (
                "crates/npb-linalg/src/lib.rs".into(),
                "//! Numbers.\n".into(),
            ),
            (
                "crates/npb-a/Cargo.toml".into(),
                package("npb-a", "")
                    + "[dependencies]\nnpb-linalg.workspace = true\n[dev-dependencies]\ntester.workspace = true\n",
            ),
            (
                "xtask/Cargo.toml".into(),
                package("xtask", "publish = false\n") + "[dependencies]\nclap.workspace = true\n",
            ),
            (
                "xtask/kit/Cargo.toml".into(),
                package("npb-kit", "publish = false\n")
                    + "[dependencies]\nnpb-linalg.workspace = true\n",
            ),
            (
                "xtask/kit/src/lib.rs".into(),
                "//! Trials.\nfn f() { println!(\"hello\"); }\n".into(),
            ),
            (
                "crates/npb-cli/Cargo.toml".into(),
                package("npb-cli", "publish = false\n")
                    + "[dependencies]\nclap.workspace = true\nnpb-a.workspace = true\n",
            ),
            (
                "crates/npb-cli/src/main.rs".into(),
                "//! The command.\nfn main() { println!(\"hello\"); std::process::exit(0) }\n"
                    .into(),
            ),
            (
                "xtask/src/main.rs".into(),
                "//! Tasks.\nfn main() { println!(\"hello\"); }\n".into(),
            ),
        ];
        for room in ["config.rs", "state.rs", "vb.rs", "fit.rs", "error.rs"] {
            files.push((format!("crates/npb-a/src/{room}"), "\n".into()));
        }
        files.push(("crates/npb-a/src/lib.rs".into(), "//! A model.\n".into()));
        files.push((
            "crates/npb-a/tests/it/main.rs".into(),
            "//! Tests.\n".into(),
        ));
        files
    }

    /// The violations of the clean project after one file was changed, added or (`None`) removed.
    fn after(path: &str, change: impl Fn(String) -> Option<String>) -> Vec<String> {
        let mut files = clean();
        let old = files.iter().position(|(p, _)| p == path);
        let text = old.map(|index| files.remove(index).1).unwrap_or_default();
        if let Some(text) = change(text) {
            files.push((path.to_owned(), text));
        }
        let project = Project::new(Tree::from_texts(&files)).unwrap();
        violations(&project).iter().map(|v| v.to_string()).collect()
    }

    fn append(path: &str, more: &str) -> Vec<String> {
        after(path, |text| Some(text + more))
    }

    /// Exactly one violation, at this place, with these words.
    #[track_caller]
    fn assert_one(broken: &[String], place: &str, words: &str) {
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert!(broken[0].starts_with(&format!("{place}: ")), "{broken:?}");
        assert!(broken[0].contains(words), "{broken:?}");
    }

    #[test]
    fn a_clean_project_passes() {
        assert_eq!(append("crates/npb-linalg/src/lib.rs", ""), [""; 0]);
    }

    #[test]
    fn each_answer_has_a_row_and_each_row_an_answer() {
        let fit = "pub struct XFit<T>(T);\nimpl<T: Clone> XFit<T> {\n    pub fn predict(&self) -> f64 { self.inner() }\n    fn inner(&self) -> f64 { 1.0 }\n}\n\
                   impl Clone for XFit<f64> { fn clone(&self) -> Self { panic!() } }\n\
                   pub struct XConfig {\n    pub atoms: usize,\n    limit: usize,\n}\n";
        let path = "crates/npb-a/src/fit.rs";
        let broken = append(path, fit);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(
            broken[0].contains("fit.rs:4: XFit::predict has no row"),
            "{broken:?}"
        );
        assert!(
            broken[1].contains("fit.rs:9: XConfig::atoms has no row"),
            "{broken:?}"
        );
        // What a macro gives to a fit is asked of it; a macro that makes types makes internals.
        let told = |types: &str| {
            format!(
                "macro_rules! made {{ ($fit:ty) => {{ {types} impl $fit {{ pub fn told(&self) {{}} }} }} }}\n"
            )
        };
        let broken = append(path, &told(""));
        assert!(
            broken.len() == 1 && broken[0].contains("made::told has no row"),
            "{broken:?}"
        );
        assert_eq!(append(path, &told("pub enum Column { A }")), [""; 0]);
        let tests = "#[test]\nfn by_hand() {}\n";
        let with = |row: &str| {
            let mut files = clean();
            let rows = format!("| npb-a | `XConfig::atoms` | enumeration | `by_hand` |\n{row}\n");
            for (path, text) in [
                (path, fit),
                ("docs/validation.md", &rows),
                ("crates/npb-a/tests/it/x.rs", tests),
            ] {
                files.retain(|(p, _)| p != path);
                files.push((path.to_owned(), text.to_owned()));
            }
            let project = Project::new(Tree::from_texts(&files)).unwrap();
            let broken = violations(&project);
            broken.iter().map(|v| v.to_string()).collect::<Vec<_>>()
        };
        let page = "docs/validation.md:2";
        assert_eq!(
            with("| npb-a | `XFit::predict` | closed form | `by_hand` |"),
            [""; 0]
        );
        assert_one(
            &with("| npb-a | `XFit::predict` | closed form | `by_foot` |"),
            page,
            "no test by_foot",
        );
        assert_one(
            &with("| npb-a | `XFit::predict` | closed form | |"),
            page,
            "names a test",
        );
        assert_one(
            &with("| npb-a | `XFit::predict` |  | `by_hand` |"),
            page,
            "how the value is known",
        );
        let broken = with("| npb-a | `XFit::predict`, `XFit::impute` | closed form | `by_hand` |");
        assert_one(&broken, page, "no question or setting XFit::impute");
    }

    /// Violations of the clean project with a store of one number, a page that has this number of it, and this end of the page of results.
    fn with_results(number: &str, cell: &str, more: &str) -> Vec<String> {
        let claims = "[tolerance]\nerrors = 4\nshare = 0.1\nleast = {}\nmachine = []\n[[paper]]\nkey = \"A\"\ntitle = \"A\"\nabout = \"\"\nmodels = [\"priors\"]\n\
                      [[claim]]\nid = \"priors/x\"\nsays = \"it is high\"\nfound = \"AUC {d k=1 m auc mean .3}.\"\n";
        let rows = "# experiment: priors/x\nexperiment,dataset,setting,method,metric,mean,sd,trials,paper\npriors/x,d,k=1,m,auc,0.9624,,1,\n";
        let list = "[[experiment]]\nid = \"priors/x\"\nwhat = \"x\"\n";
        let marked = format!("Text\n<!--= priors/x d {cell} m auc mean .3 -->{number}<!--/-->\n");
        let mut files = clean();
        for (path, text) in [
            ("docs/results/claims.toml", claims),
            ("docs/results/priors-x.csv", rows),
            ("xtask/experiments/priors/listed.toml", list),
            ("docs/a.md", &marked),
        ] {
            files.push((path.to_owned(), text.to_owned()));
        }
        let tree = Tree::from_texts(&files);
        let store = npb_catalogue::results::Store::from_files(tree.texts()).unwrap();
        let claims = npb_catalogue::results::Claims::parse(claims).unwrap();
        let listed = npb_catalogue::Listed::parse(list).unwrap();
        let entries: Vec<_> = listed.experiments.iter().collect();
        let page = crate::results::page(&claims, &store, &entries);
        files.push((crate::results::PAGE.to_owned(), page + more));
        let project = Project::new(Tree::from_texts(&files)).unwrap();
        violations(&project).iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn numbers_of_pages_are_those_of_the_store() {
        assert_eq!(with_results(".962", "k=1", ""), [""; 0]);
        let broken = with_results(".964", "k=1", "");
        assert_one(&broken, "docs/a.md:2", ".964 stands here, .962 is stored");
        let broken = with_results(".962", "k=2", "");
        assert_one(&broken, "docs/a.md:2", "nothing stored is d k=2");
        let broken = with_results(".962", "k=1", "By hand.\n");
        let place = broken[0].split_once(": ").unwrap().0.to_owned();
        assert!(place.starts_with("docs/results.md:"), "{broken:?}");
        assert_one(&broken, &place, "`cargo xtask results` does");
    }

    #[test]
    fn each_verb_has_a_row() {
        let path = "crates/npb-cli/src/args.rs";
        let verbs = "enum Verb {\n    /// One.\n    Predict(PredictArgs),\n    #[command(subcommand)]\n    Fit(Fit),\n}\nenum Kind { Table }\n";
        let broken = append(path, verbs);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(
            broken[0].contains("args.rs:3: predict has no row"),
            "{broken:?}"
        );
        assert!(broken[1].contains("args.rs:5: fit has no row"));
    }

    #[test]
    fn this_project_is_readable() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let project = Project::new(Tree::read(root).unwrap()).unwrap();
        let names: Vec<&str> = project.members.iter().map(|m| m.name.as_str()).collect();
        for name in [
            "npb-linalg",
            "npb-iqgme",
            "npb-baselines",
            "npb-benches",
            "npb-experiments-iqgme",
            "xtask",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
    }

    #[test]
    fn base_crates_do_not_look_up() {
        let broken = append("crates/npb-linalg/Cargo.toml", "npb-a.workspace = true\n");
        assert_one(
            &broken,
            "crates/npb-linalg/Cargo.toml:11",
            "must not depend on npb-a",
        );
    }

    #[test]
    fn models_do_not_see_each_other_even_in_tests() {
        let mut files = clean();
        for (path, text) in clean() {
            if let Some(rest) = path.strip_prefix("crates/npb-a/") {
                files.push((
                    format!("crates/npb-b/{rest}"),
                    text.replace("npb-a", "npb-b"),
                ));
            }
        }
        let own = files
            .iter_mut()
            .find(|(path, _)| path == "crates/npb-a/Cargo.toml")
            .unwrap();
        own.1.push_str("npb-b.workspace = true\n");
        let project = Project::new(Tree::from_texts(&files)).unwrap();
        let broken: Vec<String> = violations(&project).iter().map(|v| v.to_string()).collect();
        assert_one(
            &broken,
            "crates/npb-a/Cargo.toml:12",
            "npb-a must not depend on npb-b",
        );
    }

    #[test]
    fn nothing_in_crates_depends_on_the_tools() {
        let broken = append("crates/npb-a/Cargo.toml", "xtask.workspace = true\n");
        assert_one(
            &broken,
            "crates/npb-a/Cargo.toml:12",
            "must not depend on xtask",
        );
    }

    #[test]
    fn tools_that_come_first_take_no_model() {
        for (path, package) in [
            ("xtask/Cargo.toml", "npb-linalg"),
            ("xtask/kit/Cargo.toml", "npb-a"),
        ] {
            let broken = append(path, &format!("{package}.workspace = true\n"));
            assert_one(&broken, &format!("{path}:11"), "below xtask/experiments");
        }
    }

    /// A clean project with npb-report, which has its library to itself, and this line at the end of a manifest.
    fn with_report(path: &str, more: &str) -> Vec<String> {
        let report = "crates/npb-report/Cargo.toml";
        let mut files = clean();
        files.push((
            report.into(),
            "[package]\nname = \"npb-report\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\nplotters.workspace = true\n".into(),
        ));
        let lib = "//! Pictures.\n".into();
        files.push(("crates/npb-report/src/lib.rs".into(), lib));
        let lock = files.iter_mut().find(|(path, _)| path == "Cargo.lock");
        lock.unwrap().1.push_str("\n[[package]]\nname = \"npb-report\"\nversion = \"0.1.0\"\ndependencies = [\n \"plotters\",\n]\n\n[[package]]\nname = \"plotters\"\nversion = \"0.3.0\"\n");
        let manifest = files.iter_mut().find(|(p, _)| p == path).unwrap();
        manifest.1.push_str(more);
        let project = Project::new(Tree::from_texts(&files)).unwrap();
        violations(&project).iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn pictures_are_for_the_tools_and_take_no_crate() {
        for tool in ["xtask", "xtask/kit", "crates/npb-cli"] {
            let path = format!("{tool}/Cargo.toml");
            let broken = with_report(&path, "npb-report.workspace = true\n");
            assert_eq!(broken, [""; 0], "{tool}");
        }
        let broken = with_report(
            "crates/npb-report/Cargo.toml",
            "npb-linalg.workspace = true\n",
        );
        assert_one(
            &broken,
            "crates/npb-report/Cargo.toml:10",
            "npb-report must not depend on npb-linalg",
        );
        let model = "crates/npb-linalg/Cargo.toml";
        let broken = with_report(model, "npb-report.workspace = true\n");
        assert_one(
            &broken,
            &format!("{model}:11"),
            "must not depend on npb-report",
        );
        let broken = with_report("xtask/Cargo.toml", "plotters.workspace = true\n");
        assert_one(
            &broken,
            "xtask/Cargo.toml:11",
            "only npb-report names plotters",
        );
    }

    #[test]
    fn pages_stand_on_models_and_under_tools() {
        let pages = |publish: &str, more: &str| {
            let text = format!(
                "[package]\nname = \"npb-pages\"\nversion.workspace = true\n{publish}\n[lints]\nworkspace = true\n\n[dependencies]\nnpb-a.workspace = true\n{more}"
            );
            let mut files = clean();
            files.push(("crates/npb-pages/Cargo.toml".into(), text));
            files.push(("crates/npb-pages/src/lib.rs".into(), "//! Pages.\n".into()));
            files
        };
        let check = |files: Vec<(String, String)>| -> Vec<String> {
            let project = Project::new(Tree::from_texts(&files)).unwrap();
            violations(&project).iter().map(|v| v.to_string()).collect()
        };
        assert_eq!(check(pages("publish = false\n", "")), [""; 0]);
        assert_one(
            &check(pages("", "")),
            "crates/npb-pages/Cargo.toml:1",
            "publish = false",
        );
        let broken = check(pages("publish = false\n", "npb-kit.workspace = true\n"));
        assert_one(
            &broken,
            "crates/npb-pages/Cargo.toml:11",
            "must not depend on npb-kit",
        );
        let mut files = pages("publish = false\n", "");
        let model = files
            .iter_mut()
            .find(|(path, _)| path == "crates/npb-a/Cargo.toml");
        *model.unwrap() = (
            "crates/npb-a/Cargo.toml".into(),
            "[package]\nname = \"npb-a\"\nversion.workspace = true\n[lints]\nworkspace = true\n[dependencies]\nnpb-pages.workspace = true\n".into(),
        );
        assert_one(
            &check(files),
            "crates/npb-a/Cargo.toml:7",
            "must not depend on npb-pages",
        );
    }

    #[test]
    fn fenced_libraries_are_named_by_their_owner_only() {
        let broken = append("crates/npb-a/Cargo.toml", "faer.workspace = true\n");
        assert_one(
            &broken,
            "crates/npb-a/Cargo.toml:12",
            "only npb-linalg names faer",
        );
        let broken = append(
            "xtask/Cargo.toml",
            "s = { package = \"statrs\", workspace = true }\n",
        );
        assert_one(
            &broken,
            "xtask/Cargo.toml:11",
            "only npb-priors names statrs",
        );
    }

    #[test]
    fn settings_are_shared() {
        let drop = |line: &'static str| move |text: String| Some(text.replace(line, ""));
        let path = "crates/npb-a/Cargo.toml";
        assert_one(
            &after(path, drop("[lints]\nworkspace = true\n")),
            "crates/npb-a/Cargo.toml:1",
            "[lints]",
        );
        assert_one(
            &after(path, drop("version.workspace = true\n")),
            "crates/npb-a/Cargo.toml:1",
            "version",
        );
        assert_one(
            &after("xtask/Cargo.toml", drop("publish = false\n")),
            "xtask/Cargo.toml:1",
            "publish",
        );
        assert_one(
            &append(path, "other = \"1\"\n"),
            "crates/npb-a/Cargo.toml:12",
            "other.workspace = true",
        );
    }

    #[test]
    fn two_rands_are_found_and_explained() {
        let second = "\n[[package]]\nname = \"rand\"\nversion = \"0.9.0\"\n";
        let broken = after("Cargo.lock", |text| {
            let text = text.replace(" \"rand\",\n", " \"rand 0.10.0\",\n").replace(
                "name = \"faer\"\nversion = \"0.24.0\"\n",
                "name = \"faer\"\nversion = \"0.24.0\"\ndependencies = [\n \"rand 0.9.0\",\n]\n",
            );
            Some(text + second)
        });
        assert_one(
            &broken,
            "Cargo.lock:27",
            "0.9.0 (npb-a -> npb-linalg -> faer -> rand)",
        );
    }

    #[test]
    fn a_second_rand_that_only_tests_use_is_no_matter() {
        let broken = after("Cargo.lock", |text| {
            let text = text.replace(" \"rand\",\n", " \"rand 0.10.0\",\n");
            Some(
                text.replace(" \"clap\",\n", " \"clap\",\n \"rand 0.9.0\",\n")
                    + "\n[[package]]\nname = \"rand\"\nversion = \"0.9.0\"\n",
            )
        });
        assert_eq!(broken, [""; 0]);
    }

    #[test]
    fn published_trees_stay_lean() {
        // The same way through `tester` is fine as a dev-dependency, as the clean project shows.
        let broken = after("crates/npb-a/Cargo.toml", |text| {
            Some(text.replace("[dev-dependencies]\n", ""))
        });
        assert_one(
            &broken,
            "crates/npb-a/Cargo.toml:10",
            "npb-a -> tester -> clap",
        );
    }

    #[test]
    fn libraries_do_not_print_or_exit() {
        for call in ["print!", "println!", "eprint!", "eprintln!", "dbg!"] {
            let broken = append(
                "crates/npb-a/src/vb.rs",
                &format!("fn f() {{\n    {call}(\"x\");\n}}\n"),
            );
            assert_one(&broken, "crates/npb-a/src/vb.rs:3", call);
        }
        let broken = append(
            "crates/npb-a/src/vb.rs",
            "fn f() { std::process::exit(1) }\n",
        );
        assert_one(&broken, "crates/npb-a/src/vb.rs:2", "never exit");
        assert_eq!(
            append(
                "crates/npb-a/src/vb.rs",
                "// println!(\"x\")\nconst X: &str = \"println!\";\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn unseeded_generators_are_found_in_tests_too() {
        let uses = [
            "rand::rng()",
            "rand::random::<f64>()",
            "thread_rng()",
            "StdRng::from_os_rng()",
            "StdRng::from_entropy()",
            "rand::rngs::ThreadRng",
            "rand::rngs::SysRng",
            "OsRng",
            "make_rng()",
        ];
        for call in uses {
            let broken = append(
                "crates/npb-a/tests/it/main.rs",
                &format!("fn f() {{ {call}; }}\n"),
            );
            assert_one(
                &broken,
                "crates/npb-a/tests/it/main.rs:2",
                "no unseeded generator",
            );
        }
        let broken = append(
            "crates/npb-a/tests/it/main.rs",
            "use rand::{RngExt, rng};\n",
        );
        assert_one(&broken, "crates/npb-a/tests/it/main.rs:2", "rand::rng");
        let seeded =
            "use rand::{RngExt, SeedableRng};\nfn f(rng: &mut R) -> f64 { rng.random() }\n";
        assert_eq!(append("crates/npb-a/tests/it/main.rs", seeded), [""; 0]);
    }

    #[test]
    fn crates_say_what_they_are_for() {
        let broken = after("crates/npb-a/src/lib.rs", |text| Some(format!("\n{text}")));
        assert_one(&broken, "crates/npb-a/src/lib.rs:1", "first line");
        let broken = after("xtask/src/main.rs", |_| Some("//!\nfn main() {}\n".into()));
        assert_one(&broken, "xtask/src/main.rs:1", "first line");
    }

    #[test]
    fn nothing_is_left_unfinished() {
        let cases = [
            "fn f() { todo!() }",
            "fn f() { unimplemented!(\"later\") }",
            "#[ignore] fn f() {}",
            "#[ignore = \"slow\"] fn f() {}",
            "#[allow(unused, dead_code)] fn f() {}",
            "#![expect(dead_code)]",
        ];
        for case in cases {
            let broken = append("xtask/src/main.rs", &format!("{case}\n"));
            assert_one(&broken, "xtask/src/main.rs:3", "finish it");
        }
        let broken = append(
            "xtask/src/main.rs",
            "/// ```rust,ignore\n/// x\n/// ```\nfn f() {}\n",
        );
        assert_one(&broken, "xtask/src/main.rs:3", "not compiled");
    }

    #[test]
    fn examples_of_models_name_base_crates_by_way_of_the_model() {
        let example = |line: &str| format!("/// ```\n/// {line}\n/// ```\nfn f() {{}}\n");
        let alone = example("use npb_linalg::factor;");
        let broken = append("crates/npb-a/src/vb.rs", &alone);
        assert_one(
            &broken,
            "crates/npb-a/src/vb.rs:3",
            "use npb_a::npb_linalg::factor",
        );
        assert_eq!(append("crates/npb-linalg/src/lib.rs", &alone), [""; 0]);
        let by_way = example("use npb_a::npb_linalg::factor;");
        assert_eq!(append("crates/npb-a/src/vb.rs", &by_way), [""; 0]);
    }

    #[test]
    fn machine_paths_are_found_in_code_and_prose() {
        for folder in ["work", "tmp", "home", "root", "Users"] {
            let broken = append("docs.md", &format!("see `/{folder}/x`\n"));
            assert_one(&broken, "docs.md:1", "absolute path");
        }
        let broken = append(
            "xtask/src/main.rs",
            &format!("const X: &str = \"/{}\";\n", "tmp"),
        );
        assert_one(&broken, "xtask/src/main.rs:3", "absolute path");
        assert_eq!(
            append("docs.md", "a/work/b, ../tmp/x, day/work, $HOME/root/x\n"),
            [""; 0]
        );
    }

    #[test]
    fn files_stay_small() {
        let broken = append("data.csv", &"1\n".repeat(1 << 19));
        assert_one(&broken, "data.csv:1", "1 MiB");
        assert_eq!(append("data.csv", &"1\n".repeat((1 << 19) - 1)), [""; 0]);
    }

    #[test]
    fn models_follow_the_floor_plan() {
        let rooms = [
            "src/config.rs",
            "src/state.rs",
            "src/vb.rs",
            "src/fit.rs",
            "src/error.rs",
            "tests/it/main.rs",
        ];
        for room in rooms {
            let broken = after(&format!("crates/npb-a/{room}"), |_| None);
            assert_one(&broken, "crates/npb-a/Cargo.toml:1", room);
        }
    }

    #[test]
    fn imports_that_go_round_are_found_with_the_way() {
        let mut files = clean();
        for (path, text) in &mut files {
            match path.as_str() {
                "crates/npb-a/src/state.rs" => text.push_str("use crate::fit::Fit;\n"),
                "crates/npb-a/src/fit.rs" => text.push_str("fn f(s: crate::state::State) {}\n"),
                _ => {}
            }
        }
        let project = Project::new(Tree::from_texts(&files)).unwrap();
        let broken: Vec<String> = violations(&project).iter().map(|v| v.to_string()).collect();
        assert_one(
            &broken,
            "crates/npb-a/src/fit.rs:2",
            "fit.rs:2 takes State; state.rs:2 takes Fit",
        );
    }

    #[test]
    fn folders_carry_the_crate_name() {
        let broken = after("xtask/src/main.rs", Some);
        assert_eq!(broken, [""; 0]);
        let broken = after("crates/npb-linalg/Cargo.toml", |text| {
            Some(text.replace("npb-linalg", "npb-data"))
        });
        assert!(
            broken.iter().any(|b| b.contains("another name")),
            "{broken:?}"
        );
    }
}
