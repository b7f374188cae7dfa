//! Images side by side.

use crate::error::ReportError;
use crate::figure::Figure;
use crate::html::escape;
use crate::text::line;

/// One image of a figure.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its heading.
    pub title: String,
    /// The file of a PNG.
    pub png: Vec<u8>,
    /// Rows, columns and channels of the image that it shows; rows and columns are those of the PNG.
    pub size: [usize; 3],
    /// A number that belongs to it.
    pub number: Option<f64>,
}

const SIDE: usize = 300;

/// Images in lines of three (four of them: of two), all of one width, as one SVG that holds them.
///
/// # Errors
/// There is none, or one is not a PNG.
pub fn images(
    name: &str,
    title: &str,
    caption: &str,
    pictures: &[Picture],
) -> Result<Figure, ReportError> {
    if pictures.is_empty() {
        let figure = name.to_owned();
        return Err(ReportError::Empty { figure });
    }
    pictures.iter().try_for_each(check)?;
    let mut body = String::new();
    let mut top = 0;
    let shown_height = |one: &Picture| SIDE * one.size[0] / one.size[1];
    // Four in lines of three would leave one alone.
    let per_line = if pictures.len() == 4 { 2 } else { 3 };
    for line in pictures.chunks(per_line) {
        for (n, one) in line.iter().enumerate() {
            body += &image(one, n * (SIDE + 12) + 6, top, shown_height(one));
        }
        top += line.iter().map(shown_height).max().unwrap_or(SIDE) + 40;
    }
    let width = per_line.min(pictures.len()) * (SIDE + 12);
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" viewBox=\"0 0 {width} {top}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    );
    let row = |one: &Picture| {
        let [h, w, c] = one.size;
        let number = one.number.filter(|n| n.is_finite());
        let number = number.map_or(String::new(), |n| n.to_string());
        vec![one.title.clone(), format!("{h}x{w}x{c}"), number]
    };
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg,
        header: ["picture", "size", "number"].map(str::to_owned).to_vec(),
        rows: pictures.iter().map(row).collect(),
    })
}

/// A PNG begins with its signature and a chunk that holds width and height.
fn check(one: &Picture) -> Result<(), ReportError> {
    let [height, width, _] = one.size;
    let number = |at: usize| {
        let bytes = one.png.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    let is_png = one.png.starts_with(b"\x89PNG\r\n\x1a\n");
    let fits = (number(16), number(20)) == (Some(width), Some(height));
    if is_png && fits && height > 0 && width > 0 {
        return Ok(());
    }
    Err(ReportError::Png {
        title: one.title.clone(),
        height,
        width,
    })
}

fn image(one: &Picture, x: usize, top: usize, height: usize) -> String {
    let text = escape(&line(&one.title));
    format!(
        "<text x=\"{}\" y=\"{}\" font-family=\"sans-serif\" font-size=\"14\" text-anchor=\"middle\">{text}</text>\n\
         <image x=\"{x}\" y=\"{}\" width=\"{SIDE}\" height=\"{height}\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        x + SIDE / 2,
        top + 18,
        top + 26,
        base64(&one.png)
    )
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, i| {
            bits << 8 | u32::from(three.get(i).copied().unwrap_or(0))
        });
        for letter in 0..4 {
            if letter <= three.len() {
                text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63].into());
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_that_of_the_standard() {
        for (text, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }
}
