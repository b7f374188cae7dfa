//! Links between political blogs, with the leaning of each and the sources that it was read from.

use std::collections::{BTreeMap, BTreeSet};

use npb_data::MixedColumn;
use npb_infer::stream;
use npb_itf::ItfData;
use npb_itf::kernels::{Cells, Network, NetworkData};

use npb_kit::Result;

/// Blogs of the figures, as many as the paper has.
const SHOWN: usize = 105;
/// Names of the columns.
pub(super) const LINKS: &str = "links";
pub(super) const LEANING: &str = "leaning";

/// Some blogs, and the links between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blogs {
    pub(super) names: Vec<String>,
    /// Whether a blog is labelled conservative, not liberal.
    pub(super) conservative: Vec<bool>,
    /// Names of the sources, and whether a blog is in them.
    pub(super) sources: BTreeMap<String, Vec<bool>>,
    /// From, to; each once, none from a blog to itself.
    pub(super) links: Vec<(usize, usize)>,
}

impl Blogs {
    /// Reads a file in the Graph Modelling Language: nodes with `id`, `label`, `value` and `source`, then edges.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut blogs = Self {
            names: Vec::new(),
            conservative: Vec::new(),
            sources: BTreeMap::new(),
            links: Vec::new(),
        };
        let (mut places, mut lists, mut links) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for (kind, fields) in records(text) {
            let field = |name: &str| {
                let found = fields.get(name).copied();
                found.ok_or_else(|| format!("a {kind} without {name}: {fields:?}"))
            };
            if kind == "node" {
                places.insert(field("id")?, blogs.names.len());
                blogs.names.push(field("label")?.to_owned());
                blogs.conservative.push(field("value")? == "1");
                lists.push(field("source")?);
            } else {
                let place = |name: &str| -> Result<usize> {
                    let id = field(name)?;
                    Ok(*places.get(id).ok_or(format!("an edge of no node: {id}"))?)
                };
                let (from, to) = (place("source")?, place("target")?);
                if from != to {
                    links.insert((from, to));
                }
            }
        }
        blogs.links = links.into_iter().collect();
        for (place, list) in lists.into_iter().enumerate() {
            for source in list.split(',').map(str::trim) {
                let among = blogs.sources.entry(source.to_owned());
                among.or_insert_with(|| vec![false; blogs.names.len()])[place] = true;
            }
        }
        Ok(blogs)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Those that [`SHOWN_NOTE`] describes.
    pub(super) fn shown(&self) -> Self {
        let n_sources = |i: usize| self.sources.values().filter(|among| among[i]).count();
        let n_neighbours = self.neighbours().into_iter().map(|n| n.len());
        let n_neighbours: Vec<usize> = n_neighbours.collect();
        let mut chosen: Vec<usize> = (0..self.len()).filter(|&i| n_sources(i) > 1).collect();
        chosen.sort_by_key(|&i| std::cmp::Reverse(n_neighbours[i]));
        chosen.truncate(SHOWN);
        chosen.sort_unstable();
        self.select(&chosen)
    }

    /// The largest set of blogs that are all reachable from each other, links taken in both directions.
    pub(super) fn largest_component(&self) -> Self {
        let neighbours = self.neighbours();
        let mut component = vec![usize::MAX; self.len()];
        let mut largest = Vec::new();
        for start in 0..self.len() {
            if component[start] != usize::MAX {
                continue;
            }
            component[start] = start;
            let (mut found, mut next) = (vec![start], 0);
            while next < found.len() {
                for &j in &neighbours[found[next]] {
                    if component[j] == usize::MAX {
                        component[j] = start;
                        found.push(j);
                    }
                }
                next += 1;
            }
            if found.len() > largest.len() {
                largest = found;
            }
        }
        largest.sort_unstable();
        self.select(&largest)
    }

    /// Blogs linked to each, in either direction, each once.
    fn neighbours(&self) -> Vec<BTreeSet<usize>> {
        let mut neighbours = vec![BTreeSet::new(); self.len()];
        for &(from, to) in &self.links {
            neighbours[from].insert(to);
            neighbours[to].insert(from);
        }
        neighbours
    }

    /// Some blogs and the links between them; sources that name none of them drop out.
    fn select(&self, chosen: &[usize]) -> Self {
        let place = |i: usize| chosen.binary_search(&i).ok();
        let among = |all: &[bool]| -> Vec<bool> { chosen.iter().map(|&i| all[i]).collect() };
        let sources = self.sources.iter();
        let link = |&(from, to): &(usize, usize)| Some((place(from)?, place(to)?));
        Self {
            names: chosen.iter().map(|&i| self.names[i].clone()).collect(),
            conservative: among(&self.conservative),
            sources: sources
                .map(|(name, all)| (name.clone(), among(all)))
                .filter(|(_, among)| among.contains(&true))
                .collect(),
            links: self.links.iter().filter_map(link).collect(),
        }
    }

    /// Columns of the model: links and leaning, the latter unknown where `hidden`, and a column for every source.
    pub(super) fn columns(&self, hidden: &[bool], with_sources: bool) -> Result<ItfData> {
        let kernel = Network::new(self.len(), true)?;
        let cells = NetworkData::new(&kernel, &self.links, &[])?;
        let mut data = ItfData::new();
        let law = kernel.column(&mut stream(0, [0; 4]));
        data.push(LINKS, law, Cells::Network(cells))?;
        let leaning = self.conservative.iter().zip(hidden);
        let leaning = leaning.map(|(&conservative, &hidden)| (!hidden).then_some(conservative));
        data.push_table_column(LEANING, &binary("liberal", "conservative", leaning))?;
        for (name, among) in self.sources.iter().filter(|_| with_sources) {
            let among = among.iter().map(|&among| Some(among));
            data.push_table_column(name, &binary("no", "yes", among))?;
        }
        Ok(data)
    }
}

pub(super) const SHOWN_NOTE: &str = "Of the 1490 blogs the 105 with the most neighbours among those 254 that two or more sources name (the paper does not \
     say which 105 it has): blogs in one source alone would say nothing about how sources go together. Links have a direction; links of a blog to \
     itself and repeated links are left out.";

fn binary(no: &str, yes: &str, values: impl Iterator<Item = Option<bool>>) -> MixedColumn {
    MixedColumn::Binary {
        levels: [no, yes].map(str::to_owned),
        values: values.collect(),
    }
}

/// Fields by name.
type Fields<'t> = BTreeMap<&'t str, &'t str>;

/// `node` and `edge` records with their fields, in order. One field stands in a line.
fn records(text: &str) -> Vec<(&str, Fields<'_>)> {
    let mut records = Vec::new();
    let mut open: Option<(&str, Fields<'_>)> = None;
    for line in text.lines().map(str::trim) {
        match (line.strip_suffix('[').map(str::trim), &mut open) {
            (Some(kind @ ("node" | "edge")), _) => open = Some((kind, Fields::new())),
            (None, Some((_, fields))) if line != "]" => {
                if let Some((name, value)) = line.split_once(' ') {
                    fields.insert(name, value.trim().trim_matches('"'));
                }
            }
            (None, Some(_)) => records.extend(open.take()),
            _ => {}
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "Creator \"x\"\ngraph [\n  directed 1\n  node [\n    id 7\n    label \"a b.com\"\n    value 0\n    source \"P,Q\"\n  ]\n\
        node [\n id 8\n label \"c\"\n value 1\n source \"Q\"\n ]\n node [\n id 9\n label \"d\"\n value 1\n source \"R\"\n ]\n\
        edge [\n source 7\n target 8\n ]\n edge [\n source 7\n target 8\n ]\n edge [\n source 8\n target 8\n ]\n]\n";

    #[test]
    fn blogs_are_read() {
        let blogs = Blogs::read(FILE).unwrap();
        assert_eq!(blogs.names, ["a b.com", "c", "d"]);
        assert_eq!(blogs.conservative, [false, true, true]);
        assert_eq!(blogs.links, [(0, 1)]);
        assert_eq!(blogs.sources["Q"], [true, true, false]);
        assert!(Blogs::read("edge [\n source 1\n target 2\n ]\n").is_err());
    }

    #[test]
    fn subsets_keep_what_belongs_to_them() {
        let blogs = Blogs::read(FILE).unwrap();
        let largest = blogs.largest_component();
        assert_eq!((largest.len(), &largest.links[..]), (2, &[(0, 1)][..]));
        assert_eq!(largest.sources.len(), 2);
        // One blog has two sources.
        assert_eq!(blogs.shown().names, ["a b.com"]);
    }

    #[test]
    fn hidden_leanings_are_missing() {
        let blogs = Blogs::read(FILE).unwrap();
        let data = blogs.columns(&[false, true, false], true).unwrap();
        assert_eq!(data.n_columns(), 5);
        let leaning = (&data.laws()[1], &data.cells()[1]);
        let gaps: Vec<bool> = (0..3).map(|i| leaning.0.has_gap(leaning.1, i)).collect();
        assert_eq!(gaps, [false, true, false]);
    }
}
