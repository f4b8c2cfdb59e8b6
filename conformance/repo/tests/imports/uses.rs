//! `use` declarations, taken apart.

/// One name that a `use` brings in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Where it is from, as written.
    pub path: Vec<String>,
    /// The name here.
    pub name: String,
}

/// The `use` declarations of a file, and its other words.
pub fn split(words: &[String]) -> (Vec<Use>, Vec<String>) {
    let (mut uses, mut others) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            let end = at + words[at..].iter().position(|word| word == ";").unwrap_or(words.len() - at);
            tree(&words[at + 1..end], &[], &mut uses);
            at = end + 1;
        } else {
            others.push(words[at].clone());
            at += 1;
        }
    }
    (uses, others)
}

/// Takes one tree of a `use` apart: `a::{self, b as c, d::*}`.
fn tree(words: &[String], above: &[String], uses: &mut Vec<Use>) {
    if let Some(open) = words.iter().position(|word| word == "{") {
        let path = joined(above, &words[..open]);
        branches(&words[open + 1..words.len() - 1]).into_iter().for_each(|branch| tree(branch, &path, uses));
        return;
    }
    let (path, name) = match words {
        [path @ .., r#as, name] if r#as == "as" => (joined(above, path), name.clone()),
        _ => (joined(above, words), words.last().cloned().unwrap_or_default()),
    };
    let (path, name) = match path.as_slice() {
        [above @ .., last] if last == "self" && !above.is_empty() => {
            (above.to_vec(), if name == "self" { above[above.len() - 1].clone() } else { name })
        }
        _ => (path, name),
    };
    if !path.is_empty() {
        uses.push(Use { path, name });
    }
}

fn joined(above: &[String], words: &[String]) -> Vec<String> {
    above.iter().chain(words.iter().filter(|word| *word != "::")).cloned().collect()
}

/// The parts between the commas that are in no brace.
fn branches(words: &[String]) -> Vec<&[String]> {
    let mut depth = 0;
    let parts = words.split(|word| {
        depth += i32::from(word == "{") - i32::from(word == "}");
        word == "," && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}
