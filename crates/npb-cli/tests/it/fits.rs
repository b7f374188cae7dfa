//! Fits and questions to them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use npb_data::read::{DelimitedOptions, ReadingRules, with_schema};
use npb_data::schema::{Design, Role, Schema};
use npb_iqgme::{IqgmeConfig, IqgmeFit, Saved};

use crate::{Folder, cells, errors};

/// Patients of two kinds with holes; towns say something, too.
pub(crate) fn patients(rows: std::ops::Range<usize>) -> String {
    let mut text = String::from("id,age,marker,town,ill\n");
    for i in rows {
        let ill = i % 2 == 1;
        let noise = (i * 7 % 11) as f64 / 11.0;
        let age = if i % 9 == 4 {
            String::new()
        } else {
            format!("{}", 30 + 20 * usize::from(ill) + i * 5 % 13)
        };
        let marker = if i % 7 == 3 {
            "NA".to_owned()
        } else {
            format!("{:.2}", 1.0 + noise + 2.0 * f64::from(u8::from(ill)))
        };
        let town = ["Oslo", "Bergen", "Hamar"][(i / 2 + usize::from(ill)) % 3];
        let label = if i % 10 == 8 {
            ""
        } else if ill {
            "yes"
        } else {
            "no"
        };
        text += &format!("p{i},{age},{marker},{town},{label}\n");
    }
    text
}

pub(crate) const SMALL: &str = "--set restarts=1 --set folds=2";

pub(crate) fn classifier(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("patients.csv", patients(0..80));
    folder.npb(&format!(
        "fit classifier patients.csv --label ill --id id --seed 1 {SMALL} -o p.npb"
    ));
    folder
}

#[test]
fn a_new_file_is_predicted_whatever_it_looks_like() {
    let folder = classifier("predict");
    let all: Vec<Vec<String>> = cells(&folder.npb("predict p.npb patients.csv"));
    assert_eq!(all[0], ["id", "class", "P(no)", "P(yes)"]);
    let right = (0..80)
        .filter(|&i| all[i + 1][1] == ["no", "yes"][i % 2])
        .count();
    assert!(right > 72, "{right} of 80");
    assert_eq!(all[3][0], "p2");
    // Fewer levels, another order, a column more, no label.
    folder.write(
        "new.csv",
        "town,note,marker,age,id\nOslo,x,3.1,\"55\",a\nOslo,y,,33,b\n",
    );
    let new = cells(&folder.npb("predict p.npb new.csv --interval 0.9"));
    assert_eq!(
        new[0],
        [
            "id",
            "class",
            "P(no)",
            "lower(no)",
            "upper(no)",
            "P(yes)",
            "lower(yes)",
            "upper(yes)"
        ]
    );
    assert_eq!((new[1][1].as_str(), new[2][1].as_str()), ("yes", "no"));
    let number = |i: usize, j: usize| new[i][j].parse::<f64>().expect("a number");
    assert!(number(1, 6) <= number(1, 5) && number(1, 5) <= number(1, 7));
    // The same rows in another order of columns, other columns beside them, give the same bits.
    let shuffled: String = patients(0..80)
        .lines()
        .map(|line| {
            let c: Vec<&str> = line.split(',').collect();
            format!("{},{},z,{},{}\n", c[3], c[2], c[0], c[1])
        })
        .collect();
    folder.write("shuffled.csv", shuffled.replacen("z", "extra", 1));
    assert_eq!(cells(&folder.npb("predict p.npb shuffled.csv")), all);
}

#[test]
fn what_does_not_fit_is_named_with_the_option_that_helps() {
    let folder = classifier("misfits");
    folder.write("unseen.csv", "id,age,marker,town\na,50,2.5,Rome\n");
    let output = folder.run("predict p.npb unseen.csv");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        errors(&output).contains("\"Rome\" is no level of the schema, read as missing"),
        "{}",
        errors(&output)
    );
    let error = folder.fails("predict p.npb unseen.csv --unseen-levels error", 3);
    assert!(
        error.starts_with("npb: unseen.csv:2: column 4 (\"town\"): \"Rome\" is not one of"),
        "{error}"
    );
    assert!(error.contains("--unseen-levels"), "{error}");
    folder.write("absent.csv", "id,age,town\na,50,Oslo\n");
    let error = folder.fails("predict p.npb absent.csv", 3);
    assert!(
        error.contains("absent.csv: there is no column \"marker\"")
            && error.contains("--missing-columns"),
        "{error}"
    );
    assert_eq!(
        cells(&folder.npb("predict p.npb absent.csv --missing-columns missing")).len(),
        2
    );
    folder.write("comma.csv", "id;age;marker;town\na;50;2,5;Oslo\n");
    let asked = folder.npb("predict p.npb comma.csv --separator ; --decimal ,");
    assert_eq!(cells(&asked).len(), 2);
    assert_eq!(folder.npb("predict p.npb comma.csv"), asked);
    // With a point asked for the marker is no number; its kind was guessed, so that it is missing.
    let output = folder.run("predict p.npb comma.csv --decimal .");
    let said = crate::errors(&output);
    assert!(
        said.contains("\"2,5\" is not what the schema says it holds"),
        "{said}"
    );
    let error = folder.fails("recommend p.npb --row a", 2);
    assert!(
        error.contains("kind classifier") && error.contains("ratings"),
        "{error}"
    );
}

#[test]
fn a_fit_of_the_command_line_is_one_of_the_library() {
    let folder = classifier("library");
    folder.npb("export p.npb -o fit.bin");
    let fit = IqgmeFit::load(folder.path("fit.bin")).expect("a fit of the library");
    let schema = Schema::from_toml(&folder.npb("export p.npb --part schema")).expect("a schema");
    let config: IqgmeConfig =
        toml::from_str(&folder.npb("export p.npb --part config")).expect("a configuration");
    assert_eq!((config.seed, config.restarts), (1, 1));
    let read = |schema: &Schema| {
        with_schema(
            "patients.csv",
            patients(0..80).as_bytes(),
            schema,
            &ReadingRules::default(),
        )
        .expect("valid")
        .0
    };
    let data = read(&schema);
    let table = Design::new(&data.schema)
        .table(&data.features)
        .expect("numbers");
    let by_hand =
        npb_iqgme::fit(&table, &data.labels.labels(0).expect("labels"), &config).expect("a fit");
    assert_eq!(
        by_hand.to_bytes().expect("bytes"),
        fit.to_bytes().expect("bytes"),
        "the same bits"
    );
    let probabilities = fit.predict_classes(&table).expect("probabilities");
    let written = cells(&folder.npb("predict p.npb patients.csv"));
    for (row, written) in probabilities.iter().zip(&written[1..]) {
        assert_eq!(written[3].parse::<f64>().expect("a number"), row[1]);
    }
    // The schema by hand is the one in the file.
    let guess = Schema::guess(
        "patients.csv",
        patients(0..80).as_bytes(),
        &DelimitedOptions::default(),
    );
    let mut guessed = guess.expect("valid").schema;
    guessed.set_role("ill", Role::Label).expect("a column");
    guessed.set_role("id", Role::RowId).expect("a column");
    assert_eq!(read(&guessed).schema, schema);
}

#[test]
fn a_schema_edited_by_hand_decides() {
    let folder = Folder::new("schema");
    folder.write("patients.csv", patients(0..60));
    let schema = folder.npb("schema patients.csv --label ill --id id");
    assert!(
        schema.contains("kind = \"identifier\", role = \"row_id\"") && schema.contains("# "),
        "{schema}"
    );
    folder.write(
        "s.toml",
        schema.replace(
            "name = \"age\", kind = \"count\"",
            "name = \"age\", kind = \"count\", role = \"ignored\"",
        ),
    );
    folder.npb(&format!(
        "fit classifier patients.csv --schema s.toml {SMALL} -o p.npb"
    ));
    folder.write("ageless.csv", "marker,town\n1.2,Oslo\n");
    assert_eq!(cells(&folder.npb("predict p.npb ageless.csv")).len(), 2);
    folder.write(
        "s.toml",
        schema.replace("kind = \"count\"", "kind = \"size\""),
    );
    let error = folder.fails("fit mixture patients.csv --schema s.toml -o q.npb", 3);
    assert!(
        error.contains("s.toml") && error.contains("size"),
        "{error}"
    );
    assert!(!folder.exists("q.npb"));
}

#[test]
fn mixtures_score_and_fill() {
    let folder = Folder::new("mixture");
    folder.write("p.csv", patients(0..80));
    folder.npb(&format!(
        "fit mixture p.csv --id id --ignore ill {SMALL} -o m.npb"
    ));
    folder.write(
        "odd.csv",
        "id,age,marker,town\nusual,33,1.5,Oslo\nodd,33,40,Oslo\n",
    );
    let scores = cells(&folder.npb("score m.npb odd.csv"));
    let density = |i: usize| scores[i][1].parse::<f64>().expect("a number");
    assert!(density(1) > density(2) + 5.0, "{scores:?}");
    folder.write("holes.csv", "id,age,marker,town\na,,3.2,\nb,32,,Oslo\n");
    let filled = cells(&folder.npb("impute m.npb holes.csv"));
    assert_eq!(filled[0], ["id", "age", "marker", "town"]);
    assert!(
        filled[1]
            .iter()
            .chain(&filled[2])
            .all(|cell| !cell.is_empty()),
        "{filled:?}"
    );
    assert_eq!(
        (filled[1][2].as_str(), filled[2][1].as_str()),
        ("3.2", "32"),
        "what is observed stays"
    );
    let drawn = cells(&folder.npb("impute m.npb holes.csv --draws 3"));
    assert_eq!(
        (drawn.len(), drawn[0][1].as_str(), drawn[6][1].as_str()),
        (7, "draw", "3")
    );
    let seeded = |seed: u64| folder.npb(&format!("impute m.npb holes.csv --draws 3 --seed {seed}"));
    assert!(seeded(8) == seeded(8) && seeded(8) != seeded(9));
    let spread = cells(&folder.npb("impute m.npb holes.csv --sd --interval 0.8"));
    let column = |name: &str| {
        let named = |found: &String| found == name;
        spread[0].iter().position(named).expect("a column")
    };
    let number = |row: usize, name: &str| {
        let cell = &spread[row][column(name)];
        cell.parse::<f64>().expect("a number")
    };
    let of_age = ["age", "sd(age)", "lower(age)", "upper(age)"];
    let [age, sd, lower, upper] = of_age.map(|name| number(1, name));
    assert!(sd > 0.0 && lower < age && age < upper, "{spread:?}");
    assert!((1.0..4.0).contains(&((upper - lower) / sd)), "{spread:?}");
    let known = ["age", "sd(age)", "lower(age)", "upper(age)"].map(|name| number(2, name));
    assert_eq!(known, [32.0, 0.0, 32.0, 32.0]);
    for refused in [
        "--sd --draws 2",
        "--interval 0.9 --draws 2",
        "--interval 1.5",
    ] {
        folder.fails(&format!("impute m.npb holes.csv {refused}"), 2);
    }
    assert!(
        folder
            .npb("summary m.npb --format table")
            .contains("weight")
    );
    let json: serde_json::Value =
        serde_json::from_str(&folder.npb("diagnose m.npb --format json")).expect("json");
    assert!(
        json.as_array()
            .is_some_and(|rows| rows.len() > 1 && rows[0]["elbo"].is_number())
    );
}

pub(crate) const TABLE: &str =
    "--set chains=1 --set sweeps.burn_in=60 --set sweeps.keep=20 --set sweeps.thin=1";

#[test]
fn tables_say_what_depends_on_what() {
    let folder = Folder::new("table");
    folder.write("p.csv", patients(0..90));
    folder.npb(&format!("fit table p.csv --id id {TABLE} -o t.npb"));
    let pairs = cells(&folder.npb("dependence t.npb p.csv --plot d.svg"));
    assert_eq!((pairs.len(), pairs[0][0].as_str()), (7, "a"));
    let of = |a: &str, b: &str| {
        pairs
            .iter()
            .find(|p| (p[0] == a && p[1] == b) || (p[0] == b && p[1] == a))
            .expect("a pair")
    };
    assert_eq!(pairs[0][9..], ["least_p_value", "dependent"]);
    let ill = of("marker", "ill");
    assert_eq!(ill[9..], ["0.001", "yes"], "{pairs:?}");
    assert_eq!(ill[7], ill[9], "no permutation comes near: {pairs:?}");
    assert!(
        folder
            .read("d.svg")
            .contains("p &lt;= 0.001 (999 permutations)")
    );
    // A p-value goes as low as permutations allow.
    let more = cells(&folder.npb("dependence t.npb p.csv --permutations 4999"));
    assert!(more.iter().any(|pair| pair[7] == "0.0002"), "{more:?}");
    assert!(folder.read("d.svg").trim_end().ends_with("</svg>"));
    let filled = cells(&folder.npb("impute t.npb p.csv --training"));
    assert!(filled.iter().flatten().all(|cell| !cell.is_empty()));
    // Deviations and intervals beside what is filled; what is known is itself.
    let spread = cells(&folder.npb("impute t.npb p.csv --training --sd --interval 0.8"));
    assert_eq!(spread[0][..filled[0].len()], filled[0]);
    let column = |name: &str| spread[0].iter().position(|found| found == name);
    let place = |name: &str| column(name).expect("a column");
    let given = cells(&folder.read("p.csv"));
    let at = given[0]
        .iter()
        .position(|name| name == "marker")
        .expect("marker");
    let mut n_filled = 0;
    for (row, given) in spread.iter().zip(&given).skip(1) {
        let number = |name: &str| row[place(name)].parse::<f64>().expect("a number");
        let of_marker = ["marker", "sd(marker)", "lower(marker)", "upper(marker)"];
        let [x, sd, lower, upper] = of_marker.map(number);
        // Marks of missingness are texts.
        if given[at].parse::<f64>().is_err() {
            n_filled += 1;
            assert!(sd > 0.0 && lower < x && x < upper, "{row:?}");
        } else {
            assert_eq!([sd, lower, upper], [0.0, x, x], "{row:?}");
        }
    }
    assert!(n_filled > 0 && column("sd(town)").is_none() && column("lower(town)").is_none());
    let seeded = |seed: u64| {
        folder.npb(&format!(
            "impute t.npb p.csv --training --draws 2 --seed {seed}"
        ))
    };
    assert!(seeded(8) == seeded(8) && seeded(8) != seeded(9));
    assert!(folder.npb("summary t.npb").contains("marker"));
    assert!(folder.npb("diagnose t.npb").contains("rhat"));
}

/// Stars of two tastes.
pub(crate) fn stars() -> String {
    let mut text = String::from("user,film,stars\n");
    for user in 0..24 {
        for film in 0..15 {
            if (3 * user + film) % 4 != 0 {
                text += &format!(
                    "u{user},f{film},{}\n",
                    if (user + film) % 2 == 0 { 5 } else { 2 }
                );
            }
        }
    }
    text
}

pub(crate) const RATINGS: &str =
    "fit ratings r.csv --row user --column film --value stars --seed 3 --set candidates=5";

#[test]
fn ratings_are_predicted_and_recommended() {
    let folder = Folder::new("ratings");
    folder.write("r.csv", stars());
    folder.write(
        "users.csv",
        (0..24)
            .map(|u| format!("u{u},{}\n", u % 2))
            .fold("user,kind\n".to_owned(), |a, b| a + &b),
    );
    folder.npb(&format!(
        "{RATINGS} --likelihood ordinal --chains 2 --row-features users.csv -o r.npb"
    ));
    folder.write("ask.csv", "film,user\nf0,u0\nf1,u0\n");
    let asked = cells(&folder.npb("predict r.npb ask.csv --interval 0.5"));
    assert_eq!(asked[0][..3], ["user", "film", "mean"]);
    assert!(
        asked[1][2].parse::<f64>().expect("a number") > 4.0
            && asked[2][2].parse::<f64>().expect("a number") < 3.5,
        "{asked:?}"
    );
    let best = cells(&folder.npb("recommend r.npb --row u1 --top 3 --exclude r.csv --by P(>=4)"));
    assert_eq!((best.len(), best[0][1].as_str()), (4, "P(>=4)"));
    let film: usize = best[1][0][1..].parse().expect("a film");
    assert!(
        film % 2 == 1 && (3 + film).is_multiple_of(4),
        "one that u1 likes and has not rated: {best:?}"
    );
    // By choice, as by default: the product of both chances falls, and what u1 rated is left out without being named.
    let chosen = cells(&folder.npb("recommend r.npb --row u1 --top 6 --liked 4"));
    assert_eq!(chosen[0], ["film", "P(rated)", "P(like)", "mean", "sd"]);
    let number = |row: &[String], k: usize| row[k].parse::<f64>().expect("a number");
    let scores: Vec<f64> = chosen[1..]
        .iter()
        .map(|r| number(r, 1) * number(r, 2))
        .collect();
    assert!(scores.windows(2).all(|w| w[0] >= w[1]), "{chosen:?}");
    for row in &chosen[1..] {
        let film: usize = row[0][1..].parse().expect("a film");
        assert!((3 + film).is_multiple_of(4), "rated: {chosen:?}");
    }
    let error = folder.fails("recommend r.npb --row u1 --by mean --liked 4", 2);
    assert!(error.contains("--by choice"), "{error}");
    assert_eq!(
        cells(&folder.npb("next r.npb -n 4 --exclude r.csv")).len(),
        5
    );
    let error = folder.fails("recommend r.npb --row nobody", 2);
    assert!(error.contains("nobody"), "{error}");
    folder.write("ask.csv", "film,user\nf0,u0\nf99,u0\n");
    let output = folder.run("predict r.npb ask.csv");
    let asked = cells(&String::from_utf8_lossy(&output.stdout));
    assert!(
        errors(&output).contains("ask.csv: row 2") && errors(&output).contains("f99"),
        "{}",
        errors(&output)
    );
    assert!(
        !asked[1][2].is_empty() && asked[2][2].is_empty(),
        "{asked:?}"
    );
    let error = folder.fails("predict r.npb ask.csv --unseen-levels error", 3);
    assert!(
        error.contains("ask.csv: row 2") && error.contains("--unseen-levels"),
        "{error}"
    );
}

/// Interrupts the command as soon as it has written a checkpoint; whether it was still running.
fn interrupted(folder: &Folder, arguments: &str, checkpoint: &str) -> bool {
    let mut child = folder
        .command(arguments)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program runs");
    while !folder.exists(checkpoint) && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let id = child.id().to_string();
    let _ = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    child.wait().expect("a child").code() == Some(130)
}

/// A fit that is interrupted goes on with the same command, and ends in the bits of one that was not.
fn goes_on(folder: &Folder, fit: &str, end: &str) {
    let (whole, parts) = (format!("whole{end}"), format!("parts{end}"));
    folder.npb(&format!("{fit} -o {whole}"));
    let resumable = format!("{fit} -o {parts} --checkpoint c --every 0.001s");
    assert!(
        interrupted(folder, &resumable, "c"),
        "{fit}: was done before it was interrupted"
    );
    assert!(!folder.exists(&parts), "{fit}");
    folder.npb(&resumable);
    let bytes = |name: &str| {
        if end == ".npb" {
            folder.npb(&format!("export {name} -o fit.bin"));
            return std::fs::read(folder.path("fit.bin")).expect("a file");
        }
        std::fs::read(folder.path(name)).expect("a file")
    };
    assert!(bytes(&whole) == bytes(&parts), "{fit}");
    std::fs::remove_file(folder.path(&parts)).expect("a file");
    let is_left = |name: &String| name.starts_with("c.") || name == "c";
    assert!(!folder.files().iter().any(is_left), "{:?}", folder.files());
}

/// What a fit says that is interrupted once it has told of a first step: its last line.
fn last_word(folder: &Folder, fit: &str) -> String {
    let mut child = folder
        .command(&format!("{fit} --progress json"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let is_step = |line: &String| line.starts_with('{');
    assert!(
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| is_step(&line)),
        "{fit}"
    );
    let id = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(kill.expect("a program").success());
    let rest: Vec<String> = lines
        .map_while(Result::ok)
        .filter(|line| !is_step(line))
        .collect();
    assert_eq!(child.wait().expect("a child").code(), Some(130), "{rest:?}");
    rest.last().expect("a line").clone()
}

#[test]
fn an_interrupted_fit_says_how_it_goes_on() {
    let folder = Folder::new("last-word");
    folder.write("r.csv", stars());
    let fit = format!("{RATINGS} --set sweeps.burn_in=100000 -o r.npb");
    assert_eq!(
        last_word(&folder, &fit),
        "npb: interrupted, nothing is written; with --checkpoint FILE the same command would go on"
    );
    // It says what is there.
    let said = last_word(&folder, &format!("{fit} --checkpoint c"));
    let expected = match folder.exists("c") {
        true => "npb: interrupted; the same command goes on from c",
        false => "npb: interrupted before the first checkpoint, nothing is written",
    };
    assert_eq!(said, expected);
    assert!(!folder.exists("r.npb"));
}

#[test]
fn an_interrupted_fit_goes_on_to_the_same_bits() {
    let folder = Folder::new("interrupted");
    folder.write("r.csv", stars());
    folder.write("p.csv", patients(0..90));
    folder.write("y.csv", labels_of_patients(90));
    let line = |n: usize| format!("{0} {0}:2 {1}:{2} 4:1\n", n % 2, 2 + n % 2, 1 + n % 3);
    folder.write("d.txt", (0..400).map(line).collect::<String>());
    let noisy = image::GrayImage::from_fn(48, 40, |x, y| {
        image::Luma([(60 + 60 * (x / 8 % 2) + (x * 31 + y * 17) % 41) as u8])
    });
    noisy.save(folder.path("in.png")).expect("a file");
    // Long enough to be interrupted.
    let long = "--set limits.tolerance=0 --set limits.max_iterations=300";
    let cases = [
        format!("{RATINGS} --chains 2 --set sweeps.burn_in=400"),
        "fit table p.csv --id id --set chains=2 --set sweeps.burn_in=600 --set sweeps.keep=100 --set sweeps.thin=1"
            .to_owned(),
        "fit labels p.csv --labels y.csv --id id --set latent.limits.tolerance=0 --set latent.limits.max_iterations=300".to_owned(),
        "fit groups r.csv --group user --item film --value stars --liked 4 --set weights.limits.tolerance=0 --set weights.limits.max_iterations=1000 --set base.learned.limits.max_iterations=100 --set base.learned.limits.tolerance=0".to_owned(),
        format!("fit topics d.txt --set topics=4 {long}"),
        format!("fit classifier p.csv --label ill --id id {SMALL} --set limits.max_iterations=400 --set limits.tolerance=1e-300"),
        "fit tasks p.csv --task town --label ill --id id --set single.restarts=1 --set single.folds=2 --set single.limits.tolerance=1e-300".to_owned(),
    ];
    for fit in &cases {
        goes_on(&folder, fit, ".npb");
    }
    let image = "denoise in.png --set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=150 --set model.sweeps.keep=50";
    goes_on(&folder, image, ".png");
}

fn labels_of_patients(n: usize) -> String {
    let row = |i: usize| format!("{},{}\n", i % 2, u8::from(i.is_multiple_of(3)));
    "one,two\n".to_owned() + &(0..n).map(row).collect::<String>()
}

#[test]
fn threads_change_nothing_and_convergence_can_be_required() {
    let folder = Folder::new("threads");
    folder.write("p.csv", patients(0..60));
    for threads in [1, 2, 4] {
        folder.npb(&format!(
            "fit table p.csv --id id {TABLE} --set chains=2 --threads {threads} -o t{threads}.npb"
        ));
    }
    let bytes = |n: usize| std::fs::read(folder.path(&format!("t{n}.npb"))).expect("a file");
    assert!(bytes(1) == bytes(2) && bytes(1) == bytes(4));
    let error = folder.fails(
        "fit mixture p.csv --id id --set limits.max_iterations=1 --require-converged -o m.npb",
        4,
    );
    assert!(
        error.contains("not converged") && folder.exists("m.npb"),
        "{error}"
    );
    assert!(error.contains("--set limits.max_iterations=N"), "{error}");
    let short = "--set chains=2 --set sweeps.burn_in=1 --set sweeps.keep=8 --set sweeps.thin=3";
    let error = folder.fails(
        &format!("fit table p.csv --id id {short} --require-converged -o t.npb"),
        4,
    );
    assert!(
        error.contains("R-hat of ") && error.contains("sweeps.burn_in=2 --set sweeps.thin=6"),
        "{error}"
    );
}

#[test]
fn images_are_restored() {
    let folder = Folder::new("images");
    let clean = |x: u32, y: u32| {
        if (x / 4 + y / 6).is_multiple_of(2) {
            60
        } else {
            190
        }
    };
    let noisy = image::GrayImage::from_fn(32, 28, |x, y| {
        image::Luma([(clean(x, y) + (x * 31 + y * 17) % 41 - 20) as u8])
    });
    noisy.save(folder.path("in.png")).expect("a file");
    let holes = image::GrayImage::from_fn(32, 28, |x, y| {
        image::Luma([if (x * 7 + y * 5) % 4 == 0 { 255 } else { 0 }])
    });
    holes.save(folder.path("holes.png")).expect("a file");
    let small = "--set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=20 --set model.sweeps.keep=20";
    folder.npb(&format!("denoise in.png -o out.png --sd sd.npy {small}"));
    folder.npb(&format!(
        "inpaint in.png --mask holes.png -o full.tiff {small}"
    ));
    for name in ["out.png", "full.tiff"] {
        let found = image::open(folder.path(name)).expect("an image").to_luma8();
        let error = |image: &image::GrayImage| {
            let square = |(x, y, p): (u32, u32, &image::Luma<u8>)| {
                (f64::from(p.0[0]) - f64::from(clean(x, y))).powi(2)
            };
            image.enumerate_pixels().map(square).sum::<f64>() / f64::from(32 * 28)
        };
        // The two greys differ by 130; noise is up to 20 either way.
        let most = if name == "out.png" {
            0.8 * error(&noisy)
        } else {
            400.0
        };
        assert!(
            error(&found) < most,
            "{name}: {} of {}",
            error(&found),
            error(&noisy)
        );
    }
    let sd = std::fs::read(folder.path("sd.npy")).expect("a file");
    assert!(sd.starts_with(b"\x93NUMPY") && sd.len() == 128 + 4 * 32 * 28);
    let error = folder.fails("inpaint in.png --mask none.png -o x.png", 3);
    assert!(error.contains("none.png"), "{error}");
    assert!(folder.fails("denoise in.png -o x.jpg", 2).contains("x.jpg"));
    folder.write("text.png", "hello");
    assert!(
        folder
            .fails("denoise text.png -o x.png", 3)
            .contains("text.png")
    );
}

/// Grey saved as colours is restored as grey; alpha is left alone but for holes; a mask may be drawn by transparency; known pixels are kept.
#[test]
fn images_are_restored_as_people_save_them() {
    let folder = Folder::new("channels");
    let small = "--set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=10 --set model.sweeps.keep=10";
    let grey = |x: u32, y: u32| (90 + 70 * ((x / 4 + y / 6) % 2) + (x * 31 + y * 17) % 41) as u8;
    let [width, height] = [24, 20];
    image::GrayImage::from_fn(width, height, |x, y| image::Luma([grey(x, y)]))
        .save(folder.path("grey.png"))
        .expect("a file");
    image::RgbImage::from_fn(width, height, |x, y| image::Rgb([grey(x, y); 3]))
        .save(folder.path("rgb.png"))
        .expect("a file");
    let corner = |x: u32, y: u32| x < 5 && y < 4;
    image::RgbaImage::from_fn(width, height, |x, y| {
        let [r, alpha] = [grey(x, y), if corner(x, y) { 0 } else { 200 }];
        image::Rgba([r, r, r, alpha])
    })
    .save(folder.path("rgba.png"))
    .expect("a file");
    let read = |name: &str| image::open(folder.path(name)).expect("an image").to_rgba8();
    folder.npb(&format!("denoise grey.png -o g.png {small}"));
    folder.npb(&format!("denoise rgb.png -o c.png {small}"));
    assert_eq!(read("g.png"), read("c.png"));
    folder.npb(&format!("denoise rgba.png -o a.png {small}"));
    let alpha = |image: &image::RgbaImage, x, y| image.get_pixel(x, y).0[3];
    let found = read("a.png");
    assert!((0..5).all(|x| alpha(&found, x, 2) == 0) && alpha(&found, 9, 9) == 200);
    // Holes are filled and seen, what is known stays.
    folder.npb(&format!("inpaint rgba.png -o full.png {small}"));
    let found = read("full.png");
    let mut changed = 0;
    for (x, y, pixel) in found.enumerate_pixels() {
        match corner(x, y) {
            true => assert_eq!(pixel.0[3], 255),
            false => assert_eq!(pixel.0, [grey(x, y), grey(x, y), grey(x, y), 200]),
        }
        changed += u32::from(pixel.0[0] != grey(x, y));
    }
    assert!(changed > 5);
    // Three ways to draw the same mask.
    let drawn = |name: &str, of: &dyn Fn(bool) -> [u8; 4]| {
        image::RgbaImage::from_fn(width, height, |x, y| image::Rgba(of(corner(x, y))))
            .save(folder.path(name))
            .expect("a file");
    };
    drawn("white.png", &|hole| {
        if hole { [255; 4] } else { [0, 0, 0, 255] }
    });
    drawn("strokes.png", &|hole| {
        if hole { [0, 0, 0, 255] } else { [0; 4] }
    });
    drawn("cut.png", &|hole| {
        if hole { [255, 255, 255, 0] } else { [255; 4] }
    });
    let masks = ["white", "strokes", "cut"];
    for mask in masks {
        folder.npb(&format!(
            "inpaint grey.png --mask {mask}.png -o by-{mask}.png {small}"
        ));
    }
    for mask in masks {
        assert_eq!(
            read(&format!("by-{mask}.png")),
            read("by-white.png"),
            "{mask}"
        );
    }
    assert_ne!(read("by-white.png"), read("grey.png"));
    let kept = |name: &str| {
        let found = read(name);
        let same = |(x, y, p): (u32, u32, &image::Rgba<u8>)| corner(x, y) || p.0[0] == grey(x, y);
        found.enumerate_pixels().all(same)
    };
    assert!(kept("by-white.png"));
    folder.npb(&format!(
        "inpaint grey.png --mask white.png --denoise -o all.png {small}"
    ));
    assert!(!kept("all.png"));
    let error = folder.fails("inpaint grey.png -o x.png", 2);
    assert!(error.contains("--mask"), "{error}");
    // Nothing to learn: given back.
    image::GrayImage::from_fn(9, 3, |_, _| image::Luma([7]))
        .save(folder.path("flat.png"))
        .expect("a file");
    folder.npb("denoise flat.png -o f.png");
    assert!(read("f.png").pixels().all(|p| p.0[0] == 7));
}

#[test]
fn many_labels_are_predicted_at_once() {
    let folder = Folder::new("labels");
    let (mut x, mut y) = ("id,a,b,c\n".to_owned(), "ill,id,tall\n".to_owned());
    for i in 0..60_usize {
        let (ill, tall) = (i % 2 == 1, i % 3 == 0);
        let noise = (i * 7 % 11) as f64 / 11.0;
        let sign = |is: bool| if is { 1.5 } else { -1.5 };
        x += &format!(
            "p{i},{},{:.3},{:.3}\n",
            if i % 8 == 5 {
                String::new()
            } else {
                format!("{:.3}", sign(ill) + noise)
            },
            sign(tall) - noise,
            noise
        );
        // In another order, and not of every row.
        if i % 10 != 9 {
            y = y.replacen(
                "tall\n",
                &format!(
                    "tall\n{},p{i},{}\n",
                    ["no", "yes"][usize::from(ill)],
                    u8::from(tall)
                ),
                1,
            );
        }
    }
    folder.write("x.csv", x);
    folder.write("y.csv", y);
    folder.npb("fit labels x.csv --labels y.csv --id id -o l.npb");
    let predicted = cells(&folder.npb("predict l.npb x.csv"));
    assert_eq!(predicted[0], ["id", "ill", "P(ill)", "tall", "P(tall)"]);
    let right = (0..60).filter(|&i| {
        predicted[i + 1][1] == ["no", "yes"][i % 2]
            && predicted[i + 1][3] == if i % 3 == 0 { "1" } else { "0" }
    });
    assert!(right.count() > 54, "{predicted:?}");
    assert!(folder.npb("summary l.npb").contains("expected_use"));
    // The paper's model is one setting away, and has margins.
    folder.npb("fit labels x.csv --labels y.csv --id id --set inputs=none -o n.npb");
    let margins = cells(&folder.npb("predict n.npb x.csv"));
    assert_eq!(margins[0][2], "margin(ill)");
    // A label that nothing tells apart is named.
    let flat = (0..60).fold("id,ill\n".to_owned(), |all, i| {
        all + &format!("p{i},{}\n", if i == 0 { "" } else { "no" })
    });
    folder.write("flat.csv", flat + "p99,yes\n");
    let said = errors(&folder.run("fit labels x.csv --labels flat.csv --id id -o f.npb"));
    assert!(
        said.contains("label ill: all its known values are no"),
        "{said}"
    );
    folder.write("short.csv", "ill\nyes\nno\nyes\n");
    let error = folder.fails("fit labels x.csv --labels short.csv --id id -o m.npb", 3);
    assert!(error.contains("short.csv: has 3 rows"), "{error}");
}

#[test]
fn new_users_are_recommended_to_without_a_new_fit() {
    let folder = Folder::new("groups");
    folder.write("r.csv", stars());
    folder.npb("fit groups r.csv --group user --item film --value stars --liked 4 -o g.npb");
    folder.write(
        "mine.csv",
        "user,film,stars\nme,f1,5\nme,f2,1\nme,f3,5\nme,unknown,5\n",
    );
    let best = cells(&folder.npb("recommend g.npb --row me --exclude mine.csv --top 4"));
    assert_eq!((best.len(), best[0][1].as_str()), (5, "P(like)"));
    for row in &best[1..] {
        let film: usize = row[0][1..].parse().expect("a film");
        assert!(film % 2 == 1 && film > 3, "{best:?}");
    }
    let liked = folder.npb("recommend g.npb --row me --exclude mine.csv --top 4 --by P(like)");
    let chances: Vec<f64> = cells(&liked)[1..]
        .iter()
        .map(|row| row[1].parse().expect("a number"))
        .collect();
    assert!(chances.windows(2).all(|w| w[0] >= w[1]), "{liked}");
    assert!(
        folder
            .fails("recommend g.npb --row me --exclude mine.csv --by mean", 2)
            .contains("P(like)")
    );
    assert!(
        folder
            .fails("recommend g.npb --row you --exclude mine.csv", 2)
            .contains("you")
    );
    assert!(
        folder
            .fails("recommend g.npb --row me", 2)
            .contains("--exclude")
    );
}

#[test]
fn topics_say_classes_and_numbers() {
    let folder = Folder::new("topics");
    let line = |n: usize| {
        let (class, first) = if n.is_multiple_of(2) {
            ("tea", 0)
        } else {
            ("sea", 2)
        };
        format!("{class} {first}:{} {}:2 4:3\n", 2 + n % 3, first + 1)
    };
    folder.write("d.txt", (0..30).map(line).collect::<String>());
    folder.write(
        "stars.txt",
        (0..30)
            .map(|n| format!("{}\n", if n % 2 == 0 { 1.5 } else { 4.5 }))
            .collect::<String>(),
    );
    folder.write("words.txt", "pot\ncup\nwave\nsalt\nthe\n");
    folder.npb("fit topics d.txt --words words.txt --set topics=2 -o c.npb");
    folder.npb("fit topics d.txt --words words.txt --target stars.txt --set topics=2 -o n.npb");
    folder.write("new.txt", "? 0:4 1:1\n? 2:3 3:3\n");
    let classes = cells(&folder.npb("predict c.npb new.txt"));
    assert_eq!(
        (classes[1][1].as_str(), classes[2][1].as_str()),
        ("tea", "sea")
    );
    let numbers = cells(&folder.npb("predict n.npb new.txt"));
    let value = |i: usize| numbers[i][1].parse::<f64>().expect("a number");
    assert!(value(1) < 2.5 && value(2) > 3.5, "{numbers:?}");
    assert!(folder.npb("summary c.npb").contains("wave"));
    folder.write("stars.txt", "1\n2\n");
    let error = folder.fails("fit topics d.txt --target stars.txt -o x.npb", 3);
    assert!(
        error.contains("stars.txt: has 2 lines for 30 documents"),
        "{error}"
    );
}

#[test]
fn tasks_share_what_they_can() {
    let folder = Folder::new("tasks");
    let line = |i: usize, labelled: bool| {
        // In the south signs are the other way round.
        let (mine, south) = (i % 2 == 1, i % 4 >= 2);
        let side = if mine != south { 1.5 } else { -1.5 };
        let noise = (i * 7 % 11) as f64 / 11.0;
        let second = if i % 9 == 4 {
            String::new()
        } else {
            format!("{:.3}", side - noise)
        };
        let place = ["north", "south"][usize::from(south)];
        let label = if labelled {
            ["no", "yes"][usize::from(mine)]
        } else {
            ""
        };
        format!("{place},{:.3},{second},{label}\n", side + noise)
    };
    let file = |rows: std::ops::Range<usize>, labelled| {
        "place,a,b,mine\n".to_owned() + &rows.map(|i| line(i, labelled)).collect::<String>()
    };
    folder.write("f.csv", file(0..80, true));
    folder.write("new.csv", file(80..100, false));
    folder.npb("fit tasks f.csv --task place --label mine --seed 3 -o t.npb");
    let predicted = cells(&folder.npb("predict t.npb new.csv --interval 0.9"));
    assert_eq!(
        predicted[0][1..5],
        ["class", "P(no)", "lower(no)", "upper(no)"]
    );
    let right = (0..20).filter(|i| predicted[i + 1][1] == ["no", "yes"][i % 2]);
    assert!(right.count() > 17, "{predicted:?}");
    assert!(folder.npb("summary t.npb").starts_with("task,north,south"));
    folder.write("new.csv", "place,a,b\neast,1,1\n");
    let error = folder.fails("predict t.npb new.csv --unseen-levels error", 3);
    assert!(error.contains("east"), "{error}");
    folder.write("new.csv", "a,b\n1,1\n");
    let error = folder.fails("predict t.npb new.csv", 3);
    assert!(error.contains("to which task"), "{error}");
}
