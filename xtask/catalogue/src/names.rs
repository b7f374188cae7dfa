//! Which experiments or checks a name, a pattern or a crate means.

use crate::Result;

/// The ids that any of the names means, in their order; all when no name is given. A name that means none is an error, which ends in `hint`.
pub fn choose<'a>(
    names: &[String],
    ids: &[&'a str],
    kind: &str,
    hint: &str,
) -> Result<Vec<&'a str>> {
    if let Some(name) = names.iter().find(|n| !ids.iter().any(|id| fits(n, id))) {
        return Err(format!("no {kind} {name:?}; {hint}").into());
    }
    let wanted = |id: &&str| names.is_empty() || names.iter().any(|name| fits(name, id));
    Ok(ids.iter().copied().filter(wanted).collect())
}

/// Whether an id is meant by a pattern or by its crate, with or without `npb-`.
pub fn fits(name: &str, id: &str) -> bool {
    let name = name.strip_prefix("npb-").unwrap_or(name);
    matches(name, id) || id.split('/').next() == Some(name)
}

/// `*` stands for any characters, `?` for one.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let mut tails = text.char_indices().map(|(i, _)| i).chain([text.len()]);
            tails.any(|i| matches(rest.as_str(), &text[i..]))
        }
        Some(c) => {
            let mut others = text.chars();
            let fits = others.next().is_some_and(|o| c == '?' || c == o);
            fits && matches(rest.as_str(), others.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids() {
        for (pattern, text, expected) in [
            ("iqgme/fig-3.5", "iqgme/fig-3.5", true),
            ("iqgme/*", "iqgme/fig-3.5", true),
            ("*3.?", "iqgme/fig-3.5", true),
            ("*", "iqgme/fig-3.5", true),
            ("iqgme", "iqgme/fig-3.5", false),
            ("iqgme/fig-3.", "iqgme/fig-3.5", false),
            ("*/fig-3.6", "iqgme/fig-3.5", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_crate_stands_for_all_of_it() {
        for (name, expected) in [
            ("iqgme", true),
            ("npb-iqgme", true),
            ("bsvd", false),
            ("iqg", false),
        ] {
            assert_eq!(fits(name, "iqgme/fig-3.5"), expected, "{name}");
        }
    }

    #[test]
    fn ids_are_chosen_by_crate_id_or_pattern_in_their_order() {
        let ids = ["a/x", "a/y", "b/x"];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
            choose(&names, &ids, "check", "there are some").map_err(|e| e.to_string())
        };
        for names in [&["a"], &["npb-a"], &["a/*"]] {
            assert_eq!(chosen(names).unwrap(), ["a/x", "a/y"]);
        }
        assert_eq!(chosen(&["b/x", "*/x"]).unwrap(), ["a/x", "b/x"]);
        assert_eq!(chosen(&[]).unwrap(), ids);
        let error = chosen(&["a", "nonsense"]).unwrap_err();
        assert_eq!(error, "no check \"nonsense\"; there are some");
    }
}
