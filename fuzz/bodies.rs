//! What is done with bytes that anybody may have made: they are refused by an error, or what is read of them holds together. Shared by the targets of `fuzz` and
//! by a test of npb-cli, which does the same with the files of `fuzz/corpus`.

use npb_data::read::{
    self, Column, DelimitedOptions, MovieLens, RatingFile, ReadingRules, Repeats,
};
use npb_data::schema::Schema;
use npb_infer::{Saved, storage};
use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

#[path = "../crates/npb-cli/src/picture.rs"]
mod picture;

/// What a target does with bytes.
pub type Body = fn(&[u8]);

/// The targets by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Body); 10] = [
    ("text", text),
    ("movielens", movielens),
    ("ratings", ratings),
    ("words", words),
    ("arff", arff),
    ("npy", npy),
    ("parquet", parquet),
    ("image", image),
    ("schema", schema),
    ("model", model),
];

/// A table of text: its layout and its columns are guessed, and it is read by what was guessed.
pub fn text(bytes: &[u8]) {
    let layout = DelimitedOptions::default().sniffed(bytes).options;
    let Ok(guess) = Schema::guess("f", bytes, &layout) else {
        return;
    };
    let written = guess.schema.to_toml();
    assert_eq!(Schema::from_toml(&written).as_ref(), Ok(&guess.schema));
    let rules = ReadingRules {
        layout,
        ..ReadingRules::default()
    };
    if let Ok((data, _)) = read::with_schema("f", bytes, &guess.schema, &rules) {
        assert_eq!(data.features.n_rows(), guess.n_rows);
    }
}

/// The first byte says which of the three layouts.
pub fn movielens(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let layouts = [MovieLens::Tab, MovieLens::DoubleColon, MovieLens::Csv];
    if let Ok(file) = read::movielens("f", rest, layouts[usize::from(first % 3)]) {
        check_ratings(&file);
    }
}

/// Lines with row, column and value, by place and by name.
pub fn ratings(bytes: &[u8]) {
    let layout = DelimitedOptions::default().sniffed(bytes).options;
    let places = [0, 1, 2].map(Column::Index);
    let names = ["row", "column", "value"].map(Column::from);
    for columns in [places, names] {
        if let Ok(file) = read::triplets("f", bytes, columns.each_ref(), &layout, Repeats::Error) {
            check_ratings(&file);
        }
    }
}

fn check_ratings(file: &RatingFile) {
    if let Ok(ratings) = file.ratings() {
        for row in 0..ratings.n_rows() {
            let (columns, values) = ratings.row(row);
            assert!(columns.iter().all(|&c| (c as usize) < ratings.n_cols()));
            assert!(values.iter().all(|v| v.is_finite()));
        }
    }
}

/// Documents as svmlight has them.
pub fn words(bytes: &[u8]) {
    for n_words in [None, Some(20)] {
        if let Ok(bags) = read::bags_of_words("f", bytes, n_words) {
            assert_eq!(bags.keys.len(), bags.counts.n_rows());
        }
    }
}

/// A file of Weka.
pub fn arff(bytes: &[u8]) {
    let _ = read::arff("f", bytes);
}

/// A file of NumPy.
pub fn npy(bytes: &[u8]) {
    if let Ok(table) = npb_data::read_npy(bytes) {
        let guess = Schema::guess_raw("f", &table);
        assert_eq!(guess.n_rows, table.n_rows());
    }
}

/// A Parquet file, an Arrow file or a stream of Arrow: the first bytes say which.
pub fn parquet(bytes: &[u8]) {
    let _ = npb_arrow::columns("f", bytes);
    let Ok(table) = npb_arrow::read("f", bytes.to_vec(), &npb_arrow::Options::default()) else {
        return;
    };
    let schema = Schema::guess_raw("f", &table).schema;
    let n_rows = table.n_rows();
    if let Ok((data, _)) = read::raw_with_schema("f", table, &schema, &ReadingRules::default()) {
        assert_eq!(data.features.n_rows(), n_rows);
    }
}

/// An image, as the command reads it. The formats' own header says how large it is: no more than a megapixel is decoded.
pub fn image(bytes: &[u8]) {
    let reader = ::image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format();
    let size = reader.map(|reader| reader.into_dimensions());
    if !size.is_ok_and(|size| size.is_ok_and(|(w, h)| u64::from(w) * u64::from(h) <= 1 << 20)) {
        return;
    }
    let Ok(picture) = picture::Picture::read(bytes) else {
        return;
    };
    let n = picture.pixels.height() * picture.pixels.width();
    assert!(picture.alpha.is_empty() || picture.alpha.len() == n);
    assert!(picture.transparent <= n);
    let mut values = picture.pixels.values().iter();
    let largest = picture.depth.opaque();
    let whole = |v: &f32| (0.0..=largest).contains(v);
    assert!(picture.depth == picture::Depth::Float || values.all(whole));
}

/// A schema as people edit it.
pub fn schema(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(schema) = Schema::from_toml(text) {
        assert_eq!(Schema::from_toml(&schema.to_toml()), Ok(schema));
    }
}

/// A saved fit with its header and checksum as they should be: the first byte says of which model.
pub fn model(bytes: &[u8]) {
    let Some((first, payload)) = bytes.split_first() else {
        return;
    };
    let all = [
        saved::<npb_iqgme::IqgmeFit>,
        saved::<npb_iqgme::MultiTaskFit>,
        saved::<npb_iqgme::FactorFit>,
        saved::<npb_iqgme::GibbsFit>,
        saved::<npb_iqgme::QgmeFit>,
        saved::<npb_bsvd::BsvdFit>,
        saved::<npb_itf::ItfFit>,
        saved::<npb_regbayes::IlsvmFit>,
        saved::<npb_regbayes::MtIlsvmFit>,
        saved::<npb_regbayes::LabelsFit>,
        saved::<npb_regbayes::MedLdaFit>,
        saved::<npb_hbrec::HbrecFit>,
        saved::<npb_hbrec::Recommender>,
        saved::<npb_hbrec::GroupedFit>,
        saved::<npb_bpfa::BpfaFit>,
        saved::<npb_bpfa::Restored>,
    ];
    all[usize::from(*first) % all.len()](payload);
}

/// What loads can be saved, and that loads again.
fn saved<F: Saved>(payload: &[u8]) {
    let file =
        storage::to_bytes(F::MODEL, F::VERSION, &Plain(payload)).expect("no more than bytes");
    if let Ok(fit) = F::from_bytes(&file) {
        let bytes = fit.to_bytes();
        assert!(bytes.is_ok_and(|bytes| F::from_bytes(&bytes).is_ok()));
    }
}

/// Bytes that are stored as they are, without their number before them.
struct Plain<'a>(&'a [u8]);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(self.0.len())?;
        for byte in self.0 {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}
