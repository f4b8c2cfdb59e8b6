//! Kernel parameters that decide whether containers reach anybody.

use std::fs;
use std::path::Path;

use crate::inventory::Inventory;

use super::finding::Finding;

const TOPIC: &str = "parameters";

/// What is known, where the kernel has the parameter.
#[derive(Clone, Copy, Debug, Default)]
struct ParameterFacts {
    forwarding: Option<u64>,
    /// Whether what a bridge forwards passes iptables.
    bridged: Option<u64>,
    no_ipv6: Option<u64>,
    tracked: Option<u64>,
    most_tracked: Option<u64>,
    most_neighbours: Option<u64>,
    /// The attachments of the caches.
    containers: u64,
    /// Whether there may be more.
    is_incomplete: bool,
}

/// Reads the parameters of the namespace that it runs in.
pub fn look(found: &Inventory) -> Vec<Finding> {
    judge(ParameterFacts {
        forwarding: number("net/ipv4/ip_forward"),
        bridged: number("net/bridge/bridge-nf-call-iptables"),
        no_ipv6: number("net/ipv6/conf/all/disable_ipv6"),
        tracked: number("net/netfilter/nf_conntrack_count"),
        most_tracked: number("net/netfilter/nf_conntrack_max"),
        most_neighbours: number("net/ipv4/neigh/default/gc_thresh3"),
        containers: found.attached.len() as u64,
        is_incomplete: !found.unknown.is_empty(),
    })
}

fn number(parameter: &str) -> Option<u64> {
    fs::read_to_string(Path::new("/proc/sys").join(parameter)).ok()?.trim().parse().ok()
}

fn judge(facts: ParameterFacts) -> Vec<Finding> {
    let found = [forwarding(facts), bridged(facts), ipv6(facts), tracking(facts), neighbours(facts)];
    let said: Vec<Finding> = found.into_iter().flatten().collect();
    if said.is_empty() && !facts.is_incomplete {
        vec![Finding::fine(TOPIC, "forwarding, connection tracking and neighbours are as needed")]
    } else {
        said
    }
}

/// Plugins turn it on with the first container of a network with a gateway.
fn forwarding(facts: ParameterFacts) -> Option<Finding> {
    let is_lost = facts.forwarding == Some(0) && facts.containers > 0;
    is_lost.then(|| {
        Finding::problem(
            TOPIC,
            "net.ipv4.ip_forward is 0: containers reach nobody outside of the host",
            "sysctl -w net.ipv4.ip_forward=1, and look in /etc/sysctl.d for who turns it off",
        )
    })
}

fn bridged(facts: ParameterFacts) -> Option<Finding> {
    (facts.bridged == Some(0)).then(|| {
        Finding::note(
            TOPIC,
            "net.bridge.bridge-nf-call-iptables is 0: packets between containers of one bridge do not pass iptables",
            "sysctl -w net.bridge.bridge-nf-call-iptables=1, if firewall's ingressPolicy shall hold within a bridge",
        )
    })
}

fn ipv6(facts: ParameterFacts) -> Option<Finding> {
    (facts.no_ipv6 == Some(1)).then(|| {
        Finding::note(
            TOPIC,
            "net.ipv6.conf.all.disable_ipv6 is 1: networks with IPv6 addresses fail",
            "sysctl -w net.ipv6.conf.all.disable_ipv6=0, if a network has any",
        )
    })
}

fn tracking(facts: ParameterFacts) -> Option<Finding> {
    let (tracked, most) = (facts.tracked?, facts.most_tracked?);
    (most > 0 && tracked.saturating_mul(10) >= most.saturating_mul(9)).then(|| {
        Finding::problem(
            TOPIC,
            format!("{tracked} of {most} connections are tracked: new ones are about to be dropped"),
            format!("sysctl -w net.netfilter.nf_conntrack_max={}", most.saturating_mul(2)),
        )
    })
}

/// The host needs a neighbour for each container.
fn neighbours(facts: ParameterFacts) -> Option<Finding> {
    let most = facts.most_neighbours?;
    (facts.containers.saturating_mul(10) >= most.saturating_mul(9)).then(|| {
        Finding::problem(
            TOPIC,
            format!("{} containers, and at most {most} neighbours: the kernel forgets some", facts.containers),
            format!("sysctl -w net.ipv4.neigh.default.gc_thresh3={}", facts.containers.saturating_mul(4)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    const GOOD: ParameterFacts = ParameterFacts {
        forwarding: Some(1),
        bridged: Some(1),
        no_ipv6: Some(0),
        tracked: Some(10),
        most_tracked: Some(1000),
        most_neighbours: Some(1024),
        containers: 10,
        is_incomplete: false,
    };

    #[test]
    fn each_parameter_is_judged_by_itself() {
        assert_eq!(judge(GOOD), [Finding::fine(TOPIC, "forwarding, connection tracking and neighbours are as needed")]);
        for (facts, severity, cure) in [
            (ParameterFacts { forwarding: Some(0), ..GOOD }, Severity::Problem, "sysctl -w net.ipv4.ip_forward=1"),
            (
                ParameterFacts { bridged: Some(0), ..GOOD },
                Severity::Note,
                "sysctl -w net.bridge.bridge-nf-call-iptables=1",
            ),
            (ParameterFacts { no_ipv6: Some(1), ..GOOD }, Severity::Note, "sysctl -w net.ipv6.conf.all.disable_ipv6=0"),
            (
                ParameterFacts { tracked: Some(900), ..GOOD },
                Severity::Problem,
                "sysctl -w net.netfilter.nf_conntrack_max=2000",
            ),
            (
                ParameterFacts { containers: 1000, ..GOOD },
                Severity::Problem,
                "sysctl -w net.ipv4.neigh.default.gc_thresh3=4000",
            ),
        ] {
            let said = judge(facts);
            let [one] = &said[..] else { panic!("{said:?}") };
            assert_eq!(one.severity, severity, "{one}");
            assert!(one.cure.as_ref().is_some_and(|text| text.starts_with(cure)), "{one}");
        }
    }

    #[test]
    fn without_containers_nothing_needs_to_be_forwarded() {
        assert_eq!(judge(ParameterFacts { forwarding: Some(0), containers: 0, ..GOOD })[0].severity, Severity::Fine);
        assert_eq!(judge(ParameterFacts::default())[0].severity, Severity::Fine, "a kernel that says nothing");
        assert_eq!(judge(ParameterFacts { is_incomplete: true, ..GOOD }), [], "there may be more");
    }
}
