//! Users, items and likes: MovieLens, sushi, and a survey drawn from a model.

use npb_data::{Features, Rating, Ratings, Table};
use npb_priors::dist::Normal;
use rand::RngExt;
use rand::seq::SliceRandom;

use npb_kit::films::{Films, Size};
use npb_kit::{Context, Result, Source};

/// What users said about items, and what is known of the items.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    /// Folder of the data set, or `simulated`.
    pub(super) name: String,
    /// +1 liked, -1 not; users x items.
    pub(super) likes: Ratings,
    /// Content of items, on comparable scales.
    pub(super) content: Features,
    /// The same for the comparators.
    pub(super) content_table: Table,
    /// Checksums of files, or what was drawn.
    pub(super) source: String,
}

impl Survey {
    /// `content` as the comparators and the kernel take it.
    fn new(
        name: &str,
        entries: &[Rating],
        (n_users, n_items): (usize, usize),
        like_from: f64,
        content: &[Vec<f64>],
        source: String,
    ) -> Result<Self> {
        let like = |e: &Rating| Rating {
            value: if e.value >= like_from { 1.0 } else { -1.0 },
            ..*e
        };
        let likes: Vec<Rating> = entries.iter().map(like).collect();
        let q = content.first().map_or(0, Vec::len);
        let values: Vec<f64> = content.concat();
        Ok(Self {
            name: name.to_owned(),
            likes: Ratings::new(n_users, n_items, &likes)?,
            content: Features::dense(n_items, q, &values)?,
            content_table: Table::complete(n_items, q, values)?,
            source,
        })
    }

    /// MovieLens: liked are 4 and 5 stars; content: genres as 0 and 1, and the standardised year of release.
    pub(super) fn films(context: &Context<'_>, size: Size) -> Result<Self> {
        let films = Films::load(context, size)?;
        let (n_users, n_items) = (films.file.row_ids.len(), films.file.column_ids.len());
        let known: Vec<f64> = films.years.iter().copied().flatten().collect();
        let mean_year = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let year = |j: usize| vec![films.years[j].unwrap_or(mean_year)];
        let years = standardised(&(0..n_items).map(year).collect::<Vec<_>>());
        let n_genres = films.films.n_cols;
        let content: Vec<Vec<f64>> = (0..n_items)
            .map(|j| {
                let mut row = films.films.values[j * n_genres..][..n_genres].to_vec();
                row.push(years[j][0]);
                row
            })
            .collect();
        let name = size.folder();
        let sizes = (n_users, n_items);
        Self::new(
            name,
            &films.file.entries,
            sizes,
            4.0,
            &content,
            films.checksums,
        )
    }

    /// Sushi: ten of 100 kinds scored 0 to 4 by each of 5,000 people; liked are 3 and 4. Content: style, groups, and the averages the data set
    /// gives (heaviness, how often eaten and sold, price).
    pub(super) fn sushi(context: &Context<'_>) -> Result<Self> {
        let mut source = Source::new(context, "sushi");
        let scores = source.text("sushi3b.5000.10.score.restored")?;
        let items = source.text("sushi3.idata")?;
        let mut entries = Vec::new();
        let (mut n_users, mut n_items) = (0, 0);
        for line in scores.lines().filter(|line| !line.trim().is_empty()) {
            let mut columns = 0;
            for (column, score) in line.split_whitespace().enumerate() {
                let value: f64 = score.parse()?;
                if value >= 0.0 {
                    entries.push(Rating {
                        row: n_users,
                        column: column as u32,
                        value,
                    });
                }
                columns = column + 1;
            }
            n_items = n_items.max(columns);
            n_users += 1;
        }
        let content = sushi_content(&items)?;
        if content.len() != n_items {
            return Err(format!(
                "{} items have features, {n_items} have scores",
                content.len()
            )
            .into());
        }
        let sizes = (n_users as usize, n_items);
        Self::new(
            "sushi",
            &entries,
            sizes,
            3.0,
            &standardised(&content),
            source.checksums,
        )
    }

    /// The paintings survey as the chapter describes it, drawn from a model: see [`SurveyModel`].
    pub(super) fn simulated(model: &SurveyModel, seed: u64) -> Result<Self> {
        let (entries, content) = model.draw(seed)?;
        let sizes = (model.users, model.items);
        Self::new(
            "simulated",
            &entries,
            sizes,
            1.0,
            &content,
            format!("{model:?} {seed}"),
        )
    }

    /// Users with more than so many liked and disliked items.
    pub(super) fn users_with(&self, liked: usize, disliked: usize) -> Vec<usize> {
        let enough = |&user: &usize| {
            let values = self.likes.row(user).1;
            let likes = values.iter().filter(|&&v| v > 0.0).count();
            likes > liked && values.len() - likes > disliked
        };
        (0..self.likes.n_rows()).filter(enough).collect()
    }

    /// Likes (or grades) of these users only; the others are empty rows.
    pub(super) fn without(ratings: &Ratings, left_out: &[usize]) -> Result<Ratings> {
        let mut keep = vec![true; ratings.n_rows()];
        left_out.iter().for_each(|&user| keep[user] = false);
        let entries: Vec<Rating> = ratings.iter().filter(|e| keep[e.row as usize]).collect();
        Ok(Ratings::new(ratings.n_rows(), ratings.n_cols(), &entries)?)
    }
}

/// Each feature of mean 0 and variance 1 (0 when it is constant).
fn standardised(content: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (n, q) = (content.len() as f64, content.first().map_or(0, Vec::len));
    let moments: Vec<(f64, f64)> = (0..q)
        .map(|f| {
            let mean = content.iter().map(|row| row[f]).sum::<f64>() / n;
            let variance = content
                .iter()
                .map(|row| (row[f] - mean).powi(2))
                .sum::<f64>()
                / n;
            let unit = if variance > 0.0 {
                variance.sqrt().recip()
            } else {
                0.0
            };
            (mean, unit)
        })
        .collect();
    let scale = |row: &Vec<f64>| -> Vec<f64> {
        row.iter()
            .zip(&moments)
            .map(|(x, (mean, unit))| (x - mean) * unit)
            .collect()
    };
    content.iter().map(scale).collect()
}

/// Style, major group, minor group (twelve columns), heaviness, eaten, price, sold.
fn sushi_content(text: &str) -> Result<Vec<Vec<f64>>> {
    const MINOR_GROUPS: usize = 12;
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.contains('\t')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |place: usize| -> Result<f64> {
            let field = fields
                .get(place)
                .ok_or_else(|| format!("{line:?} has no field {place}"))?;
            Ok(field.trim().parse()?)
        };
        let mut row = vec![number(2)?, number(3)?];
        let group = number(4)? as usize;
        row.extend((0..MINOR_GROUPS).map(|g| f64::from(u8::from(g == group))));
        for place in 5..9 {
            row.push(number(place)?);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A survey: users with tastes, each shown items at random.
///
/// Utility = quality of the item + content of the item times weights of the user + hidden traits of the item times tastes of the user + noise of variance 1;
/// liked when it is above 0. Weights and tastes are those of the user's group plus a part of its own. Content explains little, as the chapter found of
/// the features of paintings.
#[derive(Clone, Debug)]
pub(crate) struct SurveyModel {
    pub(crate) users: usize,
    pub(crate) items: usize,
    /// Mean number of items that a user rates.
    pub(crate) ratings: usize,
    pub(crate) groups: usize,
    /// Number of features, of which as many weights count.
    pub(crate) features: usize,
    pub(crate) hidden: usize,
    /// Variances of the three parts, over items and users.
    pub(crate) quality: f64,
    pub(crate) content: f64,
    pub(crate) taste: f64,
    /// Share of the variance of weights and tastes that is between groups.
    pub(crate) between_groups: f64,
}

impl Default for SurveyModel {
    /// 190 users, 642 items and 89 ratings are the chapter's.
    fn default() -> Self {
        Self {
            users: 190,
            items: 642,
            ratings: 89,
            groups: 6,
            features: 10,
            hidden: 4,
            quality: 0.3,
            content: 0.2,
            taste: 0.6,
            between_groups: 0.5,
        }
    }
}

impl SurveyModel {
    /// Likes as 1 and 0 and content.
    fn draw(&self, seed: u64) -> Result<(Vec<Rating>, Vec<Vec<f64>>)> {
        let standard = Normal::new(0.0, 1.0)?;
        let rng = &mut npb_infer::stream(seed, [0, 0, 0, SURVEY]);
        let mut normals = |n: usize, variance: f64| -> Vec<f64> {
            let sd = variance.sqrt();
            (0..n).map(|_| sd * standard.sample(rng)).collect()
        };
        let width = self.features + self.hidden;
        let quality = normals(self.items, self.quality);
        let traits: Vec<Vec<f64>> = (0..self.items).map(|_| normals(width, 1.0)).collect();
        let scale = |k: usize| {
            if k < self.features {
                self.content / self.features as f64
            } else {
                self.taste / self.hidden as f64
            }
        };
        let (between, within) = (self.between_groups, 1.0 - self.between_groups);
        let groups: Vec<Vec<f64>> = (0..self.groups).map(|_| normals(width, between)).collect();
        let own: Vec<Vec<f64>> = (0..self.users).map(|_| normals(width, within)).collect();
        let mut entries = Vec::new();
        for (user, own) in own.iter().enumerate() {
            let rng = &mut npb_infer::stream(seed, [user as u64, 0, 1, SURVEY]);
            let group = &groups[rng.random_range(0..self.groups)];
            // From half to one and a half times the mean.
            let n = rng.random_range(self.ratings / 2..=self.ratings + self.ratings / 2);
            let mut shown: Vec<usize> = (0..self.items).collect();
            for &item in shown.partial_shuffle(rng, n).0.iter() {
                let terms =
                    (0..width).map(|k| scale(k).sqrt() * (own[k] + group[k]) * traits[item][k]);
                let noise = standard.sample(rng);
                let utility = quality[item] + terms.sum::<f64>() + noise;
                entries.push(Rating {
                    row: user as u32,
                    column: item as u32,
                    value: f64::from(u8::from(utility > 0.0)),
                });
            }
        }
        let content = traits
            .iter()
            .map(|row| row[..self.features].to_vec())
            .collect();
        Ok((entries, content))
    }
}

/// Last word of the key of surveys.
const SURVEY: u64 = 71;

/// A drawn survey: likes (+1 and -1) of the database, and the ratings of the last `new` users, each in random order.
#[expect(clippy::type_complexity, reason = "a matrix, and lists of users")]
pub(super) fn simulated_survey(
    model: &SurveyModel,
    seed: u64,
    new: usize,
) -> Result<(Ratings, Vec<Vec<(u32, bool)>>)> {
    let likes = Survey::simulated(model, seed)?.likes;
    let first = likes.n_rows().saturating_sub(new);
    let entries: Vec<Rating> = likes.iter().filter(|e| (e.row as usize) < first).collect();
    let user = |user: usize| {
        let (items, values) = likes.row(user);
        let mut ratings: Vec<(u32, bool)> = items
            .iter()
            .zip(values)
            .map(|(&i, &v)| (i, v > 0.0))
            .collect();
        ratings.shuffle(&mut npb_infer::stream(seed, [user as u64, 0, 2, 71]));
        ratings
    };
    let new = (first..likes.n_rows()).map(user).collect();
    Ok((Ratings::new(first, likes.n_cols(), &entries)?, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_survey_has_the_chapters_size() {
        let survey = Survey::simulated(&SurveyModel::default(), 1).unwrap();
        let likes = &survey.likes;
        assert_eq!((likes.n_rows(), likes.n_cols()), (190, 642));
        let mean = likes.n_observed() as f64 / 190.0;
        assert!((mean - 89.0).abs() < 6.0, "{mean}");
        let liked = likes.values().iter().filter(|&&v| v > 0.0).count() as f64;
        let share = liked / likes.n_observed() as f64;
        assert!((0.4..0.6).contains(&share), "{share}");
        assert_eq!(survey.content.n_features(), 10);
        assert_eq!(
            likes,
            &Survey::simulated(&SurveyModel::default(), 1).unwrap().likes
        );
    }

    #[test]
    fn sushi_items_are_read_with_their_header_or_without() {
        let line = "0\tebi\t1\t0\t6\t2.7\t2.1\t1.8\t0.84\n";
        let row = &sushi_content(&format!("#name style\n\n{line}")).unwrap()[0];
        assert_eq!(
            (row.len(), row[0], row[2 + 6], row[17]),
            (18, 1.0, 1.0, 0.84)
        );
        assert!(sushi_content("0\tebi\t1\tx\t6\t2.7\t2.1\t1.8\t0.84\n").is_err());
    }
}
