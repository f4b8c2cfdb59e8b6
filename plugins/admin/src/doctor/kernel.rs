//! The kernel: its release, the kinds of links that plugins make, and what it needs to redirect packets.

use std::fs;
use std::path::Path;

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_model::traffic::RedirectPart;
use cni_plugin::host::Host as _;
use serde_json::json;

use super::finding::Finding;
use super::status;
use crate::error_line::error_line;

const TOPIC: &str = "kernel";

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
    let request = status::request(json!({"type": "loopback"}), &cni_loopback::Loopback)?;
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
}
