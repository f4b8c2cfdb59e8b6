//! The rules on a machine, against what `iptables-save` prints on one where the reference plugin worked.

use super::*;

/// The lines of a dump by chain, in the order that they have there.
fn by_chain(text: &str) -> Vec<String> {
    let line = |line: &str| match line.strip_prefix(':') {
        Some(chain) => format!("-N {}", chain.trim_end_matches(" -")),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort_by_key(|line| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>());
    lines
}

fn assert_dump(machine: &FakeHost, family: Family, want: &str) {
    assert_eq!(by_chain(&dump(machine, family)), by_chain(want));
}

/// The lines of a dump that lead to, or are in, the container's own chain.
fn own_lines(machine: &FakeHost, family: Family) -> String {
    let text = dump(machine, family);
    let own = text.lines().filter(|line| line.starts_with("-A") && line.contains("CNI-DN-c189d8b6a7b4d184c9f70"));
    own.collect::<Vec<_>>().join("\n")
}

fn added(keys: &str, mappings: &str, ips: &[&str]) -> FakeHost {
    let mut machine = routed();
    Caller::new("ctr1", keys, mappings, ips).add(&mut machine).expect("added");
    machine
}

const ONE_PORT: &str = r#":CNI-DN-c189d8b6a7b4d184c9f70 -
:CNI-HOSTPORT-DNAT -
:CNI-HOSTPORT-MASQ -
:CNI-HOSTPORT-SETMARK -
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000"#;

#[test]
fn one_port() {
    let machine = added("", TCP_8080, &["10.88.0.5/24"]);
    assert_dump(&machine, Family::V4, ONE_PORT);
    assert_eq!(dump(&machine, Family::V6), "");
}

const AFTER_DEL: &str = r#":CNI-HOSTPORT-DNAT -
:CNI-HOSTPORT-MASQ -
:CNI-HOSTPORT-SETMARK -
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000"#;

#[test]
fn after_del() {
    let mut machine = added("", TCP_8080, &["10.88.0.5/24"]);
    Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).del(&mut machine).expect("removed");
    assert_dump(&machine, Family::V4, AFTER_DEL);
}

const DUAL_V4: &str = r#":CNI-DN-c189d8b6a7b4d184c9f70 -
:CNI-HOSTPORT-DNAT -
:CNI-HOSTPORT-MASQ -
:CNI-HOSTPORT-SETMARK -
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
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000"#;

const DUAL_V6: &str = r#":CNI-DN-c189d8b6a7b4d184c9f70 -
:CNI-HOSTPORT-DNAT -
:CNI-HOSTPORT-MASQ -
:CNI-HOSTPORT-SETMARK -
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination [fd00:88::5]:80
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p udp -m udp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p udp -m udp --dport 8081 -j DNAT --to-destination [fd00:88::5]:81
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8081 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000"#;

#[test]
fn dual_stack_with_two_protocols() {
    let udp = r#"{"hostPort":8081,"containerPort":81,"protocol":"udp"}"#;
    let machine = added("", &format!("{TCP_8080},{udp}"), &["10.88.0.5/24", "fd00:88::5/64"]);
    assert_dump(&machine, Family::V4, DUAL_V4);
    assert_dump(&machine, Family::V6, DUAL_V6);
}

const HOST_IP_V4: &str = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -d 10.88.0.1/32 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8081 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8081 -j DNAT --to-destination 10.88.0.5:81
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8084 -j DNAT --to-destination 10.88.0.5:84
-A CNI-HOSTPORT-DNAT -p sctp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8083,8084 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080,8081 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8082 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

const HOST_IP_V6: &str = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -d fd00:88::1/128 -p udp -m udp --dport 8082 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -d fd00:88::1/128 -p udp -m udp --dport 8082 -j DNAT --to-destination [fd00:88::5]:82
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p sctp -m sctp --dport 8083 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8083 -j DNAT --to-destination [fd00:88::5]:83
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p sctp -m sctp --dport 8084 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8084 -j DNAT --to-destination [fd00:88::5]:84
-A CNI-HOSTPORT-DNAT -p sctp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8083,8084 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080,8081 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8082 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

#[test]
fn every_form_of_host_ip() {
    let mappings = [
        (8080, 80, "tcp", "10.88.0.1"),
        (8081, 81, "tcp", "0.0.0.0"),
        (8082, 82, "udp", "fd00:88::1"),
        (8083, 83, "sctp", "::"),
        (8084, 84, "sctp", ""),
    ];
    let mappings = mappings.map(|(host, container, protocol, ip)| {
        format!(r#"{{"hostPort":{host},"containerPort":{container},"protocol":"{protocol}","hostIP":"{ip}"}}"#)
    });
    let machine = added("", &mappings.join(","), &["10.88.0.5/24", "fd00:88::5/64"]);
    assert_eq!(own_lines(&machine, Family::V4), HOST_IP_V4);
    assert_eq!(own_lines(&machine, Family::V6), HOST_IP_V6);
}

const MANY_PORTS_HEAD: &str = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 9000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 9000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 9000 -j DNAT --to-destination 10.88.0.5:90
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p udp -m udp --dport 9000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p udp -m udp --dport 9000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p udp -m udp --dport 9000 -j DNAT --to-destination 10.88.0.5:90"#;

const MANY_PORTS_TAIL: &str = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p udp -m udp --dport 9019 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p udp -m udp --dport 9019 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p udp -m udp --dport 9019 -j DNAT --to-destination 10.88.0.5:109
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9000,9001,9002,9003,9004,9005,9006,9007,9008,9009,9010,9011,9012,9013,9014 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9015,9016,9017,9018,9019 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9000,9001,9002,9003,9004,9005,9006,9007,9008,9009,9010,9011,9012,9013,9014 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9015,9016,9017,9018,9019 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

#[test]
fn many_ports() {
    let pair = |offset: u16| {
        ["tcp", "udp"].map(|protocol| {
            let (host, container) = (9000 + offset, 90 + offset);
            format!(r#"{{"hostPort":{host},"containerPort":{container},"protocol":"{protocol}"}}"#)
        })
    };
    let mappings: Vec<String> = (0..20).flat_map(pair).collect();
    let machine = added("", &mappings.join(","), &["10.88.0.5/24"]);
    let own = own_lines(&machine, Family::V4);
    assert!(own.starts_with(MANY_PORTS_HEAD) && own.ends_with(MANY_PORTS_TAIL), "{own}");
    assert_eq!(own.lines().count(), 120 + 4);
}

const NO_SNAT: &str = r#":CNI-DN-c189d8b6a7b4d184c9f70 -
:CNI-HOSTPORT-DNAT -
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

#[test]
fn no_snat() {
    let machine = added(r#""snat":false"#, TCP_8080, &["10.88.0.5/24"]);
    assert_dump(&machine, Family::V4, NO_SNAT);
}

const MASQ_ALL: &str = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80"#;

#[test]
fn masq_all() {
    let machine = added(r#""masqAll":true"#, TCP_8080, &["10.88.0.5/24"]);
    let own = own_lines(&machine, Family::V4);
    let chain: Vec<&str> = own.lines().filter(|line| line.starts_with("-A CNI-DN-")).collect();
    assert_eq!(chain.join("\n"), MASQ_ALL);
}

const MARK_BIT: &str = r#"-A CNI-HOSTPORT-MASQ -m mark --mark 0x20/0x20 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x20/0x20"#;

#[test]
fn mark_bit() {
    let machine = added(r#""markMasqBit":5"#, TCP_8080, &["10.88.0.5/24"]);
    let text = dump(&machine, Family::V4);
    let marks: Vec<&str> = text.lines().filter(|line| line.contains("0x20/0x20")).collect();
    assert_eq!(marks.join("\n"), MARK_BIT);
}

const CONDITIONS: &str = r#"-A CNI-HOSTPORT-DNAT ! -d 192.0.2.0/24 -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

#[test]
fn conditions() {
    let machine = added(r#""conditionsV4":["!","-d","192.0.2.0/24"]"#, TCP_8080, &["10.88.0.5/24"]);
    let own = own_lines(&machine, Family::V4);
    assert_eq!(own.lines().last(), Some(CONDITIONS));
}

const EXTERNAL_CHAIN: &str = r#":CNI-DN-c189d8b6a7b4d184c9f70 -
:CNI-HOSTPORT-DNAT -
:KUBE-MARK-MASQ -
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70"#;

#[test]
fn external_set_mark_chain() {
    let mut machine = FakeHost::default();
    machine.netfilter.iptables.load(Family::V4, IptablesTable::Nat, "-N KUBE-MARK-MASQ").expect("loads");
    let caller = Caller::new("ctr1", r#""externalSetMarkChain":"KUBE-MARK-MASQ""#, TCP_8080, &["10.88.0.5/24"]);
    caller.add(&mut machine).expect("added");
    assert_dump(&machine, Family::V4, EXTERNAL_CHAIN);
}
