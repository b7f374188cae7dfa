//! `npb denoise` and `inpaint`.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, LumaA, Pixel, Rgb, Rgba};
use npb_bpfa::{ImageConfig, Role, restore_watched};
use npb_data::{Image, Mask, write_npy};

use crate::args::{DenoiseArgs, ImageArgs, InpaintArgs, ModelKind, Run};
use crate::failure::{Failure, Result};
use crate::input::{self, note};
use crate::job::Job;
use crate::output;
use crate::verbs::float_tiff::{self, Floats};

/// What a file keeps of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Byte,
    Word,
    Float,
}

impl Depth {
    /// Alpha of an opaque pixel.
    fn opaque(self) -> f32 {
        match self {
            Depth::Byte => 255.0,
            Depth::Word => 65_535.0,
            Depth::Float => 1.0,
        }
    }
}

/// An image of a file, with what is needed to write one like it.
struct Picture {
    /// Transparent pixels are holes.
    pixels: Image,
    /// Of each pixel; empty without.
    alpha: Vec<f32>,
    depth: Depth,
}

pub(crate) fn denoise(args: &DenoiseArgs, quiet: bool) -> Result<()> {
    let picture = picture(&args.image, quiet)?;
    picture.check_format(&args.how)?;
    restored(&args.image, &picture.pixels, &args.how, quiet, |found| {
        let alpha = picture.alpha.clone();
        written(&args.how, &picture, found.values(), alpha)
    })
}

pub(crate) fn inpaint(args: &InpaintArgs, quiet: bool) -> Result<()> {
    let picture = picture(&args.image, quiet)?;
    picture.check_format(&args.how)?;
    let image = match &args.mask {
        Some(mask) => masked(&picture.pixels, args, mask, quiet)?,
        None => picture.pixels.clone(),
    };
    if image.n_missing() == 0 {
        return Err(Failure::usage(format_args!(
            "{} has no hole: make holes transparent, or mark them in an image of the same size with --mask",
            args.image.display()
        )));
    }
    let line = image.width() * image.channels();
    let known = |at: usize| !args.denoise && image.observed().get(at / line, at % line);
    restored(&args.image, &image, &args.how, quiet, |found| {
        let value = |(at, &filled): (usize, &f32)| match known(at) {
            true => image.values()[at],
            false => filled,
        };
        let values: Vec<f32> = found.values().iter().enumerate().map(value).collect();
        // What was transparent is there now.
        let alpha = picture.alpha.iter();
        let alpha = alpha.map(|&a| if a > 0.0 { a } else { picture.depth.opaque() });
        written(&args.how, &picture, &values, alpha.collect())
    })
}

impl Picture {
    /// Whether a file of the name to write can hold its values.
    fn check_format(&self, how: &ImageArgs) -> Result<()> {
        let format = format_of(&how.out)?;
        if self.depth == Depth::Float && format != ImageFormat::Tiff {
            let out = how.out.display();
            return Err(Failure::usage(format_args!(
                "{out}: the values are floating-point numbers, which a PNG does not hold: call it .tiff"
            )));
        }
        Ok(())
    }
}

/// The image without the pixels that a mask calls holes.
fn masked(image: &Image, args: &InpaintArgs, file: &Path, quiet: bool) -> Result<Image> {
    let mask = decoded(file, &input::bytes(file)?)?;
    let (height, width) = (image.height(), image.width());
    if (mask.height() as usize, mask.width() as usize) != (height, width) {
        return Err(Failure::bad_data(format_args!(
            "{}: is {} x {} pixels, {} has {width} x {height}",
            file.display(),
            mask.width(),
            mask.height(),
            args.image.display()
        )));
    }
    let (holes, drawn_by) = holes(&mask);
    if let Some(part) = drawn_by {
        let n = holes.iter().filter(|hole| **hole).count();
        note(
            quiet,
            format_args!(
                "{}: its {n} {part} pixels are the holes; a mask without transparency would be black but for them",
                file.display()
            ),
        );
    }
    let holes = Mask::from_fn(height, width, |row, column| holes[row * width + column]);
    image
        .hide(&holes.map_err(Failure::failed)?)
        .map_err(Failure::failed)
}

/// Which pixels of a mask are holes, and which part that is where transparency draws it. What is not black is a hole. With transparent and other pixels: of a
/// drawing in one colour the smaller part; of a picture what is transparent.
fn holes(mask: &DynamicImage) -> (Vec<bool>, Option<&'static str>) {
    let pixels = mask.to_luma_alpha16();
    let pixels: Vec<[u16; 2]> = pixels.pixels().map(|pixel| pixel.0).collect();
    let transparent = pixels.iter().filter(|pixel| pixel[1] == 0).count();
    let colours: BTreeSet<u16> = pixels.iter().filter(|p| p[1] > 0).map(|p| p[0]).collect();
    let black_and_white = colours.len() == 2 && colours.contains(&0);
    if transparent == 0 || colours.is_empty() || black_and_white {
        let lit = |pixel: &[u16; 2]| pixel[0] > 0 && pixel[1] > 0;
        return (pixels.iter().map(lit).collect(), None);
    }
    if colours.len() == 1 && 2 * transparent > pixels.len() {
        return (pixels.iter().map(|p| p[1] > 0).collect(), Some("opaque"));
    }
    (
        pixels.iter().map(|p| p[1] == 0).collect(),
        Some("transparent"),
    )
}

fn restored(
    file: &Path,
    image: &Image,
    how: &ImageArgs,
    quiet: bool,
    write: impl FnOnce(&Image) -> Result<()>,
) -> Result<()> {
    format_of(&how.out)?;
    if let Some(sd) = &how.sd {
        output::check_folder(sd)?;
    }
    let run = Run {
        out: how.out.clone(),
        checkpoint: how.checkpoint.clone(),
        every: how.every.clone(),
        require_converged: false,
        record: None,
        progress: how.progress,
    };
    let job = Job::new(&run, quiet)?;
    let config: ImageConfig = how
        .settings
        .read_on(&ImageConfig::suited_to(image), ModelKind::Image)?;
    config.validate().map_err(Failure::usage)?;
    job.listen()?;
    let restored = restore_watched(image, &config, &job.watch());
    job.finished()?;
    let restored =
        restored.map_err(|e| Failure::bad_data(format_args!("{}: {e}", file.display())))?;
    for (channel, role) in restored.roles().iter().enumerate() {
        let says = match role {
            Role::Modelled => continue,
            Role::Constant { value } => format!("{value} everywhere: given back as it is"),
            Role::CopyOf { column, .. } => {
                format!("channel {} over again: restored as one", column + 1)
            }
        };
        let name = file.display();
        note(
            quiet,
            format_args!("{name}: channel {} is {says}", channel + 1),
        );
    }
    let noise: Vec<String> = restored
        .noise_sd
        .iter()
        .map(|sd| format!("{sd:.2}"))
        .collect();
    let what = format!(
        "{} x {} pixels, noise sd {}",
        image.width(),
        image.height(),
        noise.join(", ")
    );
    write(&restored.image().map_err(Failure::failed)?)?;
    if let Some(path) = &how.sd {
        let mut npy = Vec::new();
        write_npy(&mut npy, &image.size(), restored.sd().iter().copied())
            .map_err(Failure::failed)?;
        output::bytes(&npy, Some(path))?;
    }
    job.done(&what, &[], &crate::keep::beside(job.checkpoint()))
}

fn format_of(out: &Path) -> Result<ImageFormat> {
    ImageFormat::from_path(out)
        .ok()
        .filter(|format| matches!(format, ImageFormat::Png | ImageFormat::Tiff))
        .ok_or_else(|| Failure::usage(format_args!("{}: call it .png or .tiff", out.display())))
}

fn decoded(path: &Path, bytes: &[u8]) -> Result<DynamicImage> {
    image::load_from_memory(bytes).map_err(|e| {
        Failure::bad_data(format_args!(
            "{}: {e}; PNG and TIFF (without a palette) are read",
            path.display()
        ))
    })
}

fn picture(path: &Path, quiet: bool) -> Result<Picture> {
    let bytes = input::bytes(path)?;
    if let Some(floats) = float_tiff::read(&bytes) {
        let picture = floats.and_then(of_floats);
        return picture.map_err(|e| Failure::bad_data(format_args!("{}: {e}", path.display())));
    }
    let decoded = decoded(path, &bytes)?;
    let [height, width] = [decoded.height() as usize, decoded.width() as usize];
    let colour = decoded.color();
    let deep = colour.bytes_per_pixel() / colour.channel_count() > 1;
    let bytes = |raw: Vec<u8>| raw.into_iter().map(f32::from).collect();
    let words = |raw: Vec<u16>| raw.into_iter().map(f32::from).collect();
    // With alpha, opaque where there is none.
    let (channels, all): (usize, Vec<f32>) = match (colour.has_color(), deep) {
        (false, false) => (1, bytes(decoded.to_luma_alpha8().into_raw())),
        (false, true) => (1, words(decoded.to_luma_alpha16().into_raw())),
        (true, false) => (3, bytes(decoded.to_rgba8().into_raw())),
        (true, true) => (3, words(decoded.to_rgba16().into_raw())),
    };
    let pixels = all.chunks_exact(channels + 1);
    let alpha: Vec<f32> = pixels.clone().map(|pixel| pixel[channels]).collect();
    let values = pixels.flat_map(|pixel| &pixel[..channels]).copied();
    let image = Image::new(height, width, channels, values.collect());
    let transparent = Mask::from_fn(height, width, |i, j| alpha[i * width + j] == 0.0);
    let hidden = image.and_then(|image| image.hide(&transparent?));
    let pixels = hidden.map_err(|e| Failure::bad_data(format_args!("{}: {e}", path.display())))?;
    let holes = alpha.iter().filter(|a| **a == 0.0).count();
    if holes > 0 {
        let name = path.display();
        note(
            quiet,
            format_args!(
                "{name}: {holes} transparent pixels are holes; alpha is left alone elsewhere"
            ),
        );
    }
    Ok(Picture {
        pixels,
        alpha: if colour.has_alpha() {
            alpha
        } else {
            Vec::new()
        },
        depth: if deep { Depth::Word } else { Depth::Byte },
    })
}

/// The picture of floating-point numbers: NaN and transparent pixels are holes.
fn of_floats(floats: Floats) -> std::result::Result<Picture, String> {
    let Floats {
        size: [height, width, all],
        alpha: has_alpha,
        values,
    } = floats;
    let channels = all - usize::from(has_alpha);
    let pixels = values.chunks_exact(all);
    let alpha: Vec<f32> = match has_alpha {
        true => pixels.clone().map(|pixel| pixel[channels]).collect(),
        false => Vec::new(),
    };
    let values: Vec<f32> = pixels
        .flat_map(|pixel| &pixel[..channels])
        .copied()
        .collect();
    let image = Image::from_nan_coded(height, width, channels, &values);
    let transparent = Mask::from_fn(height, width, |i, j| {
        alpha.get(i * width + j).is_some_and(|&a| !(a > 0.0))
    });
    let hidden = image.and_then(|image| image.hide(&transparent?));
    Ok(Picture {
        pixels: hidden.map_err(|e| e.to_string())?,
        alpha,
        depth: Depth::Float,
    })
}

/// Writes an image like the one that was read, with these values and this alpha: as many channels and bits.
fn written(how: &ImageArgs, picture: &Picture, values: &[f32], alpha: Vec<f32>) -> Result<()> {
    let format = format_of(&how.out)?;
    let mut channels = picture.pixels.channels();
    let mut pixels: Vec<Vec<f32>> = values.chunks_exact(channels).map(<[f32]>::to_vec).collect();
    // TIFF has no grey with alpha here.
    if channels == 1 && !alpha.is_empty() && format == ImageFormat::Tiff {
        pixels
            .iter_mut()
            .for_each(|pixel| *pixel = vec![pixel[0]; 3]);
        channels = 3;
    }
    pixels
        .iter_mut()
        .zip(&alpha)
        .for_each(|(pixel, &a)| pixel.push(a));
    channels += usize::from(!alpha.is_empty());
    let within = |v: f32| v.round().clamp(0.0, picture.depth.opaque());
    let all = || pixels.iter().flatten().copied();
    let bytes = || all().map(|v| within(v) as u8).collect();
    let words = || all().map(|v| within(v) as u16).collect();
    let size = (
        picture.pixels.width() as u32,
        picture.pixels.height() as u32,
    );
    if picture.depth == Depth::Float {
        let values: Vec<f32> = all().collect();
        let file = float_tiff::written(size, channels, &values).map_err(Failure::failed)?;
        return output::bytes(&file, Some(&how.out));
    }
    let image = match (channels, picture.depth == Depth::Word) {
        (1, false) => packed::<Luma<u8>>(size, bytes()),
        (2, false) => packed::<LumaA<u8>>(size, bytes()),
        (3, false) => packed::<Rgb<u8>>(size, bytes()),
        (_, false) => packed::<Rgba<u8>>(size, bytes()),
        (1, true) => packed::<Luma<u16>>(size, words()),
        (2, true) => packed::<LumaA<u16>>(size, words()),
        (3, true) => packed::<Rgb<u16>>(size, words()),
        (_, true) => packed::<Rgba<u16>>(size, words()),
    };
    let image = image.ok_or_else(|| Failure::failed("the restored image has another size"))?;
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, format).map_err(Failure::failed)?;
    output::bytes(&file.into_inner(), Some(&how.out))
}

fn packed<P: Pixel>((width, height): (u32, u32), values: Vec<P::Subpixel>) -> Option<DynamicImage>
where
    DynamicImage: From<ImageBuffer<P, Vec<P::Subpixel>>>,
{
    ImageBuffer::from_raw(width, height, values).map(DynamicImage::from)
}
