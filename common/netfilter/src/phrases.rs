//! Makes texts of programs and of the kernel fit for messages.

/// A program's words on one line, without those that make go-cni take a failed DEL for a success.
pub fn without_swallowed_phrases(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("not found", "missing").replace("o such file or directory", "o such thing")
}
