//! MovieLens: ratings, traits of users and films, and splits; for experiments of several crates.

use std::collections::HashMap;

use npb_data::read::{
    self, DelimitedOptions, Encoding, MovieLens, RatingFile, Separator, StringTable,
};
use npb_data::{Ratings, Split, splits};
use rand::RngExt;
use rand::seq::SliceRandom;

use npb_catalogue::Result;

use crate::context::Context;
use crate::source::{Source, open};

/// The seven ranges of ages of MovieLens 1M, by their lower ends: under 18, 18-24, 25-34, 35-44, 45-49, 50-55, 56 and more.
const AGES: [u32; 7] = [1, 18, 25, 35, 45, 50, 56];
/// Occupations of MovieLens 1M are numbered 0 to 20.
const OCCUPATIONS: usize = 21;
/// Gender, range of ages and occupation.
pub const USER_TRAITS: usize = 1 + AGES.len() + OCCUPATIONS;
/// MovieLens 100K knows ages in years: gender, age, its square, occupation.
const USER_TRAITS_100K: usize = 3 + OCCUPATIONS;
/// Genres of MovieLens 1M; the last column is for films that have none of them.
const GENRES: [&str; 18] = [
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
];
/// The genres, and none of them.
pub const FILM_TRAITS: usize = GENRES.len() + 1;
/// The given split of nine tenths for training.
pub const NINETY_TEN_ROWS: &str = "splits/rand90_test_rows.txt.gz";
/// Users of the paper's protocol.
const PAPER_USERS: usize = 5_000;

/// Which of the two data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// MovieLens 100K.
    HundredThousand,
    /// MovieLens 1M.
    Million,
}

impl Size {
    /// Folder of the data set.
    pub fn folder(self) -> &'static str {
        match self {
            Self::HundredThousand => "movielens-100k",
            Self::Million => "movielens-1m",
        }
    }
}

/// Traits, row-major; all but ages in years are 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Traits {
    /// How many there are of each user or film.
    pub n_cols: usize,
    /// Values, row by row.
    pub values: Vec<f64>,
}

impl Traits {
    fn new(n_rows: usize, n_cols: usize) -> Self {
        Self {
            n_cols,
            values: vec![0.0; n_rows * n_cols],
        }
    }

    fn set(&mut self, row: usize, column: usize) {
        self.values[row * self.n_cols + column] = 1.0;
    }
}

/// A data set: ratings in the order of the file, and traits of every user and film that has a rating.
pub struct Films {
    /// Which data set.
    pub size: Size,
    /// The ratings.
    pub file: RatingFile,
    /// Gender, 7 ranges of ages or age and its square, 21 occupations.
    pub users: Traits,
    /// 18 genres and "none of them".
    pub films: Traits,
    /// Year of release of every film, where it is known.
    pub years: Vec<Option<f64>>,
    /// Checksums of all files.
    pub checksums: String,
}

/// Training ratings in a matrix of full size, and test ratings.
pub struct Sides {
    /// Ratings to learn from.
    pub train: Ratings,
    /// Ratings to predict.
    pub test: Vec<npb_data::Rating>,
}

impl Sides {
    /// Values of the test ratings.
    pub fn test_values(&self) -> Vec<f64> {
        self.test.iter().map(|e| e.value).collect()
    }
}

impl Films {
    /// Reads a data set.
    pub fn load(context: &Context<'_>, size: Size) -> Result<Self> {
        let mut files = Source::new(context, size.folder());
        let (forms, layout) = match size {
            Size::Million => (
                &["ratings_no_timestamp.dat.gz", "ratings.dat"][..],
                MovieLens::DoubleColon,
            ),
            Size::HundredThousand => (&["u.data"][..], MovieLens::Tab),
        };
        let form = files.first(forms);
        let file = read::movielens(form, files.open(form)?, layout)?;
        let (users, films, years) = match size {
            Size::Million => {
                let users =
                    traits_1m_users(&fields(&mut files, "users.dat", "::")?, &file.row_ids)?;
                let table = fields(&mut files, "movies.dat", "::")?;
                let films = traits_1m_films(&table, &file.column_ids)?;
                let years = years_of_release(&table, &file.column_ids, 1)?;
                (users, films, years)
            }
            Size::HundredThousand => {
                let users = traits_100k_users(&fields(&mut files, "u.user", "|")?, &file.row_ids)?;
                let table = fields(&mut files, "u.item", "|")?;
                let films = traits_100k_films(&table, &file.column_ids)?;
                let years = years_of_release(&table, &file.column_ids, 2)?;
                (users, films, years)
            }
        };
        Ok(Self {
            size,
            file,
            users,
            films,
            years,
            checksums: files.checksums,
        })
    }

    /// How many ratings there are.
    pub fn n_ratings(&self) -> usize {
        self.file.entries.len()
    }

    /// The split whose test rows a file of the data set lists; none when the file is not there.
    pub fn given(&self, context: &Context<'_>, name: &str) -> Result<Option<Split>> {
        let path = context.data_file(self.size.folder(), name);
        if !path.is_file() {
            return Ok(None);
        }
        let rows = read::row_numbers(name, open(&path)?)?;
        Ok(Some(Split::from_test_rows(self.n_ratings(), &rows)?))
    }

    /// The split whose test ratings are those of a MovieLens file (`u1.test`).
    pub fn official(&self, context: &Context<'_>, name: &str) -> Result<Split> {
        let path = context.data_file(self.size.folder(), name);
        let test = read::movielens(name, open(&path)?, MovieLens::Tab)?;
        let lines: HashMap<(&str, &str), usize> = self
            .file
            .entries
            .iter()
            .enumerate()
            .map(|(line, e)| (names(&self.file, e), line))
            .collect();
        let line = |e: &npb_data::Rating| {
            let (user, film) = names(&test, e);
            let line = lines.get(&(user, film)).copied();
            line.ok_or_else(|| {
                format!("{name}: user {user}, film {film} is not in the data").into()
            })
        };
        let rows = test.entries.iter().map(line).collect::<Result<Vec<_>>>()?;
        Ok(Split::from_test_rows(self.n_ratings(), &rows)?)
    }

    /// The paper's protocol: 5,000 users drawn at random, one rating of each held out, their other ratings for training. The
    /// ratings of the other users are left out.
    pub fn one_of_each(&self, seed: u64, trial: u64) -> Result<Split> {
        let rng = &mut npb_infer::stream(seed, [trial, 0, 0, ONE_OF_EACH]);
        let mut of_user: Vec<Vec<usize>> = vec![Vec::new(); self.file.row_ids.len()];
        for (line, e) in self.file.entries.iter().enumerate() {
            of_user[e.row as usize].push(line);
        }
        let mut users: Vec<usize> = (0..of_user.len()).collect();
        users.shuffle(rng);
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for &user in users.iter().take(PAPER_USERS) {
            let lines = &mut of_user[user];
            let held_out = rng.random_range(0..lines.len());
            test.push(lines.swap_remove(held_out));
            train.append(lines);
        }
        Ok(Split::new(self.n_ratings(), train, test)?)
    }

    /// A share of the ratings for training, the others for testing.
    pub fn fraction(&self, train: f64, seed: u64, trial: u64) -> Result<Split> {
        let thousandth = (1000.0 * train).round() as u64;
        let rng = &mut npb_infer::stream(seed, [trial, thousandth, 0, FRACTION]);
        Ok(splits::random(self.n_ratings(), train, rng)?)
    }

    /// The two sides of a split.
    pub fn sides(&self, split: &Split) -> Result<Sides> {
        Ok(Sides {
            train: self.file.select(&split.train)?,
            test: split.test.iter().map(|&k| self.file.entries[k]).collect(),
        })
    }
}

/// Keys of the random streams.
const ONE_OF_EACH: u64 = 1;
const FRACTION: u64 = 2;

/// Identifiers of user and film.
fn names<'a>(file: &'a RatingFile, e: &npb_data::Rating) -> (&'a str, &'a str) {
    (
        &file.row_ids[e.row as usize],
        &file.column_ids[e.column as usize],
    )
}

/// Fields of a Latin-1 file without a header.
fn fields(source: &mut Source<'_>, name: &str, separator: &str) -> Result<StringTable> {
    let options = DelimitedOptions {
        separator: Separator::Text(separator.to_owned()),
        header: false,
        encoding: Encoding::Latin1,
        ..Default::default()
    };
    Ok(read::delimited_strings(name, source.open(name)?, &options)?)
}

/// A line of traits for every identifier, by the first field of each line.
fn by_id<'a>(
    table: &'a StringTable,
    ids: &[String],
    what: &str,
) -> Result<Vec<&'a [Option<String>]>> {
    let lines: HashMap<&str, &[Option<String>]> = table
        .rows
        .iter()
        .filter_map(|row| Some((row.first()?.as_deref()?, row.as_slice())))
        .collect();
    let line = |id: &String| {
        let line = lines.get(id.as_str()).copied();
        line.ok_or_else(|| format!("{what} {id} has ratings and no line of traits").into())
    };
    ids.iter().map(line).collect()
}

fn field<'a>(line: &'a [Option<String>], index: usize, what: &str) -> Result<&'a str> {
    let field = line.get(index).and_then(|f| f.as_deref());
    field.ok_or_else(|| format!("{what} {:?} has no field {}", line.first(), index + 1).into())
}

fn years(age: &str) -> Result<u32> {
    let years = age.parse();
    years.map_err(|_| format!("age {age:?} is not a number").into())
}

/// Column of an age among the user traits.
fn age_column(age: &str) -> Result<usize> {
    let age = years(age)?;
    Ok(AGES.partition_point(|&from| from <= age).max(1))
}

/// Ages of mean 0 and variance 1.
fn standard_ages(lines: &[&[Option<String>]]) -> Result<Vec<f64>> {
    let age = |line: &&[Option<String>]| Ok(f64::from(years(field(line, 1, "user")?)?));
    let mut ages = lines.iter().map(age).collect::<Result<Vec<f64>>>()?;
    let n = ages.len() as f64;
    let mean = ages.iter().sum::<f64>() / n;
    let variance = ages.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / n;
    let sd = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    ages.iter_mut().for_each(|a| *a = (*a - mean) / sd);
    Ok(ages)
}

fn traits_1m_users(table: &StringTable, ids: &[String]) -> Result<Traits> {
    let mut traits = Traits::new(ids.len(), USER_TRAITS);
    for (i, line) in by_id(table, ids, "user")?.into_iter().enumerate() {
        if field(line, 1, "user")? == "F" {
            traits.set(i, 0);
        }
        traits.set(i, age_column(field(line, 2, "user")?)?);
        let occupation = field(line, 3, "user")?;
        let number: usize = occupation.parse().unwrap_or(OCCUPATIONS);
        if number >= OCCUPATIONS {
            return Err(format!("occupation {occupation:?} is not a number from 0 to 20").into());
        }
        traits.set(i, 1 + AGES.len() + number);
    }
    Ok(traits)
}

fn traits_1m_films(table: &StringTable, ids: &[String]) -> Result<Traits> {
    let mut traits = Traits::new(ids.len(), FILM_TRAITS);
    for (i, line) in by_id(table, ids, "film")?.into_iter().enumerate() {
        let mut none = true;
        for genre in field(line, 2, "film")?.split('|') {
            if let Some(column) = GENRES.iter().position(|g| *g == genre) {
                traits.set(i, column);
                none = false;
            }
        }
        if none {
            traits.set(i, GENRES.len());
        }
    }
    Ok(traits)
}

/// The four digits that end a title, `A film (1995)`, or a date, `01-Jan-1995`.
fn years_of_release(table: &StringTable, ids: &[String], place: usize) -> Result<Vec<Option<f64>>> {
    let year = |line: &[Option<String>]| -> Option<f64> {
        let text = line.get(place)?.as_deref()?.trim_end_matches(')');
        let digits = text.get(text.len().checked_sub(4)?..)?;
        digits.parse::<u32>().ok().map(f64::from)
    };
    Ok(by_id(table, ids, "film")?.into_iter().map(year).collect())
}

fn traits_100k_users(table: &StringTable, ids: &[String]) -> Result<Traits> {
    let lines = by_id(table, ids, "user")?;
    let mut occupations = Vec::new();
    for line in &lines {
        occupations.push(field(line, 3, "user")?);
    }
    let mut known = occupations.clone();
    known.sort_unstable();
    known.dedup();
    if known.len() > OCCUPATIONS {
        return Err(format!(
            "{} occupations instead of at most {OCCUPATIONS}",
            known.len()
        )
        .into());
    }
    let ages = standard_ages(&lines)?;
    let mut traits = Traits::new(ids.len(), USER_TRAITS_100K);
    for (i, line) in lines.into_iter().enumerate() {
        // The square less its mean.
        traits.values[i * USER_TRAITS_100K + 1] = ages[i];
        traits.values[i * USER_TRAITS_100K + 2] = ages[i] * ages[i] - 1.0;
        if field(line, 2, "user")? == "F" {
            traits.set(i, 0);
        }
        let number = known.partition_point(|o| *o < occupations[i]);
        traits.set(i, 3 + number);
    }
    Ok(traits)
}

/// Flags 5 to 23 of a line; the first one, "unknown", moves to the end.
fn traits_100k_films(table: &StringTable, ids: &[String]) -> Result<Traits> {
    let mut traits = Traits::new(ids.len(), FILM_TRAITS);
    for (i, line) in by_id(table, ids, "film")?.into_iter().enumerate() {
        for flag in 0..FILM_TRAITS {
            if field(line, 5 + flag, "film")? == "1" {
                traits.set(i, (flag + FILM_TRAITS - 1) % FILM_TRAITS);
            }
        }
    }
    Ok(traits)
}

#[cfg(test)]
mod tests {
    use npb_catalogue::data::DataFolder;

    use super::*;
    use crate::testing::{Scratch, folder, with_context, write_1m};

    #[test]
    fn traits_follow_the_identifiers() {
        let scratch = Scratch::new("films-traits");
        write_1m(scratch.root(), 7);
        with_context(&scratch, &folder(&scratch), |context| {
            let films = Films::load(context, Size::Million).unwrap();
            let row = |traits: &Traits, i: usize| -> Vec<usize> {
                let n = traits.n_cols;
                (0..n)
                    .filter(|&j| traits.values[i * n + j] == 1.0)
                    .collect()
            };
            // User 2: a woman of 56 or more with occupation 2; user 3 a man under 18.
            assert_eq!(row(&films.users, 1), [0, 7, 8 + 2]);
            assert_eq!(row(&films.users, 2), [1, 8 + 3]);
            // Film 3: action and war; film 2: no known genre.
            assert_eq!(row(&films.films, 2), [0, 16]);
            assert_eq!(row(&films.films, 1), [18]);
            assert_eq!(films.years[1], Some(1902.0));
        });
    }

    #[test]
    fn one_rating_of_each_user_is_held_out() {
        let scratch = Scratch::new("films-split");
        write_1m(scratch.root(), 30);
        with_context(&scratch, &folder(&scratch), |context| {
            let films = Films::load(context, Size::Million).unwrap();
            let split = films.one_of_each(1, 0).unwrap();
            assert_eq!(split.test.len(), 30);
            assert_eq!(split.train.len() + 30, films.n_ratings());
            let sides = films.sides(&split).unwrap();
            let mut users: Vec<u32> = sides.test.iter().map(|e| e.row).collect();
            users.sort_unstable();
            assert_eq!(users, (0..30).collect::<Vec<_>>());
            assert_ne!(films.one_of_each(1, 1).unwrap(), split);
        });
    }

    /// Counts as published, and the baselines that are recorded for the given splits.
    #[test]
    fn the_data_at_hand_have_the_published_counts() {
        let Some(root) = std::env::var_os("NPB_DATA_DIR") else {
            use std::io::Write;
            writeln!(
                std::io::stderr(),
                "NPB_DATA_DIR is not set: counts were not compared"
            )
            .unwrap();
            return;
        };
        let scratch = Scratch::new("films-counts");
        let data = DataFolder::resolve(Some(root.into()), scratch.root());
        with_context(&scratch, &data, |context| {
            let large = Films::load(context, Size::Million).unwrap();
            assert_eq!(
                (
                    large.n_ratings(),
                    large.file.row_ids.len(),
                    large.file.column_ids.len()
                ),
                (1_000_209, 6_040, 3_706)
            );
            let split = large
                .given(context, "splits/one_per_user_test_rows.txt.gz")
                .unwrap()
                .unwrap();
            assert_eq!(split.test.len(), 6_040);
            let split = large
                .given(context, "splits/rand90_test_rows.txt.gz")
                .unwrap()
                .unwrap();
            assert_eq!(split.test.len(), 100_021);
            let small = Films::load(context, Size::HundredThousand).unwrap();
            assert_eq!(
                (small.n_ratings(), small.file.column_ids.len()),
                (100_000, 1_682)
            );
            let women = (0..943)
                .filter(|i| small.users.values[i * small.users.n_cols] == 1.0)
                .count();
            assert_eq!(women, 273);
            // One film has no date.
            let known = |films: &Films| films.years.iter().flatten().count();
            assert_eq!((known(&small), known(&large)), (1_681, 3_706));
            assert_eq!(
                small.official(context, "u1.test").unwrap().test.len(),
                20_000
            );
        });
    }
}
