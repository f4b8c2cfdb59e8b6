//! Text and value of a rule are each other's inverse. `plugins.txt` is a dump of real hosts, and `foreign.txt` has what
//! other programs write: to be read without loss, typed or not.

use proptest::prelude::*;

use super::*;
use crate::flows::Proto;
use crate::iptables::rule::PortSet;
use cni_core::names::{ChainName, Comment, IfName};

fn is_typed(rule: &IptablesRule) -> bool {
    !matches!(rule.target, Target::Raw(_)) && !rule.matches.iter().any(|part| matches!(part, Match::Raw(_)))
}

#[test]
fn what_the_plugins_write_is_read_with_types_and_written_the_same() {
    for line in include_str!("plugins.txt").lines() {
        let rule = IptablesRule::parse(line).expect(line);
        assert_eq!(rule.to_string(), line);
        assert!(is_typed(&rule), "{rule:?}");
    }
}

#[test]
fn what_others_write_is_read_without_loss() {
    for line in include_str!("foreign.txt").lines() {
        assert_eq!(IptablesRule::parse(line).expect(line).to_string(), line);
    }
}

/// The kernel keeps a comment up to a byte of zero, so one with more behind it is not what would be read back.
#[test]
fn a_comment_with_a_byte_of_zero_has_no_type() {
    let line = "-A C -m comment --comment \"a\0b\" -j ACCEPT";
    let rule = IptablesRule::parse(line).expect("a rule");
    assert!(!is_typed(&rule), "{rule:?}");
}

#[test]
fn a_rule_is_rendered_in_the_order_of_iptables() {
    let chain = ChainName::fixed("CNI-DN-c189d8b6a7b4d184c9f70");
    let cidr = |text: &str| text.parse().expect("network");
    let matches = vec![
        Match::Port(Proto::Tcp, 8080),
        Match::Comment(Comment::new("a \"b\"")),
        Match::Interface(Direction::Out, Equality::Other, IfName::parse("br0").expect("name")),
        Match::destination(cidr("10.88.0.1/32")),
        Match::source(cidr("10.88.0.5/24")),
    ];
    let rule = IptablesRule::new(chain, matches, Target::Jump(ChainName::fixed("CNI-HOSTPORT-SETMARK")));
    let text = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -d 10.88.0.1/32 ! -o br0 -p tcp -m tcp --dport 8080 -m comment --comment "a \"b\"" -j CNI-HOSTPORT-SETMARK"#;
    assert_eq!(rule.to_string(), text);
    assert_eq!(rule.canonical().to_string(), text);
    assert_eq!(rule.canonical().source(), Some(cidr("10.88.0.0/24")));
    for all in ["0.0.0.0/0", "::/0"] {
        let rule = IptablesRule::new(ChainName::fixed("C"), vec![Match::source(cidr(all))], Target::Accept);
        assert_eq!(rule.to_string(), "-A C -j ACCEPT");
    }
}

#[test]
fn a_users_words_get_types_once_they_are_read_back() {
    let words = ["!", "-d", "192.0.2.0/24"].map(str::to_owned).to_vec();
    let ports = PortSet::new(vec![8080]).expect("ports");
    let matches = vec![Match::Ports(Proto::Tcp, ports), Match::Raw(words)];
    let rule = IptablesRule::new(ChainName::fixed("C"), matches, Target::Accept);
    assert_eq!(rule.to_string(), "-A C -p tcp -m multiport --dports 8080 ! -d 192.0.2.0/24 -j ACCEPT");
    assert_eq!(rule.canonical().to_string(), "-A C ! -d 192.0.2.0/24 -p tcp -m multiport --dports 8080 -j ACCEPT");
}

#[test]
fn words_that_part_others_do_so_until_they_have_moved_away() {
    let words = ["--dports", "1", "!", "-s", "10.0.0.1/32"].map(str::to_owned).to_vec();
    let ports = PortSet::new(vec![8080]).expect("ports");
    let matches = vec![Match::Ports(Proto::Tcp, ports), Match::Raw(words)];
    let canonical = IptablesRule::new(ChainName::fixed("C"), matches, Target::Accept).canonical();
    assert_eq!(canonical.to_string(), "-A C ! -s 10.0.0.1/32 -p tcp -m multiport --dports 8080 --dports 1 -j ACCEPT");
    assert_eq!(canonical.canonical(), canonical);
}

#[test]
fn lines_that_are_not_rules_are_ignored() {
    for line in ["", "-P INPUT ACCEPT", "-N C", "-A", "-A -j", "# Warning: iptables-legacy tables present", "COMMIT"] {
        assert_eq!(IptablesRule::parse(line), None, "{line}");
    }
}

/// What a rule of the pages says in one option, as matches.
fn part() -> impl Strategy<Value = Vec<Match>> {
    let lines = include_str!("plugins.txt").lines().chain(include_str!("foreign.txt").lines());
    let matches = lines.flat_map(|line| IptablesRule::parse(line).expect(line).matches);
    proptest::sample::select(matches.map(|part| vec![part]).collect::<Vec<_>>())
}

/// Words that mean something somewhere in a rule, or break it.
fn words() -> impl Strategy<Value = Vec<Match>> {
    let words = r#"! -s -d -i -o -p -m -j -g tcp 10.0.0.1/32 0.0.0.0/0 eth0 comment --comment multiport --dports 1,2 mark --mark 0x1/0x1
        --dport 80 80:90 owner --uid-owner REDIRECT --to-ports " \ --x"#;
    let word = proptest::sample::select(words.split_whitespace().chain(["\"a b\""]).collect::<Vec<_>>());
    proptest::collection::vec(word.prop_map(str::to_owned), 0..12).prop_map(|words| vec![Match::Raw(words)])
}

proptest! {
    #[test]
    fn a_rule_has_one_form(parts in proptest::collection::vec(prop_oneof![4 => part(), 1 => words()], 0..6)) {
        let rule = IptablesRule::new(ChainName::fixed("C"), parts.concat(), Target::Accept);
        let canonical = rule.canonical();
        prop_assert_eq!(&canonical, &rule.reread(), "sorted as its text would tell");
        prop_assert_eq!(IptablesRule::parse(&canonical.to_string()), Some(canonical.clone()));
        prop_assert_eq!(&canonical.canonical(), &canonical);
    }

    #[test]
    fn any_text_can_be_read(text in "\\PC*") {
        let rule = IptablesRule::parse(&format!("-A C {text}"));
        prop_assert_eq!(rule.map(|rule| rule.chain), Some(ChainName::fixed("C")));
    }
}
