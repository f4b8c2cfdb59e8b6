//! bridge

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::{GATEWAY, PrivateHost};
use crate::suite::judge::{CaseVerdict, JudgeOutcome, Mismatch, equal, require};
use crate::suite::subject::BRIDGE;
use cni_conformance::network::Link;
use cni_conformance::traffic::ping;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["bridge"])
}

pub const CASES: &[Template] = &[
    add("bridge-made", "ADD makes the bridge and brings it up", |host| {
        host.add()?;
        let made = host.outside().link(BRIDGE).is_some_and(|link| link.up && link.kind.as_deref() == Some("bridge"));
        require(made, "the bridge br0, up", links(host))
    }),
    add("bridge-port", "the host's end of the container's link is a port of the bridge", |host| {
        host.add()?;
        port(host).map(drop)
    }),
    add("bridge-gateway", "with isGateway the bridge has the gateway's address", |host| {
        host.add()?;
        equal("addresses of br0", format!("{GATEWAY}/24"), host.outside().addresses_of(BRIDGE).join(" "))
    }),
    add("bridge-no-gateway", "without isGateway the bridge has no address", |host| {
        host.add_with(&json!({"isGateway": false}))?;
        equal("addresses of br0", String::new(), host.outside().addresses_of(BRIDGE).join(" "))
    }),
    add("bridge-forwarding", "with isGateway the host forwards packets", |host| {
        host.add()?;
        equal("net/ipv4/ip_forward", "1".to_owned(), host.sandbox.sysctl("net/ipv4/ip_forward"))
    }),
    add("bridge-default-gateway", "with isDefaultGateway the container's default route is by the bridge", |host| {
        host.add_with(&json!({"isDefaultGateway": true}))?;
        host.container_shows("ip route show default", "default via 10.88.0.1 dev eth0")
    }),
    add("bridge-masquerade", "with ipMasq the container's packets are masqueraded", |host| {
        host.add_with(&json!({"ipMasq": true}))?;
        host.host_shows("iptables --wait -t nat -S", "10.88.0.5")?;
        host.host_shows("iptables --wait -t nat -S", "MASQUERADE")
    }),
    Template::new(Topic::Del, "bridge-masquerade", "DEL removes the masquerade", |host| {
        let keys = json!({"ipMasq": true});
        let result = host.add_with(&keys)?;
        host.del_with(&result, &keys)?;
        host.host_lacks("iptables --wait -t nat -S", "10.88.0.5")
    })
    .page(&["bridge"]),
    add("bridge-mtu", "mtu is that of the container's interface and of its other end", |host| {
        host.add_with(&json!({"mtu": 1400}))?;
        host.container_shows("ip link show eth0", "mtu 1400")?;
        require(port(host)?.mtu == 1400, "the host's end with MTU 1400", links(host))
    }),
    add("bridge-hairpin", "with hairpinMode packets may leave by the port that they came in by", |host| {
        host.add_with(&json!({"hairpinMode": true}))?;
        require(port(host)?.hairpin == Some(true), "hairpin mode of the port", links(host))
    }),
    add("bridge-no-hairpin", "without hairpinMode the port has no such mode", |host| {
        host.add()?;
        require(port(host)?.hairpin == Some(false), "no hairpin mode of the port", links(host))
    }),
    add("bridge-promiscuous", "with promiscMode the bridge is promiscuous", |host| {
        host.add_with(&json!({"promiscMode": true}))?;
        require(host.outside().link(BRIDGE).is_some_and(|link| link.promiscuous), "br0 promiscuous", links(host))
    }),
    add("bridge-hairpin-and-promiscuous", "hairpinMode and promiscMode together are refused", |host| {
        host.try_to_add_with(&json!({"hairpinMode": true, "promiscMode": true})).must_print_error().map(drop)
    }),
    add("bridge-mac", "the interface has the hardware address of runtimeConfig", |host| {
        host.add_with(&json!({"runtimeConfig": {"mac": "02:00:00:00:0a:0b"}}))?;
        host.container_shows("ip link show eth0", "02:00:00:00:0a:0b")
    }),
    add("bridge-existing", "a bridge that is there already is used, with its other ports", |host| {
        host.sandbox.sh(&format!("ip link add {BRIDGE} type bridge"));
        host.sandbox.sh(&format!("ip link add other0 master {BRIDGE} type veth peer name other1"));
        host.add()?;
        let ports = host.outside().links.iter().filter(|link| link.controller.as_deref() == Some(BRIDGE)).count();
        require(ports == 2, "two ports", links(host))
    }),
    add("bridge-no-bridge", "a link of the bridge's name that is no bridge is refused", |host| {
        host.sandbox.sh(&format!("ip link add {BRIDGE} type veth peer name other1"));
        host.call(cni_conformance::Verb::Add).run().must_print_error().map(drop)
    }),
    add("bridge-other-address", "a bridge with another address in the same network is refused", |host| {
        other_address(host);
        host.call(cni_conformance::Verb::Add).run().must_print_error().map(drop)
    }),
    add("bridge-force-address", "with forceAddress another address of the bridge gives way", |host| {
        other_address(host);
        host.add_with(&json!({"forceAddress": true}))?;
        equal("addresses of br0", format!("{GATEWAY}/24"), host.outside().addresses_of(BRIDGE).join(" "))
    }),
    add("bridge-layer-two", "without ipam the interface is up and has no address", |host| {
        let mut config = host.config();
        if let Some(keys) = config.as_object_mut() {
            keys.remove("ipam");
            keys.remove("isGateway");
        }
        host.call(cni_conformance::Verb::Add).config(&config).run().must_print_object()?;
        let inside = host.inside();
        let bare = inside.link("eth0").is_some_and(|link| link.up) && inside.addresses_of("eth0").is_empty();
        require(bare, "eth0 up, without an address", host.guest.container.sh("ip address"))
    }),
    add("bridge-isolation", "with portIsolation the port reaches no other such port", |host| {
        host.add_with(&json!({"portIsolation": true}))?;
        require(port(host)?.isolated == Some(true), "an isolated port", links(host))
    }),
    add("bridge-disabled-interface", "with disableContainerInterface the interface stays down", |host| {
        let config = json!({
            "cniVersion": host.version.as_str(), "name": "n1", "type": "bridge", "bridge": BRIDGE,
            "disableContainerInterface": true, "ipam": {},
        });
        host.call(cni_conformance::Verb::Add).config(&config).run().must_print_object()?;
        require(
            host.inside().link("eth0").is_some_and(|link| !link.up),
            "eth0 down",
            host.guest.container.sh("ip link"),
        )
    }),
    add("bridge-spoof-check", "with macspoofchk there are rules for the frames of the container", |host| {
        host.add_with(&json!({"macspoofchk": true}))?;
        host.host_shows("nft list ruleset", "ether saddr")
    }),
    Template::new(Topic::Del, "bridge-spoof-check", "DEL removes the rules of macspoofchk", |host| {
        let keys = json!({"macspoofchk": true});
        let result = host.add_with(&keys)?;
        host.del_with(&result, &keys)?;
        host.host_lacks("nft list ruleset", "ether saddr")
    })
    .page(&["bridge"]),
    add("bridge-own-dns", "the configuration's dns goes before the IPAM plugin's", |host| {
        let result = host.add_with(&json!({"dns": {"nameservers": ["10.88.0.99"]}}))?;
        equal("dns", json!({"nameservers": ["10.88.0.99"]}), result["dns"].clone())
    }),
    add("bridge-result", "the result lists the bridge, the host's end and the container's interface", |host| {
        let result = host.add()?;
        let names = |at: usize| result["interfaces"][at]["name"].clone();
        let whole = names(0) == BRIDGE && names(1) == port(host)?.name.as_str() && names(2) == "eth0";
        require(whole, "br0, its port, eth0", &result)
    }),
    add("bridge-traffic", "two containers of a bridge reach each other, and the gateway", traffic),
];

fn links(host: &PrivateHost) -> String {
    host.outside().links.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The one port of the bridge.
fn port(host: &PrivateHost) -> Result<Link, Mismatch> {
    let found = host.outside().links.into_iter().find(|link| link.controller.as_deref() == Some(BRIDGE));
    found.ok_or_else(|| Mismatch { expected: "a port of br0".to_owned(), got: links(host) })
}

fn other_address(host: &PrivateHost) {
    host.sandbox.sh(&format!("ip link add {BRIDGE} type bridge"));
    host.sandbox.sh(&format!("ip address add 10.88.0.200/24 dev {BRIDGE}"));
}

fn traffic(host: &PrivateHost) -> CaseVerdict {
    let second = host.another("ctr2", 6);
    host.add()?;
    host.add_of(&second)?;
    for target in ["10.88.0.1", "10.88.0.6"] {
        let target: IpAddr = target.parse().unwrap_or_else(|error| panic!("{target}: {error}"));
        let answered = ping(&host.guest.container, target, Duration::from_secs(3));
        require(answered, format!("an answer from {target}"), "none within three seconds")?;
    }
    Ok(())
}
