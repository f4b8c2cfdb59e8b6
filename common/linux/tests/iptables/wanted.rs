//! What the plugins want of the packet filter, for a container of either family.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, JumpRemoval, OwnedChain,
    OwnedChainRef, RulePlacement, SharedRule,
};

pub fn chain(name: &str) -> ChainName {
    ChainName::parse(name).expect(name)
}

pub fn rule(line: &str) -> IptablesRule {
    IptablesRule::parse(line).expect(line)
}

/// The address of container number `n`, in the network of all.
pub fn address(family: Family, n: u16) -> Cidr {
    let text = match family {
        Family::V4 => format!("10.88.{}.{}/16", n / 200, n % 200 + 2),
        Family::V6 => format!("fd00:88::{:x}/64", n + 2),
    };
    text.parse().expect("an address")
}

fn host(family: Family, n: u16) -> Cidr {
    Cidr::host(address(family, n).address())
}

fn shared(rules: &[(RulePlacement, &str)]) -> Vec<SharedRule> {
    rules.iter().map(|(place, line)| SharedRule { rule: rule(line), place: place.clone() }).collect()
}

/// The rules of portmap: shared chains, a chain of the container, and an entry rule.
pub fn portmap(family: Family, n: u16) -> IptablesRuleset {
    let (own, to) = (dnat_chain(n), std::net::SocketAddr::new(address(family, n).address(), 80));
    let port = format!("-p tcp -m tcp --dport {}", 20_000 + n);
    let own_rules = [
        format!("-A {own} -s {} {port} -j CNI-HOSTPORT-SETMARK", address(family, n).network()),
        format!("-A {own} {port} -j DNAT --to-destination {to}"),
    ];
    IptablesRuleset {
        family,
        table: IptablesTable::Nat,
        shared_chains: ["CNI-HOSTPORT-SETMARK", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-DNAT"].map(chain).to_vec(),
        shared: shared(&[
            (
                RulePlacement::Last,
                "-A CNI-HOSTPORT-SETMARK -m comment --comment mark -j MARK --set-xmark 0x2000/0x2000",
            ),
            (RulePlacement::Last, "-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE"),
            (RulePlacement::First, "-A POSTROUTING -m comment --comment \"CNI portfwd\" -j CNI-HOSTPORT-MASQ"),
            (RulePlacement::Last, "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT"),
            (RulePlacement::Last, "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT"),
        ]),
        chains: vec![OwnedChain {
            name: own,
            rules: own_rules.iter().map(|line| rule(line)).collect(),
            existing: ExistingChain::Replace,
        }],
        rules: vec![entry(n)],
        position: RulePosition::Back,
    }
}

pub fn dnat_chain(n: u16) -> ChainName {
    chain(&format!("CNI-DN-{n:021x}"))
}

fn entry(n: u16) -> IptablesRule {
    let comment = format!(r#"-m comment --comment "dnat name: \"nomad\" id: \"it\'s #{n} \\\\o/\"""#);
    let port = 20_000 + n;
    rule(&format!("-A CNI-HOSTPORT-DNAT -p tcp {comment} -m multiport --dports {port} -j {}", dnat_chain(n)))
}

pub fn unmap(family: Family, n: u16) -> IptablesRemoval {
    let parents = vec![chain("CNI-HOSTPORT-DNAT")];
    let chains = vec![OwnedChainRef { name: dnat_chain(n), parents, jumps: JumpRemoval::All }];
    IptablesRemoval { family, table: IptablesTable::Nat, chains, rules: vec![entry(n)] }
}

/// The rules of firewall: shared chains, and rules without a chain of their own.
pub fn accept(family: Family, n: u16) -> IptablesRuleset {
    let here = host(family, n);
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains: ["CNI-FORWARD", "NOMAD-ADMIN"].map(chain).to_vec(),
        shared: shared(&[
            (RulePlacement::First, "-A FORWARD -m comment --comment \"CNI firewall\" -j CNI-FORWARD"),
            (RulePlacement::First, "-A CNI-FORWARD -m comment --comment \"CNI admin\" -j NOMAD-ADMIN"),
        ]),
        chains: Vec::new(),
        rules: vec![
            rule(&format!("-A CNI-FORWARD -d {here} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")),
            rule(&format!("-A CNI-FORWARD -s {here} -j ACCEPT")),
        ],
        position: RulePosition::Back,
    }
}

/// What takes the own rules of [`accept`] away.
pub fn refuse(family: Family, n: u16) -> IptablesRemoval {
    IptablesRemoval { family, table: IptablesTable::Filter, chains: Vec::new(), rules: accept(family, n).rules }
}
