//! A small lexer: identifiers and punctuation of a Rust file with their lines; comments and literals are left out, so
//! that a rule never fires on prose or on a string.

/// An identifier, or one punctuation character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// Splits `source` into its tokens.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
    };
    let mut found = Vec::new();
    while let Some(c) = lexer.peek(0) {
        if lexer.skip_trivia_or_literal(c) {
            continue;
        }
        let (start, line) = (lexer.at, lexer.line);
        if is_ident(c) {
            lexer.skip_while(is_ident);
        } else {
            lexer.bump();
        }
        found.push(Token {
            text: &source[start..lexer.at],
            line,
        });
    }
    found
}

/// The brace that closes the block opened at `open`; none in a file that is cut off.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// Lines at which the sequence `wanted` starts.
pub(crate) fn find(tokens: &[Token<'_>], wanted: &[&str]) -> Vec<usize> {
    tokens
        .windows(wanted.len())
        .filter(|window| window.iter().zip(wanted).all(|(t, w)| t.text == *w))
        .map(|window| window[0].line)
        .collect()
}

/// Lines at which `wanted` is named inside the bracket that follows `opening`, e.g. a lint inside `allow ( ... )`.
pub(crate) fn find_inside(tokens: &[Token<'_>], opening: &[&str], wanted: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for start in 0..tokens.len() {
        let starts_here = tokens.len() - start >= opening.len()
            && opening
                .iter()
                .zip(&tokens[start..])
                .all(|(w, t)| t.text == *w);
        if !starts_here {
            continue;
        }
        let mut depth = 1;
        for token in &tokens[start + opening.len()..] {
            match token.text {
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth -= 1,
                text if text == wanted => lines.push(token.line),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    lines
}

fn is_ident(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn bump(&mut self) {
        if let Some(c) = self.peek(0) {
            self.at += c.len_utf8();
            self.line += usize::from(c == '\n');
        }
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&keep) {
            self.bump();
        }
    }

    /// Skips up to and including `end`, or to the end of the file.
    fn skip_past(&mut self, end: &str) {
        let stop = match self.rest().find(end) {
            Some(offset) => self.at + offset + end.len(),
            None => self.source.len(),
        };
        while self.at < stop {
            self.bump();
        }
    }

    fn skip_trivia_or_literal(&mut self, c: char) -> bool {
        if c.is_whitespace() {
            self.bump();
        } else if self.rest().starts_with("//") {
            self.skip_while(|c| c != '\n');
        } else if self.rest().starts_with("/*") {
            self.skip_block_comment();
        } else if c == '"' {
            self.skip_quoted('"');
        } else if c == '\'' {
            self.skip_char_or_lifetime();
        } else if c.is_ascii_digit() {
            self.skip_while(is_ident);
        } else {
            return self.skip_prefixed_literal();
        }
        true
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let step = if self.rest().starts_with("/*") {
                depth += 1;
                2
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                2
            } else {
                1
            };
            for _ in 0..step {
                self.bump();
            }
            if depth == 0 || self.rest().is_empty() {
                return;
            }
        }
    }

    /// A literal from its opening quote to its closing one; a backslash protects the next character.
    fn skip_quoted(&mut self, quote: char) {
        self.bump();
        while let Some(c) = self.peek(0) {
            self.bump();
            if c == '\\' {
                self.bump();
            } else if c == quote {
                return;
            }
        }
    }

    fn skip_char_or_lifetime(&mut self) {
        let is_char = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        if is_char {
            self.skip_quoted('\'');
        } else {
            self.bump();
            self.skip_while(is_ident);
        }
    }

    /// `b"..."`, `c"..."`, `b'.'`, `r"..."`, `br#"..."#` and their like.
    fn skip_prefixed_literal(&mut self) -> bool {
        let prefix_len = self
            .rest()
            .bytes()
            .take_while(|b| matches!(b, b'b' | b'c' | b'r'))
            .count();
        if prefix_len == 0 || prefix_len > 2 {
            return false;
        }
        let raw = self.rest()[..prefix_len].ends_with('r');
        let after = &self.rest()[prefix_len..];
        let hashes = after.bytes().take_while(|b| *b == b'#').count();
        match after[hashes..].chars().next() {
            Some('"') if raw => {
                let end = format!("\"{}", "#".repeat(hashes));
                self.at += prefix_len + hashes + 1;
                self.skip_past(&end);
                true
            }
            Some(quote @ ('"' | '\'')) if !raw && hashes == 0 => {
                self.at += prefix_len;
                self.skip_quoted(quote);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let source = r####"
            a // dbg!(1)
            /* one /* nested */ still out */ b
            "text \" more" c 'x' d '\'' e b'"' f
            r#"raw " quote"# g br"\" h
        "####;
        assert_eq!(texts(source), ["a", "b", "c", "d", "e", "f", "g", "h"]);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_do_not_open_literals() {
        let found = texts("fn f<'a>(x: &'a str) { r#type; } done");
        assert_eq!(found.last(), Some(&"done"));
        assert!(found.contains(&"type"));
    }

    #[test]
    fn lines_are_counted_through_every_kind_of_literal() {
        let source = "\"one\ntwo\"\n/* three\n */ r\"\n\" here";
        assert_eq!(
            tokens(source),
            [Token {
                text: "here",
                line: 5
            }]
        );
    }

    #[test]
    fn sequences_are_found_with_their_line() {
        let found = tokens("x\n#[allow(unused, dead)]\nfn a() {}\n#[deny(dead)]");
        assert_eq!(find(&found, &["fn", "a"]), [3]);
        assert_eq!(find_inside(&found, &["allow", "("], "dead"), [2]);
    }
}
