//! The effects of the keys of firewall and portmap on packets, on every back end.
//!
//! A back end without a feature refuses the key or ignores it; the row then says which.

use cni_conformance::PortMapping;
use cni_conformance::table::work_out;
use serde_json::json;

use crate::backends::backend_host::{BackendHost, SERVICE};
use crate::backends::network::{Backend, FamilyTexts, Stack};

const PORT: u16 = 8080;

/// Works out a cell, and tells what it saw.
type Feature = fn(BackendHost) -> String;

const FEATURES: [(&str, Feature); 9] = [
    ("hostIP: one address", host_ip_of_one_address),
    ("hostIP: a family", host_ip_of_a_family),
    ("snat off", snat_off),
    ("masqAll", masq_all),
    ("conditionsV4, conditionsV6", conditions),
    ("markMasqBit", mark_masq_bit),
    ("externalSetMarkChain", external_set_mark_chain),
    ("iptablesAdminChainName", admin_chain),
    ("firewalldZone", zone),
];

#[test]
fn every_key_does_its_work_on_every_back_end() {
    let cell = |backend: Backend, (name, feature): (&str, Feature)| {
        ([name.to_owned(), backend.name().to_owned()], (backend, feature))
    };
    let cells = FEATURES.into_iter().flat_map(|feature| Backend::ALL.map(|backend| cell(backend, feature)));
    work_out(["key", "back end"], cells.collect(), |(backend, feature)| {
        feature(BackendHost::new(backend, Stack::Dual))
    });
}

/// TCP and UDP on one address of the host.
fn twins_on(host_ip: &str) -> Vec<PortMapping> {
    PortMapping::twins(PORT, SERVICE).into_iter().map(|mapping| mapping.on(host_ip)).collect()
}

fn host_ip_of_one_address(machine: BackendHost) -> String {
    let ports: Vec<PortMapping> =
        machine.families().iter().flat_map(|family| twins_on(&family.host.to_string())).collect();
    let attached = machine.attach_with("own", &ports);
    machine.serves(&attached);
    let here = machine.sandbox().host();
    for FamilyTexts { host, gateway, .. } in machine.families() {
        machine.reaches(here, *host, PORT, *host);
        machine.misses(here, *gateway, PORT);
    }
    machine.runtime().check(&attached.attachment).expect_success();
    machine.to_string()
}

fn host_ip_of_a_family(machine: BackendHost) -> String {
    for (host_ip, of_v4) in [("0.0.0.0", true), ("::", false)] {
        let attached = machine.attach_with(if of_v4 { "v4" } else { "v6" }, &twins_on(host_ip));
        for FamilyTexts { host, outside, gateway, .. } in machine.families() {
            if host.is_ipv4() == of_v4 {
                machine.reaches(&machine.outside, *host, PORT, *outside);
                machine.reaches(machine.sandbox().host(), *gateway, PORT, *gateway);
            } else {
                machine.misses(&machine.outside, *host, PORT);
            }
        }
        machine.runtime().check(&attached.attachment).expect_success();
        machine.runtime().del(&attached.attachment).expect_success();
    }
    machine.to_string()
}

/// Clients that need the host's address as source get no answer; others do.
fn snat_off(machine: BackendHost) -> String {
    let machine = machine.configure("portmap", &json!({"snat": false}));
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    machine.serves(&attached);
    let here = machine.sandbox().host();
    for FamilyTexts { host, loopback, .. } in machine.families() {
        machine.reaches(here, *host, PORT, *host);
        machine.misses(&attached.container, *host, PORT);
        loopback.iter().for_each(|loopback| machine.misses(here, *loopback, PORT));
    }
    machine.runtime().check(&attached.attachment).expect_success();
    machine.to_string()
}

fn masq_all(machine: BackendHost) -> String {
    let machine = machine.configure("portmap", &json!({"masqAll": true}));
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for FamilyTexts { host, gateway, .. } in machine.families() {
        machine.reaches(&machine.outside, *host, PORT, *gateway);
        machine.reaches(&attached.container, *host, PORT, *gateway);
    }
    machine.runtime().check(&attached.attachment).expect_success();
    machine.to_string()
}

/// In the language of the back end: everybody but the outside.
fn conditions(machine: BackendHost) -> String {
    let keys = match machine.backend.of_others() {
        "iptables" => json!({
            "conditionsV4": ["!", "-s", "192.0.2.2/32"],
            "conditionsV6": ["!", "-s", "2001:db8:2::2/128"],
        }),
        _ => json!({
            "conditionsV4": ["ip", "saddr", "!=", "192.0.2.2"],
            "conditionsV6": ["ip6", "saddr", "!=", "2001:db8:2::2"],
        }),
    };
    let machine = machine.configure("portmap", &keys);
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for FamilyTexts { host, gateway, .. } in machine.families() {
        machine.misses(&machine.outside, *host, PORT);
        machine.reaches(machine.sandbox().host(), *host, PORT, *host);
        machine.reaches(&attached.container, *host, PORT, *gateway);
    }
    machine.runtime().check(&attached.attachment).expect_success();
    machine.to_string()
}

/// Marks are those of iptables; nftables masquerades without one.
fn mark_masq_bit(machine: BackendHost) -> String {
    let machine = machine.configure("portmap", &json!({"markMasqBit": 5}));
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for FamilyTexts { host, gateway, .. } in machine.families() {
        machine.reaches(&attached.container, *host, PORT, *gateway);
    }
    let rules = machine.sandbox().sh("nft --stateless list ruleset") + &machine.sandbox().sh("iptables -t nat -S");
    let marks = ["0x20/0x20", "0x00000020"].iter().any(|mark| rules.contains(mark));
    assert_eq!(marks, machine.backend.of_others() == "iptables", "{rules}");
    format!("{}; {machine}", if marks { "mark 0x20" } else { "taken, and no mark is needed" })
}

/// Another program keeps the chain and masquerades what it has marked.
fn external_set_mark_chain(machine: BackendHost) -> String {
    let machine = machine.configure("portmap", &json!({"externalSetMarkChain": "MY-MARK"}));
    if machine.backend == Backend::Nftables {
        return refused(&machine, "configuration contains iptables-specific options [externalSetMarkChain]");
    }
    for FamilyTexts { program, .. } in machine.families() {
        for words in [
            "-N MY-MARK",
            "-A MY-MARK -j MARK --set-xmark 0x4/0x4",
            "-A POSTROUTING -m mark --mark 0x4/0x4 -j MASQUERADE",
        ] {
            machine.sandbox().sh(&format!("{program} -t nat {words}"));
        }
    }
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for FamilyTexts { host, gateway, .. } in machine.families() {
        machine.reaches(&attached.container, *host, PORT, *gateway);
    }
    let rules = machine.sandbox().sh("iptables -t nat -S");
    assert!(!rules.contains("CNI-HOSTPORT-SETMARK"), "{rules}");
    machine.runtime().check(&attached.attachment).expect_success();
    machine.to_string()
}

/// portmap refuses its configuration with these words.
fn refused(machine: &BackendHost, words: &str) -> String {
    let mut attached = machine.attached("own", &PortMapping::twins(PORT, SERVICE));
    let error = machine.runtime().add(&mut attached.attachment).expect_error("portmap", 7, words);
    machine.runtime().del(&attached.attachment).expect_success();
    format!("refused: {}", error.msg)
}

/// What the administrator forbids in it is not served; firewalld has zones for that.
fn admin_chain(machine: BackendHost) -> String {
    let machine = machine.configure("firewall", &json!({"iptablesAdminChainName": "MY-ADMIN"}));
    let sandbox = machine.sandbox();
    for FamilyTexts { program, .. } in machine.families() {
        sandbox.sh(&format!("{program} -P FORWARD ACCEPT"));
    }
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    machine.serves(&attached);
    for family in machine.families() {
        let (program, ip) = (family.program, attached.ip(family));
        match machine.backend {
            Backend::IptablesNft | Backend::IptablesLegacy => {
                sandbox.sh(&format!("{program} -A MY-ADMIN -d {ip} -m conntrack --ctstate NEW -j DROP"));
            }
            Backend::Nftables => {
                let rule = format!("add rule inet cni_firewall MY-ADMIN {} daddr {ip} ct state new drop", family.nft);
                sandbox.exec(&["nft", &rule]).expect_success();
            }
            Backend::Firewalld => {
                let rules = sandbox.sh(&format!("{program} -S")) + &sandbox.sh("nft list ruleset");
                assert!(!rules.contains("MY-ADMIN"), "{rules}");
            }
        }
    }
    if machine.backend == Backend::Firewalld {
        return format!("there is no such chain, firewalld has policies of its own; {machine}");
    }
    for FamilyTexts { host, .. } in machine.families() {
        machine.misses(&machine.outside, *host, PORT);
    }
    let rules = |machine: &BackendHost| {
        [machine.state().section("iptables filter").to_vec(), machine.state().section("nftables").to_vec()]
    };
    let before = rules(&machine);
    let neighbour = machine.attach("neighbour", PORT + 1);
    machine.serves(&neighbour);
    machine.runtime().del(&neighbour.attachment).expect_success();
    assert_eq!(rules(&machine), before, "the administrator's rules are left alone");
    machine.to_string()
}

/// Only firewalld has zones; the key may be there elsewhere.
fn zone(machine: BackendHost) -> String {
    let machine = machine.configure("firewall", &json!({"firewalldZone": "internal"}));
    let attached = machine.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    machine.serves(&attached);
    machine.runtime().check(&attached.attachment).expect_success();
    if machine.backend != Backend::Firewalld {
        return format!("of no use here, and taken; {machine}");
    }
    let sources = machine.machine().sources("internal");
    let mut wanted: Vec<String> = machine
        .families()
        .iter()
        .map(|family| format!("{}/{}", attached.ip(family), if family.gateway.is_ipv4() { 32 } else { 128 }))
        .collect();
    wanted.sort();
    assert_eq!(sources, wanted);
    machine.runtime().del(&attached.attachment).expect_success();
    assert_eq!(machine.machine().sources("internal"), [""; 0]);
    format!("a source of zone internal; {machine}")
}
