//! A network with addresses to give, asked by containers that are just names.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cni_conformance::keys;
use cni_conformance::{CniError, Invocation, Sandbox, Verb};
use serde_json::{Value, json};

/// Where the leases of these tests lie.
pub const LEASES: &str = "/run/cni/net1";

/// A machine and a configuration of network `net1`.
pub struct Pool {
    pub sandbox: Sandbox,
    pub config: Value,
}

impl Pool {
    /// Takes the `ipam` section, to which `type` and, unless it has one, `dataDir` are added.
    pub fn new(ipam: &Value) -> Self {
        let mut config = json!({
            "cniVersion": "1.0.0", "name": "net1", "type": "bridge",
            "ipam": {"type": "host-local", "dataDir": "/run/cni"},
        });
        keys::set(&mut config["ipam"], ipam);
        Self { sandbox: Sandbox::new(), config }
    }

    /// Takes one set for each list of subnets.
    pub fn of_subnets(sets: &[&[&str]]) -> Self {
        let range_set = |set: &&[&str]| set.iter().map(|subnet| json!({"subnet": subnet})).collect::<Value>();
        let sets: Value = sets.iter().map(range_set).collect();
        Self::new(&json!({"ranges": sets}))
    }

    /// Sets a key of the configuration's top level.
    #[must_use]
    pub fn with(mut self, key: &str, value: &Value) -> Self {
        self.config[key] = value.clone();
        self
    }

    /// Prepares a call for interface `eth0` of a container, in no namespace.
    pub fn call(&self, verb: Verb, id: &str) -> Invocation {
        Invocation::new(&self.sandbox, "host-local", verb)
            .container_id(id)
            .netns(&format!("/run/netns/{id}"))
            .config(&self.config)
    }

    /// Runs an ADD that must succeed, and returns the result.
    #[track_caller]
    pub fn result(&self, id: &str) -> Value {
        self.call(Verb::Add, id).run().result()
    }

    /// Runs an ADD that must succeed, and returns the addresses without their prefix.
    #[track_caller]
    pub fn add(&self, id: &str) -> String {
        addresses(&self.result(id))
    }

    /// Runs a DEL that must succeed.
    #[track_caller]
    pub fn del(&self, id: &str) {
        self.call(Verb::Del, id).run().expect_success();
    }

    /// Runs an ADD that must fail with this code and all these words, and leave every lease as it was.
    #[track_caller]
    pub fn refused(&self, call: &Invocation, code: u64, says: &[&str]) -> CniError {
        let before = leases();
        let outcome = call.run();
        let error = outcome.expect_error(code, "");
        let text = format!("{}: {}", error.msg, error.details);
        for words in says {
            assert!(text.contains(words), "must say {words:?}: {outcome}");
        }
        assert_eq!(leases(), before, "{outcome}");
        error
    }

    /// Runs a call that must fail before anything is done.
    #[track_caller]
    pub fn refused_at_once(&self, call: &Invocation, code: u64, says: &[&str]) {
        let before = everything();
        self.refused(call, code, says);
        assert_eq!(everything(), before);
    }
}

/// Returns the addresses of a result of 1.0.0 without their prefix, joined by blanks.
pub fn addresses(result: &Value) -> String {
    let ips = result["ips"].as_array().expect("a result has addresses");
    let texts = ips.iter().map(|ip| ip["address"].as_str().expect("an address is text"));
    texts.map(|cidr| cidr.split('/').next().unwrap_or(cidr)).collect::<Vec<_>>().join(" ")
}

/// Returns the files that are named as addresses, with what they say.
pub fn leases() -> BTreeMap<String, String> {
    let mut leases = files(Path::new(LEASES));
    leases.retain(|name, _| name.parse::<std::net::IpAddr>().is_ok());
    leases.into_iter().map(|(name, (_, content))| (name, content)).collect()
}

/// Returns the files of a folder by their names, with mode and content; none when there is no folder.
pub fn files(folder: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => panic!("list {}: {error}", folder.display()),
    };
    for entry in entries {
        let entry = entry.expect("read a folder's list");
        let about = entry.metadata().expect("stat a file");
        if about.is_file() {
            let content = fs::read(entry.path()).expect("read a file");
            let name = entry.file_name().into_string().expect("names are text");
            let content = String::from_utf8(content).expect("files are text");
            found.insert(name, (about.permissions().mode() & 0o7777, content));
        }
    }
    found
}

/// Lists all files and folders that plugins may leave, wherever a configuration here leads to.
fn everything() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = vec!["/run/cni".into(), "/run/lock".into(), "/var/lib".into()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("read a folder's list").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Writes a file among the leases, as somebody else would.
pub fn write(name: &str, content: &str) {
    fs::create_dir_all(LEASES).expect("create the folder of leases");
    let path = Path::new(LEASES).join(name);
    fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}
