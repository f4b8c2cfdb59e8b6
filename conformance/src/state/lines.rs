//! The difference of two lists of lines.
//!
//! It uses the longest common subsequence after removing equal beginnings and ends: snapshots of a busy host are long
//! and differ in few lines.

/// Returns the lines that must go (`- `) and come (`+ `) to make `after` of `before`, keeping as
/// many lines in their order as possible.
pub fn differences(before: &[String], after: &[String]) -> Vec<String> {
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (before, after) = (&before[head..], &after[head..]);
    let tail = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
    walk(&before[..before.len() - tail], &after[..after.len() - tail])
}

fn walk(before: &[String], after: &[String]) -> Vec<String> {
    let kept = common_lengths(before, after);
    let (mut a, mut b) = (0, 0);
    let mut changes = Vec::new();
    while a < before.len() || b < after.len() {
        if a < before.len() && b < after.len() && before[a] == after[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == after.len() || (a < before.len() && kept[a + 1][b] >= kept[a][b + 1]) {
            changes.push(format!("- {}", before[a]));
            a += 1;
        } else {
            changes.push(format!("+ {}", after[b]));
            b += 1;
        }
    }
    changes
}

/// Returns, for each pair of positions, how many lines both lists share from there on.
fn common_lengths(before: &[String], after: &[String]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; after.len() + 1]; before.len() + 1];
    for a in (0..before.len()).rev() {
        for b in (0..after.len()).rev() {
            lengths[a][b] = if before[a] == after[b] {
                lengths[a + 1][b + 1] + 1
            } else {
                lengths[a + 1][b].max(lengths[a][b + 1])
            };
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::differences;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn equal_lists_do_not_differ() {
        assert_eq!(differences(&lines("a b c"), &lines("a b c")), Vec::<String>::new());
    }

    #[test]
    fn a_moved_line_goes_and_comes() {
        assert_eq!(differences(&lines("a b c d"), &lines("a c b d")), ["- b", "+ b"]);
    }

    #[test]
    fn changed_lines_are_named_once() {
        assert_eq!(differences(&lines("a b b c"), &lines("x a b c y")), ["+ x", "- b", "+ y"]);
    }
}
