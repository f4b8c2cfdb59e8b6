//! `backend: "nftables"`: a table of its own, which the reference does not have.
//!
//! Table `inet cni_firewall` holds the addresses of all containers in two sets, so a packet costs one look-up however
//! many containers there are. The administrator's chain is in the same table, comes first, and can use the sets in its
//! rules. An ingress policy adds rules for its bridge to two chains that come before it, as the reference does with
//! iptables.
//!
//! Another table may still drop what this table accepts: in nf_tables the verdict accept ends one base chain, not the
//! hook.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_model::plan::Ns;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Direction, Equality, Expression, Hook, NftChain, NftComment, NftName,
    NftRemoval, NftRule, NftRuleset, NftTable, PacketEnd, Set, SetElements, SetId, TableFamily, TableId, Verdict,
    WantedChain,
};
use cni_netfilter::unless_absent;
use cni_plugin::host::Host;

use crate::policy::{IngressPolicy, PolicyBridge};

/// The chain that all forwarded packets pass.
const FORWARD: &str = "forward";

/// The chain that asks the administrators' chains.
const ADMINS: &str = "admin";

/// The chain that asks which bridge a packet comes from.
const STAGE_1: &str = "isolation-stage-1";

/// The chain that matches the bridge to which a packet goes.
const STAGE_2: &str = "isolation-stage-2";

/// The chains that are not an administrator's.
pub const CHAINS: [&str; 4] = [FORWARD, ADMINS, STAGE_1, STAGE_2];

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_firewall")
}

fn containers(family: Family) -> SetId {
    let name = match family {
        Family::V4 => "containers_v4",
        Family::V6 => "containers_v6",
    };
    SetId { table: table(), name: NftName::fixed(name) }
}

/// Whether the table contains an address.
pub fn observe_held(address: IpAddr, host: &mut dyn Host) -> Result<bool, Error> {
    for wanted in elements(&[address]) {
        let held = unless_absent(host.netfilter(Ns::Host)?.nftables().held(&wanted))?.flatten();
        if held.is_some_and(|held| !held.is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The rules for some addresses.
pub fn ensure(admin: NftName, barrier: Option<&PolicyBridge>, addresses: &[IpAddr]) -> NftRuleset {
    let admins = vec![rule(ADMINS, vec![Expression::Verdict(Verdict::Jump(admin.clone()))])];
    let regular = |name| NftChain::regular(table().chain(name));
    let [stage_1, stage_2] = barrier.map(stages).unwrap_or_default();
    let chains = vec![
        WantedChain { chain: NftChain::regular(table().chain_named(admin)), content: ChainContent::Open },
        WantedChain { chain: regular(ADMINS), content: ChainContent::AtLeast(admins) },
        WantedChain { chain: regular(STAGE_1), content: ChainContent::AtLeast(stage_1) },
        WantedChain { chain: regular(STAGE_2), content: ChainContent::AtLeast(stage_2) },
        WantedChain {
            chain: NftChain::base(table().chain(FORWARD), BaseChainType::Filter, Hook::Forward, 0),
            content: ChainContent::Fixed(forward()),
        },
    ];
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut("CNI firewall plugin")) }],
        sets: Family::ALL.map(set).to_vec(),
        chains,
        elements: elements(addresses),
        ..NftRuleset::default()
    }
}

/// Takes some addresses out.
pub fn remove(addresses: &[IpAddr]) -> NftRemoval {
    NftRemoval { elements: elements(addresses), ..NftRemoval::default() }
}

/// The addresses of each family in use, as elements of its set.
fn elements(addresses: &[IpAddr]) -> Vec<SetElements> {
    let of = |family| {
        let addresses = addresses.iter().filter(|address| Family::of(**address) == family);
        SetElements { set: containers(family), addresses: addresses.copied().collect() }
    };
    Family::ALL.into_iter().map(of).filter(|elements| !elements.addresses.is_empty()).collect()
}

fn set(family: Family) -> Set {
    Set { id: containers(family), family }
}

/// The answers to containers, and what they send, of both families.
fn forward() -> Vec<NftRule> {
    let jump = |to| rule(FORWARD, vec![Expression::Verdict(Verdict::Jump(NftName::fixed(to)))]);
    let known = |end, family| Expression::InSet(end, family, containers(family).name);
    let accept = || Expression::Verdict(Verdict::Accept);
    let answers =
        |family| rule(FORWARD, vec![known(PacketEnd::Destination, family), Expression::EstablishedRelated, accept()]);
    let sent = |family| rule(FORWARD, vec![known(PacketEnd::Source, family), accept()]);
    [STAGE_1, ADMINS]
        .into_iter()
        .map(jump)
        .chain(Family::ALL.into_iter().map(answers))
        .chain(Family::ALL.into_iter().map(sent))
        .collect()
}

/// The rules of the two stages. A packet from this bridge to elsewhere goes to the second stage, which drops it if the
/// other bridge has a policy too.
fn stages(PolicyBridge { policy, bridge }: &PolicyBridge) -> [Vec<NftRule>; 2] {
    let by = |direction, is| Expression::Interface(direction, is, IfName::clone(bridge));
    let from = || by(Direction::In, Equality::Equal);
    let drop = || Expression::Verdict(Verdict::Drop);
    let onwards = Expression::Verdict(Verdict::Jump(NftName::fixed(STAGE_2)));
    let mut first = vec![rule(STAGE_1, vec![from(), by(Direction::Out, Equality::Other), onwards])];
    match policy {
        IngressPolicy::Isolated => first.push(rule(STAGE_1, vec![from(), by(Direction::Out, Equality::Equal), drop()])),
        IngressPolicy::SameBridge | IngressPolicy::Open => {}
    }
    [first, vec![rule(STAGE_2, vec![by(Direction::Out, Equality::Equal), drop()])]]
}

fn rule(chain: &'static str, expressions: Vec<Expression>) -> NftRule {
    NftRule::new(ChainId { table: table(), name: NftName::fixed(chain) }, expressions)
}
