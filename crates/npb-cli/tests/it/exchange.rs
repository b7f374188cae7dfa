//! Models from models, records of runs, pages for `man`.

use npb_bsvd::BsvdFit;
use npb_data::{Labels, Table};
use npb_iqgme::{IqgmeConfig, Saved};
use npb_itf::ItfFit;
use serde_json::Value;

use crate::fits::{RATINGS, SMALL, TABLE, classifier, patients, stars};
use crate::{Folder, cells, errors};

fn exported(folder: &Folder, model: &str) -> Vec<u8> {
    folder.npb(&format!("export {model} -o fit.bin"));
    std::fs::read(folder.path("fit.bin")).expect("a file")
}

#[test]
fn fits_of_other_seeds_are_merged() {
    let folder = Folder::new("merge");
    folder.write("r.csv", stars());
    let short = "--set sweeps.burn_in=10 --set sweeps.keep=20 -q";
    let places = "fit ratings r.csv --row user --column film --value stars --set candidates=5";
    for seed in [1, 2] {
        folder.npb(&format!("{places} {short} --seed {seed} -o c{seed}.npb"));
    }
    folder.npb("merge c1.npb c2.npb -o all.npb");
    let fit = |model: &str| BsvdFit::from_bytes(&exported(&folder, model)).expect("a fit");
    let pooled = BsvdFit::pooled(vec![fit("c1.npb"), fit("c2.npb")]).expect("alike");
    assert!(fit("all.npb") == pooled);
    assert_eq!(
        fit("all.npb").draws().len(),
        2 * fit("c1.npb").draws().len()
    );
    assert_eq!(
        cells(&folder.npb("recommend all.npb --row u1 --top 3")).len(),
        4
    );
    let error = folder.fails("merge c1.npb c1.npb -o twice.npb", 2);
    assert!(error.contains("the same seed"), "{error}");
    folder.npb(&format!("{RATINGS} {short} --set rank_a=3.5 -o other.npb"));
    let error = folder.fails("merge c1.npb other.npb -o twice.npb", 3);
    assert!(error.contains("another configuration"), "{error}");
    folder.fails("merge c1.npb -o twice.npb", 2);

    folder.write("p.csv", patients(0..50));
    for seed in [1, 2] {
        folder.npb(&format!(
            "fit table p.csv --id id {TABLE} -q --seed {seed} -o t{seed}.npb"
        ));
    }
    folder.npb("merge t1.npb t2.npb -o t.npb");
    let fit = ItfFit::from_bytes(&exported(&folder, "t.npb")).expect("a fit");
    assert_eq!(
        (fit.chains().len(), fit.draws().len(), fit.config().chains),
        (2, 40, 2)
    );
    assert!(folder.npb("diagnose t.npb").contains("rhat"));
    let error = folder.fails("merge t1.npb c1.npb -o twice.npb", 3);
    assert!(error.contains("c1.npb: is not of the kind"), "{error}");
    assert!(!folder.exists("twice.npb"));
}

#[test]
fn a_fit_of_the_library_is_asked_by_the_command_line() {
    let folder = classifier("import");
    let here = folder.npb("predict p.npb patients.csv");
    folder.npb("export p.npb -o fit.bin");
    folder.npb("export p.npb --part schema -o s.toml");
    let error = folder.fails("predict fit.bin patients.csv", 3);
    assert!(error.contains("npb import"), "{error}");
    folder.npb("import fit.bin --schema s.toml -o back.npb");
    assert_eq!(folder.npb("predict back.npb patients.csv"), here);
    folder.write(
        "narrow.toml",
        "columns = [{ name = \"age\", kind = \"real\" }]",
    );
    let error = folder.fails("import fit.bin --schema narrow.toml -o bad.npb", 3);
    assert!(error.contains("the schema makes \"age\""), "{error}");
    folder.fails("import p.npb -o bad.npb", 2);
    folder.fails("import patients.csv -o bad.npb", 3);
    assert!(!folder.exists("bad.npb"));

    // Fitted and saved by a program, without any schema: columns go by their names.
    let values: Vec<f64> = (0..80)
        .map(|k| f64::from(k * 37 % 23) / 10.0 + if k % 4 < 2 { 4.0 } else { 0.0 })
        .collect();
    let table = Table::from_nan_coded(40, 2, &values).expect("a table");
    let table = table.with_column_names(["u", "v"]).expect("names");
    let labels: Vec<Option<&str>> = (0..40).map(|i| Some(["a", "b"][i % 2])).collect();
    let config = IqgmeConfig {
        restarts: 1,
        folds: 2,
        ..IqgmeConfig::default()
    };
    let fit = npb_iqgme::fit(&table, &Labels::from_strings(&labels), &config).expect("a fit");
    fit.save(folder.path("own.bin")).expect("saved");
    folder.npb("import own.bin -o own.npb");
    let lines = values
        .chunks(2)
        .map(|row| format!("{},{}\n", row[1], row[0]));
    folder.write("new.csv", "v,u\n".to_owned() + &lines.collect::<String>());
    let asked = cells(&folder.npb("predict own.npb new.csv"));
    for (row, expected) in asked[1..]
        .iter()
        .zip(fit.predict_classes(&table).expect("classes"))
    {
        assert_eq!(row[3].parse::<f64>().expect("a number"), expected[1]);
    }
}

#[test]
fn groups_of_columns_in_the_settings_count() {
    let folder = Folder::new("table-groups");
    let line = |i: u32| {
        let side = f64::from(i % 2) * 6.0;
        let wave = f64::from(i * 37 % 19) / 10.0;
        format!(
            "{},{},{}\n",
            side + wave,
            side - 2.0 * wave,
            f64::from(i * 13 % 11) / 7.0
        )
    };
    folder.write(
        "a.csv",
        "x,y,z\n".to_owned() + &(0..60).map(line).collect::<String>(),
    );
    folder.write("c.toml", "groups = \"off\"\n");
    folder.npb(&format!(
        "fit table a.csv {TABLE} -q --config c.toml -o off.npb"
    ));
    folder.write("c.toml", "[groups]\ngiven = [[\"x\", \"y\"]]\n");
    folder.npb(&format!(
        "fit table a.csv {TABLE} -q --config c.toml -o given.npb"
    ));
    let fit = |model: &str| ItfFit::from_bytes(&exported(&folder, model)).expect("a fit");
    assert!(fit("off.npb").groups().is_empty());
    assert_eq!(fit("given.npb").groups(), [["x", "y"]]);
    assert_ne!(folder.npb("impute off.npb a.csv --draws 1"), "");
    folder.write("hole.csv", "x,y,z\n6.5,,0.3\n0.4,,0.3\n");
    assert_ne!(
        folder.npb("impute off.npb hole.csv"),
        folder.npb("impute given.npb hole.csv")
    );
    folder.write("c.toml", "[groups]\ngiven = [[\"x\", \"w\"]]\n");
    let error = folder.fails(
        &format!("fit table a.csv {TABLE} --config c.toml -o no.npb"),
        3,
    );
    assert!(error.contains('w'), "{error}");
}

#[test]
fn runs_are_recorded_and_progress_is_told() {
    let folder = Folder::new("record");
    folder.write("p.csv", patients(0..60));
    let output = folder.run(&format!(
        "fit classifier p.csv --label ill --id id --seed 7 {SMALL} --record run.json --progress json -o p.npb"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let told: Vec<Value> = errors(&output)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let share = |line: &Value| line["share"].as_f64().expect("a share");
    assert!(told.len() > 3 && told.windows(2).all(|w| share(&w[0]) <= share(&w[1])));
    assert_eq!(share(&told[told.len() - 1]), 1.0);
    let record: Value = serde_json::from_str(&folder.read("run.json")).expect("json");
    assert_eq!(record["seed"], 7);
    assert_eq!(record["npb"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["settings"]["restarts"], 1);
    assert!(
        record["diagnostics"]
            .as_array()
            .is_some_and(|rows| rows.len() > 1)
    );
    assert_eq!(record["schema"]["columns"][0]["role"], "row_id");
    assert!(record["seconds"].as_f64() > Some(0.0));
}

#[test]
fn man_pages_are_made() {
    let folder = Folder::new("man");
    folder.npb("man -o pages");
    let page = |name: &str| folder.read(&format!("pages/{name}"));
    assert!(page("npb.1").contains("recommend"));
    assert!(page("npb-fit-classifier.1").contains("label"));
}
