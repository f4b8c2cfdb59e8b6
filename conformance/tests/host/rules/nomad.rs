//! The rules of Nomad's whole list: masquerading, forwarding and host ports together.
//!
//! Nomad fills its admin chain before ADD and reads its masquerade rule after a failed DEL, so
//! these texts are an interface. The IDs are those of allocations, from which chain names follow.

use cni_conformance::{Attachment, Container, Nomad, PortMapping, Runtime, Sandbox, Spelling, nomad};

use cni_conformance::golden::{assert_rules, assert_untouched, on_both_flavours, without};

pub const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";
pub const NEIGHBOUR: &str = "1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001";

/// The first allocation, 172.26.64.2, with one of Nomad's ports.
pub const NAT_V4: &str = r#"
-N CNI-DN-f795935c5b000b7816d4c
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-N CNI-f795935c5b000b7816d4ca95
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 172.26.64.2/32 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j CNI-f795935c5b000b7816d4ca95
-A CNI-DN-f795935c5b000b7816d4c -s 172.26.64.0/20 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.26.64.2:80
-A CNI-DN-f795935c5b000b7816d4c -s 172.26.64.0/20 -p udp -m udp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -s 127.0.0.1/32 -p udp -m udp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p udp -m udp --dport 8080 -j DNAT --to-destination 172.26.64.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-f795935c5b000b7816d4ca95 -d 172.26.64.0/20 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j ACCEPT
-A CNI-f795935c5b000b7816d4ca95 ! -d 224.0.0.0/4 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j MASQUERADE
"#;

/// The same for fd00:a110:c8::2.
pub const NAT_V6: &str = r#"
-N CNI-DN-f795935c5b000b7816d4c
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-N CNI-f795935c5b000b7816d4ca95
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s fd00:a110:c8::2/128 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j CNI-f795935c5b000b7816d4ca95
-A CNI-DN-f795935c5b000b7816d4c -s fd00:a110:c8::/120 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p tcp -m tcp --dport 8080 -j DNAT --to-destination [fd00:a110:c8::2]:80
-A CNI-DN-f795935c5b000b7816d4c -s fd00:a110:c8::/120 -p udp -m udp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p udp -m udp --dport 8080 -j DNAT --to-destination [fd00:a110:c8::2]:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-f795935c5b000b7816d4ca95 -d fd00:a110:c8::/120 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j ACCEPT
-A CNI-f795935c5b000b7816d4ca95 ! -d ff00::/8 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j MASQUERADE
"#;

const FILTER_V4: &str = r#"
-N CNI-FORWARD
-N NOMAD-ADMIN
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j NOMAD-ADMIN
-A CNI-FORWARD -d 172.26.64.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 172.26.64.2/32 -j ACCEPT
-A NOMAD-ADMIN -d 172.26.64.0/20 -o nomad -j ACCEPT
"#;

/// What stays in either family when no allocation is left.
fn nat_skeleton() -> String {
    without(NAT_V4, "f795935c5b000b7816d4c")
}

/// The same as [`FILTER_V4`] for fd00:a110:c8::2.
fn filter_v6() -> String {
    FILTER_V4.replace("172.26.64.2/32", "fd00:a110:c8::2/128").replace("172.26.64.0/20", "fd00:a110:c8::/120")
}

/// A second allocation, 172.26.64.3 with port 9090, behind the first in every chain.
const NAT_V4_OF_TWO: &str = r#"
-N CNI-DN-c0bb0b9af8daed14e0d97
-N CNI-DN-f795935c5b000b7816d4c
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-N CNI-c0bb0b9af8daed14e0d9760d
-N CNI-f795935c5b000b7816d4ca95
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 172.26.64.2/32 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j CNI-f795935c5b000b7816d4ca95
-A POSTROUTING -s 172.26.64.3/32 -m comment --comment "name: \"nomad\" id: \"1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001\"" -j CNI-c0bb0b9af8daed14e0d9760d
-A CNI-DN-c0bb0b9af8daed14e0d97 -s 172.26.64.0/20 -p tcp -m tcp --dport 9090 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c0bb0b9af8daed14e0d97 -s 127.0.0.1/32 -p tcp -m tcp --dport 9090 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c0bb0b9af8daed14e0d97 -p tcp -m tcp --dport 9090 -j DNAT --to-destination 172.26.64.3:80
-A CNI-DN-c0bb0b9af8daed14e0d97 -s 172.26.64.0/20 -p udp -m udp --dport 9090 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c0bb0b9af8daed14e0d97 -s 127.0.0.1/32 -p udp -m udp --dport 9090 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c0bb0b9af8daed14e0d97 -p udp -m udp --dport 9090 -j DNAT --to-destination 172.26.64.3:80
-A CNI-DN-f795935c5b000b7816d4c -s 172.26.64.0/20 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.26.64.2:80
-A CNI-DN-f795935c5b000b7816d4c -s 172.26.64.0/20 -p udp -m udp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -s 127.0.0.1/32 -p udp -m udp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f795935c5b000b7816d4c -p udp -m udp --dport 8080 -j DNAT --to-destination 172.26.64.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -m multiport --dports 8080 -j CNI-DN-f795935c5b000b7816d4c
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"nomad\" id: \"1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001\"" -m multiport --dports 9090 -j CNI-DN-c0bb0b9af8daed14e0d97
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"nomad\" id: \"1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001\"" -m multiport --dports 9090 -j CNI-DN-c0bb0b9af8daed14e0d97
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-c0bb0b9af8daed14e0d9760d -d 172.26.64.0/20 -m comment --comment "name: \"nomad\" id: \"1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001\"" -j ACCEPT
-A CNI-c0bb0b9af8daed14e0d9760d ! -d 224.0.0.0/4 -m comment --comment "name: \"nomad\" id: \"1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001\"" -j MASQUERADE
-A CNI-f795935c5b000b7816d4ca95 -d 172.26.64.0/20 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j ACCEPT
-A CNI-f795935c5b000b7816d4ca95 ! -d 224.0.0.0/4 -m comment --comment "name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\"" -j MASQUERADE
"#;

/// Attaches an allocation as Nomad does, with `host_port` as its only port.
#[track_caller]
pub fn attach(sandbox: &Sandbox, nomad: &Nomad, alloc: &str, host_port: u16) -> (Container, Attachment) {
    nomad.ensure_forwarding_rules(sandbox);
    let container = sandbox.container(alloc);
    let mut attachment = Attachment::new(alloc, &container)
        .ports(&PortMapping::twins(host_port, 80), Spelling::Go)
        .args(&nomad::args(alloc, "web", &[]));
    Runtime::new(sandbox, nomad.conflist()).add(&mut attachment).expect_success();
    (container, attachment)
}

#[track_caller]
pub fn detach(sandbox: &Sandbox, nomad: &Nomad, attachment: &Attachment) {
    Runtime::new(sandbox, nomad.conflist()).del(&attachment.clone().args("")).expect_success();
}

#[test]
fn the_ipv4_list_makes_the_references_rules_and_none_for_ipv6() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        let (_, attachment) = attach(sandbox, &nomad, ALLOC, 8080);
        assert_rules(sandbox, "iptables", "nat", NAT_V4);
        assert_rules(sandbox, "iptables", "filter", FILTER_V4);
        assert_untouched(sandbox, "ip6tables");
        detach(sandbox, &nomad, &attachment);
        assert_rules(sandbox, "iptables", "nat", &nat_skeleton());
        assert_rules(sandbox, "iptables", "filter", &without(FILTER_V4, "172.26.64.2"));
    });
}

#[test]
fn the_dual_stack_list_makes_the_references_rules() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::version("1.0.0").dual_stack();
        let (_, attachment) = attach(sandbox, &nomad, ALLOC, 8080);
        let families =
            [("iptables", NAT_V4, FILTER_V4, "172.26.64.2"), ("ip6tables", NAT_V6, &filter_v6(), "fd00:a110:c8::2")];
        for (program, nat, filter, _) in families {
            assert_rules(sandbox, program, "nat", nat);
            assert_rules(sandbox, program, "filter", filter);
        }
        detach(sandbox, &nomad, &attachment);
        for (program, _, filter, address) in families {
            assert_rules(sandbox, program, "nat", &nat_skeleton());
            assert_rules(sandbox, program, "filter", &without(filter, address));
        }
    });
}

#[test]
fn a_second_allocation_stands_behind_the_first() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        let (_, first) = attach(sandbox, &nomad, ALLOC, 8080);
        let (_, second) = attach(sandbox, &nomad, NEIGHBOUR, 9090);
        assert_rules(sandbox, "iptables", "nat", NAT_V4_OF_TWO);
        let of_second = "-A CNI-FORWARD -d 172.26.64.3/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                         -A CNI-FORWARD -s 172.26.64.3/32 -j ACCEPT\n-A NOMAD-ADMIN ";
        assert_rules(sandbox, "iptables", "filter", &FILTER_V4.replace("-A NOMAD-ADMIN ", of_second));
        detach(sandbox, &nomad, &second);
        assert_rules(sandbox, "iptables", "nat", NAT_V4);
        assert_rules(sandbox, "iptables", "filter", FILTER_V4);
        detach(sandbox, &nomad, &first);
        assert_rules(sandbox, "iptables", "nat", &nat_skeleton());
    });
}

/// Nomad and operators own the chain; the plugin only leads to it, before all of its own rules.
#[test]
fn rules_in_the_admin_chain_are_kept_and_asked_first() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        sandbox.sh("iptables -N NOMAD-ADMIN");
        sandbox.sh("iptables -A NOMAD-ADMIN -s 203.0.113.0/24 -j DROP");
        let (_, attachment) = attach(sandbox, &nomad, ALLOC, 8080);
        let kept = "-A NOMAD-ADMIN -s 203.0.113.0/24 -j DROP\n-A NOMAD-ADMIN -d";
        let golden = FILTER_V4.replace("-A NOMAD-ADMIN -d", kept);
        assert_rules(sandbox, "iptables", "filter", &golden);
        detach(sandbox, &nomad, &attachment);
        assert_rules(sandbox, "iptables", "filter", &without(&golden, "172.26.64.2"));
    });
}

/// Another network with the plugin's own admin chain came first; each new admin chain goes on top.
#[test]
fn the_admin_chain_is_asked_first_where_others_forward_already() {
    on_both_flavours(|sandbox| {
        let comment = ["-m", "comment", "--comment"];
        sandbox.sh("iptables -N CNI-FORWARD");
        sandbox.sh("iptables -N CNI-ADMIN");
        let jump = [&["iptables", "-A", "FORWARD"], &comment[..], &["CNI firewall plugin rules", "-j", "CNI-FORWARD"]];
        sandbox.exec(&jump.concat()).expect_success();
        let admin = [
            &["iptables", "-A", "CNI-FORWARD"],
            &comment[..],
            &["CNI firewall plugin admin overrides", "-j", "CNI-ADMIN"],
        ];
        sandbox.exec(&admin.concat()).expect_success();
        sandbox.sh("iptables -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT");
        attach(sandbox, &Nomad::default(), ALLOC, 8080);
        let own = "-A CNI-FORWARD -d 172.26.64.2/32";
        let golden = FILTER_V4.replace("-N CNI-FORWARD", "-N CNI-ADMIN\n-N CNI-FORWARD").replace(
            own,
            &format!(
                "-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j CNI-ADMIN\n\
                 -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT\n{own}"
            ),
        );
        assert_rules(sandbox, "iptables", "filter", &golden);
    });
}

/// `xt_comment` keeps 255 bytes. The reference lets iptables cut masquerade comments, so they end
/// without the dots that portmap's end in, and its DEL finds no others.
#[test]
fn a_long_container_id_is_masqueraded_and_let_go() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        let id = "x".repeat(300);
        let container = sandbox.container("long");
        let ports = PortMapping::twins(8080, 80);
        let mut attachment = Attachment::new(&id, &container).ports(&ports, Spelling::Go);
        nomad.ensure_forwarding_rules(sandbox);
        let runtime = Runtime::new(sandbox, nomad.conflist());
        runtime.add(&mut attachment).expect_success();
        let of_ports = format!(r#"dnat name: "nomad" id: "{id}"#);
        let of_ports = format!("{}..", &of_ports[..253]).replace('"', "\\\"");
        let of_masquerade = format!(r#"name: "nomad" id: "{id}"#)[..255].replace('"', "\\\"");
        let whole = r#"name: \"nomad\" id: \"8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10\""#;
        let golden = NAT_V4
            .replace(&format!("dnat {whole}"), &of_ports)
            .replace(whole, &of_masquerade)
            .replace("CNI-f795935c5b000b7816d4ca95", "CNI-8692b83c26d163b8343a8e3c")
            .replace("CNI-DN-f795935c5b000b7816d4c", "CNI-DN-8692b83c26d163b8343a8");
        assert_rules(sandbox, "iptables", "nat", &in_order_of_chains(&golden));
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment).expect_success();
        assert_rules(sandbox, "iptables", "nat", &nat_skeleton());
    });
}

/// Chains are printed in the order of their names, behind the table's own; a chain's rules keep theirs.
fn in_order_of_chains(golden: &str) -> String {
    let (mut names, rules): (Vec<&str>, Vec<&str>) = golden.lines().partition(|line| line.starts_with("-N "));
    let (mut ours, mut lines): (Vec<&str>, Vec<&str>) = rules.into_iter().partition(|line| line.starts_with("-A CNI-"));
    names.sort_unstable();
    ours.sort_by_key(|rule| rule.split(' ').nth(1));
    names.append(&mut lines);
    names.append(&mut ours);
    names.join("\n")
}
