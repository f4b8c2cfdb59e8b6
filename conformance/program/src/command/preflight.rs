//! Checks that cases can run on this machine.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cni_conformance::binaries::HIDDEN;
use cni_conformance::case::Subject;
use cni_conformance::plugins;
use serde_json::Value;

/// Why no case can run.
pub type Problem = String;

/// The programs that private hosts are made with, and Debian's packages of them.
const PROGRAMS: [(&str, &str); 4] = [
    ("/usr/sbin/xtables-nft-multi", "iptables"),
    ("/usr/sbin/nft", "nftables"),
    ("/bin/ip", "iproute2"),
    ("/sbin/tc", "iproute2"),
];

/// Returns the folder of plugins by its true path.
pub fn folder(option: &str, given: &Path) -> Result<PathBuf, Problem> {
    let folder = given.canonicalize().map_err(|error| format!("{option} {}: {error}", given.display()))?;
    let found = executables(&folder).map_err(|error| format!("{option} {}: {error}", folder.display()))?;
    if found.is_empty() {
        return Err(format!("{option} {} has no program in it", folder.display()));
    }
    Ok(folder)
}

/// Returns the folder of plugins by its true path, which private hosts see as well.
pub fn visible_folder(option: &str, given: &Path) -> Result<PathBuf, Problem> {
    let folder = folder(option, given)?;
    if is_hidden(&folder) {
        let (shown, hidden) = (folder.display(), HIDDEN.join(" and "));
        return Err(format!("{option} {shown}: private hosts hide {hidden}: copy the plugins elsewhere"));
    }
    Ok(folder)
}

/// Whether private hosts have an empty folder in its place, or above it.
pub fn is_hidden(folder: &Path) -> bool {
    HIDDEN.iter().any(|hidden| folder.starts_with(hidden))
}

/// Requires root, and the programs that private hosts are made with.
pub fn machine() -> Result<(), Problem> {
    if !nix::unistd::geteuid().is_root() {
        return Err("this kernel does not let users make private hosts: run it with sudo".to_owned());
    }
    match PROGRAMS.iter().find(|(program, _)| !Path::new(program).exists()) {
        Some((program, package)) => Err(format!("{program} is missing: install the package {package}")),
        None => Ok(()),
    }
}

/// Returns the names of the programs of a folder, in order.
pub fn executables(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::metadata(&path)?;
        if about.is_file() && about.permissions().mode() & 0o111 != 0 {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the plugin that a configuration is for.
pub fn foreign(file: &Path) -> Result<Subject, Problem> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("--config {shown}: {error}"))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("--config {shown}: {error}"))?;
    let plugin = value["type"].as_str().ok_or_else(|| {
        format!("--config {shown} has no `type`: it must be the configuration of one plugin, and no list")
    })?;
    if plugins::ALL.contains(&plugin) {
        return Err(format!("--config {shown} is of {plugin}, which this program knows"));
    }
    Ok(Subject::foreign(plugin, &value))
}
