//! The administrator's list.

use super::*;
use crate::allow::PATH;
use proptest::prelude::*;

const KEY: &str = "net.ipv4.conf.IFNAME.rp_filter";

fn tuned(list: &str, key: &str) -> Result<(), (u32, String, String)> {
    let mut host = machine();
    host.administrators_files.insert(PATH.into(), list.to_owned());
    let caller = caller(&format!(r#""sysctl":{{"{key}":"1"}}"#));
    let added = caller.add(&Tuning, &mut host).map(|_| ());
    assert_eq!(added.is_ok(), caller.status(&Tuning, &mut host).is_ok(), "STATUS says what ADD does");
    added.map_err(|error| (error.code().number(), error.to_string(), error.details()))
}

#[test]
fn each_parameter_needs_a_line_that_matches_it_as_it_is_written() {
    for list in [KEY, "rp_filter", "  ^net.ipv4.conf.IFNAME.rp_filter$\r\n", "#x\n\nnet[.]ipv4", ".", "(?i)RP_FILTER"] {
        assert_eq!(tuned(list, KEY), Ok(()), "{list}");
    }
    assert_eq!(tuned("^net.ipv4.conf.IFNAME.rp_filter$", "net/ipv4/conf/IFNAME/rp_filter"), Ok(()));
    let details = format!("no line of {PATH} matches it");
    for (list, patterns) in [
        (r"^net\.ipv4", r"^net\.ipv4"),
        ("^net.ipv4.conf.eth0.rp_filter$\n# comment\n", "^net.ipv4.conf.eth0.rp_filter$ # comment"),
        ("", ""),
        (" \n", ""),
    ] {
        let key = "net/ipv4/conf/IFNAME/rp_filter";
        let text = format!("Sysctl {key} is not allowed. Only the following sysctls are allowed: [{patterns}]");
        assert_eq!(tuned(list, key), Err((7, text, details.clone())), "{list}");
    }
}

#[test]
fn without_parameters_the_list_does_not_matter() {
    let mut host = machine();
    host.administrators_files.insert(PATH.into(), String::new());
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    host.administrators_files.insert(PATH.into(), String::new());
    let keys = format!(r#""sysctl":{{"{KEY}":"0"}}"#);
    caller(&keys).check(&Tuning, &mut host).expect("CHECK does not ask");
    caller(&keys).del(&Tuning, &mut host).expect("DEL does not ask");
}

#[test]
fn a_line_that_is_no_pattern_is_an_error_when_it_is_reached() {
    for (line, why) in [
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count: more than 1000"),
        ("(?x)a", "invalid or unsupported Perl syntax: (?x"),
        (r"\pN", r"invalid or unsupported escape sequence: \p"),
    ] {
        let want = (7, format!("error parsing regexp: {why}"), format!("the line {line:?} of {PATH}"));
        assert_eq!(tuned(&format!("nothing\n{line}\n{KEY}"), KEY), Err(want));
        assert_eq!(tuned(&format!("{KEY}\n{line}"), KEY), Ok(()));
    }
    for line in ["(", "[a", "*a", "a{2}{3}", r"\8", "(?=a)", "[b-a]", r"[a-\d]", "[a--b]"] {
        let (code, text, details) = tuned(line, KEY).expect_err(line);
        assert_eq!((code, details), (7, format!("the line {line:?} of {PATH}")));
        assert!(text.starts_with("error parsing regexp: "), "{text}");
    }
}

/// What the engine alone would refuse, or take for something else.
#[test]
fn patterns_mean_what_they_mean_to_the_reference() {
    for (pattern, matching, other) in [
        ("^a[a[b]$", "a[", "ac"),
        ("^[a&&b]$", "&", "c"),
        ("^[a~~b]$", "~", "c"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^\Qa.b", "a.bc", "axbc"),
        (r"^\101\x42\x{43}$", "ABC", "abc"),
        ("^a{,5}{$", "a{,5}{", "aaa"),
        ("^a{2,3}?$", "aaa", "a"),
        ("^a{02}$", "a{02}", "aa"),
        ("^[[:alpha:]_]+$", "a_b", "a1"),
        ("^[]a]+$", "]a", "b"),
        ("^[^]a]$", "b", "]"),
        (r"^a\/b\-c\_d\<$", "a/b-c_d<", "a/b-c_d"),
        (r"^(?P<n>a)(?<m>b)(?i:c)(?s-U:.)$", "abCx", "aBcx"),
        (r"^[\-\]\[]+$", "-][", "a"),
    ] {
        let matches = |text: &str| crate::allow::matches(pattern, text).map_err(|error| format!("{pattern}: {error}"));
        assert_eq!((matches(matching), matches(other)), (Ok(true), Ok(false)), "{pattern}");
    }
}

proptest! {
    #[test]
    fn no_pattern_panics(pattern in ".{0,30}", key in "[a-z./]{0,20}") {
        let _ = crate::allow::matches(&pattern, &key);
    }

    #[test]
    fn odd_patterns_do_not_panic(pattern in r"[\[\](){}|*+?\\QE0-9a-c:^&~,-]{0,20}") {
        let _ = crate::allow::matches(&pattern, "net.core");
    }

    #[test]
    fn a_quoted_text_matches_itself_alone(text in "[ -~]{1,20}", other in "[ -~]{1,20}") {
        prop_assume!(!text.contains("\\E"));
        for pattern in [format!(r"^\Q{text}\E$"), format!("^{}$", text.chars().map(quoted).collect::<String>())] {
            prop_assert!(crate::allow::matches(&pattern, &text).expect("a pattern"), "{}", pattern);
            prop_assert_eq!(crate::allow::matches(&pattern, &other).expect("a pattern"), text == other);
        }
    }
}

fn quoted(letter: char) -> String {
    if letter.is_ascii_alphanumeric() { letter.to_string() } else { format!("\\{letter}") }
}
