//! Data from the model itself: how often posterior intervals hold what the data came from.

use npb_data::{Labels, Table, splits};
use npb_infer::stream;
use npb_iqgme::IqgmeConfig;
use npb_linalg::condition::{Gaussian, Scratch};
use npb_linalg::faer::{Mat, Scale as Times};
use npb_priors::dist::{Gamma, Normal, NormalWishart, Wishart};
use npb_priors::dp::sample_weights;
use npb_priors::special::{log_sum_exp, normal_cdf};
use rand::{Rng, RngExt};

use super::OURS;
use super::cells::{coverage, hidden_cells};
use super::data::{Side, Sides};
use super::methods::fit;
use npb_kit::tables::{header, overview};
use npb_kit::{
    Context, Experiment, Outcome, Report, Result, ResultRow, Scale, TextTable, Trial, short,
    summarise,
};

pub(crate) const COVERAGE: Experiment = Experiment {
    id: "iqgme/coverage",
    what: "data from the model: coverage of class probabilities, missing cells and alpha by posterior intervals",
    paper: "no printed numbers; variational posteriors are expected to be too narrow",
    data: &[],
    run,
};

const ROWS: usize = 200;
const TEST_ROWS: usize = 100;
const FEATURES: usize = 3;
const MISSING: f64 = 0.2;
const ALPHA: f64 = 1.0;
/// Posterior draws behind the interval of a probability.
const DRAWS: usize = 200;
const INTERVALS: [(f64, &str); 2] = [(0.5, "50"), (0.9, "90")];
/// What intervals are checked of, by the names of the metrics.
const CHECKED: [(&str, &str); 3] = [
    ("probability", "class probability of a new row"),
    ("cell", "missing cell of a training row"),
    ("alpha", "alpha"),
];
/// Tables drawn until one has both classes.
const ATTEMPTS: u64 = 1_000;

/// Keys of the random streams.
const PARAMETERS: u64 = 0;
const TRAINING: u64 = 1;
const TEST: u64 = 2;

fn run(context: &Context<'_>) -> Result<Report> {
    let n = match context.scale {
        Scale::Smoke => 2,
        Scale::Quick => 100,
        Scale::Paper => 500,
    };
    let trial = |trial| Trial {
        dataset: "simulated".to_owned(),
        setting: format!("alpha={ALPHA};columns={FEATURES};missing={MISSING};rows={ROWS}"),
        method: OURS.to_owned(),
        trial,
        config: format!("{:?}\n{DRAWS} draws", IqgmeConfig::default()),
        work: (),
    };
    let trials: Vec<Trial<()>> = (0..n).map(trial).collect();
    let records = context.run_trials(&trials, |_, seed| examine(seed))?;
    let results = summarise(&records, |_, _, _, _| None);
    let errors = [
        "probability_error",
        "probability_width_50",
        "probability_width_90",
        "alpha_mean",
    ];
    let notes = [
        "Parameters are drawn from the model with the default configuration for each trial: alpha = 1, 20 sticks, means and precisions from the \
         normal-Wishart prior with unit expected covariance, experts around a common mean with lambda = 1 (draws of lambda from its vague prior \
         would make nearly all probabilities 0 or 1). Tables of one class are drawn again. The fit knows none of this: it standardises the columns and \
         scales its prior by their covariance.",
        "The true probability of a row is computed from the generating parameters and the observed cells of the row. Coverage is the mean over trials; \
         the standard error counts trials, as rows and cells of one trial share their parameters.",
        "Variational posteriors ignore dependences, and no target is set.",
    ];
    Ok(Report {
        tables: vec![
            table(&results),
            overview("Size of errors and intervals", &results, &errors),
        ],
        notes: notes.map(str::to_owned).to_vec(),
        results,
        ..Default::default()
    })
}

/// Nominal beside found coverage.
fn table(results: &[ResultRow]) -> TextTable {
    let mut rows = Vec::new();
    for (name, what) in CHECKED {
        for (level, percent) in INTERVALS {
            let metric = format!("{name}_{percent}");
            for row in results.iter().filter(|r| r.metric == metric) {
                let error = row.sd.map(|sd| sd / (row.trials as f64).sqrt());
                rows.push(vec![
                    what.to_owned(),
                    level.to_string(),
                    short(row.mean),
                    error.map_or(String::new(), short),
                    row.trials.to_string(),
                ]);
            }
        }
    }
    TextTable {
        title: "How often intervals hold the truth".to_owned(),
        header: header(&[
            "interval of",
            "nominal",
            "found",
            "standard error",
            "trials",
        ]),
        rows,
    }
}

/// Draws parameters and rows, fits, and checks every interval.
fn examine(seed: u64) -> Result<Outcome> {
    let (truth, sides) = draw(seed)?;
    let fit = fit(&sides.train, seed)?;
    let exact = truth.probabilities(&sides.test.rows)?;
    let mut outcome = Outcome::default();
    let metrics = &mut outcome.metrics;
    let cells = fit.training_cells(&sides.train.rows, &sides.train.labels)?;
    let cells = hidden_cells(&sides.train, &cells)?;
    let (shape, rate) = fit.concentration();
    let alpha_level = (2.0 * Gamma::new(shape, rate)?.cdf(ALPHA) - 1.0).abs();
    metrics.insert("alpha_mean".to_owned(), shape / rate);
    for (level, percent) in INTERVALS {
        let intervals = fit.predict_interval(&sides.test.rows, level, DRAWS)?;
        let pairs = || intervals.iter().zip(&exact);
        let share = |inside: usize| inside as f64 / exact.len() as f64;
        let inside = pairs()
            .filter(|(i, p)| (i.lower..=i.upper).contains(*p))
            .count();
        let width = intervals.iter().map(|i| i.upper - i.lower).sum::<f64>();
        metrics.insert(format!("probability_{percent}"), share(inside));
        metrics.insert(
            format!("probability_width_{percent}"),
            width / exact.len() as f64,
        );
        metrics.insert(format!("cell_{percent}"), coverage(cells.iter(), level));
        let covered = f64::from(u8::from(alpha_level <= level));
        metrics.insert(format!("alpha_{percent}"), covered);
    }
    let found = fit.predict_proba(&sides.test.rows)?;
    let error = npb_data::metrics::rmse(&found, &exact)?;
    metrics.insert("probability_error".to_owned(), error);
    Ok(outcome)
}

/// Parameters whose training rows have both classes, and both sides; columns stay in the units they are drawn in.
fn draw(seed: u64) -> Result<(Truth, Sides)> {
    for attempt in 0..ATTEMPTS {
        let truth = Truth::draw(&mut stream(seed, [PARAMETERS, attempt, 0, 0]))?;
        let side = |rows, purpose| truth.side(rows, &mut stream(seed, [purpose, attempt, 0, 0]));
        let (train, test) = (side(ROWS, TRAINING)?, side(TEST_ROWS, TEST)?);
        if train.positive.contains(&true) && train.positive.contains(&false) {
            let columns = (0..FEATURES).collect();
            return Ok((
                truth,
                Sides {
                    train,
                    test,
                    columns,
                },
            ));
        }
    }
    Err(format!("no table with both classes in {ATTEMPTS} draws").into())
}

/// Parameters of the model.
struct Truth {
    weights: Vec<f64>,
    components: Vec<Gaussian>,
    /// Slopes, then the intercept.
    experts: Vec<Vec<f64>>,
}

impl Truth {
    fn draw(rng: &mut impl Rng) -> Result<Self> {
        let config = IqgmeConfig::default();
        let p = FEATURES as f64;
        let excess = config.dof_excess + config.dof_per_feature * p;
        // The expected covariance, B^-1 / (excess - 1), is the identity.
        let scale_inverse = Mat::<f64>::identity(FEATURES, FEATURES) * Times(excess - 1.0);
        let wishart = Wishart::from_inverse_scale(scale_inverse.as_ref(), p + excess)?;
        let law = NormalWishart::new(vec![0.0; FEATURES], config.mean_strength, wishart)?;
        let mut weights = vec![0.0; config.truncation];
        sample_weights(ALPHA, &mut weights, rng);
        let common = Normal::new(0.0, 1.0 / config.expert_mean_strength)?;
        let common: Vec<f64> = (0..=FEATURES).map(|_| common.sample(rng)).collect();
        let own = Normal::new(0.0, 1.0)?;
        let (mut components, mut experts) = (Vec::new(), Vec::new());
        for _ in &weights {
            let (mean, precision) = law.sample(rng);
            let linear: Vec<f64> = (0..FEATURES)
                .map(|i| (0..FEATURES).map(|j| precision[(i, j)] * mean[j]).sum())
                .collect();
            components.push(Gaussian::from_precision(&linear, precision.as_ref())?);
            experts.push(common.iter().map(|c| c + own.sample(rng)).collect());
        }
        Ok(Self {
            weights,
            components,
            experts,
        })
    }

    /// Rows with hidden cells, and their classes.
    fn side(&self, rows: usize, rng: &mut impl Rng) -> Result<Side> {
        let (mut values, mut classes) = (Vec::new(), Vec::new());
        let (none, all): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..FEATURES).collect());
        let mut scratch = Scratch::default();
        for _ in 0..rows {
            let h = self.component(rng.random());
            let mut row = vec![0.0; FEATURES];
            // Everything is missing: a draw of the whole row.
            let mut law = self.components[h].condition(&none, &all, &mut scratch)?;
            law.sample(&mut row, rng);
            let positive = rng.random::<f64>() < normal_cdf(score(&self.experts[h], &row));
            classes.push(Some(usize::from(positive)));
            values.extend(row);
        }
        let table = Table::complete(rows, FEATURES, values)?;
        let mask = splits::missing_at_random(&table, MISSING, rng)?;
        let labels = Labels::from_codes(vec!["no".to_owned(), "yes".to_owned()], classes)?;
        let rows: Vec<usize> = (0..rows).collect();
        Side::new(&table, Some(&mask), &labels, &rows)
    }

    fn component(&self, mut u: f64) -> usize {
        for (h, weight) in self.weights.iter().enumerate() {
            u -= weight;
            if u < 0.0 {
                return h;
            }
        }
        self.weights.len() - 1
    }

    /// Probability of the second class given the observed cells of each row.
    fn probabilities(&self, table: &Table) -> Result<Vec<f64>> {
        let mut scratch = Scratch::default();
        let mut probabilities = vec![0.0; table.n_rows()];
        for pattern in table.patterns().iter() {
            for &i in &pattern.rows {
                let (mut ln_joint, mut by_expert) = (Vec::new(), Vec::new());
                for ((component, expert), weight) in
                    self.components.iter().zip(&self.experts).zip(&self.weights)
                {
                    let (observed, missing) = (&pattern.observed, &pattern.missing);
                    let mut given = component.condition(observed, missing, &mut scratch)?;
                    ln_joint.push(weight.ln() + given.ln_density_observed(table.row(i)));
                    let mut row = table.row(i).to_vec();
                    given.complete(&mut row);
                    // The missing part of the score is normal: its variance joins that of the probit.
                    let covariance = given.covariance();
                    let slope = |k: usize| expert[missing[k]];
                    let square = |(k, l)| slope(k) * covariance[(k, l)] * slope(l);
                    let n = missing.len();
                    let pairs = (0..n).flat_map(|k| (0..n).map(move |l| (k, l)));
                    let variance = 1.0 + pairs.map(square).sum::<f64>();
                    by_expert.push(normal_cdf(score(expert, &row) / variance.sqrt()));
                }
                let total = log_sum_exp(&ln_joint);
                let terms = ln_joint.iter().zip(&by_expert);
                let p: f64 = terms.map(|(l, p)| (l - total).exp() * p).sum();
                probabilities[i] = p.clamp(0.0, 1.0);
            }
        }
        Ok(probabilities)
    }
}

/// `w'x + b`.
fn score(expert: &[f64], row: &[f64]) -> f64 {
    let slopes = expert.iter().zip(row).map(|(w, x)| w * x);
    slopes.sum::<f64>() + expert[row.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True probabilities given incomplete rows are calibrated against the classes drawn, and those of other parameters are not.
    #[test]
    fn true_probabilities_are_calibrated() {
        let gap = |truth: &Truth, other: &Truth| {
            let side = truth.side(20_000, &mut stream(5, [9; 4])).unwrap();
            let p = other.probabilities(&side.rows).unwrap();
            npb_data::metrics::expected_calibration_error(&p, &side.positive, 10).unwrap()
        };
        let [one, two] = [3, 4].map(|seed| draw(seed).unwrap().0);
        assert!(gap(&one, &one) < 0.012, "{}", gap(&one, &one));
        assert!(gap(&two, &two) < 0.012, "{}", gap(&two, &two));
        assert!(gap(&one, &two) > 0.05, "{}", gap(&one, &two));
    }

    #[test]
    fn tables_have_both_classes_and_hidden_cells() {
        for seed in 0..20 {
            let (truth, sides) = draw(seed).unwrap();
            assert!((truth.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(sides.train.labels.counts().iter().all(|&n| n > 0));
            let hidden = sides.train.hidden().count();
            assert_eq!(hidden, 120);
        }
    }

    #[test]
    fn every_interval_is_examined() {
        let found = examine(1).unwrap().metrics;
        for (name, _) in CHECKED {
            let [narrow, wide] = INTERVALS.map(|(_, percent)| found[&format!("{name}_{percent}")]);
            assert!(
                0.0 <= narrow && narrow <= wide && wide <= 1.0,
                "{name}: {narrow} {wide}"
            );
        }
        assert!(found["probability_error"] < 0.5);
    }
}
