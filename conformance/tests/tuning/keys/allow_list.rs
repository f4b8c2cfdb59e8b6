//! `/etc/cni/tuning/allowlist.conf`: which parameters the administrator allows.

use cni_conformance::Verb::{Add, Check, Del, Status};
use cni_conformance::state::assert_same;
use serde_json::{Value, json};

use crate::tuning::setup::Tuned;

const CONFIG_ERROR: u64 = 7;

fn one(key: &str) -> Value {
    json!({"sysctl": {key: "1"}})
}

const KEY: &str = "net.ipv4.conf.IFNAME.rp_filter";

#[test]
fn a_parameter_that_a_line_matches_is_written() {
    let tuned = Tuned::new();
    for list in [
        "^net.ipv4.conf.IFNAME.rp_filter$\n",
        "^net.ipv6.conf.IFNAME.accept_ra$\r\n  ^net.ipv4.conf.IFNAME.rp_filter$\r\n\r\n",
        "rp_filter",
        "# a comment is a pattern\n^net\\.ipv4\\.conf\\.(IFNAME|all)\\.[a-z_]+$",
        r"^\Qnet.ipv4.conf.IFNAME.\E",
    ] {
        tuned.allow(list);
        tuned.succeeds(&[Add, Check, Del], &one(KEY));
    }
    tuned.allow("^net.ipv4.conf.IFNAME.rp_filter$");
    tuned.succeeds(&[Add, Del], &one("net/ipv4/conf/IFNAME/rp_filter"));
}

#[test]
fn a_parameter_that_no_line_matches_is_refused_and_nothing_is_done() {
    let tuned = Tuned::new();
    tuned.allow("^net.ipv4.conf.IFNAME.rp_filter$\n^net.core");
    let before = tuned.state();
    for key in ["net.ipv4.conf.eth0.rp_filter", "net.ipv4.conf.IFNAME.rp_filter2", "net.ipv4.ip_forward"] {
        let keys = json!({"mtu": 1400, "sysctl": {"net.core.somaxconn": "500", key: "1"}});
        let text = format!(
            "Sysctl {key} is not allowed. Only the following sysctls are allowed: [^net.ipv4.conf.IFNAME.rp_filter$ ^net.core]"
        );
        tuned.run(Add, &keys).expect_error(CONFIG_ERROR, &text);
        let mut newer = keys.clone();
        newer["cniVersion"] = json!("1.1.0");
        tuned.run(Status, &newer).expect_error(CONFIG_ERROR, &text);
        assert_same(&before, &tuned.state());
    }
    let args = json!({"args": {"cni": {"sysctl": {"net.ipv4.ip_forward": "1"}}}});
    tuned.run(Add, &args).expect_error(CONFIG_ERROR, "Sysctl net.ipv4.ip_forward is not allowed");
}

#[test]
fn an_empty_list_allows_nothing_but_configurations_without_parameters() {
    let tuned = Tuned::new();
    for list in ["", "\n \r\n"] {
        tuned.allow(list);
        tuned.run(Add, &one(KEY)).expect_error(CONFIG_ERROR, "Only the following sysctls are allowed: []");
        tuned.succeeds(&[Add, Check, Del], &json!({"mtu": 1400}));
    }
}

/// What was written when it was allowed is checked and deleted when it is not any more.
#[test]
fn check_and_del_do_not_ask() {
    let tuned = Tuned::new();
    tuned.succeeds(&[Add], &one(KEY));
    tuned.allow("nothing");
    tuned.succeeds(&[Check, Del], &one(KEY));
}

#[test]
fn a_line_that_is_no_pattern_is_named_and_allows_nothing() {
    let tuned = Tuned::new();
    for line in ["(", "[a", "*", "a**", r"\pN", "(?x)a", "(?=a)", "a{1001}"] {
        tuned.allow(&format!("{line}\n{KEY}"));
        let error = tuned.run(Add, &one(KEY)).expect_error(CONFIG_ERROR, "error parsing regexp: ");
        assert!(error.details.contains(&format!("{line:?}")), "{error:?}");
    }
}

/// The reference fails every ADD then, also one that writes no parameter.
#[test]
fn a_list_that_cannot_be_read_fails_only_those_that_need_it() {
    let tuned = Tuned::new();
    tuned.allow("x");
    std::fs::remove_file("/etc/cni/tuning/allowlist.conf").expect("remove the list");
    std::fs::create_dir("/etc/cni/tuning/allowlist.conf").expect("make a folder of its name");
    let error = tuned.run(Add, &one(KEY)).expect_error(5, "failed to read /etc/cni/tuning/allowlist.conf");
    assert!(error.details.to_lowercase().contains("directory"), "{error:?}");
    tuned.succeeds(&[Add, Check, Del], &json!({}));
}
