//! Whose the packet filter's rules for an address are.
//!
//! The firewall plugin's rules name just an address, byte for byte as the reference's do. So that a late
//! DEL of an old container does not take the rules of the address's new owner, the owner is written down
//! in a file for each address, and beside it the addresses of each owner. The files live as long as the
//! rules: below `/run`, in a directory of the boot and the network namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Failure};
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName, hash_hex};

/// Where the plugins keep what must not outlive a boot.
pub const RUN_DIRECTORY: &str = "/run/cni/.cni-plugins-rs";

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} {}", path.display())]
pub struct ClaimError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Failure for ClaimError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// The records of one network namespace.
#[derive(Debug)]
pub struct Claims {
    directory: PathBuf,
}

impl Claims {
    /// The records of the namespace with this identity; where the kernel gives none there is just one host.
    pub fn new(identity: Option<String>) -> Self {
        Self::below(Path::new(RUN_DIRECTORY), identity)
    }

    fn below(root: &Path, identity: Option<String>) -> Self {
        let name = identity.unwrap_or_else(|| "host".to_owned()).replace(':', "-");
        Self { directory: root.join(name).join("claims") }
    }

    /// Writes down that the rules for `address` are `owner`'s; an earlier owner loses them.
    ///
    /// # Errors
    /// [`ClaimError`] names the file.
    pub fn claim(&self, address: IpAddr, owner: &Attachment) -> Result<(), ClaimError> {
        let mut addresses = self.listed(owner)?;
        if addresses.insert(address) {
            self.write(&self.owner_file(owner), &lines(&addresses))?;
        }
        self.write(&self.address_file(address), &text(owner))
    }

    /// Forgets that the rules for `address` are `owner`'s; another owner's record stays.
    ///
    /// # Errors
    /// [`ClaimError`] names the file.
    pub fn release(&self, address: IpAddr, owner: &Attachment) -> Result<(), ClaimError> {
        if self.owner(address)?.as_ref() == Some(owner) {
            remove(&self.address_file(address))?;
        }
        let mut addresses = self.listed(owner)?;
        if addresses.remove(&address) {
            let file = self.owner_file(owner);
            if addresses.is_empty() { remove(&file)? } else { self.write(&file, &lines(&addresses))? }
        }
        self.tidy();
        Ok(())
    }

    /// Whose the rules for an address are.
    ///
    /// # Errors
    /// [`ClaimError`] names the file. A record that makes no sense is none.
    pub fn owner(&self, address: IpAddr) -> Result<Option<Attachment>, ClaimError> {
        Ok(read(&self.address_file(address))?.and_then(|text| parse(&text)))
    }

    /// The addresses whose rules are `owner`'s.
    ///
    /// # Errors
    /// [`ClaimError`] names the file.
    pub fn addresses_of(&self, owner: &Attachment) -> Result<Vec<IpAddr>, ClaimError> {
        let mut own = Vec::new();
        for address in self.listed(owner)? {
            if self.owner(address)?.as_ref() == Some(owner) {
                own.push(address);
            }
        }
        Ok(own)
    }

    fn listed(&self, owner: &Attachment) -> Result<BTreeSet<IpAddr>, ClaimError> {
        let text = read(&self.owner_file(owner))?.unwrap_or_default();
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn address_file(&self, address: IpAddr) -> PathBuf {
        self.directory.join(address.to_string())
    }

    fn owner_file(&self, owner: &Attachment) -> PathBuf {
        self.directory.join(format!("owner-{}", &hash_hex(&text(owner))[..32]))
    }

    /// A record appears complete or not at all.
    fn write(&self, file: &Path, text: &str) -> Result<(), ClaimError> {
        let failed = |verb, path: &Path| {
            let path = path.to_owned();
            move |source| ClaimError { verb, path, source }
        };
        fs::create_dir_all(&self.directory).map_err(failed("create", &self.directory))?;
        let draft = file.with_extension(format!("draft-{}", std::process::id()));
        fs::write(&draft, text).map_err(failed("write", &draft))?;
        fs::rename(&draft, file).map_err(failed("replace", file))
    }

    /// Leaves no empty directories behind. They are not empty while somebody uses them, and that is no failure.
    fn tidy(&self) {
        for directory in self.directory.ancestors().take(3) {
            if let Err(error) = fs::remove_dir(directory) {
                log::trace!("{} stays: {error}", directory.display());
                return;
            }
        }
    }
}

fn text(owner: &Attachment) -> String {
    format!("{} {} {}", owner.network, owner.container, owner.ifname)
}

/// None of the three names can hold a blank.
fn parse(text: &str) -> Option<Attachment> {
    let mut words = text.split(' ');
    let network = NetworkName::parse(words.next()?).ok()?;
    let container = ContainerId::parse(words.next()?).ok()?;
    let ifname = IfName::parse(words.next()?).ok()?;
    words.next().is_none().then_some(Attachment { network, container, ifname })
}

fn lines(addresses: &BTreeSet<IpAddr>) -> String {
    addresses.iter().map(|address| format!("{address}\n")).collect()
}

fn read(file: &Path) -> Result<Option<String>, ClaimError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClaimError { verb: "read", path: file.to_owned(), source }),
    }
}

fn remove(file: &Path) -> Result<(), ClaimError> {
    match fs::remove_file(file) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ClaimError { verb: "remove", path: file.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(container: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse("net").expect("network"),
            container: ContainerId::parse(container).expect("container"),
            ifname: IfName::parse("eth0").expect("interface"),
        }
    }

    #[test]
    fn the_last_claim_wins_and_the_first_owner_cannot_release_it() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), Some("boot:1".to_owned()));
        let address = IpAddr::from([10, 1, 2, 3]);
        let (old, new) = (owner("old"), owner("new"));
        claims.claim(address, &old).expect("claim");
        assert_eq!(claims.addresses_of(&old).expect("read"), [address]);
        claims.claim(address, &new).expect("claim");
        assert_eq!(claims.addresses_of(&old).expect("read"), Vec::<IpAddr>::new());
        claims.release(address, &old).expect("release");
        assert_eq!(claims.owner(address).expect("read"), Some(new.clone()));
        claims.release(address, &new).expect("release");
        assert_eq!(claims.owner(address).expect("read"), None);
        assert!(!root.path().join("boot-1").exists(), "nothing stays behind");
    }

    #[test]
    fn a_record_that_makes_no_sense_is_none() {
        for text in ["", "net", "net id", "net id eth0 more", "net id a/b"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("net old eth0"), Some(owner("old")));
    }
}
