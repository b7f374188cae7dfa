//! Examination scores of pupils in schools, with the given splits.

use npb_data::read::{self, DelimitedOptions};
use npb_data::{Split, Table};

use npb_catalogue::Result;

use crate::context::Context;
use crate::source::Source;

/// Some pupils.
pub struct Pupils {
    /// Features of pupils and their schools.
    pub inputs: Table,
    /// School of every pupil, from 0.
    pub schools: Vec<usize>,
    /// Score of every pupil.
    pub scores: Vec<f64>,
}

impl Pupils {
    /// Those in some rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            inputs: self.inputs.select_rows(rows),
            schools: rows.iter().map(|&i| self.schools[i]).collect(),
            scores: rows.iter().map(|&i| self.scores[i]).collect(),
        }
    }

    /// How many schools there are up to the last one that is named.
    pub fn n_schools(&self) -> usize {
        self.schools.iter().max().map_or(0, |last| last + 1)
    }
}

/// Pupils, and the splits that come with them.
pub struct School {
    /// All pupils.
    pub pupils: Pupils,
    /// Rows for training and for testing, split by split.
    pub splits: Vec<Split>,
    /// Of the files.
    pub checksums: String,
}

impl School {
    /// The first schools, at most so many.
    pub fn load(context: &Context<'_>, most: usize) -> Result<Self> {
        let mut source = Source::new(context, "school");
        let mut read = |file: &str| -> Result<Table> {
            let options = DelimitedOptions::default();
            Ok(read::table(file, source.open(file)?, &options)?)
        };
        let (all, marks) = (read("school.csv")?, read("school_splits.csv")?);
        let school = |i: usize| all.row(i)[0] as usize;
        let rows: Vec<usize> = (0..all.n_rows()).filter(|&i| school(i) <= most).collect();
        let split = |s: usize| {
            let is_tested = |&i: &usize| marks.row(rows[i])[s] == 1.0;
            let (test, train) = (0..rows.len()).partition(is_tested);
            Split { train, test }
        };
        let inputs = all.select_columns(&(2..all.n_cols()).collect::<Vec<_>>())?;
        Ok(Self {
            pupils: Pupils {
                inputs: inputs.select_rows(&rows),
                schools: rows.iter().map(|&i| school(i) - 1).collect(),
                scores: rows.iter().map(|&i| all.row(i)[1]).collect(),
            },
            splits: (0..marks.n_cols()).map(split).collect(),
            checksums: source.checksums,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, folder, with_context};

    #[test]
    fn pupils_are_split_as_the_file_says() {
        let scratch = Scratch::new("kit-school");
        let place = scratch.path("school");
        std::fs::create_dir_all(&place).unwrap();
        let write = |file: &str, text: &str| std::fs::write(place.join(file), text).unwrap();
        let pupils = "task,y,a,b\n1,17,1,0\n1,20,0,1\n2,5,1,1\n9,3,1,1\n";
        write("school.csv", pupils);
        write("school_splits.csv", "s1,s2\n0,1\n1,0\n0,0\n1,1\n");
        with_context(&scratch, &folder(&scratch), |context| {
            // The ninth school is left out.
            let school = School::load(context, 8).unwrap();
            assert_eq!(school.pupils.schools, [0, 0, 1]);
            assert_eq!(school.pupils.scores, [17.0, 20.0, 5.0]);
            assert_eq!(school.splits[0].test, [1]);
            assert_eq!(school.splits[1].test, [0]);
            assert_eq!(school.pupils.select(&[2]).inputs.row(0), [1.0, 1.0]);
            let all = School::load(context, usize::MAX).unwrap();
            assert_eq!((all.pupils.n_schools(), all.splits[0].test.len()), (9, 2));
        });
    }
}
