//! `cargo xtask validate files`: damaged files of models and checkpoints, their checksums made right again, are given to the command. It refuses them by an
//! error of its own, or its answers are finite numbers in their range; it does not panic, hang or run out of memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use npb_catalogue::Result;

use super::work::{Case, Random, Work, wait_for};

/// Nothing that is asked of so small a file takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of what goes wrong, so many are told for each kind, and their files kept.
const TOLD: usize = 5;
/// What a number is replaced by.
const NUMBERS: [f64; 16] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e308,
    -1e308,
    1e200,
    -1e200,
    1e120,
    1e30,
    -1e30,
    -1.0,
    0.0,
    2.5,
    1e-30,
    1e-200,
    5e-324,
];
/// What a length is replaced by.
const LENGTHS: [u64; 6] = [0, 1, 255, 1 << 20, 1 << 40, u64::MAX];

/// What was seen of one kind of file.
#[derive(Debug, Default)]
struct Seen {
    refused: usize,
    answered: usize,
    wrong: Vec<String>,
}

/// Damages so many files of each kind; whether all went well.
pub(super) fn run(npb: &Path, folder: &Path, each: usize, seed: u64) -> Result<bool> {
    let mut sound = true;
    println!("| file | damaged | refused | answered | wrong |\n|---|---|---|---|---|");
    for case in &Case::all()? {
        let work = Attacked(Work::new(npb, folder, case)?);
        let mut kinds = vec![("checkpoint", work.checkpoint()?)];
        if !case.is_image() {
            kinds.insert(0, ("model", work.model()?));
        }
        for (kind, bytes) in kinds {
            let seen = work.attack(kind, &bytes, each, &mut Random(seed))?;
            let (refused, answered, wrong) = (seen.refused, seen.answered, seen.wrong.len());
            let name = &case.name;
            println!("| {name}, {kind} | {each} | {refused} | {answered} | {wrong} |");
            seen.wrong
                .iter()
                .take(TOLD)
                .for_each(|text| eprintln!("  {name}, {kind}: {text}"));
            sound &= wrong == 0 && refused > 0;
        }
    }
    Ok(sound)
}

/// How a command ended.
enum Ended {
    /// With this on standard output.
    Well(String),
    /// By an error that says what is wrong.
    Refused,
    /// In another way.
    Badly(String),
}

/// A fit whose files are damaged.
struct Attacked<'a>(Work<'a>);

impl Attacked<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn command(&self, arguments: &str) -> Command {
        self.0.command(&format!("{arguments} --threads 1 --quiet"))
    }

    /// The fit, with its result in this file.
    fn fit(&self, name: &str) -> String {
        format!("{} {} -o {name}", self.0.case.fit, self.0.case.files)
    }

    /// The file that it writes.
    fn out(&self) -> String {
        format!("m.{}", self.0.case.ending())
    }

    fn model(&self) -> Result<Vec<u8>> {
        match self.ended(&self.fit("m.npb"))? {
            Ended::Well(_) => {}
            Ended::Refused => return Err(format!("{} is refused", self.0.case.fit).into()),
            Ended::Badly(text) => return Err(text.into()),
        }
        match self.asked()? {
            Ended::Well(_) => Ok(fs::read(self.path("m.npb"))?),
            Ended::Refused => {
                Err(format!("{}: an undamaged model is refused", self.0.case.name).into())
            }
            Ended::Badly(text) => Err(format!("an undamaged model: {text}").into()),
        }
    }

    /// The first checkpoint that a fit leaves when it is killed.
    fn checkpoint(&self) -> Result<Vec<u8>> {
        let path = self.path("c");
        for _ in 0..100 {
            let line = format!("{} --checkpoint c --every 0.001s", self.fit(&self.out()));
            let mut child = self.command(&line).spawn()?;
            while child.try_wait()?.is_none() {
                if path.exists() {
                    child.kill()?;
                    child.wait()?;
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            if let Ok(bytes) = fs::read(&path) {
                return Ok(bytes);
            }
        }
        Err(format!("{}: a fit leaves no checkpoint", self.0.case.name).into())
    }

    fn attack(&self, kind: &str, bytes: &[u8], n: usize, random: &mut Random) -> Result<Seen> {
        let mut seen = Seen::default();
        for k in 0..n {
            let (damage, file) = damaged(bytes, random)?;
            let ended = match kind {
                "model" => {
                    fs::write(self.path("m.npb"), &file)?;
                    self.asked()?
                }
                _ => {
                    fs::write(self.path("c"), &file)?;
                    self.gone_on()?
                }
            };
            match ended {
                Ended::Well(_) => seen.answered += 1,
                Ended::Refused => seen.refused += 1,
                Ended::Badly(text) => {
                    if seen.wrong.len() < TOLD {
                        fs::write(self.path(&format!("wrong-{kind}-{k}")), &file)?;
                    }
                    seen.wrong.push(format!("number {k}, {damage}: {text}"));
                }
            }
        }
        Ok(seen)
    }

    /// The fit goes on from a damaged checkpoint, and its model is asked.
    fn gone_on(&self) -> Result<Ended> {
        match self.ended(&format!("{} --checkpoint c", self.fit(&self.out())))? {
            Ended::Well(_) if self.0.case.is_image() => {
                Ok(match complaint_of_numbers(&self.path("sd.npy"))? {
                    None => Ended::Well(String::new()),
                    Some(text) => Ended::Badly(text),
                })
            }
            Ended::Well(_) => self.asked(),
            other => Ok(other),
        }
    }

    /// All questions until one is not answered.
    fn asked(&self) -> Result<Ended> {
        for question in &self.0.case.questions {
            match self.ended(question)? {
                Ended::Well(text) => {
                    if let Some(complaint) = complaint(&text) {
                        return Ok(Ended::Badly(format!("npb {question}: {complaint}")));
                    }
                }
                other => return Ok(other),
            }
        }
        Ok(Ended::Well(String::new()))
    }

    fn ended(&self, arguments: &str) -> Result<Ended> {
        let (out, said) = (self.path("out.txt"), self.path("said.txt"));
        let mut child = self
            .command(arguments)
            .stdout(fs::File::create(&out)?)
            .stderr(fs::File::create(&said)?)
            .spawn()?;
        let start = Instant::now();
        let Some(status) = wait_for(&mut child, PATIENCE)? else {
            child.kill()?;
            child.wait()?;
            let seconds = start.elapsed().as_secs();
            return Ok(Ended::Badly(format!(
                "npb {arguments}: no end in {seconds} s"
            )));
        };
        Ok(match status.code() {
            Some(0) => Ended::Well(fs::read_to_string(&out)?),
            // The exit codes of `npb --help`.
            Some(1..=4) => Ended::Refused,
            _ => {
                let text = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
                let first: Vec<&str> = text.lines().filter(|l| !l.is_empty()).take(2).collect();
                Ended::Badly(format!("npb {arguments}: {status}: {}", first.join(" ")))
            }
        })
    }
}

/// What is wrong with the numbers of a table.
fn complaint(csv: &str) -> Option<String> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next()?.split(',').collect();
    for (n, line) in lines.enumerate() {
        let mut lower = f64::NEG_INFINITY;
        for (name, cell) in header.iter().zip(line.split(',')) {
            let Ok(value) = cell.parse::<f64>() else {
                continue;
            };
            let is_probability = name.starts_with("P(");
            // Chains that stand still at different places have an infinite R-hat.
            let is_wrong = !value.is_finite() && *name != "rhat"
                || (is_probability && !(-1e-9..=1.0 + 1e-9).contains(&value))
                || (name.starts_with("sd") && value < 0.0)
                || (name.starts_with("upper") && value < lower);
            if is_wrong {
                return Some(format!("line {}: {name} is {cell}", n + 2));
            }
            if name.starts_with("lower") {
                lower = value;
            }
        }
    }
    None
}

/// What is wrong with the standard deviations of an image: four bytes each, after a header of 128.
fn complaint_of_numbers(path: &Path) -> Result<Option<String>> {
    let bytes = fs::read(path)?;
    for (k, four) in bytes
        .get(128..)
        .unwrap_or_default()
        .chunks_exact(4)
        .enumerate()
    {
        let value = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        if !value.is_finite() || value < 0.0 {
            return Ok(Some(format!("standard deviation {k} is {value}")));
        }
    }
    Ok(None)
}

/// What begins a file of ours.
const MAGIC: [u8; 8] = *b"\x89NPB\r\n\x1a\n";

/// A file of ours without what follows from the rest: length and checksum.
struct Parts {
    header: Vec<u8>,
    payload: Vec<u8>,
}

impl Parts {
    /// The file at the start of these bytes, and how long it is.
    fn open(bytes: &[u8]) -> Option<(Self, usize)> {
        bytes.starts_with(&MAGIC).then_some(())?;
        let mut at = MAGIC.len() + 4;
        for _ in ["model", "version"] {
            let len = bytes.get(at..at + 2)?;
            at += 2 + usize::from(u16::from_le_bytes([len[0], len[1]]));
        }
        let len = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        let end = (at + 8).checked_add(usize::try_from(len).ok()?)?;
        let parts = Self {
            header: bytes[..at].to_vec(),
            payload: bytes.get(at + 8..end)?.to_vec(),
        };
        Some((parts, end + 8))
    }

    fn file(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        bytes.extend((self.payload.len() as u64).to_le_bytes());
        bytes.extend(&self.payload);
        let sum = crc64(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }
}

/// A damaged copy, and what was done to it: as a rule within the innermost of the files that lie in each other.
fn damaged(bytes: &[u8], random: &mut Random) -> Result<(String, Vec<u8>)> {
    let (mut outer, _) = Parts::open(bytes).ok_or("no file of ours")?;
    let start = outer.payload.windows(8).position(|w| w == MAGIC);
    let inner = start.and_then(|at| Parts::open(&outer.payload[at..]).map(|inner| (at, inner)));
    let text = match inner {
        // Before a file within a file stands its length.
        Some((at, (mut inner, len))) if at >= 8 && random.uniform() < 0.9 => {
            let text = damage(&mut inner.payload, random);
            let file = inner.file();
            let mut long = (file.len() as u64).to_le_bytes().to_vec();
            long.extend(file);
            outer.payload.splice(at - 8..at + len, long);
            text
        }
        _ => damage(&mut outer.payload, random),
    };
    Ok((text, outer.file()))
}

fn damage(payload: &mut Vec<u8>, random: &mut Random) -> String {
    let mut below = |n: usize| (random.uniform() * n as f64) as usize;
    let n = payload.len();
    if n < 16 {
        payload.clear();
        return "emptied".to_owned();
    }
    match below(8) {
        0 => {
            let bit = below(8 * n);
            payload[bit / 8] ^= 1 << (bit % 8);
            format!("bit {bit} flipped")
        }
        1 => {
            let (at, value) = (below(n), below(256) as u8);
            payload[at] = value;
            format!("byte {at} is {value}")
        }
        2 => {
            let len = below(n);
            payload.truncate(len);
            format!("cut to {len} bytes")
        }
        3 | 4 => {
            let is_length = |word: [u8; 8]| u64::from_le_bytes(word) < 1 << 20;
            let (at, value) = (
                place(payload, &mut below, is_length),
                LENGTHS[below(LENGTHS.len())],
            );
            payload[at..at + 8].copy_from_slice(&value.to_le_bytes());
            format!("bytes from {at} on are {value}")
        }
        _ => {
            let is_number = |word: [u8; 8]| (1e-9..1e9).contains(&f64::from_le_bytes(word).abs());
            let (at, value) = (
                place(payload, &mut below, is_number),
                NUMBERS[below(NUMBERS.len())],
            );
            payload[at..at + 8].copy_from_slice(&value.to_le_bytes());
            format!("bytes from {at} on are {value:e}")
        }
    }
}

/// A place of eight bytes that look like what is asked for; any, where there seem to be none.
fn place(
    payload: &[u8],
    below: &mut impl FnMut(usize) -> usize,
    is_one: impl Fn([u8; 8]) -> bool,
) -> usize {
    let n = payload.len() - 7;
    let mut at = below(n);
    for _ in 0..1000 {
        let word: Option<[u8; 8]> = payload[at..at + 8].try_into().ok();
        if word.is_some_and(&is_one) {
            break;
        }
        at = below(n);
    }
    at
}

/// CRC-64/XZ, as the library has it: xtask takes no crate of the library.
fn crc64(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut k = 0;
        while k < 256 {
            let mut word = k as u64;
            let mut bit = 0;
            while bit < 8 {
                word = (word >> 1) ^ ((word & 1) * 0xc96c_5795_d787_0f42);
                bit += 1;
            }
            table[k] = word;
            k += 1;
        }
        table
    };
    let step = |sum: u64, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(payload: Vec<u8>) -> Parts {
        let mut header = MAGIC.to_vec();
        header.extend(1_u32.to_le_bytes());
        header.extend(b"\x02\0mm\x01\0v");
        Parts { header, payload }
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        // The check value of CRC-64/XZ.
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn damaged_files_are_whole_but_for_the_damage() {
        let inner = parts((0..40).map(f64::from).flat_map(f64::to_le_bytes).collect()).file();
        let mut payload = b"before".to_vec();
        payload.extend((inner.len() as u64).to_le_bytes());
        payload.extend(&inner);
        payload.extend(b"after");
        let whole = parts(payload).file();
        let (mut random, mut within) = (Random(1), 0);
        for _ in 0..300 {
            let (_, file) = damaged(&whole, &mut random).unwrap();
            let (outer, len) = Parts::open(&file).unwrap();
            assert!(len == file.len() && outer.file() == file);
            if let Some((found, len)) = Parts::open(outer.payload.get(14..).unwrap_or_default()) {
                let good = outer.payload[6..14] == (len as u64).to_le_bytes();
                within += usize::from(
                    good && found.file() == outer.payload[14..14 + len]
                        && outer.payload.ends_with(b"after"),
                );
            }
        }
        assert!((250..300).contains(&within), "{within}");
    }

    #[test]
    fn numbers_out_of_range_are_found() {
        let of = |row: &str| complaint(&format!("id,class,P(a),lower(a),upper(a),sd(x)\n{row}\n"));
        assert_eq!(of("1,a,0.5,0.2,0.7,3"), None);
        assert_eq!(of("1,a,1,,,"), None);
        for wrong in [
            "1,a,NaN,0.2,0.7,3",
            "1,a,1.5,0.2,0.7,3",
            "1,a,0.5,0.8,0.7,3",
            "1,a,0.5,0.2,inf,3",
            "1,a,0.5,0.2,0.7,-3",
        ] {
            assert!(of(wrong).is_some(), "{wrong}");
        }
    }
}
