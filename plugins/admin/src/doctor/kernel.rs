//! The kernel: its release, the kinds of links that plugins make, what it needs to redirect packets, and its parameters.

use std::fs;
use std::path::Path;

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_model::traffic::RedirectPart;
use cni_plugin::host::Host as _;
use serde_json::json;

use super::finding::Finding;
use crate::calls::status_request;
use crate::inventory::Inventory;
use crate::output::error_line;

const TOPIC: &str = "kernel";
const PARAMETERS: &str = "parameters";

/// The oldest release that everything works with.
const OLDEST: (u32, u32) = (5, 4);

/// The first that identifies network namespaces (`SO_NETNS_COOKIE`, socket(7)).
const IDENTIFYING: (u32, u32) = (5, 14);

/// Each kind of link, by the kernel's word, with the plugins that need one, and whether hardly any network does without.
const KINDS: [(&str, &str, bool); 8] = [
    ("veth", "bridge and ptp", true),
    ("bridge", "bridge", true),
    ("macvlan", "macvlan", false),
    ("ipvlan", "ipvlan", false),
    ("vlan", "vlan", false),
    ("dummy", "dummy", false),
    ("vrf", "vrf", false),
    ("ifb", "bandwidth", false),
];

/// Looks at the running kernel.
pub fn look() -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut findings = vec![judge_release(release.trim())];
    match features() {
        Ok(features) => findings.extend(features),
        Err(error) => findings.push(Finding::problem(TOPIC, error_line(&error), "run it as root, on the host itself")),
    }
    findings
}

/// What is missing, as far as plugins need it.
fn features() -> Result<Vec<Finding>, Error> {
    let request = status_request(json!({"type": "loopback"}), &cni_loopback::Loopback)?;
    let mut host = LinuxHost::new(&request);
    let mut findings = Vec::new();
    for (kind, ..) in KINDS {
        findings.extend(judge_kind(kind, host.devices().has_link_kind(kind)?));
    }
    findings.extend(judge_tap(Path::new("/dev/net/tun").exists()));
    findings.extend(host.devices().missing_redirect_part()?.map(judge_part));
    Ok(findings)
}

fn judge_tap(is_here: bool) -> Option<Finding> {
    let says = "there is no /dev/net/tun, which is needed by tap and tc-redirect-tap";
    (!is_here).then(|| Finding::note(TOPIC, says, "modprobe tun, if a network of yours needs it"))
}

fn judge_part(part: RedirectPart) -> Finding {
    let says =
        format!("it cannot redirect packets, which is needed by tc-redirect-tap and by bandwidth: {part} is missing");
    Finding::note(TOPIC, says, format!("modprobe {part}, if a network of yours needs it"))
}

fn judge_release(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= IDENTIFYING => Finding::fine(TOPIC, format!("Linux {release}")),
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Finding::note(
            TOPIC,
            format!(
                "Linux {release} cannot identify network namespaces: a container that ends without DEL counts as alive"
            ),
            "use Linux 5.14 or later, if your runtime loses containers",
        ),
        (Some(_), Some(_)) => Finding::problem(
            TOPIC,
            format!("Linux {release} is older than 5.4"),
            "use a newer kernel: the plugins need 5.4 or later",
        ),
        _ => Finding::note(TOPIC, format!("its release {release:?} has no number"), "Linux 5.4 or later is needed"),
    }
}

/// Says only what is missing.
fn judge_kind(kind: &str, is_here: bool) -> Option<Finding> {
    let (_, plugins, is_vital) = KINDS.iter().find(|(known, ..)| *known == kind)?;
    let says = format!("it has no links of kind {kind}, which are needed by {plugins}");
    match (is_here, is_vital) {
        (true, _) => None,
        (false, true) => Some(Finding::problem(TOPIC, says, format!("modprobe {kind}, or a kernel that has it"))),
        (false, false) => Some(Finding::note(TOPIC, says, format!("modprobe {kind}, if a network of yours needs it"))),
    }
}

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

/// Reads the parameters of the namespace that it runs in, which decide whether containers reach anybody.
pub fn parameters(found: &Inventory) -> Vec<Finding> {
    judge_parameters(&ParameterFacts {
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

fn judge_parameters(facts: &ParameterFacts) -> Vec<Finding> {
    let ParameterFacts { forwarding, bridged, no_ipv6, containers, is_incomplete, .. } = *facts;
    let (tracked, most_tracked) = (facts.tracked.unwrap_or_default(), facts.most_tracked.unwrap_or_default());
    let most_neighbours = facts.most_neighbours.unwrap_or(u64::MAX);
    let is_nearly = |number: u64, most: u64| number.saturating_mul(10) >= most.saturating_mul(9);
    let problem = |says: &str, cure: &str| Finding::problem(PARAMETERS, says, cure);
    let note = |says: &str, cure: &str| Finding::note(PARAMETERS, says, cure);
    let checks = [
        // Plugins turn it on with the first container of a network with a gateway.
        (forwarding == Some(0) && containers > 0).then(|| {
            problem(
                "net.ipv4.ip_forward is 0: containers reach nobody outside of the host",
                "sysctl -w net.ipv4.ip_forward=1, and look in /etc/sysctl.d for who turns it off",
            )
        }),
        (bridged == Some(0)).then(|| {
            note(
                "net.bridge.bridge-nf-call-iptables is 0: packets between containers of one bridge do not pass iptables",
                "sysctl -w net.bridge.bridge-nf-call-iptables=1, if firewall's ingressPolicy shall hold within a bridge",
            )
        }),
        (no_ipv6 == Some(1)).then(|| {
            note(
                "net.ipv6.conf.all.disable_ipv6 is 1: networks with IPv6 addresses fail",
                "sysctl -w net.ipv6.conf.all.disable_ipv6=0, if a network has any",
            )
        }),
        (most_tracked > 0 && is_nearly(tracked, most_tracked)).then(|| {
            problem(
                &format!("{tracked} of {most_tracked} connections are tracked: new ones are about to be dropped"),
                &format!("sysctl -w net.netfilter.nf_conntrack_max={}", most_tracked.saturating_mul(2)),
            )
        }),
        // The host needs a neighbour for each container.
        is_nearly(containers, most_neighbours).then(|| {
            problem(
                &format!("{containers} containers, and at most {most_neighbours} neighbours: the kernel forgets some"),
                &format!("sysctl -w net.ipv4.neigh.default.gc_thresh3={}", containers.saturating_mul(4)),
            )
        }),
    ];
    let found: Vec<Finding> = checks.into_iter().flatten().collect();
    if !found.is_empty() || is_incomplete {
        return found;
    }
    vec![Finding::fine(PARAMETERS, "forwarding, connection tracking and neighbours are as needed")]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn a_release_is_compared_by_its_first_two_numbers() {
        for (release, severity) in [
            ("6.18.5-fc", Severity::Fine),
            ("5.14", Severity::Fine),
            ("5.10.0-8-amd64", Severity::Note),
            ("5.4", Severity::Note),
            ("5.3.18", Severity::Problem),
            ("4.19.0", Severity::Problem),
            ("next", Severity::Note),
        ] {
            assert_eq!(judge_release(release).severity, severity, "{release}");
        }
    }

    #[test]
    fn what_virtual_machines_need_is_named_with_its_module() {
        assert_eq!(judge_tap(true).map(|one| one.says), None);
        let found = [judge_tap(false), Some(judge_part(RedirectPart::Mirred))].map(|one| one.expect("a finding"));
        let cures = found.each_ref().map(|one| one.cure.clone());
        let want =
            ["tun", "act_mirred"].map(|module| Some(format!("modprobe {module}, if a network of yours needs it")));
        assert_eq!(cures, want);
        assert!(found.iter().all(|one| one.severity == Severity::Note && one.says.contains("tc-redirect-tap")));
    }

    #[test]
    fn what_few_networks_need_is_no_problem() {
        let severity = |kind: &str, is_here: bool| judge_kind(kind, is_here).map(|one| one.severity);
        assert_eq!(severity("veth", true), None);
        assert_eq!((severity("veth", false), severity("vrf", false)), (Some(Severity::Problem), Some(Severity::Note)));
    }

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
        assert_eq!(
            judge_parameters(&GOOD),
            [Finding::fine(PARAMETERS, "forwarding, connection tracking and neighbours are as needed")]
        );
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
            let said = judge_parameters(&facts);
            let [one] = &said[..] else { panic!("{said:?}") };
            assert_eq!(one.severity, severity, "{one}");
            assert!(one.cure.as_ref().is_some_and(|text| text.starts_with(cure)), "{one}");
        }
    }

    #[test]
    fn without_containers_nothing_needs_to_be_forwarded() {
        assert_eq!(
            judge_parameters(&ParameterFacts { forwarding: Some(0), containers: 0, ..GOOD })[0].severity,
            Severity::Fine
        );
        assert_eq!(
            judge_parameters(&ParameterFacts::default())[0].severity,
            Severity::Fine,
            "a kernel that says nothing"
        );
        assert_eq!(judge_parameters(&ParameterFacts { is_incomplete: true, ..GOOD }), [], "there may be more");
    }
}
