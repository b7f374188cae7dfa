//! `npb denoise` and `inpaint`.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb};
use npb_bpfa::{ImageConfig, Restored, restore_watched};
use npb_data::{Image, Mask, write_npy};

use crate::args::{DenoiseArgs, ImageArgs, InpaintArgs, ModelKind, Run};
use crate::failure::{Failure, Result};
use crate::input::{self, note};
use crate::job::Job;
use crate::output;

/// An image of a file, with what is needed to write one like it.
struct Picture {
    pixels: Image,
    /// Largest value of a channel: 255 or 65535.
    largest: f32,
}

pub(crate) fn denoise(args: &DenoiseArgs, quiet: bool) -> Result<()> {
    let picture = picture(&args.image, quiet)?;
    restored(&args.image, &picture, &picture.pixels, &args.how, quiet)
}

pub(crate) fn inpaint(args: &InpaintArgs, quiet: bool) -> Result<()> {
    let picture = picture(&args.image, quiet)?;
    let mask = decoded(&args.mask)?.to_luma16();
    let (height, width) = (picture.pixels.height(), picture.pixels.width());
    if (mask.height() as usize, mask.width() as usize) != (height, width) {
        return Err(Failure::bad_data(format_args!(
            "{}: is {} x {} pixels, {} has {width} x {height}",
            args.mask.display(),
            mask.width(),
            mask.height(),
            args.image.display()
        )));
    }
    let is_hole = |row: usize, column: usize| mask.get_pixel(column as u32, row as u32).0[0] > 0;
    let holes = Mask::from_fn(height, width, is_hole).map_err(Failure::failed)?;
    let image = picture.pixels.hide(&holes).map_err(Failure::failed)?;
    restored(&args.image, &picture, &image, &args.how, quiet)
}

fn restored(
    file: &Path,
    picture: &Picture,
    image: &Image,
    how: &ImageArgs,
    quiet: bool,
) -> Result<()> {
    let format = ImageFormat::from_path(&how.out)
        .ok()
        .filter(|format| matches!(format, ImageFormat::Png | ImageFormat::Tiff))
        .ok_or_else(|| {
            Failure::usage(format_args!("{}: call it .png or .tiff", how.out.display()))
        })?;
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
    output::bytes(&encoded(&restored, picture, format)?, Some(&how.out))?;
    if let Some(path) = &how.sd {
        let mut npy = Vec::new();
        write_npy(&mut npy, &image.size(), restored.sd().iter().copied())
            .map_err(Failure::failed)?;
        output::bytes(&npy, Some(path))?;
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
    job.done(&what, true, &crate::keep::beside(job.checkpoint()))
}

fn decoded(path: &Path) -> Result<DynamicImage> {
    let bytes = input::bytes(path)?;
    image::load_from_memory(&bytes).map_err(|e| {
        Failure::bad_data(format_args!(
            "{}: {e}; PNG and TIFF are read",
            path.display()
        ))
    })
}

fn picture(path: &Path, quiet: bool) -> Result<Picture> {
    let decoded = decoded(path)?;
    let size = [decoded.height() as usize, decoded.width() as usize];
    let colour = decoded.color();
    if colour.has_alpha() {
        note(
            quiet,
            format_args!("{}: the alpha channel is left out", path.display()),
        );
    }
    let deep = colour.bytes_per_pixel() / colour.channel_count() > 1;
    let (channels, values): (usize, Vec<f32>) = match (colour.has_color(), deep) {
        (false, false) => (
            1,
            decoded
                .to_luma8()
                .into_raw()
                .into_iter()
                .map(f32::from)
                .collect(),
        ),
        (false, true) => (
            1,
            decoded
                .to_luma16()
                .into_raw()
                .into_iter()
                .map(f32::from)
                .collect(),
        ),
        (true, false) => (
            3,
            decoded
                .to_rgb8()
                .into_raw()
                .into_iter()
                .map(f32::from)
                .collect(),
        ),
        (true, true) => (
            3,
            decoded
                .to_rgb16()
                .into_raw()
                .into_iter()
                .map(f32::from)
                .collect(),
        ),
    };
    let pixels = Image::new(size[0], size[1], channels, values)
        .map_err(|e| Failure::bad_data(format_args!("{}: {e}", path.display())))?;
    Ok(Picture {
        pixels,
        largest: if deep { 65_535.0 } else { 255.0 },
    })
}

/// An image like the one that was read: as many channels and bits.
fn encoded(restored: &Restored, picture: &Picture, format: ImageFormat) -> Result<Vec<u8>> {
    let image = restored.image().map_err(Failure::failed)?;
    let (width, height) = (image.width() as u32, image.height() as u32);
    let within = |v: &f32| v.round().clamp(0.0, picture.largest);
    let bytes = || {
        image
            .values()
            .iter()
            .map(|v| within(v) as u8)
            .collect::<Vec<_>>()
    };
    let words = || {
        image
            .values()
            .iter()
            .map(|v| within(v) as u16)
            .collect::<Vec<_>>()
    };
    let written = match (image.channels(), picture.largest > 255.0) {
        (1, false) => {
            ImageBuffer::<Luma<u8>, _>::from_raw(width, height, bytes()).map(DynamicImage::from)
        }
        (1, true) => {
            ImageBuffer::<Luma<u16>, _>::from_raw(width, height, words()).map(DynamicImage::from)
        }
        (_, false) => {
            ImageBuffer::<Rgb<u8>, _>::from_raw(width, height, bytes()).map(DynamicImage::from)
        }
        (_, true) => {
            ImageBuffer::<Rgb<u16>, _>::from_raw(width, height, words()).map(DynamicImage::from)
        }
    };
    let written = written.ok_or_else(|| Failure::failed("the restored image has another size"))?;
    let mut file = Cursor::new(Vec::new());
    written
        .write_to(&mut file, format)
        .map_err(Failure::failed)?;
    Ok(file.into_inner())
}
