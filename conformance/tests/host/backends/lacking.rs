//! Hosts on which iptables is installed and the kernel has no tables for it, for one family or for both: programs print what real
//! versions print there.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{
    Attachment, Invocation, Outcome, PortMapping, Runtime, Sandbox, Spelling, Verb, flannel, reference, result_cache,
    script,
};
use serde_json::{Value, json};

/// In front of all other programs. Snapshots leave it out.
const FOLDER: &str = "/run/conformance/lacking";

/// What programs print and end with for the tables of a pattern: `iptables -S`, and `iptables-restore`.
struct Fault {
    programs: &'static [&'static str],
    tables: &'static str,
    interface: &'static str,
    lives: usize,
    list: (String, u8),
    restore: (String, u8),
}

impl Fault {
    /// `PROGRAM` and `TABLE` stand for theirs. Legacy programs print another text for a batch.
    fn new(text: &str, programs: &'static [&'static str]) -> Self {
        let own = |status| (text.replace("; ", "\n"), status);
        let restore =
            "PROGRAM v1.8.9 (legacy): PROGRAM: unable to initialize table 'TABLE'\n\nError occurred at line: 1";
        let (list, restore) = match text {
            _ if text.contains("(legacy)") => (own(3), (restore.to_owned(), 2)),
            _ if text.contains("(nf_tables)") || text.contains("lock") => (own(4), own(4)),
            _ => (own(1), own(1)),
        };
        Self { programs, tables: "*", interface: "bridge", lives: 3, list, restore }
    }
}

/// The kernel has no tables.
const LACKING: &str = "\
PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table `TABLE': Table does not exist (do you need to insmod?); Perhaps PROGRAM or your kernel needs to be upgraded.
modprobe: FATAL: Module ip_tables not found in directory /lib/modules/6.12.0; PROGRAM v1.8.11 (legacy): can't initialize PROGRAM table `TABLE': iptables who? (do you need to insmod?)
modprobe: ERROR: could not insert 'ip_tables': Operation not permitted; PROGRAM v1.8.10 (legacy): can't initialize PROGRAM table `TABLE': Table does not exist (do you need to insmod?)
modprobe: FATAL: Module ip_tables not found in directory /lib/modules/4.4.59; PROGRAM v1.8.7 (legacy): can't initialize PROGRAM table `TABLE': Permission denied (you must be root)
PROGRAM v1.8.8 (legacy): can't initialize PROGRAM table `TABLE': Permission denied; Perhaps PROGRAM or your kernel needs to be upgraded.
PROGRAM v1.8.7 (legacy): can't initialize PROGRAM table `TABLE': Address family not supported by protocol
PROGRAM/1.8.7 Failed to initialize nft: Protocol not supported
PROGRAM: Failed to initialize nft: Protocol not supported
PROGRAM: Protocol not available.
PROGRAM v1.8.8 (nf_tables): TABLE_ADD failed (Operation not supported): table TABLE
PROGRAM v1.8.9 (nf_tables): TABLE_ADD failed (Address family not supported by protocol): table TABLE
PROGRAM v1.8.11 (nf_tables): Could not fetch rule set generation id: Invalid argument";

/// Something else fails, or may pass, as the first does, on a kernel whose tables are in use.
const FAILING: &str = "\
Another app is currently holding the xtables lock. Stopped waiting after 10s.
PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table `TABLE': Memory allocation problem
PROGRAM v1.8.9 (legacy): can't initialize PROGRAM table `TABLE': Permission denied (you must be root)
Fatal: can't open lock file /run/xtables.lock: Permission denied
PROGRAM: Failed to initialize nft: Permission denied
PROGRAM v1.8.9 (nf_tables): TABLE_ADD failed (No such file or directory): table TABLE
PROGRAM v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)";

/// How `iptables` and `iptables-restore` know their table.
const LIST: &str = "TABLE=filter; for WORD; do [ \"$LAST\" = -t ] && TABLE=$WORD; LAST=$WORD; done";
const RESTORE: &str = "INPUT=$(cat); TABLE=${INPUT%%[!*a-z]*}; TABLE=${TABLE#\\*}";

const FAMILIES: [&[&str]; 3] = [&["iptables"], &["ip6tables"], &["iptables", "ip6tables"]];

/// Each text for each choice of programs; the first one in more lives, also for one table, and with other plugins.
fn rows() -> impl Iterator<Item = (String, Fault)> {
    let texts = LACKING.lines().flat_map(|text| FAMILIES.map(|programs| (text, Fault::new(text, programs))));
    let first = LACKING.lines().next().expect("a text");
    let hosts = [("*", "bridge"), ("nat", "ptp"), ("*", "flannel")].into_iter();
    let lives = hosts.flat_map(move |(tables, interface)| {
        FAMILIES.map(|programs| (first, Fault { tables, interface, lives: 7, ..Fault::new(first, programs) }))
    });
    let named = |(text, fault): (&str, Fault)| {
        (format!("{}, {:?} {}: {text}", fault.interface, fault.programs, fault.tables), fault)
    };
    lives.chain(texts.skip(FAMILIES.len())).map(named)
}

/// A host, and a list in which no plugin names a back end.
struct Host {
    sandbox: Sandbox,
    list: Value,
}

impl Host {
    fn new(version: &str, interface: &str) -> Self {
        let sandbox = Sandbox::new();
        flannel::write_lease(flannel::BOTH_FAMILIES);
        let ranges = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
        let interface = match interface {
            "flannel" => json!({"type": interface, "delegate": {"isGateway": true, "ipMasq": true}}),
            _ => {
                json!({"type": interface, "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "ranges": ranges}})
            }
        };
        let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        let plugins = json!([interface, {"type": "firewall"}, portmap]);
        Self { sandbox, list: json!({"cniVersion": version, "name": "n1", "plugins": plugins}) }
    }

    /// The list in which each plugin names the back end that is there.
    fn named(&self) -> Value {
        let mut list = self.list.clone();
        for pointer in ["/plugins/0", "/plugins/0/delegate", "/plugins/1", "/plugins/2"] {
            if let Some(plugin) = list.pointer_mut(pointer) {
                plugin["ipMasqBackend"] = "nftables".into();
                plugin["backend"] = "nftables".into();
            }
        }
        list
    }

    /// What runtimes give to those versions that have no CHECK: firewall is newer.
    fn oldest(&self) -> Value {
        let plugins = &self.list["plugins"];
        json!({"cniVersion": "0.3.1", "name": "n1", "plugins": [plugins[0], plugins[2]]})
    }

    fn healthy(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// With programs that fail in front of the others.
    fn failing(&self, fault: &Fault) -> Runtime<'_> {
        fs::create_dir_all(FOLDER).expect("a folder of programs");
        let (path, tables) = (self.sandbox.search_path(), fault.tables);
        for (end, read, (text, status)) in [("", LIST, &fault.list), ("-restore", RESTORE, &fault.restore)] {
            for program in fault.programs.iter().map(|program| format!("{program}{end}")) {
                let text = text.replace("PROGRAM", &program);
                let lines = format!(
                    "{read}\ncase $TABLE in {tables}) ;; *) printf '%s\n' \"$INPUT\" | PATH={path} {program} \"$@\"; exit ;; esac\n\
                     sed \"s/\\bTABLE\\b/$TABLE/g\" >&2 <<'END'\n{text}\nEND\nexit {status}\n"
                );
                script::install(&Path::new(FOLDER).join(program), &lines);
            }
        }
        self.healthy().env("PATH", &format!("{FOLDER}:{path}"))
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

    fn tool(&self, runtime: &Runtime<'_>, words: &[&str]) -> Outcome {
        let (key, path) = &runtime.environment()[0];
        Invocation::new(&self.sandbox, "cni-plugins", Verb::Add).arguments(words).env(key, path).run()
    }

    /// `repair` puts back what somebody has removed.
    fn assert_repairs(&self, runtime: &Runtime<'_>, attachment: &Attachment) {
        result_cache::store(runtime.list(), attachment);
        self.sandbox.sh("nft flush ruleset");
        assert!(!runtime.check(attachment).succeeded());
        self.tool(runtime, &["repair"]).expect_success();
        runtime.check(attachment).expect_success();
        result_cache::remove(runtime.list(), attachment);
    }

    /// `doctor` names the families that have no tables, and calls the host broken only if neither has them.
    fn assert_doctor_names(&self, runtime: &Runtime<'_>, Fault { programs, tables, .. }: &Fault) {
        let said = self.tool(runtime, &["doctor"]);
        let tables = if *tables == "*" { "nat, filter" } else { tables };
        for (program, family) in FAMILIES[2].iter().zip(["IPv4", "IPv6"]) {
            let says = format!("note     packet filter: the kernel has no {family} tables for {program}: {tables}\n");
            assert_eq!(said.stdout().contains(&says), programs.contains(program), "{said}");
        }
        assert_eq!(said.stdout().contains("problem  packet filter: "), programs.len() == 2, "{said}");
    }

    /// The legacy tables are in use, with rules that only their programs can read.
    fn use_legacy_tables(&self) {
        for program in FAMILIES[2] {
            self.sandbox.sh(&format!("{program}-legacy -t nat -S"));
            self.sandbox.sh(&format!("{program}-legacy -t filter -S"));
        }
    }

    /// Nothing is left of a container.
    fn assert_ends(&self, runtime: &Runtime<'_>, end: Verb, attachment: Attachment) {
        let ended = if end == Verb::Gc { runtime.gc(&[]) } else { runtime.del(&attachment) };
        ended.expect_success();
        assert_eq!(self.left(), [""; 0], "{}", attachment.container_id);
    }

    fn tables(&self) -> String {
        self.sandbox.sh("nft list tables")
    }
}

/// A container lives by nf_tables, and leaves nothing, also where iptables has come or gone since its ADD. DEL has no `prevResult`, as before
/// 0.4.0.
#[test]
fn a_container_lives_and_leaves_nothing_whichever_engine_has_come_or_gone() {
    for_each(rows(), |fault| {
        let host = Host::new("1.1.0", fault.interface);
        let (healthy, failing) = (host.healthy(), host.failing(&fault));
        let [named, oldest] = [host.named(), host.oldest()].map(|list| failing.clone().listing(list));
        failing.status().expect_success();
        host.assert_doctor_names(&failing, &fault);
        let ways = [
            ("ff", &failing, &failing, Verb::Del),
            ("hf", &healthy, &failing, Verb::Del),
            ("hf", &healthy, &failing, Verb::Gc),
            ("nn", &named, &named, Verb::Del),
            ("nn", &named, &named, Verb::Gc),
            ("oo", &oldest, &oldest, Verb::Del),
            ("fh", &failing, &healthy, Verb::Del),
        ];
        for (number, (name, first, then, end)) in ways.into_iter().enumerate().take(fault.lives) {
            let mut attachment = host.attachment(&format!("{name}{number}"));
            first.add(&mut attachment).expect_success();
            assert_ne!(host.left(), [""; 0]);
            if ["ff", "nn"].contains(&name) && end == Verb::Del {
                let tables =
                    ["inet cni_plugins_masquerade", "ip cni_hostport", "ip6 cni_hostport", "inet cni_firewall"];
                let keeps_filter = name == "ff" && fault.tables == "nat";
                for table in tables {
                    let is_made = !(keeps_filter && table == tables[3]);
                    assert_eq!(host.tables().contains(table), is_made, "{}", host.tables());
                }
                host.assert_repairs(first, &attachment);
            }
            if name != "oo" {
                then.check(&attachment).expect_success();
                then.gc(&[&attachment]).expect_success();
                then.check(&attachment).expect_success();
            }
            host.assert_ends(then, end, attachment.without_result());
        }
    });
}

/// Rules of iptables that are in nf_tables.
#[test]
fn what_the_reference_has_made_is_removed_where_iptables_finds_no_tables() {
    let Some(reference) = reference::find("the reference's rules without iptables") else { return };
    for_each(rows().filter(|(_, fault)| fault.interface != "flannel"), |fault| {
        let host = Host::new("1.0.0", "bridge");
        let mut attachment = host.attachment("go");
        host.healthy().binaries(&reference.folder).add(&mut attachment).expect_success();
        assert_ne!(host.left(), [""; 0]);
        host.assert_ends(&host.failing(&fault), Verb::Del, attachment);
    });
}

/// Rules may also be in legacy tables, which nobody can read then.
#[test]
fn rules_in_nf_tables_are_removed_where_legacy_tables_outlive_the_programs() {
    let host = Host::new("1.1.0", "bridge");
    host.use_legacy_tables();
    fs::create_dir_all(FOLDER).expect("a folder without programs");
    for (name, end) in [("c1", Verb::Del), ("c2", Verb::Gc)] {
        let mut attachment = host.attachment(name);
        host.healthy().add(&mut attachment).expect_success();
        assert_ne!(host.left(), [""; 0]);
        host.assert_ends(&host.healthy().env("PATH", FOLDER), end, attachment.without_result());
    }
}

/// Rules are there, or may be: ADD and `repair` do not take another engine, DEL and GC do not succeed before they are gone, and STATUS does not
/// call the host ready.
#[test]
fn what_may_pass_does_not_count_as_missing() {
    for_each(FAILING.lines().map(|text| (text, text)), |text| {
        let fault = Fault::new(text, FAMILIES[2]);
        let (code, says) = match text.contains("holding") {
            true => (11, "the lock /run/xtables.lock is held by "),
            false => (104, " failed, exit status: "),
        };
        let host = Host::new("1.1.0", "bridge");
        host.use_legacy_tables();
        let failing = || host.failing(&fault);
        let [mut refused, mut removed, mut running] = ["c1", "c2", "c3"].map(|name| host.attachment(name));
        failing().add(&mut refused).expect_error("bridge", code, says);
        assert!(!host.tables().contains("cni_"), "{}", host.tables());
        failing().status().expect_error("firewall", 50, "");
        host.healthy().add(&mut removed).expect_success();
        failing().invocation(Verb::Del, "bridge", &removed, None).run().expect_error(code, "");
        for plugin in ["bridge", "firewall", "portmap"] {
            failing().gc(&[]).step(plugin).expect_error(code, "");
        }
        host.healthy().del(&removed).expect_success();
        assert_eq!(host.left(), [""; 0]);
        host.healthy().add(&mut running).expect_success();
        host.sandbox.sh("nft flush ruleset");
        result_cache::store(&host.list, &running);
        let repair = host.tool(&failing(), &["repair"]);
        assert!(repair.code() == Some(1) && repair.stdout().contains("c3 eth0: failed: "), "{repair}");
        assert!(!host.tables().contains("cni_"), "{}", host.tables());
    });
}
