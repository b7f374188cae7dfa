//! Dates as numbers: so many units since an origin.

use serde::{Deserialize, Serialize};

/// How dates are written and what number stands for one: units since an origin, both in the proleptic Gregorian calendar.
///
/// A date is three numbers (a year of four digits; the month may be an English name) between `-`, `/` or `.`; after a blank or `T` may follow a time, `hh:mm`, `hh:mm:ss` or `hh:mm:ss.s`, and
/// `Z` or an offset such as `+02:00`, which is subtracted. Without an offset times are taken as they are written.
///
/// ```
/// use npb_data::schema::{DateOrder, DateScale, DateUnit};
/// let scale = DateScale { order: DateOrder::Dmy, unit: DateUnit::Hours, since: "2024-02-28".into() };
/// assert_eq!(scale.number("1.3.2024 06:30"), Some(2.0 * 24.0 + 6.5));
/// assert_eq!(scale.number("30.2.2024"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateScale {
    /// Order of year, month and day.
    pub order: DateOrder,
    /// Unit of the number.
    #[serde(default)]
    pub unit: DateUnit,
    /// The date that is 0, written year-month-day.
    #[serde(default = "epoch")]
    pub since: String,
}

/// Order of year, month and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateOrder {
    /// 2024-03-31.
    Ymd,
    /// 31.3.2024.
    Dmy,
    /// 3/31/2024.
    Mdy,
}

/// Unit of a date as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateUnit {
    /// Of 365.2425 days, their mean.
    Years,
    /// Of 24 hours.
    #[default]
    Days,
    /// Of 3600 seconds.
    Hours,
    /// One second; leap seconds are not counted.
    Seconds,
}

const SECONDS_A_DAY: f64 = 86_400.0;
/// In seconds since 1970-01-01.
const YEARS_1_TO_9999: std::ops::Range<f64> = -62_135_596_800.0..253_402_300_800.0;

fn epoch() -> String {
    "1970-01-01".to_owned()
}

impl DateOrder {
    /// Every order, the one that is guessed first where several fit.
    pub(crate) const ALL: [DateOrder; 3] = [DateOrder::Ymd, DateOrder::Dmy, DateOrder::Mdy];

    /// As it is written in a schema.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DateOrder::Ymd => "ymd",
            DateOrder::Dmy => "dmy",
            DateOrder::Mdy => "mdy",
        }
    }
}

impl DateUnit {
    fn seconds(self) -> f64 {
        match self {
            DateUnit::Years => 365.2425 * SECONDS_A_DAY,
            DateUnit::Days => SECONDS_A_DAY,
            DateUnit::Hours => 3600.0,
            DateUnit::Seconds => 1.0,
        }
    }

    /// As it is written in a schema.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DateUnit::Years => "years",
            DateUnit::Days => "days",
            DateUnit::Hours => "hours",
            DateUnit::Seconds => "seconds",
        }
    }
}

impl DateScale {
    /// Days since 1970-01-01.
    pub fn days(order: DateOrder) -> Self {
        Self {
            order,
            unit: DateUnit::Days,
            since: epoch(),
        }
    }

    /// The origin is a date, year first whatever the order of the column.
    pub(crate) fn has_origin(&self) -> bool {
        seconds(&self.since, DateOrder::Ymd).is_some()
    }

    /// The number for a date, `None` for what is no date in this order.
    pub fn number(&self, text: &str) -> Option<f64> {
        self.of_seconds(seconds(text, self.order)?)
    }

    /// The number for a time in seconds since 1970.
    pub(crate) fn of_seconds(&self, seconds_since_epoch: f64) -> Option<f64> {
        let origin = seconds(&self.since, DateOrder::Ymd)?;
        Some((seconds_since_epoch - origin) / self.unit.seconds())
    }

    /// Seconds since 1970 of a number.
    ///
    /// ```
    /// # use npb_data::schema::{DateOrder, DateScale};
    /// assert_eq!(DateScale::days(DateOrder::Ymd).seconds(1.5), Some(129_600.0));
    /// ```
    pub fn seconds(&self, number: f64) -> Option<f64> {
        Some(number * self.unit.seconds() + seconds(&self.since, DateOrder::Ymd)?)
    }

    /// The date of a number, `year-month-day`, with the time where it is not midnight; `None` beyond the years 1 to 9999.
    ///
    /// ```
    /// # use npb_data::schema::{DateOrder, DateScale};
    /// assert_eq!(DateScale::days(DateOrder::Dmy).text(19_782.25).as_deref(), Some("2024-02-29 06:00:00"));
    /// ```
    pub fn text(&self, number: f64) -> Option<String> {
        let at = self.seconds(number)?.round();
        if !YEARS_1_TO_9999.contains(&at) {
            return None;
        }
        let days = (at / SECONDS_A_DAY).floor();
        let rest = at.rem_euclid(SECONDS_A_DAY) as u32;
        let (year, month, day) = civil(days as i64);
        let date = format!("{year:04}-{month:02}-{day:02}");
        Some(match rest {
            0 => date,
            _ => format!(
                "{date} {:02}:{:02}:{:02}",
                rest / 3600,
                rest / 60 % 60,
                rest % 60
            ),
        })
    }
}

/// Seconds since 1970-01-01.
fn seconds(text: &str, order: DateOrder) -> Option<f64> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time.trim())),
        None => (text, None),
    };
    let mark = date.chars().find(|c| ['-', '/', '.'].contains(c))?;
    let parts: Vec<&str> = date.split(mark).collect();
    let &[first, second, third] = parts.as_slice() else {
        return None;
    };
    let (year, month, day) = match order {
        DateOrder::Ymd => (first, second, third),
        DateOrder::Dmy => (third, second, first),
        DateOrder::Mdy => (third, first, second),
    };
    if year.len() != 4 || day.len() > 2 {
        return None;
    }
    let (year, month, day) = (digits(year)?, month_number(month)?, digits(day)?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > month_length(year, month) {
        return None;
    }
    let days = days_since_epoch(i64::from(year), i64::from(month), i64::from(day));
    Some(days as f64 * SECONDS_A_DAY + time.map_or(Some(0.0), time_of_day)?)
}

/// Seconds since midnight in UTC, or as written without an offset.
fn time_of_day(text: &str) -> Option<f64> {
    let (clock, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0.0),
        None => match text.rfind(['+', '-']) {
            Some(at) => {
                let sign = if text.as_bytes()[at] == b'-' {
                    -1.0
                } else {
                    1.0
                };
                (&text[..at], sign * offset(&text[at + 1..])?)
            }
            None => (text, 0.0),
        },
    };
    let mut parts = clock.split(':');
    let (hours, minutes) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0.0), decimals)?;
    let whole = hours < 24 && minutes < 60 && seconds < 60.0 && parts.next().is_none();
    whole.then(|| f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds - offset)
}

/// `02:00`, `0200` or `02`, in seconds.
fn offset(text: &str) -> Option<f64> {
    let (hours, minutes) = match text.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if text.len() == 4 => text.split_at_checked(2)?,
        None => (text, "00"),
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then(|| f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0)
}

/// Seconds with up to nine decimals.
fn decimals(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fraction_value = f64::from(digits(fraction)?) / 10_f64.powi(fraction.len() as i32);
    Some(f64::from(two_digits(whole)?) + fraction_value)
}

fn two_digits(text: &str) -> Option<u32> {
    (text.len() <= 2).then(|| digits(text))?
}

/// A number of one to nine digits.
fn digits(text: &str) -> Option<u32> {
    let only_digits =
        !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    only_digits.then(|| text.parse().ok())?
}

/// A number of up to two digits, or an English name, whole or its first three letters.
fn month_number(text: &str) -> Option<u32> {
    if text.len() < 3 {
        return digits(text);
    }
    let names = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.to_ascii_lowercase();
    let is = |name: &&str| **name == text || name[..3] == text;
    names
        .iter()
        .zip(1..)
        .find(|(name, _)| is(name))
        .map(|(_, number)| number)
}

fn month_length(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01. Years begin in March here, so that the leap day is the last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days since 1 March of year 0; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_comes_back() {
        let scale = DateScale::days(DateOrder::Ymd);
        let mut last = scale.number("1599-12-31").expect("a date");
        for year in 1600..2400 {
            for month in 1..=12 {
                for day in 1..=month_length(year, month) {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    let number = scale.number(&text).expect("a date");
                    assert_eq!(number, last + 1.0, "{text}");
                    assert_eq!(scale.text(number).as_deref(), Some(text.as_str()));
                    last = number;
                }
            }
        }
        assert_eq!(scale.number("2000-03-01"), Some(11_017.0));
    }

    #[test]
    fn times_and_offsets() {
        let scale = DateScale {
            unit: DateUnit::Seconds,
            ..DateScale::days(DateOrder::Ymd)
        };
        let cases = [
            ("1970-01-01T00:00:01.25Z", Some(1.25)),
            ("1970-01-01 02:00+02:00", Some(0.0)),
            ("1970-01-01 02:00:00-0030", Some(9000.0)),
            ("1970-1-2 23:59:59", Some(172_799.0)),
            ("1970-01-01 24:00", None),
            ("1970-01-01 12", None),
            ("1900-02-29", None),
            ("2000-02-29", Some(951_782_400.0)),
            ("70-01-01", None),
            ("1970-01-01-01", None),
            ("1970-jan-02", Some(86_400.0)),
            ("1970-February-01", Some(31.0 * 86_400.0)),
            ("1970-Janu-01", None),
            ("1970/01/01", Some(0.0)),
            ("1970-01/01", None),
            ("", None),
            ("-", None),
            ("1970-01-01T", None),
            ("1970-01-01 00:00+\u{e9}1", None),
        ];
        for (text, number) in cases {
            assert_eq!(scale.number(text), number, "{text}");
        }
    }
}
