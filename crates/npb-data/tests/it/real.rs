//! Counts of real files, as their descriptions state them. Needs `NPB_DATA_DIR`.

use npb_data::read::{
    self, Column, DelimitedOptions, Encoding, MovieLens, ReadingRules, Separator, movielens,
};
use npb_data::schema::{Kind, Role, Schema, SchemaGuess};
use npb_data::{ColumnKind, Labels, MixedColumn, MixedTable, Ratings, Split, Table, splits};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The data folder, or `None` after saying so.
fn data_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("NPB_DATA_DIR");
    if dir.is_none() {
        eprintln!("not run: NPB_DATA_DIR is not set");
    }
    dir.map(PathBuf::from)
}

/// A file of the data folder, unpacked when its name ends in `.gz`.
fn open(dir: &Path, name: &str) -> Box<dyn Read> {
    let file = File::open(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    if name.ends_with(".gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    }
}

fn labelled(
    dir: &Path,
    name: &str,
    label: impl Into<Column>,
    options: &DelimitedOptions,
) -> (Table, Labels) {
    read::labelled_table(name, open(dir, name), &label.into(), options)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn no_header() -> DelimitedOptions {
    DelimitedOptions {
        header: false,
        ..DelimitedOptions::default()
    }
}

#[test]
fn ionosphere_and_wdbc_with_their_given_masks_and_splits() {
    let Some(dir) = data_dir() else { return };
    let (ionosphere, labels) = labelled(&dir, "ionosphere/ionosphere.data", 34, &no_header());
    assert_eq!(
        (
            ionosphere.n_rows(),
            ionosphere.n_cols(),
            ionosphere.n_missing()
        ),
        (351, 34, 0)
    );
    assert_eq!(
        (labels.classes(), labels.counts()),
        (&["b".to_owned(), "g".to_owned()][..], vec![126, 225])
    );
    check_given(&dir, "ionosphere", &ionosphere, &labels, "g");
    let without_id = DelimitedOptions {
        skip: vec![0.into()],
        ..no_header()
    };
    let (wdbc, labels) = labelled(&dir, "wdbc/wdbc.data", 1, &without_id);
    assert_eq!(
        (wdbc.n_rows(), wdbc.n_cols(), wdbc.n_missing()),
        (569, 30, 0)
    );
    assert_eq!(labels.counts(), [357, 212]);
    check_given(&dir, "wdbc", &wdbc, &labels, "M");
}

fn check_given(dir: &Path, name: &str, table: &Table, labels: &Labels, positive: &str) {
    let (n_rows, n_cols) = (table.n_rows(), table.n_cols());
    let file = format!("{name}/splits/masks.txt");
    let masks = read::given_masks(&file, open(dir, &file), n_rows, n_cols)
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(masks.len(), 20);
    for mask in &masks {
        let expected = (mask.key[0] * (n_rows * n_cols) as f64).round_ties_even() as usize;
        assert_eq!(
            table.hide(&mask.missing).expect("same shape").n_missing(),
            expected
        );
    }
    let file = format!("{name}/splits/splits.txt");
    let splits = read::given_splits(&file, open(dir, &file)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(splits.len(), 100);
    let positive = labels.binary(positive).expect("two classes");
    for given in &splits {
        let mask = masks
            .iter()
            .find(|m| m.key == [given.key[0], given.key[2]])
            .expect("a mask for every split");
        let (kept, _) = table
            .hide(&mask.missing)
            .expect("same shape")
            .drop_empty_rows();
        let (train, test) = (&given.split.train, &given.split.test);
        assert_eq!(train.len() + test.len(), kept.n_rows());
        assert_eq!(
            train.len(),
            (given.key[1] * kept.n_rows() as f64).round_ties_even() as usize
        );
        for side in [train, test] {
            assert!(
                side.iter().any(|&i| positive[i] == Some(true))
                    && side.iter().any(|&i| positive[i] == Some(false))
            );
        }
    }
}

/// Ten trials of three sizes for each of the 19 tasks, one character per row of the task.
#[test]
fn landmine_splits_fit_their_tasks() {
    let Some(dir) = data_dir() else { return };
    let (fields, task_of) = labelled(
        &dir,
        "landmine/landmine.csv.gz",
        "task",
        &DelimitedOptions::default(),
    );
    assert_eq!((fields.n_rows(), fields.n_cols()), (14_820, 10));
    let file = "landmine/splits/splits.txt.gz";
    let given = read::given_splits(file, open(&dir, file)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(given.len(), 3 * 10 * 19);
    let tasks: Vec<usize> = (1..=10).chain(16..=24).collect();
    let rows_of: Vec<Vec<usize>> = tasks
        .iter()
        .map(|task| {
            let is_of_task = task_of.one_against_rest(&task.to_string()).expect("a task");
            (0..fields.n_rows())
                .filter(|&i| is_of_task[i] == Some(true))
                .collect()
        })
        .collect();
    assert_eq!(rows_of.iter().map(Vec::len).sum::<usize>(), 9674);
    for split in &given {
        let [n_train, trial, task] = split.key[..] else {
            panic!("{:?}", split.key)
        };
        let rows = &rows_of[task as usize - 1];
        assert_eq!(split.n_rows, rows.len());
        assert_eq!(split.split.train.len(), n_train as usize);
        assert_eq!(
            split.split.test.len(),
            rows.len() - n_train as usize,
            "no row is left out"
        );
        assert!((0.0..10.0).contains(&trial));
    }
    let label = fields.column_index("label").expect("a column");
    let mines = rows_of
        .iter()
        .flatten()
        .filter(|&&i| fields.row(i)[label] == 1.0);
    assert_eq!(mines.count(), 585);
}

#[test]
fn small_tables_with_natural_gaps() {
    let Some(dir) = data_dir() else { return };
    let (table, labels) = labelled(
        &dir,
        "mammographic/mammographic_masses.data",
        5,
        &no_header(),
    );
    assert_eq!(
        (table.n_rows(), table.n_cols(), table.n_missing()),
        (961, 5, 162)
    );
    assert_eq!(labels.counts(), [516, 445]);
    let observed: Vec<usize> = table
        .column_stats()
        .iter()
        .map(|s| 961 - s.n_observed)
        .collect();
    assert_eq!(observed, [2, 5, 31, 48, 76]);
    let complete = table
        .patterns()
        .iter()
        .filter(|p| p.missing.is_empty())
        .map(|p| p.rows.len())
        .sum::<usize>();
    assert_eq!(complete, 830);

    let (table, labels) = labelled(&dir, "hepatitis/hepatitis.data", 0, &no_header());
    assert_eq!(
        (table.n_rows(), table.n_cols(), table.n_missing()),
        (155, 19, 167)
    );
    assert_eq!(
        (labels.classes(), labels.counts()),
        (&["1".to_owned(), "2".to_owned()][..], vec![32, 123])
    );

    let blanks = DelimitedOptions {
        separator: Separator::Blanks,
        ..no_header()
    };
    for (name, n_rows, n_missing, counts) in [
        ("horse-colic/horse-colic.data", 300, 1605, [191, 109]),
        ("horse-colic/horse-colic.test", 68, 322, [41, 27]),
    ] {
        let (table, labels) = labelled(&dir, name, 23, &blanks);
        assert_eq!(
            (table.n_rows(), table.n_cols(), table.n_missing()),
            (n_rows, 27, n_missing)
        );
        assert_eq!(labels.counts(), counts);
    }

    let (table, labels) = labelled(&dir, "segment/segment.csv", 0, &DelimitedOptions::default());
    assert_eq!(
        (table.n_rows(), table.n_cols(), table.n_missing()),
        (2310, 19, 0)
    );
    assert_eq!(labels.counts(), [330; 7]);
    let count = table
        .column_index("REGION-PIXEL-COUNT")
        .expect("a column of that name");
    let stats = table.column_stats()[count];
    assert_eq!((stats.min, stats.max, stats.sd), (9.0, 9.0, 0.0));
}

#[test]
fn heart_disease() {
    let Some(dir) = data_dir() else { return };
    let sites = [
        ("cleveland", 303, 6, vec![164, 55, 36, 35, 13]),
        ("switzerland", 123, 273, vec![8, 48, 32, 30, 5]),
        ("va", 200, 698, vec![51, 56, 41, 42, 10]),
        ("hungarian", 294, 782, vec![188, 106]),
    ];
    for (site, n_rows, n_missing, counts) in sites {
        let (table, labels) = labelled(
            &dir,
            &format!("heart-disease/processed.{site}.data"),
            13,
            &no_header(),
        );
        assert_eq!(
            (table.n_rows(), table.n_cols(), table.n_missing()),
            (n_rows, 13, n_missing),
            "{site}"
        );
        assert_eq!(labels.counts(), counts, "{site}");
    }
}

#[test]
fn mice_by_mouse() {
    let Some(dir) = data_dir() else { return };
    let name = "mice-protein/Data_Cortex_Nuclear.csv";
    let skip = ["MouseID", "Genotype", "Treatment", "Behavior"]
        .map(Column::from)
        .to_vec();
    let options = DelimitedOptions {
        skip,
        ..DelimitedOptions::default()
    };
    let (table, labels) = labelled(&dir, name, "class", &options);
    assert_eq!(
        (table.n_rows(), table.n_cols(), table.n_missing()),
        (1080, 77, 1396)
    );
    assert_eq!(
        (labels.n_classes(), labels.counts().into_iter().max()),
        (8, Some(150))
    );
    let strings = read::delimited_strings(name, open(&dir, name), &DelimitedOptions::default())
        .expect("valid");
    let mouse = |row: &Vec<Option<String>>| {
        row[0]
            .as_deref()
            .and_then(|id| id.split('_').next())
            .map(str::to_owned)
    };
    let mice: Vec<Option<String>> = strings.rows.iter().map(mouse).collect();
    let split = splits::grouped(&mice, 0.5, &mut crate::rng(1)).expect("72 mice");
    assert_eq!(
        (split.train.len(), split.test.len()),
        (540, 540),
        "15 rows for each of 72 mice"
    );
}

#[test]
fn yeast() {
    let Some(dir) = data_dir() else { return };
    let mut positives = vec![0; 14];
    for (name, n_rows) in [
        ("yeast/yeast-train.arff", 1500),
        ("yeast/yeast-test.arff", 917),
    ] {
        let table = read::arff(name, open(&dir, name))
            .unwrap_or_else(|e| panic!("{e}"))
            .table;
        assert_eq!(
            (table.n_rows(), table.n_cols(), table.n_missing()),
            (n_rows, 117, 0)
        );
        let features = table
            .numeric_table(&(0..103).collect::<Vec<_>>())
            .expect("numbers");
        assert_eq!(
            (features.column_names()[102].as_str(), features.n_missing()),
            ("Att103", 0)
        );
        for (k, count) in positives.iter_mut().enumerate() {
            let MixedColumn::Binary { levels, values } = table.column(103 + k) else {
                panic!("two levels")
            };
            assert_eq!(levels, &["0", "1"]);
            *count += values.iter().filter(|v| **v == Some(true)).count();
        }
    }
    assert_eq!(
        positives,
        [
            762, 1038, 983, 862, 722, 597, 428, 480, 178, 253, 289, 1816, 1799, 34
        ]
    );
}

fn histogram(ratings: &Ratings) -> Vec<usize> {
    (1..=5)
        .map(|stars| {
            ratings
                .values()
                .iter()
                .filter(|&&v| v == f64::from(stars))
                .count()
        })
        .collect()
}

#[test]
fn movielens_100k() {
    let Some(dir) = data_dir() else { return };
    let read_tab = |name: &str| {
        movielens(name, open(&dir, name), MovieLens::Tab).unwrap_or_else(|e| panic!("{e}"))
    };
    let file = read_tab("movielens-100k/u.data");
    let ratings = file.ratings().expect("valid");
    assert_eq!(
        (ratings.n_rows(), ratings.n_cols(), ratings.n_observed()),
        (943, 1682, 100_000)
    );
    assert_eq!(histogram(&ratings), [6110, 11_370, 27_145, 34_174, 21_201]);
    for (part, n) in [("u1.base", 80_000), ("u1.test", 20_000), ("ua.test", 9430)] {
        assert_eq!(read_tab(&format!("movielens-100k/{part}")).entries.len(), n);
    }
    let items = DelimitedOptions {
        separator: Separator::Char('|'),
        encoding: Encoding::Latin1,
        quote: None,
        ..no_header()
    };
    let items = read::delimited_strings("u.item", open(&dir, "movielens-100k/u.item"), &items)
        .expect("valid");
    assert_eq!((items.rows.len(), items.column_names.len()), (1682, 24));
}

#[test]
fn movielens_1m() {
    let Some(dir) = data_dir() else { return };
    let name = "movielens-1m/ratings_no_timestamp.dat.gz";
    let file =
        movielens(name, open(&dir, name), MovieLens::DoubleColon).unwrap_or_else(|e| panic!("{e}"));
    let ratings = file.ratings().expect("valid");
    assert_eq!(
        (ratings.n_rows(), ratings.n_cols(), ratings.n_observed()),
        (6040, 3706, 1_000_209)
    );
    assert_eq!(
        histogram(&ratings),
        [56_174, 107_557, 261_197, 348_971, 226_310]
    );
    assert!((ratings.mean().expect("ratings") - 3.581_564).abs() < 5e-7);
    assert!((0..6040).all(|user| ratings.row(user).0.len() >= 20));
    for (part, n) in [
        ("rand90_test_rows", 100_021),
        ("one_per_user_test_rows", 6040),
    ] {
        let part = format!("movielens-1m/splits/{part}.txt.gz");
        let rows = read::row_numbers(&part, open(&dir, &part)).unwrap_or_else(|e| panic!("{e}"));
        let split = Split::from_test_rows(file.entries.len(), &rows).expect("rows of the file");
        assert_eq!((split.test.len(), split.train.len()), (n, 1_000_209 - n));
        assert_eq!(file.select(&split.test).expect("distinct").n_observed(), n);
    }
    let movies = DelimitedOptions {
        separator: Separator::Text("::".into()),
        encoding: Encoding::Latin1,
        ..no_header()
    };
    let movies =
        read::delimited_strings("movies.dat", open(&dir, "movielens-1m/movies.dat"), &movies)
            .expect("valid");
    assert_eq!((movies.rows.len(), movies.column_names.len()), (3883, 3));
}

/// A file by the schema that it suggests, identifiers included.
fn as_guessed(dir: &Path, name: &str, options: &DelimitedOptions) -> (Schema, MixedTable) {
    let file = || File::open(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let guess = Schema::guess(name, file(), options).unwrap_or_else(|e| panic!("{e}"));
    let mut schema = guess.schema.clone();
    for column in schema
        .columns
        .iter_mut()
        .filter(|c| c.kind == Kind::Identifier)
    {
        (column.kind, column.role) = (Kind::Real, Role::Feature);
    }
    let rules = ReadingRules {
        layout: options.clone(),
        ..ReadingRules::default()
    };
    let read = read::with_schema(name, file(), &schema, &rules).unwrap_or_else(|e| panic!("{e}"));
    (guess.schema, read.0.features)
}

#[test]
fn mixed_tables() {
    let Some(dir) = data_dir() else { return };
    let name = "ames-housing/AmesHousing.csv";
    let (schema, ames) = as_guessed(&dir, name, &DelimitedOptions::default());
    assert_eq!(
        (ames.n_rows(), ames.n_cols(), ames.n_missing()),
        (2930, 82, 13_278 + 719)
    );
    let left_out = schema.with_role(Role::Ignored).map(|c| c.name.as_str());
    assert_eq!(left_out.collect::<Vec<_>>(), ["Order", "PID"]);
    let missing = |name: &str| {
        ames.column(ames.column_index(name).expect("a column"))
            .n_missing()
    };
    assert_eq!(
        (
            missing("Lot Frontage"),
            missing("Pool QC"),
            missing("Garage Cars")
        ),
        (490, 2917, 1)
    );
    let numeric = ames
        .columns()
        .iter()
        .filter(|c| [ColumnKind::Real, ColumnKind::Count].contains(&c.kind()));
    assert_eq!(
        numeric.count(),
        33,
        "39 columns hold only numbers, one of them codes, five of them grades or few and seldom apart"
    );
    assert!(matches!(
        ames.column(ames.column_index("Street").expect("a column")),
        MixedColumn::Binary { .. }
    ));

    for (name, n_rows, incomplete, missing) in [
        ("adult/adult.data.gz", 32_561, 2399, 1836 + 1843 + 583),
        ("adult/adult.test.gz", 16_281, 1221, 963 + 966 + 274),
    ] {
        let (_, adult) = as_guessed(&dir, name, &no_header());
        assert_eq!(
            (adult.n_rows(), adult.n_cols(), adult.n_missing()),
            (n_rows, 15, missing)
        );
        let gaps = (0..n_rows)
            .filter(|&i| (0..15).any(|j| !adult.is_observed(i, j)))
            .count();
        assert_eq!(gaps, incomplete);
        let income = adult.labels(14).expect("two levels").counts();
        assert_eq!(
            income,
            if n_rows == 32_561 {
                [24_720, 7841]
            } else {
                [12_435, 3846]
            }
        );
    }
}

#[test]
fn mixed_tables_and_what_their_columns_measure() {
    use npb_data::Measure::{Binary, Categorical, Count, Ordinal, Positive, Real};
    let Some(dir) = data_dir() else { return };
    let guessed = |name: &str, options: &DelimitedOptions| {
        Schema::guess(name, open(&dir, name), options).unwrap_or_else(|e| panic!("{e}"))
    };
    let measure = |guess: &SchemaGuess, j: usize| guess.schema.columns[j].measure();
    let adult = guessed("adult/adult.data.gz", &no_header());
    assert_eq!(adult.n_rows, 32_561);
    let measures: Vec<_> = (0..15).map(|j| measure(&adult, j)).collect();
    let (c, k) = (Categorical, Count);
    assert_eq!(measures[..7], [k, c, Positive, c, k, c, c]);
    assert_eq!(measures[7..], [c, c, Binary, Real, Real, k, c, Binary]);
    let ames = guessed("ames-housing/AmesHousing.csv", &DelimitedOptions::default());
    let of = |name: &str| &ames.schema.columns[ames.schema.position(name).expect("a column")];
    assert_eq!(of("Order").role, Role::Ignored);
    assert_eq!(of("MS SubClass").measure(), Categorical);
    assert_eq!(
        [of("SalePrice").measure(), of("Bedroom AbvGr").measure()],
        [Positive, Count]
    );
    let heart = guessed("heart-disease/processed.cleveland.data", &no_header());
    let n_missing: usize = heart
        .guesses
        .iter()
        .map(|g| heart.n_rows - g.n_observed)
        .sum();
    assert_eq!(n_missing, 6);
    // A nominal code; what speaks for levels does not speak for their order.
    assert_eq!(measure(&heart, 2), Ordinal, "chest pain, coded 1 to 4");
    assert!(
        heart.guesses[2]
            .others
            .iter()
            .any(|other| other.measure() == Categorical)
    );
}
