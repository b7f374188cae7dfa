//! Curves of results.

use npb_catalogue::Result;
use npb_report::{Figure, Layer, Panel, by_name};

use crate::ResultRow;

/// Curves side by side; those of this library's own methods are wider than others, and in front of them.
pub fn lines(name: &str, title: &str, caption: &str, panels: &[Panel]) -> Result<Figure> {
    let mut panels = panels.to_vec();
    for layer in panels.iter_mut().flat_map(|panel| &mut panel.layers) {
        layer.emphasised = layer.name.starts_with("npb:");
    }
    Ok(npb_report::lines(name, title, caption, &panels)?)
}

/// A curve of `metric` for each method, over the number behind `key=` in the setting.
pub fn against<'a>(
    results: impl IntoIterator<Item = &'a ResultRow>,
    metric: &str,
    key: &str,
) -> Vec<Layer> {
    let value = |part: &str| part.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
    let point = |row: &ResultRow| {
        let x = row.setting.split(';').find_map(value)?;
        Some((row.method.clone(), row.at(x)))
    };
    let of_metric = results.into_iter().filter(|r| r.metric == metric);
    by_name(of_metric.filter_map(point))
}
