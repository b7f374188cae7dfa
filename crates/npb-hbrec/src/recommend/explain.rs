//! Why an item is recommended.

use npb_linalg::dot;

use super::{Base, Profile, Recommender};
use crate::{HbrecError, Likes};

/// Another user who had a say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Because {
    /// Number of the user in the database.
    pub user: usize,
    /// Its weight for the user who is asked about.
    pub weight: f64,
    /// The probability with which it likes the item, by its model.
    pub probability: f64,
    /// Whether it rated the item, and liked it.
    pub rated: Option<bool>,
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
    /// What the learned tastes that the user shares with others add.
    pub shared_tastes: f64,
    /// What the user's own taste for content adds, by column of content (a feature, for a linear kernel), the largest first.
    pub content: Vec<(usize, f64)>,
    /// How readily the user likes anything.
    pub constant: f64,
}

impl Recommender {
    /// Which users and which content weighed how much; at most `n` of each.
    ///
    /// The utility of the own model is the sum `item + shared_tastes + content + constant` (with all columns of content).
    ///
    /// # Errors
    /// [`HbrecError::NoSuchItem`].
    pub fn reasons(&self, profile: &Profile, item: usize, n: usize) -> Result<Reasons, HbrecError> {
        let n_items = self.n_items();
        if item >= n_items {
            return Err(HbrecError::NoSuchItem { item, n_items });
        }
        let model = &self.stored.model;
        let prior = model.prior();
        let (row, mode) = (prior.row(item), profile.alone.mode());
        let columns = self.columns();
        let shared = columns.shared;
        let mut content: Vec<(usize, f64)> = columns
            .content
            .clone()
            .map(|k| (k - columns.content.start, row[k] * mode[k]))
            .collect();
        content.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        content.truncate(n);
        let mut others = profile.others.clone();
        others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let because = |&(atom, weight): &(usize, f64)| {
            let user = self.stored.atom_users[atom] as usize;
            Because {
                user,
                weight,
                probability: self.atoms.probability(atom, item),
                rated: rated(&self.stored.likes[user], item),
            }
        };
        Ok(Reasons {
            own: (
                profile.own_weight,
                crate::UserModel::predict_alone(model, &profile.alone, &item),
            ),
            users: others.iter().take(n).map(because).collect(),
            item: prior.offset(item),
            shared_tastes: dot(&row[..shared], &mode[..shared]),
            content,
            constant: columns.constant.map_or(0.0, |k| row[k] * mode[k]),
        })
    }

    /// What the columns of the base's loadings are.
    fn columns(&self) -> Columns {
        let width = self.stored.model.prior().width();
        match &self.stored.base {
            // Content, then the constant.
            Base::Standard(_) => Columns {
                shared: 0,
                content: 0..width - 1,
                constant: Some(width - 1),
            },
            // Learned loadings, then the constant and content, as far as users have tastes of their own.
            Base::Learned(base) => {
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
    content: std::ops::Range<usize>,
    constant: Option<usize>,
}

fn rated(likes: &Likes, item: usize) -> Option<bool> {
    let at = likes.items().binary_search(&(item as u32)).ok()?;
    Some(likes.liked()[at])
}
