//! Checks of npb-itf: small tables of mixed columns drawn from the model, and verdicts on dependence where the truth is known.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::testing::JointModel;
use npb_infer::{SweepPlan, Xoshiro256PlusPlus, stream};
use npb_itf::kernels::Column;
use npb_itf::{
    ColumnDependence, DependenceConfig, Grouping, ItfConfig, ItfData, ItfMove, ItfSampler,
    ItfState, Structure, Verdict, fit_data,
};
use npb_priors::GammaPrior;
use npb_priors::dist::Normal;
use npb_priors::special::beta_regularized;
use rand::{Rng, RngExt};

use crate::scenarios::{Scenario, Simulated};
use npb_kit::validate::{Check, Findings, Plan, alarms, calibration};
use npb_kit::{Report, Result, ResultRow, Scale, mean_and_sd, short, text_table};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("itf/calibration", calibrate),
    ("itf/false-alarms", false_alarms),
    ("itf/verdicts", verdicts),
    ("itf/verdicts-with-groups", verdicts_with_groups),
];

const METHOD: &str = "npb:itf";
/// Share of right samplers for which the check of false verdicts gives an alarm.
const CHECK_RATE: f64 = 0.001;
/// Share of the dependent pairs that should be found.
const POWER: f64 = 0.95;

/// A real column, one of three levels and a binary one, some cells missing.
struct Model {
    data: ItfData,
    config: ItfConfig,
    quantities: Vec<&'static str>,
}

/// The row whose level is unobserved.
const UNOBSERVED: usize = 4;

impl Model {
    fn new(
        n_rows: usize,
        structure: Structure,
        moves: &[ItfMove],
        quantities: &[&'static str],
    ) -> Result<Self> {
        let observed = |i: usize, j: usize| (i + 2 * j) % 5 != UNOBSERVED;
        let level = |i: usize| Some((i % 3) as u32).filter(|_| i != UNOBSERVED);
        let columns = vec![
            MixedColumn::Real(
                (0..n_rows)
                    .map(|i| observed(i, 1).then_some((i % 4) as f64))
                    .collect(),
            ),
            MixedColumn::Categorical {
                levels: ["a", "b", "c"].map(str::to_owned).to_vec(),
                codes: (0..n_rows).map(level).collect(),
            },
            MixedColumn::Binary {
                levels: ["no", "yes"].map(str::to_owned),
                values: (0..n_rows)
                    .map(|i| observed(i, 2).then_some(i % 2 == 0))
                    .collect(),
            },
        ];
        let names = ["real", "three", "two"].map(str::to_owned).to_vec();
        let prior = GammaPrior {
            shape: 3.0,
            rate: 3.0,
        };
        Ok(Self {
            data: ItfData::from_table(&MixedTable::new(names, columns)?)?,
            config: ItfConfig {
                structure,
                moves: moves.to_vec(),
                top_concentration: prior,
                lower_concentration: prior,
                column_concentration: prior,
                ..ItfConfig::default()
            },
            quantities: quantities.to_vec(),
        })
    }
}

fn size(labels: &[u32], label: u32) -> usize {
    labels.iter().filter(|&&k| k == label).count()
}

impl JointModel for Model {
    type State = ItfState;
    type Data = ItfData;

    fn names(&self) -> Vec<String> {
        self.quantities
            .iter()
            .map(|&name| name.to_owned())
            .collect()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> ItfState {
        ItfState::prior(&self.data, &self.config, rng)
    }

    fn simulate(&self, state: &ItfState, rng: &mut Xoshiro256PlusPlus) -> ItfData {
        let columns = self.data.cells().iter().zip(&state.columns).enumerate();
        let cells = columns.map(|(j, (cells, column))| {
            let mut cells = cells.clone();
            column.law.simulate(state.labels(j), &mut cells, rng);
            cells
        });
        // Cells of the same kernels and number of rows always fit.
        self.data.with_cells(cells.collect()).unwrap_or_default()
    }

    fn sweep(&self, state: &mut ItfState, data: &ItfData, rng: &mut Xoshiro256PlusPlus) {
        let config = ItfConfig {
            seed: rng.next_u64(),
            ..self.config.clone()
        };
        match ItfSampler::resume(data, config, 0, state.clone(), 0) {
            Ok(mut sampler) => {
                sampler.sweep();
                *state = sampler.into_state();
            }
            // Not a number is an alarm.
            Err(_) => state.column_concentration = f64::NAN,
        }
    }

    fn summary(&self, state: &ItfState, data: &ItfData) -> Vec<f64> {
        let first = &state.columns[0];
        let labels = state.labels(0);
        let top = &state.blocks[first.block];
        let cluster = |j: usize, row: usize| state.labels(j)[row] as usize;
        let value = |name: &&str| match (*name, &first.law, &state.columns[1].law) {
            // Of the block of the first column; below that of the column itself.
            ("top concentration", ..) => top.concentration,
            ("lower concentration", ..) => first.concentrations.first().copied().unwrap_or(0.0),
            ("blocks", ..) => state.blocks.len() as f64,
            // Occupied ones of the first column.
            ("clusters", ..) => {
                let mut seen = labels.to_vec();
                seen.sort_unstable();
                seen.dedup();
                seen.len() as f64
            }
            // Of the first row's cluster.
            ("mean of a cluster", Column::Normal(law), _) => law.params.mean(cluster(0, 0)),
            // The probability of the first one.
            ("unobserved level", _, Column::Categorical(law)) => {
                law.params.probability(0, cluster(1, UNOBSERVED))
            }
            // Of the first row, which ties labels and data.
            ("size times cell", law, _) => {
                let (mut cell, rng) = (Vec::new(), &mut stream(0, [0; 4]));
                let none = npb_itf::RowLabels::NONE;
                law.complete(
                    cluster(0, 0),
                    &data.cells()[0],
                    0,
                    false,
                    none,
                    rng,
                    &mut cell,
                );
                size(labels, labels[0]) as f64 * cell.first().map_or(0.0, |x| x.atan())
            }
            _ => f64::NAN,
        };
        // A state that could not be swept has no concentration.
        let bad = state.column_concentration.is_nan();
        let values = self.quantities.iter().map(value);
        values.map(|v| if bad { f64::NAN } else { v }).collect()
    }
}

fn calibrate(plan: &Plan) -> Result<Findings> {
    let quantities = [
        "top concentration",
        "lower concentration",
        "blocks",
        "clusters",
        "mean of a cluster",
        "unobserved level",
    ];
    let model = Model::new(20, Structure::TensorBlocks, &ItfMove::ALL, &quantities)?;
    // The chain starts at another draw of the prior, which a few sweeps do not forget.
    let test = calibration::design(
        plan,
        [(20, 9, 100, 5), (1_000, 99, 100, 5), (2_000, 99, 300, 15)],
    );
    calibration::calibrate(&model, &test, "rows=20;columns=3", METHOD)
}

fn false_alarms(plan: &Plan) -> Result<Findings> {
    let one_level = [
        "top concentration",
        "clusters",
        "mean of a cluster",
        "unobserved level",
        "size times cell",
    ];
    let two_levels = [&one_level[..], &["lower concentration"]].concat();
    let with_blocks = [&two_levels[..], &["blocks"]].concat();
    let length = plan.scale.pick(5, 150, 600);
    let (all, paper) = (&ItfMove::ALL[..], &ItfMove::PAPER[..]);
    let (blocks, tensor) = (Structure::TensorBlocks, Structure::Tensor);
    let models = [
        ("blocks of factorisations", blocks, all, &with_blocks[..]),
        ("one factorisation", tensor, all, &two_levels),
        (
            "one factorisation, the paper's sweep",
            tensor,
            paper,
            &two_levels,
        ),
        ("one clustering", Structure::Joint, all, &one_level),
    ];
    let models = models.map(|(name, structure, moves, quantities)| {
        Ok((name, Model::new(7, structure, moves, quantities)?))
    });
    alarms::findings(plan, models, (32, length), METHOD)
}

/// Six independent columns of different sorts, a tenth of the cells missing.
fn independent(n_rows: usize, seed: u64) -> Result<ItfData> {
    let rng = &mut stream(seed, [0; 4]);
    let normal = Normal::new(0.0, 1.0)?;
    let mut data = ItfData::new();
    let mut real = |name: &str, draw: &dyn Fn(f64, f64) -> f64, rng: &mut Xoshiro256PlusPlus| {
        let cell = |_| {
            let x = draw(normal.sample(rng), rng.random());
            (rng.random::<f64>() > 0.1).then_some(x)
        };
        data.push_table_column(name, &MixedColumn::Real((0..n_rows).map(cell).collect()))
    };
    real("clustered", &|z, u| if u < 0.5 { z } else { z + 4.0 }, rng)?;
    real("skewed, with ties", &|z, _| (2.0 * z.exp()).round(), rng)?;
    real("heavy tails", &|z, u| z / u.max(0.05), rng)?;
    let mut levels = |name: &str, p: &[f64], rng: &mut Xoshiro256PlusPlus| {
        let cell = |_| {
            let u: f64 = rng.random();
            let code = p.iter().filter(|&&below| u > below).count() as u32;
            (rng.random::<f64>() > 0.1).then_some(code)
        };
        let codes = (0..n_rows).map(cell).collect();
        let levels = (0..=p.len()).map(|k| k.to_string()).collect();
        data.push_table_column(name, &MixedColumn::Categorical { levels, codes })
    };
    levels("levels", &[0.6, 0.9, 0.97], rng)?;
    levels("yes or no", &[0.3], rng)?;
    let count = |_| {
        // Waiting times of a rare event: far from normal.
        let u: f64 = rng.random();
        let x = ((1.0 - u).ln() / 0.8_f64.ln()) as u64;
        (rng.random::<f64>() > 0.1).then_some(x)
    };
    data.push_table_column(
        "counts",
        &MixedColumn::Count((0..n_rows).map(count).collect()),
    )?;
    Ok(data)
}

/// What fits by `config` say; the p-values do not look at the fit.
fn ask(data: &ItfData, fit: &ItfConfig, config: &DependenceConfig) -> Result<ColumnDependence> {
    let fit = fit_data(data, fit)?;
    Ok(fit.dependence(&fit.rows_of(data, true)?, config)?)
}

/// As good as no fit at all.
fn hardly() -> ItfConfig {
    ItfConfig {
        chains: 1,
        sweeps: npb_kit::sweeps(0, 1),
        groups: Grouping::Off,
        ..Default::default()
    }
}

/// Correlation of the first two columns of [`correlated`].
const CORRELATION: f64 = 0.6;

/// Two normal columns that are correlated, two that are independent of all.
fn correlated(n_rows: usize, seed: u64) -> Result<ItfData> {
    let rng = &mut stream(seed, [1; 4]);
    let normal = Normal::new(0.0, 1.0)?;
    let mut columns = [const { Vec::new() }; 4];
    for _ in 0..n_rows {
        let z = [(); 4].map(|()| normal.sample(rng));
        let second = CORRELATION * z[0] + (1.0 - CORRELATION * CORRELATION).sqrt() * z[1];
        for (column, x) in columns.iter_mut().zip([z[0], second, z[2], z[3].exp()]) {
            column.push(Some(x));
        }
    }
    let mut data = ItfData::new();
    for (name, cells) in ["one", "like it", "normal", "skewed"]
        .into_iter()
        .zip(columns)
    {
        data.push_table_column(name, &MixedColumn::Real(cells))?;
    }
    Ok(data)
}

/// Fits at the defaults, which find groups of columns with a joint law: whether p-values are those without groups, whether a fit explains
/// what the test rejects, and whether the information is that of the normal law, -ln(1 - r²) / 2.
fn verdicts_with_groups(plan: &Plan) -> Result<Findings> {
    let (n_tables, n_rows, sweeps) = plan.scale.smoke_or(
        (2, 60, npb_kit::sweeps(5, 5)),
        (40, 200, ItfConfig::default().sweeps),
    );
    let (mut same, mut found, mut explained) = (Vec::new(), Vec::new(), Vec::new());
    let (mut wrong, mut information) = (Vec::new(), Vec::new());
    for k in 0..n_tables {
        let seed = plan.seed + k;
        let data = correlated(n_rows, seed)?;
        let config = DependenceConfig {
            seed,
            ..Default::default()
        };
        let fit = ItfConfig {
            seed,
            sweeps,
            ..Default::default()
        };
        let alone = ask(&data, &hardly(), &config)?;
        let grouped = ask(&data, &fit, &config)?;
        for (pair, other) in grouped.pairs().iter().zip(alone.pairs()) {
            same.push(pair.p_value == other.p_value);
            if (pair.a, pair.b) == (0, 1) {
                found.push(pair.dependent);
                explained.push(pair.verdict == Verdict::Dependent);
                information.push(pair.information.mean);
            } else {
                wrong.push(pair.dependent);
            }
        }
    }
    let share = |of: &[bool]| of.iter().filter(|&&yes| yes).count() as f64 / of.len() as f64;
    let hits = wrong.iter().filter(|&&yes| yes).count();
    let tail = upper_tail(hits, wrong.len(), DependenceConfig::default().level);
    let (mean, sd) = mean_and_sd(&information);
    let error = sd.unwrap_or(0.0) / (information.len() as f64).sqrt();
    let truth = -0.5 * (1.0 - CORRELATION * CORRELATION).ln();
    let enough = share(&found) >= POWER && share(&explained) >= POWER;
    let passed = share(&same) == 1.0 && tail > CHECK_RATE && (enough || plan.scale == Scale::Smoke);
    let rows = [
        (
            "p-values as without groups",
            "same",
            share(&same),
            same.len(),
        ),
        (
            "independent pairs",
            "false_verdicts",
            share(&wrong),
            wrong.len(),
        ),
        (
            "correlated pair, rejected",
            "power",
            share(&found),
            found.len(),
        ),
        (
            "correlated pair, explained",
            "explained",
            share(&explained),
            explained.len(),
        ),
        (
            "information of the correlated pair, nats",
            "information",
            mean,
            information.len(),
        ),
        (
            "its standard error",
            "information_error",
            error,
            information.len(),
        ),
        ("information by the law", "true_information", truth, 1),
    ];
    let line = |&(what, _, value, n): &(&str, &str, f64, usize)| {
        vec![what.to_owned(), short(value), n.to_string()]
    };
    let result = |&(what, metric, value, n): &(&str, &str, f64, usize)| {
        ResultRow::simulated(("tables with groups", what), [METHOD, metric], value, n)
    };
    let report = Report {
        tables: vec![text_table(
            format!(
                "Verdicts of fits that find groups: {n_tables} tables of {n_rows} rows, correlation {CORRELATION}"
            ),
            "what | value | of",
            rows.iter().map(line),
        )],
        results: rows.iter().map(result).collect(),
        ..Default::default()
    };
    Ok(Findings { report, passed })
}

fn verdicts(plan: &Plan) -> Result<Findings> {
    let (n_tables, n_rows) = plan.scale.smoke_or((2, 60), (200, 200));
    let config = |seed| DependenceConfig {
        seed,
        sweeps: SweepPlan {
            burn_in: 50,
            ..DependenceConfig::default().sweeps
        },
        ..Default::default()
    };
    let (mut p_values, mut found, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..n_tables {
        let seed = plan.seed + k;
        let dependence = ask(&independent(n_rows, seed)?, &hardly(), &config(seed))?;
        p_values.extend(dependence.pairs().iter().map(|pair| pair.p_value));
    }
    let n_scenarios = n_tables.min(20);
    for k in 0..n_scenarios {
        let seed = plan.seed + k;
        let rows = plan.scale.smoke_or(200, 1000);
        let (table, fields) = Simulated::draw(Scenario::Own, rows, seed)?.table()?;
        let data = ItfData::from_fields(&table, &fields)?;
        for pair in ask(&data, &hardly(), &config(seed))?.pairs() {
            match Scenario::Own.are_dependent(pair.a, pair.b) {
                true => found.push(pair.dependent),
                false => wrong.push(pair.dependent),
            }
        }
    }
    let count = |verdicts: &[bool]| verdicts.iter().filter(|&&v| v).count();
    let (mut lines, mut results, mut passed) = (Vec::new(), Vec::new(), true);
    let mut add =
        |what: &str, metric: &str, (hits, n): (usize, usize), expected: String, p: f64| {
            let share = hits as f64 / n as f64;
            let counts = [hits, n].map(|count| count.to_string());
            let others = [short(share), expected, short(p)];
            lines.push([&[what.to_owned()], &counts[..], &others].concat());
            results.push(ResultRow::simulated(
                ("tables", what),
                [METHOD, metric],
                share,
                n,
            ));
        };
    for level in [0.01, 0.05] {
        let hits = p_values.iter().filter(|&&p| p <= level).count();
        let tail = upper_tail(hits, p_values.len(), level);
        passed &= tail > CHECK_RATE;
        let what = format!("independent columns, level {level}");
        add(
            &what,
            "false_verdicts",
            (hits, p_values.len()),
            short(level),
            tail,
        );
    }
    let tail = upper_tail(count(&wrong), wrong.len(), 0.01);
    passed &= tail > CHECK_RATE;
    add(
        "scenario 2, independent pairs",
        "false_verdicts",
        (count(&wrong), wrong.len()),
        short(0.01),
        tail,
    );
    let power = count(&found) as f64 / found.len() as f64;
    passed &= power >= POWER || plan.scale == Scale::Smoke;
    let goal = format!("at least {POWER}");
    add(
        "scenario 2, dependent pairs",
        "power",
        (count(&found), found.len()),
        goal,
        1.0,
    );
    let report = Report {
        tables: vec![text_table(
            format!(
                "Verdicts on pairs of columns: {n_tables} tables of independent columns ({n_rows} rows), {n_scenarios} of scenario 2"
            ),
            "tables | called dependent | of | share | expected | probability of so many",
            lines,
        )],
        results,
        notes: vec![format!(
            "Verdicts on pairs that share a column are uncorrelated under independence, not independent: the binomial probability is close. The check \
             gives an alarm when it is below {CHECK_RATE}, or when power is too low."
        )],
        ..Default::default()
    };
    Ok(Findings { report, passed })
}

/// P(X >= hits) for X binomial of n with probability p.
fn upper_tail(hits: usize, n: usize, p: f64) -> f64 {
    match hits {
        0 => 1.0,
        _ => beta_regularized(hits as f64, (n - hits) as f64 + 1.0, p),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoke_checks_run_and_write_numbers() {
        npb_kit::testing::smoke(CHECKS);
    }

    #[test]
    fn tails_are_binomial() {
        assert_eq!(upper_tail(0, 9, 0.2), 1.0);
        assert!((upper_tail(2, 2, 0.2) - 0.04).abs() < 1e-12);
        assert!((upper_tail(1, 3, 0.5) - 0.875).abs() < 1e-12);
    }
}
