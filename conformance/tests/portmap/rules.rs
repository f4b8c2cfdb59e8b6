//! The portmap plugin's rules: host ports, and masquerading.
//!
//! Golden texts are dumps of the reference for network `n1`, container `ctr1`.

use cni_conformance::standalone::bridge_result;
use cni_conformance::{PortMapping, Sandbox, Spelling, Standalone, Verb, ports};
use serde_json::{Value, json};

use cni_conformance::golden::{DUAL, PROGRAMS, V4, assert_rules, assert_untouched, on_both_flavours, rules, without};

/// One tcp port.
const ONE_PORT_V4: &str = r#"
-N CNI-DN-c189d8b6a7b4d184c9f70
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
"#;

/// A tcp and a udp port.
const TWO_PORTS_V4: &str = r#"
-N CNI-DN-c189d8b6a7b4d184c9f70
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p udp -m udp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p udp -m udp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p udp -m udp --dport 8081 -j DNAT --to-destination 10.88.0.5:81
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8081 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
"#;

/// `hostIP` in all its forms: the container's chain for IPv4.
const LISTEN_V4: &str = r#"
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8081 -j DNAT --to-destination 10.88.0.5:81
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8084 -j DNAT --to-destination 10.88.0.5:84
"#;

/// The same for IPv6.
const LISTEN_V6: &str = r#"
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -d fd00:88::1/128 -p udp -m udp --dport 8082 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -d fd00:88::1/128 -p udp -m udp --dport 8082 -j DNAT --to-destination [fd00:88::5]:82
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p sctp -m sctp --dport 8083 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8083 -j DNAT --to-destination [fd00:88::5]:83
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8084 -j DNAT --to-destination [fd00:88::5]:84
"#;

/// The same: the rules that lead there, in either family.
const LISTEN_ENTRIES: &str = r#"
-A CNI-HOSTPORT-DNAT -p sctp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8083,8084 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080,8081 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8082 -j CNI-DN-c189d8b6a7b4d184c9f70
"#;

/// Twenty tcp and twenty udp ports: no rule takes more than 15.
const FORTY_ENTRIES: &str = r#"
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9000,9001,9002,9003,9004,9005,9006,9007,9008,9009,9010,9011,9012,9013,9014 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9015,9016,9017,9018,9019 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9000,9001,9002,9003,9004,9005,9006,9007,9008,9009,9010,9011,9012,9013,9014 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9015,9016,9017,9018,9019 -j CNI-DN-c189d8b6a7b4d184c9f70
"#;

/// With `"snat":false`.
const NO_SNAT_V4: &str = r#"
-N CNI-DN-c189d8b6a7b4d184c9f70
-N CNI-HOSTPORT-DNAT
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
"#;

/// With `"externalSetMarkChain":"KUBE-MARK-MASQ"`, a chain made beforehand.
const EXTERNAL_V4: &str = r#"
-N CNI-DN-c189d8b6a7b4d184c9f70
-N CNI-HOSTPORT-DNAT
-N KUBE-MARK-MASQ
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
"#;

/// What stays when the container is gone, in both families.
fn after_del() -> String {
    without(ONE_PORT_V4, "CNI-DN-")
}

/// [`TWO_PORTS_V4`] for IPv6, whose loopback address is not translated.
fn two_ports_v6() -> String {
    without(TWO_PORTS_V4, "127.0.0.1").replace("10.88.0.0/24", "fd00:88::/64").replace("10.88.0.5:", "[fd00:88::5]:")
}

fn plugin<'s>(sandbox: &'s Sandbox, addresses: &[&str], mappings: &[PortMapping], keys: Value) -> Standalone<'s> {
    let mut portmap = Standalone::new(sandbox, "portmap", "ctr1", &bridge_result("br0", addresses), &keys);
    portmap.config["runtimeConfig"] = json!({"portMappings": ports::render(mappings, Spelling::Spec)});
    portmap
}

fn one_port() -> [PortMapping; 1] {
    [PortMapping::new(8080, 80, "tcp")]
}

fn two_ports() -> [PortMapping; 2] {
    [PortMapping::new(8080, 80, "tcp"), PortMapping::new(8081, 81, "udp")]
}

/// Puts other lines in the place of those that start so.
fn replaced(golden: &str, start: &str, lines: &str) -> String {
    let mut place = Some(lines);
    let mut kept = Vec::new();
    for line in golden.lines() {
        if !line.starts_with(start) {
            kept.push(line);
        } else if let Some(lines) = place.take() {
            kept.extend(lines.lines());
        }
    }
    assert!(place.is_none(), "no line starts with {start} in\n{golden}");
    kept.join("\n")
}

const OWN: &str = "-A CNI-DN-c189d8b6a7b4d184c9f70 ";
const ENTRY: &str = "-A CNI-HOSTPORT-DNAT ";

#[test]
fn one_port_for_ipv4_touches_no_table_of_ipv6() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, V4, &one_port(), json!({})).add();
        assert_rules(sandbox, "iptables", "nat", ONE_PORT_V4);
        assert_rules(sandbox, "iptables", "filter", "");
        assert_untouched(sandbox, "ip6tables");
    });
}

#[test]
fn two_protocols_for_both_families_and_del_leaves_what_all_share() {
    on_both_flavours(|sandbox| {
        let portmap = plugin(sandbox, DUAL, &two_ports(), json!({"snat": true}));
        portmap.add();
        assert_rules(sandbox, "iptables", "nat", TWO_PORTS_V4);
        assert_rules(sandbox, "ip6tables", "nat", &two_ports_v6());
        portmap.del();
        for program in PROGRAMS {
            assert_rules(sandbox, program, "nat", &after_del());
        }
    });
}

#[test]
fn a_repeated_add_or_del_changes_no_rule() {
    on_both_flavours(|sandbox| {
        let portmap = plugin(sandbox, DUAL, &two_ports(), json!({}));
        portmap.add();
        portmap.add();
        assert_rules(sandbox, "iptables", "nat", TWO_PORTS_V4);
        assert_rules(sandbox, "ip6tables", "nat", &two_ports_v6());
        portmap.del();
        portmap.del();
        assert_rules(sandbox, "iptables", "nat", &after_del());
    });
}

#[test]
fn host_addresses_narrow_the_rules_of_their_family() {
    on_both_flavours(|sandbox| {
        let mappings = [
            PortMapping::new(8080, 80, "tcp").on("10.88.0.1"),
            PortMapping::new(8081, 81, "tcp").on("0.0.0.0"),
            PortMapping::new(8082, 82, "udp").on("fd00:88::1"),
            PortMapping::new(8083, 83, "sctp").on("::"),
            PortMapping::new(8084, 84, "sctp"),
        ];
        plugin(sandbox, DUAL, &mappings, json!({})).add();
        for (program, own) in [("iptables", LISTEN_V4), ("ip6tables", LISTEN_V6)] {
            let golden = replaced(&replaced(ONE_PORT_V4, OWN, own), ENTRY, LISTEN_ENTRIES);
            assert_rules(sandbox, program, "nat", &golden);
        }
    });
}

#[test]
fn forty_ports_keep_their_order_in_four_rules_of_at_most_15() {
    on_both_flavours(|sandbox| {
        let mappings: Vec<PortMapping> = (0..20).flat_map(|n| PortMapping::twins(9000 + n, 90 + n)).collect();
        let portmap = plugin(sandbox, V4, &mappings, json!({}));
        portmap.add();
        let own: Vec<String> = mappings.iter().map(rules_of).collect();
        let golden = replaced(&replaced(ONE_PORT_V4, OWN, &own.join("\n")), ENTRY, FORTY_ENTRIES);
        assert_rules(sandbox, "iptables", "nat", &golden);
        portmap.del();
        assert_rules(sandbox, "iptables", "nat", &after_del());
    });
}

/// The three rules of one mapping in the container's chain.
fn rules_of(mapping: &PortMapping) -> String {
    let PortMapping { host_port, container_port, protocol, .. } = mapping;
    let packets = format!("-p {protocol} -m {protocol} --dport {host_port}");
    format!(
        "{OWN}-s 10.88.0.0/24 {packets} -j CNI-HOSTPORT-SETMARK\n\
         {OWN}-s 127.0.0.1/32 {packets} -j CNI-HOSTPORT-SETMARK\n\
         {OWN}{packets} -j DNAT --to-destination 10.88.0.5:{container_port}"
    )
}

#[test]
fn without_snat_nothing_is_marked() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, DUAL, &one_port(), json!({"snat": false})).add();
        assert_rules(sandbox, "iptables", "nat", NO_SNAT_V4);
        let v6 = NO_SNAT_V4.replace("10.88.0.5:80", "[fd00:88::5]:80");
        assert_rules(sandbox, "ip6tables", "nat", &v6);
    });
}

#[test]
fn masq_all_marks_whatever_its_source() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, DUAL, &one_port(), json!({"masqAll": true})).add();
        for (program, address) in [("iptables", "10.88.0.5"), ("ip6tables", "[fd00:88::5]")] {
            let own = format!(
                "{OWN}-p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK\n\
                 {OWN}-p tcp -m tcp --dport 8080 -j DNAT --to-destination {address}:80"
            );
            assert_rules(sandbox, program, "nat", &replaced(ONE_PORT_V4, OWN, &own));
        }
    });
}

#[test]
fn mark_masq_bit_is_the_bit_of_the_mark() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, V4, &one_port(), json!({"markMasqBit": 5})).add();
        assert_rules(sandbox, "iptables", "nat", &ONE_PORT_V4.replace("0x2000", "0x20"));
    });
    let sandbox = Sandbox::new();
    for (bit, mark) in [(0, "0x1"), (31, "0x80000000")] {
        let portmap = plugin(&sandbox, V4, &one_port(), json!({"markMasqBit": bit}));
        portmap.add();
        assert_rules(&sandbox, "iptables", "nat", &ONE_PORT_V4.replace("0x2000", mark));
        for command in ["-F", "-X"] {
            sandbox.sh(&format!("iptables -t nat {command}"));
        }
    }
}

#[test]
fn conditions_stand_in_the_rules_that_lead_to_the_container() {
    on_both_flavours(|sandbox| {
        let keys = json!({
            "conditionsV4": ["!", "-d", "192.0.2.0/24"],
            "conditionsV6": ["!", "-d", "2001:db8::/32", "-i", "uplink0"],
        });
        let portmap = plugin(sandbox, DUAL, &two_ports(), keys);
        portmap.add();
        let v4 = TWO_PORTS_V4.replace(ENTRY, &format!("{ENTRY}! -d 192.0.2.0/24 "));
        assert_rules(sandbox, "iptables", "nat", &v4);
        let v6 = two_ports_v6().replace(ENTRY, &format!("{ENTRY}! -d 2001:db8::/32 -i uplink0 "));
        assert_rules(sandbox, "ip6tables", "nat", &v6);
        portmap.del();
        for program in PROGRAMS {
            assert_rules(sandbox, program, "nat", &after_del());
        }
    });
}

/// In other words than those by which iptables lists them; one rule of them may be several.
#[test]
fn conditions_in_any_spelling_are_found_by_check() {
    let spellings = [
        (json!(["-s", "192.0.2.1"]), json!(["-s", "2001:db8::1"])),
        (json!(["-s", "192.0.2.1,192.0.2.2"]), json!(["-s", "2001:DB8::1,2001:db8::2"])),
        (json!(["-m", "mark", "--mark", "5"]), json!(["-m", "mark", "--mark", "5"])),
        (json!(["-i", "eth+", "-m", "mark", "--mark", "5"]), json!(["-m", "conntrack", "--ctstate", "NEW"])),
        (json!(["!", "-d", "127.0.0.0/255.0.0.0"]), json!(["!", "-d", "::1"])),
        (json!(["-d", "localhost"]), json!(["-d", "2001:db8::1/64"])),
        (
            json!(["-s", "192.0.2.1", "-m", "comment", "--comment", "a b \"q\""]),
            json!(["-m", "comment", "--comment", "a"]),
        ),
        (json!(["-m", "addrtype", "!", "--src-type", "local"]), json!(["-m", "addrtype", "!", "--src-type", "LOCAL"])),
    ];
    on_both_flavours(|sandbox| {
        for (v4, v6) in &spellings {
            let portmap = plugin(sandbox, DUAL, &two_ports(), json!({"conditionsV4": v4, "conditionsV6": v6}));
            portmap.add();
            let made = PROGRAMS.map(|program| rules(sandbox, program, "nat"));
            portmap.check();
            portmap.add();
            portmap.check();
            assert_eq!(PROGRAMS.map(|program| rules(sandbox, program, "nat")), made, "{v4} {v6}");
            let others =
                plugin(sandbox, DUAL, &two_ports(), json!({"conditionsV4": ["-s", "192.0.2.9"], "conditionsV6": v6}));
            others.call(Verb::Check).run().expect_error(100, "192.0.2.9");
            for program in PROGRAMS {
                let made = rules(sandbox, program, "nat");
                let mut entries = made.iter().filter(|rule| rule.starts_with("-A CNI-HOSTPORT-DNAT "));
                let last = entries.position(|rule| rule.contains("--dports 8081 ")).expect("an entry") + 1;
                sandbox.sh(&format!("{program} -t nat -D CNI-HOSTPORT-DNAT {last}"));
                portmap.call(Verb::Check).run().expect_error(100, "--dports 8081");
                portmap.add();
                portmap.check();
            }
            portmap.del();
            for program in PROGRAMS {
                assert_rules(sandbox, program, "nat", &after_del());
            }
        }
    });
}

#[test]
fn an_external_chain_marks_in_the_place_of_ours() {
    on_both_flavours(|sandbox| {
        sandbox.sh("iptables -t nat -N KUBE-MARK-MASQ");
        let portmap = plugin(sandbox, V4, &one_port(), json!({"externalSetMarkChain": "KUBE-MARK-MASQ"}));
        portmap.add();
        assert_rules(sandbox, "iptables", "nat", EXTERNAL_V4);
        portmap.del();
        let shared: Vec<&str> = EXTERNAL_V4.lines().filter(|line| !line.contains("CNI-DN-")).collect();
        assert_rules(sandbox, "iptables", "nat", &shared.join("\n"));
    });
}

/// `xt_comment` keeps 255 bytes, and the reference ends what it cuts with dots.
#[test]
fn a_long_container_id_is_cut_in_the_comment_only() {
    on_both_flavours(|sandbox| {
        let id = "x".repeat(300);
        let mut portmap = plugin(sandbox, V4, &one_port(), json!({}));
        portmap.id.clone_from(&id);
        portmap.add();
        let comment = format!(r#"dnat name: "n1" id: "{id}"#);
        let comment = format!("{}..", &comment[..253]).replace('"', "\\\"");
        let golden = ONE_PORT_V4
            .replace(r#"dnat name: \"n1\" id: \"ctr1\""#, &comment)
            .replace("CNI-DN-c189d8b6a7b4d184c9f70", "CNI-DN-837a3d0a610059c0411b6");
        assert_rules(sandbox, "iptables", "nat", &golden);
        portmap.del();
        assert_rules(sandbox, "iptables", "nat", &after_del());
    });
}

#[test]
fn without_ports_there_are_no_rules() {
    on_both_flavours(|sandbox| {
        let portmap = plugin(sandbox, DUAL, &[], json!({}));
        portmap.add();
        portmap.del();
        for program in PROGRAMS {
            assert!(rules(sandbox, program, "nat").is_empty(), "{program} has rules");
        }
    });
}

/// Go v1.1.1 looks for IPv4 rules among those of IPv6.
#[test]
fn check_accepts_what_add_made_and_changes_no_rule() {
    on_both_flavours(|sandbox| {
        sandbox.sh("iptables -t nat -N KUBE-MARK-MASQ");
        sandbox.sh("ip6tables -t nat -N KUBE-MARK-MASQ");
        let variants = [
            json!({}),
            json!({"snat": false}),
            json!({"masqAll": true}),
            json!({"markMasqBit": 5}),
            json!({"conditionsV4": ["!", "-d", "192.0.2.0/24"], "conditionsV6": ["!", "-d", "2001:db8::/32"]}),
            json!({"externalSetMarkChain": "KUBE-MARK-MASQ"}),
        ];
        for keys in variants {
            let portmap = plugin(sandbox, DUAL, &two_ports(), keys);
            portmap.add();
            let before = PROGRAMS.map(|program| rules(sandbox, program, "nat"));
            portmap.check();
            assert_eq!(PROGRAMS.map(|program| rules(sandbox, program, "nat")), before);
            portmap.del();
        }
    });
}
