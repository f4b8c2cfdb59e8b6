//! What plugins leave on the host for the next container.
//!
//! Containers of a network share its bridge, the top-level chains, forwarding and the folder of
//! leases; nobody takes these away. [`Skeleton`] lists them to the letter, so that a test can say
//! that nothing else stayed.

use std::thread;
use std::time::{Duration, Instant};

use crate::nomad::{ADMIN_CHAIN, GATEWAY_V4, GATEWAY_V6, Nomad, SUBNET_V4, SUBNET_V6, Subnets};
use crate::state::{State, diff};

/// How long the kernel may take to clean up behind a namespace.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shared objects of a Nomad client.
#[derive(Debug, Clone)]
pub struct Skeleton {
    /// Whole lines of a snapshot.
    lines: Vec<String>,
    /// Beginnings of lines, for what is not known beforehand.
    beginnings: Vec<String>,
    /// Beginnings of lines, for what also changes: where the next address is looked for, and the
    /// age of the index of leases.
    changing: Vec<String>,
    bridge: String,
    families: Vec<&'static str>,
}

impl Skeleton {
    /// Lists what containers of this network share.
    pub fn of(nomad: &Nomad) -> Self {
        let bridge = nomad.bridge.clone();
        let leases = format!("{}/nomad", nomad.data_dir.replace("/var/run", "/run"));
        let mut skeleton = Self {
            lines: vec![
                format!("files: {leases} 40755"),
                format!("files: {leases}/lock 100750 \"\""),
                format!("files: {leases}/.cni-plugins-rs 40700"),
            ],
            // Down when the ADD that made it was killed; the next one sets it up.
            beginnings: ["up", "down"].map(|state| format!("host links: {bridge} bridge {state} mtu 1500 mac ")).into(),
            changing: vec![format!("files: {leases}/.cni-plugins-rs/stamp 100600 \"#host-local index 1")],
            bridge,
            families: Vec::new(),
        };
        skeleton.add_family("ipv4", "iptables", GATEWAY_V4, SUBNET_V4, &leases, 0);
        if nomad.subnets == Subnets::V4AndV6 {
            skeleton.add_family("ipv6", "ip6tables", GATEWAY_V6, SUBNET_V6, &leases, 1);
        }
        skeleton
    }

    fn add_family(&mut self, word: &'static str, program: &str, gateway: &str, subnet: &str, leases: &str, set: u8) {
        let (_, length) = subnet.split_once('/').expect("a subnet has a prefix length");
        let bridge = &self.bridge;
        let route_end = if word == "ipv4" { format!(" src {gateway}") } else { " metric 256".to_owned() };
        self.lines.push(format!("host addresses: {bridge} {gateway}/{length}"));
        self.lines.push(format!("host routes: {subnet} dev {bridge}{route_end}"));
        self.changing.push(format!("files: {leases}/last_reserved_ip.{set} 100600 \""));
        self.lines.extend(NAT.iter().map(|rule| format!("{program} nat: {rule}")));
        self.lines.extend(filter().iter().map(|rule| format!("{program} filter: {rule}")));
        self.families.push(word);
    }

    /// Returns what changed beside the shared objects, as `- line` and `+ line`, and shared rules
    /// that are there more than once.
    pub fn leftovers(&self, before: &State, after: &State) -> Vec<String> {
        let mut left = diff(before, after);
        left.retain(|change| !self.covers(change));
        let lines = after.lines();
        let copies = |shared: &&String| lines.iter().filter(|line| line == shared).count() > 1;
        left.extend(self.lines.iter().filter(copies).map(|line| format!("twice {line}")));
        left
    }

    /// Requires that nothing but shared objects stayed or went.
    ///
    /// Some time is given to the kernel, which takes links away after their namespace is gone; what
    /// a plugin forgot does not go by itself.
    ///
    /// # Panics
    /// Otherwise, with all lines.
    #[track_caller]
    pub fn assert_nothing_else(&self, before: &State, after: impl Fn() -> State) {
        let started = Instant::now();
        let mut left = self.leftovers(before, &after());
        while !left.is_empty() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(50));
            left = self.leftovers(before, &after());
        }
        assert!(left.is_empty(), "more than the shared objects changed:\n{}", left.join("\n"));
    }

    fn covers(&self, change: &str) -> bool {
        let (sign, line) = change.split_at(2);
        if let Some(setting) = line.strip_prefix("host settings: ") {
            return self.covers_setting(sign, setting);
        }
        let file = line.strip_prefix("files: /run/cni/.cni-plugins-rs");
        let begins = |beginning: &String| line.starts_with(beginning.as_str());
        let stays = || self.lines.iter().any(|shared| shared == line) || self.beginnings.iter().any(begins);
        self.changing.iter().any(begins) || (sign == "+ " && (stays() || file.is_some_and(is_lock_or_its_folder)))
    }

    /// Forwarding goes on, everywhere, and the bridge has its own settings.
    fn covers_setting(&self, sign: &str, setting: &str) -> bool {
        let (key, value) = setting.split_once(" = ").expect("a setting has a value");
        let of_family = |family: &&str| key.starts_with(&format!("net/{family}/"));
        let of_bridge = key.contains(&format!("/conf/{}/", self.bridge));
        let forwarding = key.ends_with("/forwarding") || key == "net/ipv4/ip_forward";
        let goes_on =
            forwarding && self.families.iter().any(of_family) && value == if sign == "+ " { "1" } else { "0" };
        of_bridge || goes_on
    }
}

/// What `-S` shows of table nat when no container is there.
const NAT: [&str; 8] = [
    "-N CNI-HOSTPORT-DNAT",
    "-N CNI-HOSTPORT-MASQ",
    "-N CNI-HOSTPORT-SETMARK",
    "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
    "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
    "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j CNI-HOSTPORT-MASQ",
    "-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
    "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" -j MARK --set-xmark 0x2000/0x2000",
];

fn filter() -> [String; 4] {
    [
        "-N CNI-FORWARD".to_owned(),
        format!("-N {ADMIN_CHAIN}"),
        "-A FORWARD -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD".to_owned(),
        format!("-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j {ADMIN_CHAIN}"),
    ]
}

/// The plugins' own folder may keep locks, whatever their name, and nothing else.
fn is_lock_or_its_folder(file: &str) -> bool {
    let (path, about) = file.split_once(' ').expect("a file has a mode");
    let is_folder = path.is_empty() && about.starts_with("40");
    let is_lock = path.ends_with(".lock") && about.starts_with("100");
    is_folder || is_lock
}
