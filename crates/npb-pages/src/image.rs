//! Images with noise or holes.

use npb_bpfa::{ImageConfig, Restored, Role};
use npb_data::Image;
use npb_infer::{Stop, Trace};
use npb_report::{Layer, Panel, Picture, Point, TextTable, colours, images, picture};

use crate::bins::{Kind, histogram, largest};
use crate::page::Section;
use crate::png::png;
use crate::shared::{isolated, number, percent};
use crate::{Context, Page, Result, scalars, shared};

/// Pixels of the longer side of what is shown: of larger images each so many-th.
const LONGEST: usize = 300;
/// Atoms that are shown, and those in a line.
const MOST_ATOMS: usize = 64;
const IN_LINE: usize = 8;
/// Values of a histogram, at most.
const MOST_VALUES: usize = 100_000;

/// The page of a restored image.
///
/// # Errors
/// An image of another size than the restored one.
pub fn page(before: &Image, restored: &Restored, context: &Context<'_>) -> Result<Page> {
    let mut page = Page::new(format!("{}: {}", context.name, context.kind));
    page.push(went_in(before, restored, context));
    page.push(image(before, restored)?);
    page.push(channels(before, restored));
    let traces: Vec<&Trace> = restored.traces.iter().collect();
    let mut settled = scalars::chains(&traces, &restored.config.model.sweeps, &["noise_sd"])?;
    if restored.stop() == Stop::Cancelled {
        settled.warn("The run was stopped before its last sweep.");
    }
    settled.say("Traces are of the image as the model sees it, on a scale of its own.");
    page.push(settled);
    page.push(dictionary(restored)?);
    let usual = ImageConfig::suited_to(before);
    page.push(shared::settings(&restored.config, &usual)?);
    Ok(page)
}

/// A shade from 0 to 1 of a place and channel.
type Shade<'a> = &'a dyn Fn(usize, usize, usize) -> Option<f64>;

/// Shades by place and channel; what has none is black.
struct Shades<'a> {
    size: [usize; 3],
    of: Shade<'a>,
}

impl Shades<'_> {
    /// The channels that are shown: all of one or three, else three that are apart.
    fn bands(&self) -> Vec<usize> {
        match self.size[2] {
            1 => vec![0],
            2 | 3 => vec![0, 1, self.size[2] - 1],
            n => vec![n / 6, n / 2, 5 * n / 6],
        }
    }

    fn picture(&self, title: &str) -> Result<Picture> {
        let [height, width, _] = self.size;
        let step = height.max(width).div_ceil(LONGEST).max(1);
        let bands = self.bands();
        let mut pixels = Vec::new();
        for row in (0..height).step_by(step) {
            for column in (0..width).step_by(step) {
                let shade = |&band: &usize| {
                    let shade = (self.of)(row, column, band).unwrap_or(0.0);
                    (255.0 * shade.clamp(0.0, 1.0)).round() as u8
                };
                pixels.extend(bands.iter().map(shade));
            }
        }
        let size = [height.div_ceil(step), width.div_ceil(step), bands.len()];
        Ok(Picture {
            title: title.to_owned(),
            png: png(size, &pixels)?,
            size,
            number: None,
        })
    }
}

/// The largest and smallest of some numbers, apart from each other.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|v| v.is_finite());
    let widest = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = finite.fold(widest, |(l, h), v| (l.min(v), h.max(v)));
    match low.is_finite() {
        true if low < high => (low, high),
        true => (low, low + 1.0),
        false => (0.0, 1.0),
    }
}

fn went_in(before: &Image, restored: &Restored, context: &Context<'_>) -> Section {
    let mut section = Section::new("What went in");
    let [height, width, channels] = before.size();
    let of = context
        .file
        .iter()
        .map(|file| format!(" of {}", isolated(file)));
    let noise: Vec<String> = restored.noise_sd.iter().map(|&sd| number(sd)).collect();
    section.say(format!(
        "An image{}: {width} x {height} pixels, {channels} channel{}; {} of its values are missing, and its noise was found to have standard deviation {}.",
        of.collect::<String>(),
        if channels == 1 { "" } else { "s" },
        percent(before.n_missing() as f64 / before.values().len() as f64),
        noise.join(", ")
    ));
    section
}

/// Before, after, what was taken out, and how sure it is.
fn image(before: &Image, restored: &Restored) -> Result<Section> {
    let mut section = Section::new("The image");
    let after = restored.image()?;
    let size = before.size();
    let [height, width, n_channels] = size;
    if after.size() != size {
        return Err(format!("the image is {size:?}, the restored one {:?}", after.size()).into());
    }
    let at = |r: usize, c: usize, k: usize| (r * width + c) * n_channels + k;
    let observed = |image: &Image, r, c, k| image.get(r, c, k).map(f64::from);
    let all = || {
        (0..height * width * n_channels).map(move |n| {
            (
                n / n_channels / width,
                n / n_channels % width,
                n % n_channels,
            )
        })
    };
    let values = all().filter_map(|(r, c, k)| observed(before, r, c, k));
    let (low, high) = ends(values);
    let unit = |value: f64| (value - low) / (high - low);
    let noise = restored
        .noise_sd
        .iter()
        .copied()
        .fold(0.0, f64::max)
        .max(1e-9 * (high - low));
    let sd = |r, c, k| Some(f64::from(restored.sd()[at(r, c, k)])).filter(|sd| sd.is_finite());
    let (_, most) = ends(all().filter_map(|(r, c, k)| sd(r, c, k)).chain([0.0]));
    let taken = |r, c, k| Some(observed(before, r, c, k)? - observed(&after, r, c, k)?);
    let shades: [(&str, Shade<'_>); 4] = [
        ("before (holes black)", &|r, c, k| {
            observed(before, r, c, k).map(unit)
        }),
        ("after", &|r, c, k| observed(&after, r, c, k).map(unit)),
        ("taken out (grey: nothing)", &|r, c, k| {
            Some(taken(r, c, k).map_or(0.5, |d| 0.5 + d / (6.0 * noise)))
        }),
        ("standard deviation (white: unsure)", &|r, c, k| {
            Some(sd(r, c, k)? / most)
        }),
    ];
    let shown = shades.map(|(title, of)| Shades { size, of }.picture(title));
    let shown: Vec<Picture> = shown.into_iter().collect::<Result<_>>()?;
    let step = height.max(width).div_ceil(LONGEST);
    let part = match step > 1 {
        true => format!(" (of {step} pixels in a line one is shown)"),
        false => String::new(),
    };
    let look = format!(
        "What was taken out should look like noise alone: shapes of the image in it say that detail was lost{part}."
    );
    section.draw(images("images", "Before and after", &look, &shown)?);
    let step = (height * width * n_channels).div_ceil(MOST_VALUES).max(1);
    let sds = |missing: bool| {
        let own = all()
            .step_by(step)
            .filter(|&(r, c, k)| before.get(r, c, k).is_none() == missing);
        own.filter_map(|(r, c, k)| sd(r, c, k))
            .collect::<Vec<f64>>()
    };
    let (seen, filled) = (sds(false), sds(true));
    let mut kinds = vec![Kind {
        name: "measured",
        colour: colours::BLUE,
        values: &seen,
    }];
    if !filled.is_empty() {
        kinds.push(Kind {
            name: "missing",
            colour: colours::VERMILLION,
            values: &filled,
        });
    }
    let look = "Values at the right are guesses; those that were missing should be less sure than those that were measured.";
    let words = ["sd", "How unsure the restored values are", look];
    section.draw_any(histogram(words, "standard deviation", &kinds)?);
    Ok(section)
}

/// Noise and part of each channel.
fn channels(before: &Image, restored: &Restored) -> Section {
    let mut section = Section::new("Noise");
    for &channel in restored.unknown_channels() {
        section.warn(format!(
            "Nothing of channel {} was observed: nothing is said of it.",
            channel + 1
        ));
    }
    let n = before.channels();
    let row = |(channel, role): (usize, &Role)| {
        let part = match role {
            Role::Modelled => "modelled".to_owned(),
            Role::Constant { value } => format!("{} everywhere", number(*value)),
            Role::CopyOf { column, .. } => format!("a copy of channel {}", column + 1),
        };
        let noise = restored.noise_sd.get(channel).or(restored.noise_sd.first());
        let cells = before.height() * before.width();
        let places = (0..cells).map(|p| (p / before.width(), p % before.width()));
        let holes = places
            .filter(|&(r, c)| before.get(r, c, channel).is_none())
            .count();
        vec![
            (channel + 1).to_string(),
            part,
            number(noise.copied()),
            percent(holes as f64 / cells as f64),
        ]
    };
    let roles = restored.roles().iter().enumerate().take(n);
    let header = ["channel", "part in the model", "noise sd", "missing"];
    section.tabulate(TextTable::new("Channels", &header, roles.map(row)));
    section
}

/// The atoms, the most used first, and how much each is used.
fn dictionary(restored: &Restored) -> Result<Section> {
    let mut section = Section::new("Dictionary");
    let used = restored.usage.iter().filter(|usage| **usage > 0.0).count();
    section.say(format!(
        "{used} of {} atoms are used; a patch uses {} on average.",
        restored.usage.len(),
        number(restored.usage.iter().sum::<f64>())
    ));
    let order = largest(&restored.usage, MOST_ATOMS.min(used));
    if order.is_empty() {
        return Ok(section);
    }
    let atoms: Vec<Vec<f32>> = order.iter().map(|&k| restored.dictionary.atom(k)).collect();
    let [h, w] = restored.config.patch;
    let depth = restored.dictionary.n_columns() / (h * w);
    let largest_value = |atom: &Vec<f32>| atom.iter().fold(1e-12_f32, |m, x| m.max(x.abs()));
    let scales: Vec<f32> = atoms.iter().map(largest_value).collect();
    let shade = |row: usize, column: usize, band: usize| {
        let (line, r) = (row / (h + 1), row % (h + 1));
        let (place, c) = (column / (w + 1), column % (w + 1));
        let k = line * IN_LINE + place;
        // A line between atoms, and what is left of the last line.
        if r == h || c == w || k >= atoms.len() {
            return Some(1.0);
        }
        let value = atoms[k][(r * w + c) * depth + band] / scales[k];
        Some(0.5 + 0.5 * f64::from(value))
    };
    let across = IN_LINE.min(atoms.len());
    let down = atoms.len().div_ceil(IN_LINE);
    let channels = if depth == 3 { 3 } else { 1 };
    let mosaic = Shades {
        size: [down * (h + 1), across * (w + 1), channels],
        of: &shade,
    };
    let look = "The most used atoms, each on its own scale with 0 grey: edges and textures of the image; atoms that look like noise say that it was learned, too.";
    let shown = mosaic.picture("atoms")?;
    section.draw(images("atoms", "The dictionary", look, &[shown])?);
    let points = largest(&restored.usage, used).into_iter().enumerate();
    let points = points.map(|(rank, k)| Point::at((rank + 1) as f64, restored.usage[k]));
    let layer = Layer {
        colour: Some(colours::BLUE),
        ..Layer::line("atoms", points)
    };
    let panel = Panel::of_lines("", ["atom, by use", "share of the patches"], [layer]);
    let look = "Where the curve comes to the ground: atoms beyond are hardly used, so that fewer would do; if it ends high, allow more (model.atoms).";
    section.draw(picture("usage", "How much atoms are used", look, &[panel])?);
    Ok(section)
}
