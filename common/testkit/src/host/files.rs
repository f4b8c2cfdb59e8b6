//! State files, files of the administrator, and kernel parameters.

use std::path::Path;

use cni_core::error::Error;
use cni_model::plan::{Ns, Sysctl};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_plugin::files::Files;

use super::FakeHost;
use super::kernel_error::refuse;

impl FakeHost {
    fn refuse_unreadable(&self, path: &str) -> Result<(), Error> {
        if self.unreadable.contains(path) { refuse(format!("failed to read {path}")) } else { Ok(()) }
    }
}

impl Files for FakeHost {
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        Ok(self.administrators_files.get(path).cloned())
    }

    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        self.refuse_unreadable(&file.to_string()).map_err(StateFileReadError::Unreadable)?;
        Ok(self.state_files.get(&file.path()).cloned())
    }

    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error> {
        self.refuse_unreadable(&directory.to_string_lossy())?;
        let files = self.state_files.keys().filter(|path| path.parent() == Some(directory));
        Ok(files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        let space = self.space(ns)?;
        self.refuse_unreadable(&key.path())?;
        Ok(self.kernel.parameter(&space, &key.path()))
    }

    fn effective_ids(&mut self) -> (u32, u32) {
        (0, 0)
    }
}
