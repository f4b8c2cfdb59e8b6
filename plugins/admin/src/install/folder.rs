//! A folder of plugins: what it contains, and how it is changed. Every name is replaced by a rename, so that a runtime never starts
//! half a file, and at every moment finds the old plugin or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::Error;
use cni_core::fail;
use cni_files::{Draft, FileError, Lock, remove, remove_empty};

use crate::output::Progress;
use crate::programs::about;

/// Below the folder of plugins: the files of others that were replaced, and drafts. Renames and hard links need the same file system.
pub const OWN_FOLDER: &str = ".cni-plugins-rs";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The mark of this release. Every release contains one with its version.
const MARK: &str = concat!("\0cni-plugins-rs, the release ", env!("CARGO_PKG_VERSION"), "\0");
const END: u8 = b'\0';

/// The longest version that is looked for.
const LONGEST: usize = 64;

/// How long another `install` in the same folder may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a folder has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Present {
    Nothing,
    /// This very program.
    Current,
    /// This program in another build, with its version.
    Ours(String),
    /// Another program, with what it says about itself.
    Other(String),
}

/// A name that is to be this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallChange {
    pub name: &'static str,
    pub was: Present,
}

impl InstallChange {
    /// Whether the present file must be kept for the way back: the program of somebody else.
    pub const fn keeps(&self) -> bool {
        matches!(self.was, Present::Other(_))
    }
}

/// A file of ours that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UninstallStep {
    pub name: String,
    /// Whether the file that `install` has replaced is put back.
    pub restores: bool,
}

/// The content of the running program.
pub fn this_program() -> Result<Vec<u8>, Error> {
    let path = Path::new("/proc/self/exe");
    Ok(fs::read(path).map_err(FileError::of("read", path))?)
}

/// A folder of plugins.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    own: PathBuf,
}

impl Folder {
    /// A folder, which may be missing.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), own: path.join(OWN_FOLDER) }
    }

    /// What has this name, compared with a program.
    pub fn present(&self, name: &str, program: &[u8]) -> Result<Present, Error> {
        let path = self.path.join(name);
        let Some(found) = existing(&path, path.symlink_metadata())? else { return Ok(Present::Nothing) };
        let Some(content) = read(&path)? else { return Ok(Present::Other("a link to nothing".to_owned())) };
        if content == program {
            return Ok(Present::Current);
        }
        // `install` makes no symbolic links.
        let version = if found.is_symlink() { None } else { version(&content) };
        Ok(version.map_or_else(|| Present::Other(about(&path)), Present::Ours))
    }

    fn is_ours(&self, name: &str) -> Result<bool, Error> {
        let path = self.path.join(name);
        let is_file = existing(&path, path.symlink_metadata())?.is_some_and(|found| found.is_file());
        Ok(is_file && read(&path)?.is_some_and(|content| version(&content).is_some()))
    }

    /// The names of all files that are this program, in any release.
    pub fn ours(&self) -> Result<Vec<String>, Error> {
        let mut judged: BTreeMap<(u64, u64), bool> = BTreeMap::new();
        let mut ours = Vec::new();
        for name in names(&self.path)? {
            let path = self.path.join(&name);
            let Some(found) = existing(&path, path.symlink_metadata())?.filter(Metadata::is_file) else { continue };
            let inode = (found.dev(), found.ino());
            let is_ours = match judged.get(&inode) {
                Some(is_ours) => *is_ours,
                None => self.is_ours(&name)?,
            };
            judged.insert(inode, is_ours);
            if is_ours {
                ours.push(name);
            }
        }
        Ok(ours)
    }

    /// The names of the files of others that were kept.
    pub fn kept(&self) -> Result<Vec<String>, Error> {
        names(&self.own)
    }

    /// Makes a program the content of every name; the folder is locked.
    pub fn install(&self, program: &[u8], changes: &[InstallChange]) -> Result<(), Error> {
        Draft::remove_dead(&self.own)?;
        let draft = Draft::create(&self.own, program, 0o755)?;
        draft.file().sync_all().map_err(FileError::of("write", &self.path))?;
        // Copies of the program, where the file system has no links, take a while.
        let mut progress = Progress::new(changes.len());
        for (done, change) in changes.iter().enumerate().filter(|(_, change)| change.was != Present::Current) {
            progress.show(done);
            if change.keeps() {
                self.keep(change.name)?;
            }
            self.switch(&draft, program, change.name)?;
        }
        Ok(draft.discard()?)
    }

    /// Removes files of ours, and puts back those that they have replaced; the folder is locked.
    pub fn uninstall(&self, removals: &[UninstallStep]) -> Result<(), Error> {
        for UninstallStep { name, restores } in removals {
            let path = self.path.join(name);
            if *restores {
                fs::rename(self.own.join(name), &path).map_err(FileError::of("write", &path))?;
            } else {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Decides what to do, and does it, while no other process of this program changes the folder.
    pub fn locked<T>(
        &self,
        decide: impl Fn() -> Result<T, Error>,
        change: impl Fn(&T) -> Result<(), Error>,
    ) -> Result<T, Error> {
        create(&self.path, 0o755)?;
        create(&self.own, 0o700)?;
        let opened = File::open(&self.own).map_err(FileError::of("open", &self.own))?;
        let lock = Lock::exclusive(opened, &self.own, PATIENCE).map_err(|error| fail!(TryAgain, "{error}"))?;
        let decided = decide()?;
        change(&decided)?;
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(FileError::of("write", &self.path))?;
        drop(lock);
        remove_empty(std::slice::from_ref(&self.own))?;
        Ok(decided)
    }

    /// Gives the program one more name: by a hard link, or by a copy where the file system has no links.
    fn switch(&self, draft: &Draft, program: &[u8], name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        let next = self.own.join("next");
        remove(&next)?;
        if draft.link(&next).is_err() {
            let copy = Draft::create_at(&next, program, 0o755)?;
            copy.file().sync_all().map_err(FileError::of("write", &next))?;
            return Ok(copy.replace(&path)?);
        }
        Ok(fs::rename(&next, &path).map_err(FileError::of("write", &path))?)
    }

    /// Keeps a file for the way back. It has its own name all the time.
    fn keep(&self, name: &str) -> Result<(), Error> {
        let (path, kept) = (self.path.join(name), self.own.join(name));
        remove(&kept)?;
        fs::hard_link(&path, &kept)
            .or_else(|_| copy(&path, &kept))
            .map_err(|error| FileError::of("keep", &path)(error).into())
    }
}

/// Copies a file with its mode, or a link as a link.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else {
        fs::copy(from, to).map(|_| ())
    }
}

fn create(path: &Path, mode: u32) -> Result<(), Error> {
    let created = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    Ok(created.map_err(FileError::of("create", path))?)
}

/// The content of a file, or `None` for a link to nothing.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match existing(path, path.metadata())? {
        None => Ok(None),
        Some(found) if found.is_file() => Ok(Some(fs::read(path).map_err(FileError::of("read", path))?)),
        Some(_) => {
            let path = path.display();
            Err(fail!(Io, "{path} is not a file: move it away"))
        }
    }
}

/// The metadata of a file; `None` if the file does not exist.
fn existing(path: &Path, asked: io::Result<Metadata>) -> Result<Option<Metadata>, Error> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::of("read", path)(error).into()),
    }
}

/// The names in a folder, sorted; none if there is no folder. Names that are not text are none of ours.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = || FileError::of("list", folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed()(error).into()),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    let mut names: Vec<String> =
        names.collect::<io::Result<Vec<_>>>().map_err(failed())?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

/// The version of this program in a file, in whichever release; `None` if the file is another program. Reading a file is safer than
/// running it, and works for other processors too.
fn version(content: &[u8]) -> Option<String> {
    starts(content).find_map(|after| {
        let end = after.iter().take(LONGEST).position(|byte| *byte == END)?;
        let version = std::str::from_utf8(&after[..end]).ok()?;
        let is_version = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
        (version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_version))
            .then(|| version.to_owned())
    })
}

/// What follows each occurrence of [`start`].
fn starts(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = start();
    let mut rest = content;
    std::iter::from_fn(move || {
        loop {
            // Few bytes are the letter that comes second.
            let at = rest.iter().skip(1).position(|byte| *byte == start[1])?;
            let candidate = &rest[at..];
            rest = &rest[at + 1..];
            if let Some(after) = candidate.strip_prefix(start) {
                return Some(after);
            }
        }
    })
}

/// How the mark of every release begins. It is cut from the mark of this one, so that the program contains it as a whole.
fn start() -> &'static [u8] {
    let mark = black_box(MARK).as_bytes();
    &mark[..mark.len() - VERSION.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_mark_counts() {
        let own = [b"\x7fELF\0cccc", MARK.as_bytes(), b"more"].concat();
        assert_eq!(version(&own).as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(version(&[start(), b"\0", start(), b"0.9.1-rc1\0"].concat()).as_deref(), Some("0.9.1-rc1"));
        let (cut, word) = (b"\0cni-plugins-rs, the release 1.0", [start(), b"one\0"].concat());
        for other in [&b""[..], b"\0", start(), cut, b"\x7fELF\0cni", &word] {
            assert_eq!(version(other), None, "{}", other.escape_ascii());
        }
    }
}
