//! Links, addresses, routes and leases.

use cni_conformance::Flavour;
use cni_conformance::cases::for_each;

use crate::check::check_host::Disturbance::{Host, Inside};
use crate::check::check_host::{CheckHost, Disturbance, V4, V6};

/// Something that carries traffic, how it goes, which plugin must complain, and in which words.
#[derive(Clone, Copy)]
struct Row {
    what: &'static str,
    removal: Disturbance,
    plugin: &'static str,
    says: &'static [&'static str],
}

const fn row(what: &'static str, removal: Disturbance, plugin: &'static str, says: &'static [&'static str]) -> Row {
    Row { what, removal, plugin, says }
}

/// Both families have one of these. The lease is host-local's, which bridge asks; Go is content
/// with the lease of any one family.
const OF_A_FAMILY: [Row; 5] = [
    row("address", Inside("ip address del {ip}/{prefix} dev eth0"), "bridge", &["{ip}", "eth0"]),
    row("default route", Inside("ip {flag} route del default"), "bridge", &["{default}"]),
    row("connected route", Inside("ip {flag} route del {subnet} dev eth0"), "bridge", &["{subnet}", "eth0"]),
    row("gateway", Host("ip address del {gateway}/{prefix} dev nomad"), "bridge", &["{gateway}", "nomad"]),
    row("lease", Host("rm /run/cni/nomad/{ip}"), "bridge", &["{alloc}"]),
];

/// The text about loopback is the reference's.
const OF_THE_CONTAINER: [Row; 8] = [
    row("bridge membership", Host("ip link set {port} nomaster"), "bridge", &["bridge nomad"]),
    row("host end down", Host("ip link set {port} down"), "bridge", &["{port}", "down"]),
    row("host end gone", Host("ip link del {port}"), "bridge", &["eth0"]),
    row("container end down", Inside("ip link set eth0 down"), "bridge", &["eth0", "down"]),
    row("container end gone", Inside("ip link del eth0"), "bridge", &["eth0"]),
    row("loopback down", Inside("ip link set lo down"), "loopback", &["loopback interface is down"]),
    row("bridge down", Host("ip link set nomad down"), "bridge", &["nomad", "down"]),
    row("bridge gone", Host("ip link del nomad"), "bridge", &["nomad"]),
];

/// Go passes without the gateway's address and with links that are down.
#[test]
fn check_names_what_is_missing_of_links_addresses_routes_and_leases() {
    let of_families = [V4, V6].into_iter().flat_map(|family| OF_A_FAMILY.map(|row| (family, row)));
    let cases = of_families.chain(OF_THE_CONTAINER.map(|row| (V4, row)));
    for_each(cases.map(|case| (format!("{} {}", case.0.name, case.1.what), case)), |(family, row)| {
        let machine = CheckHost::dual_stack(Flavour::Nft);
        machine.act(row.removal, &family);
        let says: Vec<String> = row.says.iter().map(|words| machine.fill(words, &family)).collect();
        machine.fails(row.plugin, &says);
    });
}
