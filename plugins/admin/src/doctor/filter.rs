//! The packet filter: which backends plugins can use, and whether two flavours of iptables are in use at once.

use std::fs;
use std::time::Duration;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_linux::iptables::AutoIptables;
use cni_linux::process;
use cni_netfilter::NetfilterErrorKind;
use cni_netfilter::iptables::{Iptables as _, IptablesRule, IptablesTable, Target, is_unreached};
use serde_json::json;

use super::finding::Finding;
use crate::calls::status;
use crate::programs;

const TOPIC: &str = "packet filter";

/// What is known of the packet filter.
#[derive(Debug, Default)]
struct FilterFacts {
    /// The words of `iptables --version`.
    iptables: Option<String>,
    /// Why iptables cannot be used, if it cannot.
    no_iptables: Option<String>,
    /// The tables that the kernel does not have for programs that are installed, of each family that lacks any.
    missing_tables: Vec<(Family, Vec<&'static str>)>,
    /// Whether ip6tables could be used.
    serves_ipv6: bool,
    /// Why nf_tables cannot be used, if they cannot.
    no_nftables: Option<String>,
    /// The programs whose chain FORWARD drops all packets before the jump of the plugin firewall.
    dropping: Vec<&'static str>,
    /// Whether firewalld answers.
    has_firewalld: bool,
    /// The tables that legacy iptables has filled, of both families.
    legacy_tables: Vec<String>,
}

/// Looks at the packet filter.
pub fn look() -> Vec<Finding> {
    let why_not = |plugin: &str, backend: &str| status(&json!({"type": plugin, "backend": backend}))?.err();
    let mut tables = AutoIptables::new();
    judge(&FilterFacts {
        iptables: iptables_version(),
        no_iptables: why_not("portmap", "iptables"),
        missing_tables: missing_tables(&mut tables),
        serves_ipv6: tables.absence(Family::V6, IptablesTable::Nat).is_none(),
        no_nftables: why_not("portmap", "nftables"),
        dropping: dropping(),
        has_firewalld: why_not("firewall", "firewalld").is_none(),
        legacy_tables: legacy_tables(),
    })
}

/// The tables that the kernel does not have for programs that are installed, of each family that lacks any.
fn missing_tables(iptables: &mut AutoIptables) -> Vec<(Family, Vec<&'static str>)> {
    let mut is_missing =
        |family, table| iptables.absence(family, table).is_some_and(|error| error.kind == NetfilterErrorKind::NoTable);
    let mut of = |family| {
        let missing = IptablesTable::ALL.into_iter().filter(|table| is_missing(family, *table));
        (family, missing.map(IptablesTable::as_str).collect::<Vec<_>>())
    };
    Family::ALL.into_iter().map(&mut of).filter(|(_, tables)| !tables.is_empty()).collect()
}

fn dropping() -> Vec<&'static str> {
    let (mut iptables, forward) = (AutoIptables::new(), ChainName::fixed("FORWARD"));
    let mut is_dropping = |family: &Family| {
        let listed = iptables.list(*family, IptablesTable::Filter, &forward);
        listed.ok().flatten().is_some_and(|rules| is_jump_unreached(&rules))
    };
    Family::ALL.into_iter().filter(|family| is_dropping(family)).map(Family::iptables).collect()
}

/// Whether a rule drops or rejects all packets before they come to the jump of the plugin firewall.
fn is_jump_unreached(rules: &[IptablesRule]) -> bool {
    let jump = rules.iter().find(|rule| rule.target == Target::Jump(ChainName::fixed("CNI-FORWARD")));
    jump.is_some_and(|jump| is_unreached(rules, jump))
}

fn iptables_version() -> Option<String> {
    let output = process::run(&programs::find("iptables")?, &["--version"], b"", &[], Duration::from_secs(5)).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|version| !version.is_empty())
}

fn legacy_tables() -> Vec<String> {
    let names = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let files = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"].map(names);
    files.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

fn judge(facts: &FilterFacts) -> Vec<Finding> {
    let mut findings = vec![judge_iptables(facts), judge_nftables(facts)];
    for (family, tables) in &facts.missing_tables {
        let module = family.iptables().trim_end_matches('s');
        findings.push(Finding::note(
            TOPIC,
            format!("the kernel has no IP{family} tables for {}: {}", family.iptables(), tables.join(", ")),
            format!("if a network has IP{family} addresses and names backend \"iptables\", name \"nftables\", or load {module}_nat and {module}_filter"),
        ));
    }
    if !facts.dropping.is_empty() {
        findings.push(Finding::problem(
            TOPIC,
            format!("chain FORWARD of {} drops all packets before its jump to CNI-FORWARD", facts.dropping.join(", ")),
            "\"cni-plugins repair\" puts the jump first; or make the rule the chain's policy",
        ));
    }
    if facts.has_firewalld {
        findings.push(Finding::fine(TOPIC, "firewalld answers; the plugin firewall uses it unless told otherwise"));
    }
    let is_nft = facts.iptables.as_ref().is_some_and(|version| version.contains("nf_tables"));
    if is_nft && !facts.legacy_tables.is_empty() {
        findings.push(Finding::note(
            TOPIC,
            format!("legacy iptables has tables too ({}), and packets pass both", facts.legacy_tables.join(", ")),
            "see iptables-legacy-save and ip6tables-legacy-save; remove what is not wanted",
        ));
    }
    findings
}

fn judge_iptables(facts: &FilterFacts) -> Finding {
    // Tables of IPv4 alone may be missing on a host that only uses IPv6. `no_iptables` says why `iptables` cannot be used.
    let is_tableless = !facts.serves_ipv6
        && facts.missing_tables.iter().any(|(family, tables)| *family == Family::V4 && tables.contains(&"nat"));
    match (&facts.no_iptables, &facts.no_nftables) {
        (None, _) => {
            let version = facts.iptables.as_deref().unwrap_or("iptables");
            Finding::fine(TOPIC, format!("{version} can be used"))
        }
        (Some(why), None) if is_tableless => Finding::problem(
            TOPIC,
            format!("iptables is installed, and the kernel has no tables for it: {why}"),
            "plugins use nf_tables unless a network names backend \"iptables\"; install the nf_tables flavour of iptables, or load \
             iptable_nat and iptable_filter",
        ),
        (Some(why), None) => Finding::note(
            TOPIC,
            format!("iptables cannot be used: {why}"),
            "plugins use nf_tables themselves; install iptables, or load its tables, if a network asks for backend \"iptables\"",
        ),
        (Some(why), Some(_)) => Finding::problem(
            TOPIC,
            format!("iptables cannot be used: {why}"),
            "install the package iptables, or a kernel with nf_tables",
        ),
    }
}

fn judge_nftables(facts: &FilterFacts) -> Finding {
    match &facts.no_nftables {
        None => Finding::fine(TOPIC, "nf_tables can be used"),
        Some(why) => Finding::note(
            TOPIC,
            format!("nf_tables cannot be used: {why}"),
            "modprobe nf_tables, if a network asks for backend \"nftables\"",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn one_backend_is_enough() {
        use Severity::{Fine, Note, Problem};
        let lost = || Some("lost".to_owned());
        for (families, table, no_iptables, no_nftables, severities) in [
            (&[][..], "nat", None, None, vec![Fine, Fine]),
            (&[], "nat", lost(), None, vec![Note, Fine]),
            (&[], "nat", None, lost(), vec![Fine, Note]),
            (&[], "nat", lost(), lost(), vec![Problem, Note]),
            (&Family::ALL, "nat", lost(), None, vec![Problem, Fine, Note, Note]),
            (&[Family::V4], "nat", lost(), None, vec![Problem, Fine, Note]),
            (&[Family::V4], "filter", lost(), None, vec![Note, Fine, Note]),
            // Only `ip6tables` is installed.
            (&[Family::V6], "nat", lost(), None, vec![Note, Fine, Note]),
            (&[Family::V6], "nat", None, None, vec![Fine, Fine, Note]),
        ] {
            let missing_tables = families.iter().map(|family| (*family, vec![table])).collect();
            let found = judge(&FilterFacts { no_iptables, no_nftables, missing_tables, ..FilterFacts::default() });
            assert_eq!(found.iter().map(|one| one.severity).collect::<Vec<_>>(), severities, "{families:?} {table}");
        }
    }

    #[test]
    fn a_jump_behind_a_rule_that_drops_all_is_unreached() {
        let rules = |lines: &[&str]| lines.iter().filter_map(|line| IptablesRule::parse(line)).collect::<Vec<_>>();
        let jump = "-A FORWARD -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD";
        for drop in ["-A FORWARD -j DROP", "-A FORWARD -j REJECT --reject-with icmp-port-unreachable"] {
            assert!(is_jump_unreached(&rules(&[drop, jump])), "{drop}");
            assert!(!is_jump_unreached(&rules(&[jump, drop])), "{drop}");
        }
        assert!(!is_jump_unreached(&rules(&["-A FORWARD -i eth1 -j DROP", jump])));
        let blocked = judge(&FilterFacts { dropping: vec!["iptables"], ..FilterFacts::default() });
        assert!(blocked[2].severity == Severity::Problem && blocked[2].says.contains("CNI-FORWARD"), "{blocked:?}");
    }

    #[test]
    fn two_flavours_at_once_are_worth_knowing() {
        let facts = |version: &str| FilterFacts {
            iptables: Some(version.to_owned()),
            legacy_tables: vec!["nat".to_owned()],
            ..FilterFacts::default()
        };
        assert_eq!(judge(&facts("iptables v1.8.9 (legacy)")).len(), 2);
        let both = judge(&facts("iptables v1.8.9 (nf_tables)"));
        assert!(both[2].says.contains("(nat)"), "{both:?}");
    }
}
