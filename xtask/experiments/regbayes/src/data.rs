//! The data sets of the large-margin experiments.

use npb_data::read::{self, DelimitedOptions, Encoding};
use npb_data::{Labels, Ratings, Split, Standardiser, Table, Targets, Vocabulary, metrics, splits};
use npb_regbayes::tasks::TaskData;

use npb_kit::{Context, Outcome, Result, Scale, Source};

/// Several labels per row, the standard split; inputs as in the files.
pub(super) struct MultiLabel {
    pub(super) name: &'static str,
    pub(super) train: Table,
    pub(super) test: Table,
    /// Row-major.
    pub(super) train_labels: Vec<bool>,
    pub(super) test_labels: Vec<bool>,
    pub(super) n_labels: usize,
    pub(super) checksums: String,
}

fn without_header() -> DelimitedOptions {
    DelimitedOptions {
        header: false,
        ..DelimitedOptions::default()
    }
}

/// Rows of the smallest scale.
const FEW: usize = 90;

impl MultiLabel {
    /// `yeast` or `scene`; few rows at the smallest scale.
    pub(super) fn load(context: &Context<'_>, name: &'static str) -> Result<Self> {
        let mut source = Source::new(context, name);
        let (n_labels, sides) = match name {
            "yeast" => {
                let mut side = |part: &str| -> Result<Table> {
                    let file = format!("yeast-{part}.arff");
                    let arff = read::arff(&file, source.open(&file)?)?;
                    let all: Vec<usize> = (0..arff.table.n_cols()).collect();
                    Ok(arff.table.numeric_table(&all)?)
                };
                (14, [side("train")?, side("test")?])
            }
            "scene" => {
                let mut side = |part: &str| -> Result<Table> {
                    let file = format!("scene-{part}.csv.gz");
                    Ok(read::table(&file, source.open(&file)?, &without_header())?)
                };
                (6, [side("train")?, side("test")?])
            }
            other => return Err(format!("{other} is no multi-label data set").into()),
        };
        let most = context.scale.smoke_or(FEW, usize::MAX);
        let [train, test] = sides.map(|side| {
            let n = side.n_rows().min(most);
            side.select_rows(&(0..n).collect::<Vec<_>>())
        });
        let part = |side: &Table| -> Result<(Table, Vec<bool>)> {
            let p = side.n_cols() - n_labels;
            let labels = (0..side.n_rows()).flat_map(|i| side.row(i)[p..].iter().map(|&y| y > 0.5));
            let inputs = side.select_columns(&(0..p).collect::<Vec<_>>())?;
            Ok((inputs, labels.collect()))
        };
        let ((train, train_labels), (test, test_labels)) = (part(&train)?, part(&test)?);
        Ok(Self {
            name,
            train,
            test,
            train_labels,
            test_labels,
            n_labels,
            checksums: source.checksums,
        })
    }

    /// Training rows with their labels.
    pub(super) fn tasks(&self) -> Result<TaskData> {
        let names = (0..self.n_labels).map(|l| format!("label{l}"));
        let known: Vec<Option<bool>> = self.train_labels.iter().map(|&y| Some(y)).collect();
        let targets = Targets::from_bools(names, &known)?;
        Ok(TaskData::from_targets(self.train.clone(), &targets)?)
    }

    /// Labels of some training rows, row-major.
    pub(super) fn labels_of(&self, rows: &[usize]) -> Vec<bool> {
        let l = self.n_labels;
        let of_row = |&i: &usize| self.train_labels[i * l..(i + 1) * l].iter().copied();
        rows.iter().flat_map(of_row).collect()
    }
}

/// Two tables standardised by the first.
pub(super) fn standardised(train: &Table, test: &Table) -> Result<(Table, Table)> {
    let standardiser = Standardiser::fit(train);
    Ok((standardiser.apply(train)?, standardiser.apply(test)?))
}

/// Rows of one class each.
pub(super) struct Classes {
    pub(super) inputs: Table,
    pub(super) codes: Vec<usize>,
    pub(super) names: Vec<String>,
    /// One for each trial that has rows of its own, else one.
    pub(super) splits: Vec<Split>,
    pub(super) checksums: String,
}

impl Classes {
    /// `usps` with its standard split, of which the quick scale has the first training rows of each class, or `segment` with
    /// drawn halves.
    pub(super) fn load(context: &Context<'_>, name: &str) -> Result<Self> {
        let mut source = Source::new(context, name);
        match name {
            "usps" => {
                let mut side = |part: &str| -> Result<Table> {
                    let file = format!("usps-{part}.csv.gz");
                    Ok(read::table(&file, source.open(&file)?, &without_header())?)
                };
                let (train, test) = (side("train")?, side("test")?);
                let (most, tested) = context.scale.pick(
                    (80, 60),
                    (1500, test.n_rows()),
                    (train.n_rows(), test.n_rows()),
                );
                let train = train.select_rows(&spread_over(train.n_rows(), most));
                let test = test.select_rows(&spread_over(test.n_rows(), tested));
                let all = train.stack(&test)?;
                let split = Split {
                    train: (0..train.n_rows()).collect(),
                    test: (train.n_rows()..all.n_rows()).collect(),
                };
                Ok(Self {
                    codes: (0..all.n_rows()).map(|i| all.row(i)[0] as usize).collect(),
                    inputs: all.select_columns(&(1..all.n_cols()).collect::<Vec<_>>())?,
                    names: (0..10).map(|digit| digit.to_string()).collect(),
                    splits: vec![split],
                    checksums: source.checksums,
                })
            }
            "segment" => {
                let (inputs, labels) = read::labelled_table(
                    "segment.csv",
                    source.open("segment.csv")?,
                    &read::Column::from("label"),
                    &DelimitedOptions::default(),
                )?;
                let codes = labels.all_codes()?;
                let (share, trials) = context.scale.smoke_or((0.05, 1), (0.5, 5));
                let draw = |trial: u64| -> Result<Split> {
                    let rng = &mut npb_infer::stream(context.seed, [trial, 0, 0, 7]);
                    let mut split = splits::stratified(&labels, share, rng)?;
                    if context.scale == Scale::Smoke {
                        split.test.truncate(200);
                    }
                    Ok(split)
                };
                Ok(Self {
                    splits: (0..trials).map(draw).collect::<Result<_>>()?,
                    inputs,
                    codes,
                    names: labels.classes().to_vec(),
                    checksums: source.checksums,
                })
            }
            other => Err(format!("{other} is no data set of classes").into()),
        }
    }

    /// Labels of some rows; those after the first `known` have none.
    pub(super) fn labels(&self, rows: &[usize], known: usize) -> Result<Labels> {
        let code = |(place, &i): (usize, &usize)| (place < known).then_some(self.codes[i]);
        let codes = rows.iter().enumerate().map(code).collect();
        Ok(Labels::from_codes(self.names.clone(), codes)?)
    }
}

/// Film reviews as tokens with their ratings.
pub(super) struct Reviews {
    pub(super) documents: Vec<Vec<String>>,
    pub(super) ratings: Vec<f64>,
    pub(super) checksums: String,
}

impl Reviews {
    pub(super) fn load(context: &Context<'_>) -> Result<Self> {
        let mut source = Source::new(context, "movie-review");
        let (mut documents, mut ratings) = (Vec::new(), Vec::new());
        let critics = [
            "Dennis+Schwartz",
            "James+Berardinelli",
            "Scott+Renshaw",
            "Steve+Rhodes",
        ];
        let most = context.scale.smoke_or(40, usize::MAX);
        for critic in critics {
            let file = format!("subj.{critic}.gz");
            let texts = read::tokens(&file, source.open(&file)?, Encoding::Utf8)?;
            let file = format!("rating.{critic}");
            let values = read::table(&file, source.open(&file)?, &without_header())?;
            if texts.len() != values.n_rows() {
                let (n, m) = (texts.len(), values.n_rows());
                return Err(format!("{critic}: {n} reviews and {m} ratings").into());
            }
            documents.extend(texts.into_iter().take(most));
            ratings.extend((0..values.n_rows()).take(most).map(|i| values.row(i)[0]));
        }
        Ok(Self {
            documents,
            ratings,
            checksums: source.checksums,
        })
    }

    /// Tokens and ratings of some reviews.
    pub(super) fn part(&self, rows: &[usize]) -> (Vec<Vec<String>>, Vec<f64>) {
        let of_row = |&i: &usize| (self.documents[i].clone(), self.ratings[i]);
        rows.iter().map(of_row).unzip()
    }
}

/// Words of letters in at least five of the documents and in at most a quarter of them: the rest is punctuation, names and glue.
pub(super) fn vocabulary(documents: &[Vec<String>]) -> Result<Vocabulary> {
    let found = Vocabulary::of_documents(documents, 5, 0.25);
    let words = found.words().iter();
    let letters = |word: &&String| word.len() > 1 && word.chars().all(char::is_alphabetic);
    Ok(Vocabulary::new(words.filter(letters).cloned().collect())?)
}

/// Posts in news groups as bags of words.
pub(super) struct News {
    pub(super) train: Ratings,
    pub(super) test: Ratings,
    pub(super) train_codes: Vec<usize>,
    pub(super) test_codes: Vec<usize>,
    pub(super) groups: Vec<String>,
    pub(super) checksums: String,
}

/// The two groups of the binary task, as MedLDA's and DiscLDA's papers have it.
pub(super) const RELIGION: [&str; 2] = ["alt.atheism", "talk.religion.misc"];

impl News {
    /// Posts of the given groups, or of all; words that at least `min_documents` and at most a quarter of their training posts
    /// hold.
    pub(super) fn load(
        context: &Context<'_>,
        groups: Option<&[&str]>,
        min_documents: usize,
    ) -> Result<Self> {
        let mut source = Source::new(context, "20newsgroups");
        let column = |rows: &[Vec<String>]| rows.iter().map(|row| row[0].clone()).collect();
        let file = "20news.classes.txt";
        let all: Vec<String> = column(&read::tokens(file, source.open(file)?, Encoding::Utf8)?);
        let file = "20news.vocab.txt.gz";
        let words: Vec<String> = column(&read::tokens(file, source.open(file)?, Encoding::Utf8)?);
        let chosen: Vec<String> = match groups {
            None => all.clone(),
            Some(groups) => groups.iter().map(|&g| g.to_owned()).collect(),
        };
        let most = context.scale.smoke_or(150, usize::MAX);
        let mut side = |part: &str| -> Result<(read::BagsOfWords, Vec<usize>, Vec<usize>)> {
            let file = format!("20news.{part}.txt.gz");
            let bags = read::bags_of_words(&file, source.open(&file)?, Some(words.len()))?;
            let code = |(row, key): (usize, &Vec<String>)| {
                let class: usize = key[0].parse().ok()?;
                let place = chosen.iter().position(|g| *g == all[class])?;
                Some((row, place))
            };
            let found: Vec<(usize, usize)> =
                bags.keys.iter().enumerate().filter_map(code).collect();
            let step = found.len().div_ceil(most).max(1);
            let (rows, codes) = found.into_iter().step_by(step).unzip();
            Ok((bags, rows, codes))
        };
        let (train, train_rows, train_codes) = side("train")?;
        let (test, test_rows, test_codes) = side("test")?;
        let mut holding = vec![0_usize; words.len()];
        for &row in &train_rows {
            let columns = train.counts.row(row).0;
            columns.iter().for_each(|&j| holding[j as usize] += 1);
        }
        let limit = train_rows.len() / 4;
        let kept: Vec<usize> = (0..words.len())
            .filter(|&j| holding[j] >= min_documents && holding[j] <= limit)
            .collect();
        Ok(Self {
            train: selected(&train.counts, &train_rows, &kept)?,
            test: selected(&test.counts, &test_rows, &kept)?,
            train_codes,
            test_codes,
            groups: chosen,
            checksums: source.checksums,
        })
    }
}

/// Some rows and columns of sparse counts.
pub(super) fn selected(counts: &Ratings, rows: &[usize], columns: &[usize]) -> Result<Ratings> {
    let mut place = vec![None; counts.n_cols()];
    (0..)
        .zip(columns)
        .for_each(|(new, &old)| place[old] = Some(new));
    let mut entries = Vec::new();
    for (row, &old) in (0..).zip(rows) {
        let (columns, values) = counts.row(old);
        for (&j, &value) in columns.iter().zip(values) {
            if let Some(column) = place[j as usize] {
                entries.push(npb_data::Rating { row, column, value });
            }
        }
    }
    Ok(Ratings::new(rows.len(), columns.len(), &entries)?)
}

/// At most so many of n rows, evenly spread: files may be in the order of their classes.
fn spread_over(n: usize, most: usize) -> Vec<usize> {
    let taken = most.min(n);
    (0..taken).map(|i| i * n / taken).collect()
}

/// All measures of decisions.
pub(super) fn label_metrics(found: &[bool], truth: &[bool], n_labels: usize) -> Result<Outcome> {
    let f1 = metrics::f1(found, truth, n_labels)?;
    Ok(Outcome::metrics([
        ("accuracy", metrics::accuracy(found, truth)?),
        (
            "subset_accuracy",
            metrics::subset_accuracy(found, truth, n_labels)?,
        ),
        ("f1_micro", f1.micro),
        ("f1_macro", f1.macro_),
        ("f1_example", f1.example),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_kit::data::DataFolder;
    use npb_kit::testing::Scratch;
    use npb_kit::testing::with_context;

    /// Files as the sets come, with few rows.
    fn write(scratch: &Scratch, set: &str, file: &str, text: &str) {
        let folder = scratch.path(set);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), text).unwrap();
    }

    fn folder(scratch: &Scratch) -> DataFolder {
        DataFolder::resolve(Some(scratch.root().to_owned()), scratch.root())
    }

    #[test]
    fn the_last_columns_of_yeast_are_labels() {
        let scratch = Scratch::new("regbayes-yeast");
        let names: String = (1..=14)
            .map(|k| format!("@attribute Class{k} {{0,1}}\n"))
            .collect();
        let header = format!(
            "@relation y\n@attribute Att1 numeric\n@attribute Att2 numeric\n{names}@data\n"
        );
        let labels = |ones: usize| {
            (0..14)
                .map(|k| format!(",{}", usize::from(k < ones)))
                .collect::<String>()
        };
        for part in ["train", "test"] {
            let text = format!("{header}0.5,-1{}\n0.25,2{}\n", labels(3), labels(0));
            write(&scratch, "yeast", &format!("yeast-{part}.arff"), &text);
        }
        with_context(&scratch, &folder(&scratch), |context| {
            let set = MultiLabel::load(context, "yeast").unwrap();
            assert_eq!(
                (set.train.n_rows(), set.train.n_cols(), set.n_labels),
                (2, 2, 14)
            );
            assert_eq!(set.train.row(1), [0.25, 2.0]);
            assert_eq!(set.labels_of(&[0]).iter().filter(|&&y| y).count(), 3);
            assert_eq!(set.test_labels.len(), 28);
        });
    }

    #[test]
    fn counts_keep_chosen_words_in_order() {
        let entry = |row, column, value| npb_data::Rating { row, column, value };
        let counts = Ratings::new(
            2,
            3,
            &[entry(0, 0, 1.0), entry(0, 2, 2.0), entry(1, 1, 3.0)],
        )
        .unwrap();
        let part = selected(&counts, &[1, 0], &[2, 1]).unwrap();
        assert_eq!(
            (part.get(0, 1), part.get(1, 0), part.n_observed()),
            (Some(3.0), Some(2.0), 2)
        );
    }
}
