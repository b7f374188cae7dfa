//! Collaborative filtering: what other users' ratings say about the items of a user with a few examples.
//!
//! Every predictor is made from a database, users x items, and gives each item a score for the given examples of one more user, who is
//! not in the database. Scores rank; only some of them are on the scale of the ratings.

mod als;
mod item_knn;
mod items;
mod pearson;

pub use als::{ImplicitAls, ImplicitAlsConfig};
pub use item_knn::{ItemKnn, ItemKnnConfig};
pub use items::ItemRates;
pub use pearson::{Pearson, PearsonForm};

use crate::BaselineError;

/// An example of a new user: the item and its value.
pub type Given = (u32, f64);

/// Items that exist, values that are finite, no item twice.
fn check_given(given: &[Given], n_items: usize) -> Result<(), BaselineError> {
    let fault = |item: u32, rule| BaselineError::Given { item, rule };
    for &(item, value) in given {
        if item as usize >= n_items {
            return Err(fault(item, "is not in the database"));
        }
        if !value.is_finite() {
            return Err(fault(item, "has a value that is not finite"));
        }
    }
    let mut items: Vec<u32> = given.iter().map(|g| g.0).collect();
    items.sort_unstable();
    match items.windows(2).find(|w| w[0] == w[1]) {
        None => Ok(()),
        Some(pair) => Err(fault(pair[0], "is given twice")),
    }
}

fn mean_of(given: &[Given], otherwise: f64) -> f64 {
    if given.is_empty() {
        return otherwise;
    }
    given.iter().map(|g| g.1).sum::<f64>() / given.len() as f64
}
