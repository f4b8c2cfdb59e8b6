//! The words of a command.

/// Splits a line into words, as a shell does: what stands in quotes of either kind is one word.
///
/// # Errors
/// For a quote without its end.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(format!("a quote has no end: {line}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(
            split(r#"error 7 "a 'b'" c='{"d": 1}' ''"#).expect("words"),
            ["error", "7", "a 'b'", "c={\"d\": 1}", ""]
        );
        split("a 'b").expect_err("no end");
    }
}
