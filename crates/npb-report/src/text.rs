//! Numbers and names as people read them.

/// Four significant digits, for tables.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - magnitude).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A name among other words: one that is written from right to left does not turn them.
pub fn isolated(name: &str) -> String {
    match name.is_ascii() {
        true => name.to_owned(),
        false => format!("\u{2068}{name}\u{2069}"),
    }
}

/// A number at an axis: no decimals that say nothing, nor those that come of rounding.
pub(crate) fn tick(value: f64) -> String {
    if value.abs() >= 1e9 {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// The longest name in a picture, in characters.
const LINE: usize = 100;

/// A name in a picture: cut where it is longer than a line, each control character replaced.
pub(crate) fn line(name: &str) -> String {
    let mut characters = name.chars().map(printable);
    let mut line: String = characters.by_ref().take(LINE).collect();
    if characters.next().is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// The character, or U+FFFD where XML has none such.
pub(crate) fn printable(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => c,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.98765), "0.9877");
        assert_eq!(short(12.3456), "12.35");
        assert_eq!(short(123456.0), "123456");
        assert_eq!(short(-0.00123456), "-0.001235");
        assert_eq!(short(1.5e-9), "1.500e-9");
        assert_eq!(short(0.0), "0");
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [
            0.25,
            -4.0,
            200.0,
            0.30000000000000004,
            -1e-17,
            0.0005,
            2e300,
        ]
        .map(tick);
        assert_eq!(ticks, ["0.25", "-4", "200", "0.3", "0", "0.0005", "2e300"]);
    }

    #[test]
    fn names_fit_a_line() {
        assert_eq!(line(&"é".repeat(LINE)), "é".repeat(LINE));
        let cut = line(&"é".repeat(10_000));
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (LINE, true));
        assert_eq!(
            line("a\0b\u{7f}\u{ffff}\tc"),
            "a\u{fffd}b\u{fffd}\u{fffd}\tc"
        );
    }
}
