//! The manual page, from the table of verbs, in the words of man(7).

use std::fmt::Write as _;

use super::VerbSpec;
use super::usage::{statuses, synopsis};

/// The page `cni-plugins(8)`.
pub fn page(version: &str, plugins: &[&str], verbs: &[VerbSpec]) -> String {
    let mut page = format!(
        ".TH CNI-PLUGINS 8 \"\" \"cni-plugins-rs {version}\" \"System administration\"\n\
         .SH NAME\ncni-plugins \\- CNI plugins in one program, and the tool of their administrator\n\
         .SH SYNOPSIS\n.B cni-plugins\n.I verb\n[options]\n\
         .SH DESCRIPTION\nStarted under the name of a plugin, the program is that plugin, for a CNI runtime to call:\n{}.\n\
         .PP\nStarted under its own name, it shows and mends what the plugins have made on this host.\n\
         .SH VERBS\n",
        escaped(&plugins.join(", "))
    );
    for verb in verbs {
        let _infallible = write!(page, ".SS {}\n{}\n", escaped(&synopsis(verb)), paragraphs(verb.about));
        for option in verb.options {
            let _infallible = write!(page, ".TP\n.B {}\n{}\n", escaped(&option.form()), filled(option.help));
        }
        for (status, meaning) in
            statuses(verb).iter().filter(|(status, _)| verb.statuses.iter().any(|own| own.0 == *status))
        {
            let _infallible = write!(page, ".TP\nExit status {status}\n{}\n", escaped(meaning));
        }
    }
    page + ".SH EXIT STATUS\n0 success; 1 something failed, and standard error says what; 2 wrong command line; others as \
            the verb says.\n\
            .SH FILES\n.TP\n.I /var/lib/cni/results\nwhat runtimes that use libcni remember of each attachment\n\
            .TP\n.I /run/cni/.cni-plugins-rs\nwhat these plugins have recorded since the last boot\n\
            .SH ENVIRONMENT\n.TP\n.B CNI_PLUGINS_LOG\nhow much is logged on standard error: error, warn (unless set), info, \
            debug, trace or off\n"
}

/// Text whose lines are filled anew, with paragraphs between empty lines.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(filled).collect::<Vec<_>>().join("\n.PP\n")
}

fn filled(text: &str) -> String {
    text.lines().map(|line| escaped(line.trim())).collect::<Vec<_>>().join("\n")
}

/// Text in which nothing is a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
