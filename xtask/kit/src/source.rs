//! Files of a data set, and what tells them apart.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use npb_catalogue::Result;
use npb_catalogue::data::sha256_of;

use crate::context::Context;

/// A file, unpacked when its name ends in `.gz`.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let packed = path.extension().is_some_and(|ending| ending == "gz");
    Ok(if packed {
        Box::new(GzDecoder::new(file))
    } else {
        Box::new(BufReader::new(file))
    })
}

/// Files of a data set as they are read, with their checksums.
pub struct Source<'a> {
    context: &'a Context<'a>,
    folder: &'a str,
    /// Of all files so far, one behind the other.
    pub checksums: String,
}

impl<'a> Source<'a> {
    /// No file has been read.
    pub fn new(context: &'a Context<'a>, folder: &'a str) -> Self {
        Self {
            context,
            folder,
            checksums: String::new(),
        }
    }

    /// A file of the data set, unpacked.
    pub fn open(&mut self, file: &str) -> Result<Box<dyn Read>> {
        let path = self.context.data_file(self.folder, file);
        self.checksums += &sha256_of(&path)?;
        open(&path)
    }

    /// The text of a file.
    pub fn text(&mut self, file: &str) -> Result<String> {
        let mut text = String::new();
        self.open(file)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The first of these files that is there, else the first.
    pub fn first<'f>(&self, files: &[&'f str]) -> &'f str {
        let there = |file: &&&str| self.context.data.path(self.folder, file).is_file();
        files.iter().find(there).or(files.first()).unwrap_or(&"")
    }
}
