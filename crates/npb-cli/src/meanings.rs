//! Settings as TOML, each with its meaning: that of the Rust documentation.

use crate::args::ModelKind;

include!(concat!(env!("OUT_DIR"), "/meanings.rs"));

/// A field of a type of settings.
#[derive(Debug)]
pub(super) struct Field {
    package: &'static str,
    of: &'static str,
    name: &'static str,
    /// Its type, as the source has it.
    kind: &'static str,
    meaning: &'static str,
}

/// Letters of a line of comment.
const WIDTH: usize = 100;

/// The type of the settings of a kind of model.
fn root(kind: ModelKind) -> (&'static str, &'static str) {
    match kind {
        ModelKind::Classifier | ModelKind::Mixture => ("npb-iqgme", "IqgmeConfig"),
        ModelKind::Tasks => ("npb-iqgme", "TasksConfig"),
        ModelKind::Ratings => ("npb-bsvd", "BsvdConfig"),
        ModelKind::Table => ("npb-itf", "ItfConfig"),
        ModelKind::Labels => ("npb-regbayes", "LabelsConfig"),
        ModelKind::Topics => ("npb-regbayes", "MedLdaConfig"),
        ModelKind::Groups => ("npb-hbrec", "HbrecConfig"),
        ModelKind::Grouped => ("npb-hbrec", "GroupedConfig"),
        ModelKind::Image => ("npb-bpfa", "ImageConfig"),
    }
}

/// The field of a type, and the type of that field where it has fields itself.
fn field(of: (&str, &str), name: &str) -> Option<&'static Field> {
    // A type of that name in the same crate comes first.
    let fits = |field: &&Field| field.of == of.1 && field.name == name;
    let own = FIELDS
        .iter()
        .filter(|field| field.package == of.0)
        .find(fits);
    own.or_else(|| FIELDS.iter().find(fits))
}

/// The field at the end of a path of names.
fn at_end(kind: ModelKind, path: &[&str]) -> Option<&'static Field> {
    let (mut of, mut found) = (root(kind), None);
    for name in path {
        let field = field(of, name)?;
        let inner = field.kind.rsplit('<').next()?.trim_end_matches('>');
        of = (field.package, inner);
        found = Some(field);
    }
    found
}

/// Settings as TOML with the meaning of each above it.
pub(crate) fn with_meanings(kind: ModelKind, toml: &str) -> String {
    let mut out = String::new();
    let mut folder: Vec<&str> = Vec::new();
    for line in toml.lines() {
        let mut said = None;
        if line.starts_with('[') {
            let before = std::mem::take(&mut folder);
            folder = line.trim_matches(['[', ']']).split('.').collect();
            said = (before != folder).then(|| at_end(kind, &folder)).flatten();
        } else if let Some((key, _)) = line.split_once(" = ") {
            let path: Vec<&str> = folder.iter().copied().chain([key]).collect();
            said = at_end(kind, &path);
        }
        if let Some(field) = said {
            comment(field.meaning, &mut out);
        }
        out += line;
        out.push('\n');
    }
    out
}

/// A text as lines of comment.
fn comment(text: &str, out: &mut String) {
    let mut width = 0;
    for word in text.split_whitespace() {
        let letters = word.chars().count() + 1;
        if width == 0 || width + letters > WIDTH {
            *out += if width == 0 { "#" } else { "\n#" };
            width = 1;
        }
        out.push(' ');
        *out += word;
        width += letters;
    }
    if width > 0 {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::args::Settings;

    /// Every setting that is written has a meaning: it is found in the documentation of the field of its name.
    #[test]
    fn every_setting_has_a_meaning() {
        let none = Settings {
            config: None,
            set: vec![],
            seed: None,
        };
        for &kind in ModelKind::value_variants() {
            let text = kind.config(&none).expect("settings");
            let _: toml::Table = text.parse().expect("still TOML");
            let mut before = "";
            for line in text.lines() {
                let is_setting = line.contains(" = ") && !line.starts_with('#');
                assert!(
                    !is_setting || before.starts_with("# "),
                    "{}: {line}",
                    kind.name()
                );
                before = line;
            }
        }
        let text = ModelKind::Classifier.config(&none).expect("settings");
        let wanted = "# Largest number of components, `N` of the variational family\ntruncation = ";
        assert!(text.contains(wanted), "{text}");
        let text = ModelKind::Ratings.config(&none).expect("settings");
        assert!(text.contains("[sweeps]\n# "), "{text}");
    }
}
