//! Standard output and standard error. Texts from files and plugins can contain control characters, which are escaped
//! for the terminal.

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Writes lines to standard output.
pub fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush())
}

/// Prints an error on standard error. A failure to do so cannot be reported anywhere.
pub fn complain(text: &str) {
    let _lost = io::stderr().write_all(printable(text).as_bytes());
}

/// Escapes control characters other than the ends of lines, as JSON does.
pub fn printable(text: &str) -> String {
    escape(text, |c| c.is_control() && c != '\n')
}

/// Escapes control characters of what has to stay in one line.
pub fn one_line(text: &str) -> String {
    escape(text, char::is_control)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            let _infallible = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_in_json() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}1m\r\t\u{7f}…\n"), "a\\u001b[2J\\u009b1m\\u000d\\u0009\\u007f…\n");
        assert_eq!(one_line("a\nb"), "a\\u000ab");
        let document = serde_json::json!({"a": "\u{1b}\u{9b}\u{7f}\n"});
        let read: serde_json::Value = serde_json::from_str(&printable(&document.to_string())).expect("JSON");
        assert_eq!(read, document);
    }
}
