//! CHECK passes after ADD, and names one thing that is missing.

use std::net::IpAddr;

use cni_conformance::Verb;
use cni_conformance::state::assert_same;

use crate::backends::backend_host::{BackendHost, ServingContainer};
use crate::backends::network::{Backend, FamilyTexts};

const PORT: u16 = 8080;

/// The code of a CHECK that found something missing.
const CHECK_FAILED: u64 = 100;

/// Something of a container that a back end keeps in a family.
struct KeptObject {
    plugin: &'static str,
    /// What CHECK must say without it.
    says: String,
    take_away: Box<dyn Fn(&BackendHost)>,
}

/// Works out a cell.
pub fn work_out(machine: &BackendHost) -> String {
    let attached = machine.attach("own", PORT);
    passes(machine, &attached);
    let mut count = 0;
    for family in machine.families() {
        for thing in things(machine.backend, family, attached.ip(family)) {
            (thing.take_away)(machine);
            fails(machine, &attached, &thing);
            let result = attached.attachment.result.as_ref();
            let repair = machine.runtime().invocation(Verb::Add, thing.plugin, &attached.attachment, result);
            repair.run().expect_success();
            passes(machine, &attached);
            count += 1;
        }
    }
    machine.runtime().del(&attached.attachment).expect_success();
    passes(machine, &machine.attach("fresh", PORT + 1));
    format!("{count} things taken away one by one, named and repaired; {machine}")
}

fn passes(machine: &BackendHost, attached: &ServingContainer) {
    let before = machine.state();
    machine.runtime().check(&attached.attachment).expect_success();
    assert_same(&before, &machine.state());
    machine.serves(attached);
}

fn fails(machine: &BackendHost, attached: &ServingContainer, thing: &KeptObject) {
    let before = machine.state();
    let chain = machine.runtime().check(&attached.attachment);
    chain.expect_error(thing.plugin, CHECK_FAILED, &thing.says);
    assert_same(&before, &machine.state());
}

fn things(backend: Backend, family: &FamilyTexts, ip: IpAddr) -> Vec<KeptObject> {
    let FamilyTexts { program, nft, .. } = *family;
    let length = if ip.is_ipv4() { 32 } else { 128 };
    let of_firewall = match backend {
        Backend::IptablesNft | Backend::IptablesLegacy => {
            thing("firewall", format!("expected rule [-s {ip}/{length} -j ACCEPT] not found"), move |machine| {
                drop(machine.sandbox().sh(&format!("{program} -D CNI-FORWARD -s {ip} -j ACCEPT")))
            })
        }
        Backend::Nftables => thing("firewall", ip.to_string(), move |machine| {
            let set = if ip.is_ipv4() { "containers_v4" } else { "containers_v6" };
            machine
                .sandbox()
                .exec(&["nft", &format!("delete element inet cni_firewall {set} {{ {ip} }}")])
                .expect_success();
        }),
        Backend::Firewalld => {
            thing("firewall", format!("failed to find the address {ip}/{length} in trusted zone"), move |machine| {
                drop(machine.machine().zone("removeSource", &["trusted", &format!("{ip}/{length}")]));
            })
        }
    };
    let of_portmap = match backend {
        Backend::IptablesNft | Backend::IptablesLegacy | Backend::Firewalld => {
            thing("portmap", "chain CNI-HOSTPORT-DNAT not found in table nat".to_owned(), move |machine| {
                drop(machine.sandbox().sh(&format!("{program} -t nat -D CNI-HOSTPORT-DNAT 1")));
            })
        }
        Backend::Nftables => thing("portmap", format!("chain {nft} cni_hostport hostports"), move |machine| {
            let listed = machine.sandbox().sh(&format!("nft -a list chain {nft} cni_hostport hostports"));
            let rule = listed.lines().find(|line| line.contains("dport")).expect("a rule");
            let handle = rule.rsplit(' ').next().expect("a handle");
            machine.sandbox().sh(&format!("nft delete rule {nft} cni_hostport hostports handle {handle}"));
        }),
    };
    vec![of_firewall, of_portmap]
}

fn thing(plugin: &'static str, says: String, take_away: impl Fn(&BackendHost) + 'static) -> KeptObject {
    KeptObject { plugin, says, take_away: Box::new(take_away) }
}
