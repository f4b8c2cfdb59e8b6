//! How a file is recognized as this program, in whichever release.
//!
//! Every release contains a mark with its version. Reading a file is safer than running it, and works for other processors too.

use std::hint::black_box;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The mark of this release.
const MARK: &str = concat!("\0cni-plugins-rs, the release ", env!("CARGO_PKG_VERSION"), "\0");
const END: u8 = b'\0';

/// The longest version that is looked for.
const LONGEST: usize = 64;

/// How the mark of every release begins. It is cut from the mark of this one, so that the program contains it as a whole.
fn start() -> &'static [u8] {
    let mark = black_box(MARK).as_bytes();
    &mark[..mark.len() - VERSION.len() - 1]
}

/// The version of this program in a file; `None` if the file is another program.
pub fn version(content: &[u8]) -> Option<String> {
    starts(content).find_map(|after| {
        let end = after.iter().take(LONGEST).position(|byte| *byte == END)?;
        let version = std::str::from_utf8(&after[..end]).ok()?;
        let is_version = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
        (version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_version))
            .then(|| version.to_owned())
    })
}

/// What follows each occurrence of [`start`].
fn starts(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = start();
    let mut rest = content;
    std::iter::from_fn(move || {
        loop {
            // Few bytes are the letter that comes second.
            let at = rest.iter().skip(1).position(|byte| *byte == start[1])?;
            let candidate = &rest[at..];
            rest = &rest[at + 1..];
            if let Some(after) = candidate.strip_prefix(start) {
                return Some(after);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_mark_counts() {
        let own = [b"\x7fELF\0cccc", MARK.as_bytes(), b"more"].concat();
        assert_eq!(version(&own).as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(version(&[start(), b"\0", start(), b"0.9.1-rc1\0"].concat()).as_deref(), Some("0.9.1-rc1"));
        let (cut, word) = (b"\0cni-plugins-rs, the release 1.0", [start(), b"one\0"].concat());
        for other in [&b""[..], b"\0", start(), cut, b"\x7fELF\0cni", &word] {
            assert_eq!(version(other), None, "{}", other.escape_ascii());
        }
    }
}
