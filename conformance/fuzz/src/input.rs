//! An input of several documents, separated by lines with only `%%`, so that people can read and write seeds.

use std::borrow::Cow;

/// What separates two documents.
const SEPARATOR: &[u8] = b"\n%%\n";

/// The documents of an input; the last ones may be missing.
pub struct Documents<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Documents<'a> {
    pub const fn new(input: &'a [u8]) -> Self {
        Self { rest: Some(input) }
    }

    /// The next document as text; bytes that are not UTF-8 are replaced.
    pub fn text(&mut self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.next().unwrap_or_default())
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let bytes = self.rest.take()?;
        let at = bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let Some(at) = at else { return Some(bytes) };
        self.rest = Some(&bytes[at + SEPARATOR.len()..]);
        Some(&bytes[..at])
    }
}
