//! DEL while one part of the host is broken: everything else of the container is removed, the error names the part,
//! and the next DEL after its repair removes the rest. Another container keeps everything.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use cni_conformance::table::work_out;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Attachment, Outcome, Outside, PortMapping, Spelling, State, Verb};

use crate::backend_host::{BRIDGE, Backend, BackendHost, LEASES};

mod damage;

use damage::{Damage, RECORDS};

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    IptablesFail,
    IptablesMissing,
    NftablesRefused,
    ConntrackRefused,
    LinkStays,
    IpamMissing,
    IpamFails,
    IpamCrashes,
    LeasesReadOnly,
    LeasesLocked,
    AttachmentLocked,
    IptablesLocked,
    RunFull,
    RunReadOnly,
    RecordsForeign,
    RecordsTorn,
    FirewalldSilent,
    BusSilent,
}

/// A cell of the table for a part that a back end does not have.
const NOT_THERE: &str = "-";

/// A cell where every plugin succeeds and nothing is left.
const CLEAN: &str = "|";

/// What stays when nobody can reach the rules.
const RULES: &str = "portmap:104 firewall:104 bridge:104 | masquerade ports filter records";

const NATIVE_RULES: &str = "portmap:104 firewall:101 bridge:104 | masquerade ports filter records";
const LOCKED_RULES: &str = "portmap:11 firewall:11 bridge:11 | masquerade ports filter records";

/// The same on a host whose firewalld keeps the container's addresses.
const NO_SOURCE: &str = "portmap:104 bridge:104 | masquerade ports records";

const NOT_ASKED: [&str; 4] = [NOT_THERE, NOT_THERE, NOT_THERE, "firewall:11 | filter records"];

const BACKENDS: [Backend; 4] = [Backend::IptablesNft, Backend::IptablesLegacy, Backend::Nftables, Backend::Firewalld];

/// The part, words of which each error must contain one, and, for each back end, who fails with which code, and what is left after the first
/// DEL.
const TABLE: [(Part, &[&str], [&str; 4]); 18] = [
    (Part::IptablesFail, &["iptables"], [RULES, RULES, "portmap:104 bridge:104 | records", NO_SOURCE]),
    // Where portmap fails, its records stay for its next DEL. Rules in nf_tables are removed without the programs.
    (Part::IptablesMissing, &["iptables"], [CLEAN, RULES, CLEAN, CLEAN]),
    (Part::NftablesRefused, &["not permitted", "iptables"], [RULES, CLEAN, NATIVE_RULES, NO_SOURCE]),
    // The kernel forgets connections by itself, so that is worth a warning.
    (Part::ConntrackRefused, &["conntrack"], [CLEAN; 4]),
    // Another container would get the addresses of the link otherwise.
    (Part::LinkStays, &["failed to delete veth"], ["bridge:101 | link leases records"; 4]),
    (Part::IpamMissing, &["failed to find plugin \"host-local\""], ["bridge:104 | leases records"; 4]),
    (Part::IpamFails, &["no lease today"], ["bridge:123 | leases records"; 4]),
    (Part::IpamCrashes, &["netplugin failed"], ["bridge:0 | leases records"; 4]),
    (Part::LeasesReadOnly, &[LEASES], ["bridge:5 | leases records"; 4]),
    (Part::LeasesLocked, &["the lock /run/leases/n1/lock is held by process"], ["bridge:11 | leases records"; 4]),
    (Part::AttachmentLocked, &["work.lock"], [CLEAN; 4]),
    (
        Part::IptablesLocked,
        &["the lock /run/xtables.lock is held by process"],
        [NOT_THERE, LOCKED_RULES, NOT_THERE, NOT_THERE],
    ),
    (Part::RunFull, &["/run/"], [CLEAN; 4]),
    // Such a host has containers all the same; what is recorded of one that is gone counts for nothing.
    (Part::RunReadOnly, &["/run/"], ["| records"; 4]),
    (Part::RecordsForeign, &[RECORDS], ["firewall:5 | filter records"; 4]),
    (Part::RecordsTorn, &[RECORDS], [CLEAN; 4]),
    (Part::FirewalldSilent, &["D-Bus at"], NOT_ASKED),
    (Part::BusSilent, &["D-Bus at"], NOT_ASKED),
];

/// In the order of DEL. A chain ends at the first plugin that fails; some runtimes go on with the others.
const BACKWARD: [&str; 4] = ["portmap", "firewall", "bridge", "loopback"];

/// As long as a plugin may wait, by its own words: once for ten seconds, and a second for each lock after that.
const LONGEST_WAIT: Duration = Duration::from_secs(13);

#[test]
fn del_goes_on_whatever_is_broken() {
    let mut cells = Vec::new();
    for (part, words, wanted) in TABLE {
        for (backend, wanted) in BACKENDS.into_iter().zip(wanted).filter(|(_, wanted)| *wanted != NOT_THERE) {
            cells.push(([format!("{part:?}"), format!("{backend:?}")], (part, words, backend, wanted)));
        }
    }
    work_out(["broken", "back end"], cells, |(part, words, backend, wanted)| {
        let seen = delete(part, words, &ServingHost::new(backend));
        assert!(seen == wanted, "{seen}, but must be: {wanted}");
        seen
    });
}

/// Works out a cell: who fails with which code, and what is left then.
fn delete(part: Part, words: &[&str], host: &ServingHost) -> String {
    let kept = host.attach("kept", 8081).0;
    let (scout, _servers) = host.attach("scout", 8082);
    let (attachment, servers) = host.attach("goes", 8080);
    [8080, 8082].iter().for_each(|port| host.serves(*port));
    // They keep a namespace alive.
    drop(servers);
    let damage = Damage::to(part, &host.host, &scout);
    let outcomes = BACKWARD.map(|plugin| {
        let call = host.host.runtime().invocation(Verb::Del, plugin, &attachment, attachment.result.as_ref());
        (plugin, damage.suffered_by(call, plugin).run())
    });
    damage.mend(&host.host);
    let failed: Vec<String> = outcomes.iter().filter_map(|(plugin, outcome)| judge(words, plugin, outcome)).collect();
    let seen = format!("{} | {}", failed.join(" "), host.left_of(&attachment).join(" "));

    let runtime = host.host.runtime();
    runtime.del(&attachment).expect_success();
    assert_eq!(host.left_of(&attachment), [""; 0], "after the second DEL; the first: {seen}");
    runtime.check(&kept).expect_success();
    runtime.del(&kept).expect_success();
    host.assert_nothing_of_anybody();
    seen.trim().to_owned()
}

/// Requires that a failure names the part, and that no plugin has waited for long, by its own words: `gave up after 10s`.
fn judge(words: &[&str], plugin: &str, outcome: &Outcome) -> Option<String> {
    let said = [outcome.stdout(), outcome.stderr()].join("\n");
    let waits = ["gave up after ", "did not answer within ", "did not end within "]
        .into_iter()
        .flat_map(|start| said.split(start).skip(1).filter_map(|rest| rest.split_once('s')?.0.parse::<f64>().ok()));
    let waited = Duration::from_secs_f64(waits.sum());
    assert!(waited <= LONGEST_WAIT, "{plugin} waits {waited:?}: {outcome}");
    if outcome.succeeded() {
        return None;
    }
    let error = outcome.error();
    let text = format!("{}: {}", error.msg, error.details);
    assert!(words.iter().any(|words| text.contains(words)), "{plugin} must say {words:?}: {text}");
    Some(format!("{plugin}:{}", error.code))
}

/// What differs between the families: the program, the subnet, the host's address and that of the outside.
const FAMILIES: [(&str, &str, IpAddr, IpAddr); 2] = [
    ("iptables", "10.88.0.0/16", IpAddr::V4(Outside::HOST_V4), IpAddr::V4(Outside::V4)),
    ("ip6tables", "fd00:88::/64", IpAddr::V6(Outside::HOST_V6), IpAddr::V6(Outside::V6)),
];

/// A host with an uplink; containers are attached to it one by one.
struct ServingHost {
    outside: Outside,
    host: BackendHost,
}

impl ServingHost {
    /// Where iptables keeps the rules, nothing is forwarded but what rules let pass, and the administrator lets in
    /// what goes to the bridge. What nftables and firewalld accept would not overrule that.
    fn new(backend: Backend) -> Self {
        let host = BackendHost::new(backend);
        for (program, subnet, ..) in FAMILIES.iter().filter(|_| backend.keys()[0] == "iptables") {
            host.sandbox().sh(&format!("{program} -P FORWARD DROP"));
            host.sandbox().sh(&format!("{program} -N CNI-ADMIN"));
            host.sandbox().sh(&format!("{program} -A CNI-ADMIN -o {BRIDGE} -d {subnet} -j ACCEPT"));
        }
        Self { outside: host.sandbox().outside(), host }
    }

    /// Attaches a container that serves, with one host port for TCP and UDP.
    fn attach(&self, name: &str, port: u16) -> (Attachment, [Echo; 2]) {
        let container = self.host.sandbox().container(name);
        let mut attachment = Attachment::new(name, &container).ports(&PortMapping::twins(port, 80), Spelling::Go);
        let servers = Echo::everywhere(&container, 80);
        self.host.runtime().add(&mut attachment).expect_success();
        (attachment, servers)
    }

    /// Requires that the outside reaches a container's host port in each family, and is seen under its own address.
    #[track_caller]
    fn serves(&self, port: u16) {
        for ((_, _, host, outside), transport) in
            FAMILIES.iter().flat_map(|family| Transport::ALL.map(|one| (family, one)))
        {
            let server = SocketAddr::new(*host, port);
            let seen = ask(&self.outside, transport, server).unwrap_or_else(|error| panic!("{server}: {error}"));
            assert_eq!(seen.ip(), *outside, "source seen by {transport} {server}");
        }
    }

    /// The tables of iptables with this name, and all others.
    fn rules(&self, table: &str) -> [String; 2] {
        let save = |program| self.host.sandbox().sh(&format!("{program} -t {table}"));
        let nftables = State::of_host(self.host.sandbox()).section("nftables").join("\n");
        [["iptables-save", "ip6tables-save"].map(save).concat().replace('\\', ""), nftables]
    }

    /// The kinds of things of a container that are there. The marks of DELs that are under way go with the link.
    fn left_of(&self, attachment: &Attachment) -> Vec<&'static str> {
        let id = attachment.container_id.as_str();
        let ips = attachment.result.as_ref().and_then(|result| result["ips"].as_array()).expect("addresses");
        let addresses: Vec<&str> = ips.iter().filter_map(|ip| ip["address"].as_str()?.split('/').next()).collect();
        let names = |line: &str| addresses.iter().any(|address| has_word(line, address));
        let ([nat, nftables], [filter, _]) = (self.rules("nat"), self.rules("filter"));
        let has = |text: &str| nftables.contains(text);
        let (dnat, masquerade) = (format!("dnat name: \"n1\" id: \"{id}\""), format!("name: \"n1\" id: \"{id}\""));
        let masquerades = nat.lines().any(|line| line.contains(&masquerade) && !line.contains(&dnat));
        let is_source = || self.host.machine.sources("trusted").iter().any(|source| names(source));
        let is_element = nftables.lines().any(|line| line.contains("elements") && names(line));
        let is_mark =
            |text: &str| text.lines().count() > 2 && text.lines().skip(2).all(|one| one.starts_with("deletion "));
        let mut records = files(Path::new(RECORDS)).into_iter().filter(|(_, text)| !is_mark(text));
        let found = [
            ("link", self.host.sandbox().sh("ip -o link show").contains(&format!(":{id}:"))),
            ("masquerade", masquerades || has(&format!("id: {id}\""))),
            ("ports", nat.contains(&dnat) || has(&format!("comment \"{id}\""))),
            (
                "filter",
                filter.lines().any(names) || is_element || (self.host.backend == Backend::Firewalld && is_source()),
            ),
            ("leases", addresses.iter().any(|address| Path::new(LEASES).join(address).exists())),
            ("records", records.any(|(name, text)| names(&name) || has_word(&text, id))),
        ];
        found.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }

    /// Requires that nothing is left of any container.
    #[track_caller]
    fn assert_nothing_of_anybody(&self) {
        let rules = ["nat", "filter"].map(|table| self.rules(table).concat()).concat();
        let words =
            ["id: \"", "comment \"kept", "comment \"goes", "comment \"scout", "10.88.0.2", "10.88.0.3", "10.88.0.4"];
        assert!(words.iter().all(|word| !rules.contains(word)), "{rules}");
        let links = self.host.sandbox().sh("ip -o link show");
        assert!(!links.contains("alias cni:"), "{links}");
        let is_lease = |path: &str| path.rsplit('/').next().is_some_and(|name| name.parse::<IpAddr>().is_ok());
        let left = files(Path::new(RECORDS)).into_iter().filter(|(name, _)| !name.ends_with(".lock"));
        let leases = files(Path::new(LEASES)).into_iter().filter(|(path, _)| is_lease(path));
        assert_eq!(left.chain(leases).collect::<Vec<_>>(), []);
    }
}

/// The paths and contents of all files below a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let of = |path: &Path| {
        let name = path.to_str().expect("text").to_owned();
        (name, String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned())
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![of(&path)] }).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || [':', '.'].contains(&c))).any(|part| part == word)
}
