//! Scripts in the place of plugins that are not there, beside ours.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni_conformance::{binaries, plugins, script};

/// Makes a folder with our plugins and this one, of lines of shell.
///
/// # Panics
/// When it is one of ours by now, whose test needs no script.
#[track_caller]
pub fn install(name: &str, lines: &str) -> PathBuf {
    assert!(!plugins::ALL.contains(&name), "{name} is there now: run it in place of the script");
    let folder = Path::new("/run/conformance/opt");
    fs::create_dir_all(folder).expect("a folder for plugins");
    for plugin in plugins::ALL {
        symlink(binaries::under_test().join(plugin), folder.join(plugin)).expect("a link to a plugin");
    }
    script::install(&folder.join(name), lines);
    folder.to_owned()
}
