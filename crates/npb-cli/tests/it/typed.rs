//! Files whose columns have types: Parquet, Arrow, .npy.

use crate::{Folder, cells};

/// Two clusters, with holes, a level and a date.
fn table() -> String {
    let mut text = "who,x,y,town,seen\n".to_owned();
    for i in 0..60 {
        let side = f64::from(i % 2) * 4.0;
        let wave = f64::from(i * 37 % 19) / 10.0;
        let y = match i % 5 {
            0 => String::new(),
            _ => format!("{}", side - wave),
        };
        let town = ["Oslo", "Bergen"][(i % 2) as usize];
        text += &format!(
            "p{i},{},{y},{town},2024-03-{:02}\n",
            side + wave,
            1 + i % 28
        );
    }
    text
}

#[test]
fn parquet_and_arrow_are_read_as_text_is() {
    let folder = Folder::new("typed");
    folder.write("a.csv", table());
    folder.npb("fit mixture a.csv --id who --seed 1 -q -o m.npb");
    let filled = folder.npb("impute m.npb a.csv -q");
    folder.npb("impute m.npb a.csv -q -o filled.parquet");
    folder.npb("impute m.npb a.csv -q -o filled.arrow");
    for file in ["filled.parquet", "filled.arrow"] {
        // Filled files are files again, with the same cells.
        assert_eq!(
            folder.npb(&format!("impute m.npb {file} -q")),
            filled,
            "{file}"
        );
        let schema = folder.npb(&format!("schema {file}"));
        assert!(
            schema.contains("kind = \"date\"") && schema.contains("\"Bergen\""),
            "{schema}"
        );
    }
    // A fit of the same data is the same fit.
    folder.write("filled.csv", &filled);
    for file in ["filled.csv", "filled.parquet", "filled.arrow"] {
        folder.npb(&format!(
            "fit mixture {file} --id who --seed 1 -q -o {file}.npb"
        ));
        folder.npb(&format!("export {file}.npb -o {file}.bin"));
    }
    let bits = |file: &str| std::fs::read(folder.path(file)).expect("a fit");
    assert_eq!(bits("filled.csv.bin"), bits("filled.parquet.bin"));
    assert_eq!(bits("filled.csv.bin"), bits("filled.arrow.bin"));
    let json = folder.npb("score m.npb filled.parquet -q --format json");
    assert!(
        json.starts_with("[\n  {\"who\": \"p0\", \"ln_density\": "),
        "{json}"
    );
    std::fs::write(folder.path("cut.parquet"), &bits("filled.parquet")[..200]).expect("a file");
    let error = folder.fails("score m.npb cut.parquet", 3);
    assert!(error.contains("cut.parquet: cannot read"), "{error}");
}

#[test]
fn ratings_and_matrices_may_be_typed() {
    let folder = Folder::new("typed-ratings");
    let mut text = "user,film,stars\n".to_owned();
    for i in 0..200 {
        text += &format!("{},f{},{}\n", i % 20, i * 7 % 13, 1 + (i * 3 + i / 20) % 5);
    }
    let mut seen = std::collections::HashSet::new();
    let text: String = text
        .lines()
        .filter(|line| seen.insert(line.rsplit_once(',').expect("cells").0.to_owned()))
        .map(|line| format!("{line}\n"))
        .collect();
    folder.write("r.csv", &text);
    folder.write("de.csv", text.replace(",", ";"));
    let places =
        "--row user --column film --value stars --set sweeps.burn_in=5 --set sweeps.keep=10 -q";
    folder.npb(&format!("fit ratings r.csv {places} -o r.npb"));
    folder.npb(&format!(
        "fit ratings de.csv {places} --separator ; --decimal , -o de.npb"
    ));
    let predicted = folder.npb("predict r.npb r.csv -q");
    assert_eq!(cells(&predicted).len(), text.lines().count());
    folder.npb("predict r.npb r.csv -q -o p.parquet");
    let again = folder.npb("predict de.npb p.parquet -q");
    assert_eq!(again, predicted);

    let values: Vec<f32> = (0..80)
        .map(|k| (k * 37 % 23) as f32 + if k % 4 < 2 { 40.0 } else { 0.0 })
        .collect();
    let mut npy = Vec::new();
    npb_data::write_npy(&mut npy, &[40, 2], values.iter().copied()).expect("written");
    folder.write("x.npy", npy);
    folder.npb("fit mixture x.npy --seed 2 -q -o x.npb");
    let lines: Vec<String> = values
        .chunks(2)
        .map(|row| format!("{},{}", row[0], row[1]))
        .collect();
    folder.write("x.csv", format!("x0,x1\n{}\n", lines.join("\n")));
    assert_eq!(
        folder.npb("score x.npb x.npy -q"),
        folder.npb("score x.npb x.csv -q")
    );
}
