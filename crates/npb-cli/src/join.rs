//! Files joined by the names of their rows.

use std::collections::HashMap;
use std::path::Path;

use crate::failure::{Result, in_file};
use crate::input::note_of;

/// Where each name stands.
pub(crate) type Places<'a> = HashMap<&'a str, usize>;

/// Where each name of a file stands; a name that is there twice is an error.
pub(crate) fn places<'a>(file: &Path, ids: &'a [Option<String>]) -> Result<Places<'a>> {
    let mut at = Places::new();
    for (row, id) in ids.iter().enumerate() {
        let Some(id) = id else { continue };
        if let Some(first) = at.insert(id, row) {
            let (first, second) = (first + 1, row + 1);
            return Err(in_file(file)(format_args!(
                "the name {id:?} stands in row {first} and in row {second}; which of them counts, it does not say: leave one"
            )));
        }
    }
    Ok(at)
}

/// For each name its row in a file; how many have none is said. That none has one is an error.
pub(crate) fn joined(
    file: &Path,
    ids: &[Option<String>],
    at: &Places<'_>,
    quiet: bool,
) -> Result<Vec<Option<usize>>> {
    let rows: Vec<Option<usize>> = ids
        .iter()
        .map(|id| at.get(id.as_deref()?).copied())
        .collect();
    let named: Vec<(&str, bool)> = ids
        .iter()
        .zip(&rows)
        .filter_map(|(id, row)| Some((id.as_deref()?, row.is_some())))
        .collect();
    let without: Vec<&str> = named
        .iter()
        .filter(|(_, found)| !found)
        .map(|(id, _)| *id)
        .collect();
    let Some(first) = without.first() else {
        return Ok(rows);
    };
    let alike = alike(&without, at.keys().copied());
    if without.len() == named.len() {
        return Err(in_file(file)(format_args!(
            "none of its names is one of the {} that are looked for, such as {first:?}{alike}",
            named.len()
        )));
    }
    let (n, all) = (without.len(), named.len());
    let text = format_args!("has nothing about {n} of {all} names, such as {first:?}{alike}");
    note_of(quiet, file, text);
    Ok(rows)
}

/// Says of the first name that is one of others but for blanks and capitals, or as a number, that they may be the same.
pub(crate) fn alike<'a>(without: &[&str], others: impl Iterator<Item = &'a str>) -> String {
    let plain = |name: &str| match name.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{number}"),
        _ => name.trim().to_lowercase(),
    };
    let by_plain: HashMap<String, &str> = others.map(|name| (plain(name), name)).collect();
    let found = without
        .iter()
        .find_map(|name| Some((*name, *by_plain.get(&plain(name))?)));
    found.map_or_else(String::new, |(name, there)| {
        format!("; {name:?} and {there:?} may be the same: write both alike")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    #[test]
    fn names_are_found_and_what_is_not_is_said() {
        let there = ids(&["b", "a", "02"]);
        let at = places(Path::new("y.csv"), &there).unwrap();
        let rows = joined(Path::new("y.csv"), &ids(&["a", "c", "b"]), &at, true).unwrap();
        assert_eq!(rows, [Some(1), None, Some(0)]);
        let none = joined(Path::new("y.csv"), &ids(&["2", "x"]), &at, true).unwrap_err();
        let said = none.to_string();
        assert!(said.contains("\"2\" and \"02\" may be the same"), "{said}");
        let twice = places(Path::new("y.csv"), &ids(&["a", "b", "a"])).unwrap_err();
        assert!(twice.to_string().contains("row 1 and in row 3"), "{twice}");
        assert_eq!(
            joined(Path::new("y.csv"), &[None, None], &at, true).unwrap(),
            [None, None]
        );
    }
}
