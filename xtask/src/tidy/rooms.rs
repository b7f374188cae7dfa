//! Which member of the workspace is what, and what may know what.

use super::manifest::Manifest;

/// Members, and folders of members, that may print; everything else below `crates/` obeys the layers.
pub(super) const TOOLS: [&str; 3] = ["xtask", "benches", "crates/npb-cli"];
/// Pictures and pages: no model either, and it takes none of our crates.
pub(super) const REPORT: &str = "npb-report";
/// Pages about fits: on all models, for the command line and Python alone.
pub(super) const PAGES: &str = "npb-pages";
/// What `cargo xtask` builds before it does anything: none of our crates but [`REPORT`].
pub(super) const AT_ONCE: [&str; 3] = ["xtask", CATALOGUE, "xtask/download"];
/// What xtask and the experiments both know.
pub(super) const CATALOGUE: &str = "xtask/catalogue";
/// What experiments share: on the base crates only, so that one of them can be built without the other models.
pub(super) const KIT: &str = "xtask/kit";
/// Base crates in order, each with the base crates it may use.
pub(super) const BASE: [(&str, &[&str]); 4] = [
    ("npb-linalg", &[]),
    ("npb-priors", &["npb-linalg"]),
    ("npb-data", &["npb-linalg"]),
    ("npb-infer", &["npb-linalg", "npb-priors", "npb-data"]),
];
/// Comparators: not a model, not published, on the base crates only.
pub(super) const BASELINES: &str = "npb-baselines";
/// Files of Arrow and Parquet: no model either, for the command line and Python.
pub(super) const ARROW: &str = "npb-arrow";
pub(super) fn is_base(name: &str) -> bool {
    BASE.iter().any(|(base, _)| *base == name)
}

pub(super) fn is_tool(folder: &str) -> bool {
    let holds = |tool: &str| {
        let rest = folder.strip_prefix(tool);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    TOOLS.into_iter().any(holds)
}

pub(super) fn is_library(manifest: &Manifest) -> bool {
    manifest.folder.starts_with("crates/") && !is_tool(&manifest.folder)
}

pub(super) fn is_model(manifest: &Manifest) -> bool {
    is_library(manifest)
        && !is_base(&manifest.name)
        && ![BASELINES, ARROW, REPORT, PAGES].contains(&manifest.name.as_str())
}
