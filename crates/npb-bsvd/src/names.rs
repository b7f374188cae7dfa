//! Names of rows and columns.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::side::Side;

/// A row or a column of a fit: by its place from 0, by its name, or by a name that is a whole number.
///
/// ```
/// use npb_bsvd::Key;
/// assert_eq!(Key::from(3), Key::Index(3));
/// assert_eq!(Key::from("Casablanca"), Key::Name("Casablanca"));
/// assert_ne!(Key::Id(3), Key::Index(3));   // the one that is called 3, wherever it stands
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Its place, from 0.
    Index(usize),
    /// Its name.
    Name(&'a str),
    /// Its name, a whole number.
    Id(i64),
}

impl From<usize> for Key<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name)
    }
}

/// Names of one side, all different; or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub(crate) struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn new(list: Vec<String>, side: Side) -> Result<Self, BsvdError> {
        let mut places = HashMap::with_capacity(list.len());
        for (second, name) in list.iter().enumerate() {
            if let Some(first) = places.insert(name.clone(), second) {
                return Err(BsvdError::DuplicateName {
                    axis: side.name(),
                    name: name.clone(),
                    first,
                    second,
                });
            }
        }
        Ok(Self { list, places })
    }

    /// All names, in order; empty without names.
    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }

    /// The place that a key means among `n`.
    pub(crate) fn place(&self, key: Key<'_>, side: Side, n: usize) -> Result<usize, BsvdError> {
        let (found, name) = match key {
            Key::Index(index) => ((index < n).then_some(index), index.to_string()),
            Key::Name(name) => (self.places.get(name).copied(), format!("{name:?}")),
            Key::Id(id) => (
                self.places.get(&id.to_string()).copied(),
                format!("called {id}"),
            ),
        };
        found.ok_or(BsvdError::NoSuch {
            axis: side.name(),
            key: name,
            size: n,
        })
    }
}

impl TryFrom<Vec<String>> for Names {
    type Error = BsvdError;

    fn try_from(list: Vec<String>) -> Result<Self, BsvdError> {
        Self::new(list, Side::Rows)
    }
}

impl From<Names> for Vec<String> {
    fn from(names: Names) -> Self {
        names.list
    }
}
