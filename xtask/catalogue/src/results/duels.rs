//! Ours beside others, setting by setting.

use npb_report::short;

use super::cells::decimals;
use super::claims::Tolerance;
use super::rows::ResultRow;
use crate::names::matches;

/// A setting as it is read.
fn in_words(setting: &str) -> String {
    setting.replace(';', ", ").replace(['=', '_'], " ")
}

/// Data set and setting.
pub(super) fn place(row: &ResultRow) -> String {
    match row.setting.is_empty() {
        true => row.dataset.clone(),
        false => format!("{}, {}", row.dataset, in_words(&row.setting)),
    }
}

/// A number as it is read: as many decimals as are told apart.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => value.to_string(),
        size if size >= 100.0 => short(value),
        size if size >= 10.0 => decimals(value, 2),
        _ => decimals(value, 3),
    }
}

/// A mean with its standard error.
pub(super) fn measured(row: &ResultRow) -> String {
    match row.sd {
        Some(_) => format!("{} ({})", number(row.mean), number(row.error())),
        None => number(row.mean),
    }
}

/// 97.5% quantiles of Student's law with 1, 2, 3, ... degrees of freedom.
const QUANTILES: [f64; 12] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
];

/// The 97.5% quantile of Student's law with at least one degree of freedom, to 2%.
fn student_quantile(freedom: f64) -> f64 {
    let low = freedom.max(1.0).floor();
    let (last, at) = (QUANTILES.len() as f64, low as usize - 1);
    if low >= last {
        return 1.96 + (QUANTILES[QUANTILES.len() - 1] - 1.96) * last / freedom;
    }
    let share = (1.0 / low - 1.0 / freedom.max(1.0)) / (1.0 / low - 1.0 / (low + 1.0));
    QUANTILES[at] + share * (QUANTILES[at + 1] - QUANTILES[at])
}

/// Half of the 95% interval of the difference of two means (Welch), trials taken as independent; a single run has an error that nobody knows.
pub(super) fn margin(tolerance: &Tolerance, a: &ResultRow, b: &ResultRow) -> f64 {
    let error = a.error().hypot(b.error());
    let with_error = [a, b].into_iter().filter(|row| row.error() > 0.0);
    let share = |row: &ResultRow| (row.error() / error).powi(4) / (row.trials - 1) as f64;
    let freedom = with_error.map(share).sum::<f64>().recip();
    let half = if error > 0.0 {
        error * student_quantile(freedom)
    } else {
        0.0
    };
    match a.error() > 0.0 && b.error() > 0.0 {
        true => half,
        false => half.max(tolerance.least(&a.metric, a.mean)),
    }
}

/// The best by the mean.
pub(super) fn best<'a>(
    rows: impl Iterator<Item = &'a ResultRow>,
    higher: bool,
) -> Option<&'a ResultRow> {
    let order = |a: &&ResultRow, b: &&ResultRow| match higher {
        true => a.mean.total_cmp(&b.mean),
        false => b.mean.total_cmp(&a.mean),
    };
    rows.max_by(order)
}

/// Ours beside the best of the others.
pub(super) struct Duel<'a> {
    pub(super) ours: &'a ResultRow,
    pub(super) other: &'a ResultRow,
    /// How much better ours is; below 0 where it is worse.
    gain: f64,
    /// The same in margins.
    ahead: f64,
}

/// Who is compared with whom.
pub(super) struct Sides<'a> {
    pub(super) ours: &'a str,
    pub(super) others: &'a [String],
    pub(super) higher: bool,
    /// Keys of settings that others have not, or all of whose values are theirs to choose from.
    pub(super) apart: &'a [String],
}

impl Sides<'_> {
    /// Rows of the others where this row of ours is: in its setting, or else in one that differs by keys that are set apart.
    pub(super) fn beside<'r>(&self, rows: &'r [ResultRow], ours: &ResultRow) -> Vec<&'r ResultRow> {
        let rest = |setting: &str| -> String {
            let is_kept = |part: &&str| {
                let key = part.split_once('=').map_or(*part, |(key, _)| key);
                !self.apart.iter().any(|a| a == key)
            };
            setting
                .split(';')
                .filter(is_kept)
                .collect::<Vec<_>>()
                .join(";")
        };
        let fits = |row: &&ResultRow| {
            let is_other = self
                .others
                .iter()
                .any(|pattern| matches(pattern, &row.method));
            is_other
                && row.method != self.ours
                && row.dataset == ours.dataset
                && row.metric == ours.metric
        };
        let there: Vec<&ResultRow> = rows.iter().filter(fits).collect();
        let is_here = |row: &ResultRow| row.setting == ours.setting;
        let is_beside = |row: &&ResultRow| {
            let has_own = there.iter().any(|o| o.method == row.method && is_here(o));
            is_here(row) || (!has_own && rest(&row.setting) == rest(&ours.setting))
        };
        there.iter().copied().filter(is_beside).collect()
    }

    /// Each row of ours beside the best of the others.
    pub(super) fn duels<'r>(&self, rows: &'r [ResultRow], tolerance: &Tolerance) -> Vec<Duel<'r>> {
        let duel = |ours: &'r ResultRow| {
            let other = best(self.beside(rows, ours).into_iter(), self.higher)?;
            let gain = match self.higher {
                true => ours.mean - other.mean,
                false => other.mean - ours.mean,
            };
            let ahead = gain / margin(tolerance, ours, other).max(f64::MIN_POSITIVE);
            Some(Duel {
                ours,
                other,
                gain,
                ahead,
            })
        };
        let ours = rows.iter().filter(|row| row.method == self.ours);
        ours.filter_map(duel).collect()
    }
}

/// Where ours is behind, the worst first.
pub(super) fn losses(duels: &[Duel<'_>], most: usize) -> String {
    let mut lost: Vec<&Duel<'_>> = duels.iter().filter(|d| d.ahead < -1.0).collect();
    lost.sort_by(|a, b| a.ahead.total_cmp(&b.ahead));
    let one = |d: &&Duel<'_>| {
        let (ours, theirs) = (measured(d.ours), measured(d.other));
        format!("{}: {ours}, {} {theirs}", place(d.ours), d.other.method)
    };
    let shown: Vec<String> = lost.iter().take(most).map(one).collect();
    let more = match lost.len().saturating_sub(most) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("{}{more}", shown.join("; "))
}

/// How much better ours is than the best of the others, from the least to the most.
pub(super) fn gains(duels: &[Duel<'_>]) -> String {
    let all = duels.iter().map(|d| d.gain);
    let (least, most) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), d| {
        (low.min(d), high.max(d))
    });
    let signed = |d: f64| match number(d) {
        zero if !zero.contains(|c| ('1'..='9').contains(&c)) => "0".to_owned(),
        text if d > 0.0 => format!("+{text}"),
        text => text,
    };
    match duels.len() {
        0 => String::new(),
        1 => signed(least),
        _ => format!("{} to {}", signed(least), signed(most)),
    }
}

pub(super) fn counts(duels: &[Duel<'_>]) -> [usize; 3] {
    let count = |is: fn(f64) -> bool| duels.iter().filter(|d| is(d.ahead)).count();
    let (ahead, behind) = (count(|a| a > 1.0), count(|a| a < -1.0));
    [ahead, duels.len() - ahead - behind, behind]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (freedom, quantile) in [(1.0, 12.706), (4.0, 2.776), (20.0, 2.086), (60.0, 2.000)] {
            let found = student_quantile(freedom);
            assert!((found / quantile - 1.0).abs() < 0.02, "{freedom}: {found}");
        }
    }

    #[test]
    fn intervals_of_two_means_are_by_welch() {
        let row = |sd: f64, trials: usize| ResultRow {
            sd: Some(sd),
            trials,
            ..ResultRow::single(["d", "s", "m", "auc"], 0.5)
        };
        let tolerance = Tolerance::default();
        // Equal errors .1 with 4 trials each: 6 degrees. Errors .1 and .2 with 2 and 5: .05^2 / (.01^2 / 1 + .04^2 / 4) = 5.
        let equal = margin(&tolerance, &row(0.2, 4), &row(0.2, 4));
        assert!((equal - 2.447 * 0.02_f64.sqrt()).abs() < 1e-3, "{equal}");
        let unequal = margin(
            &tolerance,
            &row(0.1 * 2_f64.sqrt(), 2),
            &row(0.2 * 5_f64.sqrt(), 5),
        );
        assert!(
            (unequal - 2.571 * 0.05_f64.sqrt()).abs() < 1e-3,
            "{unequal}"
        );
    }
}
