//! What the plugins want of the packet filter, for a container of either family.

use std::net::SocketAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{ChainName, Comment};
use cni_netfilter::Proto;
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, JumpRemoval, Mark, Match, OwnedChain,
    OwnedChainRef, PortSet, RulePlacement, SharedRule, Target, UidRange,
};

pub fn chain(name: &str) -> ChainName {
    ChainName::parse(name).expect(name)
}

/// The address of container number `n`, in the network of all.
pub fn address(family: Family, n: u16) -> Cidr {
    let text = match family {
        Family::V4 => format!("10.88.{}.{}/16", n / 200, n % 200 + 2),
        Family::V6 => format!("fd00:88::{:x}/64", n + 2),
    };
    text.parse().expect("an address")
}

fn mark() -> Mark {
    Mark::bit(13).expect("a mark")
}

fn commented(text: &str) -> Match {
    Match::Comment(Comment::new(text))
}

fn whose(n: u16) -> Match {
    commented(&format!("dnat name: \"nomad\" id: \"it's #{n} \\o/\""))
}

/// The rules of portmap: a skeleton, a chain of the container, and an entry rule.
pub fn portmap(family: Family, n: u16) -> IptablesRuleset {
    let setmark = chain("CNI-HOSTPORT-SETMARK");
    let masq = chain("CNI-HOSTPORT-MASQ");
    let dnat = chain("CNI-HOSTPORT-DNAT");
    let jump =
        |from: &str, to: &ChainName, what: Match| IptablesRule::new(chain(from), vec![what], Target::Jump(to.clone()));
    let shared = |place, rule| SharedRule { rule, place };
    let set =
        IptablesRule::new(setmark.clone(), vec![commented("CNI portfwd masquerade mark")], Target::SetMark(mark()));
    IptablesRuleset {
        family,
        table: IptablesTable::Nat,
        shared_chains: vec![setmark, masq.clone(), dnat.clone()],
        shared: vec![
            shared(RulePlacement::Last, set),
            shared(RulePlacement::Last, IptablesRule::new(masq.clone(), vec![Match::Mark(mark())], Target::Masquerade)),
            shared(RulePlacement::First, jump("POSTROUTING", &masq, commented("CNI portfwd requiring masquerade"))),
            shared(RulePlacement::Last, jump("PREROUTING", &dnat, Match::LocalDestination)),
            shared(RulePlacement::Last, jump("OUTPUT", &dnat, Match::LocalDestination)),
        ],
        chains: vec![OwnedChain { name: dnat_chain(n), rules: mapping(family, n), existing: ExistingChain::Replace }],
        rules: entries(n),
        position: RulePosition::Back,
    }
}

pub fn dnat_chain(n: u16) -> ChainName {
    chain(&format!("CNI-DN-{n:021x}"))
}

fn mapping(family: Family, n: u16) -> Vec<IptablesRule> {
    let to = address(family, n);
    let port = Match::Port(Proto::Tcp, 20_000 + n);
    let own = dnat_chain(n);
    vec![
        IptablesRule::new(
            own.clone(),
            vec![Match::Source(to), port.clone()],
            Target::Jump(chain("CNI-HOSTPORT-SETMARK")),
        ),
        IptablesRule::new(own, vec![port], Target::Dnat(SocketAddr::new(to.address(), 80))),
    ]
}

pub fn entries(n: u16) -> Vec<IptablesRule> {
    let ports = PortSet::new(vec![20_000 + n]).expect("a port");
    let matches = vec![whose(n), Match::Ports(Proto::Tcp, ports)];
    vec![IptablesRule::new(chain("CNI-HOSTPORT-DNAT"), matches, Target::Jump(dnat_chain(n)))]
}

pub fn unmap(family: Family, n: u16) -> IptablesRemoval {
    let parents = vec![chain("CNI-HOSTPORT-DNAT")];
    let chains = vec![OwnedChainRef { name: dnat_chain(n), parents, jumps: JumpRemoval::All }];
    IptablesRemoval { family, table: IptablesTable::Nat, chains, rules: entries(n) }
}

/// The rules of bridge with `ipMasq`: no skeleton, a chain that all addresses of a container share.
pub fn masquerade(family: Family, n: u16) -> IptablesRuleset {
    let own = chain("CNI-a19237f207ed3fa9670f34ba");
    let to = address(family, n);
    let comment = || commented("name: \"net1\" id: \"id1\"");
    let rules = vec![
        IptablesRule::new(own.clone(), vec![Match::Destination(Cidr::host(to.address())), comment()], Target::Accept),
        IptablesRule::new(own.clone(), vec![Match::NotDestination(family.multicast()), comment()], Target::Masquerade),
    ];
    let matches = vec![Match::Source(Cidr::host(to.address())), comment()];
    IptablesRuleset {
        family,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        rules: vec![IptablesRule::new(chain("POSTROUTING"), matches, Target::Jump(own.clone()))],
        chains: vec![OwnedChain { name: own, rules, existing: ExistingChain::Merge }],
        position: RulePosition::Back,
    }
}

/// The rules of consul-cni, in short: chains that lead to each other.
pub fn redirecting(family: Family) -> IptablesRuleset {
    let (inbound, redirect) = (chain("CONSUL_PROXY_INBOUND"), chain("CONSUL_PROXY_IN_REDIRECT"));
    let tcp = || Match::Protocol(Proto::Tcp);
    let owned = |name: &ChainName, rules: Vec<(Match, Target)>| OwnedChain {
        name: name.clone(),
        rules: rules.into_iter().map(|(part, to)| IptablesRule::new(name.clone(), vec![part], to)).collect(),
        existing: ExistingChain::Replace,
    };
    IptablesRuleset {
        family,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains: vec![
            owned(
                &inbound,
                vec![
                    (Match::User(UidRange::new(101, 101).expect("a user")), Target::Return),
                    (tcp(), Target::Jump(redirect.clone())),
                ],
            ),
            owned(&redirect, vec![(tcp(), Target::Redirect(15001))]),
        ],
        rules: vec![IptablesRule::new(chain("OUTPUT"), vec![tcp()], Target::Jump(inbound))],
        position: RulePosition::Back,
    }
}

/// The rules of firewall: a skeleton, and rules without a chain of their own.
pub fn accept(family: Family, n: u16) -> IptablesRuleset {
    let (forward, admin) = (chain("CNI-FORWARD"), chain("NOMAD-ADMIN"));
    let host = Cidr::host(address(family, n).address());
    let first = |from: ChainName, text, to: &ChainName| SharedRule {
        rule: IptablesRule::new(from, vec![commented(text)], Target::Jump(to.clone())),
        place: RulePlacement::First,
    };
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains: vec![forward.clone(), admin.clone()],
        shared: vec![
            first(chain("FORWARD"), "CNI firewall plugin rules", &forward),
            first(forward.clone(), "CNI firewall plugin admin overrides", &admin),
        ],
        chains: Vec::new(),
        rules: vec![
            IptablesRule::new(
                forward.clone(),
                vec![Match::Destination(host), Match::RelatedEstablished],
                Target::Accept,
            ),
            IptablesRule::new(forward, vec![Match::Source(host)], Target::Accept),
        ],
        position: RulePosition::Back,
    }
}

/// What takes the own rules of [`accept`] away.
pub fn refuse(family: Family, n: u16) -> IptablesRemoval {
    IptablesRemoval { family, table: IptablesTable::Filter, chains: Vec::new(), rules: accept(family, n).rules }
}
