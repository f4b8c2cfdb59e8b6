//! Hosts on which iptables is installed and the kernel has no tables for it, for one family or for both: programs print what real
//! versions print there.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, PortMapping, Runtime, Sandbox, Spelling, Verb, reference, script};
use serde_json::{Value, json};

/// In front of all other programs. Snapshots leave it out.
const FOLDER: &str = "/run/conformance/lacking";

/// What `iptables -S` and `iptables-restore` print and end with; `PROGRAM` and `TABLE` stand for theirs.
struct Words {
    list: (&'static str, u8),
    restore: (&'static str, u8),
}

const fn legacy(list: &'static str) -> Words {
    let restore = "PROGRAM v1.8.9 (legacy): PROGRAM: unable to initialize table 'TABLE'\n\nError occurred at line: 1";
    Words { list: (list, 3), restore: (restore, 2) }
}

const fn nft(both: &'static str, status: u8) -> Words {
    Words { list: (both, status), restore: (both, status) }
}

/// The kernel has no tables.
const LACKING: [(&str, Words); 6] = [
    (
        "no table",
        legacy(
            "PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table 'TABLE': Table does not exist (do you need to insmod?)\n\
             Perhaps PROGRAM or your kernel needs to be upgraded.",
        ),
    ),
    (
        "no module",
        legacy(
            "modprobe: FATAL: Module ip_tables not found in directory /lib/modules/6.12.0\n\
             PROGRAM v1.8.11 (legacy): can't initialize PROGRAM table 'TABLE': iptables who? (do you need to insmod?)",
        ),
    ),
    (
        "no right to load modules",
        legacy(
            "modprobe: ERROR: could not insert 'ip_tables': Operation not permitted\n\
             PROGRAM v1.8.10 (legacy): can't initialize PROGRAM table 'TABLE': Table does not exist (do you need to insmod?)",
        ),
    ),
    (
        "no family",
        legacy(
            "PROGRAM v1.8.7 (legacy): can't initialize PROGRAM table 'TABLE': Address family not supported by protocol",
        ),
    ),
    ("no nfnetlink", nft("PROGRAM/1.8.7 Failed to initialize nft: Protocol not supported", 1)),
    ("no nf_tables", nft("PROGRAM v1.8.11 (nf_tables): Could not fetch rule set generation id: Invalid argument", 4)),
];

/// Something else fails, or may pass.
const FAILING: [(&str, Words, u64); 4] = [
    ("lock", nft("Another app is currently holding the xtables lock. Stopped waiting after 10s.", 4), 11),
    (
        "memory",
        legacy("PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table 'TABLE': Memory allocation problem"),
        104,
    ),
    (
        "rights",
        legacy("PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table 'TABLE': Permission denied (you must be root)"),
        104,
    ),
    (
        "rights, nft",
        nft(
            "PROGRAM v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)",
            4,
        ),
        104,
    ),
];

const FAMILIES: [(&str, &[&str]); 3] =
    [("iptables", &["iptables"]), ("ip6tables", &["ip6tables"]), ("both", &["iptables", "ip6tables"])];

fn rows() -> impl Iterator<Item = (String, (&'static Words, &'static [&'static str]))> {
    let of = |(name, words): &'static (&str, Words)| {
        FAMILIES.map(|(which, programs)| (format!("{name}: {which}"), (words, programs)))
    };
    LACKING.iter().flat_map(of)
}

/// A host, and a list in which no plugin names a back end.
struct Host {
    sandbox: Sandbox,
    list: Value,
}

impl Host {
    fn new(version: &str) -> Self {
        let ranges = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
        let list = json!({
            "cniVersion": version, "name": "n1",
            "plugins": [
                {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "ranges": ranges}},
                {"type": "firewall"},
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        });
        Self { sandbox: Sandbox::new(), list }
    }

    fn healthy(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// With programs that fail in front of the others.
    fn failing(&self, words: &Words, programs: &[&str]) -> Runtime<'_> {
        fs::create_dir_all(FOLDER).expect("a folder of programs");
        for program in programs {
            let table = "TABLE=filter; while [ $# -gt 0 ]; do [ \"$1\" = -t ] && TABLE=$2; shift; done";
            install(program, table, words.list);
            install(&format!("{program}-restore"), "read -r TABLE; TABLE=${TABLE#\\*}; cat >/dev/null", words.restore);
        }
        self.healthy().env("PATH", &format!("{FOLDER}:{}", self.sandbox.search_path()))
    }

    fn attachment(&self, name: &str) -> Attachment {
        let ports = [PortMapping::new(8080, 80, "tcp")];
        Attachment::new(name, &self.sandbox.container(name)).ports(&ports, Spelling::Go)
    }

    /// The lines that belong to a container: rules with its addresses or its port, its own chains, and leases.
    fn left(&self) -> Vec<String> {
        let marks = ["10.88.0.", "fd00:88::", "8080", "chain CNI-DN", "chain dnat-", "chain masq-"];
        let rules = self.sandbox.sh("nft --stateless list ruleset");
        let rules = rules.lines().filter(|line| marks.iter().any(|mark| line.contains(mark))).map(str::to_owned);
        let leases = fs::read_dir("/var/lib/cni/networks/n1").into_iter().flatten().flatten();
        let leases = leases.map(|lease| lease.file_name().to_string_lossy().into_owned());
        rules.chain(leases.filter(|name| name.starts_with("10.") || name.starts_with("fd00"))).collect()
    }

    fn tables(&self) -> String {
        self.sandbox.sh("nft list tables")
    }
}

fn install(program: &str, read: &str, (text, status): (&str, u8)) {
    let text = text.replace("PROGRAM", program);
    let lines = format!("{read}\nsed \"s/TABLE/$TABLE/g\" >&2 <<'END'\n{text}\nEND\nexit {status}\n");
    script::install(&Path::new(FOLDER).join(program), &lines);
}

#[test]
fn a_container_lives_by_nf_tables_and_leaves_nothing() {
    for_each(rows(), |(words, programs)| {
        let host = Host::new("1.1.0");
        let runtime = host.failing(words, programs);
        runtime.status().expect_success();
        let mut attachment = host.attachment("c1");
        runtime.add(&mut attachment).expect_success();
        for table in ["inet cni_plugins_masquerade", "inet cni_firewall", "ip cni_hostport", "ip6 cni_hostport"] {
            assert!(host.tables().contains(table), "{}", host.tables());
        }
        runtime.check(&attachment).expect_success();
        runtime.gc(&[&attachment]).expect_success();
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment.without_result()).expect_success();
        assert_eq!(host.left(), [""; 0]);
        let mut lost = host.attachment("c2");
        runtime.add(&mut lost).expect_success();
        runtime.gc(&[]).expect_success();
        assert_eq!(host.left(), [""; 0]);
    });
}

/// DEL has no `prevResult`, as before 0.4.0. The rules that iptables has made are in nf_tables, where netlink finds them.
#[test]
fn whichever_engine_has_come_or_gone_since_add_del_leaves_nothing() {
    for_each(rows(), |(words, programs)| {
        let host = Host::new("1.1.0");
        for is_healthy_first in [true, false] {
            let (healthy, failing) = (host.healthy(), host.failing(words, programs));
            let (first, then) = if is_healthy_first { (healthy, failing) } else { (failing, healthy) };
            for round in 0..2 {
                let mut attachment = host.attachment(&format!("c{is_healthy_first}{round}"));
                first.add(&mut attachment).expect_success();
                assert_ne!(host.left(), [""; 0]);
                match round {
                    0 => then.del(&attachment.without_result()).expect_success(),
                    _ => then.gc(&[]).expect_success(),
                };
                assert_eq!(host.left(), [""; 0]);
            }
        }
    });
}

/// CHECK of a container whose rules the other engine has made.
#[test]
fn a_container_stays_complete_whichever_engine_has_come_or_gone() {
    for_each(rows(), |(words, programs)| {
        let host = Host::new("1.0.0");
        let (healthy, failing) = (host.healthy(), host.failing(words, programs));
        for (name, first, then) in [("c1", &healthy, &failing), ("c2", &failing, &healthy)] {
            let mut attachment = host.attachment(name);
            first.add(&mut attachment).expect_success();
            then.check(&attachment).expect_success();
            then.del(&attachment).expect_success();
        }
        assert_eq!(host.left(), [""; 0]);
    });
}

/// Rules may also be in legacy tables, which nobody can read then.
#[test]
fn rules_in_nf_tables_are_removed_where_legacy_tables_outlive_the_programs() {
    let host = Host::new("1.1.0");
    for table in ["nat", "filter"] {
        host.sandbox.sh(&format!("iptables-legacy -t {table} -S"));
        host.sandbox.sh(&format!("ip6tables-legacy -t {table} -S"));
    }
    fs::create_dir_all(FOLDER).expect("a folder without programs");
    for round in 0..2 {
        let mut attachment = host.attachment(&format!("c{round}"));
        host.healthy().add(&mut attachment).expect_success();
        assert_ne!(host.left(), [""; 0]);
        let lost = host.healthy().env("PATH", FOLDER);
        match round {
            0 => lost.del(&attachment.without_result()).expect_success(),
            _ => lost.gc(&[]).expect_success(),
        };
        assert_eq!(host.left(), [""; 0]);
    }
}

#[test]
fn a_container_of_the_reference_is_deleted_there_too() {
    let Some(go) = reference::find("deletion without tables") else { return };
    for_each(rows(), |(words, programs)| {
        let host = Host::new("1.0.0");
        let mut attachment = host.attachment("c1");
        host.healthy().binaries(&go.folder).add(&mut attachment).expect_success();
        assert_ne!(host.left(), [""; 0]);
        host.failing(words, programs).del(&attachment).expect_success();
        assert_eq!(host.left(), [""; 0]);
    });
}

/// Rules are there, or may be: ADD does not take another engine, and DEL does not succeed before they are gone.
#[test]
fn what_may_pass_does_not_count_as_missing() {
    for_each(FAILING.iter().map(|(name, words, code)| (*name, (words, *code))), |(words, code)| {
        let host = Host::new("1.0.0");
        let failing = || host.failing(words, &["iptables", "ip6tables"]);
        let mut attachment = host.attachment("c1");
        failing().add(&mut attachment).expect_error("bridge", code, "");
        assert!(!host.tables().contains("cni_"), "{}", host.tables());
        let mut attachment = host.attachment("c2");
        host.healthy().add(&mut attachment).expect_success();
        failing().invocation(Verb::Del, "bridge", &attachment, None).run().expect_error(code, "");
        host.healthy().del(&attachment).expect_success();
        assert_eq!(host.left(), [""; 0]);
    });
}

/// A named back end is what the user wants: the error names the other one.
#[test]
fn who_names_iptables_is_told_of_the_other_back_end() {
    for (plugin, key) in [("bridge", "ipMasqBackend"), ("firewall", "backend"), ("portmap", "backend")] {
        let mut host = Host::new("1.0.0");
        let plugins = host.list["plugins"].as_array_mut().expect("plugins");
        let named = plugins.iter_mut().find(|one| one["type"] == plugin).expect("the plugin");
        named[key] = json!("iptables");
        let mut attachment = host.attachment("c1");
        let error = host
            .failing(&LACKING[0].1, &["iptables", "ip6tables"])
            .add(&mut attachment)
            .expect_error(plugin, 104, "nftables");
        assert!(error.msg.starts_with("this kernel has no v4 table"), "{error:?}");
    }
}
