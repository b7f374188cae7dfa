//! Who comes to rate what.

use crate::{DataError, Ratings};

/// How sharply those who rated much the same count for more: the power of the overlap, see [`exposure`].
const SHARPNESS: i32 = 4;

/// For each of `n_items` items the chance that someone who rated the `given` items comes to rate it too: the share of those who did, among people who each
/// count by how much their lists have in common with the given items.
///
/// `lists`: the items of each person, without repetition. One with n items, o of them given, has weight `(o / sqrt(n))^4`; everyone together, alike, has the
/// weight of one person whose list has one item, which is given: without overlap the chance is popularity. What people think of what they rated does not
/// matter here: multiply by the chance of a like for lists of what someone will choose *and* like. Cost: the lengths of all lists.
///
/// ```
/// use npb_data::exposure;
/// let lists: [&[u32]; 4] = [&[0, 1], &[0, 1, 2], &[3, 4], &[3]];
/// let chances = exposure(5, lists, &[0]).unwrap();
/// assert!(chances[1] > chances[3] && chances[1] > 0.5 && chances[4] > 0.0);
/// ```
///
/// # Errors
/// An item that does not exist.
pub fn exposure<'a>(
    n_items: usize,
    lists: impl IntoIterator<Item = &'a [u32]>,
    given: &[u32],
) -> Result<Vec<f64>, DataError> {
    let mut is_given = vec![false; n_items];
    for &item in given {
        let place = is_given.get_mut(item as usize);
        *place.ok_or_else(|| unknown(item, n_items))? = true;
    }
    let mut near = vec![0.0; n_items];
    let mut all = vec![0.0; n_items];
    let (mut weights, mut people) = (0.0, 0.0);
    for list in lists {
        let known = list.iter().find(|&&item| item as usize >= n_items);
        if let Some(&item) = known {
            return Err(unknown(item, n_items));
        }
        let common = list.iter().filter(|&&item| is_given[item as usize]).count();
        let weight = match common {
            0 => 0.0,
            common => (common as f64 / (list.len() as f64).sqrt()).powi(SHARPNESS),
        };
        weights += weight;
        people += 1.0;
        for &item in list {
            near[item as usize] += weight;
            all[item as usize] += 1.0;
        }
    }
    let people = f64::max(people, 1.0);
    let chance = |(near, all): (f64, f64)| (near + all / people) / (weights + 1.0);
    Ok(near.into_iter().zip(all).map(chance).collect())
}

fn unknown(item: u32, n_items: usize) -> DataError {
    DataError::NoSuchItem {
        item: item as usize,
        n_items,
    }
}

impl<V: Copy + Into<f64> + Send + Sync> Ratings<V> {
    /// [`exposure`] of each column to someone with entries in these columns, by who has entries where.
    ///
    /// # Errors
    /// A column that does not exist.
    pub fn exposure(&self, given: &[u32]) -> Result<Vec<f64>, DataError> {
        let lists = (0..self.n_rows()).map(|row| self.row(row).0);
        exposure(self.n_cols(), lists, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lists, by hand.
    #[test]
    fn chances_are_weighted_shares() {
        let lists: [&[u32]; 3] = [&[0, 1, 2, 3], &[0, 2], &[3]];
        let chances = exposure(5, lists, &[0, 1]).unwrap();
        // Overlaps 2, 1 and 0: weights (2/2)^4 = 1, (1/sqrt 2)^4 = 1/4, 0.
        let expected = [
            1.25 + 2.0 / 3.0,
            1.0 + 1.0 / 3.0,
            1.25 + 2.0 / 3.0,
            1.0 + 2.0 / 3.0,
            0.0,
        ];
        for (found, expected) in chances.iter().zip(expected) {
            assert!((found - expected / 2.25).abs() < 1e-12, "{chances:?}");
        }
        let popular = exposure(5, lists, &[]).unwrap();
        assert_eq!(popular[3], 2.0 / 3.0);
        assert!(exposure(3, lists, &[]).is_err() && exposure(5, lists, &[5]).is_err());
    }
}
