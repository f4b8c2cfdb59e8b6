//! What portmap refuses.

use serde_json::{Value, json};

use super::{REFUSED_BY_KERNEL, REFUSED_BY_PROGRAM, Row, UNREADABLE, UNUSABLE, V6, mapping, row};

/// All of it.
pub fn rows() -> Vec<Row> {
    let of_both = |backend| [ports(backend), protocols(backend), host_ips(backend), options(backend)];
    let rows = ["iptables", "nftables"].into_iter().flat_map(of_both);
    rows.chain([words_of_iptables(), words_of_nft()]).flatten().collect()
}

fn ports(backend: &'static str) -> Vec<Row> {
    let row = |key: &str, value: Value, code, msg: &str, details: &str| {
        row("portmap", backend, json!({"runtimeConfig": mapping(&json!({key: value}))}), code, msg, details)
    };
    let mut rows = Vec::new();
    for (key, side) in [("hostPort", "host"), ("containerPort", "container")] {
        for port in [0, -1, 65_536, i64::MAX] {
            let details = format!("runtimeConfig.portMappings[0].{key} must be between 1 and 65535");
            rows.push(row(key, json!(port), UNUSABLE, &format!("Invalid {side} port number: {port}"), &details));
        }
        for (port, shown) in [
            (json!("80"), "string \"80\""),
            (json!(""), "string \"\""),
            (json!(1.5), "floating point `1.5`"),
            (json!(1e20), "floating point `100000000000000000000.0`"),
            (json!(true), "boolean `true`"),
            (json!([80]), "sequence"),
            (json!({"port": 80}), "map"),
        ] {
            let details = format!("runtimeConfig.portMappings[0].{key}: invalid type: {shown}");
            rows.push(row(key, port, UNREADABLE, "failed to load netconf", &details));
        }
    }
    rows
}

fn protocols(backend: &'static str) -> Vec<Row> {
    let row = |value: Value, code, msg: &str, details: &str| {
        row("portmap", backend, json!({"runtimeConfig": mapping(&json!({"protocol": value}))}), code, msg, details)
    };
    let key = "runtimeConfig.portMappings[0].protocol";
    let unknown = ["icmp", "dccp", "udplite", "tcp ", "tcp,udp", "6", "-p", ""].into_iter().map(|protocol| {
        let details = format!("{key} must be tcp, udp or sctp");
        row(json!(protocol), UNUSABLE, &format!("Invalid protocol: {protocol:?}"), &details)
    });
    let wrong = [(json!(6), "integer `6`"), (json!(["tcp"]), "sequence"), (json!(false), "boolean `false`")];
    let wrong = wrong.into_iter().map(|(value, shown)| {
        row(value, UNREADABLE, "failed to load netconf", &format!("{key}: invalid type: {shown}"))
    });
    unknown.chain(wrong).collect()
}

fn host_ips(backend: &'static str) -> Vec<Row> {
    let row = |value: Value, code, msg: &str, details: &str| {
        row("portmap", backend, json!({"runtimeConfig": mapping(&json!({"hostIP": value}))}), code, msg, details)
    };
    let key = "runtimeConfig.portMappings[0].hostIP";
    let no_address = [
        "x",
        "localhost",
        "10.0.0.300",
        "1.2.3",
        "010.0.0.1",
        " 10.0.0.1",
        "10.0.0.1/32",
        "10.0.0.0/8",
        "fd00::1/128",
        "fe80::1%eth0",
        "::1%1",
        "[::1]",
        "10.0.0.1:80",
        "10.0.0.1,10.0.0.2",
        "!10.0.0.1",
    ];
    let no_address = no_address.into_iter().map(|ip| {
        let details = format!("{key} must be an IP address, or empty");
        row(json!(ip), UNUSABLE, &format!("Invalid host IP: {ip:?}"), &details)
    });
    let wrong = [(json!(7), "integer `7`"), (json!(["10.0.0.1"]), "sequence")];
    let wrong = wrong.into_iter().map(|(value, shown)| {
        row(value, UNREADABLE, "failed to load netconf", &format!("{key}: invalid type: {shown}"))
    });
    no_address.chain(wrong).collect()
}

/// Keys of portmap that both back ends read.
fn options(backend: &'static str) -> Vec<Row> {
    let row = |keys, code, msg: &str, details: &str| row("portmap", backend, keys, code, msg, details);
    let mut rows = Vec::new();
    for key in ["snat", "masqAll"] {
        for (value, shown) in
            [(json!("true"), "string \"true\""), (json!(1), "integer `1`"), (json!([true]), "sequence")]
        {
            let details = format!("{key}: invalid type: {shown}, expected a boolean");
            rows.push(row(json!({key: value}), UNREADABLE, "failed to load netconf", &details));
        }
    }
    for bit in [-1, 32, i64::MIN] {
        let details = format!("markMasqBit is {bit}");
        rows.push(row(json!({"markMasqBit": bit}), UNUSABLE, "MasqMarkBit must be between 0 and 31", &details));
    }
    for (bit, shown) in [(json!("13"), "string \"13\""), (json!(1.5), "floating point `1.5`")] {
        let details = format!("markMasqBit: invalid type: {shown}");
        rows.push(row(json!({"markMasqBit": bit}), UNREADABLE, "failed to load netconf", &details));
    }
    for bit in [13, 5, 99] {
        let keys = json!({"markMasqBit": bit, "externalSetMarkChain": "KUBE-MARK-MASQ"});
        let details = format!("externalSetMarkChain is \"KUBE-MARK-MASQ\", markMasqBit is {bit}");
        rows.push(row(keys, UNUSABLE, "Cannot specify externalSetMarkChain and markMasqBit", &details));
    }
    for name in ["", "A B", "-x", "C23456789-123456789-123456789"] {
        let msg = format!("invalid externalSetMarkChain {name:?}");
        rows.push(row(
            json!({"externalSetMarkChain": name}),
            UNUSABLE,
            &msg,
            "an iptables chain has 1 to 28 characters",
        ));
    }
    for name in ["", "firewalld", "none", "NFTables", "iptables "] {
        let msg = format!("unrecognized backend {name:?}");
        rows.push(row(json!({"backend": name}), UNUSABLE, &msg, "backend must be iptables or nftables"));
    }
    rows.push(row(json!({"backend": 7}), UNREADABLE, "failed to load netconf", "backend: invalid type: integer `7`"));
    for key in ["conditionsV4", "conditionsV6"] {
        let details = format!("{key}: invalid type: string \"-s\"");
        rows.push(row(json!({key: "-s"}), UNREADABLE, "failed to load netconf", &details));
    }
    rows
}

/// Words for the other back end, and words that iptables refuses.
fn words_of_iptables() -> Vec<Row> {
    let row = |keys, code, msg: &str, details: &str| row("portmap", "iptables", keys, code, msg, details);
    let foreign = |keys: Value, named: &str| {
        let msg =
            format!("iptables backend was requested but configuration contains nftables-specific options [{named}]");
        row(keys, UNUSABLE, &msg, "conditions of iptables start with - or !")
    };
    let refused = |keys: Value, family: &str, details: &str| {
        row(keys, REFUSED_BY_KERNEL, &format!("the {family} rules of table nat were refused"), details)
    };
    let of_v6 = |refused: Row| Row { addresses: V6, ..refused };
    vec![
        foreign(json!({"conditionsV4": ["ip", "saddr", "10.0.0.0/8"]}), "conditionsV4"),
        foreign(json!({"conditionsV4": ["ip"], "conditionsV6": ["ip6"]}), "conditionsV4 conditionsV6"),
        refused(json!({"conditionsV4": ["-s", "fd00::/8"]}), "v4", "conditionsV4 is [\"-s\", \"fd00::/8\"]"),
        refused(json!({"conditionsV4": ["!", "-d", "fd00::1"]}), "v4", "conditionsV4 is [\"!\", \"-d\", \"fd00::1\"]"),
        of_v6(refused(json!({"conditionsV6": ["-s", "10.0.0.0/8"]}), "v6", "conditionsV6 is [\"-s\", \"10.0.0.0/8\"]")),
        refused(json!({"conditionsV4": ["-s"]}), "v4", "conditionsV4 is [\"-s\"]"),
        refused(json!({"conditionsV4": ["--no-such-option"]}), "v4", "conditionsV4 is [\"--no-such-option\"]"),
        refused(json!({"externalSetMarkChain": "NOT-THERE"}), "v4", "externalSetMarkChain is \"NOT-THERE\""),
    ]
}

fn words_of_nft() -> Vec<Row> {
    let row = |keys, code, msg: &str, details: &str| row("portmap", "nftables", keys, code, msg, details);
    let foreign = |keys: Value, named: &str| {
        let msg =
            format!("nftables backend was requested but configuration contains iptables-specific options [{named}]");
        row(keys, UNUSABLE, &msg, "conditions of nftables do not start with - or !")
    };
    let refused = |keys: Value, details: &str| {
        row(keys, REFUSED_BY_PROGRAM, "/usr/sbin/nft -f - failed, exit status: 1", details)
    };
    let of_v6 = |refused: Row| Row { addresses: V6, ..refused };
    vec![
        foreign(json!({"conditionsV4": ["-s", "10.0.0.0/8"]}), "conditionsV4"),
        foreign(json!({"conditionsV4": ["!", "-s"], "conditionsV6": ["-s"]}), "conditionsV4 conditionsV6"),
        foreign(json!({"externalSetMarkChain": "KUBE-MARK-MASQ"}), "externalSetMarkChain"),
        refused(
            json!({"conditionsV4": ["ip6", "saddr", "fd00::/8"]}),
            "conditionsV4 is [\"ip6\", \"saddr\", \"fd00::/8\"]",
        ),
        refused(
            json!({"conditionsV4": ["ip", "saddr", "fd00::/8"]}),
            "conditionsV4 is [\"ip\", \"saddr\", \"fd00::/8\"]",
        ),
        of_v6(refused(json!({"conditionsV6": ["ip", "saddr", "10.0.0.0/8"]}), "conditionsV6 is [\"ip\", \"saddr\"")),
        refused(json!({"conditionsV4": ["no", "such", "words"]}), "conditionsV4 is [\"no\", \"such\", \"words\"]"),
        row(
            json!({"conditionsV4": ["ip", "saddr;"]}),
            UNUSABLE,
            "invalid word \"saddr;\" in conditionsV4",
            "conditionsV4[1]",
        ),
    ]
}
