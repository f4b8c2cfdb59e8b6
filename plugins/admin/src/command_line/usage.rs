//! What `--help` prints of a verb.

use super::{FAILURE, USAGE, ValueSpec, VerbSpec};

/// The form of a command line.
pub fn synopsis(verb: &VerbSpec) -> String {
    let word = if verb.words.is_empty() { String::new() } else { format!(" {}", verb.words.join("|")) };
    let options: String = verb.options.iter().map(|option| format!(" [{}]", option.form())).collect();
    format!("cni-plugins {}{word}{options}", verb.name)
}

/// The whole page.
pub fn page(verb: &VerbSpec) -> String {
    let mut page = format!("usage: {}\n\n{}\n", synopsis(verb), verb.about);
    if !verb.options.is_empty() {
        page.push('\n');
    }
    let width = verb.options.iter().map(|option| option.form().len()).max().unwrap_or_default();
    for option in verb.options {
        let help = option.help.replace('\n', &format!("\n{:1$}", "", width + 4));
        page.push_str(&format!("  {:width$}  {help}\n", option.form()));
    }
    page.push_str("\nexit status:\n");
    for (status, meaning) in statuses(verb) {
        page.push_str(&format!("  {status}  {meaning}\n"));
    }
    page
}

/// Every exit status of a verb, in order.
pub fn statuses(verb: &VerbSpec) -> Vec<(u8, &'static str)> {
    let has = |wanted: u8| verb.statuses.iter().any(|(status, _)| *status == wanted);
    let mut all = verb.statuses.to_vec();
    let common =
        [(0, "success"), (FAILURE, "something failed; standard error says what"), (USAGE, "wrong command line")];
    all.extend(common.into_iter().filter(|(status, _)| !has(*status)));
    all.sort_by_key(|(status, _)| *status);
    all
}

/// Whether a verb has a value of this kind.
pub fn is_folder(value: ValueSpec) -> bool {
    matches!(value, ValueSpec::Folder(_))
}
