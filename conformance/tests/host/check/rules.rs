//! Rules and chains of the packet filter.

use cni_conformance::Flavour;
use cni_conformance::cases::for_each;

use crate::check::check_host::Disturbance::{Host, Rule};
use crate::check::check_host::{CheckHost, Disturbance, FamilyWords, V4, V6};

/// Something that carries traffic, how it goes, which plugin must complain, and in which words.
#[derive(Clone, Copy)]
struct Row {
    what: &'static str,
    removal: &'static [Disturbance],
    plugin: &'static str,
    says: &'static [&'static str],
}

const fn row(
    what: &'static str,
    removal: &'static [Disturbance],
    plugin: &'static str,
    says: &'static [&'static str],
) -> Row {
    Row { what, removal, plugin, says }
}

/// Go's bridge checks none of its rules, and its portmap only those of the container.
const OF_A_FAMILY: [Row; 18] = [
    row("masquerade jump", &[Rule("nat", "POSTROUTING", "-s {ip}/")], "bridge", &["POSTROUTING", "{masquerade}"]),
    row("rule for neighbours", &[Rule("nat", "{masquerade}", "-d {subnet}")], "bridge", &["{masquerade}", "{subnet}"]),
    row("masquerade rule", &[Rule("nat", "{masquerade}", "MASQUERADE")], "bridge", &["{masquerade}", "MASQUERADE"]),
    row(
        "masquerade chain",
        &[
            Rule("nat", "POSTROUTING", "-s {ip}/"),
            Host("{program} -t nat -F {masquerade}"),
            Host("{program} -t nat -X {masquerade}"),
        ],
        "bridge",
        &["{masquerade}"],
    ),
    row("accept of answers", &[Rule("filter", "CNI-FORWARD", "-d {ip}/")], "firewall", &["CNI-FORWARD", "-d {ip}"]),
    row("accept of packets", &[Rule("filter", "CNI-FORWARD", "-s {ip}/")], "firewall", &["CNI-FORWARD", "-s {ip}"]),
    row("admin jump", &[Rule("filter", "CNI-FORWARD", "NOMAD-ADMIN")], "firewall", &["CNI-FORWARD", "NOMAD-ADMIN"]),
    row("firewall's jump", &[Rule("filter", "FORWARD", "CNI-FORWARD")], "firewall", &["FORWARD", "CNI-FORWARD"]),
    row(
        "firewall's chain",
        &[Rule("filter", "FORWARD", "CNI-FORWARD"), Host("{program} -F CNI-FORWARD"), Host("{program} -X CNI-FORWARD")],
        "firewall",
        &["CNI-FORWARD"],
    ),
    row(
        "tcp DNAT rule",
        &[Rule("nat", "{ports}", "-p tcp -m tcp --dport 8080 -j DNAT")],
        "portmap",
        &["{ports}", "DNAT"],
    ),
    row(
        "udp DNAT rule",
        &[Rule("nat", "{ports}", "-p udp -m udp --dport 8080 -j DNAT")],
        "portmap",
        &["{ports}", "DNAT"],
    ),
    row(
        "mark of hairpins",
        &[Rule("nat", "{ports}", "-s {subnet} -p tcp")],
        "portmap",
        &["{ports}", "{subnet}", "CNI-HOSTPORT-SETMARK"],
    ),
    row(
        "chain of ports",
        &[
            Rule("nat", "CNI-HOSTPORT-DNAT", "{ports}"),
            Rule("nat", "CNI-HOSTPORT-DNAT", "{ports}"),
            Host("{program} -t nat -F {ports}"),
            Host("{program} -t nat -X {ports}"),
        ],
        "portmap",
        &["{ports}"],
    ),
    row("entry rule", &[Rule("nat", "CNI-HOSTPORT-DNAT", "-p tcp")], "portmap", &["CNI-HOSTPORT-DNAT", "{ports}"]),
    row(
        "jump for others",
        &[Rule("nat", "PREROUTING", "CNI-HOSTPORT-DNAT")],
        "portmap",
        &["PREROUTING", "CNI-HOSTPORT-DNAT"],
    ),
    row(
        "jump for the host",
        &[Rule("nat", "OUTPUT", "CNI-HOSTPORT-DNAT")],
        "portmap",
        &["OUTPUT", "CNI-HOSTPORT-DNAT"],
    ),
    row("rule that marks", &[Rule("nat", "CNI-HOSTPORT-SETMARK", "MARK")], "portmap", &["CNI-HOSTPORT-SETMARK"]),
    row(
        "masquerade of the marked",
        &[Rule("nat", "CNI-HOSTPORT-MASQ", "MASQUERADE")],
        "portmap",
        &["CNI-HOSTPORT-MASQ"],
    ),
];

/// The kernel routes nothing from `::1`, so only IPv4 has the mark for the host's own requests.
const OF_V4: Row =
    row("mark of 127.0.0.1", &[Rule("nat", "{ports}", "-s 127.0.0.1/32 -p udp")], "portmap", &["{ports}", "127.0.0.1"]);

const MASQUERADE_JUMP: Row = row(
    "jump to the masquerade of the marked",
    &[Rule("nat", "POSTROUTING", "CNI-HOSTPORT-MASQ")],
    "portmap",
    &["POSTROUTING", "CNI-HOSTPORT-MASQ"],
);

fn every_row_of(family: &FamilyWords, flavour: Flavour) {
    let more = if family.name == V4.name { vec![MASQUERADE_JUMP, OF_V4] } else { vec![MASQUERADE_JUMP] };
    let rows = OF_A_FAMILY.into_iter().chain(more);
    for_each(rows.map(|row| (row.what, row)), |row| {
        let machine = CheckHost::dual_stack(flavour);
        for removal in row.removal {
            machine.act(*removal, family);
        }
        let says: Vec<String> = row.says.iter().map(|words| machine.fill(words, family)).collect();
        machine.fails(row.plugin, &says);
    });
}

#[test]
fn check_names_a_missing_ipv4_rule_of_the_nft_flavour() {
    every_row_of(&V4, Flavour::Nft);
}

#[test]
fn check_names_a_missing_ipv6_rule_of_the_nft_flavour() {
    every_row_of(&V6, Flavour::Nft);
}

#[test]
fn check_names_a_missing_ipv4_rule_of_the_legacy_flavour() {
    every_row_of(&V4, Flavour::Legacy);
}

#[test]
fn check_names_a_missing_ipv6_rule_of_the_legacy_flavour() {
    every_row_of(&V6, Flavour::Legacy);
}
