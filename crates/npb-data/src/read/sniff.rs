//! How a file of text seems to be laid out, by its first lines.

use super::delimited::{DelimitedOptions, Separator};
use super::numbers::Numbers;
use super::text::{plain_bytes, units_of_utf16};
use crate::names::is_stray_mark;
use std::io::Read;

/// So much of a file is looked at.
const FIRST_BYTES: u64 = 1 << 16;
const FIRST_LINES: usize = 100;
/// What separates fields in files that people have.
const SEPARATORS: [char; 4] = [',', '\t', ';', '|'];

/// What the first lines of a file suggest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutGuess {
    /// The usual layout, with separator, decimal mark, quote and comment mark as they seem to be.
    pub options: DelimitedOptions,
    /// What differs from the usual layout, in words.
    pub differs: Vec<String>,
    /// What the first lines say of the header.
    pub first_lines: FirstLines,
}

/// What the first lines of a file say of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLines {
    /// Nothing that is not as it should be.
    AsExpected,
    /// A header is expected, and the first line is like the others: numbers where these have numbers.
    NoHeader,
    /// None is expected, and the first line has texts where the others have numbers.
    Header,
    /// The second line has texts where the others have numbers.
    TwoHeaders,
}

impl DelimitedOptions {
    /// How a file seems to be laid out, where that differs from this layout: what separates its fields, the decimal mark, quotes, comments. Only what fits all
    /// of the first 100 lines is taken, and this layout where it fits as well. What gzip has compressed is recognised.
    ///
    /// ```
    /// use npb_data::read::{DelimitedOptions, FirstLines, Separator};
    /// let found = DelimitedOptions::default().sniffed(b"length;width\n1,5;2,25\n2,5;1,75\n");
    /// assert_eq!((found.options.separator, found.options.decimal), (Separator::Char(';'), ','));
    /// assert_eq!(found.first_lines, FirstLines::AsExpected);
    /// ```
    pub fn sniffed(&self, bytes: &[u8]) -> LayoutGuess {
        let mut options = self.clone();
        let mut differs = Vec::new();
        let text = beginning(bytes);
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines.truncate(FIRST_LINES);
        if options.comment.is_none() && lines.len() > 1 && is_comment(&lines) {
            differs.push("lines that begin with '#' are passed over".to_owned());
            options.comment = Some('#');
        }
        if let Some(mark) = options.comment {
            lines.retain(|line| !line.starts_with(mark));
        }
        if let Separator::Char(usual) = options.separator {
            let quote = quote_of(&lines, &options);
            if quote != options.quote {
                differs.push("texts stand between single quotes".to_owned());
                options.quote = quote;
            }
            if let Some(found) = separator_of(&lines, usual, &options)
                && found != options.separator
            {
                differs.push(format!("fields are separated by {}", in_words(&found)));
                options.separator = found;
            }
        }
        let rows = rows(&lines, &options);
        let decimal = decimal_of(&rows, &options);
        if decimal != options.decimal {
            differs.push(format!("{decimal:?} stands before decimals"));
            options.decimal = decimal;
        }
        LayoutGuess {
            first_lines: first_lines(&rows, &options),
            options,
            differs,
        }
    }
}

/// The first lines that are whole.
fn beginning(bytes: &[u8]) -> String {
    let mut first = Vec::new();
    // What cannot be read is said by the reader.
    let _ = plain_bytes(bytes).take(FIRST_BYTES).read_to_end(&mut first);
    let mut text = match units_of_utf16(&first) {
        Some(units) => String::from_utf16_lossy(&units),
        None => String::from_utf8_lossy(&first).into_owned(),
    };
    if first.len() as u64 == FIRST_BYTES {
        text.truncate(text.rfind('\n').unwrap_or(0));
    }
    text.trim_start_matches('\u{feff}')
        .replace("\r\n", "\n")
        .replace('\r', "\n")
}

/// Some lines begin with a hash, the first of all lines among them, and others follow.
fn is_comment(lines: &[&str]) -> bool {
    let first = lines
        .iter()
        .take_while(|line| line.starts_with('#'))
        .count();
    // A name of a column may begin with it: then the line is cut as the next one.
    let fields = |line: &str| SEPARATORS.map(|mark| line.matches(mark).count());
    let like_next = lines.get(first).is_some_and(|next| {
        fields(lines[0]) == fields(next) && fields(next).iter().any(|&n| n > 0)
    });
    first > 0 && first < lines.len() && !(first == 1 && like_next)
}

/// Fields of a line, without blanks around them and without quotes.
fn fields<'a>(line: &'a str, separator: &Separator, quote: Option<char>) -> Vec<&'a str> {
    let plain = |field: &'a str| -> &'a str {
        let field = field.trim();
        let inside = quote.and_then(|q| field.strip_prefix(q)?.strip_suffix(q));
        inside.unwrap_or(field)
    };
    match separator {
        Separator::Blanks => line.split_whitespace().collect(),
        Separator::Text(text) => line.split(text.as_str()).map(plain).collect(),
        Separator::Char(separator) => {
            let mut inside = false;
            let cut = |c: char| {
                inside ^= Some(c) == quote;
                c == *separator && !inside
            };
            line.split(cut).map(plain).collect()
        }
    }
}

/// The fields of each line; none where lines do not have the same number.
fn rows<'a>(lines: &[&'a str], options: &DelimitedOptions) -> Vec<Vec<&'a str>> {
    let cut = |line: &&'a str| fields(line, &options.separator, options.quote);
    let rows: Vec<Vec<&str>> = lines.iter().map(cut).collect();
    let even = rows.windows(2).all(|pair| pair[0].len() == pair[1].len());
    if even { rows } else { Vec::new() }
}

/// All texts stand between single quotes, and none between double ones.
fn quote_of(lines: &[&str], options: &DelimitedOptions) -> Option<char> {
    if options.quote != Some('"') || lines.iter().any(|line| line.contains('"')) {
        return options.quote;
    }
    let mut quoted = 0;
    for line in lines {
        for mark in SEPARATORS {
            let own = line.split(mark).map(str::trim);
            quoted += own
                .filter(|field| field.len() > 1 && field.starts_with('\'') && field.ends_with('\''))
                .count();
        }
    }
    let all: usize = lines.iter().map(|line| line.matches('\'').count()).sum();
    match quoted > 0 && 2 * quoted >= all && lines.len() > 1 {
        true => Some('\''),
        false => options.quote,
    }
}

fn separator_of(lines: &[&str], usual: char, options: &DelimitedOptions) -> Option<Separator> {
    let of = |mark: char| DelimitedOptions {
        separator: Separator::Char(mark),
        ..options.clone()
    };
    let width = |mark: char| rows(lines, &of(mark)).first().map_or(0, Vec::len);
    // A number with a decimal comma is cut in two by commas: more of the fields are numbers where it is not.
    let numbers = |mark: char| {
        let rows = rows(lines, &of(mark));
        let fields = rows.iter().flatten();
        let is_number = |field: &&&str| number(field, '.') || number(field, ',');
        let n = rows.len() * rows.first().map_or(0, Vec::len);
        fields.filter(is_number).count() as f64 / n.max(1) as f64
    };
    let wide: Vec<char> = SEPARATORS
        .into_iter()
        .filter(|&mark| width(mark) > 1)
        .collect();
    if width(usual) > 1 {
        let better = wide
            .iter()
            .find(|&&mark| usual == ',' && mark == ';' && numbers(mark) > numbers(usual));
        return Some(Separator::Char(*better.unwrap_or(&usual)));
    }
    let widest = wide.into_iter().max_by_key(|&mark| width(mark));
    widest
        .map(Separator::Char)
        .or_else(|| by_colons(lines))
        .or_else(|| by_blanks(lines, options.quote))
}

/// Two colons, as in MovieLens.
fn by_colons(lines: &[&str]) -> Option<Separator> {
    let width = lines.first()?.matches("::").count();
    let even = lines.iter().all(|line| line.matches("::").count() == width);
    (width > 0 && even && lines.len() > 2).then(|| Separator::Text("::".to_owned()))
}

/// Numbers with blanks between them. The first line may have one field less, as R writes it: the reader says so.
fn by_blanks(lines: &[&str], quote: Option<char>) -> Option<Separator> {
    let quoted = quote.is_some_and(|mark| lines.iter().any(|line| line.contains(mark)));
    let separator = match quoted {
        true => Separator::Char(' '),
        false => Separator::Blanks,
    };
    let rows: Vec<Vec<&str>> = lines
        .iter()
        .map(|line| fields(line, &separator, quote))
        .collect();
    let width = rows.get(1)?.len();
    let even = rows.len() > 2 && width > 1 && rows[1..].iter().all(|row| row.len() == width);
    let named = rows[0].len() == width || rows[0].len() + 1 == width;
    let fields = || rows[1..].iter().flatten();
    let numbers = fields().filter(|field| number(field, '.')).count();
    (even && named && 2 * numbers > fields().count()).then_some(separator)
}

fn in_words(separator: &Separator) -> String {
    match separator {
        Separator::Char('\t') => "tabs".to_owned(),
        Separator::Blanks | Separator::Char(' ') => "blanks".to_owned(),
        Separator::Char(mark) => format!("{mark:?}"),
        Separator::Text(text) => format!("{text:?}"),
    }
}

/// The mark before decimals: another than the usual one where fields are numbers by that one only.
fn decimal_of(rows: &[Vec<&str>], options: &DelimitedOptions) -> char {
    let other = if options.decimal == '.' { ',' } else { '.' };
    if options.thousands.is_some() || options.separator == Separator::Char(other) {
        return options.decimal;
    }
    let with = |mark: char| {
        let fields = rows.iter().skip(1).flatten();
        fields
            .filter(|field| field.contains(mark) && number(field, mark))
            .count()
    };
    // `1,234` may be a thousand and more.
    let in_thousands = |field: &str| {
        let mut groups = field.trim_start_matches(['+', '-']).split(other);
        groups
            .next()
            .is_some_and(|first| (1..=3).contains(&first.len()) && first != "0")
            && groups.all(|group| group.len() == 3)
    };
    let fields = rows.iter().skip(1).flatten();
    let mut decimals = fields.filter(|field| field.contains(other) && number(field, other));
    let sure = decimals.any(|field| !in_thousands(field));
    if sure && with(options.decimal) == 0 {
        other
    } else {
        options.decimal
    }
}

fn number(field: &str, decimal: char) -> bool {
    let how = Numbers {
        decimal,
        thousands: None,
    };
    how.value(field).is_some_and(f64::is_finite)
}

fn first_lines(rows: &[Vec<&str>], options: &DelimitedOptions) -> FirstLines {
    let missing =
        |field: &str| options.missing.iter().any(|mark| mark == field) || is_stray_mark(field);
    let is_number = |field: &str| number(field, options.decimal);
    // Columns whose cells from a line on are numbers.
    let of_numbers = |from: usize| -> Vec<usize> {
        let width = rows.first().map_or(0, Vec::len);
        let all = |&j: &usize| {
            let mut cells = rows[from..]
                .iter()
                .map(|row| row[j])
                .filter(|cell| !missing(cell))
                .peekable();
            cells.peek().is_some() && cells.all(is_number)
        };
        (0..width).filter(all).collect()
    };
    // Too few lines say nothing.
    if rows.len() < 4 {
        return FirstLines::AsExpected;
    }
    let texts = |line: usize, columns: &[usize]| {
        let own = columns.iter().map(|&j| rows[line][j]);
        own.filter(|cell| !is_number(cell) && !missing(cell))
            .count()
    };
    let columns = of_numbers(1);
    match options.header {
        true if !columns.is_empty() && texts(0, &columns) == 0 => return FirstLines::NoHeader,
        false if !columns.is_empty() && texts(0, &columns) == columns.len() => {
            return FirstLines::Header;
        }
        _ => {}
    }
    let columns = of_numbers(2);
    match options.header && !columns.is_empty() && texts(1, &columns) == columns.len() {
        true => FirstLines::TwoHeaders,
        false => FirstLines::AsExpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> LayoutGuess {
        DelimitedOptions::default().sniffed(text.as_bytes())
    }

    #[test]
    fn separators_and_decimals_are_seen() {
        let char = Separator::Char;
        for (text, separator, decimal) in [
            ("a,b\n1.5,2\n2.5,3\n", char(','), '.'),
            ("a;b\n1,5;2,5\n2,5;1\n", char(';'), ','),
            // Without a header commas would cut all lines in three.
            ("1,5;2,5\n2,5;1,5\n", char(';'), ','),
            ("a;b;c\n1.5;x;2\n2.5;y;1\n", char(';'), '.'),
            ("a\tb\n1.5\t2\n", char('\t'), '.'),
            ("a|b\n1,5|2\n3,25|1\n", char('|'), ','),
            ("a b c\n1 2 3\n4 5.5 6\n", Separator::Blanks, '.'),
            (
                "1::1193::5\n1::661::3\n2::1357::5\n",
                Separator::Text("::".to_owned()),
                '.',
            ),
            // As R writes a table.
            ("a b\n1 1.5 2\n2 2.5 1\n3 3 1\n", Separator::Blanks, '.'),
            ("\"a\" \"b\"\n\"1\" 1.5 2\n\"2\" 2.5 1\n", char(' '), '.'),
            // A column of texts with blanks and commas.
            ("name\nred wine\nwhite wine\nrose wine\n", char(','), '.'),
            ("name;note\nx;\"a, b\"\ny;\"c, d\"\n", char(';'), '.'),
            ("name,note\nx,\"a; b\"\ny,\"c; d\"\n", char(','), '.'),
            // Thousands, perhaps.
            ("a;b\n1,234;x\n12,345;y\n", char(';'), '.'),
            ("a;b\n1,234;x\n0,345;y\n", char(';'), ','),
            // Points and commas: nothing is sure.
            ("a;b\n1.5;1,5\n2.5;2,25\n", char(';'), '.'),
        ] {
            let found = found(text);
            assert_eq!(
                (found.options.separator, found.options.decimal),
                (separator, decimal),
                "{text}"
            );
        }
        let usual = DelimitedOptions {
            separator: Separator::Char(';'),
            decimal: ',',
            ..DelimitedOptions::default()
        };
        let back = usual.sniffed(b"a,b\n1.5,2\n2.5,3\n");
        assert_eq!(
            (back.options.separator, back.options.decimal),
            (Separator::Char(','), '.')
        );
        assert_eq!(back.differs.len(), 2);
        assert_eq!(usual.sniffed(b"a;b\n1;2\n2;3\n").options, usual);
    }

    #[test]
    fn quotes_and_comments_are_seen() {
        let quoted = found("'name','age'\n'Ann',31\n'Bo; B',40\n");
        assert_eq!(
            (quoted.options.quote, quoted.options.separator),
            (Some('\''), Separator::Char(','))
        );
        assert_eq!(
            found("name,age\nO'Hara,31\nBo,40\n").options.quote,
            Some('"')
        );
        assert_eq!(found("# made by x\na,b\n1,2\n").options.comment, Some('#'));
        assert_eq!(found("#,a\n1,2\n2,3\n").options.comment, None);
        assert_eq!(found("a,b\n1,2\n").options.comment, None);
    }

    #[test]
    fn headers_are_compared_with_what_follows() {
        let without = DelimitedOptions {
            header: false,
            ..DelimitedOptions::default()
        };
        let cases = [
            (
                "a,b,y\n1,2,u\n2,3,v\n3,?,u\n",
                FirstLines::AsExpected,
                FirstLines::Header,
            ),
            (
                "1,2,u\n2,3,v\n3,4,u\n4,5,v\n",
                FirstLines::NoHeader,
                FirstLines::AsExpected,
            ),
            (
                "a,b\ncm,kg\n1,2\n2,3\n3,4\n",
                FirstLines::TwoHeaders,
                FirstLines::AsExpected,
            ),
            (
                "x,y\nu,v\nu,w\nv,v\n",
                FirstLines::AsExpected,
                FirstLines::AsExpected,
            ),
            // A year may name a column.
            (
                "town,1999,2000\nA,1.5,2\nB,2.5,3\nC,2.5,3\n",
                FirstLines::NoHeader,
                FirstLines::AsExpected,
            ),
        ];
        for (text, with_header, no_header) in cases {
            assert_eq!(found(text).first_lines, with_header, "{text}");
            assert_eq!(
                without.sniffed(text.as_bytes()).first_lines,
                no_header,
                "{text}"
            );
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        for bytes in [
            &b""[..],
            b"\n\n",
            b"\xff\xfe\x00",
            b"\x1f\x8b",
            b"a",
            &[b','; 100_000],
        ] {
            let found = DelimitedOptions::default().sniffed(bytes);
            assert_eq!(found.first_lines, FirstLines::AsExpected);
        }
    }
}
