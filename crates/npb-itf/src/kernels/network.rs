//! Links between rows.

use std::convert::Infallible;
use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Beta;
use npb_priors::special::ln_beta;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::support::{CellError, check_lengths, pick_ln, setting};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};

/// Stochastic blocks: row i is linked to row j with probability p_ab when they are in clusters a and b, p_ab ~ Beta(s m, s (1 − m)).
///
/// Undirected networks have p_ab = p_ba, and a link counts once, although it stands in two rows. In a directed network
/// p_ab is the probability of a link from a to b. Rows are not linked to themselves. m (1/(1 + 2^g), g = −4..12) and s
/// (2^g/2, g = 0..6) are learned. Unknown links drop out of all sums.
///
/// The likelihood of a row is that of all its links, given the labels of the other rows, so that rows have to be drawn one by one;
/// the sum of these over rows counts every link twice. Cost of a row: (links + clusters) x clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    n_nodes: usize,
    directed: bool,
}

/// Links of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkData {
    n_nodes: usize,
    /// Row i is node i: its links to itself do not exist.
    rows_are_nodes: bool,
    /// From the row to nodes.
    out: Lists,
    /// From nodes to the row; empty unless directed.
    back: Lists,
}

/// Two sorted lists of nodes for every row.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lists {
    linked: Vec<Vec<u32>>,
    unknown: Vec<Vec<u32>>,
}

/// Link probabilities of all pairs of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkParams {
    /// Positions of m and s on their grids.
    prior: (usize, usize),
    /// For links from the own cluster to another's.
    out: PairTable,
    /// For links from another's cluster to the own; empty unless directed.
    back: PairTable,
}

/// No values: probabilities of pairs of clusters cannot be integrated out cluster by cluster.
#[derive(Clone, Debug)]
pub struct NetworkStats(Infallible);

/// Numbers for pairs of clusters: `[other * width + own]`, so that those of all own clusters stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct PairTable {
    n: usize,
    width: usize,
    /// ln(1 − p).
    ln_none: Vec<f64>,
    /// ln p.
    ln_link: Vec<f64>,
}

const MEANS: usize = 17;
const STRENGTHS: usize = 6;

fn shapes((m, s): (usize, usize)) -> (f64, f64) {
    let mean = (1.0 + 2f64.powi(m as i32 - 4)).recip();
    let strength = 0.5 * 2f64.powi(s as i32);
    (strength * mean, strength * (1.0 - mean))
}

impl PairTable {
    fn at(&self, other: usize, own: usize) -> usize {
        other * self.width + own
    }

    fn set(&mut self, other: usize, own: usize, (ln_link, ln_none): (f64, f64)) {
        let at = self.at(other, own);
        self.ln_link[at] = ln_link;
        self.ln_none[at] = ln_none;
    }

    fn none(&self, other: usize, n_clusters: usize) -> &[f64] {
        &self.ln_none[other * self.width..][..n_clusters]
    }

    fn link(&self, other: usize, n_clusters: usize) -> &[f64] {
        &self.ln_link[other * self.width..][..n_clusters]
    }

    fn push(&mut self) {
        if self.n == self.width {
            let width = (2 * self.width).max(8);
            let wider = |old: &[f64]| {
                let mut wide = vec![0.0; width * width];
                for row in 0..self.n {
                    wide[row * width..][..self.n]
                        .copy_from_slice(&old[row * self.width..][..self.n]);
                }
                wide
            };
            (self.ln_none, self.ln_link) = (wider(&self.ln_none), wider(&self.ln_link));
            self.width = width;
        }
        self.n += 1;
    }

    fn swap(&mut self, a: usize, b: usize) {
        for other in 0..self.n {
            let (x, y) = (self.at(other, a), self.at(other, b));
            self.ln_none.swap(x, y);
            self.ln_link.swap(x, y);
        }
        for own in 0..self.n {
            let (x, y) = (self.at(a, own), self.at(b, own));
            self.ln_none.swap(x, y);
            self.ln_link.swap(x, y);
        }
    }

    fn check(&self) -> Result<(), String> {
        let cells = self.width.checked_mul(self.width);
        let sizes = self.n <= self.width
            && cells == Some(self.ln_none.len())
            && cells == Some(self.ln_link.len());
        if !sizes {
            return Err("network probabilities: sizes do not agree".to_owned());
        }
        for other in 0..self.n {
            for own in 0..self.n {
                let (p, q) = (
                    self.ln_link[self.at(other, own)],
                    self.ln_none[self.at(other, own)],
                );
                let fits = p.is_finite() && q.is_finite() && (p.exp() + q.exp() - 1.0).abs() < 1e-9;
                if !fits {
                    return Err(format!(
                        "network probabilities of clusters {own} and {other}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Lists {
    fn new(n_rows: usize) -> Self {
        Self {
            linked: vec![Vec::new(); n_rows],
            unknown: vec![Vec::new(); n_rows],
        }
    }

    fn clear(&mut self) {
        self.linked.iter_mut().for_each(Vec::clear);
        self.unknown.iter_mut().for_each(Vec::clear);
    }

    fn sort(&mut self) {
        for list in self.linked.iter_mut().chain(&mut self.unknown) {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// Adds to `out` the ln likelihood of a row's links to all `counts` rows but itself.
    fn add_ln_likelihoods(
        &self,
        row: usize,
        table: &PairTable,
        others: RowLabels<'_>,
        itself: Option<u32>,
        out: &mut [f64],
    ) {
        let n = out.len();
        for (other, &count) in others.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            let none = table.none(other, n);
            out.iter_mut()
                .zip(none)
                .for_each(|(o, q)| *o += count as f64 * q);
        }
        let excluded = self.unknown[row].iter().map(|&j| others.labels[j as usize]);
        for other in excluded.chain(itself) {
            let none = table.none(other as usize, n);
            out.iter_mut().zip(none).for_each(|(o, q)| *o -= q);
        }
        for &j in &self.linked[row] {
            let other = others.labels[j as usize] as usize;
            let pairs = table.link(other, n).iter().zip(table.none(other, n));
            out.iter_mut()
                .zip(pairs)
                .for_each(|(o, (p, q))| *o += p - q);
        }
    }
}

impl Network {
    /// `n_nodes`: number of rows, at least 1.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(n_nodes: usize, directed: bool) -> Result<Self, CellError> {
        let fits = (1..=u32::MAX as usize).contains(&n_nodes);
        setting("n_nodes", n_nodes as f64, fits, "from 1 to 4 billion")?;
        Ok(Self { n_nodes, directed })
    }

    /// Counts of links and of known pairs of rows between clusters: `[from * n + to]`, `from <= to` when undirected.
    fn tally_pairs(&self, data: &NetworkData, labels: &[u32], n: usize) -> Vec<[u64; 2]> {
        let mut sizes = vec![0_u64; n];
        labels.iter().for_each(|&l| sizes[l as usize] += 1);
        let mut tally = vec![[0_u64; 2]; n * n];
        let at = |a: u32, b: u32| match self.directed || a <= b {
            true => a as usize * n + b as usize,
            false => b as usize * n + a as usize,
        };
        // Pairs of rows, itself excepted.
        for a in 0..n {
            for b in 0..n {
                let pairs = match (a == b, self.directed) {
                    (true, true) => sizes[a] * sizes[a].saturating_sub(1),
                    (true, false) => sizes[a] * sizes[a].saturating_sub(1) / 2,
                    (false, true) => sizes[a] * sizes[b],
                    (false, false) if a < b => sizes[a] * sizes[b],
                    (false, false) => 0,
                };
                tally[a * n + b][0] = pairs;
            }
        }
        let once = |row: usize, j: u32| self.directed || row < j as usize;
        for row in 0..labels.len() {
            for &j in data.out.unknown[row].iter().filter(|&&j| once(row, j)) {
                tally[at(labels[row], labels[j as usize])][0] -= 1;
            }
            for &j in data.out.linked[row].iter().filter(|&&j| once(row, j)) {
                let pair = &mut tally[at(labels[row], labels[j as usize])];
                pair[0] -= 1;
                pair[1] += 1;
            }
        }
        tally
    }

    fn set(&self, params: &mut NetworkParams, from: usize, to: usize, logs: (f64, f64)) {
        params.out.set(to, from, logs);
        if self.directed {
            params.back.set(from, to, logs);
        } else {
            params.out.set(from, to, logs);
        }
    }

    /// Draws p of a pair of clusters given its numbers of pairs without and with a link.
    fn draw_pair(
        &self,
        params: &mut NetworkParams,
        (from, to): (usize, usize),
        [none, links]: [u64; 2],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (a, b) = shapes(params.prior);
        let law = Beta::new(a + links as f64, b + none as f64);
        let (ln_p, ln_q) = law.map_or((-0.7, -0.7), |law| law.sample_ln(rng));
        self.set(params, from, to, (ln_p.max(-1e4), ln_q.max(-1e4)));
    }

    /// All pairs of clusters that have a probability of their own.
    fn pairs(&self, n: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let directed = self.directed;
        (0..n).flat_map(move |a| (if directed { 0 } else { a }..n).map(move |b| (a, b)))
    }

    /// Draws m and s given the counts, probabilities integrated out.
    fn move_prior(
        &self,
        params: &mut NetworkParams,
        tally: &[[u64; 2]],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let seen: Vec<[u64; 2]> = tally.iter().copied().filter(|[n, l]| n + l > 0).collect();
        let mut weights: [f64; MEANS * STRENGTHS] = std::array::from_fn(|g| {
            let (a, b) = shapes((g / STRENGTHS, g % STRENGTHS));
            let none = ln_beta(a, b);
            seen.iter()
                .map(|&[n, l]| ln_beta(a + l as f64, b + n as f64) - none)
                .sum()
        });
        let g = pick_ln(&mut weights, rng);
        params.prior = (g / STRENGTHS, g % STRENGTHS);
    }
}

impl NetworkData {
    /// From lists of pairs (from, to), in any order, twice or once. `unknown`: pairs of which it is not known whether they are linked;
    /// all others are known not to be.
    ///
    /// # Errors
    /// [`CellError::Value`] for a node that does not exist, a link to itself, or a pair that is both linked and unknown.
    pub fn new(
        kernel: &Network,
        links: &[(usize, usize)],
        unknown: &[(usize, usize)],
    ) -> Result<Self, CellError> {
        let mut data = Self {
            n_nodes: kernel.n_nodes,
            rows_are_nodes: true,
            out: Lists::new(kernel.n_nodes),
            back: Lists::new(if kernel.directed { kernel.n_nodes } else { 0 }),
        };
        for &(from, to) in links.iter().chain(unknown) {
            check_pair(kernel, from, to)?;
        }
        links
            .iter()
            .for_each(|&(from, to)| data.insert(from, to, true));
        unknown
            .iter()
            .for_each(|&(from, to)| data.insert(from, to, false));
        data.sort();
        for row in 0..kernel.n_nodes {
            let both = |j: &&u32| data.out.linked[row].binary_search(j).is_ok();
            if let Some(&j) = data.out.unknown[row].iter().find(both) {
                return Err(CellError::Value {
                    row,
                    part: j as usize,
                    value: f64::from(j),
                    needed: "either linked or unknown, but both",
                });
            }
        }
        Ok(data)
    }

    /// From a square table: `rows[i][j]` says whether i is linked to j (the diagonal is ignored). In an undirected network what is missing in one of
    /// (i, j) and (j, i) is taken from the other.
    ///
    /// # Errors
    /// [`CellError::Parts`] when it is not square, [`CellError::OneSided`] when both are known and differ.
    pub fn from_rows(kernel: &Network, rows: &[Vec<Option<bool>>]) -> Result<Self, CellError> {
        let n = kernel.n_nodes;
        setting(
            "rows",
            rows.len() as f64,
            rows.len() == n,
            "the number of nodes",
        )?;
        check_lengths(rows, n)?;
        let (mut links, mut unknown) = (Vec::new(), Vec::new());
        for i in 0..n {
            for j in (0..n).filter(|&j| j != i) {
                let value = match (rows[i][j], rows[j][i]) {
                    (Some(a), Some(b)) if a != b && !kernel.directed => {
                        return Err(CellError::OneSided { row: i, other: j });
                    }
                    (None, other) if !kernel.directed => other,
                    (value, _) => value,
                };
                match value {
                    Some(true) => links.push((i, j)),
                    Some(false) => {}
                    None => unknown.push((i, j)),
                }
            }
        }
        Self::new(kernel, &links, &unknown)
    }

    /// Rows that are not nodes themselves, to be predicted: whether each is linked to the nodes (in a directed network: from it to them).
    ///
    /// # Errors
    /// [`CellError::Parts`] naming the row.
    pub fn new_rows(kernel: &Network, rows: &[Vec<Option<bool>>]) -> Result<Self, CellError> {
        check_lengths(rows, kernel.n_nodes)?;
        let mut out = Lists::new(rows.len());
        for (row, cells) in rows.iter().enumerate() {
            for (j, cell) in cells.iter().enumerate() {
                match cell {
                    Some(true) => out.linked[row].push(j as u32),
                    Some(false) => {}
                    None => out.unknown[row].push(j as u32),
                }
            }
        }
        Ok(Self {
            n_nodes: kernel.n_nodes,
            rows_are_nodes: false,
            out,
            back: Lists::default(),
        })
    }

    /// Rows of zeros and ones: [`from_rows`](Self::from_rows) when there are as many as nodes, [`new_rows`](Self::new_rows) otherwise.
    pub(crate) fn of_parts(kernel: &Network, rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let linked = |row: &Vec<Option<f64>>| row.iter().map(|x| x.map(|x| x == 1.0)).collect();
        let links: Vec<Vec<Option<bool>>> = rows.iter().map(linked).collect();
        match links.len() == kernel.n_nodes {
            true => Self::from_rows(kernel, &links),
            false => Self::new_rows(kernel, &links),
        }
    }

    fn insert(&mut self, from: usize, to: usize, linked: bool) {
        fn pick(lists: &mut Lists, linked: bool) -> &mut [Vec<u32>] {
            if linked {
                &mut lists.linked
            } else {
                &mut lists.unknown
            }
        }
        pick(&mut self.out, linked)[from].push(to as u32);
        let towards = if self.back.linked.is_empty() {
            &mut self.out
        } else {
            &mut self.back
        };
        pick(towards, linked)[to].push(from as u32);
    }

    fn sort(&mut self) {
        self.out.sort();
        self.back.sort();
    }

    /// Whether a row is linked to a node; `None` when unknown, `Some(false)` for itself.
    pub fn link(&self, row: usize, node: usize) -> Option<bool> {
        let node = node as u32;
        match self.out.unknown[row].binary_search(&node) {
            Ok(_) => None,
            Err(_) => Some(self.out.linked[row].binary_search(&node).is_ok()),
        }
    }

    fn is_itself(&self, row: usize, node: usize) -> bool {
        self.rows_are_nodes && row == node
    }
}

fn check_pair(kernel: &Network, from: usize, to: usize) -> Result<(), CellError> {
    let n = kernel.n_nodes;
    let (value, needed) = match (from, to) {
        (from, _) if from >= n => (from, "one of the nodes, counted from 0"),
        (_, to) if to >= n => (to, "one of the nodes, counted from 0"),
        (from, to) if from == to => (to, "another node than the row itself"),
        _ => return Ok(()),
    };
    Err(CellError::Value {
        row: from,
        part: to,
        value: value as f64,
        needed,
    })
}

impl NetworkParams {
    /// Probability of a link from a row of one cluster to a row of another.
    pub fn probability(&self, from: usize, to: usize) -> f64 {
        self.out.ln_link[self.out.at(to, from)].exp()
    }
}

impl PerCluster for NetworkParams {
    fn n_clusters(&self) -> usize {
        self.out.n
    }

    /// Of a directed network the kernel adds the way back.
    fn push_empty(&mut self) {
        self.out.push();
    }

    fn truncate(&mut self, n_clusters: usize) {
        self.out.n = self.out.n.min(n_clusters);
        self.back.n = self.back.n.min(n_clusters);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.out.swap(a, b);
        self.back.swap(a, b);
    }
}

impl Kernel for Network {
    type Data = NetworkData;
    type Params = NetworkParams;
    type Stats = NetworkStats;

    const COUPLED: bool = true;

    fn n_rows(&self, data: &NetworkData) -> usize {
        data.out.linked.len()
    }

    fn is_observed(&self, data: &NetworkData, row: usize) -> bool {
        let possible = data.n_nodes - usize::from(data.rows_are_nodes);
        let known = |lists: &Lists| lists.unknown.get(row).is_some_and(|u| u.len() < possible);
        known(&data.out) || known(&data.back)
    }

    fn n_parts(&self, _: &NetworkData, _: usize) -> usize {
        self.n_nodes
    }

    fn part(&self, data: &NetworkData, row: usize, part: usize) -> CellPart {
        match data.link(row, part) {
            _ if data.is_itself(row, part) => CellPart::Observed(0.0),
            Some(linked) => CellPart::Observed(f64::from(u8::from(linked))),
            None if !self.directed && data.rows_are_nodes && part < row => CellPart::SameAs {
                row: part,
                part: row,
            },
            None => CellPart::Missing,
        }
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        Some(2)
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> NetworkParams {
        NetworkParams {
            prior: (rng.random_range(0..MEANS), rng.random_range(0..STRENGTHS)),
            out: PairTable::default(),
            back: PairTable::default(),
        }
    }

    fn push_prior(&self, params: &mut NetworkParams, rng: &mut Xoshiro256PlusPlus) {
        params.push_empty();
        if self.directed {
            params.back.push();
        }
        let new = params.out.n - 1;
        for pair in self
            .pairs(params.out.n)
            .filter(|&(a, b)| a == new || b == new)
        {
            self.draw_pair(params, pair, [0; 2], rng);
        }
    }

    fn update(
        &self,
        data: &NetworkData,
        labels: &[u32],
        params: &mut NetworkParams,
        _: &mut Vec<NetworkStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let n = params.out.n;
        let tally = self.tally_pairs(data, labels, n);
        self.move_prior(params, &tally, rng);
        for (a, b) in self.pairs(n) {
            self.draw_pair(params, (a, b), tally[a * n + b], rng);
        }
    }

    fn ln_likelihoods(
        &self,
        data: &NetworkData,
        params: &NetworkParams,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) {
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            out.fill(0.0);
            if !self.is_observed(data, row) || others.labels.is_empty() {
                continue;
            }
            let itself = data.rows_are_nodes.then(|| others.labels[row]);
            data.out
                .add_ln_likelihoods(row, &params.out, others, itself, out);
            if !data.back.linked.is_empty() {
                data.back
                    .add_ln_likelihoods(row, &params.back, others, itself, out);
            }
        }
    }

    fn is_collapsed(&self, _: &NetworkData) -> bool {
        false
    }

    fn no_stats(&self) -> NetworkStats {
        unreachable!("asked of collapsed kernels only")
    }

    fn add(&self, stats: &mut NetworkStats, _: &NetworkData, _: usize) {
        match stats.0 {}
    }

    fn merge(&self, stats: &mut NetworkStats, _: &NetworkStats) {
        match stats.0 {}
    }

    fn ln_evidence(&self, _: &NetworkParams, stats: &NetworkStats) -> f64 {
        match stats.0 {}
    }

    fn draw(
        &self,
        _: &mut NetworkParams,
        _: usize,
        stats: &NetworkStats,
        _: &mut Xoshiro256PlusPlus,
    ) {
        match stats.0 {}
    }

    fn expected(
        &self,
        params: &NetworkParams,
        cluster: usize,
        data: &NetworkData,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for node in 0..self.n_nodes {
            let p = match data.link(row, node) {
                _ if data.is_itself(row, node) => 0.0,
                Some(linked) if !ignore_observed => f64::from(u8::from(linked)),
                _ => params.probability(cluster, others.labels[node] as usize),
            };
            out.extend([1.0 - p, p]);
        }
    }

    fn complete(
        &self,
        params: &NetworkParams,
        cluster: usize,
        data: &NetworkData,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for node in 0..self.n_nodes {
            let linked = match data.link(row, node) {
                _ if data.is_itself(row, node) => false,
                Some(linked) if !ignore_observed => linked,
                _ => {
                    rng.random::<f64>() < params.probability(cluster, others.labels[node] as usize)
                }
            };
            out.push(f64::from(u8::from(linked)));
        }
    }

    /// For rows that are nodes.
    fn simulate(
        &self,
        params: &NetworkParams,
        labels: &[u32],
        data: &mut NetworkData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let unknown: Vec<Vec<u32>> = data.out.unknown.clone();
        data.out.clear();
        data.back.clear();
        for from in 0..self.n_nodes {
            let first = if self.directed { 0 } else { from + 1 };
            for to in (first..self.n_nodes).filter(|&to| to != from) {
                let p = params.probability(labels[from] as usize, labels[to] as usize);
                if unknown[from].binary_search(&(to as u32)).is_ok() {
                    data.insert(from, to, false);
                } else if rng.random::<f64>() < p {
                    data.insert(from, to, true);
                }
            }
        }
        data.sort();
    }

    fn check(&self, params: &NetworkParams) -> Result<(), String> {
        Self::new(self.n_nodes, self.directed).map_err(|e| format!("network: {e}"))?;
        if params.prior.0 >= MEANS || params.prior.1 >= STRENGTHS {
            return Err("network hyperparameters".to_owned());
        }
        params.out.check()?;
        params.back.check()?;
        let n = params.out.n;
        if params.back.n != if self.directed { n } else { 0 } {
            return Err("network: sizes do not agree".to_owned());
        }
        for (a, b) in self.pairs(n) {
            let (forth, back) = (params.out.at(b, a), params.out.at(a, b));
            let twin = match self.directed {
                true => params.back.ln_link[params.back.at(a, b)],
                false => params.out.ln_link[back],
            };
            if params.out.ln_link[forth] != twin {
                return Err(format!("network: the two entries of clusters {a} and {b}"));
            }
        }
        Ok(())
    }
}
