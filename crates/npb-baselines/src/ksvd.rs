//! Dictionary learning by K-SVD with orthogonal matching pursuit, for images whose noise is told.

use npb_data::{Image, PatchGrid};

use crate::BaselineError;
use crate::error::{at_least_one, complete_image, positive};

/// Settings of [`ksvd`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KsvdConfig {
    /// Noise standard deviation, in the units of an image from 0 to 255; it must be told.
    pub sigma: f64,
    /// Side of a patch.
    pub side: usize,
    /// Atoms.
    pub n_atoms: usize,
    /// Rounds of pursuit and update.
    pub iterations: usize,
    /// A patch is coded until its residual is this times sigma for each pixel.
    pub gain: f64,
}

impl KsvdConfig {
    /// The published settings: 8 x 8 patches, 256 atoms, 10 rounds, gain 1.15.
    pub fn told(sigma: f64) -> Self {
        Self {
            sigma,
            side: 8,
            n_atoms: 256,
            iterations: 10,
            gain: 1.15,
        }
    }
}

/// Denoises a grey image: a dictionary (at first of cosines) is learnt from all its overlapping patches less their means; each patch is coded by orthogonal
/// matching pursuit until what is left is noise; the image is the average of the coded patches and, with weight 30 / sigma, of itself.
///
/// Atoms are updated by one step of the power method for the leading singular vectors, and what a round leaves unused is replaced by the patch that is
/// coded worst. Source: Elad and Aharon, IEEE TIP 15(12), 2006; Rubinstein, Zibulevsky and Elad, Technion CS-2008-08 (pursuit on the Gram matrix).
/// Cost: rounds x patches x atoms x (patch + coefficients^2).
///
/// # Errors
/// [`BaselineError::Config`], [`BaselineError::MissingPixel`], a patch larger than the image.
pub fn ksvd(image: &Image, config: &KsvdConfig) -> Result<Image, BaselineError> {
    complete_image(image)?;
    positive("sigma", config.sigma)?;
    positive("gain", config.gain)?;
    at_least_one("n_atoms", config.n_atoms)?;
    let [height, width, channels] = image.size();
    if channels != 1 {
        return Err(BaselineError::Config {
            field: "channels",
            value: channels as f64,
            rule: "1 (grey images only)",
        });
    }
    let grid = PatchGrid::new(image.size(), [config.side, config.side, 1], [1, 1, 1])?;
    let length = grid.patch_len();
    let (patches, means) = centred(image, &grid);
    let goal = (config.gain * config.sigma).powi(2) * length as f64;
    let mut atoms = cosines(config.side, config.n_atoms);
    let mut codes = pursue(&patches, &atoms, length, goal);
    for _ in 0..config.iterations {
        update(&patches, &mut atoms, &mut codes, length);
        codes = pursue(&patches, &atoms, length, goal);
    }
    let own = 30.0 / config.sigma;
    let mut sums: Vec<f64> = image.values().iter().map(|&v| own * f64::from(v)).collect();
    let mut weights = vec![own; sums.len()];
    let mut coded = vec![0.0; length];
    for (patch, code) in codes.iter().enumerate() {
        coded.fill(means[patch]);
        for &(k, x) in code {
            add_scaled(&mut coded, x, &atoms[k * length..][..length]);
        }
        for (at, &value) in grid.entries(patch).zip(&coded) {
            sums[at] += value;
            weights[at] += 1.0;
        }
    }
    let out = sums.iter().zip(&weights).map(|(s, w)| (s / w) as f32);
    Ok(Image::new(height, width, 1, out.collect())?)
}

/// Coefficients of a patch: atom and value.
type Code = Vec<(usize, f64)>;

fn add_scaled(to: &mut [f64], a: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += a * x);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// All patches less their means, one after the other, and the means.
fn centred(image: &Image, grid: &PatchGrid) -> (Vec<f64>, Vec<f64>) {
    let length = grid.patch_len();
    let mut patches = Vec::with_capacity(grid.n_patches() * length);
    let mut means = Vec::with_capacity(grid.n_patches());
    let mut patch = vec![0.0_f32; length];
    for n in 0..grid.n_patches() {
        grid.read(image.values(), n, &mut patch);
        let mean = patch.iter().map(|&v| f64::from(v)).sum::<f64>() / length as f64;
        patches.extend(patch.iter().map(|&v| f64::from(v) - mean));
        means.push(mean);
    }
    (patches, means)
}

/// Products of cosines of more frequencies than pixels, of unit norm; all but the first without mean.
fn cosines(side: usize, n_atoms: usize) -> Vec<f64> {
    let frequencies = (n_atoms as f64).sqrt().ceil() as usize;
    let wave = |f: usize| -> Vec<f64> {
        let cosine = |t: usize| {
            (std::f64::consts::PI * (t as f64 + 0.5) * f as f64 / frequencies as f64).cos()
        };
        let wave: Vec<f64> = (0..side).map(cosine).collect();
        let mean = if f == 0 {
            0.0
        } else {
            wave.iter().sum::<f64>() / side as f64
        };
        wave.iter().map(|w| w - mean).collect()
    };
    let waves: Vec<Vec<f64>> = (0..frequencies).map(wave).collect();
    let mut atoms = Vec::with_capacity(n_atoms * side * side);
    for k in 0..n_atoms {
        let (down, across) = (&waves[k / frequencies], &waves[k % frequencies]);
        let atom: Vec<f64> = down
            .iter()
            .flat_map(|d| across.iter().map(move |a| d * a))
            .collect();
        let norm = dot(&atom, &atom).sqrt().max(f64::MIN_POSITIVE);
        atoms.extend(atom.iter().map(|a| a / norm));
    }
    atoms
}

/// Orthogonal matching pursuit of every patch until the squared residual is below the goal, or half as many atoms as pixels are in use.
fn pursue(patches: &[f64], atoms: &[f64], length: usize, goal: f64) -> Vec<Code> {
    let n_atoms = atoms.len() / length;
    let atom = |k: usize| &atoms[k * length..][..length];
    let gram: Vec<f64> = (0..n_atoms * n_atoms)
        .map(|i| dot(atom(i / n_atoms), atom(i % n_atoms)))
        .collect();
    let most = (length / 2).max(1);
    let (mut start, mut left) = (vec![0.0; n_atoms], vec![0.0; n_atoms]);
    let code = |patch: &[f64]| {
        let energy = dot(patch, patch);
        let mut chosen: Vec<usize> = Vec::new();
        // Rows of the Cholesky factor of the Gram matrix of the chosen, and what they make of the right-hand side.
        let (mut factor, mut forward): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
        let mut solution: Vec<f64> = Vec::new();
        let mut residual = energy;
        if residual > goal {
            for (k, s) in start.iter_mut().enumerate() {
                *s = dot(atom(k), patch);
            }
            left.copy_from_slice(&start);
        }
        while residual > goal && chosen.len() < most {
            let best = (0..n_atoms).max_by(|&a, &b| left[a].abs().total_cmp(&left[b].abs()));
            let Some(k) = best.filter(|k| !chosen.contains(k)) else {
                break;
            };
            let mut row: Vec<f64> = Vec::with_capacity(chosen.len() + 1);
            for (i, &j) in chosen.iter().enumerate() {
                let before = dot(&row, &factor[i][..i]);
                row.push((gram[k * n_atoms + j] - before) / factor[i][i]);
            }
            let pivot = gram[k * n_atoms + k] - dot(&row, &row);
            if pivot < 1e-10 {
                break;
            }
            let root = pivot.sqrt();
            forward.push((start[k] - dot(&row, &forward)) / root);
            row.push(root);
            factor.push(row);
            chosen.push(k);
            solution = back_substitute(&factor, &forward);
            left.copy_from_slice(&start);
            for (&j, &x) in chosen.iter().zip(&solution) {
                add_scaled(&mut left, -x, &gram[j * n_atoms..][..n_atoms]);
            }
            residual = energy - dot(&forward, &forward);
        }
        chosen.into_iter().zip(solution).collect()
    };
    patches.chunks_exact(length).map(code).collect()
}

/// Solves `L' x = b`; rows of L.
fn back_substitute(factor: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let mut x = b.to_vec();
    for i in (0..x.len()).rev() {
        x[i] /= factor[i][i];
        let value = x[i];
        for j in 0..i {
            x[j] -= value * factor[i][j];
        }
    }
    x
}

/// Updates one atom after the other, and with it its coefficients.
fn update(patches: &[f64], atoms: &mut [f64], codes: &mut [Code], length: usize) {
    let n_atoms = atoms.len() / length;
    let mut residuals = patches.to_vec();
    let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); n_atoms];
    for (i, code) in codes.iter().enumerate() {
        for (place, &(k, x)) in code.iter().enumerate() {
            add_scaled(
                &mut residuals[i * length..][..length],
                -x,
                &atoms[k * length..][..length],
            );
            users[k].push((i, place));
        }
    }
    for k in 0..n_atoms {
        let atom = &mut atoms[k * length..][..length];
        if users[k].is_empty() {
            replace(atom, &mut residuals);
            continue;
        }
        // E x, with E the residuals to which the atom's own part was added.
        let mut next = vec![0.0; length];
        for &(i, place) in &users[k] {
            let x = codes[i][place].1;
            let residual = &mut residuals[i * length..][..length];
            add_scaled(residual, x, atom);
            add_scaled(&mut next, x, residual);
        }
        let norm = dot(&next, &next).sqrt();
        if norm > 0.0 {
            atom.iter_mut()
                .zip(&next)
                .for_each(|(atom, n)| *atom = n / norm);
        }
        for &(i, place) in &users[k] {
            let residual = &mut residuals[i * length..][..length];
            let x = dot(residual, atom);
            codes[i][place].1 = x;
            add_scaled(residual, -x, atom);
        }
    }
}

/// The residual of the patch that is coded worst becomes the atom, and is not taken again.
fn replace(atom: &mut [f64], residuals: &mut [f64]) {
    let norm = |r: &[f64]| dot(r, r);
    let worst = residuals
        .chunks_exact_mut(atom.len())
        .max_by(|a, b| norm(a).total_cmp(&norm(b)));
    if let Some(worst) = worst.filter(|w| norm(w) > 0.0) {
        let scale = norm(worst).sqrt().recip();
        atom.iter_mut()
            .zip(&*worst)
            .for_each(|(atom, w)| *atom = scale * w);
        worst.fill(0.0);
    }
}
