//! Figures 1 to 3: political blogs. A network, the leaning of its nodes, and the sources of these labels.

use std::f64::consts::TAU;
use std::fs;

use npb_data::{metrics, splits};
use npb_infer::{SweepPlan, stream};
use npb_itf::{ClusteringLoss, Grouping, ItfConfig, fit_data};

use super::blogs::{Blogs, LEANING, LINKS, SHOWN_NOTE};
use super::names::ITF;
use npb_kit::data::sha256_of_bytes;
use npb_kit::npb_report::{At, Cells, Colour, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Figure, Outcome, Record, Report, Result, Run, Scale, TextTable, Trial, short,
    summarise, text_table,
};

pub(super) const FIGURE_1: Run = |context| whole(context, network);

pub(super) const FIGURE_2: Run = |context| whole(context, co_assignment);

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
        groups: Grouping::Off,
        seed,
        ..Default::default()
    }
}

/// Fits all columns of the blogs shown and draws from what is found.
fn whole(
    context: &Context<'_>,
    draw: impl Fn(&Blogs, &Outcome) -> Result<Figure>,
) -> Result<Report> {
    let (all, checksum) = read(context)?;
    let blogs = all.shown();
    let records = fitted(context, &blogs, &checksum)?;
    Ok(Report {
        results: summarise(&records, |_, _, _, _| None),
        figures: vec![draw(&blogs, &records[0].outcome)?],
        notes: vec![SHOWN_NOTE.to_owned()],
        ..Default::default()
    })
}

fn fitted(context: &Context<'_>, blogs: &Blogs, checksum: &str) -> Result<Vec<Record>> {
    let setting = format!("nodes={}", blogs.len());
    let settings = format!("{checksum}\n{:?}", config(context.scale, 0));
    let trials = [Trial::new(["polblogs", &setting, ITF], 0, settings, ())];
    context.run_trials(&trials, |_, seed| {
        let data = blogs.columns(&vec![false; blogs.len()], true)?;
        let fit = fit_data(&data, &config(context.scale, seed))?;
        let point = fit.point_clustering(LINKS, ClusteringLoss::VariationOfInformation)?;
        let rows: Vec<usize> = (0..blogs.len()).collect();
        let pairs = fit.row_similarity(&[LINKS], &rows)?;
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
        Ok(outcome)
    })
}

fn series<'a>(outcome: &'a Outcome, name: &str) -> Result<&'a [f64]> {
    let found = outcome.series.get(name).map(Vec::as_slice);
    found.ok_or_else(|| format!("a trial without {name:?}").into())
}

/// Colours of the clusters, the largest first; smaller ones share the last. None of them is a leaning's.
const CLUSTERS: [(&str, Colour); 7] = [
    ("cluster 1", colours::PURPLE),
    ("cluster 2", colours::GREEN),
    ("cluster 3", colours::ORANGE),
    ("cluster 4", colours::BLACK),
    ("cluster 5", colours::SKY),
    ("cluster 6", Colour(140, 90, 40)),
    ("smaller clusters", colours::GREY),
];

fn network(blogs: &Blogs, outcome: &Outcome) -> Result<Figure> {
    let places = layout(blogs);
    let links = blogs.links.iter();
    let lines: Vec<Vec<At>> = links.map(|&(a, b)| vec![places[a], places[b]]).collect();
    let of = |wanted: &dyn Fn(usize) -> bool| -> Vec<At> {
        (0..blogs.len())
            .filter(|&i| wanted(i))
            .map(|i| places[i])
            .collect()
    };
    let panel = |title: &str, nodes: Vec<Layer>| {
        let window = (-1.05, 1.05);
        let layers = links_layer(&lines).into_iter().chain(nodes).collect();
        Panel::new(title, ["", ""], window, window, layers)
    };
    let labels = series(outcome, "labels")?;
    let last = CLUSTERS.len() - 1;
    let by_cluster = CLUSTERS.iter().enumerate().map(|(k, &(name, colour))| {
        let nodes = of(&|i| (labels[i] as usize).min(last) == k);
        Layer::new(name, colour, Shape::Dots(nodes))
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
    Ok(figure)
}

fn links_layer(lines: &[Vec<At>]) -> Option<Layer> {
    let links = Shape::Curves(lines.to_vec(), 1);
    (!lines.is_empty()).then(|| Layer::new("link", Colour(215, 215, 215), links))
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
        Layer::new("labelled liberal", colours::BLUE, Shape::Dots(of(false))),
        Layer::new(
            "labelled conservative",
            colours::VERMILLION,
            Shape::Triangles(of(true)),
        ),
    ]
}

fn co_assignment(blogs: &Blogs, outcome: &Outcome) -> Result<Figure> {
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
        Layer::new(
            "together with probability 0 to 1",
            colours::VERMILLION,
            Shape::Cells(Cells::probabilities(n, probabilities)),
        ),
        Layer::new(
            "border of a cluster",
            colours::BLACK,
            Shape::Curves(lines.collect(), 1),
        ),
    ];
    layers.extend(leaning_layers(blogs, &place));
    let figure = picture(
        "co-assignment",
        "Blogs in one cluster of links",
        "Probability that two blogs are in one cluster of the network column, over all kept draws. Blogs are sorted by the clusters of figure 1, \
         within each by how firmly they belong to it; marks on the diagonal tell their labelled leaning.",
        &[Panel::new(
            "probability of one cluster",
            ["blog", "blog"],
            (0.0, edge),
            (0.0, edge),
            layers,
        )],
    )?;
    Ok(figure)
}

pub(super) fn leanings(context: &Context<'_>) -> Result<Report> {
    let (all, checksum) = read(context)?;
    let scale = context.scale;
    let mut sets = vec![all.shown()];
    if scale > Scale::Smoke {
        sets.push(all.largest_component());
    }
    let mut trials = Vec::new();
    for blogs in &sets {
        let setting = format!("nodes={};labels=held-out", blogs.len());
        let config = format!("{checksum}\n{:?}", recovery(scale, 0));
        let place = ["polblogs", &setting, ITF];
        trials.extend(Trial::runs(scale.pick(1, 2, 10), place, &config, blogs));
    }
    let recovered = context.run_trials(&trials, |trial, seed| {
        let blogs = trial.work;
        let mut found = vec![0.0; blogs.len()];
        for fold in 0..FOLDS {
            let hidden = hidden(blogs.len(), fold, seed)?;
            let data = blogs.columns(&hidden, false)?;
            let fit = fit_data(&data, &recovery(scale, seed))?;
            let leaning = fit.predict(&fit.rows_of(&data, true)?, LEANING)?;
            for (i, p) in leaning.iter().enumerate().filter(|(i, _)| hidden[*i]) {
                found[i] = p[1];
            }
        }
        let auc = metrics::auc(&found, &blogs.conservative)?;
        Ok(Outcome::metrics([("auc", auc)]))
    })?;
    let blogs = &sets[0];
    let whole = fitted(context, blogs, &checksum)?;
    let figure = conservative(blogs, &whole[0].outcome)?;
    let results = summarise(&[recovered, whole.clone()].concat(), |_, _, _, _| None);
    let title = "Held-out leanings from links alone, and clusters";
    let table = overview(title, &results, "auc clusters");
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
    let (chains, burn_in, keep, thin) = scale.smoke_or((1, 30, 10, 1), (2, 300, 50, 4));
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
    Ok(picture(
        "conservative",
        "Probability of being labelled conservative",
        "Predictive probability of the label conservative, given the links of a blog and its sources, in draws that know all labels; blogs sorted \
         by it, marked by the label they have.",
        &[Panel::new(
            "probability of the label conservative",
            ["blog", "probability"],
            (0.0, blogs.len() as f64),
            (-0.02, 1.02),
            leaning_layers(blogs, &place),
        )],
    )?)
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
    Ok(text_table(
        "The eight blogs whose label fits least",
        "blog | label | its probability | links with the same label | links with the other",
        order.iter().take(8).map(line),
    ))
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
