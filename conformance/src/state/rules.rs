//! Packet filter rules as text.
//!
//! Tables `nat` and `filter` of both families are read by the sandbox's own flavour of iptables, which operators and
//! Nomad use too; all other tables are read by `nft`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use crate::sandbox::{Flavour, Sandbox};

/// Tables that iptables keeps in nftables; they are read through iptables.
const IPTABLES_TABLES: [&str; 5] = ["nat", "filter", "mangle", "raw", "security"];

/// The tables with the output of iptables for a missing one.
const TABLES: [(&str, &str); 2] = [
    ("nat", "-P PREROUTING ACCEPT\n-P INPUT ACCEPT\n-P OUTPUT ACCEPT\n-P POSTROUTING ACCEPT\n"),
    ("filter", "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"),
];

type Sections = BTreeMap<String, Vec<String>>;

/// A namespace, and the number of its rule set.
type Generation = (u64, u32);

thread_local! {
    /// What nftables had last. Starting programs is most of what a snapshot costs.
    static LISTED: RefCell<Option<(Generation, String, Sections)>> = const { RefCell::new(None) };
}

pub(super) fn read(sandbox: &Sandbox) -> Sections {
    let before = generation();
    let known = LISTED.with_borrow(|listed| match listed {
        Some((generation, ruleset, sections)) if *generation == before => Some((ruleset.clone(), sections.clone())),
        Some(_) | None => None,
    });
    let is_nft = sandbox.flavour() == Flavour::Nft;
    let (ruleset, mut sections) = match known {
        Some(known) => known,
        None => {
            let ruleset = sandbox.sh("nft --stateless list ruleset");
            let sections = if is_nft {
                of_iptables(sandbox, |family, table| has_table(&ruleset, family, table))
            } else {
                Sections::new()
            };
            (ruleset, sections)
        }
    };
    // A look itself may change it: a program of iptables makes the tables that it lists.
    LISTED.set((generation() == before).then(|| (before, ruleset.clone(), sections.clone())));
    if !is_nft {
        sections = of_iptables(sandbox, has_legacy_table);
    }
    sections.insert("nftables".to_owned(), nftables(&ruleset));
    sections
}

/// Tables `nat` and `filter`; one that is not there needs no program to print it.
fn of_iptables(sandbox: &Sandbox, is_there: impl Fn(&str, &str) -> bool) -> Sections {
    let mut sections = BTreeMap::new();
    for (program, family) in [("iptables", "ip"), ("ip6tables", "ip6")] {
        let is_saved = TABLES.iter().any(|(table, _)| is_there(family, table));
        let saved = if is_saved { sandbox.sh(&format!("{program}-save")) } else { String::new() };
        for (table, policies) in TABLES {
            let rules = if is_there(family, table) {
                of_table(&saved, table).unwrap_or_else(|| panic!("{program}-save does not print {table}: {saved}"))
            } else {
                policies.lines().map(str::to_owned).collect()
            };
            sections.insert(format!("{program} {table}"), rules);
        }
    }
    sections
}

/// The kernel makes a table of legacy iptables when a program first asks for it.
fn has_legacy_table(family: &str, table: &str) -> bool {
    let names = fs::read_to_string(format!("/proc/thread-self/net/{family}_tables_names")).unwrap_or_default();
    names.lines().any(|name| name == table)
}

/// The number of this namespace's rule set, which grows with each change (`NFT_MSG_GETGEN` of `linux/netfilter/nf_tables.h`).
fn generation() -> Generation {
    let namespace = fs::metadata("/proc/thread-self/ns/net").expect("look at the namespace").ino();
    let protocol = SockProtocol::NetlinkNetFilter;
    let open = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).expect("open a socket");
    // Length 20, type 0x0a10, NLM_F_REQUEST, number and sender 0; then any family, version 0, no table.
    let question = [20, 0, 0, 0, 0x10, 0x0a, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    send(open.as_raw_fd(), &question, MsgFlags::empty()).expect("ask for the number of the rule set");
    let mut answer = [0; 256];
    let length = recv(open.as_raw_fd(), &mut answer, MsgFlags::empty()).expect("read the number of the rule set");
    // The first attribute is NFTA_GEN_ID, in the order of the network.
    let number = answer[..length].get(24..28).and_then(|bytes| bytes.try_into().ok()).expect("an answer with a number");
    (namespace, u32::from_be_bytes(number))
}

fn has_table(ruleset: &str, family: &str, table: &str) -> bool {
    ruleset.lines().any(|line| line == format!("table {family} {table} {{"))
}

/// What `iptables-save` prints of a table, in the words of `iptables -S`.
fn of_table(saved: &str, table: &str) -> Option<Vec<String>> {
    let start = format!("*{table}\n");
    let (lines, _) = saved.split_once(&start)?.1.split_once("COMMIT\n")?;
    let said = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, "-", _] => name.replacen(':', "-N ", 1),
        [name, policy, _] if name.starts_with(':') => format!("{} {policy}", name.replacen(':', "-P ", 1)),
        _ => line.to_owned(),
    };
    Some(lines.lines().map(said).collect())
}

/// Leaves out the tables that belong to iptables.
fn nftables(ruleset: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut wanted = false;
    for line in ruleset.lines() {
        if let Some(table) = line.strip_prefix("table ") {
            let words: Vec<&str> = table.split_whitespace().collect();
            let [family, name, ..] = words[..] else { panic!("unknown line of nft: {line:?}") };
            wanted = !(family.starts_with("ip") && IPTABLES_TABLES.contains(&name));
        }
        if wanted {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_iptables_are_left_out() {
        let ruleset = "table ip nat {\n\tchain X {\n\t}\n}\ntable inet cni_hostport {\n}\n";
        assert_eq!(nftables(ruleset), ["table inet cni_hostport {", "}"]);
    }

    mod as_root {
        use super::*;

        #[test]
        fn missing_tables_are_those_that_iptables_prints() {
            let sandbox = Sandbox::new();
            let has_rules = |family| {
                ["nat", "filter"].map(|table| has_table(&sandbox.sh("nft --stateless list ruleset"), family, table))
            };
            for program in ["iptables", "ip6tables"] {
                for (table, policies) in TABLES {
                    let listed = sandbox.sh(&format!("{program} --wait -t {table} -S"));
                    assert_eq!(listed, policies, "{program} {table}");
                }
            }
            assert_eq!((has_rules("ip"), has_rules("ip6")), ([false; 2], [false; 2]));
            sandbox.sh("iptables --wait -t nat -N X");
            sandbox.sh("ip6tables --wait -P FORWARD DROP");
            assert_eq!((has_rules("ip"), has_rules("ip6")), ([true, false], [false, true]));
            let sections = read(&sandbox);
            assert!(sections["iptables nat"].contains(&"-N X".to_owned()), "{sections:?}");
            assert!(sections["ip6tables filter"].contains(&"-P FORWARD DROP".to_owned()), "{sections:?}");
        }

        #[test]
        fn tables_are_read_as_iptables_prints_them() {
            for flavour in [Flavour::Nft, Flavour::Legacy] {
                let sandbox = Sandbox::with_flavour(flavour);
                for line in
                    ["-N X", "-A X -m comment --comment a:\"b\" -j RETURN", "-P OUTPUT DROP", "-A FORWARD -i lo -j X"]
                {
                    sandbox.sh(&format!("iptables --wait -t filter {line}"));
                }
                let listed = sandbox.sh("iptables --wait -t filter -S");
                assert_eq!(read(&sandbox)["iptables filter"], listed.lines().collect::<Vec<_>>());
            }
        }

        #[test]
        #[should_panic(expected = "iptables-save does not print nat")]
        fn a_table_that_iptables_cannot_print_is_not_taken_for_an_untouched_one() {
            let sandbox = Sandbox::new();
            sandbox.sh("iptables --wait -t nat -N X");
            sandbox.sh("nft add set ip nat s { type ipv4_addr ; flags dynamic ; }");
            sandbox.sh("nft add rule ip nat X add @s { ip saddr }");
            read(&sandbox);
        }
    }
}
