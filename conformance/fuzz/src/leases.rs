//! The lease directory of host-local, on a real disk: a configuration, `CNI_ARGS`, a resolver's file, and the entries
//! of the directory. The first line of an entry is `f NAME` for a file, `d NAME` for a directory, or `i NAME` for a
//! part of the index, which is forged after ADD.
//!
//! No container gets an address that another one holds; leases of others do not change; a failed ADD leaves no lease;
//! a leased address passes CHECK, and DEL releases it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cni_core::cidr::parse_ip;
use cni_core::json::Json;
use cni_core::result::CniResult;
use tempfile::TempDir;

use crate::host::FuzzHost;
use crate::input::Documents;
use crate::life::{FuzzContainer, host, known};

/// The content of the leases that ADD makes.
const OWN: &[u8] = b"c1\r\neth0";

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (config, args, resolver) = (documents.text(), documents.text(), documents.next().unwrap_or_default());
    let json = Json::parse(config.as_bytes()).ok()?;
    // Without its own keys, the plugin would work in the directory of the machine's networks.
    let Some(Json::Object(keys)) = json.get("ipam") else { return None };
    let disk = LeaseDirectory::new(&json, resolver)?;
    let documents: Vec<DirectoryEntry<'_>> = documents.filter_map(DirectoryEntry::read).collect();
    documents.iter().filter(|document| document.kind != b'i').for_each(|document| disk.put(document));
    let (plugin, config) = (&cni_host_local::HostLocal, disk.config(&json, keys));
    let life = FuzzContainer { plugin, config, args: args.into_owned() };
    live(&life, &disk, documents.iter().filter(|document| document.kind == b'i'))
}

fn live<'a>(
    life: &FuzzContainer,
    disk: &LeaseDirectory,
    index: impl Iterator<Item = &'a DirectoryEntry<'a>>,
) -> Option<()> {
    let (mut host, before) = (host(life.plugin), disk.leases());
    let others: Vec<_> = before.iter().filter(|(_, content)| !is_ours(content)).collect();
    let added = life.add(&mut host)?;
    let is_added = added.is_ok();
    match added {
        Err(error) => assert_eq!(disk.leases(), before, "{}", error.in_full()),
        Ok(result) => given(&result, life, disk, &before, &mut host),
    }
    // Then nobody gets the lock, ADD neither.
    let mut is_forged = disk.is_directory("lock");
    for document in index {
        disk.put(document);
        is_forged = true;
    }
    let deleted = life.del(&mut host).map(|deleted| deleted.map_err(|error| error.in_full()));
    let left = disk.leases();
    if !is_forged {
        assert_eq!(deleted, Some(Ok(())), "DEL");
        assert!(!left.iter().any(|(_, content)| trimmed(content).as_bytes() == OWN), "{left:?}");
    }
    others.iter().for_each(|(name, content)| assert_eq!(left.get(*name), Some(*content), "{name} is another's"));
    is_added.then_some(())
}

/// What ADD has given.
fn given(
    result: &CniResult,
    life: &FuzzContainer,
    disk: &LeaseDirectory,
    before: &BTreeMap<String, Vec<u8>>,
    host: &mut FuzzHost,
) {
    let leases = disk.leases();
    for ip in &result.ips {
        let name = ip.address.address().to_string();
        // A lease that the container has already stays as it is.
        let content = before.get(&name).map_or(OWN, Vec::as_slice);
        assert!(is_ours(content), "{name} is another's");
        assert_eq!(leases.get(&name).map(Vec::as_slice), Some(content), "{name}");
    }
    if let Some(check) = life.request("CHECK", &life.config) {
        let reported = known(life.plugin.check(&check, host)).map_err(|error| error.in_full());
        assert_eq!(reported, Ok(()), "CHECK after ADD");
    }
    life.look(&life.config, host);
    assert_eq!(disk.leases(), leases, "looking changes nothing");
}

/// Whether a lease is the container's own, as this or an older release writes it.
fn is_ours(content: &[u8]) -> bool {
    let text = trimmed(content);
    text.as_bytes() == OWN || text == "c1"
}

/// A lease without the zero bytes with which a crash of the machine may have filled it up.
fn trimmed(content: &[u8]) -> String {
    String::from_utf8_lossy(content).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

/// Something that lies in the directory.
struct DirectoryEntry<'a> {
    kind: u8,
    name: &'a str,
    content: &'a [u8],
}

impl<'a> DirectoryEntry<'a> {
    /// Reads a document; `None` for one that would lie elsewhere.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (kind, name) = match &bytes[..end] {
            [kind @ (b'f' | b'd' | b'i'), b' ', name @ ..] => (*kind, std::str::from_utf8(name).ok()?),
            _ => return None,
        };
        let is_plain = !["", ".", ".."].contains(&name) && name.len() <= 255 && !name.contains(['/', '\0']);
        is_plain.then(|| Self { kind, name, content: bytes.get(end + 1..).unwrap_or_default() })
    }
}

/// A directory of leases that goes when it is dropped.
struct LeaseDirectory {
    root: TempDir,
    leases: PathBuf,
}

impl LeaseDirectory {
    /// The directory of a configuration's network, if that has a name.
    fn new(config: &Json, resolver: &[u8]) -> Option<Self> {
        let Some(Json::String(network)) = config.get("name") else { return None };
        let network = cni_core::names::NetworkName::parse(network).ok().filter(|name| name.as_str().len() <= 255)?;
        let memory = Path::new("/dev/shm");
        let root =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory");
        let leases = root.path().join("leases").join(network.as_str());
        fs::create_dir_all(&leases).expect("made");
        fs::write(root.path().join("resolv.conf"), resolver).expect("written");
        Some(Self { root, leases })
    }

    fn put(&self, DirectoryEntry { kind, name, content }: &DirectoryEntry<'_>) {
        let own = self.leases.join(".cni-plugins-rs");
        let put = match kind {
            b'd' => fs::create_dir(self.leases.join(name)),
            b'i' => fs::create_dir_all(&own).and_then(|()| fs::write(own.join(name), content)),
            _ => fs::write(self.leases.join(name), content),
        };
        // A name that is taken already stays what it is.
        drop(put);
    }

    fn is_directory(&self, name: &str) -> bool {
        self.leases.join(name).is_dir()
    }

    /// Every file that is named as an address and has a content, in order.
    fn leases(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.leases).expect("there").map(|entry| entry.expect("an entry"));
        let files = entries.filter(|entry| entry.file_type().expect("known").is_file());
        let named = files.filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| parse_ip(name).is_some())?;
            let content = fs::read(entry.path()).expect("read");
            let is_held = content.iter().any(|byte| !byte.is_ascii_whitespace() && *byte != 0);
            is_held.then_some((name, content))
        });
        named.collect()
    }

    /// The configuration, with files here and nowhere else.
    fn config(&self, json: &Json, keys: &[(String, Json)]) -> String {
        let Json::Object(entries) = json else { return json.to_string() };
        let mut entries: Vec<_> =
            entries.iter().filter(|(key, _)| !key.eq_ignore_ascii_case("ipam")).cloned().collect();
        entries.push(("ipam".to_owned(), self.ipam(keys)));
        Json::Object(entries).to_string()
    }

    fn ipam(&self, keys: &[(String, Json)]) -> Json {
        let mut keys = keys.to_vec();
        let path = |name: &str| Json::String(self.root.path().join(name).display().to_string());
        if Json::Object(keys.clone()).get("resolvConf").is_some() {
            keys.push(("resolvConf".to_owned(), path("resolv.conf")));
        }
        keys.push(("dataDir".to_owned(), path("leases")));
        Json::Object(keys)
    }
}
