//! What is asked of every kernel.

use npb_infer::testing::{JointModel, StepTest};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_itf::{CellPart, Kernel, PerCluster, RowLabels};

/// Clusters on trial; labels use all but the last.
pub(super) const CLUSTERS: usize = 4;

pub(super) fn rng(seed: u64) -> Xoshiro256PlusPlus {
    stream(seed, [0; 4])
}

/// Labels 0, 1, 2, 0, 1, 2, ...
pub(super) fn labels(n_rows: usize) -> Vec<u32> {
    (0..n_rows as u32)
        .map(|i| i % (CLUSTERS as u32 - 1))
        .collect()
}

pub(super) fn counts(labels: &[u32]) -> Vec<usize> {
    let of = |k| labels.iter().filter(|&&l| l == k).count();
    (0..CLUSTERS as u32).map(of).collect()
}

pub(super) fn prior<K: Kernel>(kernel: &K, rng: &mut Xoshiro256PlusPlus) -> K::Params {
    let mut params = kernel.initial(rng);
    (0..CLUSTERS).for_each(|_| kernel.push_prior(&mut params, rng));
    params
}

/// ln p(cell | cluster) for all clusters.
pub(super) fn ln_likelihoods<K: Kernel>(
    kernel: &K,
    data: &K::Data,
    params: &K::Params,
    row: usize,
    others: RowLabels<'_>,
) -> [f64; CLUSTERS] {
    let mut out = [f64::NAN; CLUSTERS];
    kernel.ln_likelihoods(data, params, row..row + 1, CLUSTERS, others, &mut out);
    out
}

fn close(a: f64, b: f64, what: &str) {
    let scale = 1.0 + a.abs().max(b.abs());
    assert!((a - b).abs() < 1e-9 * scale, "{what}: {a} {b}");
}

/// Evidence = chain of predictives in any order; merged statistics are those of all cells.
pub(super) fn evidence_is_a_chain_of_predictives<K: Kernel>(kernel: &K, data: &K::Data) {
    assert!(kernel.is_collapsed(data));
    let rows: Vec<usize> = (0..kernel.n_rows(data))
        .filter(|&i| kernel.is_observed(data, i))
        .collect();
    let params = prior(kernel, &mut rng(1));
    let chain = |rows: &[usize]| {
        let (mut stats, mut sum) = (kernel.no_stats(), 0.0);
        for &row in rows {
            sum += kernel.ln_predictive(&params, &stats, data, row);
            kernel.add(&mut stats, data, row);
        }
        (stats, sum)
    };
    close(
        kernel.ln_evidence(&params, &kernel.no_stats()),
        0.0,
        "no cells",
    );
    let (all, forwards) = chain(&rows);
    let backwards: Vec<usize> = rows.iter().rev().copied().collect();
    let whole = kernel.ln_evidence(&params, &all);
    close(forwards, whole, "forwards");
    close(chain(&backwards).1, whole, "backwards");
    let (first, second) = rows.split_at(rows.len() / 3);
    let mut left = chain(first).0;
    kernel.merge(&mut left, &chain(second).0);
    close(kernel.ln_evidence(&params, &left), whole, "merged");
    kernel.clear(&mut left);
    close(kernel.ln_evidence(&params, &left), 0.0, "cleared");
}

/// The predictive of one cell given others is the mean of its likelihood over posterior draws.
pub(super) fn predictive_is_a_mean_over_draws<K: Kernel>(
    kernel: &K,
    data: &K::Data,
    given: &[usize],
    row: usize,
) {
    let mut rng = rng(2);
    let mut params = prior(kernel, &mut rng);
    let mut stats = kernel.no_stats();
    given.iter().for_each(|&i| kernel.add(&mut stats, data, i));
    let exact = kernel.ln_predictive(&params, &stats, data, row);
    let mut ratios = Vec::new();
    for _ in 0..20_000 {
        (0..CLUSTERS).for_each(|k| kernel.draw(&mut params, k, &stats, &mut rng));
        let ln = ln_likelihoods(kernel, data, &params, row, RowLabels::NONE);
        ratios.extend(ln.iter().map(|l| (l - exact).exp()));
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
    let error = (variance / n).sqrt();
    assert!(
        (mean - 1.0).abs() < 4.5 * error && error < 0.05,
        "{mean} +- {error}"
    );
}

/// Parameters and data of one column with fixed labels.
pub(super) struct Joint<K: Kernel> {
    pub(super) kernel: K,
    /// Says which parts are missing; values are drawn anew.
    pub(super) template: K::Data,
    /// Cells at which likelihoods are looked at.
    pub(super) probe: K::Data,
    /// Places of hyperparameters and of numbers of clusters among all numbers.
    pub(super) places: [Vec<usize>; 2],
    /// The first row is counted in the cluster without rows.
    pub(super) broken: bool,
}

impl<K: Kernel> Joint<K> {
    fn labels(&self) -> Vec<u32> {
        labels(self.kernel.n_rows(&self.template))
    }
}

/// All numbers of a struct, in order.
fn numbers(value: &serde_json::Value, out: &mut Vec<f64>) {
    match value {
        serde_json::Value::Number(x) => out.extend(x.as_f64()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| numbers(item, out)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| numbers(item, out)),
        _ => {}
    }
}

fn numbers_of<K: Kernel>(params: &K::Params) -> Vec<f64> {
    let mut out = Vec::new();
    numbers(&serde_json::to_value(params).expect("writes"), &mut out);
    out
}

/// Which numbers stay when clusters are drawn anew but differ from draw to draw, and which follow the clusters.
fn places<K: Kernel>(kernel: &K) -> [Vec<usize>; 2] {
    let mut rng = rng(8);
    let mut params = prior(kernel, &mut rng);
    let first = numbers_of::<K>(&params);
    params.truncate(0);
    (0..CLUSTERS).for_each(|_| kernel.push_prior(&mut params, &mut rng));
    let again = numbers_of::<K>(&params);
    let others: Vec<_> = (0..20)
        .map(|_| numbers_of::<K>(&prior(kernel, &mut rng)))
        .collect();
    let varies = |&i: &usize| others.iter().any(|other| other[i] != first[i]);
    (0..first.len())
        .filter(varies)
        .partition::<Vec<_>, _>(|&i| first[i] == again[i])
        .into()
}

impl<K: Kernel> JointModel for Joint<K> {
    type State = K::Params;
    type Data = K::Data;

    fn names(&self) -> Vec<String> {
        let probes = self.kernel.n_rows(&self.probe);
        let of_probe = |p| (0..CLUSTERS).map(move |k| format!("probe {p} in {k}"));
        let of_row = (0..CLUSTERS - 1).map(|k| format!("cells of {k}"));
        let [hyper, own] = &self.places;
        let single = hyper.iter().chain(own).map(|i| format!("number {i}"));
        let products = hyper.iter().flat_map(|h| {
            let of_own = own.iter().map(move |i| format!("numbers {h} x {i}"));
            of_own.chain((0..CLUSTERS - 1).map(move |k| format!("number {h} x cells of {k}")))
        });
        (0..probes)
            .flat_map(of_probe)
            .chain(of_row)
            .chain(single)
            .chain(products)
            .collect()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> K::Params {
        prior(&self.kernel, rng)
    }

    fn simulate(&self, params: &K::Params, rng: &mut Xoshiro256PlusPlus) -> K::Data {
        let mut data = self.template.clone();
        self.kernel.simulate(params, &self.labels(), &mut data, rng);
        data
    }

    fn sweep(&self, params: &mut K::Params, data: &K::Data, rng: &mut Xoshiro256PlusPlus) {
        let mut labels = self.labels();
        if self.broken {
            labels[0] = CLUSTERS as u32 - 1;
        }
        self.kernel
            .update(data, &labels, params, &mut Vec::new(), rng);
    }

    /// Likelihoods, which hold parameters and data together, every parameter and hyperparameter, and the products of
    /// hyperparameters with the others.
    fn summary(&self, params: &K::Params, data: &K::Data) -> Vec<f64> {
        let labels = self.labels();
        let counts = counts(&labels);
        let others = match K::COUPLED {
            true => RowLabels {
                labels: &labels,
                counts: &counts,
            },
            false => RowLabels::NONE,
        };
        let mut summary = Vec::new();
        for p in 0..self.kernel.n_rows(&self.probe) {
            summary.extend(ln_likelihoods(&self.kernel, &self.probe, params, p, others));
        }
        let mut sums = [0.0; CLUSTERS - 1];
        for (row, &label) in labels.iter().enumerate() {
            let ln = ln_likelihoods(&self.kernel, data, params, row, others);
            sums[label as usize] += ln[label as usize];
        }
        summary.extend(sums);
        let numbers = numbers_of::<K>(params);
        let [hyper, own] = &self.places;
        summary.extend(hyper.iter().chain(own).map(|&i| numbers[i]));
        for &h in hyper {
            let others = own.iter().map(|&i| numbers[i]).chain(sums);
            summary.extend(others.map(|x| numbers[h] * x));
        }
        summary
    }
}

/// The update and the simulator agree on one joint law, and an update that counts one row in another cluster is found out.
pub(super) fn joint_distribution<K: Kernel>(kernel: K, template: K::Data, probe: K::Data) {
    joint_distribution_of(kernel, template, probe, 1200);
}

/// The same from so many draws: fewer where there are thousands of products to compare.
pub(super) fn joint_distribution_of<K: Kernel>(
    kernel: K,
    template: K::Data,
    probe: K::Data,
    replications: usize,
) {
    let test = StepTest {
        seed: 1,
        replications,
        false_alarm: 0.001,
    };
    let mut joint = Joint {
        places: places(&kernel),
        kernel,
        template,
        probe,
        broken: false,
    };
    let report = test.run(&joint);
    assert!(report.passed(), "{report}");
    joint.broken = true;
    let report = test.run(&joint);
    assert!(!report.passed(), "the broken twin passes: {report}");
}

/// Means of draws of a whole cell are its expected parts. For levels: the shares of each.
pub(super) fn expected_is_the_mean_of_draws<K: Kernel>(
    kernel: &K,
    data: &K::Data,
    row: usize,
    ignore_observed: bool,
    others: RowLabels<'_>,
) {
    let mut rng = rng(3);
    let params = prior(kernel, &mut rng);
    let (mut expected, mut cell) = (Vec::new(), Vec::new());
    kernel.expected(
        &params,
        1,
        data,
        row,
        ignore_observed,
        others,
        &mut expected,
    );
    let n = 20_000;
    let (mut sums, mut squares) = (vec![0.0; expected.len()], vec![0.0; expected.len()]);
    for _ in 0..n {
        kernel.complete(
            &params,
            1,
            data,
            row,
            ignore_observed,
            others,
            &mut rng,
            &mut cell,
        );
        assert_eq!(cell.len(), kernel.n_parts(data, row));
        let mut at = 0;
        for (part, &x) in cell.iter().enumerate() {
            for level in 0..kernel.n_levels(part).unwrap_or(1) {
                let y = match kernel.n_levels(part) {
                    Some(_) => f64::from(u8::from(x == level as f64)),
                    None => x,
                };
                sums[at] += y / n as f64;
                squares[at] += y * y / n as f64;
                at += 1;
            }
        }
    }
    let parts = 0..kernel.n_parts(data, row);
    let levels = parts.flat_map(|part| {
        let levels = kernel.n_levels(part);
        vec![levels; levels.unwrap_or(1)]
    });
    for ((at, &exact), levels) in expected.iter().enumerate().zip(levels) {
        let variance = match levels {
            Some(_) => exact * (1.0 - exact),
            None => (squares[at] - sums[at] * sums[at]).max(0.0),
        };
        let error = (variance / n as f64).sqrt();
        let (found, rounding) = (sums[at], 1e-9 * (1.0 + exact.abs()));
        // One draw more or less of a level that hardly ever occurs.
        let grain = levels.map_or(0.0, |_| 1.5 / n as f64);
        assert!(
            (found - exact).abs() <= 4.5 * error + rounding + grain,
            "part {at}: {found} {exact} +- {error}"
        );
    }
}

/// Whatever the cells: updates go on, likelihoods are finite, parameters pass their own check and survive a file.
pub(super) fn stays_finite<K>(kernel: &K, data: &K::Data)
where
    K: Kernel + serde::Serialize + serde::de::DeserializeOwned + PartialEq,
    K::Params: PartialEq,
{
    let mut rng = rng(4);
    let mut params = prior(kernel, &mut rng);
    let labels = labels(kernel.n_rows(data));
    let counts = counts(&labels);
    let others = match K::COUPLED {
        true => RowLabels {
            labels: &labels,
            counts: &counts,
        },
        false => RowLabels::NONE,
    };
    for _ in 0..20 {
        kernel.update(data, &labels, &mut params, &mut Vec::new(), &mut rng);
        kernel.check(&params).expect("valid parameters");
        let mut out = Vec::new();
        for row in 0..kernel.n_rows(data) {
            let ln = ln_likelihoods(kernel, data, &params, row, others);
            assert!(ln.iter().all(|l| l.is_finite()), "row {row}: {ln:?}");
            if !kernel.is_observed(data, row) {
                assert_eq!(ln, [0.0; CLUSTERS], "a missing cell says nothing");
            }
            kernel.complete(&params, 3, data, row, true, others, &mut rng, &mut out);
            assert!(out.iter().all(|x| x.is_finite()), "row {row}: {out:?}");
            kernel.expected(&params, 2, data, row, false, others, &mut out);
            assert!(out.iter().all(|x| x.is_finite()), "row {row}: {out:?}");
        }
    }
    let text = serde_json::to_string(&(kernel, &params)).expect("writes");
    let (back, again): (K, K::Params) = serde_json::from_str(&text).expect("reads");
    assert!(back == *kernel && again == params, "a file changes nothing");
    names_of_clusters(kernel, data, &mut params, others);
    forged_files(kernel, &params);
}

/// Swapping and dropping clusters moves their likelihoods along.
fn names_of_clusters<K: Kernel>(
    kernel: &K,
    data: &K::Data,
    params: &mut K::Params,
    others: RowLabels<'_>,
) {
    let ln = |params: &K::Params| -> Vec<[f64; CLUSTERS]> {
        (0..kernel.n_rows(data))
            .map(|row| ln_likelihoods(kernel, data, params, row, others))
            .collect()
    };
    let before = ln(params);
    params.swap(1, 3);
    if !K::COUPLED {
        for (a, b) in before.iter().zip(ln(params)) {
            assert_eq!(*a, [b[0], b[3], b[2], b[1]]);
        }
    }
    params.swap(1, 3);
    assert_eq!(before, ln(params));
    (0..20).for_each(|_| kernel.push_prior(params, &mut rng(5)));
    assert_eq!(params.n_clusters(), CLUSTERS + 20);
    params.truncate(100);
    params.truncate(CLUSTERS);
    assert_eq!(params.n_clusters(), CLUSTERS);
    assert_eq!(before, ln(params));
    kernel.check(params).expect("valid parameters");
}

/// Numbers of a file replaced by other numbers: refused, or accepted for good reason, never a panic.
fn forged_files<K: Kernel>(kernel: &K, params: &K::Params) {
    let text = serde_json::to_string(params).expect("writes");
    let is_digit = |c: char| c.is_ascii_digit() || "+-.e".contains(c);
    let mut numbers = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit() || c == '-') {
        let start = at + start;
        at = text[start..]
            .find(|c| !is_digit(c))
            .map_or(text.len(), |e| start + e);
        numbers.push(start..at);
    }
    let mut refused = 0;
    // Odd, so that no cluster is passed over.
    for number in numbers.iter().step_by(numbers.len().div_ceil(40) | 1) {
        for forged in ["1e300", "-7.5", "0", "3", "99999"] {
            let forged = format!("{}{forged}{}", &text[..number.start], &text[number.end..]);
            let verdict = serde_json::from_str::<K::Params>(&forged).map(|p| kernel.check(&p));
            refused += usize::from(!matches!(verdict, Ok(Ok(()))));
        }
    }
    assert!(refused > 0, "nothing is ever refused");
}

/// Parts are what was given, bit for bit, in the cell and when it is completed; those of simulated data are what likelihoods see.
pub(super) fn parts_are_what_was_given<K: Kernel>(
    kernel: &K,
    rows: &[Vec<Option<f64>>],
    make: impl Fn(&[Vec<Option<f64>>]) -> K::Data,
) {
    let mut data = make(rows);
    let mut rng = rng(7);
    let params = prior(kernel, &mut rng);
    let parts = |data: &K::Data, row: usize| -> Vec<Option<f64>> {
        let part = |part| match kernel.part(data, row, part) {
            CellPart::Observed(value) => Some(value),
            CellPart::Missing => None,
            CellPart::SameAs { .. } => panic!("no other row's"),
        };
        (0..kernel.n_parts(data, row)).map(part).collect()
    };
    let mut cell = Vec::new();
    for (row, given) in rows.iter().enumerate() {
        let mut given = given.clone();
        given.resize(kernel.n_parts(&data, row), None);
        assert_eq!(parts(&data, row), given);
        let none = RowLabels::NONE;
        kernel.complete(&params, 1, &data, row, false, none, &mut rng, &mut cell);
        for (x, filled) in given.iter().zip(&cell) {
            assert!(x.is_none_or(|x| x == *filled), "{given:?} {cell:?}");
        }
    }
    kernel.simulate(&params, &labels(rows.len()), &mut data, &mut rng);
    let simulated: Vec<_> = (0..rows.len()).map(|row| parts(&data, row)).collect();
    let again = make(&simulated);
    let none = RowLabels::NONE;
    for row in 0..rows.len() {
        let a = ln_likelihoods(kernel, &data, &params, row, none);
        let b = ln_likelihoods(kernel, &again, &params, row, none);
        for (a, b) in a.into_iter().zip(b) {
            close(a, b, "a simulated cell and its parts");
        }
    }
}
