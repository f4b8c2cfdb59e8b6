//! The words of a source file, without comments, texts and what is compiled for tests alone.

/// Names, `::`, and single characters.
pub fn of(source: &str) -> Vec<String> {
    without_tests(&words(source))
}

fn words(source: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest).unwrap_or_else(|| {
            let length = word(rest, first);
            words.push(rest[..length].to_owned());
            length
        });
        rest = &rest[length..];
    }
    words
}

/// The length of what means nothing here: blanks, comments, texts, characters, lifetimes.
fn skipped(rest: &str) -> Option<usize> {
    let first = rest.chars().next()?;
    match first {
        _ if first.is_whitespace() => Some(first.len_utf8()),
        '/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => Some(rest.find("*/").map_or(rest.len(), |end| end + 2)),
        '"' => Some(text(rest)),
        'r' if rest.starts_with("r\"") || rest.starts_with("r#\"") => Some(raw(rest)),
        'b' if rest.starts_with("b\"") => Some(1 + text(&rest[1..])),
        '\'' => Some(character(rest)),
        _ => None,
    }
}

fn word(rest: &str, first: char) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    match first {
        _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
        ':' if rest.starts_with("::") => 2,
        _ => first.len_utf8(),
    }
}

/// The length of a text in double quotes.
fn text(rest: &str) -> usize {
    let mut escaped = true;
    let end = rest.char_indices().find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = (*c == '\\' && !escaped) || (escaped && *c == '"' && ends);
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

fn raw(rest: &str) -> usize {
    let (start, end) = if rest.starts_with("r#") { (3, "\"#") } else { (2, "\"") };
    rest[start..].find(end).map_or(rest.len(), |at| start + at + end.len())
}

/// A character in quotes, or the quote that begins a lifetime.
fn character(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escape)) => {
            let behind = 2 + escape.len_utf8();
            rest[behind..].find('\'').map_or(rest.len(), |at| behind + at + 1)
        }
        (Some(one), Some('\'')) => one.len_utf8() + 2,
        _ => 1,
    }
}

const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn without_tests(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at..].iter().zip(TEST).filter(|(word, wanted)| word == wanted).count() == TEST.len() {
            at += TEST.len() + item(&words[at + TEST.len()..]);
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

/// How many words an item has: up to its `;`, or to the brace that closes it.
fn item(words: &[String]) -> usize {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return at + 1 + usize::from(words.get(at + 1).is_some_and(|next| next == ";"));
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    words.len()
}
