//! A thousand ports by TCP and UDP in one ADD: two thousand mappings, on every back end of portmap.

use std::ops::Range;

use cni_conformance::state::assert_same;
use cni_conformance::table::work_out;
use cni_conformance::traffic::Echo;
use cni_conformance::{Chain, PortMapping, Verb};

use crate::backends::backend_host::{BackendHost, ServingContainer};
use crate::backends::network::{Backend, FamilyTexts, Stack};

const PORTS: Range<u16> = 20_000..21_000;
const FIRST: u16 = PORTS.start;
const LAST: u16 = PORTS.end - 1;
const NEIGHBOUR: u16 = 8081;

/// As many ports as one rule of iptables takes.
const CHUNK: usize = 15;

#[test]
fn two_thousand_mappings_come_carry_traffic_and_go() {
    let backends = [Backend::IptablesNft, Backend::IptablesLegacy, Backend::Nftables];
    work_out(["back end"], backends.map(|backend| ([backend.name().to_owned()], backend)).into(), one_backend);
}

fn one_backend(backend: Backend) -> String {
    let machine = BackendHost::new(backend, Stack::Dual);
    let neighbour = machine.attach("neighbour", NEIGHBOUR);
    let before = machine.state();
    let mappings: Vec<PortMapping> = PORTS.flat_map(|port| PortMapping::twins(port, port)).collect();
    let mut attached = machine.attached("own", &mappings);
    let servers = [FIRST, LAST].map(|port| Echo::everywhere(&attached.container, port));
    let add = machine.runtime().add(&mut attached.attachment);
    add.expect_success();
    machine.families().iter().for_each(|family| assert_all_there(&machine, family));
    machine.runtime().check(&attached.attachment).expect_success();
    a_second_add_changes_nothing(&machine, &attached);
    [FIRST, LAST].iter().for_each(|port| machine.is_open(*port));
    [FIRST - 1, LAST + 1].iter().for_each(|port| machine.is_shut(*port));
    let del = machine.runtime().del(&attached.attachment);
    del.expect_success();
    machine.assert_as_before(&before);
    [FIRST, LAST].iter().for_each(|port| machine.is_shut(*port));
    machine.serves(&neighbour);
    drop(servers);
    let took = |chain: &Chain| chain.step("portmap").elapsed().as_millis();
    format!("{} mappings; portmap's ADD took {} ms, its DEL {} ms; {machine}", mappings.len(), took(&add), took(&del))
}

fn a_second_add_changes_nothing(machine: &BackendHost, attached: &ServingContainer) {
    // Which handles of rules are remembered depends on what was listed last.
    let state = || machine.state().without("handles");
    let before = state();
    let result = attached.attachment.result.as_ref();
    machine.runtime().invocation(Verb::Add, "portmap", &attached.attachment, result).run().expect_success();
    assert_same(&before, &state());
}

fn assert_all_there(machine: &BackendHost, family: &FamilyTexts) {
    match machine.backend.of_others() {
        "iptables" => assert_chunks(machine, family),
        _ => {
            let listed = machine.sandbox().sh(&format!("nft list table {} cni_hostport", family.nft));
            for port in PORTS {
                let wanted = format!(" dport {port} dnat to ");
                assert_eq!(listed.matches(&wanted).count(), 2, "rules with {wanted:?}");
            }
        }
    }
}

/// Each rule takes fifteen ports, in the order in which they came, and each mapping has its own rule behind.
fn assert_chunks(machine: &BackendHost, FamilyTexts { program, .. }: &FamilyTexts) {
    let rules = machine.sandbox().sh(&format!("{program} -t nat -S"));
    for protocol in ["tcp", "udp"] {
        let entry = format!("-A CNI-HOSTPORT-DNAT -p {protocol} ");
        let of_own = |line: &&str| line.starts_with(&entry) && line.contains(r#"id: \"own\""#);
        let chunks = rules.lines().filter(of_own).map(|line| {
            let (_, rest) = line.split_once("--dports ").expect("a rule with ports");
            rest.split([' ', ',']).map_while(|port| port.parse().ok()).collect::<Vec<u16>>()
        });
        let wanted: Vec<u16> = PORTS.collect();
        let wanted: Vec<&[u16]> = wanted.chunks(CHUNK).collect();
        assert_eq!(chunks.collect::<Vec<_>>(), wanted, "{program} {protocol}");
        for port in PORTS {
            let translated = format!("-p {protocol} -m {protocol} --dport {port} -j DNAT ");
            assert_eq!(rules.matches(&translated).count(), 1, "rules with {translated:?}");
        }
    }
}
