//! A lease: an address, its holder, and what the index knows about it.

use std::fs::Metadata;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use cni_core::cidr::parse_ip;
use cni_core::names::{Attachment, ContainerId, IfName};
use cni_files::{FileError, boot_id, machine_id, open_to_read};

use super::lock::StoreError;

/// The mode of leases, and of all other files here except the lock.
pub(super) const FILE_MODE: u32 = 0o600;

/// More than the content of any lease: the container's id is a variable of the environment, which has at most 128 KiB.
const MOST: u64 = 256 * 1024;

/// The holder of a lease: the content of its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub container: String,
    /// The interface inside the container; leases of old releases do not name it.
    pub ifname: Option<String>,
}

impl Owner {
    /// The owner of what is leased to an attachment.
    pub fn of(attachment: &Attachment) -> Self {
        let Attachment { network: _, container, ifname } = attachment;
        Self { container: container.to_string(), ifname: Some(ifname.to_string()) }
    }

    /// Reads the content of a lease. White space around it means nothing; a file without a word has no
    /// owner, and that is what a crash leaves: an empty file, or one of zeros.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let (container, ifname) = match text.split_once("\r\n") {
            Some((container, ifname)) => (container, Some(ifname.to_owned())),
            None => (text, None),
        };
        (!text.is_empty()).then(|| Self { container: container.to_owned(), ifname })
    }

    /// The owner of a file that is too large for a lease. The address stays taken.
    const fn unknown() -> Self {
        Self { container: String::new(), ifname: None }
    }

    /// The content of the lease.
    pub fn text(&self) -> String {
        match &self.ifname {
            Some(ifname) => format!("{}\r\n{ifname}", self.container),
            None => self.container.clone(),
        }
    }

    /// Whether both names are valid in requests of a runtime. A lease of any other owner stays taken, and no request
    /// can refer to it.
    pub fn is_valid(&self) -> bool {
        ContainerId::parse(&self.container).is_ok()
            && self.ifname.as_ref().is_none_or(|ifname| IfName::parse(ifname).is_ok())
    }
}

/// Identifies a file, even if another file has or had the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    inode: u64,
    modified: (i64, i64),
}

impl FileId {
    /// The identity of an open file.
    pub fn of(metadata: &Metadata) -> Self {
        Self { inode: metadata.ino(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

/// The machine and the namespace for which a lease was made, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseOrigin {
    /// The machine, and its boot.
    pub machine: MachineIdentity,
    /// The identity of the container's network namespace.
    pub namespace: Option<String>,
}

/// A leased address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: IpAddr,
    /// The holder.
    pub owner: Owner,
    /// Where it was made.
    pub home: LeaseOrigin,
    pub(super) name: String,
    pub(super) file: FileId,
}

impl Lease {
    /// Sets the file in which the lease was found. The origin of a lease that another program has written is unknown.
    pub(super) fn found_as(&mut self, file: FileId) {
        if self.file != file {
            self.file = file;
            self.home = LeaseOrigin::default();
        }
    }

    /// When its file was written, as time since 1970.
    pub fn written(&self) -> Duration {
        let (seconds, nanoseconds) = self.file.modified;
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        Duration::new(u64::try_from(seconds).unwrap_or_default(), nanoseconds)
    }

    /// Whether it is the same lease, and not a later one of the same address.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (&self.name, self.file) == (&other.name, other.file)
    }

    /// The lease as a line of the index. None of the words holds a tab or a line end.
    pub(super) fn line(&self) -> String {
        let Self { owner, home, name, file, .. } = self;
        let word = |text: &Option<String>| {
            text.clone().filter(|text| !text.contains(|c: char| c.is_control())).unwrap_or_default()
        };
        let (id, boot, namespace) = (word(&home.machine.id), word(&home.machine.boot), word(&home.namespace));
        let (container, ifname) = (&owner.container, word(&owner.ifname));
        let (inode, (seconds, nanoseconds)) = (file.inode, file.modified);
        format!("{name}\t{container}\t{ifname}\t{inode}\t{seconds}\t{nanoseconds}\t{id}\t{boot}\t{namespace}\n")
    }

    /// Reads a line of the index.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split('\t').collect();
        let [name, container, ifname, inode, seconds, nanoseconds, id, boot, namespace] = words[..] else {
            return None;
        };
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            address: parse_ip(name)?,
            owner: Owner { container: container.to_owned(), ifname: known(ifname) },
            home: LeaseOrigin {
                machine: MachineIdentity { id: known(id), boot: known(boot) },
                namespace: known(namespace),
            },
            name: name.to_owned(),
            file: FileId { inode: inode.parse().ok()?, modified: (seconds.parse().ok()?, nanoseconds.parse().ok()?) },
        })
    }
}

/// Whether the file of an address says that an attachment has it. It takes no lock, so `false` only means that the caller must look again.
pub fn is_held(directory: &Path, address: IpAddr, by: &Attachment) -> bool {
    let file = read(&directory.join(address.to_string()));
    file.is_ok_and(|file| file.and_then(|(owner, _)| owner) == Some(Owner::of(by)))
}

/// Reads the file of a lease; `None` when it is missing, or not a regular file.
pub(super) fn read(path: &Path) -> Result<Option<(Option<Owner>, FileId)>, StoreError> {
    let file = match open_to_read(path) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata().map_err(FileError::of("stat", path))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    if metadata.len() > MOST {
        log::warn!("{} is larger than any lease, and not read: its address stays taken", path.display());
        return Ok(Some((Some(Owner::unknown()), FileId::of(&metadata))));
    }
    let mut content = Vec::with_capacity(128);
    file.take(metadata.len()).read_to_end(&mut content).map_err(FileError::of("read", path))?;
    Ok(Some((Owner::parse(&content), FileId::of(&metadata))))
}

/// The identity of a machine and of its boot, as far as they are known: it separates leases of this boot from those of an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Differs between machines: machine-id(5).
    pub id: Option<String>,
    /// Differs between boots: random(4), `boot_id`.
    pub boot: Option<String>,
}

impl MachineIdentity {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Self { id: known(machine_id()), boot: known(boot_id()) }
    }

    /// Whether it is certain that this machine was restarted since `before`. A directory on a network file system has
    /// leases of other machines, whose boot differs too, but which are still running.
    pub fn has_restarted_since(&self, before: &Self) -> bool {
        let (id, boot) = (self.id.as_ref(), self.boot.as_ref());
        id.is_some()
            && boot.is_some()
            && before.boot.is_some()
            && id == before.id.as_ref()
            && boot != before.boot.as_ref()
    }
}

fn known(id: Result<String, FileError>) -> Option<String> {
    id.inspect_err(|error| log::debug!("{error}: {}", error.source)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(container: &str, ifname: Option<&str>) -> Option<Owner> {
        Some(Owner { container: container.to_owned(), ifname: ifname.map(str::to_owned) })
    }

    #[test]
    fn the_content_is_the_references_and_white_space_around_it_means_nothing() {
        assert_eq!(Owner::parse(b"c1\r\neth0"), owner("c1", Some("eth0")));
        assert_eq!(Owner::parse(b" c1\r\neth0\r\n"), owner("c1", Some("eth0")));
        assert_eq!(Owner::parse(b"c1\r\n"), owner("c1", None), "an old lease");
        assert_eq!(Owner::parse(b"c1\neth0"), owner("c1\neth0", None), "no lease of c1, but somebody's");
        assert_eq!(owner("c1", Some("eth0")).map(|owner| owner.text()), Some("c1\r\neth0".to_owned()));
        assert_eq!(owner("c1", None).map(|owner| owner.text()), Some("c1".to_owned()));
    }

    #[test]
    fn a_torn_file_has_no_owner() {
        for content in [b"".as_slice(), b"\r\n", b" \n", &[0; 40]] {
            assert_eq!(Owner::parse(content), None, "{content:?}");
        }
    }

    #[test]
    fn a_line_of_the_index_reads_back() {
        let machine = MachineIdentity { id: Some("m".to_owned()), boot: Some("b".to_owned()) };
        let home = LeaseOrigin { machine, namespace: Some("b:4096".to_owned()) };
        let file = FileId { inode: u64::MAX, modified: (-1, 999_999_999) };
        let address = IpAddr::from([10, 1, 2, 3]);
        for (home, owner) in [(home, owner("c1", Some("-"))), (LeaseOrigin::default(), owner("c1", None))] {
            let owner = owner.expect("given");
            let lease = Lease { address, owner, home, name: address.to_string(), file };
            let line = lease.line();
            assert_eq!(line.strip_suffix('\n').and_then(Lease::parse), Some(lease), "{line}");
        }
    }

    #[test]
    fn another_line_is_none() {
        for line in ["", "10.1.2.3", "x\tc1\teth0\t1\t2\t3\t\t\t", "10.1.2.3\tc1\teth0\t1\tx\t3\t\t\t"] {
            assert_eq!(Lease::parse(line), None, "{line}");
        }
    }

    fn machine(id: &str, boot: &str) -> MachineIdentity {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        MachineIdentity { id: known(id), boot: known(boot) }
    }

    #[test]
    fn a_restart_is_certain_only_when_all_is_known_and_the_machine_is_the_same() {
        let now = machine("m", "b2");
        assert!(now.has_restarted_since(&machine("m", "b1")));
        for before in [machine("m", "b2"), machine("other", "b1"), machine("", "b1"), machine("m", ""), machine("", "")]
        {
            assert!(!now.has_restarted_since(&before), "{before:?}");
        }
        for now in [machine("", "b2"), machine("m", ""), machine("", "")] {
            assert!(!now.has_restarted_since(&machine("m", "b1")), "{now:?}");
            assert!(!now.has_restarted_since(&machine("", "b1")), "{now:?}");
        }
    }
}
