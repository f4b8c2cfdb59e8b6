use super::*;
use proptest::prelude::*;

const KEY: &str = "net.ipv4.conf.IFNAME.rp_filter";

fn verdict(list: &str, key: &str) -> Result<(), (u32, String, String)> {
    let error_parts = |error: Error| (error.code().number(), error.to_string(), error.details());
    verify_key(key, list).map_err(error_parts)
}

#[test]
fn each_parameter_needs_a_line_that_matches_it_as_it_is_written() {
    for list in [KEY, "rp_filter", "  ^net.ipv4.conf.IFNAME.rp_filter$\r\n", "#x\n\nnet[.]ipv4", ".", "(?i)RP_FILTER"] {
        assert_eq!(verdict(list, KEY), Ok(()), "{list}");
    }
    assert_eq!(verdict(&format!("^{KEY}$"), "net/ipv4/conf/IFNAME/rp_filter"), Ok(()));
    for (list, patterns) in [
        (r"^net\.ipv4", r"^net\.ipv4"),
        ("^net.ipv4.conf.eth0\n# comment\n", "^net.ipv4.conf.eth0 # comment"),
        (" \n", ""),
    ] {
        let key = "net/ipv4/conf/IFNAME/rp_filter";
        let text = format!("Sysctl {key} is not allowed. Only the following sysctls are allowed: [{patterns}]");
        assert_eq!(verdict(list, key), Err((7, text, format!("no line of {PATH} matches it"))), "{list}");
    }
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
        assert_eq!(verdict(&format!("nothing\n{line}\n{KEY}"), KEY), Err(want));
        assert_eq!(verdict(&format!("{KEY}\n{line}"), KEY), Ok(()));
    }
    for line in ["(", "[a", "*a", "a{2}{3}", r"\8", "(?=a)", "[b-a]", r"[a-\d]", "[a--b]"] {
        let (code, text, details) = verdict(line, KEY).expect_err(line);
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
        let matches = |text: &str| super::matches(pattern, text).map_err(|error| format!("{pattern}: {error}"));
        assert_eq!((matches(matching), matches(other)), (Ok(true), Ok(false)), "{pattern}");
    }
}

proptest! {
    #[test]
    fn a_quoted_text_matches_itself_alone(text in "[ -~]{1,20}", other in "[ -~]{1,20}") {
        prop_assume!(!text.contains("\\E"));
        for pattern in [format!(r"^\Q{text}\E$"), format!("^{}$", text.chars().map(quoted).collect::<String>())] {
            prop_assert!(super::matches(&pattern, &text).expect("a pattern"), "{}", pattern);
            prop_assert_eq!(super::matches(&pattern, &other).expect("a pattern"), text == other);
        }
    }
}

fn quoted(letter: char) -> String {
    if letter.is_ascii_alphanumeric() { letter.to_string() } else { format!("\\{letter}") }
}
