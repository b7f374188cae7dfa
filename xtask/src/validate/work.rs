//! What the checks of the command share: its fits, data for each of them, random numbers, a wait.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use npb_catalogue::Result;
use serde::Deserialize;

/// A small fit, and what its model is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) fit: String,
    /// What makes it long enough to be killed.
    pub(super) kills: String,
    /// What keeps it small.
    pub(super) files: String,
    /// None where an image is written.
    pub(super) questions: Vec<String>,
}

impl Case {
    /// One fit of each kind that the command knows.
    pub(super) fn all() -> Result<Vec<Self>> {
        #[derive(Deserialize)]
        struct Cases {
            case: Vec<Case>,
        }
        Ok(toml::from_str::<Cases>(include_str!("cases.toml"))?.case)
    }

    pub(super) fn is_image(&self) -> bool {
        self.questions.is_empty()
    }

    /// How the file ends that it writes.
    pub(super) fn ending(&self) -> &'static str {
        if self.is_image() { "tiff" } else { "npb" }
    }
}

/// A folder with the data in which a case is fitted.
pub(super) struct Work<'a> {
    npb: &'a Path,
    folder: PathBuf,
    pub(super) case: &'a Case,
}

impl<'a> Work<'a> {
    pub(super) fn new(npb: &'a Path, folder: &Path, case: &'a Case) -> Result<Self> {
        let folder = folder.join(case.name.replace(", ", "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        write_data(&folder)?;
        Ok(Self { npb, folder, case })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The command with these arguments, silent.
    pub(super) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.npb);
        command
            .args(arguments.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Waits for so long at most.
pub(super) fn wait_for(
    child: &mut std::process::Child,
    limit: Duration,
) -> io::Result<Option<std::process::ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(left.min(Duration::from_millis(5)));
    }
}

/// Splitmix64: xtask has no other random numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// In `[0, 1)`.
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Data for one fit of each kind.
fn write_data(folder: &Path) -> io::Result<()> {
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes);
    let mut ratings = String::from("user,film,stars\n");
    for (user, film) in (0..24).flat_map(|user| (0..15).map(move |film| (user, film))) {
        if (3 * user + film) % 4 != 0 {
            ratings += &format!("u{user},f{film},{}\n", 2 + 3 * ((user + film + 1) % 2));
        }
    }
    write("r.csv", ratings.as_bytes())?;
    let mut patients = String::from("id,age,marker,town,ill\n");
    for i in 0..90 {
        let ill = i % 2;
        let age = format!("{}", 30 + 20 * ill + i * 5 % 13);
        let age = if i % 9 == 4 { "" } else { &age };
        let marker = 1.0 + (i * 7 % 11) as f64 / 11.0 + 2.0 * ill as f64;
        let town = ["Oslo", "Bergen", "Hamar"][(i / 2 + ill) % 3];
        patients += &format!("p{i},{age},{marker:.2},{town},{}\n", ["no", "yes"][ill]);
    }
    write("p.csv", patients.as_bytes())?;
    let labels = (0..90).map(|i| format!("{},{}\n", i % 2, u8::from(i % 3 == 0)));
    write(
        "y.csv",
        ("one,two\n".to_owned() + &labels.collect::<String>()).as_bytes(),
    )?;
    let document = |n: usize| format!("{0} {0}:2 {1}:{2} 4:1\n", n % 2, 2 + n % 2, 1 + n % 3);
    write(
        "d.txt",
        (0..400).map(document).collect::<String>().as_bytes(),
    )?;
    let noisy = |x: u32, y: u32| (60 + 60 * (x / 8 % 2) + (x * 31 + y * 17) % 41) as u8;
    write("in.tiff", &tiff(48, 40, noisy))?;
    let holes = |x: u32, y: u32| {
        if (x * 7 + y * 5).is_multiple_of(4) {
            255
        } else {
            0
        }
    };
    write("mask.tiff", &tiff(48, 40, holes))
}

/// A grey image as an uncompressed TIFF file.
fn tiff(width: u32, height: u32, pixel: impl Fn(u32, u32) -> u8) -> Vec<u8> {
    const SHORT: u16 = 3;
    const LONG: u16 = 4;
    let entries: [(u16, u16, u32); 9] = [
        (256, LONG, width),
        (257, LONG, height),
        (258, SHORT, 8), // bits of a sample
        (259, SHORT, 1), // no compression
        (262, SHORT, 1), // black is zero
        (273, LONG, 8),  // where the pixels start
        (277, SHORT, 1), // samples of a pixel
        (278, LONG, height),
        (279, LONG, width * height),
    ];
    let mut file = b"II*\0".to_vec();
    file.extend((8 + width * height).to_le_bytes());
    file.extend(
        (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| pixel(x, y)),
    );
    file.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend([0; 4]);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_laid_out_as_the_format_says() {
        let file = tiff(3, 2, |x, y| (10 * y + x) as u8);
        assert_eq!(file[..8], [b'I', b'I', b'*', 0, 14, 0, 0, 0]);
        assert_eq!(file[8..14], [0, 1, 2, 10, 11, 12]);
        assert_eq!(file.len(), 14 + 2 + 9 * 12 + 4);
    }

    #[test]
    fn moments_are_spread_evenly() {
        let mut random = Random(7);
        let draws: Vec<f64> = (0..1000).map(|_| random.uniform()).collect();
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.03 && draws.iter().all(|u| (0.0..1.0).contains(u)));
    }
}
