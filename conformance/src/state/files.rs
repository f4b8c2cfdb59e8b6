//! Files and folders that plugins may leave.
//!
//! All of `/run` is listed, so that a forgotten temporary file or lock is found anywhere, with the content of files,
//! since leases are files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::sandbox::OWN;

const ROOTS: [&str; 2] = ["/run", "/var/lib/cni"];

/// The harness's own files, mounted namespaces, the lock file of iptables, and the time of the last repair.
const FOREIGN: [&str; 4] = [OWN, "/run/netns", "/run/xtables.lock", "/run/cni/.cni-plugins-rs/repaired"];

/// The plugins' folder below `/run`. Its folders and the file of locks stay.
const RECORDS: &str = "/run/cni/.cni-plugins-rs";

/// The stamp of host-local's index, which changes at every call: only its type is compared.
const INDEX_AGE: &str = ".cni-plugins-rs/stamp";

/// The folder of what is recorded of each attachment.
const LEDGER: &str = "/ledger/";

/// Returns one line per file or folder: path, mode, and the content of files.
pub(super) fn read() -> Vec<String> {
    let mut lines = Vec::new();
    for root in ROOTS {
        walk(Path::new(root), &mut lines);
    }
    lines.sort();
    lines
}

fn walk(folder: &Path, lines: &mut Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("read a folder's list").path();
        if FOREIGN.iter().any(|foreign| path == Path::new(foreign)) {
            continue;
        }
        let about = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("stat {}: {error}", path.display()));
        let mode = about.permissions().mode();
        let mut line = format!("{} {mode:o}", path.display());
        if about.is_file() {
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
            let text = String::from_utf8_lossy(&bytes);
            let Some(text) = without_time(&path, &text) else { continue };
            line.push_str(&format!(" {text:?}"));
        }
        let is_lock = line.strip_prefix(RECORDS) == Some("/work.lock 100600 \"\"");
        let is_own_folder = mode == 0o40700 && path.starts_with(RECORDS);
        if !is_lock && !is_own_folder {
            lines.push(line);
        }
        if about.is_dir() {
            walk(&path, lines);
        }
    }
}

/// The content of a file without what changes at every call.
fn without_time(path: &Path, text: &str) -> Option<String> {
    if path.ends_with(INDEX_AGE) {
        return text.split('\t').next().map(str::to_owned);
    }
    if !path.to_string_lossy().contains(LEDGER) {
        return Some(text.to_owned());
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let before = lines.len();
    lines.retain(|line| !line.starts_with("refusal "));
    let is_refusal = lines.len() < before && lines.len() == 2;
    for line in lines.iter_mut().skip(2) {
        let mut words: Vec<&str> = line.split(' ').collect();
        let kind = words[0].split('-').next();
        let time = match kind {
            Some("added") => 2,
            Some("deletion" | "port") => 1,
            _ => continue,
        };
        words.get_mut(time).into_iter().for_each(|word| *word = "TIME");
        *line = words.join(" ");
    }
    (!is_refusal).then(|| lines.join("\n"))
}
