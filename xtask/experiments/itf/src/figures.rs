//! Figures 1 to 3: political blogs. A network, the leaning of its nodes, and the sources of these labels.

use std::f64::consts::TAU;
use std::fs;

use npb_data::{metrics, splits};
use npb_infer::{SweepPlan, stream};
use npb_itf::{ClusteringLoss, DependenceConfig, ItfConfig, fit_data};
use plotters::style::RGBColor;

use super::blogs::{Blogs, LEANING, LINKS, SHOWN_NOTE};
use super::names::ITF;
use super::tables;
use npb_kit::data::sha256_of_bytes;
use npb_kit::draw::{At, Cells, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::header;
use npb_kit::{
    Context, Experiment, Figure, Outcome, Record, Report, Result, Scale, TextTable, Trial, short,
    summarise,
};

pub(super) const FIGURE_1: Experiment = Experiment {
    id: "itf/fig-1",
    what: "political blogs: the network, coloured by leaning and by the clusters of its links; what goes with what",
    paper: "clusters driven largely by leaning, but not by it alone: cores and peripheries",
    data: &["polblogs"],
    run: |context| whole(context, network),
};

pub(super) const FIGURE_2: Experiment = Experiment {
    id: "itf/fig-2",
    what: "political blogs: probability that two are in one cluster of links",
    paper: "clusters are quite stable, but for a few blogs between core and periphery",
    data: &["polblogs"],
    run: |context| whole(context, co_assignment),
};

pub(super) const FIGURE_3: Experiment = Experiment {
    id: "itf/fig-3",
    what: "political blogs: probability of being labelled conservative; held-out labels from links alone",
    paper: "most near 0 or 1; five blogs with labels that do not fit their links stand out",
    data: &["polblogs"],
    run: leanings,
};

/// What the AUC of held-out labels should reach.
const GOAL: f64 = 0.95;
/// Share of the labels that are hidden at a time.
const FOLDS: usize = 5;
/// Key of the random stream of hidden labels.
const HIDDEN: u64 = 1;

fn read(context: &Context<'_>) -> Result<(Blogs, String)> {
    let text = fs::read_to_string(context.data_file("polblogs", "polblogs.gml"))?;
    Ok((Blogs::read(&text)?, sha256_of_bytes(text.as_bytes())))
}

fn config(scale: Scale, seed: u64) -> ItfConfig {
    let (chains, burn_in, keep, thin) = match scale {
        Scale::Smoke => (1, 30, 10, 1),
        Scale::Quick => (4, 1_000, 250, 4),
        // The paper makes 100,000 iterations.
        Scale::Paper => (4, 5_000, 1_000, 20),
    };
    ItfConfig {
        chains,
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin,
        },
        seed,
        ..Default::default()
    }
}

fn trial<W>(config: &ItfConfig, checksum: &str, setting: String, trial: u64, work: W) -> Trial<W> {
    Trial {
        dataset: "polblogs".to_owned(),
        setting,
        method: ITF.to_owned(),
        trial,
        config: format!("{checksum}\n{config:?}"),
        work,
    }
}

/// Fits all columns of the blogs shown and draws from what is found.
fn whole(
    context: &Context<'_>,
    draw: impl Fn(&Blogs, &Outcome) -> Result<(Figure, Vec<TextTable>)>,
) -> Result<Report> {
    let (all, checksum) = read(context)?;
    let blogs = all.shown();
    let records = fitted(context, &blogs, &checksum)?;
    let (figure, tables) = draw(&blogs, &records[0].outcome)?;
    Ok(Report {
        results: summarise(&records, |_, _, _, _| None),
        figures: vec![figure],
        tables,
        notes: vec![SHOWN_NOTE.to_owned()],
    })
}

fn fitted(context: &Context<'_>, blogs: &Blogs, checksum: &str) -> Result<Vec<Record>> {
    let setting = format!("nodes={}", blogs.len());
    let trials = [trial(&config(context.scale, 0), checksum, setting, 0, ())];
    context.run_trials(&trials, |_, seed| {
        let data = blogs.columns(&vec![false; blogs.len()], true)?;
        let fit = fit_data(&data, &config(context.scale, seed))?;
        let point = fit.point_clustering(LINKS, ClusteringLoss::VariationOfInformation)?;
        let rows: Vec<usize> = (0..blogs.len()).collect();
        let pairs = fit.co_clustering(LINKS, &rows)?;
        let together = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b)));
        let asked = fit.rows_of(&data, true)?;
        let leaning = fit.predict(&asked, LEANING)?;
        let mut outcome = Outcome::default();
        outcome
            .metrics
            .insert("clusters".to_owned(), point.sizes.len() as f64);
        let mut keep = |name: &str, values: Vec<f64>| {
            outcome.series.insert(name.to_owned(), values);
        };
        let labels = point.labels.iter().map(|&label| f64::from(label));
        keep("labels", labels.collect());
        keep("support", point.support);
        keep("together", together.map(|(a, b)| pairs.get(a, b)).collect());
        keep("conservative", leaning.iter().map(|p| p[1]).collect());
        let dependence = fit.dependence(
            &asked,
            &DependenceConfig {
                seed,
                ..Default::default()
            },
        )?;
        let names = dependence.names();
        for pair in dependence.pairs() {
            let name = format!("{}, {}", names[pair.a], names[pair.b]);
            let information = &pair.information;
            keep(
                &format!("pair {name}"),
                vec![
                    information.mean,
                    information.quantiles[0],
                    information.quantiles[2],
                    pair.same_block,
                    pair.p_value,
                ],
            );
        }
        Ok(outcome)
    })
}

fn series<'a>(outcome: &'a Outcome, name: &str) -> Result<&'a [f64]> {
    let found = outcome.series.get(name).map(Vec::as_slice);
    found.ok_or_else(|| format!("a trial without {name:?}").into())
}

/// Colours of the clusters, the largest first; smaller ones share the last. None of them is a leaning's.
const CLUSTERS: [(&str, RGBColor); 7] = [
    ("cluster 1", colours::PURPLE),
    ("cluster 2", colours::GREEN),
    ("cluster 3", colours::ORANGE),
    ("cluster 4", colours::BLACK),
    ("cluster 5", RGBColor(86, 180, 233)),
    ("cluster 6", RGBColor(140, 90, 40)),
    ("smaller clusters", colours::GREY),
];

fn network(blogs: &Blogs, outcome: &Outcome) -> Result<(Figure, Vec<TextTable>)> {
    let places = layout(blogs);
    let links = blogs.links.iter();
    let lines: Vec<Vec<At>> = links.map(|&(a, b)| vec![places[a], places[b]]).collect();
    let of = |wanted: &dyn Fn(usize) -> bool| -> Vec<At> {
        (0..blogs.len())
            .filter(|&i| wanted(i))
            .map(|i| places[i])
            .collect()
    };
    let panel = |title: &str, nodes: Vec<Layer>| Panel {
        title: title.to_owned(),
        x_label: String::new(),
        y_label: String::new(),
        x: (-1.05, 1.05),
        y: (-1.05, 1.05),
        layers: links_layer(&lines).into_iter().chain(nodes).collect(),
    };
    let labels = series(outcome, "labels")?;
    let last = CLUSTERS.len() - 1;
    let by_cluster = CLUSTERS
        .iter()
        .enumerate()
        .map(|(k, (name, colour))| Layer {
            name: (*name).to_owned(),
            colour: *colour,
            shape: Shape::Dots(of(&|i| (labels[i] as usize).min(last) == k)),
        });
    let by_cluster = by_cluster.filter(|layer| !is_empty(layer)).collect();
    let figure = picture(
        "network",
        "Political blogs and the links between them",
        "Left: by the leaning that the blog is labelled with. Right: by the clusters of the network column (the clustering of least expected \
         variation of information). Places come from the links alone, by forces.",
        &[
            panel("labelled leaning", leaning_layers(blogs, &|i| places[i])),
            panel("clusters of the links", by_cluster),
        ],
    )?;
    Ok((figure, vec![clusters(blogs, labels), pairs(outcome)]))
}

fn links_layer(lines: &[Vec<At>]) -> Option<Layer> {
    (!lines.is_empty()).then(|| Layer {
        name: "link".to_owned(),
        colour: RGBColor(215, 215, 215),
        shape: Shape::Curves(lines.to_vec(), 1),
    })
}

fn is_empty(layer: &Layer) -> bool {
    matches!(&layer.shape, Shape::Dots(points) if points.is_empty())
}

/// Liberal blogs as dots, conservative ones as triangles.
fn leaning_layers(blogs: &Blogs, place: &dyn Fn(usize) -> At) -> Vec<Layer> {
    let of = |conservative: bool| -> Vec<At> {
        let wanted = |&i: &usize| blogs.conservative[i] == conservative;
        (0..blogs.len()).filter(wanted).map(place).collect()
    };
    vec![
        Layer {
            name: "labelled liberal".to_owned(),
            colour: colours::BLUE,
            shape: Shape::Dots(of(false)),
        },
        Layer {
            name: "labelled conservative".to_owned(),
            colour: colours::VERMILLION,
            shape: Shape::Triangles(of(true)),
        },
    ]
}

/// Sizes of the clusters, their leaning, and how densely their blogs link.
fn clusters(blogs: &Blogs, labels: &[f64]) -> TextTable {
    let cluster = |i: usize| labels[i] as usize;
    let n = labels.iter().fold(0, |n, &label| n.max(label as usize + 1));
    let line = |k: usize| {
        let members: Vec<usize> = (0..blogs.len()).filter(|&i| cluster(i) == k).collect();
        let size = members.len();
        let conservative = members.iter().filter(|&&i| blogs.conservative[i]).count();
        let count = |wanted: &dyn Fn(usize, usize) -> bool| {
            let links = blogs.links.iter();
            links
                .filter(|&&(a, b)| wanted(cluster(a), cluster(b)))
                .count()
        };
        let per_blog = |links: usize| short(links as f64 / size as f64);
        vec![
            (k + 1).to_string(),
            size.to_string(),
            conservative.to_string(),
            per_blog(count(&|a, b| a == k && b == k)),
            per_blog(count(&|a, b| a == k && b != k)),
            per_blog(count(&|a, b| a != k && b == k)),
        ]
    };
    TextTable {
        title: "Clusters of the links".to_owned(),
        header: header(&[
            "cluster",
            "blogs",
            "labelled conservative",
            "links inside, per blog",
            "links to other clusters, per blog",
            "links from other clusters, per blog",
        ]),
        rows: (0..n).map(line).collect(),
    }
}

fn pairs(outcome: &Outcome) -> TextTable {
    let named = outcome.series.iter().filter_map(|(name, values)| {
        let [mean, low, high, block, p_value] = values[..] else {
            return None;
        };
        Some((
            name.strip_prefix("pair ")?,
            mean,
            [low, high],
            block,
            p_value,
        ))
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    let line = |(name, mean, [low, high], block, p_value): (&str, f64, [f64; 2], f64, f64)| {
        vec![
            name.to_owned(),
            short(mean),
            format!("{} to {}", short(low), short(high)),
            short(block),
            short(p_value),
        ]
    };
    TextTable {
        title:
            "Dependence of columns: mutual information of latent indices, and tests of independence"
                .to_owned(),
        header: header(&[
            "columns",
            "information (nats)",
            "90% interval",
            "in one block",
            "p-value",
        ]),
        rows: named.into_iter().map(line).collect(),
    }
}

fn co_assignment(blogs: &Blogs, outcome: &Outcome) -> Result<(Figure, Vec<TextTable>)> {
    let labels = series(outcome, "labels")?;
    let support = series(outcome, "support")?;
    let together = series(outcome, "together")?;
    let n = blogs.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| {
        let by_cluster = labels[a].total_cmp(&labels[b]);
        by_cluster.then(support[b].total_cmp(&support[a]))
    });
    let place = |i: usize| {
        let at = order.iter().position(|&j| j == i).unwrap_or(0) as f64 + 0.5;
        [at, at]
    };
    let probabilities = order
        .iter()
        .flat_map(|&a| order.iter().map(move |&b| (a, b)));
    let probabilities = probabilities.map(|(a, b)| together[a * n + b]).collect();
    let edge = n as f64;
    let starts = (1..n).filter(|&at| labels[order[at]] != labels[order[at - 1]]);
    let lines = starts.flat_map(|at| {
        let at = at as f64;
        [vec![[at, 0.0], [at, edge]], vec![[0.0, at], [edge, at]]]
    });
    let mut layers = vec![
        Layer {
            name: "together with probability 0 to 1".to_owned(),
            colour: colours::VERMILLION,
            shape: Shape::Cells(Cells {
                columns: n,
                probabilities,
            }),
        },
        Layer {
            name: "border of a cluster".to_owned(),
            colour: colours::BLACK,
            shape: Shape::Curves(lines.collect(), 1),
        },
    ];
    layers.extend(leaning_layers(blogs, &place));
    let figure = picture(
        "co-assignment",
        "Blogs in one cluster of links",
        "Probability that two blogs are in one cluster of the network column, over all kept draws. Blogs are sorted by the clusters of figure 1, \
         within each by how firmly they belong to it; marks on the diagonal tell their labelled leaning.",
        &[Panel {
            title: "probability of one cluster".to_owned(),
            x_label: "blog".to_owned(),
            y_label: "blog".to_owned(),
            x: (0.0, edge),
            y: (0.0, edge),
            layers,
        }],
    )?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    order.sort_by(|&a, &b| support[a].total_cmp(&support[b]));
    for &i in order.iter().take(10) {
        rows.push(vec![
            blogs.names[i].clone(),
            (labels[i] + 1.0).to_string(),
            short(support[i]),
        ]);
    }
    let table = TextTable {
        title: "The ten blogs whose cluster is least certain".to_owned(),
        header: header(&[
            "blog",
            "cluster",
            "probability of being with the others of it",
        ]),
        rows,
    };
    Ok((figure, vec![table]))
}

/// Which blogs of which set have their labels hidden.
struct Fold {
    set: usize,
    fold: usize,
}

fn leanings(context: &Context<'_>) -> Result<Report> {
    let (all, checksum) = read(context)?;
    let sets = match context.scale {
        Scale::Smoke => vec![all.shown()],
        Scale::Quick | Scale::Paper => vec![all.shown(), all.largest_component()],
    };
    let repetitions = match context.scale {
        Scale::Smoke => 1,
        Scale::Quick => 2,
        Scale::Paper => 10,
    };
    let settings = recovery(context.scale, 0);
    let mut trials = Vec::new();
    for (set, blogs) in sets.iter().enumerate() {
        for repetition in 0..repetitions {
            let setting = format!("nodes={};labels=held-out", blogs.len());
            let folds = (0..FOLDS)
                .map(|fold| Fold { set, fold })
                .collect::<Vec<_>>();
            trials.push(trial(&settings, &checksum, setting, repetition, folds));
        }
    }
    let recovered = context.run_trials(&trials, |trial, seed| {
        let mut found = vec![0.0; sets[trial.work[0].set].len()];
        for fold in &trial.work {
            let blogs = &sets[fold.set];
            let hidden = hidden(blogs.len(), fold.fold, seed)?;
            let data = blogs.columns(&hidden, false)?;
            let fit = fit_data(&data, &recovery(context.scale, seed))?;
            let leaning = fit.predict(&fit.rows_of(&data, true)?, LEANING)?;
            for (i, p) in leaning.iter().enumerate().filter(|(i, _)| hidden[*i]) {
                found[i] = p[1];
            }
        }
        let auc = metrics::auc(&found, &sets[trial.work[0].set].conservative)?;
        Ok(Outcome::metrics([("auc", auc)]))
    })?;
    let blogs = &sets[0];
    let whole = fitted(context, blogs, &checksum)?;
    let figure = conservative(blogs, &whole[0].outcome)?;
    let results = summarise(&[recovered, whole.clone()].concat(), |_, _, _, _| None);
    let lines = results.iter().filter(|row| row.metric == "auc");
    let lines = lines.map(|row| {
        vec![
            row.setting.clone(),
            tables::with_sd(row),
            tables::verdict(row.mean >= GOAL),
        ]
    });
    let table = TextTable {
        title: "Held-out leanings from links alone: AUC (standard deviation over repetitions)"
            .to_owned(),
        header: header(&["blogs", "auc", "at least 0.95"]),
        rows: lines.collect(),
    };
    Ok(Report {
        tables: vec![table, odd_ones(blogs, &whole[0].outcome)?],
        figures: vec![figure],
        notes: vec![
            SHOWN_NOTE.to_owned(),
            format!(
                "Held out: the labels of a fifth of the blogs at a time, all {FOLDS} fifths in turn; the model has the links of all and the labels of the others, \
                 no sources. 1222 blogs: the largest component of the whole network."
            ),
        ],
        results,
    })
}

/// Shorter chains: labels of a fifth at a time are asked for, many times.
fn recovery(scale: Scale, seed: u64) -> ItfConfig {
    let (chains, burn_in, keep, thin) = match scale {
        Scale::Smoke => (1, 30, 10, 1),
        Scale::Quick | Scale::Paper => (2, 300, 50, 4),
    };
    ItfConfig {
        chains,
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin,
        },
        ..config(scale, seed)
    }
}

/// Every label is hidden in one fold.
fn hidden(n: usize, fold: usize, seed: u64) -> Result<Vec<bool>> {
    let order = splits::sample_rows(n, n, &mut stream(seed, [0, 0, 0, HIDDEN]))?;
    let mut hidden = vec![false; n];
    for row in order.into_iter().skip(fold).step_by(FOLDS) {
        hidden[row] = true;
    }
    Ok(hidden)
}

/// Blogs by rising probability of being conservative.
fn conservative(blogs: &Blogs, outcome: &Outcome) -> Result<Figure> {
    let p = series(outcome, "conservative")?;
    let mut order: Vec<usize> = (0..blogs.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let place = |i: usize| {
        let at = order.iter().position(|&j| j == i).unwrap_or(0);
        [at as f64 + 0.5, p[i]]
    };
    picture(
        "conservative",
        "Probability of being labelled conservative",
        "Predictive probability of the label conservative, given the links of a blog and its sources, in draws that know all labels; blogs sorted \
         by it, marked by the label they have.",
        &[Panel {
            title: "probability of the label conservative".to_owned(),
            x_label: "blog".to_owned(),
            y_label: "probability".to_owned(),
            x: (0.0, blogs.len() as f64),
            y: (-0.02, 1.02),
            layers: leaning_layers(blogs, &place),
        }],
    )
}

/// Blogs whose label is improbable.
fn odd_ones(blogs: &Blogs, outcome: &Outcome) -> Result<TextTable> {
    let p = series(outcome, "conservative")?;
    let of_label = |i: usize| {
        if blogs.conservative[i] {
            p[i]
        } else {
            1.0 - p[i]
        }
    };
    let mut order: Vec<usize> = (0..blogs.len()).collect();
    order.sort_by(|&a, &b| of_label(a).total_cmp(&of_label(b)));
    let line = |&i: &usize| {
        let (mut same, mut other) = (0, 0);
        for &(a, b) in blogs.links.iter().filter(|&&(a, b)| a == i || b == i) {
            match blogs.conservative[a] == blogs.conservative[b] {
                true => same += 1,
                false => other += 1,
            }
        }
        let label = ["liberal", "conservative"][usize::from(blogs.conservative[i])];
        vec![
            blogs.names[i].clone(),
            label.to_owned(),
            short(of_label(i)),
            same.to_string(),
            other.to_string(),
        ]
    };
    Ok(TextTable {
        title: "The eight blogs whose label fits least".to_owned(),
        header: header(&[
            "blog",
            "label",
            "its probability",
            "links with the same label",
            "links with the other",
        ]),
        rows: order.iter().take(8).map(line).collect(),
    })
}

/// Places in the square from -1 to 1, by springs between linked blogs and repulsion between all (Fruchterman and Reingold, 1991),
/// from a circle; blogs without links end at the border.
fn layout(blogs: &Blogs) -> Vec<At> {
    const STEPS: usize = 400;
    let n = blogs.len();
    let angle = |i: usize| TAU * i as f64 / n as f64;
    let mut places: Vec<At> = (0..n).map(|i| [angle(i).cos(), angle(i).sin()]).collect();
    let distance = 2.0 / (n as f64).sqrt();
    for step in 0..STEPS {
        let mut forces = vec![[0.0; 2]; n];
        for a in 0..n {
            for b in 0..a {
                push(&places, &mut forces, (a, b), |d| distance * distance / d);
            }
            // So that parts without links to each other stay in the picture.
            (0..2).for_each(|k| forces[a][k] -= 0.3 * places[a][k]);
        }
        for &(a, b) in &blogs.links {
            push(&places, &mut forces, (a, b), |d| -d * d / (4.0 * distance));
        }
        let longest = 0.1 * (1.0 - step as f64 / STEPS as f64);
        for (place, force) in places.iter_mut().zip(&forces) {
            let size = force[0].hypot(force[1]).max(1e-9);
            (0..2).for_each(|k| place[k] += force[k] * (longest / size).min(1.0));
        }
    }
    for k in 0..2 {
        let low = places.iter().fold(f64::INFINITY, |m, p| m.min(p[k]));
        let high = places.iter().fold(f64::NEG_INFINITY, |m, p| m.max(p[k]));
        let width = (high - low).max(1e-9);
        let scale = |place: &mut At| place[k] = 2.0 * (place[k] - low) / width - 1.0;
        places.iter_mut().for_each(scale);
    }
    places
}

/// Adds a force along the line between two places, away from each other where positive.
fn push(places: &[At], forces: &mut [At], (a, b): (usize, usize), strength: impl Fn(f64) -> f64) {
    let difference = [0, 1].map(|k| places[a][k] - places[b][k]);
    let distance = difference[0].hypot(difference[1]).max(1e-6);
    let strength = strength(distance);
    for k in 0..2 {
        forces[a][k] += strength * difference[k] / distance;
        forces[b][k] -= strength * difference[k] / distance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_hidden_once() {
        let folds: Vec<Vec<bool>> = (0..FOLDS).map(|f| hidden(13, f, 4).unwrap()).collect();
        for i in 0..13 {
            assert_eq!(folds.iter().filter(|hidden| hidden[i]).count(), 1);
        }
    }

    #[test]
    fn linked_blogs_lie_closer() {
        let node =
            |i: usize| format!("node [\n id {i}\n label \"{i}\"\n value 0\n source \"A\"\n ]\n");
        let edge = |a: usize, b: usize| format!("edge [\n source {a}\n target {b}\n ]\n");
        let nodes: String = (0..12).map(node).collect();
        // Two cliques of six, odd and even.
        let pairs = (0..12).flat_map(|a| (0..a).map(move |b| (a, b)));
        let edges: String = pairs
            .filter(|(a, b)| (a + b) % 2 == 0)
            .map(|(a, b)| edge(a, b))
            .collect();
        let places = layout(&Blogs::read(&(nodes + &edges)).unwrap());
        let apart = |a: usize, b: usize| {
            (0..2)
                .map(|k| (places[a][k] - places[b][k]).powi(2))
                .sum::<f64>()
        };
        assert!(apart(0, 2) < apart(0, 1) && apart(1, 3) < apart(1, 2));
    }
}
