//! DEL while iptables is broken: everything else is removed, the error says what is wrong, and the next DEL removes
//! the rest.
//!
//! On the legacy flavour, where the programs cannot be avoided.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Nomad, Outcome, State, Verb, script};

use crate::del::del_host::{DelHost, DeletedContainer, FIRST};

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/broken";

const LEGACY: &str = "/usr/sbin/xtables-legacy-multi";

/// A chain of DEL would end at the first plugin that fails; some runtimes go on with the others.
const BACKWARD: [&str; 4] = ["portmap", "firewall", "bridge", "loopback"];

#[test]
fn a_broken_iptables_keeps_neither_link_nor_lease_and_the_next_del_takes_the_rules() {
    for_each([("v4", Nomad::default()), ("v4 and v6", Nomad::default().dual_stack())], |nomad| {
        let machine = DelHost::new(nomad, Flavour::Legacy);
        let before = machine.host();
        let attached = machine.add("victim", 8080);
        assert_eq!(own(&machine.host()).len(), 1 + machine.programs().len(), "a link, and a lease for each family");
        let bridge = delete_each(&machine, &attached, &broken_path(&machine));
        for program in machine.programs() {
            let error = bridge.error();
            let text = format!("{}: {}", error.msg, error.details);
            assert!(text.contains(program) && text.contains("broken on purpose"), "must name {program}: {bridge}");
        }
        assert_eq!(own(&machine.host()), [""; 0]);

        machine.runtime().del(&attached.attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    });
}

/// Every plugin's DEL, with this search path; returns what the bridge's came to.
fn delete_each(machine: &DelHost, attached: &DeletedContainer, path: &str) -> Outcome {
    let result = attached.attachment.result.as_ref();
    let del =
        |plugin: &&str| machine.runtime().invocation(Verb::Del, plugin, &attached.attachment, result).env("PATH", path);
    let outcomes: Vec<Outcome> = BACKWARD.iter().map(|plugin| del(plugin).run()).collect();
    for (plugin, outcome) in BACKWARD.iter().zip(&outcomes) {
        assert_eq!(outcome.succeeded(), *plugin == "loopback", "{outcome}");
    }
    outcomes[2].clone()
}

/// Puts programs first in the search path that tell their version, and fail otherwise.
fn broken_path(machine: &DelHost) -> String {
    fs::create_dir(FOLDER).expect("create a folder of programs");
    let families = ["iptables", "ip6tables"].into_iter();
    for program in families.flat_map(|name| ["", "-save", "-restore"].map(|end| format!("{name}{end}"))) {
        let lines = format!(
            "[ \"$1\" = --version ] && exec {LEGACY} {program} --version\n\
             echo '{program}: broken on purpose' >&2\n\
             exit 4\n"
        );
        script::install(&Path::new(FOLDER).join(&program), &lines);
    }
    format!("{FOLDER}:{}", machine.sandbox.search_path())
}

/// The container's link and its leases.
fn own(state: &State) -> Vec<String> {
    let links = state.section("host links").iter().filter(|link| link.starts_with("veth"));
    let is_lease = |file: &&String| FIRST.iter().any(|address| file.contains(&format!("/nomad/{address} ")));
    links.chain(state.section("files").iter().filter(is_lease)).cloned().collect()
}
