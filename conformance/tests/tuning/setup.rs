//! One container with an interface, and calls of the plugin about it.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cni_conformance::keys::with;
use cni_conformance::{ChainedHost, State};
use serde_json::{Value, json};

/// The address that the interface has before anything is tuned.
pub const FIRST_MAC: &str = "02:00:00:00:00:01";

/// Where the reference keeps what the interface was.
pub const BACKUP: &str = "/run/cni/tuning/c1_eth0.json";

/// The administrator's files, for a sandbox of its own.
const COPY: &str = "/run/conformance/etc";

/// What `ip` prints about the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    pub mac: String,
    pub mtu: u64,
    /// Whether the administrator has asked for promiscuous mode, and how many others.
    pub promisc: (bool, u64),
    pub all_multicast: bool,
    pub queue: u64,
}

/// A host, and a container `c1` whose interface `eth0` leads to the link `host0`.
pub struct Tuned(ChainedHost);

impl Deref for Tuned {
    type Target = ChainedHost;

    fn deref(&self) -> &ChainedHost {
        &self.0
    }
}

impl Tuned {
    pub fn new() -> Self {
        let behind = ChainedHost::new("tuning", "c1");
        behind.add_interface("eth0", "host0", Some(FIRST_MAC));
        let interface = with(&behind.interface("eth0"), &json!({"mac": FIRST_MAC}));
        Self(behind.reported(&json!({"interfaces": [{"name": "host0"}, interface]})))
    }

    pub fn properties(&self) -> Properties {
        self.properties_of("eth0")
    }

    pub fn properties_of(&self, name: &str) -> Properties {
        let text = self.container.must(&["ip", "-json", "-details", "link", "show", "dev", name]);
        let links: Value = serde_json::from_str(&text).expect("ip tells JSON");
        let link = &links[0];
        let flag = |name: &str| link["flags"].as_array().expect("flags").iter().any(|flag| flag == name);
        let number = |key: &str| link[key].as_u64().unwrap_or_else(|| panic!("{key}: {link}"));
        Properties {
            mac: link["address"].as_str().expect("an address").to_owned(),
            mtu: number("mtu"),
            promisc: (flag("PROMISC"), number("promiscuity")),
            all_multicast: flag("ALLMULTI"),
            // `ip` does not tell a queue without length.
            queue: link["txqlen"].as_u64().unwrap_or(0),
        }
    }

    /// The value of a kernel parameter of the container.
    pub fn parameter(&self, path: &str) -> String {
        let path = format!("/proc/sys/{path}");
        let read = || fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
        self.container.run(read).trim_end().to_owned()
    }

    pub fn set_parameter(&self, path: &str, value: &str) {
        let path = format!("/proc/sys/{path}");
        self.container.run(|| fs::write(&path, value).unwrap_or_else(|error| panic!("write {path}: {error}")));
    }

    pub fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.container])
    }

    /// Writes the administrator's list of allowed parameters.
    pub fn allow(&self, list: &str) {
        let folder = Path::new("/etc/cni/tuning");
        if !Path::new(COPY).exists() {
            self.sandbox.sh(&format!("cp -a /etc {COPY}"));
            self.sandbox.sh(&format!("mount --bind {COPY} /etc"));
            fs::create_dir_all(folder).expect("make a folder");
        }
        fs::write(folder.join("allowlist.conf"), list).expect("write the list");
    }
}

/// The mode and content of a file; `None` if it is missing.
pub fn file(path: &str) -> Option<(u32, String)> {
    let mode = fs::symlink_metadata(path).ok()?.permissions().mode() & 0o7777;
    Some((mode, fs::read_to_string(path).unwrap_or_else(|error| panic!("read {path}: {error}"))))
}
