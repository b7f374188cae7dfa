//! Which columns share a joint law: candidates compared by the log densities of cells that were hidden from short fits (`docs/itf.md#columns-that-share-a-joint-law-ours`).

use npb_infer::parallel;
use npb_infer::watch::Checkpoint;
use npb_infer::{Stop, SweepPlan, Watch, sample, stream};
use rand::RngExt;

use crate::columns::MAX_NUMBERS;
use crate::dependence::of_ranks;
use crate::gibbs::shuffle;
use crate::groups::is_number;
use crate::kernels::{Cells, Column, SpikedNormal};
use crate::{Grouping, ItfConfig, ItfData, ItfError, ItfFit, ItfSampler};

/// Ways to choose the levels of a group, at most, spikes of its numbers among them.
const MAX_WAYS: usize = 1024;
/// Numbers with a spike in a group, at most.
const MAX_SPIKES: usize = 6;
/// Groups of numbers are merged while their correlations are above this on average.
const ALIKE: f64 = 0.5;
/// A column of levels joins a group when the F statistic of one of its numbers is at least this.
const F: f64 = 5.0;
/// A number of which levels explain this share is one of their names, or nearly so.
const DETERMINED: f64 = 0.9;
/// Cells are hidden tenth by tenth.
const FOLDS: usize = 10;
/// So many tenths that this many cells are hidden in all, if there are as many.
const ENOUGH: usize = 1000;
/// Rows that are looked at, at most.
const MAX_ROWS: usize = 1000;
/// By how many standard errors a candidate may be behind the best, ...
const MARGIN: f64 = 1.0;
/// ... and by how many nats in all: what a line that was not seen would cost in a small table, and little in a large one.
const MOST_BEHIND: f64 = 10.0;
/// The most that one cell counts, in nats.
const MOST: f64 = 3.0;
/// Key of the random streams of a search.
const SEARCH: u64 = u64::MAX - 2;

impl ItfData {
    /// Groups of columns that share a joint law ([`with_groups`](Self::with_groups)): of a few candidates, no groups among them, by the log density in all of
    /// cells that were hidden from short fits, the one with most columns together that is not one standard error over rows, or ten nats, behind the best. Cells are
    /// hidden tenth by tenth until a thousand have been, or all. A cell counts 3 nats at most, either way. Densities are those of all kinds of columns, in
    /// the user's units, levels included.
    ///
    /// Candidates: all columns of numbers together (positive ones by their logarithm, counts and ordered levels as numbers; the 32 most correlated with
    /// others when there are more, six of them with a spike), with the columns of unordered levels that one of them depends on, or with those that determine one
    /// or nearly so; and clusters of them by the correlations of their normal scores, with either. Counts that vary less than chance alone would have
    /// them, or of which one value stands out, are groups by themselves where they are in no other.
    ///
    /// Cost: a fit of one chain of 100 sweeps for every candidate and tenth, on at most 1,000 rows, in parallel. The result depends on
    /// the seed of the configuration, not on the number of threads.
    ///
    /// # Errors
    /// A configuration out of range, no rows or columns.
    pub fn find_groups(&self, config: &ItfConfig) -> Result<Vec<Vec<String>>, ItfError> {
        find_groups(self, config, (&Watch::none(), 1.0))
    }

    /// The groups to compare with none.
    fn candidates(&self) -> Vec<Vec<Vec<String>>> {
        let numbers: Vec<usize> = (0..self.infos().len())
            .filter(|&j| is_number(self.law_of(j)))
            .filter(|&j| self.varies(j))
            .collect();
        let scores: Vec<Vec<Option<f64>>> = numbers.iter().map(|&j| self.scores(j)).collect();
        let alike = correlations(&scores);
        let is_spiked = |&g: &usize| matches!(self.law_of(numbers[g]), Column::SpikedNormal(_));
        let fits = |group: Vec<usize>| most_correlated(&alike, group, is_spiked);
        // Most columns together first.
        let together = fits((0..numbers.len()).collect());
        let apart: Vec<_> = clusters(&alike).into_iter().map(fits).collect();
        let ways = |group: &Vec<usize>| 1 << group.iter().filter(|g| is_spiked(g)).count();
        let mut candidates: Vec<Vec<Vec<usize>>> = Vec::new();
        // Levels that tell a little join small groups last: there they are kept from the other columns that they depend on.
        for (partition, least_share) in [
            (vec![together.clone()], 0.0),
            (vec![together], DETERMINED),
            (apart.clone(), DETERMINED),
            (apart, 0.0),
        ] {
            let ways = partition.iter().map(ways).collect();
            let levels = self.with_levels(&partition, &scores, ways, least_share);
            let groups = partition.iter().zip(levels).map(|(group, levels)| {
                let members = group.iter().map(|&g| numbers[g]).chain(levels);
                members.collect::<Vec<usize>>()
            });
            let joins = |group: &Vec<usize>| match group[..] {
                [] => false,
                [alone] => self.is_narrow_count(alone),
                _ => true,
            };
            let groups: Vec<Vec<usize>> = groups.filter(joins).collect();
            if !groups.is_empty() && !candidates.contains(&groups) {
                candidates.push(groups);
            }
        }
        let name = |j: usize| self.infos()[j].name.clone();
        let named = |groups: Vec<Vec<usize>>| {
            let groups = groups.into_iter();
            groups
                .map(|group| group.into_iter().map(name).collect())
                .collect()
        };
        candidates.into_iter().map(named).collect()
    }

    /// Whether two observed values of a column of numbers differ: a constant's density is as large as a law allows, and says nothing.
    fn varies(&self, j: usize) -> bool {
        let value = |row| self.law_of(j).part(self.cells_of(j), row, 0).value();
        let mut values = (0..self.n_rows()).filter_map(value);
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// Whether a column holds counts that vary less than chance alone would have them, or of which one value other than 0 stands out: a normal
    /// law of numbers spread over their units can be narrower than that of a count.
    fn is_narrow_count(&self, j: usize) -> bool {
        let (law, cells) = (self.law_of(j), self.cells_of(j));
        if !matches!(law, Column::NegativeBinomial(_)) {
            return false;
        }
        let values: Vec<Option<f64>> = (0..self.n_rows())
            .map(|row| law.part(cells, row, 0).value())
            .collect();
        let n = values.iter().flatten().count() as f64;
        let mean = values.iter().flatten().sum::<f64>() / n;
        let squares = values.iter().flatten().map(|x| (x - mean).powi(2));
        squares.sum::<f64>() / n < mean
            || SpikedNormal::spike_of(&values).is_some_and(|at| at > 0.0)
    }

    /// Normal scores of a column of numbers.
    fn scores(&self, j: usize) -> Vec<Option<f64>> {
        let (law, cells) = (self.law_of(j), self.cells_of(j));
        let values: Vec<Option<f64>> = (0..self.n_rows())
            .map(|row| law.part(cells, row, 0).value())
            .collect();
        let scores = of_ranks(&values).into_iter().zip(&values);
        scores.map(|([z, ..], value)| value.map(|_| z)).collect()
    }

    /// Columns of levels for every group of numbers, whose spikes can be chosen in so many ways: each where it tells most, if that is so large a share of a
    /// number's variance, those that tell most first.
    fn with_levels(
        &self,
        partition: &[Vec<usize>],
        scores: &[Vec<Option<f64>>],
        mut ways: Vec<usize>,
        least_share: f64,
    ) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        for j in 0..self.infos().len() {
            let Column::Categorical(law) = self.law_of(j) else {
                continue;
            };
            let codes: Vec<Option<u32>> = (0..self.n_rows())
                .map(|row| self.cells_of(j).level(row))
                .collect();
            let told = |group: &Vec<usize>| {
                let told = group.iter().map(|&g| variance_between(&codes, &scores[g]));
                let enough = told.filter(|&(_, share)| share >= least_share);
                enough.map(|(f, _)| f).fold(0.0, f64::max)
            };
            let told: Vec<f64> = partition.iter().map(told).collect();
            let best = (0..told.len()).max_by(|&a, &b| told[a].total_cmp(&told[b]));
            if let Some(group) = best.filter(|&group| told[group] >= F) {
                found.push((told[group], j, group, law.kernel.size()));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut levels = vec![Vec::new(); partition.len()];
        for (_, j, group, n) in found {
            if ways[group] * n <= MAX_WAYS {
                ways[group] *= n;
                levels[group].push(j);
            }
        }
        levels
    }

    /// The same data of some rows, all when they depend on each other.
    fn some_rows(&self, seed: u64) -> Result<Self, ItfError> {
        if self.n_rows() <= MAX_ROWS || self.laws().iter().any(Column::is_coupled) {
            return Ok(self.clone());
        }
        let mut rows: Vec<u32> = (0..self.n_rows() as u32).collect();
        shuffle(&mut rows, &mut stream(seed, [SEARCH, 0, 0, 0]));
        rows.truncate(MAX_ROWS);
        rows.sort_unstable();
        let cells = self.laws().iter().zip(self.cells()).map(|(law, cells)| {
            let parts = rows.iter().map(|&row| law.parts(cells, row as usize));
            law.read(&parts.collect::<Vec<_>>())
        });
        let cells = cells.collect::<Result<_, _>>();
        self.with_cells(cells.expect("cells that were read before"))
    }

    /// Number of observed parts of cells.
    fn n_observed(&self) -> usize {
        let pairs = self.laws().iter().zip(self.cells());
        let of_column = |(law, cells): (&Column, &Cells)| {
            let rows = 0..self.n_rows();
            rows.map(|row| law.parts(cells, row).iter().flatten().count())
                .sum::<usize>()
        };
        pairs.map(of_column).sum()
    }

    /// The same data with a tenth of the cells hidden, part by part: the tenths are disjoint and make up the whole. Networks are shown.
    fn with_hidden(&self, seed: u64, fold: usize) -> Result<Fold, ItfError> {
        let mut hidden = Vec::new();
        let pairs = self.laws().iter().zip(self.cells()).enumerate();
        let cells = pairs.map(|(j, (law, cells))| {
            if law.is_coupled() {
                return Ok(cells.clone());
            }
            let rng = &mut stream(seed, [SEARCH, 1, j as u64, 0]);
            let mut shown = |x: Option<f64>| x.filter(|_| rng.random_range(0..FOLDS) != fold);
            let row = |row| {
                let all = law.parts(cells, row);
                let left: Vec<Option<f64>> = all.iter().map(|&x| shown(x)).collect();
                hidden.extend((left != all).then_some((row, j)));
                left
            };
            law.read(&(0..self.n_rows()).map(row).collect::<Vec<_>>())
        });
        let cells = cells.collect::<Result<_, _>>();
        let shown = self.with_cells(cells.expect("cells that were read before"))?;
        hidden.sort_unstable();
        Ok(Fold { shown, hidden })
    }
}

/// As [`ItfData::find_groups`], which is so much of all that `watch` hears of; none when it is stopped.
pub(crate) fn find_groups(
    data: &ItfData,
    config: &ItfConfig,
    (watch, share): (&Watch<'_>, f64),
) -> Result<Vec<Vec<String>>, ItfError> {
    config.validate()?;
    data.check_not_empty()?;
    let candidates = match data.places().iter().any(|place| place.part.is_some()) {
        true => Vec::new(),
        false => data.candidates(),
    };
    if candidates.is_empty() {
        let _ = watch.part("groups", share).report(0, 1.0, &[], &[]);
        return Ok(Vec::new());
    }
    let whole = data.some_rows(config.seed)?;
    let n_folds = (ENOUGH * FOLDS).div_ceil(whole.n_observed().max(1));
    let folds = (0..n_folds.min(FOLDS)).map(|fold| whole.with_hidden(config.seed, fold));
    let search = Search {
        folds: folds.collect::<Result<_, ItfError>>()?,
        whole,
        config: ItfConfig {
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 60,
                keep: 10,
                thin: 4,
            },
            keep_labels: data.laws().iter().any(Column::is_coupled),
            groups: Grouping::Off,
            ..config.clone()
        },
    };
    let none = [Vec::new()];
    let all: Vec<&Vec<Vec<String>>> = none.iter().chain(&candidates).collect();
    let asked = all
        .iter()
        .flat_map(|groups| search.folds.iter().map(move |fold| (*groups, fold)));
    let share = share / (all.len() * search.folds.len()) as f64;
    let fits = parallel::try_map(asked, |(groups, fold)| {
        search.explained(groups, fold, (watch, share))
    })?;
    let Some(fits) = fits.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(Vec::new());
    };
    // Fold by fold for every candidate.
    let densities: Vec<Vec<f64>> = fits.chunks(search.folds.len()).map(<[_]>::concat).collect();
    Ok(search
        .choose(&densities)
        .map_or(Vec::new(), |chosen| candidates[chosen].clone()))
}

/// Data of which some cells are hidden, and rows and columns of those that are, wholly or in part.
struct Fold {
    shown: ItfData,
    hidden: Vec<(usize, usize)>,
}

/// Cells that are hidden from short fits.
struct Search {
    whole: ItfData,
    folds: Vec<Fold>,
    config: ItfConfig,
}

impl Search {
    /// Log densities of the hidden cells of a fold under a fit to what is shown; none when it was stopped.
    fn explained(
        &self,
        groups: &[Vec<String>],
        fold: &Fold,
        (watch, share): (&Watch<'_>, f64),
    ) -> Result<Option<Vec<f64>>, ItfError> {
        if watch.is_stopped() {
            return Ok(None);
        }
        let shown = fold.shown.with_groups(groups)?;
        let whole = self.whole.with_groups(groups)?;
        let memory = Checkpoint::in_memory([None]);
        let plan = self.config.plan("groups");
        let chains = sample(&plan, (watch, share), &memory, |chain, _| {
            ItfSampler::new(&shown, self.config.clone(), chain)
        })?;
        let fit = ItfFit::new(&shown, &self.config, chains)?;
        if fit.stop() != Stop::Completed {
            return Ok(None);
        }
        let (shown, whole) = (fit.rows_of(&shown, true)?, fit.rows_of(&whole, true)?);
        fit.ln_held_out(&shown, &whole, &fold.hidden).map(Some)
    }

    /// Which candidate, of the log densities under none and under each: the first, with most columns together and none last, that is not behind the best
    /// by the margin.
    fn choose(&self, densities: &[Vec<f64>]) -> Option<usize> {
        let rows = self.folds.iter().flat_map(|fold| &fold.hidden);
        let rows: Vec<usize> = rows.map(|cell| cell.0).collect();
        let (none, candidates) = densities.split_first()?;
        let best =
            candidates
                .iter()
                .fold(none, |best, other| match gain(&rows, other, best).0 > 0.0 {
                    true => other,
                    false => best,
                });
        let is_as_good = |of: &Vec<f64>| {
            let (behind, error) = gain(&rows, best, of);
            behind <= (MARGIN * error).min(MOST_BEHIND)
        };
        candidates.iter().position(is_as_good)
    }
}

/// What cells, of these rows, gain in log density in all, and the standard error of that over rows. One cell counts no more than [`MOST`] either way:
/// a cell that a short fit finds next to impossible says little about a long one.
fn gain(rows: &[usize], of: &[f64], other: &[f64]) -> (f64, f64) {
    let n_rows = rows.iter().max().map_or(0, |last| last + 1);
    let mut gains = vec![0.0; n_rows];
    let mut asked = vec![false; n_rows];
    for (&row, (a, b)) in rows.iter().zip(of.iter().zip(other)) {
        gains[row] += (a - b).clamp(-MOST, MOST);
        asked[row] = true;
    }
    let n = asked.iter().filter(|asked| **asked).count().max(1) as f64;
    let total: f64 = gains.iter().sum();
    let squares: f64 = gains.iter().map(|x| x * x).sum();
    (total, (squares - total * total / n).max(0.0).sqrt())
}

/// Correlation over the rows in which both are observed.
fn correlation(x: &[Option<f64>], y: &[Option<f64>]) -> f64 {
    let pairs = || x.iter().zip(y).filter_map(|(x, y)| Some(((*x)?, (*y)?)));
    let n = pairs().count() as f64;
    if n < 3.0 {
        return 0.0;
    }
    let (a, b) = pairs().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs() {
        xx += (x - a).powi(2);
        xy += (x - a) * (y - b);
        yy += (y - b).powi(2);
    }
    if xx * yy > 0.0 {
        xy / (xx * yy).sqrt()
    } else {
        0.0
    }
}

/// One-way analysis of variance: the F statistic, mean square between levels over that within, and the share of the variance that is between levels
/// (adjusted for their number).
fn variance_between(codes: &[Option<u32>], x: &[Option<f64>]) -> (f64, f64) {
    let pairs = || {
        codes
            .iter()
            .zip(x)
            .filter_map(|(c, x)| Some(((*c)? as usize, (*x)?)))
    };
    let n_levels = pairs().map(|(c, _)| c + 1).max().unwrap_or(0);
    let (mut n, mut sums) = (vec![0.0; n_levels], vec![0.0; n_levels]);
    for (c, x) in pairs() {
        n[c] += 1.0;
        sums[c] += x;
    }
    let total: f64 = n.iter().sum();
    let mean = sums.iter().sum::<f64>() / total.max(1.0);
    let squares: f64 = pairs().map(|(_, x)| (x - mean).powi(2)).sum();
    let levels = n.iter().zip(&sums).filter(|(n, _)| **n > 0.0);
    let between: f64 = levels.map(|(n, sum)| n * (sum / n - mean).powi(2)).sum();
    let occupied = n.iter().filter(|n| **n > 0.0).count() as f64;
    let (of_between, of_within) = (occupied - 1.0, total - occupied);
    if of_between < 1.0 || of_within < 1.0 || squares <= 0.0 {
        return (0.0, 0.0);
    }
    let within = (squares - between).max(1e-9 * squares) / of_within;
    (
        between / of_between / within,
        1.0 - within / (squares / (total - 1.0)),
    )
}

/// Absolute correlations of columns.
fn correlations(scores: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
    let n = scores.len();
    let entry = |a: usize| -> Vec<f64> {
        let of_pair = |b: usize| correlation(&scores[a], &scores[b]).abs();
        (0..n).map(of_pair).collect()
    };
    parallel::map(0..n, entry)
}

/// As many columns of a group as a joint law takes, those with the largest correlations with others first; in their order.
fn most_correlated(
    alike: &[Vec<f64>],
    group: Vec<usize>,
    is_spiked: impl Fn(&usize) -> bool,
) -> Vec<usize> {
    let squares = |a: &usize| -> f64 {
        let others = group.iter().filter(|b| *b != a);
        others.map(|&b| alike[*a][b].powi(2)).sum()
    };
    let told: Vec<f64> = group.iter().map(squares).collect();
    let mut order: Vec<usize> = (0..group.len()).collect();
    order.sort_by(|&a, &b| told[b].total_cmp(&told[a]));
    let mut spikes = 0;
    order.retain(|&at| {
        let spiked = is_spiked(&group[at]);
        spikes += usize::from(spiked);
        !spiked || spikes <= MAX_SPIKES
    });
    order.truncate(MAX_NUMBERS);
    order.sort_unstable();
    order.into_iter().map(|at| group[at]).collect()
}

/// Clusters of columns by average linkage of absolute correlations.
fn clusters(alike: &[Vec<f64>]) -> Vec<Vec<usize>> {
    let n = alike.len();
    let mut clusters: Vec<Vec<usize>> = (0..n).map(|j| vec![j]).collect();
    loop {
        let mut best = (ALIKE, None);
        for b in 0..clusters.len() {
            for a in 0..b {
                let (x, y) = (&clusters[a], &clusters[b]);
                let pairs = x.iter().flat_map(|&i| y.iter().map(move |&j| (i, j)));
                let sum: f64 = pairs.map(|(i, j)| alike[i][j]).sum();
                let mean = sum / (x.len() * y.len()) as f64;
                if mean > best.0 && x.len() + y.len() <= MAX_NUMBERS {
                    best = (mean, Some((a, b)));
                }
            }
        }
        let (_, Some((a, b))) = best else {
            return clusters;
        };
        let other = clusters.remove(b);
        clusters[a].extend(other);
    }
}

#[cfg(test)]
mod tests {
    use npb_data::{MixedColumn, MixedTable};

    use super::*;

    #[test]
    fn tenths_are_disjoint_and_make_up_the_table() {
        let x = (0..40).map(|i| (i % 7 > 0).then_some(f64::from(i)));
        let codes = (0..40).map(|i| (i % 5 > 0).then_some(i % 3));
        let levels = ["a", "b", "c"].map(String::from).to_vec();
        let codes = codes.collect();
        let columns = vec![
            MixedColumn::Real(x.collect()),
            MixedColumn::Categorical { levels, codes },
        ];
        let table = MixedTable::new(["x", "c"].map(String::from).to_vec(), columns).unwrap();
        let whole = ItfData::from_table(&table).unwrap();
        let fold = |fold| whole.with_hidden(3, fold).unwrap().hidden;
        let mut cells: Vec<(usize, usize)> = (0..FOLDS).flat_map(fold).collect();
        cells.sort_unstable();
        let all = (0..40).flat_map(|row| [(row, 0), (row, 1)]);
        let all: Vec<_> = all.filter(|&(i, j)| table.is_observed(i, j)).collect();
        assert_eq!(cells, all);
        assert_eq!(whole.n_observed(), all.len());
    }

    /// Gains of rows 2, 1 and 0 are 0.5 − 1, 3 (of 10) and 0; their sum has the variance of a sum of three.
    #[test]
    fn gains_are_summed_by_rows() {
        let rows = [2, 1, 2, 0];
        let (of, other) = ([0.5, 10.0, -1.0, 2.0], [0.0, 0.0, 0.0, 2.0]);
        let (total, error) = gain(&rows, &of, &other);
        assert!((total - 2.5).abs() < 1e-12);
        let squares = 0.25 + 9.0 - 2.5_f64.powi(2) / 3.0;
        assert!((error - squares.sqrt()).abs() < 1e-12);
    }
}
