//! Measures for which share of the time each lock of the plugins is held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directories with files that plugins lock.
const DIRECTORIES: [&str; 2] = ["/run/cni", "/var/lib/cni"];

/// How many locks are shown.
const SHOWN: usize = 3;

/// After so many looks the names of the files are read again: some files are removed before the end.
const LOOKS_PER_NAMING: usize = 8;

/// How often each lock was held.
#[derive(Default)]
pub struct LockSamples {
    looks: usize,
    held: BTreeMap<String, usize>,
    names: BTreeMap<String, PathBuf>,
}

/// The file of a lock that is held, as device and inode. Locks of single bytes are left out: each attachment has a byte of
/// its own.
fn whole_file(line: &str) -> Option<&str> {
    // `1: FLOCK  ADVISORY  WRITE 11666 00:3b:13 0 EOF`, with an arrow behind the number for one that waits.
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, kind, .., file, "0", "EOF"] if kind != "->" => Some(file),
        _ => None,
    }
}

impl LockSamples {
    /// Looks at all locks of the machine.
    pub fn look(&mut self) {
        if self.looks.is_multiple_of(LOOKS_PER_NAMING) {
            self.names.extend(names());
        }
        self.looks += 1;
        let locks = fs::read_to_string("/proc/locks").expect("the locks of the machine");
        let files: BTreeSet<&str> = locks.lines().filter_map(whole_file).collect();
        for file in files {
            *self.held.entry(file.to_owned()).or_default() += 1;
        }
    }

    /// The locks that were held longest, each with the part of the time.
    pub fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut known: Vec<_> = self.held.iter().filter_map(|(id, held)| Some((*held, self.names.get(id)?))).collect();
        known.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
        for (held, path) in known.into_iter().take(SHOWN) {
            let part = 100.0 * held as f64 / self.looks.max(1) as f64;
            writeln!(f, "  {part:>5.1} % of the time held: {}", path.display())?;
        }
        Ok(())
    }
}

/// The files of the plugins, by device and inode.
fn names() -> BTreeMap<String, PathBuf> {
    let mut names = BTreeMap::new();
    let mut left: Vec<PathBuf> = DIRECTORIES.map(PathBuf::from).to_vec();
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        names.insert(id(&metadata), path.clone());
        if metadata.is_dir() {
            left.extend(entries(&path));
        }
    }
    names
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn id(metadata: &fs::Metadata) -> String {
    let device = metadata.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    format!("{major:02x}:{minor:02x}:{}", metadata.ino())
}
