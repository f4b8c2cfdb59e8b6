//! `routes` and `resolvConf`: the parts of the result besides the addresses.

use std::fs;

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use cni_conformance::keys;
use serde_json::{Value, json};

use crate::host_local::setup::Pool;

fn pool(keys: &Value) -> Pool {
    let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    keys::set(&mut pool.config["ipam"], keys);
    pool
}

/// Host bits included: it is the caller who installs them.
#[test]
fn routes_are_in_the_result_as_they_are_written() {
    let routes = json!([
        {"dst": "0.0.0.0/0"},
        {"dst": "10.9.0.7/16", "gw": "10.1.2.9"},
        {"dst": "fd00:9::/64", "gw": "fd00:1::9", "mtu": 1300, "advmss": 1200, "priority": 7, "table": 100, "scope": 253},
        {"dst": "10.8.0.0/16", "table": 0, "scope": 0},
        {"dst": "0.0.0.0/0"},
    ]);
    assert_eq!(pool(&json!({"routes": routes})).result("a")["routes"], routes);
    // Zero means nothing for these, and is left out.
    let zeros = json!([{"dst": "10.9.0.0/16", "gw": "", "mtu": 0, "advmss": 0, "priority": 0, "table": null}]);
    assert_eq!(pool(&json!({"routes": zeros})).result("a")["routes"], json!([{"dst": "10.9.0.0/16"}]));
}

#[test]
fn without_routes_or_resolv_conf_the_result_has_only_addresses() {
    for keys in [json!({}), json!({"routes": null, "resolvConf": null}), json!({"routes": [], "resolvConf": ""})] {
        let result = pool(&keys).result("a");
        let expected = json!([
            {"address": "10.1.2.2/24", "gateway": "10.1.2.1"}, {"address": "fd00:1::2/64", "gateway": "fd00:1::1"},
        ]);
        assert_eq!(result, json!({"cniVersion": "1.0.0", "ips": expected}));
    }
}

#[test]
fn resolv_conf_is_read_as_the_resolver_reads_it_on_good_days() {
    let cases = [
        (
            "all of it",
            (
                "nameserver 192.0.2.53\nnameserver 2001:db8::53\ndomain d.example\nsearch a b\noptions ndots:2 edns0\n",
                json!({
                    "nameservers": ["192.0.2.53", "2001:db8::53"], "domain": "d.example",
                    "search": ["a", "b"], "options": ["ndots:2", "edns0"],
                }),
            ),
        ),
        (
            "blanks, tabs and line ends",
            (
                "  nameserver\t192.0.2.53  \r\n\r\n\tdomain   example.org\r\n",
                json!({"nameservers": ["192.0.2.53"], "domain": "example.org"}),
            ),
        ),
        (
            "comments",
            (
                "# nameserver 192.0.2.1\n;nameserver 192.0.2.2\nnameserver 192.0.2.3\n",
                json!({"nameservers": ["192.0.2.3"]}),
            ),
        ),
        (
            "a comment behind",
            (
                "nameserver 192.0.2.3 # mine\noptions a # b\n",
                json!({"nameservers": ["192.0.2.3"], "options": ["a", "#", "b"]}),
            ),
        ),
        (
            "lists grow, the last domain counts",
            (
                "search a\nsearch b c\ndomain one\ndomain two three\noptions x\noptions y\n",
                json!({"domain": "two", "search": ["a", "b", "c"], "options": ["x", "y"]}),
            ),
        ),
        ("words without a value", ("nameserver\ndomain\nsearch\noptions\n", Value::Null)),
        ("other words", ("Nameserver 192.0.2.1\nsortlist 10.0.0.0\nlookup file bind\n", Value::Null)),
        ("no address", ("nameserver not-an-address\n", json!({"nameservers": ["not-an-address"]}))),
        ("no line end", ("nameserver 192.0.2.53", json!({"nameservers": ["192.0.2.53"]}))),
        ("nothing", ("", Value::Null)),
    ];
    for_each(cases, |(text, expected)| {
        let pool = pool(&json!({"resolvConf": "/run/resolv.conf"}));
        fs::write("/run/resolv.conf", text).expect("write a resolv.conf");
        assert_eq!(pool.result("a").get("dns").cloned().unwrap_or_default(), expected);
    });
}

/// Before the directory is made, so nothing is left.
#[test]
fn a_resolv_conf_that_cannot_be_read_is_named_and_nothing_is_leased() {
    let missing = pool(&json!({"resolvConf": "/run/nowhere"}));
    missing.refused_at_once(&missing.call(Verb::Add, "a"), 5, &["open /run/nowhere", "o such file or directory"]);
    let folder = pool(&json!({"resolvConf": "/run"}));
    folder.refused_at_once(&folder.call(Verb::Add, "a"), 5, &["/run", "s a directory"]);
    let endless = pool(&json!({"resolvConf": "/dev/zero"}));
    endless.refused_at_once(&endless.call(Verb::Add, "a"), 5, &["/dev/zero", "not a regular file"]);
    let long = pool(&json!({"resolvConf": "/run/resolv.conf"}));
    fs::write("/run/resolv.conf", format!("search {}\n", "x".repeat(70_000))).expect("write a resolv.conf");
    long.refused_at_once(&long.call(Verb::Add, "a"), 5, &["a line is longer than 64 KiB", "/run/resolv.conf"]);
}

/// What the container was told is not read again.
#[test]
fn del_and_check_need_no_resolv_conf() {
    let pool = pool(&json!({"resolvConf": "/run/resolv.conf"}));
    fs::write("/run/resolv.conf", "nameserver 192.0.2.53\n").expect("write a resolv.conf");
    pool.add("a");
    fs::remove_file("/run/resolv.conf").expect("remove the resolv.conf");
    pool.call(Verb::Check, "a").run().expect_success();
    pool.del("a");
}
