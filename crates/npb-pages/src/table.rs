//! Columns of mixed kinds.

use std::collections::{BTreeSet, HashMap};

use npb_data::{Field, Mask, Measure, MixedTable};
use npb_infer::Trace;
use npb_itf::{
    ClusteringLoss, ColumnDependence, DependenceConfig, ItfConfig, ItfFit, PairDependence, Verdict,
    point_clustering, summarise_clusters,
};
use npb_report::{HeatMap, Link, NamedBar, TextTable, graph, heat_map, named_bars};

use crate::cells::{self, LEVEL, Refilled, is_number, value};
use crate::page::Section;
use crate::predictive::{self, DRAWN};
use crate::sampling::{hidden, side_by_side, some, some_rows};
use crate::shared::{first_of, left_out_words, number, percent, short_name};
use crate::{Context, Page, Result, Rows, shared};

/// Rows that are asked about.
const TESTED: usize = 1000;
const FILLED: usize = 300;
const CLUSTERED: usize = 600;
/// Permutations behind a p-value, and rows times pairs that are tested.
const PERMUTATIONS: usize = 199;
const MOST_TESTED: usize = 700_000;
/// Draws that are asked about cells, and rows times columns times draws.
const ASKED: usize = 100;
const MOST_ASKED: usize = 1_000_000;
/// Columns in the heat map and of which clusters are told, links in the graph, cells in a table, clusters of a column.
const MOST_COLUMNS: usize = 60;
const MOST_CLUSTERINGS: usize = 30;
const MOST_LINKS: usize = 80;
const MOST_CELLS: usize = 20;
const MOST_CLUSTERS: usize = 6;
/// Draws whose clusters are compared.
const MOST_DRAWS: usize = 60;

/// The page of a fit, with rows to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &ItfFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let mut page = shared::begin(context);
    let unknown = fit.unobserved_columns();
    if !unknown.is_empty() {
        let mut section = Section::new("Columns that are not used");
        section.warn(left_out_words(
            "without a value, so that nothing is known of them",
            &unknown,
        ));
        page.push(section);
    }
    let traces: Vec<&Trace> = fit.chains().iter().map(|chain| &chain.trace).collect();
    page.push(shared::chains(
        &fit.diagnostics(),
        &traces,
        &fit.config().sweeps,
    )?);
    match rows {
        Some(rows) => {
            page.push(dependence(fit, context, rows)?);
            page.push(clusters(fit, context, Some(rows))?);
            page.push(tried(&fit.thinned(ASKED), context, rows)?);
            page.push(shared::holes(rows)?);
        }
        None => {
            page.push(together(fit)?);
            page.push(clusters(fit, context, None)?);
            page.push(shared::ask_for_rows("such as those of the fit"));
        }
    }
    page.push(shared::settings(fit.config(), &ItfConfig::default())?);
    Ok(page)
}

/// A symmetric matrix as a heat map whose columns are side by side where they are alike; only those of the largest values where there are many.
fn matrix_map(names: &[String], matrix: &[f64], marked: impl Fn(usize, usize) -> bool) -> HeatMap {
    let p = names.len();
    let off = |j: usize| {
        (0..p)
            .filter(move |&k| k != j)
            .map(move |k| matrix[j * p + k])
    };
    let mut shown: Vec<usize> = (0..p).collect();
    if p > MOST_COLUMNS {
        let most = |j: usize| off(j).fold(f64::NEG_INFINITY, f64::max);
        shown.sort_by(|&a, &b| most(b).total_cmp(&most(a)));
        shown.truncate(MOST_COLUMNS);
        shown.sort_unstable();
    }
    let pairs = shown
        .iter()
        .flat_map(|&a| shown.iter().map(move |&b| (a, b)));
    let alike: Vec<f64> = pairs.map(|(a, b)| matrix[a * p + b]).collect();
    let order: Vec<usize> = side_by_side(shown.len(), &alike)
        .into_iter()
        .map(|k| shown[k])
        .collect();
    let pairs = || {
        order
            .iter()
            .flat_map(|&a| order.iter().map(move |&b| (a, b)))
    };
    let own: Vec<String> = order.iter().map(|&j| short_name(&names[j])).collect();
    // One pair that says the same twice would leave all others pale.
    let mut sizes: Vec<f64> = (0..p).flat_map(off).collect();
    sizes.sort_by(f64::total_cmp);
    let high = sizes
        .get(sizes.len() * 49 / 50)
        .map_or(1e-12, |high| high.max(1e-12));
    HeatMap {
        rows: own.clone(),
        columns: own,
        // What a column shares with itself says nothing.
        values: pairs()
            .map(|(a, b)| if a == b { f64::NAN } else { matrix[a * p + b] })
            .collect(),
        range: (0.0, high),
        marked: pairs().map(|(a, b)| marked(a, b)).collect(),
    }
}

/// Without rows: how often two columns are in one block.
fn together(fit: &ItfFit) -> Result<Section> {
    let mut section = Section::new("Which columns go together");
    let names: Vec<String> = fit.columns().iter().map(|info| info.name.clone()).collect();
    let (p, places) = (names.len(), fit.places());
    if p < 2 {
        return Ok(section);
    }
    let share = |a: usize, b: usize| {
        let blocks = [a, b].map(|j| places[j].column);
        let same = fit
            .draws()
            .iter()
            .filter(|draw| draw.columns[blocks[0]].block == draw.columns[blocks[1]].block);
        same.count() as f64 / fit.draws().len() as f64
    };
    let matrix: Vec<f64> = (0..p * p).map(|k| share(k / p, k % p)).collect();
    let mut map = matrix_map(&names, &matrix, |_, _| false);
    map.range = (0.0, 1.0);
    let look = "The share of the draws in which two columns are in one block, so that one clustering of the rows is behind both: strong colours go together. With the file of the fit this page says how strongly, and whether by chance.";
    section.draw(heat_map("blocks", "Columns in one block", look, &map)?);
    Ok(section)
}

/// With rows: mutual information, and the test of independence.
fn dependence(fit: &ItfFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Which columns depend on each other");
    if fit.columns().len() < 2 {
        return Ok(section);
    }
    let has_network = has_network(&rows.fields);
    let few = match has_network {
        true => rows.clone(),
        false => {
            let p = fit.columns().len();
            let most = (2 * MOST_TESTED / (p * (p - 1))).clamp(200, TESTED);
            some_rows(rows, most, context.seed)
        }
    };
    let training = rows.may_be_of_fit && few.n_rows() == rows.n_rows();
    if has_network && !training {
        section.say("Rows of a network cannot be taken for new ones: give the file of the fit.");
        return Ok(section);
    }
    let config = DependenceConfig {
        permutations: PERMUTATIONS,
        seed: context.seed,
        ..DependenceConfig::default()
    };
    let tested = fit.field_rows(&few.features, &few.fields, training)?;
    let found = fit.dependence(&tested, &config)?;
    section.say(format!(
        "Mutual information by the draws of the fit; pairs are tested by {PERMUTATIONS} permutations at level {} on {} rows of {}.",
        config.level,
        few.n_rows(),
        rows.file
    ));
    let unseen = found
        .pairs()
        .iter()
        .filter(|p| p.verdict == Verdict::Unexplained);
    let names = |pair: &PairDependence| {
        [pair.a, pair.b]
            .map(|j| short_name(&found.names()[j]))
            .join(" and ")
    };
    let unseen: Vec<String> = unseen.map(names).collect();
    if !unseen.is_empty() {
        let names: Vec<&str> = unseen.iter().map(String::as_str).collect();
        section.warn(format!(
            "Pairs that depend on each other in a way that most draws do not know: {} of {}, such as {}.",
            names.len(),
            found.pairs().len(),
            names[..names.len().min(3)].join("; ")
        ));
    }
    draw_dependence(&mut section, &found)?;
    Ok(section)
}

fn draw_dependence(section: &mut Section, found: &ColumnDependence) -> Result<()> {
    let names = found.names();
    let matrix = found.matrix(0.0, |pair| pair.information.mean);
    let marks: BTreeSet<(usize, usize)> = found
        .pairs()
        .iter()
        .filter(|pair| pair.dependent)
        .map(|pair| (pair.a, pair.b))
        .collect();
    let map = matrix_map(names, &matrix, |a, b| marks.contains(&(a.min(b), a.max(b))));
    let look = "Nats that two columns tell of each other, columns that go together side by side: blocks of strong colour are groups, and squares with an orange mark are dependent by the test.";
    section.draw(heat_map("dependence", "Mutual information", look, &map)?);
    let mut strong: Vec<&PairDependence> = found
        .pairs()
        .iter()
        .filter(|pair| pair.verdict == Verdict::Dependent && pair.information.mean > 0.0)
        .collect();
    strong.sort_by(|a, b| b.information.mean.total_cmp(&a.information.mean));
    let n = strong.len();
    strong.truncate(MOST_LINKS);
    if strong.is_empty() {
        section.say("No pair is called dependent.");
        return Ok(());
    }
    let linked: BTreeSet<usize> = strong.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    let own: Vec<usize> = linked.into_iter().collect();
    let p = names.len();
    let pairs = own.iter().flat_map(|&a| own.iter().map(move |&b| (a, b)));
    let alike: Vec<f64> = pairs.map(|(a, b)| matrix[a * p + b]).collect();
    let order: Vec<usize> = side_by_side(own.len(), &alike)
        .into_iter()
        .map(|k| own[k])
        .collect();
    let at: HashMap<usize, usize> = order.iter().enumerate().map(|(k, &j)| (j, k)).collect();
    let link = |pair: &&PairDependence| Link {
        ends: [at[&pair.a], at[&pair.b]],
        strength: pair.information.mean,
    };
    let links: Vec<Link> = strong.iter().map(link).collect();
    let own: Vec<String> = order.iter().map(|&j| short_name(&names[j])).collect();
    let look = format!(
        "The {} strongest of {n} dependent pairs: thick lines tell most; columns that are not here have none of these.",
        links.len()
    );
    section.draw(graph("links", "Strong links", &look, &own, &links)?);
    let row = |pair: &&PairDependence| {
        vec![
            names[pair.a].clone(),
            names[pair.b].clone(),
            number(pair.information.mean),
            pair.p_in_words(),
        ]
    };
    let rows = strong.iter().take(MOST_CELLS).map(row);
    let header = ["column", "column", "information (nats)", "test"];
    section.fold(TextTable::new("The strongest pairs", &header, rows));
    Ok(())
}

/// The clusters of rows behind each column or group.
fn clusters(fit: &ItfFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Section> {
    let mut section = Section::new("Clusters of rows");
    let mut names: Vec<(usize, Vec<&str>)> = Vec::new();
    for (info, place) in fit.columns().iter().zip(fit.places()) {
        match names.iter_mut().find(|(column, _)| *column == place.column) {
            Some((_, own)) => own.push(&info.name),
            None => names.push((place.column, vec![&info.name])),
        }
    }
    let of = first_of(MOST_CLUSTERINGS, names.len(), "columns");
    names.truncate(MOST_CLUSTERINGS);
    let chosen = some(fit.n_rows(), CLUSTERED, context.seed);
    let (mut bars, mut table) = (Vec::new(), Vec::new());
    for (column, own) in &names {
        let step = fit.draws().len().div_ceil(MOST_DRAWS).max(1);
        let draws = fit.draws().iter().step_by(step);
        let pick = |labels: &[u32]| chosen.iter().map(|&row| labels[row]).collect();
        let labels: Option<Vec<Vec<u32>>> =
            draws.map(|draw| draw.labels(*column).map(pick)).collect();
        let Some(labels) = labels else {
            section.say("The fit has not kept which rows are together (keep_labels).");
            return Ok(section);
        };
        let name = own.join(" + ");
        bars.push(number_of_clusters(&name, &labels));
        let labels: Vec<&[u32]> = labels.iter().map(Vec::as_slice).collect();
        let point = point_clustering(&labels, ClusteringLoss::VariationOfInformation);
        // Rows of the fit are known to be those only where their number is the same.
        let own_rows = rows.filter(|rows| rows.may_be_of_fit);
        let features = own_rows.map(|rows| rows.features.select_rows(&chosen));
        table.extend(told(&name, &point.labels, features.as_ref())?);
    }
    let look = format!(
        "How many clusters of {} rows each column has, over the draws{of}: 1 means that rows do not differ in it but by chance.",
        chosen.len()
    );
    section.draw(named_bars(
        "clusters",
        "Clusters by column",
        &look,
        &bars,
        0.0,
    )?);
    let header = ["column", "cluster", "share of rows", "set apart by"];
    section.fold(TextTable::new("The clusters", &header, table));
    Ok(section)
}

fn number_of_clusters(name: &str, labels: &[Vec<u32>]) -> NamedBar {
    let count = |labels: &Vec<u32>| labels.iter().collect::<BTreeSet<_>>().len() as f64;
    let counts: Vec<f64> = labels.iter().map(count).collect();
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    let square = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>();
    NamedBar {
        name: name.to_owned(),
        value: mean,
        sd: Some((square / n).sqrt()),
    }
}

/// The largest clusters of a clustering, each with the column in which it is least like all rows.
fn told(name: &str, labels: &[u32], features: Option<&MixedTable>) -> Result<Vec<Vec<String>>> {
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    labels
        .iter()
        .for_each(|&label| *sizes.entry(label).or_default() += 1);
    let summaries = match features {
        Some(features) => summarise_clusters(features, labels)?,
        None => Vec::new(),
    };
    let mut order: Vec<(u32, usize)> = sizes.into_iter().collect();
    order.sort_by_key(|&(label, size)| (std::cmp::Reverse(size), label));
    let row = |(k, (label, size)): (usize, (u32, usize))| {
        let own = summaries.iter().find(|summary| summary.label == label);
        let most = own.and_then(|summary| {
            let columns = summary.columns.iter();
            columns.max_by(|a, b| a.divergence.total_cmp(&b.divergence))
        });
        let apart = most
            .zip(features)
            .map_or("–".to_owned(), |(column, features)| {
                format!(
                    "{} {}",
                    short_name(&column.column),
                    cells_in_words(column, features)
                )
            });
        let share = percent(size as f64 / labels.len() as f64);
        vec![name.to_owned(), (k + 1).to_string(), share, apart]
    };
    Ok(order
        .into_iter()
        .take(MOST_CLUSTERS)
        .enumerate()
        .map(row)
        .collect())
}

fn cells_in_words(column: &npb_itf::ColumnSummary, features: &MixedTable) -> String {
    match &column.cells {
        npb_itf::CellSummary::Nothing => "missing".to_owned(),
        npb_itf::CellSummary::Numbers { mean, sd, .. } => {
            format!("{} ± {}", number(*mean), number(*sd))
        }
        npb_itf::CellSummary::Levels { shares } => {
            let best = (0..shares.len()).fold(0, |b, k| if shares[k] > shares[b] { k } else { b });
            let names = features.column_names().iter();
            let at = names.clone().position(|name| *name == column.column);
            let levels = at.and_then(|at| features.column(at).levels());
            let level = levels.and_then(|levels| levels.get(best));
            let level = level.map_or("–".to_owned(), |level| short_name(level));
            format!(
                "{level} ({})",
                percent(shares.get(best).copied().unwrap_or(0.0))
            )
        }
    }
}

fn has_network(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.measure == Measure::Network)
}

/// Cells filled, rows made up, odd cells.
fn tried(fit: &ItfFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Does it hold?");
    if has_network(&rows.fields) {
        section.say("Rows of a network depend on each other: none can be taken for a new one.");
        return Ok(section);
    }
    let few = some_rows(rows, FILLED, context.seed);
    let (left, places) = hidden(&few, context.seed)?;
    if !places.is_empty() {
        section.say(format!(
            "{} known cells of {} rows (about a tenth) are hidden, by seed {}, and filled again from the other cells of their rows. {}",
            places.len(),
            few.n_rows(),
            context.seed,
            rows.held_out()
        ));
        let found = refilled(fit, &few, &left, &places)?;
        cells::write(&mut section, &few.features, &found)?;
    }
    odd_cells(&mut section, fit, context, rows)?;
    let one = rows.features.select_rows(&[0]);
    let one = one.hide(&Mask::from_fn(1, one.n_cols(), |_, _| true)?)?;
    let own = fit.clone().with_seed(context.seed);
    let drawn = own.simulate(&one, &rows.fields, 0..DRAWN)?;
    section.say(format!(
        "{DRAWN} rows that the model makes up against those of {}, the columns that are least alike first.",
        rows.file
    ));
    predictive::write(&mut section, &rows.features, &drawn)?;
    Ok(section)
}

/// What hidden cells are filled with, and whether the intervals hold.
fn refilled(
    fit: &ItfFit,
    rows: &Rows,
    left: &MixedTable,
    places: &[(usize, usize)],
) -> Result<Vec<Refilled>> {
    let filled = fit.impute_fields(left, &rows.fields, LEVEL, false)?;
    let at = |cell: &npb_itf::ImputedCell| (cell.row, cell.column);
    let of: HashMap<_, _> = filled.cells.iter().map(|cell| (at(cell), cell)).collect();
    let part = |column: usize| {
        let fields = rows.fields.iter().enumerate();
        let mut found = fields.filter_map(|(f, field)| {
            let part = field.columns.iter().position(|&own| own == column);
            part.map(|part| (f, part))
        });
        found.next()
    };
    let refill = |&(row, column): &(usize, usize)| {
        let truth = value(rows.features.column(column), row)?;
        let guess = value(filled.completed.column(column), row)?;
        let is_number = is_number(rows.features.column(column));
        let ends = part(column)
            .filter(|_| is_number)
            .and_then(|(field, part)| {
                let cell = of.get(&(row, field))?;
                Some([cell.lower[part], cell.upper[part]])
            });
        Some(Refilled {
            column,
            truth,
            guess,
            inside: ends.map(|[lower, upper]| (lower..=upper).contains(&truth)),
            interval: ends,
        })
    };
    Ok(places.iter().filter_map(refill).collect())
}

/// The cells that are least like what the others of their rows say.
fn odd_cells(
    section: &mut Section,
    fit: &ItfFit,
    context: &Context<'_>,
    rows: &Rows,
) -> Result<()> {
    let most = MOST_ASKED / (fit.columns().len() * fit.draws().len());
    let chosen = some(rows.n_rows(), most.clamp(200, TESTED), context.seed);
    let few = rows.select(&chosen);
    let asked = fit.field_rows(&few.features, &few.fields, false)?;
    let usual = fit.usual_surprisals(&asked)?;
    let found = fit.surprisals(&asked)?;
    let mut odd: Vec<(f64, _)> = found
        .iter()
        .map(|cell| (cell.surprisal - usual[cell.column], cell))
        .filter(|(excess, _)| excess.is_finite())
        .collect();
    odd.sort_by(|a, b| b.0.total_cmp(&a.0));
    let row = |(excess, cell): &(f64, &npb_itf::CellSurprisal)| {
        let field = &few.fields[cell.column];
        let text = match field.columns[..] {
            [column] => in_words(&few.features, column, cell.row),
            _ => "–".to_owned(),
        };
        vec![
            rows.name(chosen[cell.row]),
            field.name.clone(),
            text,
            number(*excess),
        ]
    };
    let header = ["row", "column", "value", "nats above what is usual"];
    let title = format!(
        "The oddest cells of {} rows, each given the others of its row",
        few.n_rows()
    );
    section.tabulate(TextTable::new(
        title,
        &header,
        odd.iter().take(MOST_CELLS).map(row),
    ));
    Ok(())
}

/// A cell as it is in the file.
fn in_words(features: &MixedTable, column: usize, row: usize) -> String {
    let column = features.column(column);
    let Some(value) = value(column, row) else {
        return "–".to_owned();
    };
    match column.levels() {
        Some(levels) => levels[value as usize].clone(),
        None => number(value),
    }
}
