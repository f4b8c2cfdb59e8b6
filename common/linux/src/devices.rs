//! Devices, as `/sys` shows them.

use std::fs;
use std::io;
use std::path::Path;

use cni_core::error::Error;
use cni_files::FileError;

/// The names in a directory.
pub(crate) fn entries(directory: &Path) -> Result<Option<Vec<String>>, Error> {
    let listed = fs::read_dir(directory).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<Vec<String>>>()
    });
    let mut names = absent_as_none(listed).map_err(FileError::of("read", directory))?;
    names.iter_mut().for_each(|names| names.sort());
    Ok(names)
}

/// The last part of where a link leads.
pub(crate) fn leads_to(link: &Path) -> Result<Option<String>, Error> {
    let target = absent_as_none(fs::read_link(link)).map_err(FileError::of("read", link))?;
    let last = target.as_deref().and_then(Path::file_name);
    Ok(last.map(|name| name.to_string_lossy().into_owned()))
}

fn absent_as_none<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
