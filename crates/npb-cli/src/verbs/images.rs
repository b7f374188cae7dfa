//! `npb denoise` and `inpaint`.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, LumaA, Pixel, Rgb, Rgba};
use npb_bpfa::{ImageConfig, Role, restore_watched};
use npb_data::{Image, Mask, write_npy};
use npb_pages::Context;
use tiff::TiffError;
use tiff::encoder::{TiffEncoder, colortype};

use crate::args::{DenoiseArgs, ImageArgs, InpaintArgs, ModelKind, Run};
use crate::failure::{Failure, Result, in_file};
use crate::input::{self, name_of, note_of};
use crate::job::Job;
use crate::output;
use crate::picture::{self, Depth, Picture};

pub(crate) fn denoise(args: &DenoiseArgs, quiet: bool) -> Result<()> {
    let picture = read(&args.image, quiet)?;
    check_format(&picture, &args.how)?;
    restored(&args.image, &picture.pixels, &args.how, quiet, |found| {
        let alpha = picture.alpha.clone();
        written(&args.how, &picture, found.values(), alpha)
    })
}

pub(crate) fn inpaint(args: &InpaintArgs, quiet: bool) -> Result<()> {
    let picture = read(&args.image, quiet)?;
    check_format(&picture, &args.how)?;
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

/// Whether a file of the name to write can hold the values of a picture.
fn check_format(picture: &Picture, how: &ImageArgs) -> Result<()> {
    let format = format_of(&how.out)?;
    if picture.depth == Depth::Float && format != ImageFormat::Tiff {
        let out = how.out.display();
        return Err(Failure::usage(format_args!(
            "{out}: the values are floating-point numbers, which a PNG does not hold: call it .tiff"
        )));
    }
    Ok(())
}

/// The image without the pixels that a mask calls holes.
fn masked(image: &Image, args: &InpaintArgs, file: &Path, quiet: bool) -> Result<Image> {
    let mask = picture::decoded(&input::bytes(file)?).map_err(in_file(file))?;
    let (height, width) = (image.height(), image.width());
    if (mask.height() as usize, mask.width() as usize) != (height, width) {
        return Err(in_file(file)(format_args!(
            "is {} x {} pixels, {} has {width} x {height}",
            mask.width(),
            mask.height(),
            args.image.display()
        )));
    }
    let (holes, drawn_by) = holes(&mask);
    if let Some(part) = drawn_by {
        let n = holes.iter().filter(|hole| **hole).count();
        let text = format_args!(
            "its {n} {part} pixels are the holes; a mask without transparency would be black but for them"
        );
        note_of(quiet, file, text);
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
    for beside in [&how.sd, &how.report].into_iter().flatten() {
        output::check_folder(beside)?;
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
    let suited = ImageConfig::suited_to(image);
    let config: ImageConfig = how.settings.read_on(&suited, ModelKind::Image)?;
    config.validate().map_err(Failure::usage)?;
    job.listen()?;
    let restored = restore_watched(image, &config, &job.watch());
    job.finished()?;
    let restored = restored.map_err(in_file(file))?;
    say_roles(restored.roles(), file, quiet);
    write(&restored.image().map_err(Failure::failed)?)?;
    if let Some(path) = &how.sd {
        let (mut npy, sd) = (Vec::new(), restored.sd().iter().copied());
        write_npy(&mut npy, &image.size(), sd).map_err(Failure::failed)?;
        output::bytes(&npy, Some(path))?;
    }
    if let Some(path) = &how.report {
        let context = Context {
            kind: "image",
            name: name_of(&how.out),
            file: Some(name_of(file)),
            ..Context::default()
        };
        let page = npb_pages::image::page(image, &restored, &context).map_err(in_file(file))?;
        output::bytes(page.html().as_bytes(), Some(path))?;
    }
    let noise = restored.noise_sd.iter().map(|sd| format!("{sd:.2}"));
    let what = format!(
        "{} x {} pixels, noise sd {}",
        image.width(),
        image.height(),
        noise.collect::<Vec<_>>().join(", ")
    );
    job.done(&what, &[], &crate::keep::beside(job.checkpoint()))
}

/// Says which channels are not modelled by themselves.
fn say_roles(roles: &[Role], file: &Path, quiet: bool) {
    for (role, channel) in roles.iter().zip(1..) {
        let says = match role {
            Role::Modelled => continue,
            Role::Constant { value } => format!("{value} everywhere: given back as it is"),
            Role::CopyOf { column, .. } => {
                format!("channel {} over again: restored as one", column + 1)
            }
        };
        note_of(quiet, file, format_args!("channel {channel} is {says}"));
    }
}

fn format_of(out: &Path) -> Result<ImageFormat> {
    ImageFormat::from_path(out)
        .ok()
        .filter(|format| matches!(format, ImageFormat::Png | ImageFormat::Tiff))
        .ok_or_else(|| Failure::usage(format_args!("{}: call it .png or .tiff", out.display())))
}

fn read(path: &Path, quiet: bool) -> Result<Picture> {
    let bytes = input::bytes(path)?;
    let picture = Picture::read(&bytes).map_err(in_file(path))?;
    if picture.transparent > 0 {
        let n = picture.transparent;
        let text = "transparent pixels are holes; alpha is left alone elsewhere";
        note_of(quiet, path, format_args!("{n} {text}"));
    }
    Ok(picture)
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
        let file = float_tiff(size, channels, &values).map_err(Failure::failed)?;
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

/// The bytes of a TIFF file of floating-point numbers in 1, 3 or 4 channels.
fn float_tiff(
    (width, height): (u32, u32),
    channels: usize,
    values: &[f32],
) -> std::result::Result<Vec<u8>, TiffError> {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file)?;
    match channels {
        1 => encoder.write_image::<colortype::Gray32Float>(width, height, values)?,
        3 => encoder.write_image::<colortype::RGB32Float>(width, height, values)?,
        _ => encoder.write_image::<colortype::RGBA32Float>(width, height, values)?,
    }
    Ok(file.into_inner())
}
