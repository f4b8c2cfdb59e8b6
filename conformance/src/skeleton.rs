//! The objects that plugins leave on the host for the next container.
//!
//! Containers of a network share its bridge, the top-level chains, forwarding and the folder of leases; no plugin
//! removes these. [`Skeleton`] lists them exactly, so that a test can verify that nothing else is left.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use crate::nomad::{ADMIN_CHAIN, GATEWAY_V4, GATEWAY_V6, Nomad, SUBNET_V4, SUBNET_V6, Subnets};
use crate::state::{State, diff};

/// The time limit for the kernel to clean up after a namespace.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shared objects of a network.
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
        let leases = format!("{}/nomad", nomad.data_dir.replace("/var/run", "/run"));
        let v4 = ("iptables", GATEWAY_V4, SUBNET_V4);
        let families = match nomad.subnets {
            Subnets::V4 => vec![v4],
            Subnets::V4AndV6 => vec![v4, ("ip6tables", GATEWAY_V6, SUBNET_V6)],
        };
        let skeleton = Self::on_bridge(&nomad.bridge).with_leases(&leases, families.len()).with_loopback_guard();
        families.into_iter().fold(skeleton, |skeleton, (program, gateway, subnet)| {
            let skeleton = skeleton.with_gateway(gateway, subnet);
            skeleton.with_rules(program, "nat", &ports(13)).with_rules(program, "filter", &filter(ADMIN_CHAIN))
        })
    }

    /// Lists a bridge, which is down when the ADD that made it was killed; the next one sets it up.
    pub fn on_bridge(bridge: &str) -> Self {
        Self {
            lines: Vec::new(),
            beginnings: ["up", "down"].map(|state| format!("host links: {bridge} bridge {state} mtu 1500 mac ")).into(),
            changing: Vec::new(),
            bridge: bridge.to_owned(),
            families: Vec::new(),
        }
    }

    /// Adds the folder of leases of a network with so many range sets.
    #[must_use]
    pub fn with_leases(mut self, folder: &str, sets: usize) -> Self {
        self.lines.extend([format!("files: {folder} 40755"), format!("files: {folder}/lock 100750 \"\"")]);
        self.changing.extend((0..sets).map(|set| format!("files: {folder}/last_reserved_ip.{set} 100600 \"")));
        self.changing.push(format!("files: {folder}/.cni-plugins-rs 40700"));
        self.changing.push(format!("files: {folder}/.cni-plugins-rs/stamp 100600 \"#host-local index 1"));
        self
    }

    /// Adds the bridge's address in a network, the route to it, and forwarding for its family.
    #[must_use]
    pub fn with_gateway(mut self, gateway: &str, subnet: &str) -> Self {
        let (_, length) = subnet.split_once('/').expect("a subnet has a prefix length");
        let bridge = &self.bridge;
        let (family, route_end) = if gateway.contains(':') {
            ("ipv6", " metric 256".to_owned())
        } else {
            ("ipv4", format!(" src {gateway}"))
        };
        self.lines.push(format!("host addresses: {bridge} {gateway}/{length}"));
        self.lines.push(format!("host routes: {subnet} dev {bridge}{route_end}"));
        self.families.push(family);
        self
    }

    /// Adds chains and rules, as `iptables` or `ip6tables` prints them.
    #[must_use]
    pub fn with_rules<T: Display>(mut self, program: &str, table: &str, rules: &[T]) -> Self {
        self.lines.extend(rules.iter().map(|rule| format!("{program} {table}: {rule}")));
        self
    }

    /// Adds the table that keeps the host's loopback to itself where portmap sets `route_localnet`.
    #[must_use]
    pub fn with_loopback_guard(mut self) -> Self {
        self.lines.extend(LOOPBACK_GUARD.map(|line| format!("nftables: {line}")));
        // Other tables end alike.
        self.beginnings.extend(["\t}", "}"].map(|end| format!("nftables: {end}")));
        self
    }

    /// Returns the differences besides the shared objects, as `- line` and `+ line`, and shared rules that exist more
    /// than once.
    pub fn leftovers(&self, before: &State, after: &State) -> Vec<String> {
        let mut left = diff(before, after);
        left.retain(|change| !self.covers(change));
        let lines = after.lines();
        let copies = |shared: &&String| lines.iter().filter(|line| line == shared).count() > 1;
        left.extend(self.lines.iter().filter(copies).map(|line| format!("twice {line}")));
        left
    }

    /// Requires that nothing but shared objects was added or removed.
    ///
    /// The kernel gets some time, since it deletes links after their namespace has ended; what a plugin forgot is not
    /// deleted by itself.
    ///
    /// # Panics Otherwise, with all differences.
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

    /// Whether a setting is shared: forwarding stays on, and the bridge has its own settings.
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

/// The output of `nft` for it, without the closing lines.
const LOOPBACK_GUARD: [&str; 6] = [
    "table inet cni_plugins_localnet {",
    "\tcomment \"Drops packets with loopback addresses that come in by a link, where portmap sets route_localnet\"",
    "\tchain prerouting {",
    "\t\ttype filter hook prerouting priority raw; policy accept;",
    "\t\tiifname != \"lo\" ip daddr 127.0.0.0/8 drop",
    "\t\tiifname != \"lo\" ip saddr 127.0.0.0/8 drop",
];

/// The rules that the portmap plugin leaves in table nat, with the bit that marks packets for masquerading.
pub fn ports(mark_bit: u32) -> [String; 8] {
    let mark = format!("{:#x}/{:#x}", 1_u64 << mark_bit, 1_u64 << mark_bit);
    [
        "-N CNI-HOSTPORT-DNAT".to_owned(),
        "-N CNI-HOSTPORT-MASQ".to_owned(),
        "-N CNI-HOSTPORT-SETMARK".to_owned(),
        "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT".to_owned(),
        "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT".to_owned(),
        "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j CNI-HOSTPORT-MASQ".to_owned(),
        format!("-A CNI-HOSTPORT-MASQ -m mark --mark {mark} -j MASQUERADE"),
        format!(
            "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" -j MARK --set-xmark {mark}"
        ),
    ]
}

/// The rules that the firewall plugin leaves in table filter, with the administrator's chain.
pub fn filter(admin_chain: &str) -> [String; 4] {
    [
        "-N CNI-FORWARD".to_owned(),
        format!("-N {admin_chain}"),
        "-A FORWARD -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD".to_owned(),
        format!("-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j {admin_chain}"),
    ]
}

/// Whether a file is a lock in the plugins' own folder, or the mark of a refused ADD, which stays while another interface has the name, or a
/// folder of these. Nothing else may be there.
fn is_lock_or_its_folder(file: &str) -> bool {
    let (path, about) = file.split_once(' ').expect("a file has a mode");
    let is_folder = path.matches('/').count() < 2 && about.starts_with("40");
    let is_lock = path.ends_with(".lock") && about.starts_with("100");
    is_folder || is_lock || path.contains("/refused")
}
