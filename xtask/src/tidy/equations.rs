//! From code to equation and back: what code names on a page is there, and each update of a page is named by code.

use std::collections::{BTreeMap, BTreeSet};

use super::project::{Project, Violation};

/// The first word of the title below which a model's page has its updates.
const UPDATES: &str = "Updates";

/// A place of a page that code names.
struct Named<'a> {
    path: &'a str,
    line: usize,
    page: &'a str,
    anchor: &'a str,
}

/// Each section of a page that code names is there, and each part of a page's "Updates" is named by code.
pub(super) fn updates_have_equations(project: &Project) -> Vec<Violation> {
    let named: Vec<Named<'_>> = project
        .tree
        .rust_sources()
        .flat_map(|(path, text)| named(path, text))
        .collect();
    let mut anchors: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for place in &named {
        anchors.entry(place.page).or_default().insert(place.anchor);
    }
    let mut broken = Vec::new();
    for place in &named {
        let page = project.tree.text(place.page).unwrap_or_default();
        if !sections(page).any(|section| section.anchor == place.anchor) {
            let message = format!("{} has no section #{}", place.page, place.anchor);
            broken.push(Violation::new(place.path, place.line, message));
        }
    }
    let pages = project.tree.texts().filter(|(path, _)| {
        path.strip_prefix("docs/")
            .is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
    });
    for (path, text) in pages {
        let known = anchors.get(path);
        for update in updates(text) {
            if !known.is_some_and(|known| known.contains(&*update.anchor)) {
                let message = format!("no code names this update: {path}#{}", update.anchor);
                broken.push(Violation::new(path, update.line, message));
            }
        }
    }
    broken
}

/// The places that a source names, those of its tests and of this file's examples left out.
fn named<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Named<'a>> {
    let lines = text.lines().enumerate();
    lines.flat_map(move |(index, line)| {
        let comment = line.trim_start().starts_with("//").then_some(line);
        let parts = comment.unwrap_or_default().split("docs/").skip(1);
        parts.filter_map(move |part| {
            let end = part.find(".md#")?;
            let rest = &part[end + ".md#".len()..];
            let is_inside = |c: char| c.is_alphanumeric() || "-_".contains(c);
            let length = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
            let start = part.as_ptr() as usize - line.as_ptr() as usize - "docs/".len();
            Some(Named {
                path,
                line: index + 1,
                page: &line[start..start + "docs/".len() + end + ".md".len()],
                anchor: &rest[..length],
            })
        })
    })
}

/// A heading of a page.
struct Section {
    line: usize,
    level: usize,
    title: String,
    /// As pages on the web are linked: small letters, hyphens for blanks, no other marks.
    anchor: String,
}

fn sections(page: &str) -> impl Iterator<Item = Section> {
    page.lines().enumerate().filter_map(|(index, line)| {
        let level = line.len() - line.trim_start_matches('#').len();
        let title = line[level..].strip_prefix(' ').filter(|_| level > 0)?;
        let letters = title.to_lowercase();
        let kept = letters.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
            _ => None,
        });
        Some(Section {
            line: index + 1,
            level,
            title: title.to_owned(),
            anchor: kept.collect(),
        })
    })
}

fn is_of_updates(title: &str) -> bool {
    title.split(' ').next() == Some(UPDATES)
}

/// The sections below "Updates".
fn updates(page: &str) -> Vec<Section> {
    let mut inside = None;
    let mut found = Vec::new();
    for section in sections(page) {
        match inside {
            Some(level) if section.level > level => found.push(section),
            _ => inside = is_of_updates(&section.title).then_some(section.level),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A model\n## Model\n### Rows of it\n## Updates\n### Row's weights, and means\ntext\n### Noise\n## Speed\n### Rows\n";

    #[test]
    fn updates_are_the_parts_of_their_section() {
        let found: Vec<(usize, String)> = updates(PAGE)
            .into_iter()
            .map(|s| (s.line, s.anchor))
            .collect();
        let wanted = [(5, "rows-weights-and-means"), (7, "noise")];
        assert_eq!(
            found,
            wanted.map(|(line, anchor)| (line, anchor.to_owned()))
        );
    }

    #[test]
    fn places_are_found_in_comments_alone() {
        let text = "//! The noise (`docs/a.md#noise`).\nlet s = \"docs/b.md#no\";\n    /// docs/a.md#row-s, docs/c.md, docs/d.md#x_1.\n";
        let found: Vec<(usize, &str, &str)> = named("x.rs", text)
            .map(|n| (n.line, n.page, n.anchor))
            .collect();
        let wanted = [
            (1, "docs/a.md", "noise"),
            (3, "docs/a.md", "row-s"),
            (3, "docs/d.md", "x_1"),
        ];
        assert_eq!(found, wanted);
    }
}
