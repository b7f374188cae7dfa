//! Two classes in 2,500 groups of 10 to 40 rows at the defaults: coefficients of each group about one of three centres.

use npb_benches::timed;
use npb_data::{Labels, Table};
use npb_hbrec::{GroupedConfig, fit_groups};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::special::normal_cdf;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::{Outcome, share, table_seed};

const N_GROUPS: usize = 2_500;
const WIDTH: usize = 5;
const N_CENTRES: usize = 3;
/// Standard deviation of a coefficient among centres, and about its centre.
const AMONG: f64 = 0.9;
const ABOUT: f64 = 0.4;
/// Rows of each group that the fit does not see; of the first an interval is asked, too.
const HELD_OUT: usize = 20;

/// Rows one after the other, the probability of their second class, their class and group.
#[derive(Default)]
struct Rows {
    cells: Vec<f64>,
    probability: Vec<f64>,
    is_second: Vec<bool>,
    group: Vec<String>,
}

impl Rows {
    fn draw(&mut self, group: usize, coefficients: &[f64], n: usize, rng: &mut Xoshiro256PlusPlus) {
        for _ in 0..n {
            let x: Vec<f64> = (0..WIDTH).map(|_| rng.sample(StandardNormal)).collect();
            let terms = x.iter().zip(&coefficients[1..]).map(|(x, w)| x * w);
            let p = normal_cdf(coefficients[0] + terms.sum::<f64>());
            self.is_second.push(rng.random::<f64>() < p);
            self.probability.push(p);
            self.cells.extend(x);
            self.group.push(format!("g{group:05}"));
        }
    }

    fn table(&self) -> Table {
        Table::complete(self.group.len(), WIDTH, self.cells.clone()).expect("rows of one length")
    }
}

pub(crate) fn run() -> Outcome {
    let rng = &mut stream(table_seed(), [0; 4]);
    let mut normals = |sd: f64| -> Vec<f64> {
        let mut normal = || rng.sample::<f64, _>(StandardNormal);
        (0..=WIDTH).map(|_| sd * normal()).collect()
    };
    let centres: Vec<Vec<f64>> = (0..N_CENTRES).map(|_| normals(AMONG)).collect();
    let (mut seen, mut held_out) = (Rows::default(), Rows::default());
    for group in 0..share(N_GROUPS) {
        let about = (0..=WIDTH).map(|_| ABOUT * rng.sample::<f64, _>(StandardNormal));
        let centre = &centres[group % N_CENTRES];
        let coefficients: Vec<f64> = about.zip(centre).map(|(a, c)| a + c).collect();
        let n = rng.random_range(10..=40);
        seen.draw(group, &coefficients, n, rng);
        held_out.draw(group, &coefficients, HELD_OUT, rng);
    }
    let class = |second: &bool| Some(if *second { "b" } else { "a" });
    let codes: Vec<_> = seen.is_second.iter().map(class).collect();
    let classes = vec!["a".to_owned(), "b".to_owned()];
    let labels = Labels::with_classes(classes, &codes).expect("these classes");
    let names: Vec<_> = seen.group.iter().map(|g| Some(g.as_str())).collect();
    let (table, groups) = (seen.table(), Labels::from_strings(&names));
    let config = GroupedConfig::default();
    let (fit, seconds) =
        timed(|| fit_groups(&table, &labels, &groups, &config).expect("good input"));
    let mut sums = [0.0; 3];
    for (at, name) in held_out.group.chunks(HELD_OUT).enumerate() {
        let own = at * HELD_OUT..(at + 1) * HELD_OUT;
        let cells = held_out.cells[own.start * WIDTH..own.end * WIDTH].to_vec();
        let table = Table::complete(HELD_OUT, WIDTH, cells).expect("rows of one length");
        let group = fit.group(&name[0]).expect("a group of the fit");
        let found = fit.predict(group, &table).expect("columns of the fit");
        let truth = held_out.probability[own.start];
        let first = held_out.cells[own.start * WIDTH..][..WIDTH].to_vec();
        let first = Table::complete(1, WIDTH, first).expect("one row");
        let interval = &fit
            .predict_interval(group, &first, 0.9)
            .expect("a level between 0 and 1")[0];
        sums[2] += f64::from(interval.lower <= truth && truth <= interval.upper);
        for (p, i) in found.iter().zip(own) {
            let truth = held_out.probability[i];
            let of_class = if held_out.is_second[i] { *p } else { 1.0 - p };
            sums[0] -= of_class.ln();
            sums[1] += (p - truth).powi(2);
        }
    }
    let [log_loss, square, held] = sums.map(|sum| sum / held_out.group.len() as f64);
    Outcome {
        seconds,
        quality: vec![
            ("log_loss", log_loss),
            ("rmse_of_probability", square.sqrt()),
            ("held_by_90%", held * HELD_OUT as f64),
            ("atoms", fit.mixture().weights().n_active() as f64),
            ("tau", fit.mixture().weights().tau),
        ],
    }
}
