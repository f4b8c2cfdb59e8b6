//! DEL while iptables is broken: everything else is removed, the error says what is wrong, and the next DEL removes
//! the rest.
//!
//! On the legacy flavour, where the programs cannot be avoided.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Nomad, Outcome, State, Verb, script};

use crate::del::client::{Client, FIRST, Guest};

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/broken";

const LEGACY: &str = "/usr/sbin/xtables-legacy-multi";

/// A chain of DEL would end at the first plugin that fails; some runtimes go on with the others.
const BACKWARD: [&str; 4] = ["portmap", "firewall", "bridge", "loopback"];

#[test]
fn a_broken_iptables_keeps_neither_link_nor_lease_and_the_next_del_takes_the_rules() {
    for_each([("v4", Nomad::default()), ("v4 and v6", Nomad::default().dual_stack())], |nomad| {
        let client = Client::new(nomad, Flavour::Legacy);
        let before = client.host();
        let guest = client.add("victim", 8080);
        assert_eq!(own(&client.host()).len(), 1 + client.programs().len(), "a link, and a lease for each family");
        let bridge = delete_each(&client, &guest, &broken_path(&client));
        for program in client.programs() {
            let error = bridge.error();
            let text = format!("{}: {}", error.msg, error.details);
            assert!(text.contains(program) && text.contains("broken on purpose"), "must name {program}: {bridge}");
        }
        assert_eq!(own(&client.host()), [""; 0]);

        client.runtime().del(&guest.attachment).expect_success();
        client.skeleton().assert_nothing_else(&before, || client.host());
    });
}

/// Every plugin's DEL, with this search path; returns what the bridge's came to.
fn delete_each(client: &Client, guest: &Guest, path: &str) -> Outcome {
    let result = guest.attachment.result.as_ref();
    let del =
        |plugin: &&str| client.runtime().invocation(Verb::Del, plugin, &guest.attachment, result).env("PATH", path);
    let outcomes: Vec<Outcome> = BACKWARD.iter().map(|plugin| del(plugin).run()).collect();
    for (plugin, outcome) in BACKWARD.iter().zip(&outcomes) {
        assert_eq!(outcome.succeeded(), *plugin == "loopback", "{outcome}");
    }
    outcomes[2].clone()
}

/// Puts programs first in the search path that tell their version, and fail otherwise.
fn broken_path(client: &Client) -> String {
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
    format!("{FOLDER}:{}", client.sandbox.search_path())
}

/// The guest's link and its leases.
fn own(state: &State) -> Vec<String> {
    let links = state.section("host links").iter().filter(|link| link.starts_with("veth"));
    let is_lease = |file: &&String| FIRST.iter().any(|address| file.contains(&format!("/nomad/{address} ")));
    links.chain(state.section("files").iter().filter(is_lease)).cloned().collect()
}
