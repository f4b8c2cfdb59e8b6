//! The network configurations on disk, as runtimes read them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where most runtimes, and Nomad, look for them.
const FOLDERS: [&str; 2] = ["/etc/cni/net.d", "/opt/cni/config"];

/// More than a configuration file has.
const MOST_BYTES: u64 = 1 << 20;

/// The lists, and the single configurations, of one folder or of the usual ones. A file that cannot be read is `doctor`'s to report.
pub fn lists(folder: Option<&Path>) -> impl Iterator<Item = Value> {
    all_files(folder).into_iter().filter_map(|file| serde_json::from_str(&read(&file).ok()?).ok())
}

/// The files of one folder, or of the usual ones.
pub fn all_files(folder: Option<&Path>) -> Vec<PathBuf> {
    let folders = folder.map_or_else(|| FOLDERS.map(Path::new).to_vec(), |folder| vec![folder]);
    folders.into_iter().flat_map(files).collect()
}

/// The plugins of a list, or the single one.
pub fn plugins(list: &Value) -> Vec<Value> {
    list.get("plugins").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![list.clone()])
}

/// A plugin's configuration with the name of its network.
pub fn named(list: &Value, plugin: &Value) -> Value {
    let mut config = plugin.clone();
    if let (Some(keys), Some(name)) = (config.as_object_mut(), list.get("name")) {
        keys.insert("name".to_owned(), name.clone());
    }
    config
}

/// The files that libcni reads.
fn files(folder: &Path) -> Vec<PathBuf> {
    let is_read =
        |path: &PathBuf| path.extension().is_some_and(|end| ["conf", "conflist", "json"].iter().any(|one| end == *one));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_read).collect();
    files.sort();
    files
}

/// Reads a configuration file, of a network or of a runtime. A pipe would be waited for, and a device may never end.
///
/// # Errors
/// Also when it is not a regular file, too large, or not text.
pub fn read(file: &Path) -> io::Result<String> {
    let content = cni_files::read_at_most(MOST_BYTES, file).map_err(|error| error.source)?;
    String::from_utf8(content).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_or_without_end_is_not_read() {
        let large = tempfile::NamedTempFile::new().expect("a file");
        large.as_file().set_len(MOST_BYTES + 1).expect("a sparse file");
        let said = |path: &Path| read(path).map(|text| text.len()).expect_err("refused").to_string();
        let why = ["it is not a regular file", "Is a directory (os error 21)", "it has more than 1048576 bytes"];
        assert_eq!([Path::new("/dev/zero"), Path::new("/"), large.path()].map(said), why);
    }
}
