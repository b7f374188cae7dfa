//! Numbers as people write them.

use super::ReadProblem;
use crate::mixed::MAX_COUNT;
use std::borrow::Cow;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) decimal: char,
    pub(crate) thousands: Option<char>,
}

impl Numbers {
    /// With a decimal point and nothing between thousands.
    pub(crate) const PLAIN: Numbers = Numbers {
        decimal: '.',
        thousands: None,
    };

    /// A finite number, or NaN for a missing value.
    pub(crate) fn parse(self, text: &str) -> Result<f64, ReadProblem> {
        match self.value(text) {
            Some(value) if !value.is_infinite() => Ok(value),
            Some(_) => Err(ReadProblem::not_finite(text)),
            None => Err(ReadProblem::cell(text, self.advice(text))),
        }
    }

    /// A whole number from 0 to 2^53, possibly written with decimals that are 0.
    pub(crate) fn parse_count(self, text: &str) -> Result<u64, ReadProblem> {
        match self.value(text) {
            Some(value) if value >= 0.0 && value.fract() == 0.0 && value <= MAX_COUNT as f64 => {
                Ok(value as u64)
            }
            Some(_) => Err(ReadProblem::cell(
                text,
                "a count (a whole number from 0 to 2^53) or a missing mark",
            )),
            None => Err(ReadProblem::cell(text, self.advice(text))),
        }
    }

    /// The number, infinite and NaN included.
    pub(crate) fn value(self, text: &str) -> Option<f64> {
        match self {
            Numbers::PLAIN => text.parse().ok(),
            _ => self.with_point(text)?.parse().ok(),
        }
    }

    /// The same number with a decimal point and nothing between thousands.
    pub(super) fn with_point(self, text: &str) -> Option<Cow<'_, str>> {
        let mut text = Cow::Borrowed(text);
        if let Some(mark) = self.thousands
            && text.contains(mark)
        {
            text = Cow::Owned(without_thousands(&text, mark, self.decimal)?);
        }
        if self.decimal != '.' {
            if text.contains('.') {
                return None;
            }
            text = Cow::Owned(text.replacen(self.decimal, ".", 1));
        }
        Some(text)
    }

    /// What a text should be that is no number, with the option that would make it one.
    fn advice(self, text: &str) -> &'static str {
        let read_with = |decimal, thousands| Numbers { decimal, thousands }.value(text).is_some();
        let other = if self.decimal == '.' { ',' } else { '.' };
        if self.thousands != Some(other) && read_with(self.decimal, Some(other)) {
            return match other {
                ',' => {
                    "a number with a decimal point; where commas stand between thousands, set the option thousands to ','; where they are decimal, set decimal to ','"
                }
                _ => {
                    "a number with a decimal comma; where points stand between thousands, set the option thousands to '.'; where they are decimal, set decimal to '.'"
                }
            };
        }
        if read_with(other, None) || read_with(other, Some(self.decimal)) {
            return match other {
                ',' => {
                    "a number with a decimal point; for decimal commas set the option decimal to ',' (and thousands to '.' where points stand between thousands)"
                }
                _ => {
                    "a number with a decimal comma; for decimal points set the option decimal to '.' (and thousands to ',' where commas stand between thousands)"
                }
            };
        }
        let marks = [' ', '\'', '_', '\u{a0}', '\u{202f}'];
        if marks
            .iter()
            .any(|&mark| read_with(self.decimal, Some(mark)) || read_with(other, Some(mark)))
        {
            return "a number; where something stands between thousands, name it by the option thousands";
        }
        "a number or a missing mark; correct it, or add it to the missing marks"
    }
}

/// Takes out marks between groups of three digits; `None` where groups are not of three.
fn without_thousands(text: &str, mark: char, decimal: char) -> Option<String> {
    let end = text.find([decimal, 'e', 'E']).unwrap_or(text.len());
    let (whole, rest) = text.split_at(end);
    let unsigned = whole.trim_start_matches(['+', '-']);
    let mut groups = unsigned.split(mark);
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let first = groups.next()?;
    let proper = (1..=3).contains(&first.len()) && digits(first);
    let proper = proper && groups.all(|group| group.len() == 3 && digits(group));
    let joined = || whole.chars().filter(|&c| c != mark).collect::<String>() + rest;
    (proper && !rest.contains(mark)).then(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(decimal: char, thousands: Option<char>) -> Numbers {
        Numbers { decimal, thousands }
    }

    #[test]
    fn as_people_write_them() {
        let cases = [
            (Numbers::PLAIN, "1234.5", Some(1234.5)),
            (Numbers::PLAIN, "1,5", None),
            (numbers(',', None), "1,5", Some(1.5)),
            (numbers(',', None), "1.5", None),
            (numbers(',', None), "1,5,0", None),
            (numbers(',', None), "-1,5e-3", Some(-1.5e-3)),
            (
                numbers(',', Some('.')),
                "-1.234.567,25",
                Some(-1_234_567.25),
            ),
            (numbers(',', Some('.')), "1.23,5", None),
            (numbers(',', Some('.')), "0,123.4", None),
            (numbers('.', Some(',')), "12,345", Some(12_345.0)),
            (numbers('.', Some(',')), "12,34", None),
            (numbers('.', Some(',')), ",123", None),
            (numbers('.', Some(',')), "1234,567", None),
            (numbers('.', Some('\u{a0}')), "1\u{a0}000.5", Some(1000.5)),
            (numbers('.', Some(',')), "7.25", Some(7.25)),
        ];
        for (how, text, value) in cases {
            assert_eq!(how.value(text), value, "{how:?} {text}");
        }
    }

    #[test]
    fn what_is_no_number_names_the_option_that_would_help() {
        let cases = [
            (Numbers::PLAIN, "3,75", "option decimal to ','"),
            (Numbers::PLAIN, "1.234,5", "thousands to '.'"),
            (Numbers::PLAIN, "1,234", "option thousands to ','"),
            (Numbers::PLAIN, "1 234", "option thousands"),
            (numbers(',', None), "3.75", "decimal to '.'"),
            (Numbers::PLAIN, "tall", "add it to the missing marks"),
        ];
        for (how, text, hint) in cases {
            let problem = how.parse(text).expect_err(text).to_string();
            assert!(problem.contains(hint), "{text}: {problem}");
        }
        let problem = Numbers::PLAIN.parse_count("2,5").expect_err("no count");
        assert!(problem.to_string().contains("decimal"), "{problem}");
    }
}
