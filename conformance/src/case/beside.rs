//! Two texts side by side.

/// The widest column, in letters.
const WIDEST: usize = 90;

/// Sets expected and found lines side by side: `|` between lines that differ, `<` behind one that is missing, `>` before one too many.
pub fn set(expected: &[String], found: &[String]) -> String {
    let mut rows = vec![("expected".to_owned(), ' ', "found".to_owned())];
    let (mut left, mut right) = (expected, found);
    while let (Some(first), Some(other)) = (left.first(), right.first()) {
        let (is_later, was_later) = (right.contains(first), left.contains(other));
        let (word, takes) = match (first == other, is_later, was_later) {
            (true, ..) => (' ', (1, 1)),
            (false, true, false) => ('>', (0, 1)),
            (false, false, true) => ('<', (1, 0)),
            (false, ..) => ('|', (1, 1)),
        };
        let text = |line: &String, takes: usize| if takes == 1 { line.clone() } else { String::new() };
        rows.push((text(first, takes.0), word, text(other, takes.1)));
        (left, right) = (&left[takes.0..], &right[takes.1..]);
    }
    rows.extend(left.iter().map(|line| (line.clone(), '<', String::new())));
    rows.extend(right.iter().map(|line| (String::new(), '>', line.clone())));
    let width = rows.iter().map(|(left, ..)| left.chars().count()).max().unwrap_or_default().min(WIDEST);
    let lines = rows.iter().map(|(left, word, right)| format!("{left:width$} {word} {right}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn lines_that_are_alike_stand_beside_each_other() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let shown = set(&lines("a b c dd"), &lines("a x b c e f"));
        let expected =
            "expected   found\na          a\n         > x\nb          b\nc          c\ndd       | e\n         > f";
        assert_eq!(shown, expected);
        assert_eq!(set(&lines("a b"), &lines("a")), "expected   found\na          a\nb        <");
    }
}
