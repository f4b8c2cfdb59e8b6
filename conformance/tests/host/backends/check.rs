//! CHECK passes after ADD, and names one thing that is missing.

use std::net::IpAddr;

use cni_conformance::Verb;
use cni_conformance::state::assert_same;

use crate::backends::network::{Backend, Family};
use crate::backends::world::{Guest, World};

const PORT: u16 = 8080;

/// The code of a CHECK that found something missing.
const CHECK_FAILED: u64 = 100;

/// Something of a container that a back end keeps in a family.
struct Thing {
    plugin: &'static str,
    /// What CHECK must say without it.
    says: String,
    take_away: Box<dyn Fn(&World)>,
}

/// Works out a cell.
pub fn work_out(world: &World) -> String {
    let guest = world.attach("own", PORT);
    passes(world, &guest);
    let mut count = 0;
    for family in world.families() {
        for thing in things(world.backend, family, guest.ip(family)) {
            (thing.take_away)(world);
            fails(world, &guest, &thing);
            let result = guest.attachment.result.as_ref();
            let repair = world.runtime().invocation(Verb::Add, thing.plugin, &guest.attachment, result);
            repair.run().expect_success();
            passes(world, &guest);
            count += 1;
        }
    }
    world.runtime().del(&guest.attachment).expect_success();
    passes(world, &world.attach("fresh", PORT + 1));
    format!("{count} things taken away one by one, named and repaired; {world}")
}

fn passes(world: &World, guest: &Guest) {
    let before = world.state();
    world.runtime().check(&guest.attachment).expect_success();
    assert_same(&before, &world.state());
    world.serves(guest);
}

fn fails(world: &World, guest: &Guest, thing: &Thing) {
    let before = world.state();
    let chain = world.runtime().check(&guest.attachment);
    chain.expect_error(thing.plugin, CHECK_FAILED, &thing.says);
    assert_same(&before, &world.state());
}

fn things(backend: Backend, family: &Family, ip: IpAddr) -> Vec<Thing> {
    let Family { program, nft, .. } = *family;
    let length = if ip.is_ipv4() { 32 } else { 128 };
    let of_firewall = match backend {
        Backend::IptablesNft | Backend::IptablesLegacy => {
            thing("firewall", format!("expected rule [-s {ip}/{length} -j ACCEPT] not found"), move |world| {
                drop(world.sandbox().sh(&format!("{program} -D CNI-FORWARD -s {ip} -j ACCEPT")))
            })
        }
        Backend::Nftables => thing("firewall", ip.to_string(), move |world| {
            let set = if ip.is_ipv4() { "containers_v4" } else { "containers_v6" };
            world
                .sandbox()
                .exec(&["nft", &format!("delete element inet cni_firewall {set} {{ {ip} }}")])
                .expect_success();
        }),
        Backend::Firewalld => {
            thing("firewall", format!("failed to find the address {ip}/{length} in trusted zone"), move |world| {
                drop(world.machine().zone("removeSource", &["trusted", &format!("{ip}/{length}")]));
            })
        }
    };
    let of_portmap = match backend {
        Backend::IptablesNft | Backend::IptablesLegacy | Backend::Firewalld => {
            thing("portmap", "chain CNI-HOSTPORT-DNAT not found in table nat".to_owned(), move |world| {
                drop(world.sandbox().sh(&format!("{program} -t nat -D CNI-HOSTPORT-DNAT 1")));
            })
        }
        Backend::Nftables => thing("portmap", format!("chain {nft} cni_hostport hostports"), move |world| {
            let listed = world.sandbox().sh(&format!("nft -a list chain {nft} cni_hostport hostports"));
            let rule = listed.lines().find(|line| line.contains("dport")).expect("a rule");
            let handle = rule.rsplit(' ').next().expect("a handle");
            world.sandbox().sh(&format!("nft delete rule {nft} cni_hostport hostports handle {handle}"));
        }),
    };
    vec![of_firewall, of_portmap]
}

fn thing(plugin: &'static str, says: String, take_away: impl Fn(&World) + 'static) -> Thing {
    Thing { plugin, says, take_away: Box::new(take_away) }
}
