//! Whose the packet filter's rules for an address are.
//!
//! The firewall plugin's rules name just an address, byte for byte as the reference's do. So that a late
//! DEL of an old container does not take the rules of the address's new owner, the owner is recorded
//! in a file for each address, with who keeps the rules, and beside it the addresses of each owner. The
//! files live as long as the rules: below `/run`, in a directory of the boot and the network namespace. No
//! lock is held: each file is drafted outside of `claims` and put in its place at once.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Failure};
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName, hash_hex};
use cni_files::RUN_DIRECTORY;
use cni_plugin::keeper::Keeper;
use nix::unistd::gettid;

/// The beginning of the name of a record that is being written; it ends with the number of the thread.
const DRAFT: &str = "draft-";

/// How often a record is written again into directories that come and go.
const REPEATS: u32 = 10;

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} {}", path.display())]
pub struct ClaimError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl ClaimError {
    /// Whoever releases the last claim takes the directories away, such as one that another is about to use
    /// or has just found made by somebody else.
    fn is_of_coming_and_going(&self) -> bool {
        matches!(self.source.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists)
    }
}

impl Failure for ClaimError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// Whose the rules for an address are, and who keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose they are.
    pub owner: Attachment,
    /// Who keeps them, each once, the last one that made some last.
    pub keepers: Vec<Keeper>,
}

/// The records of one network namespace.
#[derive(Debug)]
pub struct Claims {
    /// Where records are drafted: beside them, so that looking for drafts costs nothing for each container.
    drafts: PathBuf,
    /// The records, in the directory of the drafts.
    directory: PathBuf,
}

impl Claims {
    /// The records of the namespace with this identity; where the kernel gives none there is just one host.
    pub fn new(identity: Option<String>) -> Self {
        Self::below(Path::new(RUN_DIRECTORY), identity)
    }

    fn below(root: &Path, identity: Option<String>) -> Self {
        let name = identity.unwrap_or_else(|| "host".to_owned()).replace(':', "-");
        let drafts = root.join(name);
        Self { directory: drafts.join("claims"), drafts }
    }

    /// Records that the rules for `address` are `owner`'s and that `keeper` keeps them, beside those who
    /// did before; an earlier owner loses them. Returns the claim that there was.
    ///
    /// # Errors
    /// [`ClaimError`] names the file. Then what was recorded before still is.
    pub fn claim(&self, address: IpAddr, owner: &Attachment, keeper: &Keeper) -> Result<Option<Claim>, ClaimError> {
        let earlier = self.find(address)?;
        let claim = Claim { owner: owner.clone(), keepers: with(earlier.as_ref(), keeper) };
        let replaced = self.replace(address, earlier.as_ref(), &claim);
        if replaced.is_err()
            && let Err(error) = self.put_back(address, earlier.as_ref(), &claim)
        {
            log::warn!("the claim of {address} may be half-made: {error}: {}", error.details());
        }
        replaced.map(|()| earlier)
    }

    fn replace(&self, address: IpAddr, earlier: Option<&Claim>, claim: &Claim) -> Result<(), ClaimError> {
        self.list(address, &claim.owner)?;
        self.write(&self.address_file(address), &claim.to_string())?;
        match earlier {
            Some(earlier) if earlier.owner != claim.owner => self.unlist(address, &earlier.owner),
            Some(_) | None => Ok(()),
        }
    }

    fn put_back(&self, address: IpAddr, earlier: Option<&Claim>, claim: &Claim) -> Result<(), ClaimError> {
        let Some(earlier) = earlier else { return self.release(address, &claim.owner) };
        if self.find(address)?.as_ref() != Some(earlier) {
            self.write(&self.address_file(address), &earlier.to_string())?;
        }
        self.list(address, &earlier.owner)?;
        if earlier.owner == claim.owner { Ok(()) } else { self.unlist(address, &claim.owner) }
    }

    /// Forgets that the rules for `address` are `owner`'s; another owner's record stays.
    ///
    /// # Errors
    /// [`ClaimError`] names the file.
    pub fn release(&self, address: IpAddr, owner: &Attachment) -> Result<(), ClaimError> {
        if self.owner(address)?.as_ref() == Some(owner) {
            remove(&self.address_file(address))?;
        }
        self.unlist(address, owner)?;
        self.tidy();
        Ok(())
    }

    /// Whose the rules for an address are.
    ///
    /// # Errors
    /// [`ClaimError`] names the file. A record that makes no sense is none.
    pub fn owner(&self, address: IpAddr) -> Result<Option<Attachment>, ClaimError> {
        Ok(self.find(address)?.map(|claim| claim.owner))
    }

    /// Who keeps the rules for an address, the last one that made some last.
    ///
    /// # Errors
    /// As [`Claims::owner`].
    pub fn keepers(&self, address: IpAddr) -> Result<Vec<Keeper>, ClaimError> {
        Ok(self.find(address)?.map(|claim| claim.keepers).unwrap_or_default())
    }

    fn find(&self, address: IpAddr) -> Result<Option<Claim>, ClaimError> {
        Ok(read(&self.address_file(address))?.and_then(|text| parse(&text)))
    }

    /// The addresses whose rules are `owner`'s, and those that it was about to claim when it was stopped.
    ///
    /// # Errors
    /// [`ClaimError`] names the file.
    pub fn addresses_of(&self, owner: &Attachment) -> Result<Vec<IpAddr>, ClaimError> {
        let mut own = Vec::new();
        for address in self.listed(owner)? {
            if self.owner(address)?.is_none_or(|recorded| recorded == *owner) {
                own.push(address);
            }
        }
        Ok(own)
    }

    /// The addresses whose rules are those of a network's attachments, in order, with their owners.
    ///
    /// # Errors
    /// [`ClaimError`] names the file or the directory.
    pub fn of_network(&self, network: &NetworkName) -> Result<Vec<(IpAddr, Attachment)>, ClaimError> {
        let failed = |source| ClaimError { verb: "list", path: self.directory.clone(), source };
        let files = match fs::read_dir(&self.directory) {
            Ok(files) => files.collect::<io::Result<Vec<_>>>().map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(failed(source)),
        };
        let mut addresses: Vec<IpAddr> =
            files.iter().filter_map(|file| file.file_name().to_str().and_then(|name| name.parse().ok())).collect();
        addresses.sort_unstable();
        let mut found = Vec::new();
        for address in addresses {
            found.extend(self.owner(address)?.filter(|owner| owner.network == *network).map(|owner| (address, owner)));
        }
        Ok(found)
    }

    /// Adds an address to those of an owner.
    fn list(&self, address: IpAddr, owner: &Attachment) -> Result<(), ClaimError> {
        let mut addresses = self.listed(owner)?;
        if addresses.insert(address) { self.write(&self.owner_file(owner), &lines(&addresses)) } else { Ok(()) }
    }

    /// Takes an address from those of an owner.
    fn unlist(&self, address: IpAddr, owner: &Attachment) -> Result<(), ClaimError> {
        let mut addresses = self.listed(owner)?;
        if !addresses.remove(&address) {
            return Ok(());
        }
        let file = self.owner_file(owner);
        if addresses.is_empty() { remove(&file) } else { self.write(&file, &lines(&addresses)) }
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

    /// A record appears complete or not at all. A draft that does not become one is taken away.
    fn write(&self, file: &Path, text: &str) -> Result<(), ClaimError> {
        let draft = self.drafts.join(format!("{DRAFT}{}", gettid()));
        let mut written = self.write_by_draft(&draft, file, text);
        for _ in 0..REPEATS {
            if !written.as_ref().is_err_and(ClaimError::is_of_coming_and_going) {
                break;
            }
            written = self.write_by_draft(&draft, file, text);
        }
        if written.is_err() {
            remove(&draft)?;
            self.tidy();
        }
        written
    }

    fn write_by_draft(&self, draft: &Path, file: &Path, text: &str) -> Result<(), ClaimError> {
        let failed = |verb, path: &Path| {
            let path = path.to_owned();
            move |source| ClaimError { verb, path, source }
        };
        fs::create_dir_all(&self.directory).map_err(failed("create", &self.directory))?;
        fs::write(draft, text).map_err(failed("write", draft))?;
        fs::rename(draft, file).map_err(failed("replace", file))
    }

    /// A thread that was killed may have left its draft.
    fn remove_dead_drafts(&self) {
        for file in fs::read_dir(&self.drafts).into_iter().flatten().flatten() {
            let name = file.file_name();
            let thread = name.to_str().and_then(|name| name.strip_prefix(DRAFT));
            if thread.is_some_and(|thread| !Path::new("/proc").join(thread).exists())
                && let Err(error) = remove(&file.path())
            {
                log::warn!("{error}: {}", error.details());
            }
        }
    }

    /// Leaves no empty directories behind. They are not empty while somebody uses them, and that is no failure.
    fn tidy(&self) {
        self.remove_dead_drafts();
        for directory in self.directory.ancestors().take(3) {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    log::trace!("{} stays: {error}", directory.display());
                    return;
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
}

fn text(owner: &Attachment) -> String {
    format!("{} {} {}", owner.network, owner.container, owner.ifname)
}

impl fmt::Display for Claim {
    /// Where nobody but iptables keeps rules, that goes without saying.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.owner))?;
        match &self.keepers[..] {
            [Keeper::Iptables] => Ok(()),
            keepers => keepers.iter().try_for_each(|keeper| write!(f, " {keeper}")),
        }
    }
}

/// None of the three names can hold a blank, nor can a keeper.
fn parse(text: &str) -> Option<Claim> {
    let mut words = text.split(' ');
    let network = NetworkName::parse(words.next()?).ok()?;
    let container = ContainerId::parse(words.next()?).ok()?;
    let ifname = IfName::parse(words.next()?).ok()?;
    let mut keepers = words.map(Keeper::parse).collect::<Option<Vec<_>>>()?;
    if keepers.is_empty() {
        keepers.push(Keeper::Iptables);
    }
    Some(Claim { owner: Attachment { network, container, ifname }, keepers })
}

fn with(earlier: Option<&Claim>, keeper: &Keeper) -> Vec<Keeper> {
    let others = earlier.into_iter().flat_map(|claim| &claim.keepers).filter(|other| *other != keeper);
    others.chain([keeper]).cloned().collect()
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
    use cni_netfilter::firewalld::Zone;

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
        assert_eq!(claims.claim(address, &old, &Keeper::Iptables).expect("claim"), None);
        assert_eq!(claims.addresses_of(&old).expect("read"), [address]);
        let earlier = claims.claim(address, &new, &Keeper::Iptables).expect("claim").expect("an earlier claim");
        assert_eq!(earlier, Claim { owner: old.clone(), keepers: vec![Keeper::Iptables] });
        assert_eq!(claims.addresses_of(&old).expect("read"), Vec::<IpAddr>::new());
        claims.release(address, &old).expect("release");
        assert_eq!(claims.owner(address).expect("read"), Some(new.clone()));
        claims.release(address, &new).expect("release");
        assert_eq!(claims.owner(address).expect("read"), None);
        assert!(!root.path().join("boot-1").exists(), "nothing stays behind");
    }

    #[test]
    fn the_claims_of_a_network_are_listed_with_their_owners() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), None);
        let (first, second) = (IpAddr::from([10, 1, 2, 3]), IpAddr::from([10, 1, 2, 4]));
        let net = NetworkName::parse("net").expect("network");
        assert_eq!(claims.of_network(&net).expect("read"), []);
        let foreign = Attachment { network: NetworkName::parse("net2").expect("network"), ..owner("a") };
        claims.claim(IpAddr::from([10, 1, 2, 2]), &foreign, &Keeper::Iptables).expect("claim");
        claims.claim(second, &owner("a"), &Keeper::Iptables).expect("claim");
        claims.claim(first, &owner("b"), &Keeper::Iptables).expect("claim");
        assert_eq!(claims.of_network(&net).expect("read"), [(first, owner("b")), (second, owner("a"))]);
    }

    #[test]
    fn an_owner_whose_last_address_another_claims_leaves_no_record() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), None);
        let address = IpAddr::from([10, 1, 2, 3]);
        for container in ["old", "new", "new"] {
            claims.claim(address, &owner(container), &Keeper::Iptables).expect("claim");
        }
        let mut names: Vec<_> =
            fs::read_dir(&claims.directory).expect("list").map(|file| file.expect("file").path()).collect();
        names.sort();
        assert_eq!(names, [claims.address_file(address), claims.owner_file(&owner("new"))]);
    }

    #[test]
    fn an_earlier_claim_is_put_back_when_the_new_one_fails() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), None);
        let address = IpAddr::from([10, 1, 2, 3]);
        let work = Keeper::Firewalld(Zone::fixed("work"));
        claims.claim(address, &owner("old"), &work).expect("claim");
        let before = files(&claims);
        for container in ["old", "new"] {
            let earlier = claims.claim(address, &owner(container), &Keeper::Iptables).expect("claim");
            let claim = Claim { owner: owner(container), keepers: claims.keepers(address).expect("read") };
            claims.put_back(address, earlier.as_ref(), &claim).expect("put back");
            assert_eq!(files(&claims), before, "{container}");
        }
    }

    /// The names of the records, and what is in those that are files.
    fn files(claims: &Claims) -> BTreeSet<(PathBuf, Option<String>)> {
        let files = fs::read_dir(&claims.directory).expect("list");
        files.map(|file| file.expect("file").path()).map(|path| (path.clone(), fs::read_to_string(path).ok())).collect()
    }

    #[test]
    fn the_draft_of_a_thread_that_is_gone_is_removed_and_that_of_another_stays() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), None);
        let address = IpAddr::from([10, 1, 2, 3]);
        let gone = std::thread::spawn(gettid).join().expect("it ends");
        let [dead, living] =
            [gone.to_string(), "1".to_owned()].map(|thread| claims.drafts.join(DRAFT.to_owned() + &thread));
        claims.claim(address, &owner("a"), &Keeper::Iptables).expect("claim");
        for draft in [&dead, &living] {
            fs::write(draft, "half a rec").expect("written");
        }
        claims.release(address, &owner("a")).expect("release");
        assert_eq!((dead.exists(), living.exists(), claims.directory.exists()), (false, true, false));
        fs::remove_file(&living).expect("removed");
        claims.release(address, &owner("a")).expect("release");
        assert!(!claims.drafts.exists(), "nothing stays behind");
    }

    /// Each releases the last claim again and again, and takes the directories away that others draft in.
    #[test]
    fn those_who_come_and_go_at_once_do_not_keep_each_other_from_it() {
        let root = tempfile::tempdir().expect("directory");
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let claims = Claims::below(root.path(), None);
                scope.spawn(move || {
                    let (address, owner) = (IpAddr::from([10, 1, 2, number]), owner(&format!("c{number}")));
                    for _ in 0..300 {
                        assert_eq!(claims.claim(address, &owner, &Keeper::Iptables).expect("claim"), None);
                        assert_eq!(claims.addresses_of(&owner).expect("read"), [address]);
                        claims.release(address, &owner).expect("release");
                    }
                });
            }
        });
        assert!(!Claims::below(root.path(), None).drafts.exists(), "nothing stays behind");
    }

    #[test]
    fn a_record_that_makes_no_sense_is_none() {
        for text in ["", "net", "net id", "net id eth0 more", "net id a/b"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let claim = |keepers| Some(Claim { owner: owner("old"), keepers });
        assert_eq!(parse("net old eth0"), claim(vec![Keeper::Iptables]));
        let both = vec![Keeper::Firewalld(Zone::fixed("work")), Keeper::Iptables];
        assert_eq!(parse("net old eth0 firewalld:work iptables"), claim(both));
    }

    #[test]
    fn whoever_has_kept_rules_stays_written_down_and_the_last_one_is_last() {
        let root = tempfile::tempdir().expect("directory");
        let claims = Claims::below(root.path(), None);
        let address = IpAddr::from([10, 1, 2, 3]);
        let zone = |name| Keeper::Firewalld(Zone::fixed(name));
        let made = [Keeper::Iptables, zone("trusted"), Keeper::Iptables, zone("work")];
        for (container, keeper) in ["old", "old", "new", "new"].into_iter().zip(&made) {
            claims.claim(address, &owner(container), keeper).expect("claim");
        }
        let text = fs::read_to_string(claims.address_file(address)).expect("record");
        assert_eq!(text, "net new eth0 firewalld:trusted iptables firewalld:work");
        let want = [zone("trusted"), Keeper::Iptables, zone("work")];
        assert_eq!(claims.keepers(address).expect("read"), want);
        claims.release(address, &owner("new")).expect("release");
        assert_eq!(claims.keepers(address).expect("read"), []);
        claims.claim(address, &owner("new"), &Keeper::Iptables).expect("claim");
        assert_eq!(fs::read_to_string(claims.address_file(address)).expect("record"), "net new eth0");
    }
}
