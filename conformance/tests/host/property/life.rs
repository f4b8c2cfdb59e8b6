//! The life of two containers in a network, looked at after each step.

use cni_conformance::drawn::Setup;
use cni_conformance::state::diff;
use cni_conformance::{Attachment, Chain, Container, Network, Runtime, Sandbox, Spelling, State};
use serde_json::Value;

/// Adds, checks and deletes a container, and beside it a second one that must not be noticed afterwards.
pub fn live(setup: &Setup) {
    let sandbox = Sandbox::with_flavour(setup.flavour);
    let runtime = Runtime::new(&sandbox, setup.list());
    let before = State::of_host(&sandbox);
    let mut first = attachment(setup, &sandbox.container("first"), &setup.id, 0);
    let own = added(&runtime, &mut first);
    checked(setup, &runtime, &first);

    let alone = State::of_host(&sandbox);
    let container = sandbox.container("second");
    let mut second = attachment(setup, &container, &format!("second-{}", setup.id), 10_000);
    added(&runtime, &mut second);
    checked(setup, &runtime, &second);
    checked(setup, &runtime, &first);
    deleted(&runtime, &second);
    same(&alone, &State::of_host(&sandbox));
    let inside = Network::observe(&container);
    assert!(inside.links.iter().all(|link| link.name == "lo"), "{:#?}", inside.links);
    checked(setup, &runtime, &first);

    deleted(&runtime, &first);
    let without_tables = |state: State| state.without("nftables");
    let after = State::of_host(&sandbox);
    names_nobody(&after, setup, &own);
    setup.skeleton().assert_nothing_else(&without_tables(before), || without_tables(State::of_host(&sandbox)));
    deleted(&runtime, &first);
    same(&after, &State::of_host(&sandbox));
}

/// The second container's host ports are others.
fn attachment(setup: &Setup, container: &Container, id: &str, further: u16) -> Attachment {
    let attachment = Attachment::new(id, container).ifname(setup.ifname);
    let Some((_, mappings)) = &setup.portmap else { return attachment };
    let mut mappings = mappings.clone();
    for mapping in &mut mappings {
        mapping.host_port += further;
    }
    attachment.ports(&mappings, Spelling::Spec)
}

/// Returns the addresses that were given, and the host's end of the veth pair.
#[track_caller]
fn added(runtime: &Runtime<'_>, attachment: &mut Attachment) -> Vec<String> {
    let result = runtime.add(attachment).result();
    let ips = result["ips"].as_array().into_iter().flatten().chain(result.get("ip4")).chain(result.get("ip6"));
    let address = |ip: &Value| ip["address"].as_str().or(ip["ip"].as_str()).map(str::to_owned);
    let addresses = ips.filter_map(address).map(|cidr| cidr.split('/').next().unwrap_or_default().to_owned());
    addresses.chain(result["interfaces"][1]["name"].as_str().map(str::to_owned)).collect()
}

/// Old versions have no CHECK.
#[track_caller]
fn checked(setup: &Setup, runtime: &Runtime<'_>, attachment: &Attachment) {
    if setup.version >= "0.4.0" {
        silent(&runtime.check(attachment));
    }
}

#[track_caller]
fn deleted(runtime: &Runtime<'_>, attachment: &Attachment) {
    silent(&runtime.del(attachment));
}

#[track_caller]
fn silent(chain: &Chain) {
    chain.expect_success();
    assert!(chain.steps().iter().all(|(_, outcome)| outcome.stdout().is_empty()), "{chain}");
}

/// Requires that nothing changed but where the next address is looked for, and the age of its index.
#[track_caller]
fn same(before: &State, after: &State) {
    let mut changes = diff(before, after);
    changes.retain(|change| {
        let cursor = change.contains("/last_reserved_ip.") || change.contains("/.cni-plugins-rs/stamp ");
        !(cursor && change[2..].starts_with("files: /run/cni/"))
    });
    assert!(changes.is_empty(), "more changed than where the next address is looked for:\n{}", changes.join("\n"));
}

/// Requires that no rule names the container, its addresses or its link any more.
#[track_caller]
fn names_nobody(state: &State, setup: &Setup, own: &[String]) {
    let words = own.iter().chain([&setup.id]).filter(|word| word.len() > 3);
    for word in words {
        let bounded = |line: &&String| {
            line.match_indices(word.as_str()).any(|(at, _)| {
                let open = |text: Option<char>| !text.is_some_and(|c| c.is_ascii_alphanumeric() || ".:-_".contains(c));
                open(line[..at].chars().next_back()) && open(line[at + word.len()..].chars().next())
            })
        };
        let found: Vec<&String> = state.section("nftables").iter().filter(bounded).collect();
        assert!(found.is_empty(), "{word} is still named: {found:#?}");
    }
}
