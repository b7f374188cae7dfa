//! Pages of images.

use npb_bpfa::{ImageConfig, restore};
use npb_data::{Image, Mask};
use npb_infer::SweepPlan;
use npb_pages::{Context, image};

use crate::{HEBREW, QUOTES, SCRIPT, assert_whole};

fn picture(channels: usize) -> Image {
    let value = |k: usize| {
        let (row, column, channel) = (k / channels / 40, k / channels % 40, k % channels);
        let shape = if (row / 8 + column / 8) % 2 == 0 {
            60.0
        } else {
            180.0
        };
        let noise = ((k * 7919 + k * k * 31) % 101) as f64 / 5.0 - 10.0;
        shape + noise + 10.0 * channel as f64
    };
    let values: Vec<f64> = (0..32 * 40 * channels).map(value).collect();
    Image::from_slice(32, 40, channels, &values).unwrap()
}

fn short(image: &Image) -> ImageConfig {
    let mut config = ImageConfig::suited_to(image);
    config.model.atoms = 32;
    config.model.sweeps = SweepPlan {
        burn_in: 10,
        keep: 10,
        thin: 1,
    };
    config
}

#[test]
fn images_have_a_page_whose_numbers_are_those_of_the_run() {
    let whole = picture(1);
    let holes = Mask::from_fn(32, 40, |row, column| (row * 3 + column) % 5 == 0).unwrap();
    for (before, share) in [
        (whole.clone(), "0.0%"),
        (whole.hide(&holes).unwrap(), "20.0%"),
        (picture(3), "0.0%"),
    ] {
        let restored = restore(&before, &short(&before)).unwrap();
        let context = Context {
            kind: "image",
            name: SCRIPT.to_owned(),
            file: Some(format!("{QUOTES}{HEBREW}")),
            ..Context::default()
        };
        let page = image::page(&before, &restored, &context).unwrap();
        let html = assert_whole(&page);
        let noise = npb_report::short(restored.noise_sd[0]);
        let channels = ["1 channel;", "3 channels;"][before.channels() / 3];
        assert!(html.contains(&format!("40 x 32 pixels, {channels} {share} of its values are missing, and its noise was found to have standard deviation {noise}")));
        assert!(html.contains(&format!("<td class=\"n\">1</td><td>modelled</td><td class=\"n\">{noise}</td><td class=\"n\">{share}</td>")), "{noise}");
        let shown = page.figure("images").unwrap();
        let size = format!("32x40x{}", before.channels());
        assert_eq!(shown.rows.len(), 4);
        assert!(shown.rows.iter().all(|row| row[1] == size));
        let usage = &page.figure("usage").unwrap().rows;
        let found: Vec<f64> = usage.iter().map(|row| row[4].parse().unwrap()).collect();
        let mut used = restored.usage.clone();
        used.retain(|usage| *usage > 0.0);
        used.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(found, used);
    }
}

#[test]
fn another_image_is_refused() {
    let before = picture(1);
    let restored = restore(&before, &short(&before)).unwrap();
    let other = Image::from_slice(8, 8, 1, &[1.0_f64; 64]).unwrap();
    let found = image::page(&other, &restored, &Context::default());
    assert!(
        found
            .unwrap_err()
            .to_string()
            .starts_with("the image is [8, 8, 1]")
    );
}
