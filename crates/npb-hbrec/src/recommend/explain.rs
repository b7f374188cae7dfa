//! Why an item is recommended.

use std::ops::Range;

use npb_linalg::dot;

use super::{Profile, Recommender};
use crate::{HbrecError, Likes, UserModel};

/// Another user who had a say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Because {
    /// Number of the user in the database.
    pub user: usize,
    /// Its weight for the user who is asked about.
    pub weight: f64,
    /// The probability with which it likes the item, by its model.
    pub probability: f64,
    /// Whether it liked the item, if it rated it.
    pub liked: Option<bool>,
}

/// What a recommendation is made of. Utilities are in units of the noise of a like.
#[derive(Clone, Debug, PartialEq)]
pub struct Reasons {
    /// Weight of the user's own model, and its probability.
    pub own: (f64, f64),
    /// Other users by their weight, the largest first.
    pub users: Vec<Because>,
    /// Utility of the item for everybody: the mean of the base.
    pub item: f64,
    /// What learned tastes that users share add.
    pub shared_tastes: f64,
    /// What the user's own taste for content adds, by column of content (a feature, for a linear kernel), the largest first.
    pub content: Vec<(usize, f64)>,
    /// How readily the user likes anything.
    pub constant: f64,
}

impl Recommender {
    /// Which users and which content weighed how much; at most `n` of each.
    ///
    /// The utility of the own model is the sum `item + shared_tastes + content + constant`, all columns of content counted.
    ///
    /// # Errors
    /// [`HbrecError::NoSuchItem`]; a profile of another recommender.
    pub fn reasons(&self, profile: &Profile, item: usize, n: usize) -> Result<Reasons, HbrecError> {
        self.check_item(item)?;
        self.fit.check_user(&profile.user)?;
        let model = self.fit.model();
        let (row, mode) = (model.prior().row(item), profile.user.alone.mode());
        let columns = self.columns();
        let column = |k: usize| (k - columns.content.start, row[k] * mode[k]);
        let mut content: Vec<(usize, f64)> = columns.content.clone().map(column).collect();
        content.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        content.truncate(n);
        let mut others: Vec<(usize, f64)> = profile.others().collect();
        others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let because = |&(user, weight): &(usize, f64)| Because {
            user,
            weight,
            probability: self.fit.atom_probability(user, item),
            liked: liked(&self.likes[user], item),
        };
        Ok(Reasons {
            own: (
                profile.own_weight(),
                model.predict_alone(&profile.user.alone, &item),
            ),
            users: others.iter().take(n).map(because).collect(),
            item: model.prior().offset(item),
            shared_tastes: dot(&row[..columns.shared], &mode[..columns.shared]),
            content,
            constant: columns.constant.map_or(0.0, |k| row[k] * mode[k]),
        })
    }

    /// What the columns of the base's loadings are.
    fn columns(&self) -> Columns {
        let width = self.fit.model().prior().width();
        match self.fit.base() {
            // Content, then the constant.
            None => Columns {
                shared: 0,
                content: 0..width - 1,
                constant: Some(width - 1),
            },
            // Learned loadings, then the constant and content, as far as users have tastes of their own.
            Some(base) => {
                let shared = base.rank();
                let constant = (width > shared).then_some(shared);
                Columns {
                    shared,
                    content: (shared + 1).min(width)..width,
                    constant,
                }
            }
        }
    }
}

struct Columns {
    shared: usize,
    content: Range<usize>,
    constant: Option<usize>,
}

fn liked(likes: &Likes, item: usize) -> Option<bool> {
    let at = likes.items().binary_search(&(item as u32)).ok()?;
    Some(likes.liked()[at])
}
