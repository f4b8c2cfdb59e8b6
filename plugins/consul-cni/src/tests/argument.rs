//! What is read of the argument, and what is refused.

use super::*;

/// Nomad's argument with one field in place of its own.
fn with(key: &str, value: &str) -> String {
    let start = format!("\"{key}\":");
    let (before, rest) = NOMAD.split_once(&start).expect("a field");
    let end = [r#","Consul"#, r#","Proxy"#, r#","Exclude"#, r#","NetNS"#, r#","Iptables"#, "}"]
        .iter()
        .filter_map(|end| rest.find(end))
        .min();
    format!("{before}{start}{value}{}", &rest[end.expect("an end")..])
}

/// The lines of the rules with one field in place of Nomad's own that its rules do not have.
fn changed(key: &str, value: &str) -> Vec<String> {
    let rules = made(&with(key, value)).unwrap_or_else(|error| panic!("{key}: {value}: {}", error.in_full()));
    rules.lines().filter(|line| !NOMADS_RULES.lines().any(|own| own == *line)).map(str::to_owned).collect()
}

#[test]
fn each_entry_is_what_iptables_makes_of_it() {
    for (value, want) in [
        ("0", "-m tcp --dport 0 "),
        ("8000:8005", "-m tcp --dport 8000:8005 "),
        (":80", "-m tcp --dport 0:80 "),
        ("80:", "-m tcp --dport 80:65535 "),
        ("80:80", "-m tcp --dport 80 "),
        ("www", "-m tcp --dport 80 "),
        ("domain", "-m tcp --dport 153 "),
        ("http:domain", "-m tcp --dport 80:153 "),
        ("0:65535", ""),
    ] {
        for (key, chain) in
            [("ExcludeInboundPorts", "CONSUL_PROXY_INBOUND"), ("ExcludeOutboundPorts", "CONSUL_PROXY_OUTPUT")]
        {
            assert_eq!(changed(key, &format!("[\"{value}\"]")), [format!("-A {chain} -p tcp {want}-j RETURN")]);
        }
    }
    for (value, want) in
        [("0", "0"), ("1000-1005", "1000-1005"), ("envoy", "1337"), ("4294967294", "4294967294"), ("7-7", "7")]
    {
        let rule = format!("-A CONSUL_PROXY_OUTPUT -m owner --uid-owner {want} -j RETURN");
        assert_eq!(changed("ExcludeUIDs", &format!("[\"{value}\"]")), std::slice::from_ref(&rule));
        assert_eq!(changed("ProxyUserID", &format!("\"{value}\"")), [rule]);
    }
}

#[test]
fn networks_are_read_in_every_notation_and_ipv6_needs_none() {
    let networks = |value: &str| changed("ExcludeOutboundCIDRs", value);
    let rule = |network: &str| format!("-A CONSUL_PROXY_OUTPUT -d {network} -j RETURN");
    for (value, want) in
        [("10.0.0.1/8", "10.0.0.0/8"), ("192.0.2.7", "192.0.2.7/32"), ("10.0.0.1/255.255.0.0", "10.0.0.0/16")]
    {
        assert_eq!(networks(&format!("[\"{value}\"]")), [rule(want)]);
    }
    assert_eq!(
        networks(r#"["10.0.0.0/8,192.0.2.7, 192.0.2.8"]"#),
        ["192.0.2.8/32", "192.0.2.7/32", "10.0.0.0/8"].map(rule)
    );
    assert_eq!(networks(r#"["fd00::/8","::1"]"#), [""; 0]);
    assert_eq!(networks(r#"["fd00::/8,10.0.0.0/8"]"#), [rule("10.0.0.0/8")]);
    assert_eq!(networks(r#"["0.0.0.0/0"]"#), ["-A CONSUL_PROXY_OUTPUT -j RETURN"]);
}

#[test]
fn dns_has_three_forms() {
    let dns = |address: &str, port: &str| {
        let argument = NOMAD.replace("\"192.168.1.117\"", address).replace("8600", port);
        made(&argument)
            .expect("made")
            .lines()
            .filter(|line| line.contains("DNS") && !line.contains("tcp"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(dns("\"\"", "0"), ["-N CONSUL_DNS_REDIRECT"]);
    assert_eq!(dns("null", "null"), ["-N CONSUL_DNS_REDIRECT"]);
    assert_eq!(
        dns("\"10.96.0.53\"", "0"),
        [
            "-N CONSUL_DNS_REDIRECT",
            "-A CONSUL_DNS_REDIRECT -p udp -m udp --dport 53 -j DNAT --to-destination 10.96.0.53",
            "-A OUTPUT -p udp -m udp --dport 53 -j CONSUL_DNS_REDIRECT",
        ]
    );
    assert_eq!(
        dns("\"\"", "8600"),
        [
            "-N CONSUL_DNS_REDIRECT",
            "-A CONSUL_DNS_REDIRECT -d 127.0.0.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:8600",
            "-A OUTPUT -d 127.0.0.1/32 -p udp -m udp --dport 53 -j CONSUL_DNS_REDIRECT",
        ]
    );
}

#[test]
fn each_value_that_cannot_be_used_is_named_and_changes_nothing() {
    let ports = "neither a port from 0 to 65535, nor a range such as 8000:8005, nor a tcp service of /etc/services";
    let users = "neither a user ID, nor a range such as 1000-1005, nor a user of /etc/passwd";
    let network = "not an address, or a network such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0";
    let quoted =
        |value: &str| if value.starts_with('[') { value.trim_matches(['[', ']']).to_owned() } else { value.to_owned() };
    let mut cases: Vec<(&str, String, String)> = Vec::new();
    for value in ["-1", "99999", "08", "8005:8000", ":", "", "80-90", "80,90", "ftp", "!80", "http ", " 80", "+80"] {
        cases.push(("ExcludeInboundPorts", format!("[\"{value}\"]"), ports.to_owned()));
        cases.push(("ExcludeOutboundPorts", format!("[\"{value}\"]"), ports.to_owned()));
    }
    for value in ["-1", "4294967295", "010", "0x10", "1005-1000", "nobody", "1-2-3", "1-", "!5", " 5"] {
        cases.push(("ExcludeUIDs", format!("[\"{value}\"]"), users.to_owned()));
        cases.push(("ProxyUserID", format!("\"{value}\""), users.to_owned()));
    }
    for value in [
        "",
        "10.1",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/255.0.255.0",
        "example.com",
        "10.0.0.0/8,",
        "fd00::/129",
        "fd00::/255.0.0.0",
        "! 10.0.0.0/8",
    ] {
        cases.push(("ExcludeOutboundCIDRs", format!("[\"{value}\"]"), network.to_owned()));
    }
    for (key, value) in [("ConsulDNSIP", "\"10.1\""), ("ConsulDNSIP", "\"dns\"")] {
        cases.push((key, value.to_owned(), "unable to parse consulDNSIP".to_owned()));
    }
    for value in ["\"fd00::53\"", "\"::ffff:10.0.0.1\""] {
        cases.push(("ConsulDNSIP", value.to_owned(), "for non dual stack setup ipv4 consulDNSIP required".to_owned()));
    }
    for (key, value, problem) in cases {
        let mut host = machine();
        let before = host.state();
        let error = caller(&with(key, &value)).add(&ConsulCni, &mut host).expect_err(&value);
        assert_eq!(
            (error.code().number(), error.to_string()),
            (4, format!("invalid {key} {}: {problem}", quoted(&value)))
        );
        assert_eq!(error.details(), "in CONSUL_IPTABLES_CONFIG of CNI_ARGS");
        assert_eq!(host.state(), before);
    }
    for (key, value, least) in [
        ("ProxyInboundPort", "65536", 1),
        ("ProxyInboundPort", "-1", 1),
        ("ProxyOutboundPort", "70000", 1),
        ("ConsulDNSPort", "-5", 0),
    ] {
        let text = made(&with(key, value)).expect_err(value).to_string();
        assert_eq!(text, format!("invalid {key} {value} (must be between {least} and 65535)"));
    }
}

#[test]
fn what_is_required_is_said() {
    for (key, value) in [("ProxyUserID", "\"\""), ("ProxyUserID", "null"), ("ProxyInboundPort", "0")] {
        let (code, message, _) = error_parts(made(&with(key, value)).expect_err(value));
        assert_eq!((code, message), (4, format!("{key} is required to set up traffic redirection")));
    }
    let (code, message, _) = error_parts(made("null").expect_err("null"));
    assert_eq!((code, message.as_str()), (4, "ProxyUserID is required to set up traffic redirection"));
    let (code, message, details) = error_parts(made(r#"{"ProxyUserID":"#).expect_err("half"));
    assert_eq!((code, message.as_str()), (6, "could not unmarshal CNI args: CONSUL_IPTABLES_CONFIG"));
    assert_eq!(details, "unexpected end of JSON input");
}

#[test]
fn values_of_other_types_are_refused_by_name() {
    for (key, value) in [
        ("ProxyUserID", "101"),
        ("ConsulDNSIP", "1"),
        ("ConsulDNSPort", "\"53\""),
        ("ProxyInboundPort", "1.5"),
        ("ExcludeInboundPorts", "[80]"),
        ("ExcludeInboundPorts", "\"80\""),
        ("ExcludeOutboundCIDRs", "{}"),
        ("ExcludeUIDs", "[null,{}]"),
        ("NetNS", "5"),
        ("IptablesProvider", "{}"),
    ] {
        let (code, message, details) = error_parts(made(&with(key, value)).expect_err(value));
        assert_eq!((code, message.as_str()), (6, "could not unmarshal CNI args: CONSUL_IPTABLES_CONFIG"));
        assert!(details.starts_with(key), "{key} {value}: {details}");
    }
    for whole in ["[]", "\"x\"", "5"] {
        assert_eq!(made(whole).expect_err(whole).code().number(), 6);
    }
}

#[test]
fn keys_are_read_in_any_case_and_unknown_ones_ignored() {
    let other =
        NOMAD.replace("ProxyUserID", "proxyuserid").replace("\"NetNS\"", "\"X\":{},\"EXCLUDEUIDS\":[],\"NETNS\"");
    assert_eq!(made(&other).expect("made"), NOMADS_RULES);
    let without =
        NOMAD.replace("15001", "0").replace(r#""NetNS":"/var/run/netns/c1","IptablesProvider":null"#, r#""NetNS":"""#);
    assert_eq!(made(&without).expect("made"), NOMADS_RULES);
}
