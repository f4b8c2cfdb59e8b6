//! How results are printed: each version in its own shape, to the byte.
//!
//! Indented by four, no newline at the end. Since 1.0.0 keys are sorted; before, they stand in the
//! order of the SPEC and an empty `dns` is always there. Up to 0.2.0 there is one address of each
//! family and no interface.

use cni_conformance::{Network, Outcome, Sandbox, Verb};
use serde_json::{Value, json};

use crate::{PLUGINS, call, config, versions_of, with};

/// What host-local prints since 1.0.0, in the place of `VERSION` its version.
const SORTED: &str = r#"{
    "cniVersion": "VERSION",
    "dns": {
        "domain": "example.org",
        "nameservers": [
            "192.0.2.53"
        ],
        "options": [
            "ndots:2"
        ],
        "search": [
            "a.example",
            "b.example"
        ]
    },
    "ips": [
        {
            "address": "10.88.0.2/24",
            "gateway": "10.88.0.1"
        },
        {
            "address": "fd00:88::2/64",
            "gateway": "fd00:88::1"
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        },
        {
            "dst": "fd00:99::/64",
            "gw": "fd00:88::9"
        }
    ]
}"#;

/// The same from 0.3.0 to 0.4.0.
const DECLARED: &str = r#"{
    "cniVersion": "VERSION",
    "ips": [
        {
            "version": "4",
            "address": "10.88.0.2/24",
            "gateway": "10.88.0.1"
        },
        {
            "version": "6",
            "address": "fd00:88::2/64",
            "gateway": "fd00:88::1"
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        },
        {
            "dst": "fd00:99::/64",
            "gw": "fd00:88::9"
        }
    ],
    "dns": {
        "nameservers": [
            "192.0.2.53"
        ],
        "domain": "example.org",
        "search": [
            "a.example",
            "b.example"
        ],
        "options": [
            "ndots:2"
        ]
    }
}"#;

/// The same up to 0.2.0.
const BY_FAMILY: &str = r#"{
    "cniVersion": "VERSION",
    "ip4": {
        "ip": "10.88.0.2/24",
        "gateway": "10.88.0.1",
        "routes": [
            {
                "dst": "0.0.0.0/0"
            }
        ]
    },
    "ip6": {
        "ip": "fd00:88::2/64",
        "gateway": "fd00:88::1",
        "routes": [
            {
                "dst": "fd00:99::/64",
                "gw": "fd00:88::9"
            }
        ]
    },
    "dns": {
        "nameservers": [
            "192.0.2.53"
        ],
        "domain": "example.org",
        "search": [
            "a.example",
            "b.example"
        ],
        "options": [
            "ndots:2"
        ]
    }
}"#;

/// Chooses the shape of a version.
fn shape<T>(version: &str, by_family: T, declared: T, sorted: T) -> T {
    match version {
        "0.1.0" | "0.2.0" => by_family,
        "1.0.0" | "1.1.0" => sorted,
        _ => declared,
    }
}

#[track_caller]
fn assert_printed(outcome: &Outcome, golden: &str, version: &str) {
    outcome.expect_success();
    assert_eq!(outcome.stdout(), golden.replace("VERSION", version), "{outcome}");
}

#[test]
fn host_local_prints_each_version_in_its_shape() {
    let resolv_conf = "nameserver 192.0.2.53\ndomain example.org\nsearch a.example b.example\noptions ndots:2\n";
    for version in versions_of("host-local") {
        let sandbox = Sandbox::new();
        std::fs::write("/run/resolv.conf", resolv_conf).expect("write a resolv.conf");
        let mut config = config("host-local", version);
        config["ipam"]["ranges"] = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
        config["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "fd00:99::/64", "gw": "fd00:88::9"}]);
        config["ipam"]["resolvConf"] = json!("/run/resolv.conf");
        let outcome =
            call(&sandbox, "host-local", Verb::Add, sandbox.host()).netns("/run/netns/c").config(&config).run();
        assert_printed(&outcome, shape(version, BY_FAMILY, DECLARED, SORTED), version);
    }
}

/// Go prints the shape of 1.0.0 for every version that is given; SPEC and Nomad want the version's.
#[test]
fn loopback_prints_each_version_in_its_shape() {
    let sorted = r#"{
    "cniVersion": "VERSION",
    "interfaces": [
        {
            "mac": "00:00:00:00:00:00",
            "name": "lo",
            "sandbox": "/run/netns/ctr1"
        }
    ],
    "ips": [
        {
            "address": "127.0.0.1/8",
            "interface": 0
        },
        {
            "address": "::1/128",
            "interface": 0
        }
    ]
}"#;
    let declared = r#"{
    "cniVersion": "VERSION",
    "interfaces": [
        {
            "name": "lo",
            "mac": "00:00:00:00:00:00",
            "sandbox": "/run/netns/ctr1"
        }
    ],
    "ips": [
        {
            "version": "4",
            "interface": 0,
            "address": "127.0.0.1/8"
        },
        {
            "version": "6",
            "interface": 0,
            "address": "::1/128"
        }
    ],
    "dns": {}
}"#;
    let by_family = r#"{
    "cniVersion": "VERSION",
    "ip4": {
        "ip": "127.0.0.1/8"
    },
    "ip6": {
        "ip": "::1/128"
    },
    "dns": {}
}"#;
    for version in versions_of("loopback") {
        let sandbox = Sandbox::new();
        let container = sandbox.container("ctr1");
        let outcome = call(&sandbox, "loopback", Verb::Add, &container).config(&config("loopback", version)).run();
        assert_printed(&outcome, shape(version, by_family, declared, sorted), version);
    }
}

#[test]
fn bridge_prints_each_version_in_its_shape() {
    let sorted = r#"{
    "cniVersion": "VERSION",
    "interfaces": [
        {
            "mac": "BRIDGE_MAC",
            "name": "br0"
        },
        {
            "mac": "PORT_MAC",
            "name": "PORT"
        },
        {
            "mac": "ETH0_MAC",
            "name": "eth0",
            "sandbox": "/run/netns/ctr1"
        }
    ],
    "ips": [
        {
            "address": "10.88.0.2/24",
            "gateway": "10.88.0.1",
            "interface": 2
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        }
    ]
}"#;
    let declared = r#"{
    "cniVersion": "VERSION",
    "interfaces": [
        {
            "name": "br0",
            "mac": "BRIDGE_MAC"
        },
        {
            "name": "PORT",
            "mac": "PORT_MAC"
        },
        {
            "name": "eth0",
            "mac": "ETH0_MAC",
            "sandbox": "/run/netns/ctr1"
        }
    ],
    "ips": [
        {
            "version": "4",
            "interface": 2,
            "address": "10.88.0.2/24",
            "gateway": "10.88.0.1"
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        }
    ],
    "dns": {}
}"#;
    let by_family = r#"{
    "cniVersion": "VERSION",
    "ip4": {
        "ip": "10.88.0.2/24",
        "gateway": "10.88.0.1",
        "routes": [
            {
                "dst": "0.0.0.0/0"
            }
        ]
    },
    "dns": {}
}"#;
    for version in versions_of("bridge") {
        let sandbox = Sandbox::new();
        let container = sandbox.container("ctr1");
        let outcome = call(&sandbox, "bridge", Verb::Add, &container).config(&config("bridge", version)).run();
        let host = Network::observe(sandbox.host());
        let port = host.links.iter().find(|link| link.kind.as_deref() == Some("veth")).expect("a port of the bridge");
        let golden = shape(version, by_family, declared, sorted)
            .replace("BRIDGE_MAC", &host.link("br0").expect("br0").mac)
            .replace("PORT_MAC", &port.mac)
            .replace("ETH0_MAC", &Network::observe(&container).link("eth0").expect("eth0").mac)
            .replace("PORT", &port.name);
        assert_printed(&outcome, &golden, version);
    }
}

/// All that a result of 1.1.0 may hold; `x-` keys are nobody's.
fn full() -> Value {
    json!({
        "interfaces": [
            {"name": "br0", "mac": "aa:aa:aa:aa:aa:aa", "mtu": 1400, "x-a": 1},
            {"name": "eth0", "mac": "a<b&c>", "sandbox": "/run/netns/ctr1", "socketPath": "/s", "pciID": "00:1f.6"},
        ],
        "ips": [{"address": "10.88.0.5/24", "gateway": "10.88.0.1", "interface": 1, "x-b": {}}],
        "routes": [{
            "dst": "10.9.0.1/16", "gw": "10.88.0.9", "mtu": 1300, "advmss": 1200, "priority": 7, "table": 0, "scope": 253,
        }],
        "dns": {"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["a"], "options": ["b"]},
        "x-c": [],
    })
}

/// The members that older plugins know no version of are dropped, HTML is escaped, zero is kept
/// where it is a value. Go v1.1.1 drops more.
#[test]
fn a_chained_plugin_prints_what_it_got_without_unknown_members() {
    let golden = r#"{
    "cniVersion": "VERSION",
    "dns": {
        "domain": "example.org",
        "nameservers": [
            "192.0.2.53"
        ],
        "options": [
            "b"
        ],
        "search": [
            "a"
        ]
    },
    "interfaces": [
        {
            "mac": "aa:aa:aa:aa:aa:aa",
            "mtu": 1400,
            "name": "br0"
        },
        {
            "mac": "a\u003cb\u0026c\u003e",
            "name": "eth0",
            "pciID": "00:1f.6",
            "sandbox": "/run/netns/ctr1",
            "socketPath": "/s"
        }
    ],
    "ips": [
        {
            "address": "10.88.0.5/24",
            "gateway": "10.88.0.1",
            "interface": 1
        }
    ],
    "routes": [
        {
            "advmss": 1200,
            "dst": "10.9.0.1/16",
            "gw": "10.88.0.9",
            "mtu": 1300,
            "priority": 7,
            "scope": 253,
            "table": 0
        }
    ]
}"#;
    let sandbox = Sandbox::new();
    let container = sandbox.container("ctr1");
    for plugin in ["loopback", "firewall", "portmap"] {
        for version in ["1.0.0", "1.1.0"] {
            let config = with(&config(plugin, version), &json!({"prevResult": full()}));
            assert_printed(&call(&sandbox, plugin, Verb::Add, &container).config(&config).run(), golden, version);
        }
    }
}

#[test]
fn a_chained_plugin_prints_0_4_0_in_the_order_of_its_spec() {
    let golden = r#"{
    "cniVersion": "VERSION",
    "interfaces": [
        {
            "name": "br0",
            "mac": "aa:aa:aa:aa:aa:aa"
        },
        {
            "name": "eth0",
            "mac": "a\u003cb\u0026c\u003e",
            "sandbox": "/run/netns/ctr1"
        }
    ],
    "ips": [
        {
            "version": "4",
            "interface": 1,
            "address": "10.88.0.5/24",
            "gateway": "10.88.0.1"
        }
    ],
    "routes": [
        {
            "dst": "10.9.0.1/16",
            "gw": "10.88.0.9",
            "mtu": 1300,
            "advmss": 1200,
            "priority": 7,
            "table": 0,
            "scope": 253
        }
    ],
    "dns": {
        "nameservers": [
            "192.0.2.53"
        ],
        "domain": "example.org",
        "search": [
            "a"
        ],
        "options": [
            "b"
        ]
    }
}"#;
    let sandbox = Sandbox::new();
    let container = sandbox.container("ctr1");
    for plugin in ["loopback", "firewall", "portmap"] {
        for version in versions_of(plugin).iter().filter(|version| ["0.3.0", "0.3.1", "0.4.0"].contains(version)) {
            let config = with(&config(plugin, version), &json!({"prevResult": full()}));
            assert_printed(&call(&sandbox, plugin, Verb::Add, &container).config(&config).run(), golden, version);
        }
    }
}

#[test]
fn check_and_del_print_nothing() {
    for plugin in PLUGINS {
        for version in ["0.4.0", "1.0.0", "1.1.0"] {
            let sandbox = Sandbox::new();
            let container = sandbox.container("ctr1");
            let mut config = config(plugin, version);
            let result = call(&sandbox, plugin, Verb::Add, &container).config(&config).run().result();
            config["prevResult"] = result;
            for verb in [Verb::Check, Verb::Del, Verb::Del] {
                let outcome = call(&sandbox, plugin, verb, &container).config(&config).run();
                assert_eq!((outcome.code(), outcome.stdout()), (Some(0), ""), "{outcome}");
            }
        }
    }
}
