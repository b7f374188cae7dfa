//! Tables whose columns fall into independent groups, each with clusters of its own: are the groups found, are hidden cells predicted?

use npb_data::{Mask, MixedColumn, MixedTable};
use npb_infer::{SweepPlan, Xoshiro256PlusPlus, stream};
use npb_itf::{Grouping, ImputedCell, ItfConfig, ItfData, Structure, fit_data};
use npb_priors::dist::Normal;
use npb_priors::special::{ln_gamma, ln_normal_pdf, ln_normalize};
use rand::RngExt;

use super::names::{DPM, ITF, ONE_BLOCK, TRUTH};
use npb_kit::tables::{differences, overview};
use npb_kit::{Context, Outcome, Report, Result, Scale, Trial, mean_and_sd, summarise};

const METHODS: [(&str, Option<Structure>); 4] = [
    (ITF, Some(Structure::TensorBlocks)),
    (ONE_BLOCK, Some(Structure::Tensor)),
    (DPM, Some(Structure::Joint)),
    (TRUTH, None),
];

const METRICS: &str = "right_pairs within across error_real error_count error_rate seconds";

/// Numbers of groups, of twenty columns.
const N_GROUPS: [usize; 2] = [2, 5];
const N_COLUMNS: usize = 20;
const N_CLUSTERS: usize = 3;
/// Share of the cells that are hidden.
const HIDDEN: f64 = 0.1;
/// Real cells are normal with these means and variance 1, counts Poisson with these means.
const MEANS: [f64; N_CLUSTERS] = [0.0, 3.0, 6.0];
const RATES: [f64; N_CLUSTERS] = [2.0, 8.0, 20.0];
/// Probability that a level is that of the cluster; else it is any of the three.
const FAITHFUL: f64 = 0.8;
/// Key of the random stream.
const TABLE: u64 = 1;

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let scale = context.scale;
    let mut trials = Vec::new();
    for n_groups in N_GROUPS {
        for trial in 0..scale.pick(1, 10, 20) {
            for (name, structure) in METHODS {
                let place = [
                    "simulated",
                    &format!("missing={HIDDEN};groups={n_groups}"),
                    name,
                ];
                let settings = structure.map(|structure| config(scale, structure, 0));
                let config = format!("{} rows\n{settings:?}", n_rows(scale));
                trials.push(Trial::new(place, trial, config, (n_groups, structure)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (n_groups, structure) = trial.work;
        let groups = Groups::draw(n_rows(scale), n_groups, seed)?;
        match structure {
            None => Ok(groups.outcome(&groups.truth())),
            Some(structure) => groups.fitted(&config(scale, structure, seed)),
        }
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            overview("Groups and hidden cells", &results, METRICS),
            differences(
                &records,
                ITF,
                &[TRUTH, DPM],
                "error_real error_count error_rate",
            ),
        ],
        notes: notes(),
        results,
        ..Default::default()
    })
}

fn n_rows(scale: Scale) -> usize {
    scale.smoke_or(150, 1000)
}

/// Two chains of 300 sweeps: the answer should not take long.
fn config(scale: Scale, structure: Structure, seed: u64) -> ItfConfig {
    let (chains, burn_in, keep) = scale.smoke_or((1, 50, 10), (2, 200, 50));
    ItfConfig {
        structure,
        chains,
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 2,
        },
        keep_labels: false,
        groups: Grouping::Off,
        seed,
        ..Default::default()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Real,
    Count,
    Level,
}

/// Sorts of columns take turns, within and across groups.
fn sort(column: usize) -> Sort {
    [Sort::Real, Sort::Count, Sort::Level][column % 3]
}

/// A table of which some cells are hidden.
struct Groups {
    n_groups: usize,
    /// In a column cluster z of its group is called (z + turn) modulo their number.
    turns: Vec<usize>,
    /// Row by row; levels as their numbers.
    cells: Vec<[f64; N_COLUMNS]>,
    mask: Mask,
}

/// What is said about a hidden cell: its mean, or the probabilities of its levels.
type Answer = Vec<f64>;

impl Groups {
    fn draw(n_rows: usize, n_groups: usize, seed: u64) -> Result<Self> {
        let rng = &mut stream(seed, [n_groups as u64, 0, 0, TABLE]);
        let normal = Normal::new(0.0, 1.0)?;
        let turns: Vec<usize> = (0..N_COLUMNS)
            .map(|_| rng.random_range(0..N_CLUSTERS))
            .collect();
        let group = |column: usize| column * n_groups / N_COLUMNS;
        let row = |_| {
            let labels: Vec<usize> = (0..n_groups)
                .map(|_| rng.random_range(0..N_CLUSTERS))
                .collect();
            std::array::from_fn(|column| {
                let cluster = (labels[group(column)] + turns[column]) % N_CLUSTERS;
                match sort(column) {
                    Sort::Real => MEANS[cluster] + normal.sample(rng),
                    Sort::Count => poisson(RATES[cluster], rng),
                    Sort::Level if rng.random::<f64>() < FAITHFUL => cluster as f64,
                    Sort::Level => rng.random_range(0..N_CLUSTERS) as f64,
                }
            })
        };
        let cells = (0..n_rows).map(row).collect();
        let mut mask = Mask::new(n_rows, N_COLUMNS, false)?;
        for (row, column) in (0..n_rows).flat_map(|i| (0..N_COLUMNS).map(move |j| (i, j))) {
            mask.set(row, column, rng.random::<f64>() < HIDDEN);
        }
        Ok(Self {
            n_groups,
            turns,
            cells,
            mask,
        })
    }

    fn group(&self, column: usize) -> usize {
        column * self.n_groups / N_COLUMNS
    }

    /// The table without the hidden cells.
    fn table(&self) -> Result<MixedTable> {
        let rows = || self.cells.iter();
        let column = |j: usize| match sort(j) {
            Sort::Real => MixedColumn::Real(rows().map(|row| Some(row[j])).collect()),
            Sort::Count => MixedColumn::Count(rows().map(|row| Some(row[j] as u64)).collect()),
            Sort::Level => MixedColumn::Categorical {
                levels: ["a", "b", "c"].map(str::to_owned).to_vec(),
                codes: rows().map(|row| Some(row[j] as u32)).collect(),
            },
        };
        let names = (0..N_COLUMNS).map(|j| format!("c{j}")).collect();
        let whole = MixedTable::new(names, (0..N_COLUMNS).map(column).collect())?;
        Ok(whole.hide(&self.mask)?)
    }

    fn hidden(&self) -> impl Iterator<Item = (usize, usize)> {
        let all = (0..self.cells.len()).flat_map(|i| (0..N_COLUMNS).map(move |j| (i, j)));
        all.filter(|&(row, column)| self.mask.get(row, column))
    }

    /// What can be said with the true parameters, given what a row shows.
    fn truth(&self) -> Vec<Answer> {
        self.hidden()
            .map(|(row, column)| self.answer(row, column))
            .collect()
    }

    fn answer(&self, row: usize, column: usize) -> Answer {
        let shown = |&j: &usize| self.group(j) == self.group(column) && !self.mask.get(row, j);
        let shown: Vec<usize> = (0..N_COLUMNS).filter(shown).collect();
        let ln = |label: usize| {
            let cells = shown.iter();
            cells.map(|&j| self.ln_density(row, j, label)).sum::<f64>()
        };
        let mut weights: Vec<f64> = (0..N_CLUSTERS).map(ln).collect();
        ln_normalize(&mut weights);
        let mut answer = vec![
            0.0;
            if sort(column) == Sort::Level {
                N_CLUSTERS
            } else {
                1
            }
        ];
        for (label, weight) in weights.iter().enumerate() {
            let cluster = (label + self.turns[column]) % N_CLUSTERS;
            match sort(column) {
                Sort::Real => answer[0] += weight * MEANS[cluster],
                Sort::Count => answer[0] += weight * RATES[cluster],
                Sort::Level => {
                    for (level, p) in answer.iter_mut().enumerate() {
                        *p += weight * probability(level, cluster);
                    }
                }
            }
        }
        answer
    }

    /// ln density of a cell in a cluster of its group.
    fn ln_density(&self, row: usize, column: usize, label: usize) -> f64 {
        let cluster = (label + self.turns[column]) % N_CLUSTERS;
        let x = self.cells[row][column];
        match sort(column) {
            Sort::Real => ln_normal_pdf(x - MEANS[cluster]),
            Sort::Count => x * RATES[cluster].ln() - RATES[cluster] - ln_gamma(x + 1.0),
            Sort::Level => probability(x as usize, cluster).ln(),
        }
    }

    /// Errors of answers for all hidden cells, in order: of reals and counts the root mean squared error, of levels the share of wrong ones.
    fn outcome(&self, answers: &[Answer]) -> Outcome {
        let errors = |wanted: Sort| -> f64 {
            let cells = self
                .hidden()
                .zip(answers)
                .filter(|((_, j), _)| sort(*j) == wanted);
            let errors = cells.map(|((i, j), answer)| match wanted {
                Sort::Level => f64::from(most_probable(answer) != self.cells[i][j] as usize),
                _ => (answer[0] - self.cells[i][j]).powi(2),
            });
            let errors: Vec<f64> = errors.collect();
            mean_and_sd(&errors).0
        };
        Outcome::metrics([
            ("error_real", errors(Sort::Real).sqrt()),
            ("error_count", errors(Sort::Count).sqrt()),
            ("error_rate", errors(Sort::Level)),
        ])
    }

    fn fitted(&self, config: &ItfConfig) -> Result<Outcome> {
        let data = ItfData::from_table(&self.table()?)?;
        let fit = fit_data(&data, config)?;
        // Hidden cells, row by row.
        let cells: Vec<ImputedCell> = fit.impute_cells(&fit.rows_of(&data, true)?, 0.9)?;
        let answers: Vec<Answer> = cells.into_iter().map(|cell| cell.expected).collect();
        let mut outcome = self.outcome(&answers);
        if !config.structure.has_blocks() {
            return Ok(outcome);
        }
        let draws = fit.draws();
        let (mut within, mut across, mut right) = (Vec::new(), Vec::new(), Vec::new());
        for (a, b) in (0..N_COLUMNS).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let same = draws
                .iter()
                .filter(|d| d.columns[a].block == d.columns[b].block);
            let share = same.count() as f64 / draws.len() as f64;
            let together = self.group(a) == self.group(b);
            if together { &mut within } else { &mut across }.push(share);
            right.push(f64::from((share > 0.5) == together));
        }
        for (name, shares) in [
            ("within", within),
            ("across", across),
            ("right_pairs", right),
        ] {
            outcome
                .metrics
                .insert(name.to_owned(), mean_and_sd(&shares).0);
        }
        Ok(outcome)
    }
}

/// A Poisson draw: arrivals until the time is up.
fn poisson(rate: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let (mut time, mut count) = (0.0, 0.0);
    loop {
        time -= (1.0 - rng.random::<f64>()).ln();
        if time > rate {
            return count;
        }
        count += 1.0;
    }
}

fn probability(level: usize, cluster: usize) -> f64 {
    let by_chance = (1.0 - FAITHFUL) / N_CLUSTERS as f64;
    by_chance + if level == cluster { FAITHFUL } else { 0.0 }
}

fn most_probable(p: &[f64]) -> usize {
    (1..p.len()).fold(0, |best, k| if p[k] > p[best] { k } else { best })
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "{N_COLUMNS} columns, in turn real (means {MEANS:?}, variance 1), counts (Poisson with means {RATES:?}) and of three levels (that of the cluster with \
             probability {FAITHFUL}, else any), in groups of equal size with {N_CLUSTERS} equally likely clusters each, groups independent."
        ),
        format!(
            "`right_pairs`: share of the pairs of columns that are together in most draws if and only if they are of one group; `within`, `across`: mean share \
             of draws in which pairs of one group and of two are together. `{TRUTH}`: the best prediction by one who knows all parameters, but no labels."
        ),
        "`error_real`, `error_count`: root mean squared errors; `error_rate`: share of wrong levels.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_beats_the_margin_and_does_not_look_at_hidden_cells() {
        let mut groups = Groups::draw(300, 2, 1).unwrap();
        let answers = groups.truth();
        let margin: Vec<Answer> = groups
            .hidden()
            .map(|(_, j)| match sort(j) {
                Sort::Real => vec![3.0],
                Sort::Count => vec![10.0],
                Sort::Level => vec![0.4, 0.3, 0.3],
            })
            .collect();
        let (own, theirs) = (groups.outcome(&answers), groups.outcome(&margin));
        for (name, value) in &own.metrics {
            assert!(value < &(0.7 * theirs.metrics[name]), "{name}: {value}");
        }
        let hidden: Vec<_> = groups.hidden().collect();
        for (i, j) in hidden {
            groups.cells[i][j] = 1.0;
        }
        assert_eq!(groups.truth(), answers);
    }

    #[test]
    fn hidden_cells_are_missing_and_answered_in_order() {
        let groups = Groups::draw(60, 5, 2).unwrap();
        assert_eq!(groups.table().unwrap().n_missing(), groups.hidden().count());
        let outcome = groups
            .fitted(&config(Scale::Smoke, Structure::TensorBlocks, 1))
            .unwrap();
        assert!(
            METRICS
                .split(' ')
                .take(6)
                .collect::<Vec<_>>()
                .iter()
                .all(|name| outcome.metrics[*name].is_finite())
        );
    }
}
