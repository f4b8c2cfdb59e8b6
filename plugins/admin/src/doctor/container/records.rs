//! The records of the plugins that name a container.

use std::io;
use std::path::{Path, PathBuf};

use cni_files::read_if_present;

use crate::result_cache::entries;

/// More than a record about one container.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the records; each kind has a folder. Records that are deleted meanwhile are left out.
///
/// # Errors
/// When a folder cannot be listed.
pub fn of_container(container: &str, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for kind in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for file in entries(&kind)? {
            match read_if_present(MOST_BYTES, &file) {
                Ok(content) if content.as_deref().is_some_and(|content| names(content, container)) => found.push(file),
                Ok(_) => {}
                Err(error) => log::debug!("no record of a container: {error}: {}", error.source),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a text has an ID as a whole word.
fn names(content: &[u8], container: &str) -> bool {
    let text = String::from_utf8_lossy(content);
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c)).any(|word| word == container)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_record_that_names_a_container_is_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(of_container("c1", &folder.path().join("none")).expect("no failure"), Vec::<PathBuf>::new());
        for (kind, name, text) in [
            ("attachments", "a", "net c1 eth0 bridge\nboot:1 /run/netns/x\n"),
            ("attachments", "b", "net c1-2 eth0 bridge\n"),
            ("tuning", "c", r#"{"container":"c1"}"#),
            ("ports", "d", "reference net c11 eth0\n"),
        ] {
            fs::create_dir_all(folder.path().join(kind)).expect("a folder");
            fs::write(folder.path().join(kind).join(name), text).expect("a record");
        }
        fs::write(folder.path().join("draft"), "net c1 eth0").expect("a file");
        let found = of_container("c1", folder.path()).expect("no failure");
        assert_eq!(found, ["attachments/a", "tuning/c"].map(|name| folder.path().join(name)));
    }
}
