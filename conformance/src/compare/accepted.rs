//! The accepted differences from the reference, and their reasons. There is no other list of them.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::reference::Level;

/// The side of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOwner {
    Ours,
    Reference,
}

/// What happens to a line before it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LineVerdict {
    AsItIs,
    Gone,
    Changed(String),
}

use LineOwner::{Ours, Reference};
use LineVerdict::{AsItIs, Changed, Gone};

/// A difference that is wanted.
struct Accepted {
    /// Why.
    reason: &'static str,
    /// With which reference it shows.
    shows: &'static [Level],
    rule: fn(LineOwner, &str) -> LineVerdict,
    used: AtomicBool,
}

const BOTH: &[Level] = &[Level::Old, Level::New];

const fn row(reason: &'static str, shows: &'static [Level], rule: fn(LineOwner, &str) -> LineVerdict) -> Accepted {
    Accepted { reason, shows, rule, used: AtomicBool::new(false) }
}

/// The bridges that rows have.
const BRIDGES: [&str; 4] = ["br0", "br1", "cni0", "nomad"];

static ACCEPTED: [Accepted; 11] = [
    row("the host's end of a veth pair tells whose it is", BOTH, |side, line| {
        match (side, line.split_once(" alias \"cni:")) {
            (Ours, Some((before, after))) => {
                let (_, after) = after.split_once('"').expect("an alias has an end");
                Changed(format!("{before}{after}"))
            }
            _ => AsItIs,
        }
    }),
    row(
        "leases can be found without reading all, by an index beside them; claims and locks are ours",
        BOTH,
        |side, line| {
            if side == Ours && line.starts_with("files: ") && line.contains("/.cni-plugins-rs") { Gone } else { AsItIs }
        },
    ),
    row("v1.1.1 lets everybody read a lease, v1.9.1 does not", &[Level::Old], |side, line| {
        match (side, line.split_once(" 100644 ")) {
            (Reference, Some((before, after))) if before.starts_with("files: /run/cni/") => {
                Changed(format!("{before} 100600 {after}"))
            }
            _ => AsItIs,
        }
    }),
    row(
        "the folder of tuning's files, which are root's alone, can be entered by its owner",
        BOTH,
        |side, line| match (side, line.strip_suffix(" 40600")) {
            (Reference, Some(folder @ "files: /run/cni/tuning")) => Changed(format!("{folder} 40700")),
            _ => AsItIs,
        },
    ),
    row("loopback prints 1.0.0 whatever the version is", BOTH, |_, line| {
        if line.starts_with("loopback prints in 0.") { Gone } else { AsItIs }
    }),
    row(
        "where portmap sets route_localnet, packets with loopback addresses that come from outside are dropped",
        BOTH,
        |side, line| {
            if side == Ours && line.starts_with("nftables inet cni_plugins_localnet: ") { Gone } else { AsItIs }
        },
    ),
    row("a new bridge that is an IPv6 gateway forwards at once", BOTH, |_, line| {
        let of_bridge = |bridge| line.starts_with(&format!("host settings: net/ipv6/conf/{bridge}/accept_dad = "));
        if BRIDGES.into_iter().any(of_bridge) { Gone } else { AsItIs }
    }),
    row("both ends of a routed pair can use IPv6 at once", BOTH, |_, line| {
        let of_pair = |start: &str| line.starts_with(start) && line.contains("/accept_dad = ");
        let ends =
            ["host settings: net/ipv6/conf/port", "c1 settings: net/ipv6/conf/eth0", "c2 settings: net/ipv6/conf/eth0"];
        if ends.into_iter().any(of_pair) { Gone } else { AsItIs }
    }),
    row(
        "of the reference's two actions for what a container sends, no packet reaches the second",
        BOTH,
        |side, line| {
            if side == Reference && line.starts_with("tc filter: action order 2: mirred ") { Gone } else { AsItIs }
        },
    ),
    row("a bridge keeps its MAC address when its last port leaves", BOTH, |side, line| {
        match (side, line.split_once(" mac 00:00:00:00:00:00")) {
            (Reference, Some((before, after)))
                if BRIDGES.iter().any(|bridge| before.starts_with(&format!("host links: {bridge} bridge "))) =>
            {
                Changed(format!("{before} mac MAC{after}"))
            }
            _ => AsItIs,
        }
    }),
    row(
        "v1.1.1 does not know isolated bridges, so the rules for all policies have another comment",
        &[Level::Old],
        |side, line| {
            let of_all = line.contains("-A FORWARD ") || line.ends_with(" -j RETURN") || line.contains("-STAGE-2 -o ");
            if side == Reference && of_all && line.contains("(ingressPolicy: same-bridge)") {
                Changed(line.replace("same-bridge)", "same-bridge|isolated)"))
            } else {
                AsItIs
            }
        },
    ),
];

/// Brings a result to the form in which it is compared. v1.1.1 prints 1.0.0 in the order of the older
/// versions, with an empty `dns`, so just the members count then.
pub fn form_of_result(level: Level, version: &str, text: &str) -> String {
    if level > Level::Old || version < "1.0.0" || text.is_empty() {
        return text.to_owned();
    }
    let mut result: Value = serde_json::from_str(text).expect("a result is JSON");
    if result["dns"] == json!({}) {
        result.as_object_mut().expect("a result is an object").remove("dns");
    }
    format!("{result:#}")
}

/// Applies the table to the lines of one side.
pub fn apply(side: LineOwner, lines: &[String]) -> Vec<String> {
    lines.iter().filter_map(|line| applied(side, line.clone())).collect()
}

/// Applies the accepted differences to lines in any order.
pub fn apply_sorted(side: LineOwner, lines: &[String]) -> Vec<String> {
    let mut lines = apply(side, lines);
    lines.sort();
    lines
}

fn applied(side: LineOwner, mut line: String) -> Option<String> {
    for row in &ACCEPTED {
        match (row.rule)(side, &line) {
            AsItIs => {}
            Gone => {
                row.used.store(true, Ordering::Relaxed);
                return None;
            }
            Changed(to) => {
                row.used.store(true, Ordering::Relaxed);
                line = to;
            }
        }
    }
    Some(line)
}

/// Returns the rows that no case needed.
pub fn unused(level: Level) -> Vec<&'static str> {
    let unused = ACCEPTED.iter().filter(|row| row.shows.contains(&level) && !row.used.load(Ordering::Relaxed));
    unused.map(|row| row.reason).collect()
}
