//! The tracked UDP connections of mappings: from the configuration, or from the rules of the container's chain.

use std::net::SocketAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_model::plan::{Plan, Step};
use cni_netfilter::flows::{PortChange, StaleFlows, UdpPort};
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{Equality, PacketEnd};
use cni_netfilter::{Proto, RuleRemoval};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, ListenAddress};

/// The connections that a change of all UDP mappings to an address makes stale; `None` without such a mapping.
pub fn of_mappings(change: PortChange, config: &Config, target: Cidr) -> Option<StaleFlows> {
    let taken = config.mappings.iter().filter(|mapping| mapping.applies_to(target.family()));
    let ports = taken.filter(|mapping| mapping.proto == Proto::Udp).map(|mapping| UdpPort {
        host_ip: if let ListenAddress::Address(address) = mapping.listen { Some(address) } else { None },
        port: mapping.host_port,
        target: SocketAddr::new(target.address(), mapping.container_port),
    });
    StaleFlows::new(change, target.address(), ports.collect())
}

/// The connections that are stale without the rules of a container's chain, for each address to which these lead.
pub fn of_rules(rules: &[IptablesRule]) -> Vec<StaleFlows> {
    of_ports(rules.iter().filter_map(udp_port).collect())
}

/// The connections that are stale without some ports, for each address to which these lead.
pub fn of_ports(ports: Vec<UdpPort>) -> Vec<StaleFlows> {
    let mut containers: Vec<_> = ports.iter().map(|port| port.target.ip()).collect();
    containers.sort_unstable();
    containers.dedup();
    let of = |container| ports.iter().copied().filter(|port| port.target.ip() == container).collect();
    containers.into_iter().filter_map(|ip| StaleFlows::new(PortChange::Unmapped, ip, of(ip))).collect()
}

fn udp_port(rule: &IptablesRule) -> Option<UdpPort> {
    let Target::Dnat(target) = rule.target else { return None };
    let port = rule
        .matches
        .iter()
        .find_map(|part| if let Match::Port(Proto::Udp, port) = part { Some(*port) } else { None })?;
    let host_ip = rule.matches.iter().find_map(|part| {
        if let Match::Address(PacketEnd::Destination, Equality::Equal, cidr) = part {
            Some(cidr.address())
        } else {
            None
        }
    });
    Some(UdpPort { host_ip, port, target })
}

/// Removes rules, and then deletes the connections that they have led to the container. In the other order, the rules
/// would lead the next packet there again.
pub fn remove_with_flows(host: &mut dyn Host, rules: RuleRemoval, flows: Vec<StaleFlows>) -> Result<(), Error> {
    let mut plan = Plan::default();
    plan.owned(Step::remove_rules(rules));
    flows.into_iter().for_each(|stale| plan.shared(Step::ForgetFlows(stale)));
    let mut removal = Removal::new(host);
    removal.in_order(&plan);
    removal.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(chain: &str) -> Vec<String> {
        let rules: Vec<IptablesRule> =
            chain.trim().lines().map(|line| IptablesRule::parse(line).expect(line)).collect();
        of_rules(&rules).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_chain_tells_the_udp_ports_and_where_they_lead() {
        let chain = "
-A C -s 10.88.0.0/16 -p udp -m udp --dport 53 -j CNI-HOSTPORT-SETMARK
-A C -d 192.0.2.200/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.88.0.5:5353
-A C -p udp -m udp --dport 54 -j DNAT --to-destination 10.88.0.5:54
-A C -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.88.0.5:80
-A C -p udp -m udp --dport 54 -j DNAT --to-destination 10.88.0.4:54";
        let want = [
            "forget UDP flows to *:54 answered by 10.88.0.4",
            "forget UDP flows to 192.0.2.200:53 *:54 answered by 10.88.0.5",
        ];
        assert_eq!(texts(chain), want);
        let tcp = "-A C -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd00::5]:80";
        assert_eq!(texts(tcp), [""; 0]);
    }
}
