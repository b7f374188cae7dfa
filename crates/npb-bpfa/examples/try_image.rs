//! Scratch.
#![allow(missing_docs, clippy::all)]
use npb_bpfa::npb_data::{Image, Mask};
use npb_bpfa::npb_infer::stream;
use npb_bpfa::{ImageConfig, restore};
use rand::RngExt;
use rand_distr::StandardNormal;
fn ticks() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (path, kind, level, seed): (&str, &str, f64, u64) =
        (&a[1], &a[2], a[3].parse().unwrap(), a[4].parse().unwrap());
    let threads: usize = a[5].parse().unwrap();
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .unwrap();
    let size = path.rsplit('/').next().unwrap().split('.').nth(1).unwrap();
    let (h, w) = size.split_once('x').unwrap();
    let (h, w): (usize, usize) = (h.parse().unwrap(), w.parse().unwrap());
    let bytes = std::fs::read(path).unwrap();
    let v: Vec<f32> = bytes
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let truth = Image::new(h, w, 1, v).unwrap();
    let rng = &mut stream(seed, [0; 4]);
    let damaged = if kind == "noise" {
        truth
            .map(|v| v + level as f32 * rng.sample::<f32, _>(StandardNormal))
            .unwrap()
    } else {
        let hidden: Vec<bool> = (0..h * w).map(|_| rng.random::<f64>() < level).collect();
        truth
            .hide(&Mask::from_fn(h, w, |r, c| hidden[r * w + c]).unwrap())
            .unwrap()
    };
    let mut config = ImageConfig::suited_to(&damaged);
    config.model.seed = seed;
    for s in &a[6..] {
        let (k, v) = s.split_once('=').unwrap();
        match k {
            "burn" => config.model.sweeps.burn_in = v.parse().unwrap(),
            "keep" => config.model.sweeps.keep = v.parse().unwrap(),
            "hold" => config.model.hold_dictionary = v.parse().unwrap(),
            "collapsed" => config.model.collapsed_atoms = v.parse().unwrap(),
            "atoms" => config.model.atoms = v.parse().unwrap(),
            "sample" => config.sample = v.parse().unwrap(),
            _ => panic!(),
        }
    }
    let t = ticks();
    let c = std::time::Instant::now();
    let r = restore(&damaged, &config).unwrap();
    let sec = ticks() - t;
    let clock = c.elapsed().as_secs_f64();
    let im = r.image().unwrap();
    let n = (h * w) as f64;
    let sq: f64 = im
        .values()
        .iter()
        .zip(truth.values())
        .map(|(a, b)| f64::from(a - b).powi(2))
        .sum();
    let iv = r.interval(0.9).unwrap();
    let inside = iv
        .iter()
        .zip(truth.values())
        .filter(|(i, t)| i.lower <= f64::from(**t) && f64::from(**t) <= i.upper)
        .count() as f64
        / n;
    let used = r.usage.iter().filter(|u| **u * n > 1.0).count();
    let trace = &r.traces[0];
    println!(
        "{} {kind} {level} seed {seed} threads {threads} {:?} | psnr {:.3} cover {inside:.3} noise {:.2} sec {sec:.2} clock {clock:.2} used {used} active/row {:.2}",
        path.rsplit('/').next().unwrap(),
        &a[6..],
        10.0 * (65025.0 * n / sq).log10(),
        r.noise_sd[0],
        trace.row(trace.n_sweeps() - 1)[3]
    );
}
