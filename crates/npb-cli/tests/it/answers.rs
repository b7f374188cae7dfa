//! Answers of the command are those of the library: the same fit, read from its export, is asked by hand, and each number is the same.

use npb_bpfa::{ImageConfig, restore};
use npb_bsvd::{Acquisition, BsvdFit, Cells};
use npb_data::read::{ReadingRules, with_schema};
use npb_data::schema::{Design, Kind, Role, Schema, SchemaData};
use npb_data::{Image, Labels, Mask, MixedColumn, MixedTable, Rating, Ratings, Table};
use npb_hbrec::{Likes, Recommender};
use npb_infer::VbReport;
use npb_iqgme::{IqgmeFit, MultiTaskFit, Saved};
use npb_itf::{CellSurprisal, ClusteringLoss, DependenceConfig, ItfFit};
use npb_regbayes::{LabelsFit, MedLdaFit};

use crate::fits::{RATINGS, SMALL, TABLE, patients, stars};
use crate::{Folder, cells};

/// A table that the command has written.
struct Answer(Vec<Vec<String>>);

impl Answer {
    fn of(folder: &Folder, question: &str) -> Self {
        Self(cells(&folder.npb(&format!("-q {question}"))))
    }

    fn texts(&self, name: &str) -> Vec<&str> {
        let column = self.0[0].iter().position(|found| found == name);
        let column = column.unwrap_or_else(|| panic!("{name} in {:?}", self.0[0]));
        self.0[1..].iter().map(|row| row[column].as_str()).collect()
    }

    /// Missing cells are NaN.
    fn numbers(&self, name: &str) -> Vec<f64> {
        let number = |text: &str| match text {
            "" => f64::NAN,
            text => text.parse().expect("a number"),
        };
        self.texts(name).into_iter().map(number).collect()
    }

    /// The column has these numbers, to the last bit.
    fn has(&self, name: &str, expected: impl IntoIterator<Item = f64>) {
        let expected: Vec<f64> = expected.into_iter().collect();
        let found = self.numbers(name);
        assert_eq!(found.len(), expected.len(), "{name}");
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let same = found == expected || found.is_nan() && expected.is_nan();
            assert!(same, "{name}, row {row}: {found} for {expected}");
        }
    }

    /// The features as the library has them: levels by name, numbers to the last bit.
    fn has_features(&self, schema: &Schema, features: &MixedTable, rows: std::ops::Range<usize>) {
        let columns = schema.with_role(Role::Feature).zip(features.columns());
        for (feature, column) in columns {
            let texts = self.texts(&feature.name);
            for (i, row) in rows.clone().enumerate() {
                let found = texts[row];
                match column {
                    MixedColumn::Categorical { levels, codes } => {
                        assert_eq!(Some(found), codes[i].map(|c| levels[c as usize].as_str()));
                    }
                    MixedColumn::Binary { levels, values } => {
                        assert_eq!(
                            Some(found),
                            values[i].map(|v| levels[usize::from(v)].as_str())
                        );
                    }
                    column => {
                        assert_eq!(found.parse().ok(), column.number(i));
                    }
                }
            }
        }
    }

    fn has_trace(&self, trace: &[VbReport]) {
        self.has("iteration", trace.iter().map(|r| r.iteration as f64));
        self.has("elbo", trace.iter().map(|r| r.elbo));
        // Before the first iteration there is no bound to compare with.
        let change = |r: &VbReport| Some(r.rel_change).filter(|change| change.is_finite());
        self.has(
            "relative_change",
            trace.iter().map(|r| change(r).unwrap_or(f64::NAN)),
        );
    }
}

/// The library's fit in a model file.
fn fit<F: Saved>(folder: &Folder, model: &str) -> F {
    folder.npb(&format!("export {model} -o fit.bin"));
    let fit = F::load(folder.path("fit.bin"));
    fit.unwrap_or_else(|_| panic!("{model} holds no {}", F::MODEL))
}

/// A file, read by the schema of a model.
fn read(folder: &Folder, model: &str, file: &str) -> SchemaData {
    let schema = Schema::from_toml(&folder.npb(&format!("export {model} --part schema")));
    let text = folder.read(file);
    let data = with_schema(
        file,
        text.as_bytes(),
        &schema.expect("a schema"),
        &ReadingRules::default(),
    );
    data.expect("a table").0
}

fn numbers(data: &SchemaData) -> (Design, Table) {
    let design = Design::new(&data.schema);
    let table = design.table(&data.features).expect("numbers");
    (design, table)
}

fn classifier_of_patients(name: &str, kind: &str) -> (Folder, IqgmeFit, SchemaData) {
    let folder = Folder::new(name);
    folder.write("p.csv", patients(0..60));
    folder.npb(&format!(
        "-q fit {kind} p.csv --id id --seed 2 {SMALL} -o m.npb"
    ));
    let data = read(&folder, "m.npb", "p.csv");
    let fit = fit(&folder, "m.npb");
    (folder, fit, data)
}

#[test]
fn classes_are_those_of_the_library() {
    let (folder, fit, data) = classifier_of_patients("answers-classes", "classifier --label ill");
    let (_, table) = numbers(&data);
    let asked = Answer::of(&folder, "predict m.npb p.csv --interval 0.8");
    // The class is a column that can be asked for, too.
    let of_target = folder.npb("predict m.npb p.csv --target ill --interval 0.8");
    assert_eq!(of_target, folder.npb("predict m.npb p.csv --interval 0.8"));
    folder.write("one.csv", "id,age,marker,town\n1,40,,Oslo\n");
    let of_file = folder.npb("predict m.npb one.csv");
    let given = folder.npb("predict m.npb --target ill --given town=Oslo --given age=40");
    assert_eq!(of_file.replacen("id", "row", 1), given);
    let probabilities = fit.predict_classes(&table).expect("probabilities");
    let intervals = fit.predict_class_intervals(&table, 0.8);
    let intervals = intervals.expect("intervals");
    for (k, class) in fit.classes().iter().enumerate() {
        asked.has(&format!("P({class})"), probabilities.iter().map(|p| p[k]));
        let name = format!("lower({class})");
        asked.has(&name, intervals.iter().map(|row| row[k].lower));
        let name = format!("upper({class})");
        asked.has(&name, intervals.iter().map(|row| row[k].upper));
    }
    for (class, p) in asked.texts("class").iter().zip(&probabilities) {
        let best = usize::from(p[1] > p[0]);
        assert_eq!(*class, fit.classes()[best]);
    }
    let asked = Answer::of(&folder, "score m.npb p.csv");
    asked.has("ln_density", fit.ln_density(&table).expect("densities"));
    let clusters = fit.clusters(&table).expect("clusters");
    asked.has("cluster", clusters.into_iter().map(|k| (k + 1) as f64));
    Answer::of(&folder, "diagnose m.npb").has_trace(fit.trace());
    let asked = Answer::of(&folder, "summary m.npb");
    asked.has("weight", fit.components().iter().map(|c| c.weight));
    asked.has("rows", fit.components().iter().map(|c| c.size));
    let first = fit.model_columns()[0];
    let name = &Design::new(&data.schema).names().concat()[first];
    asked.has(name, fit.components().iter().map(|c| c.mean[0]));
}

#[test]
fn filled_cells_are_those_of_the_library() {
    let (folder, fit, data) = classifier_of_patients("answers-filled", "mixture --ignore ill");
    let (design, table) = numbers(&data);
    let labels = Labels::from_strings(&vec![None::<&str>; data.n_rows]);
    let completed = |numbers: &Table| design.completed(&data.features, numbers).expect("cells");
    for training in [false, true] {
        let option = if training { " --training" } else { "" };
        let (imputed, by_row) = match training {
            true => (
                fit.impute_training(&table, &labels).expect("cells"),
                fit.training_cells(&table, &labels).expect("cells"),
            ),
            false => (
                fit.impute(&table).expect("cells"),
                fit.cells_by_row(&table).expect("cells"),
            ),
        };
        let question = format!("impute m.npb p.csv --sd --interval 0.8{option}");
        let asked = Answer::of(&folder, &question);
        asked.has_features(&data.schema, &completed(&imputed.completed), 0..60);
        // A count: a column of numbers as it is.
        let age = design.names().concat();
        let age = age.iter().position(|name| name == "age").expect("a column");
        let sd = |i: usize| imputed.sd.get(i, age).unwrap_or(f64::NAN);
        let known = |i: usize| imputed.completed.get(i, age).expect("a number");
        let spread = |i: usize| 0.5 * ((known(i) + sd(i)) - (known(i) - sd(i)));
        asked.has("sd(age)", (0..60).map(spread));
        for (name, p) in [
            ("lower(age)", 0.5 - 0.5 * 0.8),
            ("upper(age)", 0.5 + 0.5 * 0.8),
        ] {
            let end = |i: usize| {
                let cell = by_row[i].iter().find(|cell| cell.column == age);
                cell.map_or(known(i), |cell| cell.quantile(p).expect("a number"))
            };
            asked.has(name, (0..60).map(end));
        }
        let question = format!("impute m.npb p.csv --draws 2 --seed 9{option}");
        let asked = Answer::of(&folder, &question);
        let seeded = fit.clone().with_seed(9);
        let drawn = match training {
            true => seeded.impute_training_draws(&table, &labels, 2),
            false => seeded.impute_draws(&table, 2),
        };
        for (draw, numbers) in drawn.expect("tables").iter().enumerate() {
            let rows = 60 * draw..60 * (draw + 1);
            asked.has_features(&data.schema, &completed(numbers), rows);
        }
        let number = |row: usize| (1 + row / 60) as f64;
        asked.has("draw", (0..120).map(number));
    }
}

#[test]
fn classes_of_tasks_are_those_of_the_library() {
    let folder = Folder::new("answers-tasks");
    folder.write("p.csv", patients(0..60));
    folder.npb("-q fit tasks p.csv --task town --label ill --id id --seed 2 --set single.restarts=1 --set single.folds=2 -o m.npb");
    let data = read(&folder, "m.npb", "p.csv");
    let (_, table) = numbers(&data);
    let fit: MultiTaskFit = fit(&folder, "m.npb");
    let asked = Answer::of(&folder, "predict m.npb p.csv --interval 0.8");
    let groups = data.groups.as_ref().expect("tasks");
    // The rows of a task together, and each back to its place.
    let mut expected = vec![[0.0; 3]; 60];
    for task in fit.tasks() {
        let rows: Vec<usize> = (0..60)
            .filter(|&i| groups[i].as_ref() == Some(task))
            .collect();
        assert!(!rows.is_empty());
        let part = table.select_rows(&rows);
        let p = fit.predict_classes(task, &part).expect("probabilities");
        let ends = fit.predict_class_intervals(task, &part, 0.8);
        for ((&row, p), ends) in rows.iter().zip(p).zip(ends.expect("intervals")) {
            expected[row] = [p[1], ends[1].lower, ends[1].upper];
        }
    }
    let class = &fit.classes()[1];
    for (k, what) in ["P", "lower", "upper"].iter().enumerate() {
        asked.has(&format!("{what}({class})"), expected.iter().map(|e| e[k]));
    }
    let alike = fit.similarity();
    let asked = Answer::of(&folder, "summary m.npb");
    for (j, task) in fit.tasks().iter().enumerate() {
        asked.has(task, (0..fit.tasks().len()).map(|i| alike[(i, j)]));
    }
    Answer::of(&folder, "diagnose m.npb").has_trace(fit.trace());
}

#[test]
fn labels_are_those_of_the_library() {
    let folder = Folder::new("answers-labels");
    folder.write("p.csv", patients(0..60));
    let line = |i: usize| format!("{},{},{}\n", i % 2, u8::from(i.is_multiple_of(3)), i % 7);
    folder.write(
        "y.csv",
        "one,two,size\n".to_owned() + &(0..60).map(line).collect::<String>(),
    );
    folder.npb("-q fit labels p.csv --labels y.csv --id id --ignore ill --set latent.limits.max_iterations=20 -o m.npb");
    let fit: LabelsFit = fit(&folder, "m.npb");
    // The schema of the model has the labels too, which the file lacks.
    let mut data = read_features(&folder, "m.npb", "p.csv");
    data.schema
        .columns
        .retain(|column| column.role != Role::Label);
    let (_, inputs) = numbers(&data);
    let scores = fit.predict(&inputs).expect("scores");
    let asked = Answer::of(&folder, "predict m.npb p.csv");
    for (m, name) in ["one", "two"].iter().enumerate() {
        let found = scores.labels(m).expect("labels");
        let is_yes = |text: &&str| *text == "1";
        let texts: Vec<bool> = asked.texts(name).iter().map(is_yes).collect();
        assert_eq!(texts, found);
        let p = scores.probabilities(m).expect("probabilities");
        asked.has(&format!("P({name})"), p);
    }
    asked.has("size", scores.of_task(2));
    let asked = Answer::of(&folder, "summary m.npb");
    let used = fit.features();
    asked.has(
        "expected_use",
        used.iter().map(|feature| feature.expected_use),
    );
    Answer::of(&folder, "diagnose m.npb").has_trace(fit.trace());
}

/// The same as [`read`], where labels of the schema are no columns of the file.
fn read_features(folder: &Folder, model: &str, file: &str) -> SchemaData {
    let schema = Schema::from_toml(&folder.npb(&format!("export {model} --part schema")));
    let mut schema = schema.expect("a schema");
    schema.columns.retain(|column| column.role != Role::Label);
    let text = folder.read(file);
    let data = with_schema(file, text.as_bytes(), &schema, &ReadingRules::default());
    data.expect("a table").0
}

#[test]
fn topics_are_those_of_the_library() {
    let folder = Folder::new("answers-topics");
    let line = |n: usize| {
        let class = ["tea", "sea"][n % 2];
        format!(
            "{class} {}:{} {}:2 4:3\n",
            2 * (n % 2),
            2 + n % 3,
            2 * (n % 2) + 1
        )
    };
    folder.write("d.txt", (0..24).map(line).collect::<String>());
    let values: String = (0..24).map(|n| format!("{}\n", n % 5)).collect();
    folder.write("y.txt", values);
    folder.write("w.txt", "pot\ncup\nwave\nsalt\nthe\n");
    folder.npb("-q fit topics d.txt --words w.txt --set topics=3 -o c.npb");
    folder.npb("-q fit topics d.txt --words w.txt --target y.txt --set topics=3 -o n.npb");
    let text = folder.read("d.txt");
    let bags = npb_data::read::bags_of_words("d.txt", text.as_bytes(), Some(5));
    let counts = bags.expect("documents").counts;
    for model in ["c.npb", "n.npb"] {
        let fit: MedLdaFit = fit(&folder, model);
        let asked = Answer::of(&folder, &format!("predict {model} d.txt"));
        let shares = fit.shares(&counts).expect("shares");
        for k in 0..3 {
            let of_topic = shares.iter().skip(k).step_by(3).copied();
            asked.has(&format!("topic{}", k + 1), of_topic);
        }
        if model == "c.npb" {
            let classes = fit.predict_classes(&counts).expect("classes");
            // In alphabetical order.
            let names = classes.iter().map(|&k| ["sea", "tea"][k as usize]);
            assert!(asked.texts("class").into_iter().eq(names));
        } else {
            asked.has("value", fit.predict(&counts).expect("values"));
        }
        let names = ["pot", "cup", "wave", "salt", "the"];
        let words = |k: usize| {
            let top = fit.top_words(k, 8).expect("words");
            let words: Vec<&str> = top.iter().map(|word| names[word.word]).collect();
            words.join(" ")
        };
        let asked = Answer::of(&folder, &format!("summary {model}"));
        let expected: Vec<String> = (0..3).map(words).collect();
        assert_eq!(asked.texts("words"), expected);
        Answer::of(&folder, &format!("diagnose {model}")).has_trace(fit.trace());
    }
}

/// Scalars of chains.
fn has_diagnostics(
    asked: &Answer,
    expected: &[(String, npb_infer::diagnostics::ChainDiagnostics)],
) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(asked.texts("scalar"), names);
    let all = expected.iter().map(|(_, d)| d);
    asked.has("mean", all.clone().map(|d| d.mean.unwrap_or(f64::NAN)));
    asked.has("sd", all.clone().map(|d| d.sd.unwrap_or(f64::NAN)));
    asked.has("rhat", all.clone().map(|d| d.rhat.unwrap_or(f64::NAN)));
    asked.has(
        "ess_bulk",
        all.clone().map(|d| d.ess_bulk.unwrap_or(f64::NAN)),
    );
    asked.has("ess_tail", all.map(|d| d.ess_tail.unwrap_or(f64::NAN)));
}

#[test]
fn ratings_are_those_of_the_library() {
    let folder = Folder::new("answers-ratings");
    folder.write("r.csv", stars());
    folder.npb(&format!(
        "-q {RATINGS} --chains 2 --set sweeps.burn_in=20 --set sweeps.keep=20 -o m.npb"
    ));
    let fit: BsvdFit = fit(&folder, "m.npb");
    let pairs = [("u3", "f2"), ("u0", "f0"), ("u3", "f14")];
    let lines = pairs.map(|(user, film)| format!("{film},{user}\n"));
    folder.write("ask.csv", "film,user\n".to_owned() + &lines.concat());
    let place = |user: &str, film: &str| {
        (
            fit.row(user).expect("a row"),
            fit.column(film).expect("a column"),
        )
    };
    let asked = Answer::of(&folder, "predict m.npb ask.csv --interval 0.5");
    let posteriors = pairs.map(|(user, film)| {
        let (row, column) = place(user, film);
        fit.cell(row, column).expect("a cell")
    });
    asked.has("mean", posteriors.iter().map(|cell| cell.mean()));
    asked.has("sd", posteriors.iter().map(|cell| cell.sd()));
    asked.has(
        "predictive_sd",
        posteriors.iter().map(|c| c.predictive_sd()),
    );
    let ends = posteriors
        .iter()
        .map(|cell| cell.interval(0.5).expect("ends"));
    asked.has("lower", ends.clone().map(|ends| ends.lower));
    asked.has("upper", ends.map(|ends| ends.upper));
    let ends = posteriors
        .iter()
        .map(|cell| cell.predictive_interval(0.5).expect("ends"));
    asked.has("predictive_lower", ends.clone().map(|ends| ends.lower));
    asked.has("predictive_upper", ends.map(|ends| ends.upper));
    lists_of_ratings(&folder, &fit);
    let asked = Answer::of(&folder, "summary m.npb");
    let ranks = fit.rank_distribution().expect("ranks");
    asked.has("probability", ranks.iter().copied().filter(|p| *p > 0.0));
    let first = ranks.iter().position(|p| *p > 0.0).expect("a rank");
    assert_eq!(asked.numbers("rank")[0], first as f64);
    has_diagnostics(&Answer::of(&folder, "diagnose m.npb"), &fit.diagnostics());
}

/// Lists for a row, and cells to ask next.
fn lists_of_ratings(folder: &Folder, fit: &BsvdFit) {
    let row = fit.row("u1").expect("a row");
    // Film k is rated by user 1 unless 3 + k is a multiple of 4.
    let rated: Vec<u32> = fit.observed().nth(row).expect("a row").to_vec();
    assert_eq!(rated.len(), 11);
    let asked = Answer::of(folder, "recommend m.npb --row u1 --top 3 --liked 4");
    let best = fit
        .recommend(row, 3, Some(4.0), Some(&rated))
        .expect("a list");
    let names: Vec<Option<&str>> = best.iter().map(|b| b.name.as_deref()).collect();
    let found: Vec<Option<&str>> = asked.texts("film").into_iter().map(Some).collect();
    assert_eq!(found, names);
    asked.has("P(rated)", best.iter().map(|b| b.exposure));
    asked.has("P(like)", best.iter().map(|b| b.liked));
    let asked = Answer::of(folder, "recommend m.npb --row u1 --top 3 --by mean");
    let best = fit.top(row, 3, &rated).expect("a list");
    asked.has("mean", best.iter().map(|b| b.mean));
    asked.has("P(in top)", best.iter().map(|b| b.in_top));
    let asked = Answer::of(folder, "recommend m.npb --row u1 --top 20 --by P(>=4)");
    let open = (0..fit.n_cols()).filter(|j| !rated.contains(&(*j as u32)));
    let chance = |j: usize| 1.0 - fit.cell(row, j).expect("a cell").cdf(4.0 - 1e-9);
    let mut chances: Vec<f64> = open.map(chance).collect();
    chances.sort_by(|a, b| b.total_cmp(a));
    asked.has("P(>=4)", chances);
    let asked = Answer::of(folder, "next m.npb -n 3 --exclude r.csv");
    let mut known: Vec<Rating> = Vec::new();
    for line in stars().lines().skip(1) {
        let parts: Vec<&str> = line.split(',').collect();
        known.push(Rating {
            row: fit.row(parts[0]).expect("a row") as u32,
            column: fit.column(parts[1]).expect("a column") as u32,
            value: parts[2].parse().expect("a number"),
        });
    }
    let known = Ratings::new(fit.n_rows(), fit.n_cols(), &known).expect("ratings");
    let open = Cells::unobserved(&known, 20_000, 0);
    let wanted = fit.next_cells(&open, 3, Acquisition::Uncorrelated);
    let wanted = wanted.expect("cells");
    asked.has("sd", wanted.iter().map(|cell| cell.sd));
    asked.has("remaining_sd", wanted.iter().map(|cell| cell.remaining_sd));
    let users = wanted
        .iter()
        .map(|cell| &fit.row_names()[cell.row as usize]);
    assert!(asked.texts("user").into_iter().eq(users));
}

#[test]
fn lists_of_groups_are_those_of_the_library() {
    let folder = Folder::new("answers-groups");
    folder.write("r.csv", stars());
    folder.npb("-q fit groups r.csv --group user --item film --value stars --liked 4 -o m.npb");
    let fit: Recommender = fit(&folder, "m.npb");
    let names = Answer::of(&folder, "summary m.npb");
    let names = names.texts("film");
    assert_eq!(names.len(), fit.n_items());
    let item = |name: &str| {
        names
            .iter()
            .position(|found| *found == name)
            .expect("an item")
    };
    folder.write("mine.csv", "user,film,stars\nme,f3,5\nme,f1,4\nme,f2,3\n");
    // 4 is a like, too.
    let likes = [("f3", true), ("f1", true), ("f2", false)];
    let likes = likes.map(|(name, liked)| (item(name) as u32, liked));
    let profile = Likes::new(fit.n_items(), &likes).expect("likes");
    let profile = fit.profile(&profile).expect("a profile");
    for (by, best) in [
        ("choice", fit.top(&profile, 5)),
        ("P(like)", fit.top_liked(&profile, 5)),
    ] {
        let question = format!("recommend m.npb --row me --exclude mine.csv --top 5 --by {by}");
        let (asked, best) = (Answer::of(&folder, &question), best.expect("a list"));
        asked.has("P(like)", best.iter().map(|best| best.chance.probability));
        let films = best.iter().map(|best| names[best.item]);
        assert!(asked.texts("film").into_iter().eq(films), "{by}");
    }
}

#[test]
fn tables_are_those_of_the_library() {
    let folder = Folder::new("answers-table");
    folder.write("p.csv", patients(0..60));
    folder.npb(&format!("-q fit table p.csv --id id {TABLE} -o m.npb"));
    let fit: ItfFit = fit(&folder, "m.npb");
    let data = read(&folder, "m.npb", "p.csv");
    for training in [false, true] {
        let option = if training { " --training" } else { "" };
        let asked = Answer::of(&folder, &format!("impute m.npb p.csv{option}"));
        let filled = fit.impute_fields(&data.features, &data.fields, 0.9, training);
        asked.has_features(&data.schema, &filled.expect("cells").completed, 0..60);
        let asked = Answer::of(&folder, &format!("impute m.npb p.csv --draws 2{option}"));
        let drawn = fit.impute_field_draws(&data.features, &data.fields, 2, training);
        for (draw, table) in drawn.expect("tables").iter().enumerate() {
            asked.has_features(&data.schema, table, 60 * draw..60 * (draw + 1));
        }
    }
    // As many rows as at the fit: they are taken for those.
    let rows = fit
        .field_rows(&data.features, &data.fields, true)
        .expect("rows");
    let config = DependenceConfig {
        level: 0.2,
        ..DependenceConfig::default()
    };
    let found = fit.dependence(&rows, &config).expect("pairs");
    let asked = Answer::of(&folder, "dependence m.npb p.csv --level 0.2");
    let mut pairs: Vec<_> = found.pairs().iter().collect();
    pairs.sort_by(|x, y| y.information.mean.total_cmp(&x.information.mean));
    asked.has("information", pairs.iter().map(|p| p.information.mean));
    let information = |pair: &str| {
        let of = |names: (&str, &str)| names.0 == pair || names.1 == pair;
        let (a, b) = (asked.texts("a"), asked.texts("b"));
        a.into_iter().zip(b).filter(|names| of(*names)).count()
    };
    assert_eq!(information("marker"), 3);
    asked.has("p_value", pairs.iter().map(|p| p.p_value));
    asked.has("adjusted_p_value", pairs.iter().map(|p| p.adjusted_p_value));
    asked.has("same_block", pairs.iter().map(|p| p.same_block));
    asked.has("rows", pairs.iter().map(|p| p.n_rows as f64));
    asked.has("lower", pairs.iter().map(|p| p.information.quantiles[0]));
    asked.has("upper", pairs.iter().map(|p| p.information.quantiles[2]));
    let verdicts = pairs.iter().map(|p| if p.dependent { "yes" } else { "no" });
    assert!(asked.texts("dependent").into_iter().eq(verdicts));
    let given = DependenceConfig {
        given: vec!["ill".to_owned()],
        ..config
    };
    let found = fit.dependence(&rows, &given).expect("pairs");
    let asked = Answer::of(&folder, "dependence m.npb p.csv --level 0.2 --given ill");
    let mut means: Vec<f64> = found.pairs().iter().map(|p| p.information.mean).collect();
    means.sort_by(|a, b| b.total_cmp(a));
    asked.has("information", means);
    let asked = Answer::of(&folder, "summary m.npb");
    let places = fit.places();
    let share = |k: usize| {
        let draws = fit.draws().iter();
        let same = |d: &&npb_itf::Draw| {
            d.columns[places[k].column].block == d.columns[places[0].column].block
        };
        draws.filter(same).count() as f64 / fit.draws().len() as f64
    };
    asked.has("same_block_as_first", (0..places.len()).map(share));
    has_diagnostics(&Answer::of(&folder, "diagnose m.npb"), &fit.diagnostics());
}

/// What columns are given others, which cells are odd, and rows that are made up.
#[test]
fn cells_of_tables_are_those_of_the_library() {
    let folder = Folder::new("answers-cells");
    folder.write("p.csv", patients(0..60));
    folder.npb(&format!("-q fit table p.csv --id id {TABLE} -o m.npb"));
    let fit: ItfFit = fit(&folder, "m.npb");
    let data = read(&folder, "m.npb", "p.csv");
    let rows = |training| {
        fit.field_rows(&data.features, &data.fields, training)
            .expect("rows")
    };
    let asked = Answer::of(&folder, "score m.npb p.csv --chunk-rows 7");
    let densities = fit.ln_density(&rows(false)).expect("densities");
    asked.has("ln_density", densities.iter().copied());
    assert_eq!(asked.texts("id")[3], "p3");
    for training in [false, true] {
        let option = if training {
            " --training"
        } else {
            " --chunk-rows 7"
        };
        let asked = Answer::of(
            &folder,
            &format!("score m.npb p.csv --cells{option} --top 50"),
        );
        let usual = fit.usual_surprisals(&rows(training)).expect("usual");
        let asked_together = fit.surprisals_and_densities(&rows(training));
        let (mut cells, densities) = asked_together.expect("cells");
        let excess = |cell: &CellSurprisal| cell.surprisal - usual[cell.column];
        cells.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
        cells.truncate(50);
        asked.has("surprisal", cells.iter().map(|cell| cell.surprisal));
        asked.has("excess", cells.iter().map(excess));
        asked.has("ln_density", cells.iter().map(|cell| densities[cell.row]));
        let given = Answer(super::cells(&folder.read("p.csv")));
        let of = |(k, cell): (usize, &CellSurprisal)| {
            let name = &fit.columns()[cell.column].name;
            assert_eq!(asked.texts("column")[k], name);
            assert_eq!(asked.texts("id")[k], format!("p{}", cell.row));
            assert_eq!(asked.texts("value")[k], given.texts(name)[cell.row]);
        };
        cells.iter().enumerate().for_each(of);
    }
    let asked = Answer::of(
        &folder,
        "predict m.npb p.csv --target marker --target town --interval 0.8 --chunk-rows 7",
    );
    let targets = ["marker", "town"];
    let cells = fit
        .predict_columns(&data.features, &data.fields, &targets, 0.8)
        .expect("cells");
    let of = |name| {
        let j = fit.column_index(name).expect("a column");
        cells.iter().filter(move |cell| cell.column == j)
    };
    asked.has("marker", of("marker").map(|cell| cell.expected[0]));
    asked.has("lower(marker)", of("marker").map(|cell| cell.lower[0]));
    asked.has("upper(marker)", of("marker").map(|cell| cell.upper[0]));
    for name in targets {
        let epistemic = of(name).map(|cell| cell.epistemic[0]);
        asked.has(&format!("epistemic({name})"), epistemic);
    }
    let levels = &fit.columns()[fit.column_index("town").expect("town")].levels;
    for (k, level) in levels.iter().enumerate() {
        asked.has(
            &format!("P(town={level})"),
            of("town").map(|cell| cell.expected[k]),
        );
    }
    for (cell, town) in of("town").zip(asked.texts("town")) {
        let most = cell.expected.iter().copied().fold(0.0, f64::max);
        let k = levels
            .iter()
            .position(|level| level == town)
            .expect("a level");
        assert_eq!(cell.expected[k], most);
    }
    // One question is one row.
    folder.write("one.csv", "id,age,marker,town,ill\n1,,,Oslo,yes\n");
    let of_file = folder.npb("-q predict m.npb one.csv --target age");
    let given = folder.npb("-q predict m.npb --target age --given ill=yes --given town=Oslo");
    assert_eq!(of_file.replacen("id", "row", 1), given);
    // What is asked for need not be in the file, all else must.
    folder.write("less.csv", "id,marker,town,ill\n1,,Oslo,yes\n");
    assert_eq!(folder.npb("predict m.npb less.csv --target age"), of_file);
    let words = crate::said(&folder, "predict m.npb less.csv --target age");
    assert!(!words.contains("age"), "{words}");
    let error = folder.fails("predict m.npb less.csv --target town", 3);
    assert!(error.contains("there is no column \"age\""), "{error}");
    // Draws are not compared where one of them has all weight.
    let far = Answer::of(&folder, "predict m.npb --target age --given marker=1e12");
    assert_eq!(far.texts("epistemic(age)"), [""]);
    let data = read(&folder, "m.npb", "one.csv");
    for n in [3, 5000] {
        let asked = Answer::of(
            &folder,
            &format!("simulate m.npb -n {n} --given ill=yes --given town=Oslo"),
        );
        let made = fit
            .simulate(&data.features, &data.fields, 0..n)
            .expect("rows");
        asked.has_features(&data.schema, &made, 0..n);
        asked.has("row", (1..=n).map(|k| k as f64));
        assert!(asked.texts("town").iter().all(|town| *town == "Oslo"));
    }
    let asked = Answer::of(
        &folder,
        "similar m.npb p.csv --row p3 --column town --column age --top 60",
    );
    let alike = fit.similar_rows(&["town", "age"], 3).expect("rows");
    let similarity = asked.numbers("similarity");
    for (id, found) in asked.texts("id").into_iter().zip(&similarity) {
        let row: usize = id[1..].parse().expect("a number");
        assert!(id != "p3" && alike[row] == *found, "{id}");
    }
    assert!(similarity.len() == 59 && similarity.is_sorted_by(|a, b| a >= b));
    let given = Answer(super::cells(&folder.read("p.csv")));
    let row: usize = asked.texts("id")[0][1..].parse().expect("a number");
    assert_eq!(asked.texts("town")[0], given.texts("town")[row]);
    let loss = ClusteringLoss::VariationOfInformation;
    let point = fit.point_clustering("ill", loss).expect("clusters");
    let name = Answer::of(&folder, "clusters m.npb p.csv --column ill --rows");
    let named = name.0[0][1].clone();
    assert!(named.split(" + ").any(|column| column == "ill"));
    name.has(&named, point.labels.iter().map(|&k| f64::from(k) + 1.0));
    let asked = Answer::of(&folder, "clusters m.npb p.csv --column ill --top 1");
    asked.has("size", point.sizes.iter().map(|&n| n as f64));
    assert!(asked.texts("clustering").iter().all(|name| *name == named));
    let all = Answer::of(&folder, "clusters m.npb p.csv --rows");
    assert!(all.0[0].len() > 1 && all.0.len() == 61);
    assert_ne!(
        folder.npb("simulate m.npb -n 9"),
        folder.npb("simulate m.npb -n 9 --seed 77")
    );
}

/// The same of a model of numbers: what is hidden is filled, and a cell is as odd as its density given the others is low.
#[test]
fn cells_of_mixtures_are_those_of_the_library() {
    let (folder, fit, data) =
        classifier_of_patients("answers-cells-numbers", "classifier --label ill");
    let (design, table) = numbers(&data);
    let names = design.names().concat();
    let without = |feature: &str| {
        let is_in = |name: &String| name == feature || name.starts_with(&format!("{feature}="));
        let mask = Mask::from_fn(table.n_rows(), table.n_cols(), |_, j| is_in(&names[j]));
        table.hide(&mask.expect("a mask")).expect("fewer cells")
    };
    let hidden = without("marker");
    let at = names
        .iter()
        .position(|name| name == "marker")
        .expect("marker");
    let asked = Answer::of(
        &folder,
        "predict m.npb p.csv --target marker --interval 0.8 --chunk-rows 7",
    );
    let filled = fit.impute(&hidden).expect("filled").completed;
    asked.has(
        "marker",
        (0..60).map(|i| filled.get(i, at).expect("a number")),
    );
    let cells = fit.cells_by_row(&hidden).expect("cells");
    let cell = |row: &Vec<npb_iqgme::MissingCell>| {
        row.iter().find(|c| c.column == at).expect("marker").clone()
    };
    asked.has(
        "lower(marker)",
        cells
            .iter()
            .map(|row| cell(row).quantile(0.5 - 0.5 * 0.8).expect("a level")),
    );
    folder.write("one.csv", "id,age,marker,town,ill\n1,40,,Oslo,\n");
    let of_file = folder.npb("-q predict m.npb one.csv --target marker");
    let given = folder.npb("-q predict m.npb --target marker --given town=Oslo --given age=40");
    assert_eq!(of_file.replacen("id", "row", 1), given);
    let asked = Answer::of(&folder, "score m.npb p.csv --cells --chunk-rows 7");
    let all = fit.ln_density(&table).expect("densities");
    let known = (0..60).map(|i| (0..3).filter(|&k| data.features.is_observed(i, k)).count());
    assert_eq!(asked.0.len() - 1, known.sum::<usize>());
    for feature in ["age", "marker", "town"] {
        let rest = fit.ln_density(&without(feature)).expect("densities");
        let rows = asked
            .texts("id")
            .into_iter()
            .zip(asked.texts("column"))
            .zip(asked.numbers("surprisal"));
        for ((id, _), found) in rows.filter(|((_, column), _)| *column == feature) {
            let row: usize = id[1..].parse().expect("a number");
            assert_eq!(found, rest[row] - all[row], "{feature} of {id}");
        }
    }
    let excess = asked.numbers("excess");
    assert!(excess.is_sorted_by(|a, b| a >= b));
    let made = Answer::of(&folder, "simulate m.npb -n 500 --given town=Oslo");
    assert!(made.texts("town").iter().all(|town| *town == "Oslo"));
    let markers = made.numbers("marker");
    let mean = markers.iter().sum::<f64>() / 500.0;
    assert!((1.5..3.5).contains(&mean), "{mean}");
}

#[test]
fn images_are_those_of_the_library() {
    let folder = Folder::new("answers-images");
    let noisy = |x: u32, y: u32| (90 + 70 * ((x / 4 + y / 6) % 2) + (x * 31 + y * 17) % 41) as u8;
    let image = image::GrayImage::from_fn(20, 16, |x, y| image::Luma([noisy(x, y)]));
    image.save(folder.path("in.png")).expect("a file");
    let hole = |x: u32, y: u32| (x * 7 + y * 5).is_multiple_of(4);
    image::GrayImage::from_fn(20, 16, |x, y| {
        image::Luma([if hole(x, y) { 255 } else { 0 }])
    })
    .save(folder.path("holes.png"))
    .expect("a file");
    let settings = "--seed 5 --set patch=[4,4] --set model.atoms=8 --set model.sweeps.burn_in=10 --set model.sweeps.keep=10";
    folder.npb(&format!(
        "-q denoise in.png -o clean.png --sd sd.npy {settings}"
    ));
    folder.npb(&format!(
        "-q inpaint in.png --mask holes.png -o full.png {settings}"
    ));
    let values: Vec<f32> = image.pixels().map(|pixel| f32::from(pixel.0[0])).collect();
    let whole = Image::new(16, 20, 1, values.clone()).expect("an image");
    let config = |image: &Image| {
        let mut config = ImageConfig::suited_to(image);
        (config.patch, config.model.seed, config.model.atoms) = ([4, 4], 5, 8);
        (config.model.sweeps.burn_in, config.model.sweeps.keep) = (10, 10);
        config
    };
    let read = |name: &str| {
        let found = image::open(folder.path(name)).expect("an image").to_luma8();
        found.into_raw()
    };
    let grey = |value: &f32| value.round().clamp(0.0, 255.0) as u8;
    let restored = restore(&whole, &config(&whole)).expect("an image");
    let expected = restored.image().expect("an image");
    let expected: Vec<u8> = expected.values().iter().map(grey).collect();
    assert_eq!(read("clean.png"), expected);
    let sd = std::fs::read(folder.path("sd.npy")).expect("a file");
    let expected = restored.sd().iter().flat_map(|sd| sd.to_le_bytes());
    assert!(sd[128..].iter().copied().eq(expected));
    let seen = |at: usize| match hole(at as u32 % 20, at as u32 / 20) {
        true => f32::NAN,
        false => values[at],
    };
    let seen: Vec<f32> = (0..320).map(seen).collect();
    let holed = Image::from_nan_coded(16, 20, 1, &seen).expect("an image");
    let restored = restore(&holed, &config(&holed)).expect("an image");
    let restored = restored.image().expect("an image");
    let filled = seen.iter().zip(restored.values());
    // What is known stays.
    let expected: Vec<u8> = filled
        .map(|(seen, filled)| grey(if seen.is_nan() { filled } else { seen }))
        .collect();
    assert_eq!(read("full.png"), expected);
}

/// A schema whose right columns can be said by looking, and settings that are the defaults of the library but for what is set.
#[test]
fn schemas_and_settings_are_what_they_should_be() {
    let folder = Folder::new("answers-schema");
    let line = |i: usize| {
        let town = ["Oslo", "Bergen", "Hamar"][i % 3];
        format!(
            "A{i},{},{}.5,{town},{}\n",
            i % 7,
            i * 37 % 101,
            ["no", "yes"][i % 2]
        )
    };
    let lines: String = (0..60).map(line).collect();
    folder.write("f.csv", "name,visits,size,town,ill\n".to_owned() + &lines);
    let schema = folder.npb("schema f.csv --label ill --id name");
    let schema = Schema::from_toml(&schema).expect("a schema");
    let found: Vec<(Kind, Role)> = schema.columns.iter().map(|c| (c.kind, c.role)).collect();
    let expected = [
        (Kind::Identifier, Role::RowId),
        (Kind::Count, Role::Feature),
        (Kind::Real, Role::Feature),
        (Kind::Categorical, Role::Feature),
        (Kind::Binary, Role::Label),
    ];
    assert_eq!(found, expected);
    let default = npb_bsvd::BsvdConfig::default();
    let config = |set: &str| -> npb_bsvd::BsvdConfig {
        toml::from_str(&folder.npb(&format!("config ratings {set}"))).expect("settings")
    };
    assert_eq!(config(""), default);
    let changed = npb_bsvd::BsvdConfig {
        chains: 7,
        seed: 11,
        ..default
    };
    assert_eq!(config("--set chains=7 --seed 11"), changed);
}
