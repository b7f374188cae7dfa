//! Likes and dislikes: of one user, and of all.

use npb_data::Ratings;
use npb_infer::ranges::OutOfRange;
use serde::{Deserialize, Serialize};

use crate::HbrecError;

/// What one user likes and dislikes: items, ascending, and for each whether it is liked. It may be empty.
///
/// ```
/// use npb_hbrec::Likes;
/// let likes = Likes::new(10, &[(7, true), (2, false)])?;
/// assert_eq!(likes.iter().collect::<Vec<_>>(), [(2, false), (7, true)]);
/// assert!(Likes::new(10, &[(7, true), (7, false)]).is_err());
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Likes {
    items: Vec<u32>,
    liked: Vec<bool>,
}

impl Likes {
    /// From (item, liked) pairs in any order.
    ///
    /// # Errors
    /// An item that does not exist, or one that is given twice.
    pub fn new(n_items: usize, pairs: &[(u32, bool)]) -> Result<Self, HbrecError> {
        let mut sorted = pairs.to_vec();
        sorted.sort_unstable_by_key(|pair| pair.0);
        let likes = Self {
            items: sorted.iter().map(|pair| pair.0).collect(),
            liked: sorted.iter().map(|pair| pair.1).collect(),
        };
        likes.check(n_items)?;
        Ok(likes)
    }

    /// Checks what [`Likes::new`] checks, after decoding or for another number of items.
    pub(crate) fn check(&self, n_items: usize) -> Result<(), HbrecError> {
        if self.items.len() != self.liked.len() {
            return Err(HbrecError::Size {
                what: "marks of liked items",
                found: self.liked.len(),
                expected: self.items.len(),
            });
        }
        if let Some(pair) = self.items.windows(2).find(|w| w[0] >= w[1]) {
            let item = pair[1] as usize;
            return Err(HbrecError::Twice { item });
        }
        match self.items.last() {
            Some(&item) if item as usize >= n_items => Err(HbrecError::NoSuchItem {
                item: item as usize,
                n_items,
            }),
            _ => Ok(()),
        }
    }

    /// The rated items, ascending.
    pub fn items(&self) -> &[u32] {
        &self.items
    }

    /// Whether each of [`items`](Self::items) is liked.
    pub fn liked(&self) -> &[bool] {
        &self.liked
    }

    /// Number of rated items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// How many are liked.
    pub fn n_liked(&self) -> usize {
        self.liked.iter().filter(|&&liked| liked).count()
    }

    /// Whether nothing is rated.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Item and whether it is liked.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let items = self.items.iter().map(|&item| item as usize);
        items.zip(self.liked.iter().copied())
    }
}

/// The likes of all users of a database, by user and by item.
///
/// ```
/// use npb_hbrec::npb_data::{Rating, Ratings};
/// use npb_hbrec::LikeMatrix;
/// let stars = [(0, 0, 5.0), (0, 1, 2.0), (1, 1, 4.0)];
/// let ratings = Ratings::new(2, 3, &stars.map(|(row, column, value)| Rating { row, column, value }))?;
/// let likes = LikeMatrix::new(&ratings, 4.0)?;         // four stars or more
/// assert_eq!(likes.user(0).liked(), [true, false]);
/// assert_eq!((likes.n_users(), likes.n_items(), likes.n_rated(), likes.n_liked()), (2, 3, 3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeMatrix {
    n_items: usize,
    users: Vec<Likes>,
    /// Ratings of item i are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    raters: Vec<(u32, bool)>,
}

impl LikeMatrix {
    /// From ratings: liked are those of `like_from` or more.
    ///
    /// # Errors
    /// A `like_from` that is not finite.
    pub fn new<V: Copy + Into<f64> + Send + Sync>(
        ratings: &Ratings<V>,
        like_from: f64,
    ) -> Result<Self, HbrecError> {
        if !like_from.is_finite() {
            return Err(OutOfRange::new("like_from", like_from, "finite").into());
        }
        let user = |row: usize| {
            let (items, values) = ratings.row(row);
            Likes {
                items: items.to_vec(),
                liked: values.iter().map(|&v| v.into() >= like_from).collect(),
            }
        };
        let users = (0..ratings.n_rows()).map(user).collect();
        Ok(Self::build(ratings.n_cols(), users))
    }

    /// From the likes of each user.
    ///
    /// # Errors
    /// An item that does not exist.
    pub fn from_users(n_items: usize, users: Vec<Likes>) -> Result<Self, HbrecError> {
        users.iter().try_for_each(|user| user.check(n_items))?;
        Ok(Self::build(n_items, users))
    }

    fn build(n_items: usize, users: Vec<Likes>) -> Self {
        let mut starts = vec![0; n_items + 1];
        for (item, _) in users.iter().flat_map(Likes::iter) {
            starts[item + 1] += 1;
        }
        for i in 0..n_items {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut raters = vec![(0, false); starts[n_items]];
        for (user, likes) in (0..).zip(&users) {
            for (item, liked) in likes.iter() {
                raters[next[item]] = (user, liked);
                next[item] += 1;
            }
        }
        Self {
            n_items,
            users,
            starts,
            raters,
        }
    }

    /// Number of users, those without ratings included.
    pub fn n_users(&self) -> usize {
        self.users.len()
    }

    /// Number of items, those without ratings included.
    pub fn n_items(&self) -> usize {
        self.n_items
    }

    /// Number of ratings.
    pub fn n_rated(&self) -> usize {
        self.raters.len()
    }

    /// How many of the ratings are likes.
    pub fn n_liked(&self) -> usize {
        self.raters.iter().filter(|rater| rater.1).count()
    }

    /// The likes of a user.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn user(&self, user: usize) -> &Likes {
        &self.users[user]
    }

    /// The likes of every user.
    pub fn users(&self) -> &[Likes] {
        &self.users
    }

    /// Who rated an item (ascending), and whether they like it.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn raters(&self, item: usize) -> &[(u32, bool)] {
        &self.raters[self.starts[item]..self.starts[item + 1]]
    }

    /// The same users, these without ratings.
    pub(crate) fn without(&self, left_out: &[usize]) -> Self {
        let mut users = self.users.clone();
        for &user in left_out {
            users[user] = Likes {
                items: Vec::new(),
                liked: Vec::new(),
            };
        }
        Self::build(self.n_items, users)
    }

    /// Likes of only these users, in this order.
    ///
    /// # Panics
    /// When one does not exist.
    #[must_use]
    pub fn select(&self, users: &[usize]) -> Self {
        let chosen = users.iter().map(|&user| self.users[user].clone());
        Self::build(self.n_items, chosen.collect())
    }
}
