//! Writes and removes state files.

use std::path::PathBuf;

use cni_core::error::Error;
use cni_files::{read_private, remove_empty, remove_private, replace_private};
use cni_model::plan::Step;
use cni_model::state_file::StateFile;

/// Writes a file; returns what writes the earlier one back, or removes it with the directories that were made for it.
pub(super) fn write(file: &StateFile, text: &str) -> Result<Option<Step>, Error> {
    let earlier = read_private(&file.path())?;
    if earlier.as_deref() == Some(text.as_bytes()) {
        return Ok(None);
    }
    let (directories, file) = (replace_private(&file.path(), text.as_bytes())?, file.clone());
    Ok(Some(match earlier {
        Some(earlier) => Step::WriteStateFile { file, text: String::from_utf8_lossy(&earlier).into_owned() },
        None => Step::RemoveStateFile { file, directories },
    }))
}

pub(super) fn remove(file: &StateFile, directories: &[PathBuf]) -> Result<(), Error> {
    remove_private(&file.path())?;
    Ok(remove_empty(directories)?)
}
