//! Nomad's own clean-up after a failed DEL finds the masquerade rule and removes it.
//!
//! Since 1.5.0 Nomad lists POSTROUTING, takes the rule with the allocation's comment apart by the
//! expression
//! `-A POSTROUTING -s (\S+) -m comment --comment "name: \\"nomad\\" id: \\"([[:xdigit:]-]+)\\"" -j (CNI-[[:xdigit:]]+)`
//! and removes rule and chain through iptables. What it does is done here, step by step.

use cni_conformance::{Nomad, Sandbox};

use crate::rules::nomad::{ALLOC, NAT_V4, NAT_V6, NEIGHBOUR, attach, detach};
use cni_conformance::golden::{PROGRAMS, assert_rules, on_both_flavours, rules, without};

/// The masquerade chain of the allocation.
const CHAIN: &str = "CNI-f795935c5b000b7816d4ca95";

/// What Nomad's expression captures: source, allocation and chain.
#[derive(Debug, PartialEq, Eq)]
struct Masquerade<'r> {
    source: &'r str,
    alloc: &'r str,
    chain: &'r str,
}

/// Matches Nomad's expression at the start of a rule.
fn captures(rule: &str) -> Option<Masquerade<'_>> {
    let rest = rule.strip_prefix("-A POSTROUTING -s ")?;
    let (source, rest) = rest.split_once(r#" -m comment --comment "name: \"nomad\" id: \""#)?;
    let (alloc, chain) = rest.split_once(r#"\"" -j "#)?;
    let digits = chain.strip_prefix("CNI-")?;
    let fits = !source.contains(char::is_whitespace)
        && is_filled(alloc, |c| c.is_ascii_hexdigit() || c == '-')
        && is_filled(digits, |c| c.is_ascii_hexdigit());
    fits.then_some(Masquerade { source, alloc, chain })
}

fn is_filled(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(allowed)
}

/// Nomad's `forceCleanup` for one family.
#[track_caller]
fn force_cleanup(sandbox: &Sandbox, program: &str, alloc: &str) {
    let listed = sandbox.sh(&format!("{program} -t nat -S POSTROUTING --wait"));
    let wanted = format!(r#"--comment "name: \"nomad\" id: \"{alloc}\"""#);
    let rule = listed.lines().find(|rule| rule.contains(&wanted));
    let rule = rule.unwrap_or_else(|| panic!("{program}: no rule has {wanted} in\n{listed}"));
    let found = captures(rule).unwrap_or_else(|| panic!("Nomad's expression does not match {rule}"));
    assert_eq!(found.alloc, alloc);
    let comment = format!(r#"name: "nomad" id: "{alloc}""#);
    let delete = [program, "-t", "nat", "-D", "POSTROUTING", "-s", found.source, "-m", "comment"];
    let delete = [&delete[..], &["--comment", &comment, "-j", found.chain, "--wait"]].concat();
    sandbox.exec(&delete).expect_success();
    let exists = sandbox.exec(&[program, "-t", "nat", "-N", found.chain, "--wait"]);
    assert_eq!(exists.code, Some(1), "{} exists", found.chain);
    sandbox.sh(&format!("{program} -t nat -F {} --wait", found.chain));
    sandbox.sh(&format!("{program} -t nat -X {} --wait", found.chain));
}

#[test]
fn nomads_clean_up_removes_the_masquerade_and_nothing_else() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        let (_, attachment) = attach(sandbox, &nomad, ALLOC, 8080);
        attach(sandbox, &nomad, NEIGHBOUR, 9090);
        let with_both = rules(sandbox, "iptables", "nat").join("\n");
        force_cleanup(sandbox, "iptables", ALLOC);
        assert_rules(sandbox, "iptables", "nat", &without(&with_both, CHAIN));
        detach(sandbox, &nomad, &attachment);
        let of_neighbour = without(&without(&with_both, CHAIN), "CNI-DN-f795935c5b000b7816d4c");
        assert_rules(sandbox, "iptables", "nat", &of_neighbour);
    });
}

#[test]
fn nomads_clean_up_works_for_both_families() {
    on_both_flavours(|sandbox| {
        attach(sandbox, &Nomad::default().dual_stack(), ALLOC, 8080);
        for (program, golden) in PROGRAMS.into_iter().zip([NAT_V4, NAT_V6]) {
            force_cleanup(sandbox, program, ALLOC);
            assert_rules(sandbox, program, "nat", &without(golden, CHAIN));
        }
    });
}

#[test]
fn the_expression_takes_only_hexadecimal_names() {
    let rule = |id: &str, chain: &str| {
        format!(r#"-A POSTROUTING -s 10.0.0.2/32 -m comment --comment "name: \"nomad\" id: \"{id}\"" -j {chain}"#)
    };
    let want = Masquerade { source: "10.0.0.2/32", alloc: "0a-1f", chain: "CNI-00ff" };
    assert_eq!(captures(&rule("0a-1f", "CNI-00ff")), Some(want));
    for (id, chain) in [("0a-1g", "CNI-00ff"), ("0a", "CNI-DN-00ff"), ("", "CNI-00ff"), ("0a", "CNI-")] {
        assert_eq!(captures(&rule(id, chain)), None, "{id} {chain}");
    }
}
