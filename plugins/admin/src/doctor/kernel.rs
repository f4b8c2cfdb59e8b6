//! The kernel: its release, and the kinds of links that plugins make.

use std::fs;

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_plugin::host::NetworkState as _;
use serde_json::json;

use super::finding::Finding;
use super::status;
use crate::repair::told;

const TOPIC: &str = "kernel";

/// The oldest release that everything works with.
const OLDEST: (u32, u32) = (5, 4);

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
    match kinds() {
        Ok(kinds) => findings.extend(kinds.into_iter().filter_map(|(kind, is_here)| judge_kind(kind, is_here))),
        Err(error) => findings.push(Finding::problem(TOPIC, told(&error), "run it as root, on the host itself")),
    }
    findings
}

fn kinds() -> Result<Vec<(&'static str, bool)>, Error> {
    let request = status::request(json!({"type": "loopback"}), &cni_loopback::Loopback)?;
    let mut host = LinuxHost::new(&request)?;
    KINDS.iter().map(|(kind, ..)| Ok((*kind, host.has_link_kind(kind)?))).collect()
}

fn judge_release(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Finding::fine(TOPIC, format!("Linux {release}")),
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

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn a_release_is_compared_by_its_first_two_numbers() {
        for (release, severity) in [
            ("6.18.5-fc", Severity::Fine),
            ("5.4", Severity::Fine),
            ("5.10.0-8-amd64", Severity::Fine),
            ("5.3.18", Severity::Problem),
            ("4.19.0", Severity::Problem),
            ("next", Severity::Note),
        ] {
            assert_eq!(judge_release(release).severity, severity, "{release}");
        }
    }

    #[test]
    fn what_few_networks_need_is_no_problem() {
        let severity = |kind: &str, is_here: bool| judge_kind(kind, is_here).map(|one| one.severity);
        assert_eq!(severity("veth", true), None);
        assert_eq!((severity("veth", false), severity("vrf", false)), (Some(Severity::Problem), Some(Severity::Note)));
    }
}
