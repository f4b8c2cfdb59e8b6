//! What plugins print, to the byte: indented by four, no newline at the end.
//!
//! In the place of `VERSION` stands the version, in that of other words in capitals what differs from
//! run to run.

/// The shapes of one result.
#[derive(Clone, Copy)]
pub struct Shapes {
    /// Up to 0.2.0: one address of each family, and no interface.
    by_family: &'static str,
    /// From 0.3.0 to 0.4.0: in the order of the SPEC, with a `dns` that may be empty.
    declared: &'static str,
    /// Since 1.0.0: keys are sorted.
    sorted: &'static str,
}

impl Shapes {
    /// The document of a version.
    pub fn of(&self, version: &str) -> String {
        let shape = match version {
            "0.1.0" | "0.2.0" => self.by_family,
            "1.0.0" | "1.1.0" => self.sorted,
            _ => self.declared,
        };
        shape.replace("VERSION", version)
    }
}

/// Two addresses, with routes and name resolution.
pub const HOST_LOCAL: Shapes = Shapes {
    by_family: r#"{
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
}"#,
    declared: r#"{
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
}"#,
    sorted: r#"{
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
}"#,
};

/// `lo`, with an address of each family.
pub const LOOPBACK: Shapes = Shapes {
    by_family: r#"{
    "cniVersion": "VERSION",
    "ip4": {
        "ip": "127.0.0.1/8"
    },
    "ip6": {
        "ip": "::1/128"
    },
    "dns": {}
}"#,
    declared: r#"{
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
}"#,
    sorted: r#"{
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
}"#,
};

/// Three interfaces, one address and a route.
pub const BRIDGE: Shapes = Shapes {
    by_family: r#"{
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
}"#,
    declared: r#"{
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
}"#,
    sorted: r#"{
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
}"#,
};

/// All that a result may hold, from 0.3.0 to 0.4.0.
pub const FULL_DECLARED: &str = r#"{
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

/// The same since 1.0.0.
pub const FULL_SORTED: &str = r#"{
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
