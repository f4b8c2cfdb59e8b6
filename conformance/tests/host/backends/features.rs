//! The effects of the keys of firewall and portmap on packets, on every back end.
//!
//! A back end without a feature refuses the key or ignores it; the row then says which.

use cni_conformance::PortMapping;
use cni_conformance::table::work_out;
use serde_json::json;

use crate::backends::network::{Backend, Family, Stack};
use crate::backends::world::{SERVICE, World};

const PORT: u16 = 8080;

/// Works out a cell, and tells what it saw.
type Feature = fn(World) -> String;

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
    work_out(["key", "back end"], cells.collect(), |(backend, feature)| feature(World::new(backend, Stack::Dual)));
}

/// TCP and UDP on one address of the host.
fn twins_on(host_ip: &str) -> Vec<PortMapping> {
    PortMapping::twins(PORT, SERVICE).into_iter().map(|mapping| mapping.on(host_ip)).collect()
}

fn host_ip_of_one_address(world: World) -> String {
    let ports: Vec<PortMapping> =
        world.families().iter().flat_map(|family| twins_on(&family.host.to_string())).collect();
    let guest = world.attach_with("own", &ports);
    world.serves(&guest);
    let here = world.sandbox().host();
    for Family { host, gateway, .. } in world.families() {
        world.reaches(here, *host, PORT, *host);
        world.misses(here, *gateway, PORT);
    }
    world.runtime().check(&guest.attachment).expect_success();
    world.to_string()
}

fn host_ip_of_a_family(world: World) -> String {
    for (host_ip, of_v4) in [("0.0.0.0", true), ("::", false)] {
        let guest = world.attach_with(if of_v4 { "v4" } else { "v6" }, &twins_on(host_ip));
        for Family { host, outside, gateway, .. } in world.families() {
            if host.is_ipv4() == of_v4 {
                world.reaches(&world.outside, *host, PORT, *outside);
                world.reaches(world.sandbox().host(), *gateway, PORT, *gateway);
            } else {
                world.misses(&world.outside, *host, PORT);
            }
        }
        world.runtime().check(&guest.attachment).expect_success();
        world.runtime().del(&guest.attachment).expect_success();
    }
    world.to_string()
}

/// Clients that need the host's address as source get no answer; others do.
fn snat_off(world: World) -> String {
    let world = world.configure("portmap", &json!({"snat": false}));
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    world.serves(&guest);
    let here = world.sandbox().host();
    for Family { host, loopback, .. } in world.families() {
        world.reaches(here, *host, PORT, *host);
        world.misses(&guest.container, *host, PORT);
        loopback.iter().for_each(|loopback| world.misses(here, *loopback, PORT));
    }
    world.runtime().check(&guest.attachment).expect_success();
    world.to_string()
}

fn masq_all(world: World) -> String {
    let world = world.configure("portmap", &json!({"masqAll": true}));
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for Family { host, gateway, .. } in world.families() {
        world.reaches(&world.outside, *host, PORT, *gateway);
        world.reaches(&guest.container, *host, PORT, *gateway);
    }
    world.runtime().check(&guest.attachment).expect_success();
    world.to_string()
}

/// In the language of the back end: everybody but the outside.
fn conditions(world: World) -> String {
    let keys = match world.backend.of_others() {
        "iptables" => json!({
            "conditionsV4": ["!", "-s", "192.0.2.2/32"],
            "conditionsV6": ["!", "-s", "2001:db8:2::2/128"],
        }),
        _ => json!({
            "conditionsV4": ["ip", "saddr", "!=", "192.0.2.2"],
            "conditionsV6": ["ip6", "saddr", "!=", "2001:db8:2::2"],
        }),
    };
    let world = world.configure("portmap", &keys);
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for Family { host, gateway, .. } in world.families() {
        world.misses(&world.outside, *host, PORT);
        world.reaches(world.sandbox().host(), *host, PORT, *host);
        world.reaches(&guest.container, *host, PORT, *gateway);
    }
    world.runtime().check(&guest.attachment).expect_success();
    world.to_string()
}

/// Marks are those of iptables; nftables masquerades without one.
fn mark_masq_bit(world: World) -> String {
    let world = world.configure("portmap", &json!({"markMasqBit": 5}));
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for Family { host, gateway, .. } in world.families() {
        world.reaches(&guest.container, *host, PORT, *gateway);
    }
    let rules = world.sandbox().sh("nft --stateless list ruleset") + &world.sandbox().sh("iptables -t nat -S");
    let marks = ["0x20/0x20", "0x00000020"].iter().any(|mark| rules.contains(mark));
    assert_eq!(marks, world.backend.of_others() == "iptables", "{rules}");
    format!("{}; {world}", if marks { "mark 0x20" } else { "taken, and no mark is needed" })
}

/// Another program keeps the chain and masquerades what it has marked.
fn external_set_mark_chain(world: World) -> String {
    let world = world.configure("portmap", &json!({"externalSetMarkChain": "MY-MARK"}));
    if world.backend == Backend::Nftables {
        return refused(&world, "configuration contains iptables-specific options [externalSetMarkChain]");
    }
    for Family { program, .. } in world.families() {
        for words in [
            "-N MY-MARK",
            "-A MY-MARK -j MARK --set-xmark 0x4/0x4",
            "-A POSTROUTING -m mark --mark 0x4/0x4 -j MASQUERADE",
        ] {
            world.sandbox().sh(&format!("{program} -t nat {words}"));
        }
    }
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    for Family { host, gateway, .. } in world.families() {
        world.reaches(&guest.container, *host, PORT, *gateway);
    }
    let rules = world.sandbox().sh("iptables -t nat -S");
    assert!(!rules.contains("CNI-HOSTPORT-SETMARK"), "{rules}");
    world.runtime().check(&guest.attachment).expect_success();
    world.to_string()
}

/// portmap refuses its configuration with these words.
fn refused(world: &World, words: &str) -> String {
    let mut guest = world.guest("own", &PortMapping::twins(PORT, SERVICE));
    let error = world.runtime().add(&mut guest.attachment).expect_error("portmap", 7, words);
    world.runtime().del(&guest.attachment).expect_success();
    format!("refused: {}", error.msg)
}

/// What the administrator forbids in it is not served; firewalld has zones for that.
fn admin_chain(world: World) -> String {
    let world = world.configure("firewall", &json!({"iptablesAdminChainName": "MY-ADMIN"}));
    let sandbox = world.sandbox();
    for Family { program, .. } in world.families() {
        sandbox.sh(&format!("{program} -P FORWARD ACCEPT"));
    }
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    world.serves(&guest);
    for family in world.families() {
        let (program, ip) = (family.program, guest.ip(family));
        match world.backend {
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
    if world.backend == Backend::Firewalld {
        return format!("there is no such chain, firewalld has policies of its own; {world}");
    }
    for Family { host, .. } in world.families() {
        world.misses(&world.outside, *host, PORT);
    }
    let rules =
        |world: &World| [world.state().section("iptables filter").to_vec(), world.state().section("nftables").to_vec()];
    let before = rules(&world);
    let neighbour = world.attach("neighbour", PORT + 1);
    world.serves(&neighbour);
    world.runtime().del(&neighbour.attachment).expect_success();
    assert_eq!(rules(&world), before, "the administrator's rules are left alone");
    world.to_string()
}

/// Only firewalld has zones; the key may be there elsewhere.
fn zone(world: World) -> String {
    let world = world.configure("firewall", &json!({"firewalldZone": "internal"}));
    let guest = world.attach_with("own", &PortMapping::twins(PORT, SERVICE));
    world.serves(&guest);
    world.runtime().check(&guest.attachment).expect_success();
    if world.backend != Backend::Firewalld {
        return format!("of no use here, and taken; {world}");
    }
    let sources = world.machine().sources("internal");
    let mut wanted: Vec<String> = world
        .families()
        .iter()
        .map(|family| format!("{}/{}", guest.ip(family), if family.gateway.is_ipv4() { 32 } else { 128 }))
        .collect();
    wanted.sort();
    assert_eq!(sources, wanted);
    world.runtime().del(&guest.attachment).expect_success();
    assert_eq!(world.machine().sources("internal"), [""; 0]);
    format!("a source of zone internal; {world}")
}
