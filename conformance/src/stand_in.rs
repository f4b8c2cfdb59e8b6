//! Scripts in place of missing plugins, beside those under test.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::{binaries, plugins, script};

/// Makes a folder with the plugins under test and this one, a shell script.
///
/// # Panics If it is one of these plugins, whose test needs no script.
#[track_caller]
pub fn install(name: &str, lines: &str) -> PathBuf {
    assert!(!plugins::ALL.contains(&name), "{name} is there now: run it in place of the script");
    let folder = Path::new("/run/conformance/opt");
    fs::create_dir_all(folder).expect("a folder for plugins");
    let under_test = binaries::under_test();
    for plugin in fs::read_dir(&under_test).expect("list the plugins").flatten() {
        match symlink(plugin.path(), folder.join(plugin.file_name())) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked.expect("a link to a plugin"),
        }
    }
    script::install(&folder.join(name), lines);
    folder.to_owned()
}
