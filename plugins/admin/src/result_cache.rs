//! The files in which libcni remembers its attachments, one for each, in the order in which they were made.
//!
//! Their content is parsed elsewhere. libcni writes them in place, so a file may be incomplete when it is read.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use cni_core::names::Attachment;
use cni_files::read_if_present;
use cni_linux::output::one_line;

use crate::network_lists;

/// Where libcni keeps them, unless a runtime chooses another place: multus and cri-dockerd choose a folder in it.
const DIRECTORY: &str = "/var/lib/cni";

/// The folder of host-local's leases in it, which has a folder for each network.
const LEASES: &str = "networks";

/// The largest file that is read. libcni's are below 100 kB with all the ports that a container may publish.
const MOST_BYTES: u64 = 1 << 20;

/// A write in the same tick of the kernel's clock as an earlier one need not change the times of a file; ticks are far shorter.
const SETTLED: Duration = Duration::from_secs(1);

/// A file of the cache. Its content is not kept: a host may have thousands of them.
#[derive(Debug)]
pub struct CacheFile {
    pub path: PathBuf,
    written: SystemTime,
    /// Its state when it was listed.
    listed: io::Result<FileState>,
    /// Whether every write since has changed that.
    is_settled: bool,
    /// The digest of its content, once it was read.
    digest: Option<[u64; 2]>,
}

/// The state of a file, stat(2): a write, a new file of the same name, and a set time change it.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    is_regular: bool,
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        let (is_regular, changed) = (metadata.is_file(), (metadata.ctime(), metadata.ctime_nsec()));
        Self { is_regular, device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), changed }
    }

    /// Whether every write from now on, a time since 1970, changes the state.
    fn is_settled(&self, now: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        changed.is_some_and(|(seconds, nanoseconds)| now > Duration::new(seconds, nanoseconds) + SETTLED)
    }
}

impl CacheFile {
    fn new(path: PathBuf) -> Self {
        let metadata = fs::symlink_metadata(&path);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let written = metadata.as_ref().ok().and_then(|metadata| metadata.modified().ok());
        let listed = metadata.map(|metadata| FileState::of(&metadata));
        let is_settled = listed.as_ref().is_ok_and(|state| state.is_settled(now));
        Self { path, written: written.unwrap_or(SystemTime::UNIX_EPOCH), listed, is_settled, digest: None }
    }

    /// A file that is not on the disk.
    #[cfg(test)]
    pub fn of_test() -> Self {
        Self::new(PathBuf::from("/nowhere"))
    }

    /// Device and inode, when it was listed.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.listed.as_ref().ok().map(|state| (state.device, state.inode))
    }

    /// Its content; `None` if it has disappeared.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let read = match &self.listed {
            Ok(state) => content(&self.path, state),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        match read {
            Ok(content) => {
                self.digest = Some(digest(&content));
                Ok(Some(content))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// When it was written, which is after ADD, as time since 1970.
    pub fn written(&self) -> Duration {
        self.written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// Whether the file is still the one that was read: the runtime has neither deleted the attachment nor added it
    /// again.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn is_current(&self) -> io::Result<bool> {
        let Some(known) = self.digest else { return Ok(false) };
        let is_current = fs::symlink_metadata(&self.path).and_then(|metadata| {
            let state = FileState::of(&metadata);
            if self.is_settled && self.listed.as_ref().is_ok_and(|listed| *listed == state) {
                return Ok(true);
            }
            content(&self.path, &state).map(|content| digest(&content) == known)
        });
        match is_current {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            is_current => is_current,
        }
    }
}

/// Gives equal contents equal digests, and others different ones: 128 bits with random keys, so that nobody can make two files
/// of one digest.
fn digest(content: &[u8]) -> [u64; 2] {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    KEYS.each_ref().map(|keys| keys.hash_one(content))
}

/// A link could lead to a file that never ends, and a pipe or a device could keep its reader waiting. libcni writes neither.
fn content(path: &Path, state: &FileState) -> io::Result<Vec<u8>> {
    if !state.is_regular {
        return Err(io::Error::other("it is not a file"));
    }
    let content = read_if_present(MOST_BYTES, path).map_err(|error| error.source)?;
    content.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The folders of several caches, for people.
pub fn names(directories: &[PathBuf]) -> String {
    directories.iter().map(|one| one_line(&results(one).display().to_string())).collect::<Vec<_>>().join(", ")
}

/// A line that names the caches, if there are several.
pub fn line(directories: &[PathBuf]) -> String {
    if directories.len() > 1 { format!("caches: {}\n", names(directories)) } else { String::new() }
}

/// The folder of the files below libcni's own.
pub fn results(directory: &Path) -> PathBuf {
    directory.join("results")
}

/// The file of an attachment, which libcni names after it.
pub fn file(directory: &Path, at: &Attachment) -> PathBuf {
    results(directory).join(format!("{}-{}-{}", at.network, at.container, at.ifname))
}

/// Which attachments a verb is about, and the caches in which it looks for them.
#[derive(Args, Clone, Debug, Default)]
pub struct Scope {
    /// only attachments to this network
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, value_parser = NonEmptyStringValueParser::new())]
    pub network: Option<String>,
    /// the runtime's cache directory, which contains a folder "results"; default /var/lib/cni, and those of multus and in /var/lib/cni
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,
}

impl Scope {
    /// Whether it covers an attachment.
    pub fn has(&self, at: &Attachment) -> bool {
        self.network.as_deref().is_none_or(|name| name == at.network.as_str())
    }

    /// A text whose commands name the cache as well, if it was named.
    pub fn advised(&self, text: &str) -> String {
        let Some(directory) = &self.cache_dir else { return text.to_owned() };
        let add = |text: String, verb: &str| text.replace(verb, &format!("{verb} --cache-dir {}", directory.display()));
        ["cni-plugins gc --remove", "cni-plugins repair"].into_iter().fold(text.to_owned(), add)
    }
}

/// The caches, and what is in them.
#[derive(Debug, Default)]
pub struct Caches {
    /// The directories in which there may be one, that of libcni first.
    pub directories: Vec<PathBuf>,
    /// Those whose cache was read.
    pub read: Vec<PathBuf>,
    /// The files in them, the oldest first. Those that disappear meanwhile are left out.
    pub files: Vec<CacheFile>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
    /// Device and inode of each folder that was found: several paths may lead to one.
    pub seen: BTreeSet<(u64, u64)>,
}

impl Caches {
    /// Reads the cache that is named, or else all of the host.
    pub fn observe(named: Option<&Path>) -> Self {
        let Some(named) = named else { return Self::of_host(BTreeSet::new()) };
        let mut found = Self { directories: vec![named.to_owned()], ..Self::default() }.listed();
        if found.seen.is_empty() && found.unknown.is_empty() {
            found.unknown.push(format!("{} does not exist", results(named).display()));
        }
        found
    }

    /// Reads all caches of the host but those that were seen. That of libcni may be missing, as all others.
    pub fn of_host(seen: BTreeSet<(u64, u64)>) -> Self {
        let (own, mut unknown) = (Path::new(DIRECTORY), Vec::new());
        let mut below = entries(own).unwrap_or_else(|error| {
            unknown.push(format!("{DIRECTORY}: {error}"));
            Vec::new()
        });
        below.retain(|path| !path.ends_with(LEASES) && fs::metadata(path).map_or(true, |found| found.is_dir()));
        let multus = network_lists::lists(None).flat_map(|list| network_lists::plugins(&list));
        let multus = multus.filter(|plugin| plugin["type"].as_str().is_some_and(|kind| kind.starts_with("multus")));
        let multus = multus.filter_map(|plugin| plugin["cniDir"].as_str().map(PathBuf::from));
        below.extend(multus.filter(|directory| directory.is_absolute()));
        below.sort();
        let directories = [own.to_owned()].into_iter().chain(below).collect();
        Self { directories, unknown, seen, ..Self::default() }.listed()
    }

    fn listed(mut self) -> Self {
        for directory in &self.directories {
            match list(&results(directory), &mut self.seen) {
                Ok(None) => {}
                Ok(Some(files)) => {
                    self.files.extend(files);
                    self.read.push(directory.clone());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Such as the state of a container of this name, which flannel keeps.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory && *directory != self.directories[0] => {}
                Err(error) => self.unknown.push(format!("{}: {error}", results(directory).display())),
            }
        }
        self.files.sort_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
        self
    }
}

/// The files of a folder; `None` if it was seen before.
fn list(folder: &Path, seen: &mut BTreeSet<(u64, u64)>) -> io::Result<Option<Vec<CacheFile>>> {
    let metadata = fs::metadata(folder)?;
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(None);
    }
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let files = entries(folder)?.into_iter().map(CacheFile::new);
    Ok(Some(files.filter(|file| !file.listed.as_ref().is_err_and(is_gone)).collect()))
}

/// The paths in a folder; none if it is missing.
///
/// # Errors
/// When it cannot be listed.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn write(directory: &Path, name: &str, seconds: u64) {
        let path = results(directory).join(name);
        fs::write(&path, name).expect("write");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("set the time");
    }

    fn listed(directory: &Path) -> Vec<CacheFile> {
        Caches::observe(Some(directory)).files
    }

    fn names(files: &[CacheFile]) -> Vec<&str> {
        files.iter().filter_map(|file| file.path.file_name()?.to_str()).collect()
    }

    #[test]
    fn files_come_in_the_order_in_which_they_were_written() {
        let directory = tempfile::tempdir().expect("directory");
        let missing = Caches::observe(Some(directory.path())).unknown;
        assert_eq!(missing, [format!("{} does not exist", results(directory.path()).display())]);
        fs::create_dir(results(directory.path())).expect("create");
        for (name, seconds) in [("c", 1), ("a", 3), ("b", 2), ("d", 2)] {
            write(directory.path(), name, seconds);
        }
        let mut files = listed(directory.path());
        assert_eq!(names(&files), ["c", "b", "d", "a"]);
        assert!(files.iter_mut().all(|file| matches!(file.read(), Ok(Some(content)) if content.len() == 1)));
    }

    #[test]
    fn a_file_that_was_removed_or_written_anew_is_not_current() {
        let directory = tempfile::tempdir().expect("directory");
        fs::create_dir(results(directory.path())).expect("create");
        write(directory.path(), "a", 1);
        let mut files = listed(directory.path());
        assert!(!files[0].is_current().expect("not read yet"));
        files[0].read().expect("read");
        assert!(files[0].is_current().expect("read"));
        fs::write(&files[0].path, "other").expect("write");
        assert!(!files[0].is_current().expect("read"));
        fs::remove_file(&files[0].path).expect("remove");
        assert!(!files[0].is_current().expect("read"));
        assert_eq!(files[0].read().expect("read"), None);
    }

    #[test]
    fn every_write_changes_the_state_of_a_file_that_has_settled() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a");
        fs::write(&path, "text").expect("write");
        let state = || FileState::of(&fs::symlink_metadata(&path).expect("there"));
        let earlier = state();
        let changed = Duration::new(earlier.changed.0.unsigned_abs(), 0);
        assert!(!earlier.is_settled(changed) && !earlier.is_settled(Duration::ZERO));
        assert!(earlier.is_settled(changed + 3 * SETTLED));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(state(), earlier);
        fs::write(&path, "else").expect("write");
        assert_ne!(state(), earlier);
    }

    #[test]
    fn a_link_a_pipe_and_a_file_without_end_are_refused() {
        let directory = tempfile::tempdir().expect("directory");
        let folder = results(directory.path());
        fs::create_dir_all(&folder).expect("create");
        write(directory.path(), "real", 1);
        std::os::unix::fs::symlink("real", folder.join("link")).expect("link");
        nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        File::create(folder.join("large")).and_then(|file| file.set_len(MOST_BYTES + 1)).expect("a sparse file");
        let mut files = listed(directory.path());
        let mut reported = |name: &str| {
            let file = files.iter_mut().find(|file| file.path.ends_with(name)).expect("listed");
            file.read().map(|content| content.map(|content| content.len())).map_err(|error| error.to_string())
        };
        assert_eq!(reported("real"), Ok(Some(4)));
        assert_eq!(reported("link"), Err("it is not a file".to_owned()));
        assert_eq!(reported("pipe"), Err("it is not a file".to_owned()));
        assert_eq!(reported("large"), Err("it has more than 1048576 bytes".to_owned()));
    }
}
