//! What the doctor has to say, and the findings that a host and a container share.

use std::collections::BTreeSet;
use std::fmt;

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_linux::output::one_line;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::calls::neutral_request;
use crate::contested::ContestedPort;
use crate::inventory::Attached;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It is as it should be.
    Fine,
    /// It is worth knowing.
    Note,
    /// It keeps containers from their network.
    Problem,
}

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub topic: &'static str,
    pub severity: Severity,
    /// What is so.
    pub says: String,
    /// What helps, where something has to be done.
    pub cure: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn fine(topic: &'static str, says: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Fine, says: says.into(), cure: None }
    }

    /// Worth knowing.
    pub fn note(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Note, says: says.into(), cure: Some(cure.into()) }
    }

    /// A problem.
    pub fn problem(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Problem, says: says.into(), cure: Some(cure.into()) }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Self { topic, severity, says, cure } = self;
        json!({"topic": topic, "severity": severity.word(), "says": says, "cure": cure})
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, severity, says, cure } = self;
        writeln!(f, "{:8} {topic}: {}", severity.word(), one_line(says))?;
        cure.iter().try_for_each(|cure| writeln!(f, "{:8} -> {}", "", one_line(cure)))
    }
}

/// Whether something keeps containers from their network.
pub fn has_problem(findings: &[Finding]) -> bool {
    findings.iter().any(|one| one.severity == Severity::Problem)
}

/// A port that a dead container keeps is one that nobody can reach.
pub fn contested_port(port: &ContestedPort<'_>) -> Finding {
    let of_kind = if port.holder_is_dead { Finding::problem } else { Finding::note };
    of_kind("ports", port.to_string(), port.cure())
}

/// The running containers whose `lo` is down: most runtimes set it up, Nomad leaves it to the plugin loopback. One whose namespace cannot be
/// entered has no finding.
pub fn loopback_down<'a>(attached: impl Iterator<Item = &'a Attached>) -> Vec<Finding> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for one in attached.filter(|one| one.life == Life::Alive) {
        let Some(netns) = one.cached.netns.as_deref().filter(|netns| seen.insert(*netns)) else { continue };
        if is_down(netns).unwrap_or(false) {
            let says =
                format!("container {}: lo is down, so it does not reach its own addresses", one.cached.at.container);
            let cure = format!(
                "nsenter --net={netns} ip link set lo up; for new containers begin the list of network {} with {{\"type\": \"loopback\"}}",
                one.cached.at.network
            );
            found.push(Finding::note("loopback", says, cure));
        }
    }
    found
}

/// Whether `lo` is down in a namespace with a process. Without one, nobody has had the time to set it up.
fn is_down(netns: &str) -> Result<bool, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    let host: &mut dyn Host = &mut host;
    host.enter(netns)?;
    if host.link(Ns::Container, &IfName::lo())?.is_none_or(|lo| lo.up) {
        return Ok(false);
    }
    let identity = host.namespaces().identity(Ns::Container)?;
    Ok(identity.map_or(Ok(None), |identity| host.namespaces().path_by_process(&identity))?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_cure_another() {
        assert_eq!(Finding::fine("kernel", "Linux").to_string(), "ok       kernel: Linux\n");
        assert_eq!(Finding::problem("a", "b\nb", "c\nc").to_string(), "problem  a: b\\u000ab\n         -> c\\u000ac\n");
    }
}
