//! Cells with several parts of which only some are missing: every kernel finds the hidden parts of a known law, with the exact
//! conditional law given the parts that are left, and returns observed parts as they were given.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::{Sampler, Stop, SweepPlan, Trace, Xoshiro256PlusPlus};
use npb_itf::kernels::{
    Cells, Column, Curve, CurveData, DiagonalNormal, DiagonalNormalData, FullNormal,
    FullNormalData, Network, NetworkData, Series, SeriesData, Wavelet,
};
use npb_itf::{
    Grouping, ItfChain, ItfConfig, ItfData, ItfFit, ItfMove, ItfRows, ItfSampler, ItfState,
    Structure, fit, fit_data,
};
use rand::RngExt;
use rand_distr::StandardNormal;

type Row = Vec<Option<f64>>;

/// A known law of cells with several parts.
struct Law {
    name: &'static str,
    column: Column,
    cells: fn(&Column, &[Row]) -> Cells,
    /// Complete.
    rows: Vec<Vec<f64>>,
    /// Mean and standard deviation of a part given the others.
    given_others: fn(&[f64], usize, usize) -> (f64, f64),
}

const N: usize = 160;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    npb_infer::stream(seed, [9; 4])
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    rng.sample(StandardNormal)
}

fn some(row: &[f64]) -> Row {
    row.iter().map(|&x| Some(x)).collect()
}

/// z_1 ~ N(0, 1), z_2 = 2 z_1 + e, z_3 = z_1 − z_2 + e, standard deviations of e 0.3 and 0.5; about 5, 100 and 0.
fn vectors() -> Law {
    let rng = &mut rng(1);
    let row = |_| {
        let a = normal(rng);
        let b = 2.0 * a + 0.3 * normal(rng);
        let c = a - b + 0.5 * normal(rng);
        vec![5.0 + a, 100.0 + 10.0 * b, c]
    };
    Law {
        name: "vector",
        rows: (0..N).map(row).collect(),
        column: FullNormal::new(&[(5.0, 1.0), (100.0, 20.0), (0.0, 1.2)])
            .unwrap()
            .column(&mut self::rng(2)),
        cells: |column, rows| match column {
            Column::FullNormal(of) => {
                Cells::FullNormal(FullNormalData::new(&of.kernel, rows).unwrap())
            }
            _ => unreachable!(),
        },
        given_others: |x, part, _| {
            let (a, b, c) = (x[0] - 5.0, (x[1] - 100.0) / 10.0, x[2]);
            // ln p = −a²/2 − (b − 2a)²/(2 0.09) − (c − a + b)²/(2 0.25).
            let (p, q) = (1.0 / 0.09, 4.0);
            match part {
                0 => {
                    let precision = 1.0 + 4.0 * p + q;
                    let mean = (2.0 * p * b + q * (c + b)) / precision;
                    (5.0 + mean, precision.sqrt().recip())
                }
                1 => {
                    let precision = p + q;
                    let mean = (2.0 * p * a + q * (a - c)) / precision;
                    (100.0 + 10.0 * mean, 10.0 / precision.sqrt())
                }
                _ => (a - b, 0.5),
            }
        },
    }
}

/// Two clusters, (−4, −40, 0.1) and (4, 40, −0.1) give or take (1, 5, 1): the other coordinates tell which.
fn independent_vectors() -> Law {
    let rng = &mut rng(3);
    let row = |i: usize| {
        let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        vec![
            4.0 * side + normal(rng),
            40.0 * side + 5.0 * normal(rng),
            normal(rng) - 0.1 * side,
        ]
    };
    Law {
        name: "independent coordinates",
        rows: (0..N).map(row).collect(),
        column: DiagonalNormal::new(&[(0.0, 4.1), (0.0, 40.0), (0.0, 1.0)])
            .unwrap()
            .column(&mut self::rng(2)),
        cells: |_, rows| Cells::DiagonalNormal(DiagonalNormalData::new(rows).unwrap()),
        given_others: |_, part, row| {
            let side = if row.is_multiple_of(2) { 1.0 } else { -1.0 };
            [(4.0 * side, 1.0), (40.0 * side, 5.0), (-0.1 * side, 1.0)][part]
        },
    }
}

const PHI: f64 = 0.9;
const TIMES: usize = 6;

/// z_t = 0.9 z_(t−1) + e, standard deviation 0.3, the first N(0, 1), about 20 in units of 3.
fn series() -> Law {
    let rng = &mut rng(4);
    let row = |_| {
        let mut z = normal(rng);
        let mut row = vec![20.0 + 3.0 * z];
        for _ in 1..TIMES {
            z = PHI * z + 0.3 * normal(rng);
            row.push(20.0 + 3.0 * z);
        }
        row
    };
    Law {
        name: "series",
        rows: (0..N).map(row).collect(),
        column: Series::new(1, TIMES, 20.0, 3.0)
            .unwrap()
            .column(&mut self::rng(2)),
        cells: |column, rows| match column {
            Column::Series(of) => Cells::Series(SeriesData::new(&of.kernel, rows).unwrap()),
            _ => unreachable!(),
        },
        given_others: |x, t, _| {
            let z = |t: usize| (x[t] - 20.0) / 3.0;
            let (p, mut precision, mut pull) = (1.0 / 0.09, 0.0, 0.0);
            if t == 0 {
                precision += 1.0;
            } else {
                precision += p;
                pull += p * PHI * z(t - 1);
            }
            if t + 1 < TIMES {
                precision += p * PHI * PHI;
                pull += p * PHI * z(t + 1);
            }
            (20.0 + 3.0 * pull / precision, 3.0 / precision.sqrt())
        },
    }
}

fn wave(row: usize, t: usize) -> f64 {
    let turn = std::f64::consts::TAU * t as f64 / 8.0;
    if row.is_multiple_of(2) {
        turn.sin()
    } else {
        turn.cos()
    }
}

/// Sines and cosines with a standard deviation of 0.2 about them.
fn curves() -> Law {
    let rng = &mut rng(5);
    let row = |i: usize| {
        (0..8)
            .map(|t| 7.0 + wave(i, t) + 0.2 * normal(rng))
            .collect()
    };
    Law {
        name: "curve",
        rows: (0..N).map(row).collect(),
        column: Curve::new(Wavelet::Daubechies4, 8, 7.0, 0.7)
            .unwrap()
            .column(&mut self::rng(2)),
        cells: |column, rows| match column {
            Column::Curve(of) => Cells::Curve(CurveData::new(&of.kernel, rows).unwrap()),
            _ => unreachable!(),
        },
        given_others: |_, t, row| (7.0 + wave(row, t), 0.2),
    }
}

fn laws() -> [Law; 4] {
    [vectors(), independent_vectors(), series(), curves()]
}

impl Law {
    fn copy(&self) -> Self {
        Self {
            column: self.column.clone(),
            rows: self.rows.clone(),
            ..*self
        }
    }

    fn data(&self, rows: &[Row]) -> ItfData {
        let mut data = ItfData::new();
        data.push(
            self.name,
            self.column.clone(),
            (self.cells)(&self.column, rows),
        )
        .unwrap();
        data
    }

    fn n_parts(&self) -> usize {
        self.rows[0].len()
    }

    /// One part hidden in every fifth row, each part in its turn; two in row 1, all in row 3.
    fn shown(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows.iter().map(|row| some(row)).collect();
        for (turn, row) in rows.iter_mut().step_by(5).enumerate() {
            row[turn % self.n_parts()] = None;
        }
        (rows[1][0], rows[1][2]) = (None, None);
        rows[3].fill(None);
        rows
    }

    fn fit(&self, structure: Structure) -> (ItfFit, ItfData) {
        let data = self.data(&self.shown());
        let config = ItfConfig {
            structure,
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 120,
                keep: 30,
                thin: 2,
            },
            groups: Grouping::Off,
            ..ItfConfig::default()
        };
        (fit_data(&data, &config).unwrap(), data)
    }
}

/// Hidden parts of the training rows have the law that they were made by, and observed ones are what they were.
#[test]
fn hidden_parts_of_known_laws_are_found() {
    for law in laws() {
        let (fit, data) = law.fit(Structure::TensorBlocks);
        let rows = fit.rows_of(&data, true).unwrap();
        let cells = fit.impute_cells(&rows, 0.9).unwrap();
        let drawn = fit.impute_cell_draws(&rows, 200).unwrap();
        let shown = law.shown();
        let gaps: Vec<usize> = (0..N)
            .filter(|&i| shown[i].iter().any(Option::is_none))
            .collect();
        let found: Vec<usize> = cells.iter().map(|cell| cell.row).collect();
        assert_eq!(found, gaps, "{}: rows with a hidden part", law.name);
        assert_eq!(drawn.iter().map(|cell| cell.row).collect::<Vec<_>>(), gaps);
        let (mut squares, mut widths, mut spread, mut n) = (0.0, 0.0, 0.0, 0.0);
        for (cell, drawn) in cells.iter().zip(&drawn) {
            observed_parts_stay(&law, &shown[cell.row], &cell.expected, &drawn.draws);
            let hidden: Vec<usize> = (0..law.n_parts())
                .filter(|&p| shown[cell.row][p].is_none())
                .collect();
            let &[part] = &hidden[..] else { continue };
            let (mean, sd) = (law.given_others)(&law.rows[cell.row], part, cell.row);
            n += 1.0;
            let value = cell.expected[part];
            squares += ((value - mean) / sd).powi(2);
            widths += (cell.upper[part] - cell.lower[part]) / (2.0 * 1.6449 * sd);
            let square = |parts: &Vec<f64>| ((parts[part] - mean) / sd).powi(2);
            spread += drawn.draws.iter().map(square).sum::<f64>() / 200.0;
        }
        let (error, width, spread) = ((squares / n).sqrt(), widths / n, (spread / n).sqrt());
        // In standard deviations of the exact conditional law.
        assert!(error < 0.4, "{}: error {error}", law.name);
        assert!((0.85..1.25).contains(&width), "{}: width {width}", law.name);
        assert!(
            (0.85..1.3).contains(&spread),
            "{}: spread {spread}",
            law.name
        );
    }
}

fn observed_parts_stay(law: &Law, shown: &[Option<f64>], expected: &[f64], draws: &[Vec<f64>]) {
    for (part, x) in shown.iter().enumerate() {
        let Some(x) = x else { continue };
        assert_eq!(expected[part], *x, "{}: part {part}", law.name);
        assert!(draws.iter().all(|parts| parts[part] == *x), "{}", law.name);
    }
}

/// Values of one part of a row with their probabilities given the other parts, by Bayes' rule from the density of whole rows.
fn exact_conditional(law: &Law, fit: &ItfFit, row: &[Option<f64>], part: usize) -> Vec<(f64, f64)> {
    let column: Vec<f64> = law.rows.iter().map(|row| row[part]).collect();
    let mean = column.iter().sum::<f64>() / N as f64;
    let sd = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64).sqrt();
    let grid = (-500..=500).map(|i| mean + f64::from(i) * 0.016 * sd);
    let values: Vec<f64> = grid.collect();
    let with = |&x: &f64| {
        let mut row = row.to_vec();
        row[part] = Some(x);
        row
    };
    let rows: Vec<Row> = values.iter().map(with).collect();
    let rows = fit.rows_of(&law.data(&rows), false).unwrap();
    let ln = fit.ln_density(&rows).unwrap();
    let largest = ln.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = ln.iter().map(|l| (l - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let pairs = values.into_iter().zip(weights);
    pairs.map(|(x, w)| (x, w / total)).collect()
}

/// What a fit says of a hidden part of a new row is the conditional law that its own densities have.
#[test]
fn hidden_parts_have_the_exact_conditional_law_of_the_fit() {
    const DRAWS: usize = 2000;
    for (law, structure) in laws()
        .into_iter()
        .flat_map(|law| [Structure::TensorBlocks, Structure::Joint].map(|s| (law.copy(), s)))
    {
        let (fit, _) = law.fit(structure);
        for (row, part) in [(10, 1), (15, 0), (21, law.n_parts() - 1)] {
            let mut shown = some(&law.rows[row]);
            shown[part] = None;
            let exact = exact_conditional(&law, &fit, &shown, part);
            let new = fit
                .rows_of(&law.data(std::slice::from_ref(&shown)), false)
                .unwrap();
            let cell = fit.impute_cells(&new, 0.9).unwrap().remove(0);
            assert_eq!((cell.row, &cell.missing[..]), (0, &[part][..]));
            let drawn = fit.impute_cell_draws(&new, DRAWS).unwrap().remove(0);
            observed_parts_stay(&law, &shown, &cell.expected, &drawn.draws);
            let mean: f64 = exact.iter().map(|(x, p)| x * p).sum();
            let square: f64 = exact.iter().map(|(x, p)| x * x * p).sum();
            let sd = (square - mean * mean).sqrt();
            let found = cell.expected[part];
            let what = format!("{} row {row} part {part} {structure:?}", law.name);
            assert!(
                (found - mean).abs() < 0.03 * sd,
                "{what}: {found} {mean} {sd}"
            );
            let n = DRAWS as f64;
            let draws = || drawn.draws.iter().map(|parts| parts[part]);
            let cdf = |at: f64| -> f64 {
                let below = exact.iter().filter(|(x, _)| *x <= at);
                below.map(|(_, p)| p).sum()
            };
            // Uniform: mean 1/2, mean square 1/3.
            let place = draws().map(cdf).sum::<f64>() / n;
            let square = draws().map(|x| cdf(x).powi(2)).sum::<f64>() / n;
            let (first, second) = ((1.0 / 12.0 / n).sqrt(), (4.0 / 45.0 / n).sqrt());
            // A step of the grid is at most a tenth of a standard deviation.
            assert!((place - 0.5).abs() < 4.5 * first + 0.02, "{what}: {place}");
            assert!(
                (square - 1.0 / 3.0).abs() < 4.5 * second + 0.02,
                "{what}: {square}"
            );
            let error = 4.5 * (0.05 * 0.95 / 400.0_f64).sqrt() + 0.01;
            let ends = (cdf(cell.lower[part]), cdf(cell.upper[part]));
            assert!((ends.0 - 0.05).abs() < error, "{what}: {ends:?}");
            assert!((ends.1 - 0.95).abs() < error, "{what}: {ends:?}");
        }
    }
}

/// The density of parts that were held out is that of the whole cell over that of what was shown.
#[test]
fn densities_of_held_out_parts() {
    for law in laws() {
        for structure in [Structure::TensorBlocks, Structure::Joint] {
            let (fit, _) = law.fit(structure);
            let shown = &law.shown()[..6];
            let whole: Vec<Row> = law.rows[..6].iter().map(|row| some(row)).collect();
            let shown = fit.rows_of(&law.data(shown), false).unwrap();
            let whole = fit.rows_of(&law.data(&whole), false).unwrap();
            let cells = [(0, 0), (1, 0), (3, 0), (5, 0)];
            let found = fit.ln_held_out(&shown, &whole, &cells).unwrap();
            let of = |rows: &ItfRows| fit.ln_density(rows).unwrap();
            let (with, without) = (of(&whole), of(&shown));
            for ((row, _), found) in cells.into_iter().zip(found) {
                let exact = with[row] - without[row];
                let close = (found - exact).abs() < 1e-9 * (1.0 + exact.abs());
                assert!(close, "{} row {row}: {found} {exact}", law.name);
            }
            assert!(fit.ln_held_out(&shown, &whole, &[(2, 0)]).is_err());
        }
    }
}

const NODES: usize = 40;

type Pairs = Vec<(usize, usize)>;

/// Two halves with links within (0.8) and few across (0.05); every thirteenth pair is unknown.
fn network(directed: bool) -> (Network, Pairs, Pairs) {
    let rng = &mut rng(7);
    let (mut links, mut unknown) = (Vec::new(), Vec::new());
    for i in 0..NODES {
        for j in (if directed { 0 } else { i + 1 }..NODES).filter(|&j| j != i) {
            if (i * NODES + j).is_multiple_of(13) {
                unknown.push((i, j));
            } else if rng.random::<f64>() < true_probability(i, j) {
                links.push((i, j));
            }
        }
    }
    (Network::new(NODES, directed).unwrap(), links, unknown)
}

fn true_probability(i: usize, j: usize) -> f64 {
    let same = (i < NODES / 2) == (j < NODES / 2);
    if same { 0.8 } else { 0.05 }
}

fn network_data(kernel: &Network, links: &[(usize, usize)], unknown: &[(usize, usize)]) -> ItfData {
    let mut data = ItfData::new();
    let cells = Cells::Network(NetworkData::new(kernel, links, unknown).unwrap());
    let column = kernel.clone().column(&mut rng(2));
    data.push("links", column, cells).unwrap();
    data
}

#[test]
fn unknown_links_are_found() {
    for directed in [false, true] {
        let (kernel, links, unknown) = network(directed);
        let data = network_data(&kernel, &links, &unknown);
        let config = ItfConfig {
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 500,
                keep: 1,
                ..ItfConfig::default().sweeps
            },
            groups: Grouping::Off,
            ..ItfConfig::default()
        };
        let fit = fit_data(&data, &config).unwrap();
        let rows = fit.rows_of(&data, true).unwrap();
        let cells = fit.impute_cells(&rows, 0.9).unwrap();
        let drawn = fit.impute_cell_draws(&rows, 50).unwrap();
        let cell = |i: usize| cells.binary_search_by_key(&i, |cell| cell.row).unwrap();
        let mut found = 0;
        for (cell, drawn) in cells.iter().zip(&drawn) {
            assert_eq!((cell.row, &cell.missing), (drawn.row, &drawn.missing));
            for j in (0..NODES).filter(|j| !cell.missing.contains(j)) {
                let linked =
                    links.contains(&(cell.row, j)) || (!directed && links.contains(&(j, cell.row)));
                let linked = f64::from(u8::from(linked));
                assert_eq!(cell.expected[2 * j + 1], linked);
                assert!(drawn.draws.iter().all(|parts| parts[j] == linked));
            }
            found += cell.missing.len();
        }
        assert_eq!(found, if directed { 1 } else { 2 } * unknown.len());
        let (mut error, mut checked) = (0.0, 0);
        for &(i, j) in &unknown {
            let p = cells[cell(i)].expected[2 * j + 1];
            error += (p - true_probability(i, j)).abs() / unknown.len() as f64;
            if !directed {
                // One link, in two rows.
                let (here, there) = (cell(i), cell(j));
                assert_eq!(cells[there].expected[2 * i + 1], p);
                assert_eq!(cells[there].upper[i], cells[here].upper[j]);
                for (a, b) in drawn[here].draws.iter().zip(&drawn[there].draws) {
                    assert_eq!(a[j], b[i]);
                }
            }
            if checked < 5 {
                // Exact: the row with and without the link, in the only draw.
                let others: Vec<(usize, usize)> =
                    unknown.iter().copied().filter(|&u| u != (i, j)).collect();
                let ln = |linked: bool| {
                    let mut links = links.clone();
                    links.extend(linked.then_some((i, j)));
                    let data = network_data(&kernel, &links, &others);
                    let rows = fit.rows_of(&data, true).unwrap();
                    fit.ln_density(&rows).unwrap()[i]
                };
                let exact = (1.0 + (ln(false) - ln(true)).exp()).recip();
                assert!((p - exact).abs() < 1e-9, "{directed} {i} {j}: {p} {exact}");
                checked += 1;
            }
        }
        let blocks = fit.draws()[0].labels(0).unwrap();
        assert!(
            error < 0.1,
            "directed {directed}: {error}, blocks {blocks:?}"
        );
    }
}

/// Without the labels of the other rows nothing can be said of a link: an error, not a silent 0.
#[test]
fn networks_need_labels() {
    let (kernel, links, unknown) = network(false);
    let data = network_data(&kernel, &links, &unknown);
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 2,
            keep: 1,
            ..ItfConfig::default().sweeps
        },
        keep_labels: false,
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fit = fit_data(&data, &config).unwrap();
    let error = fit.rows_of(&data, true).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("keep_labels"), "{error}");
}

/// Of a column without any value nothing is known: it stays as it is and is listed, alone and in a group; all else is filled in.
#[test]
fn columns_without_values_stay_missing() {
    let n = 40;
    let x = |i: usize| Some((i % 7) as f64).filter(|_| i != 3);
    let columns = vec![
        MixedColumn::Real((0..n).map(x).collect()),
        MixedColumn::Real(vec![None; n]),
        MixedColumn::Categorical {
            levels: vec!["a".into(), "b".into()],
            codes: vec![None; n],
        },
        MixedColumn::Real((0..n).map(|i| x(i).map(|x| 2.0 * x)).collect()),
    ];
    let names = ["x", "empty", "level", "y"].map(String::from);
    let table = MixedTable::new(names.to_vec(), columns).unwrap();
    let given = Grouping::Given(vec![["x", "empty", "y"].map(String::from).to_vec()]);
    for groups in [Grouping::Off, given] {
        let config = ItfConfig {
            groups,
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 20,
                keep: 5,
                thin: 1,
            },
            ..ItfConfig::default()
        };
        let fitted = fit(&table, &config).unwrap();
        assert_eq!(fitted.unobserved_columns(), ["empty", "level"]);
        let filled = fitted.impute_training(&table, 0.9).unwrap();
        let places: Vec<_> = filled.cells.iter().map(|c| (c.row, c.column)).collect();
        assert_eq!(places, [(3, 0), (3, 3)]);
        assert_eq!(filled.completed.n_missing(), 2 * n);
        let drawn = fitted.impute_draws(&table, 2, true).unwrap();
        assert!(drawn.iter().all(|t| t.n_missing() == 2 * n));
        let rows = fitted.training_rows(&table).unwrap();
        assert!(fitted.predict(&rows, "x").is_ok());
        let error = fitted.predict(&rows, "empty").unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
    }
}

/// Long vectors say that their coordinates are independent within a cluster.
#[test]
fn long_vectors_are_listed() {
    let column =
        |j: usize| MixedColumn::Real((0..10).map(|i| Some(((i * j) % 11) as f64)).collect());
    let names = (0..35).map(|j| format!("c{j}")).collect();
    let table = MixedTable::new(names, (0..35).map(column).collect()).unwrap();
    let fields = [
        Field::new("short", Measure::Vector, (0..2).collect()),
        Field::new("long", Measure::Vector, (2..35).collect()),
    ];
    let data = ItfData::from_fields(&table, &fields).unwrap();
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 2,
            keep: 1,
            ..ItfConfig::default().sweeps
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fitted = fit_data(&data, &config).unwrap();
    assert_eq!(fitted.independent_vectors(), ["long"]);
}

/// A completed table is made with the parameters of one draw. Of x ~ N(mean, sd²) with 40 values and 120 holes, the means that tables give to two halves of
/// the holes share the posterior of the mean: their correlation over tables is (1/40) / (1/40 + 1/60).
#[test]
fn cells_of_a_table_share_its_parameters() {
    let mut correlations = Vec::new();
    for seed in 0..3 {
        let rng = &mut npb_infer::stream(seed, [31; 4]);
        let x = (0..160).map(|i| (i < 40).then(|| rng.sample::<f64, _>(StandardNormal)));
        let table = crate::tables::one("x", MixedColumn::Real(x.collect()));
        let config = ItfConfig {
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 100,
                keep: 300,
                thin: 4,
            },
            // One cluster.
            moves: vec![ItfMove::Parameters],
            structure: Structure::Joint,
            groups: Grouping::Off,
            seed,
            ..ItfConfig::default()
        };
        let data = ItfData::from_table(&table).unwrap();
        let mut state = ItfState::prior(&data, &config, rng);
        state.blocks[0].labels.fill(0);
        state.blocks[0].concentration = 1e-3;
        let mut sampler = ItfSampler::resume(&data, config.clone(), 0, state, 0).unwrap();
        let draws: Vec<_> = (0..300)
            .map(|_| {
                (0..4).for_each(|_| sampler.sweep());
                sampler.draw()
            })
            .collect();
        let chain = ItfChain {
            state: sampler.into_state(),
            draws,
            trace: Trace::new(<ItfSampler<'_> as Sampler>::names()),
            stop: Stop::Completed,
        };
        let fit = ItfFit::new(&data, &config, vec![chain]).unwrap();
        let tables = fit.impute_draws(&table, 300, true).unwrap();
        let half = |t: &MixedTable, side: usize| {
            let holes = (40 + side..160).step_by(2);
            holes.map(|i| t.column(0).number(i).unwrap()).sum::<f64>() / 60.0
        };
        let pairs: Vec<[f64; 2]> = tables.iter().map(|t| [half(t, 0), half(t, 1)]).collect();
        let mean = |f: &dyn Fn(&[f64; 2]) -> f64| pairs.iter().map(f).sum::<f64>() / 300.0;
        let (a, b) = (mean(&|p| p[0]), mean(&|p| p[1]));
        let covariance = mean(&|p| (p[0] - a) * (p[1] - b));
        let sides = mean(&|p| (p[0] - a).powi(2)) * mean(&|p| (p[1] - b).powi(2));
        correlations.push(covariance / sides.sqrt());
    }
    let mean = correlations.iter().sum::<f64>() / 3.0;
    // Its standard error is 0.02.
    assert!((mean - 0.6).abs() < 0.08, "{correlations:?}");
}
