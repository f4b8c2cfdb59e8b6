//! Which connections are redirected: a proxy in the container, servers elsewhere, and clients of several users.

use cni_conformance::Flavour;
use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::keys::with;
use serde_json::{Value, json};

use crate::consul_cni::proxy::{Servers, heard};
use crate::consul_cni::setup::{ADDRESS, Mesh, nomads};

const ROOT: u32 = 0;
const PROXY: u32 = 101;
const EXCLUDED: u32 = 42;

fn argument() -> Value {
    with(
        &nomads(),
        &json!({
            "ExcludeOutboundPorts": ["443", "5000:5002"], "ExcludeOutboundCIDRs": ["10.0.0.1/9", "fd00::/8"], "ExcludeUIDs": ["42", "2000-2005"],
        }),
    )
}

/// The outside has many addresses; the proxy, an application and a metrics port are in the container.
fn servers(mesh: &Mesh) -> Servers {
    for address in ["203.0.113.9", "10.9.9.9", "192.168.1.117", "198.51.100.53"] {
        mesh.sandbox.sh(&format!("ip addr add {address}/32 dev host0"));
    }
    let (host, container) = (mesh.sandbox.host(), &mesh.container);
    let outside = [80, 443, 5001, 53, 8600].into_iter().fold(Servers::new(), |servers, port| servers.tcp(host, port));
    let inside = [15001, 25018, 9002, 7070].into_iter().fold(outside, |servers, port| servers.tcp(container, port));
    let dns = ["192.168.1.117:8600", "198.51.100.53:53"];
    dns.into_iter().fold(inside, |servers, address| servers.udp(host, address.parse().expect("an address")))
}

/// What each client receives; every unexpected answer is reported.
fn assert_heard(mesh: &Mesh, rows: &[(Option<u32>, &str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (user, transport, to, want) in rows {
        let from = if user.is_some() { &*mesh.container } else { mesh.sandbox.host() };
        let found = heard(from, user.unwrap_or(ROOT), transport, to);
        if found != *want {
            wrong.push(format!("user {user:?} by {transport} to {to} hears {found:?} and not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_redirected_and_what_is_not() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        let _servers = servers(&mesh);
        let own = |port: u16| format!("{ADDRESS}:{port}");
        let inbound = |port: u16| format!("{ADDRESS}:25018 for {ADDRESS}:{port}");
        let proxy = |to: &str| format!("127.0.0.1:15001 for {to}");
        mesh.succeeds(&[Add, Check], &argument());
        assert_heard(
            &mesh,
            &[
                (None, "tcp", &own(80), &inbound(80)),
                (None, "tcp", &own(5555), &inbound(5555)),
                (None, "tcp", &own(7070), &inbound(7070)),
                (None, "tcp", &own(9002), &own(9002)),
                (Some(ROOT), "tcp", "203.0.113.9:80", &proxy("203.0.113.9:80")),
                (Some(1999), "tcp", "203.0.113.9:80", &proxy("203.0.113.9:80")),
                (Some(2006), "tcp", "203.0.113.9:80", &proxy("203.0.113.9:80")),
                (Some(PROXY), "tcp", "203.0.113.9:80", "203.0.113.9:80"),
                (Some(EXCLUDED), "tcp", "203.0.113.9:80", "203.0.113.9:80"),
                (Some(2000), "tcp", "203.0.113.9:80", "203.0.113.9:80"),
                (Some(2005), "tcp", "203.0.113.9:80", "203.0.113.9:80"),
                (Some(ROOT), "tcp", "203.0.113.9:443", "203.0.113.9:443"),
                (Some(ROOT), "tcp", "203.0.113.9:5001", "203.0.113.9:5001"),
                (Some(ROOT), "tcp", "203.0.113.9:5003", &proxy("203.0.113.9:5003")),
                (Some(ROOT), "tcp", "10.9.9.9:80", "10.9.9.9:80"),
                (Some(ROOT), "tcp", "10.200.9.9:80", &proxy("10.200.9.9:80")),
                (Some(ROOT), "tcp", "127.0.0.1:7070", "127.0.0.1:7070"),
                (Some(ROOT), "tcp", "127.0.0.2:7070", &proxy("127.0.0.2:7070")),
                (Some(PROXY), "tcp", "127.0.0.2:7070", "127.0.0.2:7070"),
                (Some(ROOT), "udp", "192.168.1.117:53", "192.168.1.117:8600"),
                (Some(PROXY), "udp", "192.168.1.117:53", "192.168.1.117:8600"),
                (Some(ROOT), "tcp", "192.168.1.117:53", "192.168.1.117:8600"),
                (Some(PROXY), "tcp", "192.168.1.117:53", "192.168.1.117:8600"),
                (Some(ROOT), "tcp", "192.168.1.117:8600", &proxy("192.168.1.117:8600")),
                (Some(ROOT), "udp", "198.51.100.53:53", "198.51.100.53:53"),
                (Some(ROOT), "tcp", "198.51.100.53:53", &proxy("198.51.100.53:53")),
            ],
        );
    }
}

#[test]
fn the_containers_own_address_is_redirected_too() {
    let mesh = Mesh::new(Flavour::Nft);
    let _servers = servers(&mesh);
    let own = format!("{ADDRESS}:7070");
    assert_eq!(heard(&mesh.container, ROOT, "tcp", &own), own);
    mesh.succeeds(&[Add], &argument());
    let argument = with(&argument(), &json!({"ExcludeOutboundCIDRs": null}));
    mesh.succeeds(&[Add], &argument);
    assert_eq!(heard(&mesh.container, ROOT, "tcp", &own), format!("127.0.0.1:15001 for {own}"));
}

#[test]
fn without_a_port_every_question_goes_to_the_dns() {
    let mesh = Mesh::new(Flavour::Nft);
    let _servers = servers(&mesh);
    mesh.succeeds(&[Add], &with(&nomads(), &json!({"ConsulDNSIP": "198.51.100.53", "ConsulDNSPort": 0})));
    assert_heard(
        &mesh,
        &[
            (Some(ROOT), "udp", "203.0.113.9:53", "198.51.100.53:53"),
            (Some(PROXY), "udp", "203.0.113.9:53", "198.51.100.53:53"),
            (Some(ROOT), "tcp", "203.0.113.9:53", "198.51.100.53:53"),
        ],
    );
}

#[test]
fn after_del_nothing_is_redirected() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        let _servers = servers(&mesh);
        mesh.succeeds(&[Add, Del], &argument());
        let own = format!("{ADDRESS}:7070");
        assert_heard(
            &mesh,
            &[
                (None, "tcp", &own, &own),
                (Some(ROOT), "tcp", "203.0.113.9:80", "203.0.113.9:80"),
                (Some(ROOT), "tcp", "192.168.1.117:53", "192.168.1.117:53"),
                (Some(ROOT), "udp", "198.51.100.53:53", "198.51.100.53:53"),
            ],
        );
    }
}

#[test]
fn ipv6_passes_the_proxy_by() {
    let mesh = Mesh::new(Flavour::Nft);
    mesh.sandbox.sh("ip addr add fd00:87::1/64 dev host0 nodad");
    mesh.container.sh("ip addr add fd00:87::2/64 dev eth0 nodad");
    let _outside = cni_conformance::traffic::Echo::everywhere(mesh.sandbox.host(), 80);
    let _proxy = Servers::new().tcp(&mesh.container, 15001);
    mesh.succeeds(&[Add], &argument());
    let answer = heard(&mesh.container, ROOT, "tcp", "fd00:87::1:80");
    assert!(answer.starts_with("[fd00:87::2]:"), "{answer}");
}
