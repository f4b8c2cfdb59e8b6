//! `better`: prints the page of differences to the reference. Rows that cases show are written from their `differs:` lines; what comes before
//! them in the page is written by people, for what no case shows.

use cni_conformance::case::Case;

use crate::embedded::cases;

/// The page as it was when this program was built.
const PAGE: &str = include_str!("../../../BETTER.md");

/// What divides the page.
const MARK: &str =
    "<!-- `cni-conformance better` writes the rest of this page from the lines `differs:` of cases. -->\n";

/// Prints the page.
pub fn run() {
    print!("{}", page());
}

fn page() -> String {
    let by_hand = PAGE.split(MARK).next().unwrap_or(PAGE).trim_end();
    let mut page = format!("{by_hand}\n\n{MARK}\n# Shown by cases\n");
    let all = cases();
    for of_folder in all.chunk_by(|a, b| folder(a) == folder(b)) {
        let rows: Vec<String> = of_folder.iter().filter_map(row).collect();
        let title = if folder(&of_folder[0]) == "spec" { "The SPEC" } else { folder(&of_folder[0]) };
        if !rows.is_empty() {
            page.push_str(&format!(
                "\n## {title}, by cases\n\n| the reference v1.9.1 | here | shown by |\n|---|---|---|\n"
            ));
            page.extend(rows);
        }
    }
    page
}

fn folder(case: &Case) -> &str {
    case.name.split('/').next().unwrap_or_default()
}

fn row(case: &Case) -> Option<String> {
    let text = case.differs.as_deref()?.trim_end_matches('.').replace('|', "\\|");
    let (theirs, ours) = text.split_once("; here ").map_or((text.as_str(), ""), |(theirs, ours)| (theirs, ours));
    // A case that says nothing of ours says it in its comment.
    let ours = if ours.is_empty() { case.about.trim_end_matches('.').replace('|', "\\|") } else { ours.to_owned() };
    Some(format!("| {theirs} | {ours} | `{}.case` |\n", case.name))
}

#[cfg(test)]
mod tests {
    use super::{PAGE, page};

    #[test]
    fn the_page_is_what_the_cases_say() {
        assert!(
            PAGE == page(),
            "write it again: cargo run -p cni-conformance-program -- better >/tmp/page && cp /tmp/page conformance/BETTER.md"
        );
    }
}
