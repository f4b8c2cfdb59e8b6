//! Rules of iptables, as text and as the messages of iptables-nft.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_kernel::nftables::xt::{read_rule, rule_bytes};
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::without_swallowed_phrases;

use crate::input::Documents;

/// The phrases by which go-cni takes a failed DEL for a success, in these very letters.
const SWALLOWED: [&str; 2] = ["not found", "no such file or directory"];

/// The number of a rule, where it does not matter.
const HANDLE: u64 = 7;

/// Lines of `iptables -S`, or whatever the programs print. A rule has one form, in which it is printed and read back; in
/// the tables of the kernel it is the same rule. No text of a program makes go-cni swallow an error.
pub fn run_text(input: &[u8]) -> Option<()> {
    let text = Documents::new(input).text();
    let reported = without_swallowed_phrases(&text);
    assert!(!SWALLOWED.iter().any(|phrase| reported.contains(phrase)), "{reported:?}");
    assert!(!reported.contains('\n'), "{reported:?}");
    text.lines().filter_map(IptablesRule::parse).for_each(|rule| assert_has_one_form(&rule));
    Some(())
}

fn assert_has_one_form(rule: &IptablesRule) {
    let canonical = rule.canonical();
    assert_eq!(canonical.canonical(), canonical, "{rule}");
    let line = canonical.to_string();
    assert_eq!(IptablesRule::parse(&line).as_ref(), Some(&canonical), "{line}");
    for family in Family::ALL {
        if let Some(payload) = rule_bytes(family, HANDLE, &canonical) {
            let read = read_rule(family, &canonical.chain, &payload);
            assert_eq!(read, Some((HANDLE, canonical.clone())), "{line}");
        }
    }
}

/// The payload of a rule's message, behind a byte that tells its family. A rule that is understood is one that iptables
/// prints, and that is written as it is.
pub fn run_bytes(input: &[u8]) -> Option<()> {
    let [first, payload @ ..] = input else { return None };
    let (family, chain) = (Family::ALL[usize::from(first % 2)], ChainName::fixed("CNI-FUZZ"));
    let (_, rule) = read_rule(family, &chain, payload)?;
    let line = rule.to_string();
    assert_eq!(IptablesRule::parse(&line).as_ref(), Some(&rule), "{line}");
    if let Some(again) = rule_bytes(family, HANDLE, &rule) {
        assert_eq!(read_rule(family, &chain, &again), Some((HANDLE, rule)), "{line}");
    }
    Some(())
}
