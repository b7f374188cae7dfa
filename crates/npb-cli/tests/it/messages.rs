//! What is said where a file is not what it should be, and what `schema`, `config` and `summary` show.

use crate::fits::{SMALL, TABLE, patients};
use crate::{Folder, cells, errors, said};

const QUICK: &str = "--set restarts=1 --set folds=0 --set normal_scores=false";

fn rows(separator: &str) -> String {
    let row = |i: usize| {
        let (age, level) = (20 + i * 7 % 50, (i * 13 % 29) as f64 / 4.0);
        let level = if i % 9 == 4 {
            "?".to_owned()
        } else {
            level.to_string()
        };
        let class = if level.parse::<f64>().unwrap_or(age as f64 / 10.0) > 3.0 {
            "1"
        } else {
            "0"
        };
        [
            age.to_string(),
            level,
            ["low", "high"][i / 2 % 2].to_owned(),
            class.to_owned(),
        ]
        .join(separator)
            + "\n"
    };
    (0..60).map(row).collect()
}

/// An ARFF file has the answers of the same table as text; its levels are the declared ones.
#[test]
fn arff_is_read() {
    let folder = Folder::new("arff");
    folder.write(
        "t.csv",
        "age in years,level,dose,ill\n".to_owned() + &rows(","),
    );
    let head = "% made by hand\n@RELATION t\n@attribute 'age in years' numeric\n@attribute level real\n@attribute dose {low, high, 'very high'}\n@attribute ill {0,1}\n@data\n";
    folder.write("t.arff", head.to_owned() + &rows(", "));
    folder.npb(&format!(
        "fit classifier t.csv --label ill {QUICK} -o c.npb"
    ));
    let expected = folder.npb("-q predict c.npb t.csv");
    assert_eq!(folder.npb("-q predict c.npb t.arff"), expected);
    folder.npb(&format!(
        "fit classifier t.arff --label ill {QUICK} -o a.npb"
    ));
    let schema = folder.npb("export a.npb --part schema");
    assert!(
        schema.contains("levels = [\"low\", \"high\", \"very high\"]"),
        "{schema}"
    );
    let found = cells(&folder.npb("-q predict a.npb t.csv"));
    let expected = cells(&expected);
    let same = (1..61).filter(|&i| found[i][1] == expected[i][1]).count();
    assert!(same >= 57, "{same}");
    folder.write("bad.arff", head.to_owned() + "1,2,middle,0\n");
    let error = folder.fails("schema bad.arff", 3);
    assert!(
        error.contains(
            "bad.arff:8: column 3 (\"dose\"): \"middle\" is not one of the declared levels"
        ),
        "{error}"
    );
}

#[test]
fn uneven_lines_say_what_helps() {
    let folder = Folder::new("uneven");
    for (text, parts) in [
        (
            "made by a program\na,b,y\n1,2,u\n2,1,v\n",
            &["t.csv:2", "--comment", "--separator"][..],
        ),
        (
            "a,b\n1,2,\n2,3,\n3,4,\n4,5,\n",
            &["t.csv:2: column", "3 fields, expected 2", "one name more"],
        ),
        (
            "a,b,c\n1,2,3\n1,2\n",
            &["t.csv:3", "2 fields, expected 3", "complete it"],
        ),
        ("a,b\n1,2\nx,y,z,u\n", &["t.csv:3", "--quote"]),
    ] {
        folder.write("t.csv", text);
        let error = folder.fails("schema t.csv", 3);
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{text}: {error}"
        );
    }
    folder.write("t.csv", "# made by a program\na,b,y\n1,2,u\n2,1,v\n3,1,v\n");
    let words = said(&folder, "schema t.csv");
    assert!(words.contains("begin with '#'"), "{words}");
}

#[test]
fn a_file_with_a_header_only_has_no_answers() {
    let folder = Folder::new("header-only");
    folder.write(
        "n.csv",
        "a,b\n".to_owned()
            + &(0..30)
                .map(|i| format!("{}.5,{}\n", i % 7, i % 5))
                .collect::<String>(),
    );
    folder.write("h.csv", "a,b\n");
    folder.npb(&format!("-q fit mixture n.csv {QUICK} -o m.npb"));
    folder.npb(
        "-q fit table n.csv --set chains=1 --set sweeps.burn_in=20 --set sweeps.keep=10 -o t.npb",
    );
    for question in [
        "impute m.npb h.csv",
        "score m.npb h.csv",
        "impute t.npb h.csv",
    ] {
        let output = folder.run(question);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{question}: {}",
            errors(&output)
        );
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).lines().count(),
            1,
            "{question}"
        );
        assert!(
            errors(&output).contains("no row"),
            "{question}: {}",
            errors(&output)
        );
    }
    let error = folder.fails(&format!("fit mixture h.csv {QUICK} -o x.npb"), 3);
    assert!(error.contains("no row of data"), "{error}");
}

#[test]
fn summaries_are_to_be_read() {
    let folder = Folder::new("summaries");
    let row = |i: usize| {
        format!(
            "2024-0{}-1{},{}.5,{}\n",
            1 + i % 9,
            i % 9,
            i % 7,
            ["a", "b", "c"][i % 3]
        )
    };
    folder.write(
        "d.csv",
        "day,x,kind\n".to_owned() + &(0..60).map(row).collect::<String>(),
    );
    folder.npb(&format!("-q fit mixture d.csv {QUICK} -o m.npb"));
    let shown = cells(&folder.npb("summary m.npb"));
    let day = shown[0]
        .iter()
        .position(|name| name == "day")
        .expect("a column");
    assert!(shown[1][day].starts_with("2024-0"), "{shown:?}");
    folder.write("d.toml", "columns = [{ name = \"day\", kind = \"date\", date = { order = \"ymd\" } }, { name = \"x\", kind = \"positive\" }, { name = \"kind\", kind = \"ordinal\", levels = [\"a\", \"b\", \"c\"] }]");
    folder.npb("-q fit table d.csv --schema d.toml --set chains=1 --set sweeps.burn_in=20 --set sweeps.keep=10 -o t.npb");
    let shown = cells(&folder.npb("summary t.npb"));
    let kinds: Vec<&str> = shown[1..].iter().map(|row| row[1].as_str()).collect();
    assert_eq!(kinds, ["date", "positive", "ordinal"]);
    let likes: String = (0..90)
        .flat_map(|u| {
            (0..3).map(move |k| format!("u{u},f{},{}\n", (u + k * k * 7) % 60, 1 + (u + k) % 5))
        })
        .collect();
    folder.write("r.csv", "user,film,stars\n".to_owned() + &likes);
    folder.npb("-q fit groups r.csv --group user --item film --value stars --liked 4 -o g.npb");
    let output = folder.run("summary g.npb");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 21);
    assert!(
        errors(&output).contains("the 20 items of 60"),
        "{}",
        errors(&output)
    );
}

/// The kind is that of the label and of the columns; the model is that of the verb it names.
#[test]
fn the_kind_of_a_model_is_suggested() {
    let folder = Folder::new("auto");
    folder.write("t.csv", "age,level,dose,ill\n".to_owned() + &rows(","));
    let numbers = |i: usize| format!("{}.5,{}.25\n", i % 7, i * 3 % 11);
    folder.write(
        "n.csv",
        "a,b\n".to_owned() + &(0..40).map(numbers).collect::<String>(),
    );
    let table = "--set chains=1 --set sweeps.burn_in=20 --set sweeps.keep=10";
    for (given, kind, why) in [
        (
            format!("t.csv --label ill {QUICK}"),
            "classifier",
            "a classifier, as the label has classes",
        ),
        (
            format!("t.csv --label level {table}"),
            "table",
            "a table, as the label is a number",
        ),
        (
            format!("t.csv {table}"),
            "table",
            "columns are of several kinds",
        ),
        (
            format!("n.csv {QUICK}"),
            "mixture",
            "all columns are numbers",
        ),
        (
            format!("t.csv --ignore dose --ignore ill --id age {QUICK}"),
            "mixture",
            "all columns are numbers",
        ),
    ] {
        let words = said(&folder, &format!("fit auto {given} -o a.npb"));
        assert!(words.contains(why), "{given}: {words}");
        let named = given.replace("--label level ", "");
        folder.npb(&format!("fit {kind} {named} -o k.npb"));
        let [auto, named] =
            ["a.npb", "k.npb"].map(|m| std::fs::read(folder.path(m)).expect("a file"));
        assert!(auto == named, "{given}");
    }
    assert!(
        folder
            .fails("fit auto - -o x.npb", 2)
            .contains("say the kind")
    );
}

/// Settings that cannot be are named in plain words, and so are values that a model cannot take, with what they are of.
#[test]
fn what_cannot_be_is_named() {
    let folder = Folder::new("cannot-be");
    folder.write("r.csv", "who,film,stars\nu,f,1.5\nu,g,2\nv,f,3\n");
    folder.write("big.csv", "who,film,stars\nu,f,1e80\nu,g,2\nv,f,3\n");
    folder.write("empty.csv", "");
    folder.write(
        "far.csv",
        "a,b\n1.5,-1e308\n2.5,3.25\n3.5,1e308\n4.5,0.5\n5.5,-0.25\n7.5,1.75\n",
    );
    let ratings = "--row who --column film --value stars -o x.npb";
    for (command, code, parts) in [
        (
            format!("fit ratings r.csv {ratings} --set chains=x"),
            2,
            &["expected a whole number", "`chains`"][..],
        ),
        (
            format!("fit ratings r.csv {ratings} --set sweeps=5"),
            2,
            &["expected a table of settings", "`sweeps`"],
        ),
        (
            format!("fit ratings r.csv {ratings} --set likelihood.ordinal.levels=5"),
            2,
            &["likelihood is one value here", "likelihood={ ... }"],
        ),
        (
            format!("fit ratings r.csv {ratings} --set likelihood=binomial"),
            2,
            &["likelihood = binomial", "in Rust alone"],
        ),
        (
            format!("fit ratings r.csv {ratings} --likelihood binary"),
            3,
            &["r.csv: stars of who \"u\" and film \"f\": 1.5 is not 0 or 1"],
        ),
        (
            format!("fit ratings r.csv {ratings} --likelihood ordinal"),
            3,
            &["stars of who \"u\" and film \"f\": 1.5 is no level"],
        ),
        (
            format!("fit ratings big.csv {ratings}"),
            3,
            &["who \"u\" and film \"f\": 1e80 is too large"],
        ),
        (
            format!("fit mixture far.csv {QUICK} -o x.npb"),
            3,
            &["row 1 of the data, column \"b\": -1e308 is too far"],
        ),
    ] {
        let error = folder.fails(&command, code);
        let says = parts.iter().all(|part| error.contains(part));
        assert!(says, "{command}: {error}");
    }
    let error = folder.fails("fit topics empty.csv -o x.npb", 3);
    assert!(error.contains("no document has a word"), "{error}");
    let error = folder.fails("fit auto empty.csv -o x.npb", 3);
    assert!(!error.contains("a mixture"), "{error}");
}

const FEW_SWEEPS: &str = "--set chains=1 --set sweeps.burn_in=5 --set sweeps.keep=5";

/// Two thirds of the pairs of 12 users and 12 films, with stars from 1 to 5; and how long each film is.
fn stars(folder: &Folder) -> String {
    let pairs = (0..144).map(|k| (k / 12, k % 12));
    let rated = pairs.filter(|(u, f)| (u + f) % 3 > 0);
    let lines = rated.map(|(u, f)| format!("u{u},f{f},{}\n", 1 + (u * 5 + f * 7) % 5));
    let header = "who,film,stars\n".to_owned();
    folder.write("r.csv", header + &lines.collect::<String>());
    (0..12).map(|f| format!("f{f}|{}.5\n", 80 + f)).collect()
}

/// Triples of users, items and stars are ratings: the model is that of the verb.
#[test]
fn ratings_are_seen_by_their_pairs() {
    let folder = Folder::new("autoratings");
    stars(&folder);
    let words = said(&folder, &format!("fit auto r.csv {FEW_SWEEPS} -o a.npb"));
    assert!(words.contains("r.csv: ratings, as every line"), "{words}");
    folder.npb(&format!(
        "fit ratings r.csv --row who --column film --value stars {FEW_SWEEPS} -o k.npb"
    ));
    let [auto, named] = ["a.npb", "k.npb"].map(|m| std::fs::read(folder.path(m)).expect("a file"));
    assert!(auto == named);
}

/// A file of features without a header and with other separators stands beside ratings with a header: the fit is that of features written like these.
#[test]
fn files_beside_each_other_have_their_own_layouts() {
    let folder = Folder::new("beside");
    let bars = stars(&folder);
    folder.write("like.csv", "film,x1\n".to_owned() + &bars.replace('|', ","));
    folder.write("bars.txt", bars);
    let fit = |features: &str| {
        let words = said(
            &folder,
            &format!(
                "fit ratings r.csv --row who --column film --value stars --column-features {features} {FEW_SWEEPS} -o m.npb"
            ),
        );
        (words, std::fs::read(folder.path("m.npb")).expect("a file"))
    };
    let (words, found) = fit("bars.txt");
    assert!(words.contains("taken for data"), "{words}");
    assert!(found == fit("like.csv").1);
}

#[test]
fn questions_about_cells_that_cannot_be_are_named() {
    let folder = Folder::new("questions");
    folder.write("p.csv", patients(0..60));
    folder.npb(&format!("-q fit table p.csv --id id {TABLE} -o t.npb"));
    folder.npb(&format!(
        "-q fit mixture p.csv --id id --ignore ill {SMALL} -o m.npb"
    ));
    for (question, words) in [
        (
            "predict t.npb p.csv",
            "--target; columns are age, marker, town, ill",
        ),
        (
            "predict t.npb p.csv --target price",
            "--target price: there is no such column",
        ),
        ("predict t.npb --target age", "required"),
        (
            "predict t.npb --target age --given price=1",
            "--given price: there is no such column",
        ),
        (
            "predict t.npb --target age --given age=1",
            "--given age=...: is what is to be predicted",
        ),
        (
            "predict t.npb --target age --given marker",
            "write NAME=VALUE",
        ),
        (
            "predict t.npb --target age --given town=Oslo --given town=Hamar",
            "--given town: is given twice",
        ),
        (
            "predict t.npb --target age --given town=Paris",
            "--given town=Paris: \"Paris\" is not one of the declared levels",
        ),
        (
            "predict t.npb --target age --given marker=high",
            "--given marker=high: \"high\" is not a number",
        ),
        (
            "predict t.npb --target age --target age --given town=Oslo",
            "\"age\" twice",
        ),
        (
            "predict t.npb p.csv --target age --interval 2",
            "--interval 2",
        ),
        (
            "predict m.npb p.csv --target ill",
            "--target ill: there is no such column",
        ),
        (
            "predict m.npb p.csv",
            "--target; columns are age, marker, town",
        ),
        (
            "predict m.npb p.csv --target age --target age",
            "\"age\" twice",
        ),
        (
            "predict m.npb --target age --given town=",
            "--given town=: says that the value is missing",
        ),
        (
            "simulate t.npb -n 3 --given age=nan",
            "--given age=nan: says that the value is missing",
        ),
        ("score m.npb p.csv --cells --training", "table"),
        ("score t.npb p.csv --top 3", "--cells"),
        ("score t.npb p.csv --cells --top 0", "0"),
        ("simulate t.npb -n 0", "0"),
        (
            "simulate m.npb -n 3 --given age=40 --given marker=2 --given town=Oslo",
            "leave a column out",
        ),
        ("similar m.npb p.csv --row p3", "table"),
        (
            "similar t.npb p.csv --row p3 --column price",
            "--column price: there is no such column",
        ),
        ("clusters m.npb p.csv", "table"),
        (
            "clusters t.npb p.csv --column price",
            "--column price: there is no such column",
        ),
        (
            "dependence t.npb p.csv --given price",
            "--given price: there is no such column",
        ),
        (
            "simulate t.npb -n 3 --given age=40 --given marker=2 --given town=Oslo --given ill=no",
            "leave a column out",
        ),
    ] {
        let error = folder.fails(question, 2);
        assert!(error.contains(words), "{question}: {error}");
    }
    folder.write("few.csv", patients(0..7));
    for (question, words) in [
        (
            "similar t.npb p.csv --row p99",
            "--row p99: no row of this name in column \"id\"",
        ),
        (
            "similar t.npb few.csv --row p3",
            "has 7 rows, the table of the fit had 60",
        ),
        (
            "clusters t.npb few.csv",
            "has 7 rows, the table of the fit had 60",
        ),
        (
            "dependence t.npb p.csv --given age --given ill --given town",
            "so that two are left",
        ),
    ] {
        let error = folder.fails(question, 3);
        assert!(error.contains(words), "{question}: {error}");
    }
    // A file without rows has the columns of its answers.
    folder.write("none.csv", "id,age,marker,town,ill\n");
    for question in [
        "score t.npb none.csv",
        "score t.npb none.csv --cells",
        "score m.npb none.csv --cells",
        "predict m.npb none.csv --target town",
        "predict t.npb none.csv --target town",
    ] {
        assert_eq!(
            folder.npb(&format!("-q {question}")).lines().count(),
            1,
            "{question}"
        );
    }
}
