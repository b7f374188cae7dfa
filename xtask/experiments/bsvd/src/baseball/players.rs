//! Figure 5.8 and Table 5.4: how certain the model is of each batter, and the best of two seasons against each other.

use npb_bsvd::Cells;
use npb_infer::stream;
use rand::RngExt;

use super::{configured, fit};
use crate::counts::{FOLDER, Seasons, Window};
use crate::fits::{OURS, traced};
use npb_kit::npb_report::{Layer, Panel, Shape, colours, picture};
use npb_kit::{
    Context, Figure, Outcome, Report, Result, ResultRow, Run, TextTable, Trial, mean_and_sd,
    summarise,
};

pub(crate) const FIG_5_8: Run = run;

/// Pitchers over which a batter's standard deviation is averaged.
const OPPONENTS: usize = 40;
/// Best players of each kind and season.
const BEST: usize = 3;
/// Groups of batters, by at-bats, of the curve.
const GROUPS: usize = 24;
/// Key of the random stream that draws opponents.
const DRAW: u64 = 5;

fn run(context: &Context<'_>) -> Result<Report> {
    let seasons = Seasons::load(context)?;
    let (first, last) = context.scale.smoke_or((2007, 2008), (1969, 2008));
    let window = seasons.window(first..=last);
    let best = [first, last].map(|year| Best::of(&seasons.window(year..=year), &window));
    let (batters, pitchers) = (
        [best[0].batters.clone(), best[1].batters.clone()].concat(),
        [best[0].pitchers.clone(), best[1].pitchers.clone()].concat(),
    );
    let cells = cells(&window, &batters, &pitchers, context.seed);
    let config = configured(context.scale, 0);
    let config = format!("{}\n{config:?}", seasons.checksums);
    let setting = format!("train={first}-{last}");
    let trial = Trial::new([FOLDER, &setting, OURS], 0, config, ());
    let records = context.run_trials(&[trial], |_, seed| {
        let fit = fit(
            &window,
            &window.counts,
            cells.clone(),
            &configured(context.scale, seed),
        )?;
        let sd: Vec<f64> = (0..cells.len()).map(|k| fit.moments.sd(k)).collect();
        let duels = batters.len() * pitchers.len();
        let mut outcome = Outcome::metrics([("rank", traced(&fit, 0))]);
        let series = [
            ("duel_mean", fit.moments.mean[..duels].to_vec()),
            ("duel_sd", sd[..duels].to_vec()),
            (
                "batter_sd",
                sd[duels..]
                    .chunks(OPPONENTS)
                    .map(|c| mean_and_sd(c).0)
                    .collect(),
            ),
        ];
        for (name, values) in series {
            outcome.series.insert(name.to_owned(), values);
        }
        Ok(outcome)
    })?;
    let series = |name: &str| records[0].outcome.series[name].as_slice();
    let by_trials = sorted(&window, series("batter_sd"));
    let mut results = summarise(&records, |_, _, _, _| None);
    let curve = groups(&by_trials);
    for (trials, sd) in &curve {
        results.push(ResultRow::single(
            [
                FOLDER,
                &format!("train={first}-{last};at_bats={trials:.0}"),
                OURS,
                "sd",
            ],
            *sd,
        ));
    }
    let duels = Duels {
        years: [first, last],
        batters: batters
            .iter()
            .map(|&i| seasons.name(&window.batters[i]))
            .collect(),
        pitchers: pitchers
            .iter()
            .map(|&j| seasons.name(&window.pitchers[j]))
            .collect(),
        mean: series("duel_mean"),
        sd: series("duel_sd"),
    };
    Ok(Report {
        figures: vec![figure(&by_trials, &curve)?],
        tables: vec![duels.table()],
        notes: vec![
            format!(
                "A batter's standard deviation is averaged over {OPPONENTS} pitchers drawn at random (the thesis: over all)."
            ),
            "Best players of a season: at least the median number of at-bats of that season, and the highest (pitchers: lowest) rate of hits. The thesis's median is over \
             all batters of the season, so that it lets in players with few at-bats; so does this table. Means: offset and intercepts inside the probit link (the \
             default)."
                .to_owned(),
        ],
        results,
    })
}

/// Best players of a season, by their places in the whole window.
struct Best {
    batters: Vec<usize>,
    pitchers: Vec<usize>,
}

impl Best {
    fn of(season: &Window, whole: &Window) -> Self {
        let pick = |names: &[String], all: &[String], batters: bool| -> Vec<usize> {
            let mut sums = vec![(0u64, 0u64); names.len()];
            for c in &season.counts {
                let (hits, trials) = &mut sums[if batters { c.row } else { c.column } as usize];
                *hits += u64::from(c.hits);
                *trials += u64::from(c.trials);
            }
            let mut trials: Vec<u64> = sums.iter().map(|s| s.1).collect();
            trials.sort_unstable();
            let median = trials.get(trials.len() / 2).copied().unwrap_or(0);
            let rate = |i: &usize| sums[*i].0 as f64 / sums[*i].1 as f64;
            let mut chosen: Vec<usize> = (0..names.len())
                .filter(|&i| sums[i].1 >= median.max(1))
                .collect();
            chosen.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
            if batters {
                chosen.reverse();
            }
            let place = |&i: &usize| all.binary_search(&names[i]).ok();
            chosen.iter().filter_map(place).take(BEST).collect()
        };
        Self {
            batters: pick(&season.batters, &whole.batters, true),
            pitchers: pick(&season.pitchers, &whole.pitchers, false),
        }
    }
}

/// The duels, row by row, then for every batter some pitchers at random.
fn cells(window: &Window, batters: &[usize], pitchers: &[usize], seed: u64) -> Cells {
    let mut cells = Cells::default();
    let mut add = |i: usize, j: usize| {
        cells.rows.push(i as u32);
        cells.columns.push(j as u32);
    };
    for &i in batters {
        pitchers.iter().for_each(|&j| add(i, j));
    }
    let rng = &mut stream(seed, [0, 0, 0, DRAW]);
    for i in 0..window.batters.len() {
        (0..OPPONENTS).for_each(|_| add(i, rng.random_range(0..window.pitchers.len())));
    }
    cells
}

/// At-bats and standard deviation of every batter, by at-bats.
fn sorted(window: &Window, sd: &[f64]) -> Vec<(f64, f64)> {
    let trials = window.trials_of_batters();
    let mut pairs: Vec<(f64, f64)> = trials
        .iter()
        .zip(sd)
        .map(|(&n, &sd)| (n as f64, sd))
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

/// Means over groups of equal size.
fn groups(batters: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = batters.len().div_ceil(GROUPS).max(1);
    let mean = |group: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        group.iter().map(of).sum::<f64>() / group.len() as f64
    };
    batters
        .chunks(size)
        .map(|group| (mean(group, |b| b.0), mean(group, |b| b.1)))
        .collect()
}

fn figure(batters: &[(f64, f64)], curve: &[(f64, f64)]) -> Result<Figure> {
    let points = |all: &[(f64, f64)]| -> Vec<[f64; 2]> {
        all.iter().map(|(n, sd)| [n.log10(), *sd]).collect()
    };
    // Every eighth batter is enough for the eye and keeps the picture small.
    let some: Vec<(f64, f64)> = batters.iter().step_by(8).copied().collect();
    let panel = Panel::new(
        "by at-bats",
        ["log10 at-bats", "mean sd of hit probability"],
        (0.0, batters.last().map_or(1.0, |b| b.0.log10()) * 1.02),
        (0.0, batters.iter().fold(0.0f64, |m, b| m.max(b.1)) * 1.05),
        vec![
            Layer::new("a batter", colours::GREY, Shape::Dots(points(&some))),
            Layer::new(
                "mean of a group",
                colours::VERMILLION,
                Shape::Curves(vec![points(curve)], 3),
            ),
        ],
    );
    Ok(picture(
        "fig-5.8",
        "How certain the model is of a batter",
        "Posterior standard deviation of the probability of a hit, averaged over pitchers; every eighth batter is drawn.",
        &[panel],
    )?)
}

/// Batters (rows) against pitchers.
struct Duels<'a> {
    years: [u16; 2],
    batters: Vec<String>,
    pitchers: Vec<String>,
    mean: &'a [f64],
    sd: &'a [f64],
}

impl Duels<'_> {
    fn year(&self, index: usize) -> u16 {
        self.years[usize::from(index >= BEST)]
    }

    fn table(&self) -> TextTable {
        let n = self.pitchers.len();
        let line = |(i, batter): (usize, &String)| {
            let cell =
                |j: usize| format!("{:.4} ({:.4})", self.mean[i * n + j], self.sd[i * n + j]);
            let name = format!("{batter} ({})", self.year(i));
            std::iter::once(name).chain((0..n).map(cell)).collect()
        };
        let pitchers = self
            .pitchers
            .iter()
            .enumerate()
            .map(|(j, name)| format!("{name} ({})", self.year(j)));
        let header = std::iter::once("batter".to_owned()).chain(pitchers);
        TextTable::new(
            "Probability of a hit: posterior mean (standard deviation)",
            &header.collect::<Vec<_>>(),
            self.batters.iter().enumerate().map(line),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::example;

    #[test]
    fn the_best_are_found_by_rate_among_the_busier_half() {
        let seasons = example();
        let whole = seasons.window(2007..=2008);
        let best = Best::of(&seasons.window(2007..=2007), &whole);
        // Adam hit 1 of 4, bob 1 of 5; yan was hit 0 of 3 times, zoe 2 of 6, but the median is 6.
        assert_eq!(best.batters, [1], "only bob has the median of 5 at-bats");
        assert_eq!(best.pitchers, [2]);
        let cells = cells(&whole, &[0, 1], &[2], 1);
        assert_eq!(cells.len(), 2 + 3 * OPPONENTS);
        assert_eq!((cells.rows[1], cells.columns[1]), (1, 2));
    }

    #[test]
    fn groups_average_neighbours() {
        let batters: Vec<(f64, f64)> = (0..48).map(|k| (f64::from(k), 1.0)).collect();
        let groups = groups(&batters);
        assert_eq!(groups.len(), 24);
        assert_eq!(groups[0], (0.5, 1.0));
    }
}
