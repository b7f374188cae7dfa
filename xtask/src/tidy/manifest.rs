//! What the rules need from a `Cargo.toml`, with line numbers.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use npb_catalogue::Result;

/// How a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
}

/// One entry of a dependency table.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Name of the package (not of a local rename).
    pub(crate) package: String,
    pub(crate) kind: Kind,
    /// Version and source come from `[workspace.dependencies]`.
    pub(crate) shared: bool,
    pub(crate) line: usize,
}

/// A member's manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) path: String,
    /// Folder of the member, e.g. `crates/npb-data`.
    pub(crate) folder: String,
    pub(crate) name: String,
    pub(crate) published: bool,
    pub(crate) shared_lints: bool,
    pub(crate) shared_version: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

impl Manifest {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self> {
        let root = DeTable::parse(text).map_err(|e| format!("{path}: {e}"))?;
        let root = root.get_ref();
        let package = table(root, "package").ok_or_else(|| format!("{path}: no [package]"))?;
        let mut dependencies = Vec::new();
        collect_dependencies(root, text, &mut dependencies);
        for (_, target) in table(root, "target").into_iter().flatten() {
            if let Some(target) = target.get_ref().as_table() {
                collect_dependencies(target, text, &mut dependencies);
            }
        }
        Ok(Self {
            path: path.to_owned(),
            folder: path.trim_end_matches("/Cargo.toml").to_owned(),
            name: string(package, "name").unwrap_or_default().to_owned(),
            published: bool_at(package, "publish") != Some(false),
            shared_lints: inherits(root, "lints"),
            shared_version: inherits(package, "version"),
            dependencies,
        })
    }
}

/// `members` of the workspace manifest.
pub(crate) fn members(text: &str) -> Result<Vec<String>> {
    let root = DeTable::parse(text).map_err(|e| format!("Cargo.toml: {e}"))?;
    let members = table(root.get_ref(), "workspace")
        .and_then(|workspace| workspace.get("members"))
        .and_then(|members| members.get_ref().as_array())
        .ok_or("Cargo.toml: no workspace.members")?;
    let names = members.iter().filter_map(|m| m.get_ref().as_str());
    Ok(names.map(str::to_owned).collect())
}

fn collect_dependencies(root: &DeTable<'_>, text: &str, into: &mut Vec<Dependency>) {
    let tables = [
        ("dependencies", Kind::Normal),
        ("dev-dependencies", Kind::Dev),
        ("build-dependencies", Kind::Build),
    ];
    for (name, kind) in tables {
        for (key, value) in table(root, name).into_iter().flatten() {
            let detail = value.get_ref().as_table();
            let package = detail.and_then(|detail| string(detail, "package"));
            into.push(Dependency {
                package: package.unwrap_or(key.get_ref()).to_owned(),
                kind,
                shared: detail.is_some_and(|d| bool_at(d, "workspace") == Some(true)),
                line: line_of(text, key.span().start),
            });
        }
    }
}

fn table<'a, 'i>(parent: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    parent.get(key)?.get_ref().as_table()
}

fn string<'a>(parent: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    parent.get(key)?.get_ref().as_str()
}

fn bool_at(parent: &DeTable<'_>, key: &str) -> Option<bool> {
    parent.get(key).map(Spanned::get_ref)?.as_bool()
}

/// `key.workspace = true` or `[key] workspace = true`.
fn inherits(parent: &DeTable<'_>, key: &str) -> bool {
    match parent.get(key).map(Spanned::get_ref) {
        Some(DeValue::Table(detail)) => bool_at(detail, "workspace") == Some(true),
        _ => false,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].bytes().filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_table_is_read_with_its_lines() {
        let text = "[package]\nname = \"a\"\nversion.workspace = true\npublish = false\n\n[dependencies]\nx.workspace = true\ny = { package = \"z\", version = \"1\" }\n\n[dev-dependencies.w]\nworkspace = true\n\n[target.'cfg(unix)'.build-dependencies]\nv = \"1\"\n";
        let manifest = Manifest::parse("crates/a/Cargo.toml", text).unwrap();
        let found: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|d| (d.package.as_str(), d.kind, d.shared, d.line))
            .collect();
        assert_eq!(
            found,
            [
                ("x", Kind::Normal, true, 7),
                ("z", Kind::Normal, false, 8),
                ("w", Kind::Dev, true, 10),
                ("v", Kind::Build, false, 14),
            ]
        );
        assert_eq!(manifest.folder, "crates/a");
        assert!(!manifest.published && manifest.shared_version && !manifest.shared_lints);
    }
}
