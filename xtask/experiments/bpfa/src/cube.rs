//! Hyperspectral cubes of which nearly all entries are missing.

use npb_baselines::{BandsConfig, least_squares_bands};
use npb_bpfa::{ImageConfig, restore};
use npb_data::{Image, metrics};

use super::cells::{Cell, Damage, Method, OURS, RESTORED, load, ours, peak};
use super::pictures;
use npb_kit::data::sha256_of;
use npb_kit::npb_report::images;
use npb_kit::tables::overview;
use npb_kit::{
    Context, Figure, Layer, Outcome, Panel, Point, Record, Report, Result, Scale, Trial, lines,
    summarise,
};

const FOLDER: &str = "hyperspectral";
const FILES: [&str; 2] = [
    "hydice-urban-100x80x162-u16.npy.gz",
    "sandiego-100x100x189-u16.npy.gz",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// Side of the spatial patches.
    Ours(usize),
    /// Rank of the matrix of bands; 1 without rounds is gain times band mean.
    Bands { rank: usize, rounds: usize },
}

impl How {
    fn name(self) -> String {
        match self {
            Self::Ours(4) => OURS.to_owned(),
            Self::Ours(side) => format!("{OURS}/{side}x{side}"),
            Self::Bands { rounds: 0, .. } => "gain-times-band-mean".to_owned(),
            Self::Bands { rank, .. } => format!("least-squares/rank-{rank}"),
        }
    }
}

/// Patches of all bands; a patch has thousands of columns of which most are missing.
fn configured(side: usize, scale: Scale, seed: u64) -> ImageConfig {
    let mut config = ImageConfig {
        patch: [side, side],
        ..ImageConfig::default()
    };
    config.model.atoms = 64;
    config.model.max_atoms = Some(256);
    config.model.seed = seed;
    config.model.sweeps = npb_kit::sweeps(60, 40);
    if scale == Scale::Smoke {
        config.model.atoms = 8;
        config.model.sweeps = npb_kit::sweeps(2, 2);
    }
    config
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let (files, shares, sides): (&[&str], &[f64], &[usize]) = context.scale.pick(
        (&FILES[..1], &[0.05], &[1]),
        (&FILES, &[0.05], &[4, 1]),
        (&FILES, &[0.05, 0.02], &[4, 1]),
    );
    let comparators = [
        How::Bands {
            rank: 2,
            rounds: 60,
        },
        How::Bands { rank: 1, rounds: 0 },
    ];
    let mut trials = Vec::new();
    for &observed in shares {
        for &file in files {
            let checksum = sha256_of(&context.data_file(FOLDER, file))?;
            let ours = sides.iter().map(|&side| How::Ours(side));
            for how in ours.chain(comparators) {
                let mut cell = Cell::new(FOLDER, file, Damage::holes(observed), Method::DEFAULT);
                cell.shown = how == How::Ours(4);
                let settings = configured(4, context.scale, 0);
                let config = format!("{how:?}\n{settings:?}\n{checksum}");
                let place = [FOLDER, &cell.full_setting(), &how.name()];
                trials.push(Trial::new(place, 0, config, (cell.clone(), how)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (cell, how) = &trial.work;
        let truth = load(context, cell)?;
        let damaged = cell.damage.apply(&truth, true, seed)?;
        one(cell, *how, &truth, &damaged, context.scale, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let figures = figures(context, &trials, &records)?;
    Ok(Report {
        tables: vec![overview("Entries restored (peak of the PSNR: the largest value of the cube)", &results, "psnr coverage_90 seconds")],
        figures,
        notes: vec![
            "Entries are missing one by one, not pixels. PSNR over all entries. The paper's cube is not at hand; these are crops of other scenes.".to_owned(),
            "Least squares: pixels x bands as a matrix of rank 2 with a ridge of 0.001, 60 rounds from the band means; gain times band mean: one gain for each pixel.".to_owned(),
        ],
        results,
    })
}

fn one(
    cell: &Cell,
    how: How,
    truth: &Image,
    damaged: &Image,
    scale: Scale,
    seed: u64,
) -> Result<Outcome> {
    match how {
        How::Ours(side) => {
            let restored = restore(damaged, &configured(side, scale, seed))?;
            let mut outcome = ours(cell, truth, &restored)?;
            // Of a cube the spectra of some pixels are kept, not all of it.
            if let Some(values) = outcome.series.remove(RESTORED) {
                outcome.series.clear();
                outcome
                    .series
                    .insert(RESTORED.to_owned(), some_spectra(truth, &values));
            }
            Ok(outcome)
        }
        How::Bands { rank, rounds } => {
            let config = BandsConfig {
                rank,
                iterations: rounds,
                seed,
                ..BandsConfig::default()
            };
            let filled = least_squares_bands(damaged, &config)?;
            let psnr = metrics::psnr(filled.values(), truth.values(), peak(truth))?;
            Ok(Outcome::metrics([("psnr", psnr)]))
        }
    }
}

/// Pixels whose spectra are shown: the middles of the four quarters.
fn places(truth: &Image) -> [[usize; 2]; 4] {
    let (h, w) = (truth.height(), truth.width());
    [
        [h / 4, w / 4],
        [h / 4, 3 * w / 4],
        [3 * h / 4, w / 4],
        [3 * h / 4, 3 * w / 4],
    ]
}

fn some_spectra(truth: &Image, values: &[f64]) -> Vec<f64> {
    let bands = truth.channels();
    let spectrum = |[row, column]: [usize; 2]| {
        let start = (row * truth.width() + column) * bands;
        values[start..start + bands].to_vec()
    };
    places(truth).into_iter().flat_map(spectrum).collect()
}

fn figures(
    context: &Context<'_>,
    trials: &[Trial<(Cell, How)>],
    records: &[Record],
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (trial, record) in trials.iter().zip(records) {
        let cell = &trial.work.0;
        let Some(found) = record.outcome.series.get(RESTORED) else {
            continue;
        };
        let truth = load(context, cell)?;
        let numbers: Vec<f64> = truth.values().iter().map(|&v| v.into()).collect();
        let truth_spectra = some_spectra(&truth, &numbers);
        let bands = truth.channels();
        let curve = |name: &str, all: &[f64], place: usize| {
            let spectrum = all[place * bands..(place + 1) * bands].iter().enumerate();
            Layer::line(name, spectrum.map(|(band, &y)| Point::at(band as f64, y)))
        };
        let panel = |(n, [row, column]): (usize, [usize; 2])| {
            let curves = [
                curve("truth", &truth_spectra, n),
                curve("restored", found, n),
            ];
            Panel::of_lines(
                format!("row {row}, column {column}"),
                ["band", "value"],
                curves,
            )
        };
        let panels: Vec<Panel> = places(&truth).into_iter().enumerate().map(panel).collect();
        let name = format!("spectra-{}", figures.len() + 1);
        figures.push(lines(
            &name,
            &cell.full_setting(),
            "Spectra of four pixels.",
            &panels,
        )?);
        let damaged = cell.damage.apply(&truth, true, record.key.seed)?;
        let peak = 0.7 * peak(&truth);
        let shown = |title: &str, image: &Image| pictures::shown(title, image, peak, None);
        figures.push(images(
            &format!("bands-{}", figures.len()),
            &cell.full_setting(),
            "Three bands as red, green and blue; missing entries are black.",
            &[shown("original", &truth)?, shown("observed", &damaged)?],
        )?);
    }
    Ok(figures)
}
