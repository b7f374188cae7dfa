//! Images: noise, missing pixels, both, spikes; priors side by side.

use npb_bpfa::{AtomStart, DependentPrior, Dictionary, ImageConfig, SpikePrior, UsagePrior};
use npb_data::Image;

use super::cells::{
    ATOMS, Cell, Damage, Departure, Method, OURS, PEAK, Protocol, RESTORED, USAGE, load, run,
};
use super::pictures;
use super::printed;
use npb_kit::npb_report::images;
use npb_kit::tables::overview;
use npb_kit::{Context, Figure, Record, Report, Result, Scale, summarise};

const GREY: &str = "images";
const COLOUR: &str = "images-colour";
const HOUSE: &str = "house256.png";
const CAMERAMAN: &str = "cameraman256.png";
const PEPPERS: &str = "peppers256.png";
const LENA: &str = "lena512.png";
const CASTLE: &str = "castle-102061.png";
const MUSHROOM: &str = "mushroom-208001.png";
const INPAINTED: [(&str, &str); 6] = [
    (GREY, HOUSE),
    (GREY, CAMERAMAN),
    (GREY, PEPPERS),
    (GREY, LENA),
    (COLOUR, CASTLE),
    (COLOUR, MUSHROOM),
];
/// In the order of importance.
const GREY_IMAGES: [&str; 4] = [HOUSE, CAMERAMAN, PEPPERS, LENA];

const PROTOCOLS: &str = "Protocol float: 8-bit image plus Gaussian noise, as the printed tables (docs/bpfa.md); clip8: then rounded and clipped to 0..255. PSNR at peak 255 on the whole image. \
    The restored image is the mean over kept sweeps and overlapping patches, nothing told: 80 + 80 sweeps without holes (240 + 30, the first 220 of a sample of patches, of large images; 240 + 80 when more than 40% of the variance is noise), 26 + 4 with 70% or more missing, 200 + 100 in between. One run each, so no standard deviations.";

/// What is printed for a row of `results.csv`.
fn paper(_: &str, setting: &str, method: &str, metric: &str) -> Option<f64> {
    let value = |key: &str| {
        let part = setting.split(';').find_map(|p| p.strip_prefix(key));
        part?.strip_prefix('=')
    };
    let number = |key: &str| value(key).and_then(|v| v.parse::<f64>().ok());
    let image = value("image")?;
    if value("protocol") == Some("clip8") || value("spikes").is_some() {
        return None;
    }
    match (method, metric, number("sigma"), number("observed")) {
        (OURS, "psnr", Some(sigma), None) => {
            printed::denoised(image, sigma).or_else(|| printed::denoised_colour(image, sigma))
        }
        ("ksvd/told", "psnr", Some(sigma), None) => printed::denoised_by_ksvd(image, sigma),
        (OURS, "noise_sd", Some(sigma), None) => printed::noise_sd(image, sigma),
        (OURS, "psnr", None, Some(observed)) => printed::inpainted(image, observed),
        _ => None,
    }
}

const METRICS: &str = "psnr noise_sd coverage_90 atoms seconds";

/// Runs cells and reports them, with a figure for each that is shown.
fn report(context: &Context<'_>, name: &str, cells: Vec<Cell>, notes: &[&str]) -> Result<Report> {
    let records = run(context, cells.clone())?;
    let results = summarise(&records, paper);
    let notes = [PROTOCOLS].into_iter().chain(notes.iter().copied());
    Ok(Report {
        tables: vec![overview("Images", &results, METRICS)],
        figures: pictures_of(context, name, &cells, &records)?,
        notes: notes.map(str::to_owned).collect(),
        results,
    })
}

/// The clean and the damaged image, the restored one, the dictionary.
fn pictures_of(
    context: &Context<'_>,
    name: &str,
    cells: &[Cell],
    records: &[Record],
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (cell, record) in cells.iter().zip(records).filter(|(c, _)| c.shown) {
        let truth = load(context, cell)?;
        let per_entry = truth.channels() > 1;
        let damaged = cell.damage.apply(&truth, per_entry, record.key.seed)?;
        let [height, width, channels] = truth.size();
        let series = &record.outcome.series;
        let (Some(restored), Some(atoms), Some(usage)) =
            (series.get(RESTORED), series.get(ATOMS), series.get(USAGE))
        else {
            continue;
        };
        let length = atoms.len() / usage.len().max(1);
        let values: Vec<f32> = atoms.iter().map(|&a| a as f32).collect();
        let side = ((length / channels) as f64).sqrt().round() as usize;
        let dictionary = Dictionary::from_atoms(length, &values)?;
        let shown = |title: &str, image: &Image, number: Option<f64>| {
            pictures::shown(title, image, PEAK, number)
        };
        let psnr = record.outcome.metrics.get("psnr").copied();
        let title = format!("restored, {:.2} dB", psnr.unwrap_or(f64::NAN));
        let restored = Image::from_slice(height, width, channels, restored)?;
        let atoms = pictures::atoms(&dictionary, usage, [side, side, channels])?;
        figures.push(images(
            &format!("{name}-{}", figures.len() + 1),
            &cell.full_setting(),
            "Missing pixels are black. Atoms: the most used first, each on its own scale, 0 grey.",
            &[
                shown("original", &truth, None)?,
                shown("observed", &damaged, None)?,
                shown(&title, &restored, psnr)?,
                shown("dictionary", &atoms, None)?,
            ],
        )?);
    }
    Ok(figures)
}

pub(super) fn denoise(context: &Context<'_>) -> Result<Report> {
    let (images, sigmas): (&[&str], &[f64]) = context.scale.pick(
        (&GREY_IMAGES[..1], &[25.0]),
        (&GREY_IMAGES[..3], &[25.0, 50.0, 10.0]),
        (&GREY_IMAGES, &[50.0, 100.0, 25.0, 10.0, 15.0, 5.0, 20.0]),
    );
    let mut cells = Vec::new();
    for &sigma in sigmas {
        for &image in images {
            let mut cell = Cell::new(GREY, image, Damage::noise(sigma), Method::DEFAULT);
            cell.shown = image == HOUSE && sigma == 25.0;
            cells.push(cell);
        }
    }
    // Comparators on the same noise.
    for &sigma in sigmas {
        for &image in images {
            let cell = |method| Cell::new(GREY, image, Damage::noise(sigma), method);
            cells.push(cell(Method::Means));
            if context.scale == Scale::Paper || image == HOUSE {
                cells.extend([1.0, 0.6, 1.4].map(|factor| cell(Method::Ksvd(factor))));
            }
        }
    }
    for &sigma in [25.0, 50.0, 15.0].iter().filter(|s| sigmas.contains(s)) {
        for &image in images.iter().filter(|i| **i != LENA) {
            let damage = Damage {
                protocol: Protocol::Clip8,
                ..Damage::noise(sigma)
            };
            cells.push(Cell::new(GREY, image, damage, Method::DEFAULT));
        }
    }
    let note = "K-SVD is ours (256 atoms, orthogonal matching pursuit, 10 rounds, gain 1.15), told sigma, 0.6 and 1.4 times it.";
    report(context, "denoised", cells, &[note])
}

pub(super) fn denoise_colour(context: &Context<'_>) -> Result<Report> {
    let (images, sigmas): (&[&str], &[f64]) = context.scale.pick(
        (&[CASTLE], &[25.0]),
        (&[CASTLE, MUSHROOM], &[25.0]),
        (&[CASTLE, MUSHROOM], &[25.0, 15.0, 10.0, 5.0]),
    );
    let mut cells = Vec::new();
    for &sigma in sigmas {
        for &image in images {
            let mut cell = Cell::new(COLOUR, image, Damage::noise(sigma), Method::DEFAULT);
            cell.shown = image == CASTLE && sigma == 25.0;
            cells.push(cell);
            cells.push(Cell::new(
                COLOUR,
                image,
                Damage::noise(sigma),
                Method::Means,
            ));
        }
    }
    report(context, "denoised", cells, &[])
}

pub(super) fn inpaint(context: &Context<'_>) -> Result<Report> {
    let (files, shares): (&[(&str, &str)], &[f64]) = context.scale.pick(
        (&INPAINTED[..1], &[0.2]),
        (&INPAINTED, &[0.2, 0.5]),
        (&INPAINTED, &[0.2, 0.5, 0.3, 0.8]),
    );
    let mut cells = Vec::new();
    for &observed in shares {
        for &(folder, file) in files {
            let damage = Damage::holes(observed);
            let mut cell = Cell::new(folder, file, damage, Method::DEFAULT);
            cell.shown = observed == 0.2 && (file == HOUSE || file == CASTLE);
            cells.push(cell);
            cells.push(Cell::new(folder, file, damage, Method::Linear));
        }
    }
    // Against the number of atoms and the start, on the first image.
    let departures: [(&'static str, Departure); 4] = [
        ("64-atoms", |c| c.model.atoms = 64),
        ("128-atoms", |c| c.model.atoms = 128),
        ("512-atoms", |c| c.model.atoms = 512),
        ("noisy-start", |c| c.start = AtomStart::NoisyPatches),
    ];
    for (name, depart) in departures {
        let damage = Damage::holes(0.2);
        cells.push(Cell::new(GREY, HOUSE, damage, Method::Ours(name, depart)));
    }
    let note = "Linear interpolation (over Delaunay triangles) is measured here, on the same pixels. Without noise the inferred noise is what the patches leave unexplained.";
    report(context, "inpainted", cells, &[note])
}

pub(super) fn noise_and_missing(context: &Context<'_>) -> Result<Report> {
    let (files, sigmas, shares): (&[(&str, &str)], &[f64], &[f64]) = context.scale.pick(
        (&[(GREY, HOUSE)], &[25.0], &[0.5]),
        (&[(GREY, HOUSE)], &[15.0, 25.0], &[0.5, 0.3, 0.2]),
        (
            &[(GREY, HOUSE), (COLOUR, CASTLE)],
            &[15.0, 25.0, 10.0, 5.0],
            &[0.5, 0.3, 0.2, 0.1],
        ),
    );
    let mut cells = Vec::new();
    for &(folder, file) in files {
        for &sigma in sigmas {
            for &observed in shares {
                let damage = Damage {
                    observed,
                    ..Damage::noise(sigma)
                };
                let mut cell = Cell::new(folder, file, damage, Method::DEFAULT);
                cell.shown = sigma == 25.0 && (observed == 0.5 || observed == 0.2);
                cells.push(cell);
                cells.push(Cell::new(folder, file, damage, Method::LinearThenMeans));
            }
        }
    }
    report(context, "restored", cells, &[])
}

pub(super) fn lasso(context: &Context<'_>) -> Result<Report> {
    let files: &[&str] = context.scale.pick(&[HOUSE], &[HOUSE], &[HOUSE, CAMERAMAN]);
    let laplace = Method::Ours("lasso", |config| {
        config.model.scores = npb_bpfa::ScorePrior::Lasso {
            per_entry: false,
            rate: npb_priors::GammaPrior {
                shape: 1e-6,
                rate: 1e-6,
            },
        };
        config.step = [2, 2];
    });
    let slab = Method::Ours("spike-slab", |config| config.step = [2, 2]);
    let mut cells = Vec::new();
    for &file in files {
        for damage in [Damage::noise(25.0), Damage::holes(0.2)] {
            for method in [&slab, &laplace] {
                cells.push(Cell::new(GREY, file, damage, method.clone()));
            }
        }
    }
    let note = "Every second patch in both directions for both priors: all scores of the lasso are at work, so its sweeps are slow.";
    report(context, "restored", cells, &[note])
}

fn with_spikes(config: &mut ImageConfig) {
    config.model.spikes = Some(SpikePrior::default());
}

fn with_locations(config: &mut ImageConfig) {
    config.model.usage = UsagePrior::Dependent {
        prior: DependentPrior::default(),
    };
}

pub(super) fn spikes(context: &Context<'_>) -> Result<Report> {
    let (images, shares): (&[&str], &[f64]) = context.scale.pick(
        (&GREY_IMAGES[..1], &[0.05]),
        (&GREY_IMAGES[..1], &[0.02, 0.05, 0.1]),
        (&GREY_IMAGES, &[0.05, 0.02, 0.1]),
    );
    let ours = Method::Ours("spikes", with_spikes);
    let mut cells = Vec::new();
    for &spikes in shares {
        for &image in images {
            let damage = Damage {
                spikes,
                ..Damage::noise(10.0)
            };
            let methods = [
                ours.clone(),
                Method::DEFAULT,
                Method::MedianThenMeans,
                Method::Median,
            ];
            cells.extend(methods.map(|method| Cell::new(GREY, image, damage, method)));
        }
    }
    let note = "npb:bpfa/spikes has one spike per pixel, npb:bpfa has none.";
    report(context, "restored", cells, &[note])
}

pub(super) fn dhbp(context: &Context<'_>) -> Result<Report> {
    let images: &[&str] = context.scale.smoke_or(&GREY_IMAGES[..1], &GREY_IMAGES);
    let dependent = Method::Ours("dhbp", with_locations);
    let both = Method::Ours("dhbp-spikes", |config| {
        with_spikes(config);
        with_locations(config);
    });
    let mut cells = Vec::new();
    for &image in images {
        for method in [&dependent, &Method::DEFAULT] {
            cells.push(Cell::new(GREY, image, Damage::holes(0.2), method.clone()));
        }
    }
    let damage = Damage {
        spikes: 0.05,
        ..Damage::noise(10.0)
    };
    for method in [both, Method::Ours("spikes", with_spikes)] {
        cells.push(Cell::new(GREY, HOUSE, damage, method));
    }
    let note = "Both usages see the same pixels, the same start and the same seed.";
    report(context, "restored", cells, &[note])
}
