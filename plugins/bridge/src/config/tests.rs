use super::*;

fn request(keys: &str, args: &str) -> Request {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"bridge"{keys}}}"#);
    cni_testkit::request("ADD", &[("CNI_ARGS", args)], &config)
}

fn load(keys: &str) -> Result<Config, (u32, String, String)> {
    load_with_args(keys, "")
}

fn load_with_args(keys: &str, args: &str) -> Result<Config, (u32, String, String)> {
    Config::load(&request(keys, args)).and_then(|config| Ok(config.for_add()?)).map_err(cni_testkit::error_parts)
}

#[test]
fn nothing_said_is_the_references_default() {
    let config = load(r#","bridge":null,"mtu":null,"unknown":1"#).expect("valid");
    assert_eq!(config.bridge.as_str(), "cni0");
    assert_eq!((config.gateway, config.other_address, config.mtu), (HostGateway::None, OtherAddress::Refuse, None));
    assert_eq!((config.masquerade_backend, config.spoof_check), (None, false));
    assert!(!config.masquerade && !config.hairpin && !config.promisc && !config.isolated && !config.leave_down);
    assert_eq!((config.ipam, config.mac, config.dns.is_absent()), (None, None, true));
    assert_eq!(config.vlans, Vlans::default());
}

#[test]
fn every_key_is_read_in_any_case() {
    let keys = r#","Bridge":"br0","ISGATEWAY":true,"isDefaultGateway":true,"forceAddress":true,"ipMasq":true,"mtu":1400,
        "hairpinMode":true,"enabledad":true,"portIsolation":true,"IPMASQBACKEND":"nftables","MacSpoofChk":true,"ipam":{"Type":"host-local"},"dns":{"domain":"d"}"#;
    let config = load(keys).expect("valid");
    assert_eq!(config.bridge.as_str(), "br0");
    assert_eq!((config.gateway, config.other_address), (HostGateway::DefaultRoute, OtherAddress::Replace));
    assert!(config.masquerade && config.hairpin && config.isolated && config.detect_duplicates);
    assert_eq!((config.mtu, config.ipam.as_deref()), (Some(1400), Some("host-local")));
    assert_eq!(config.dns.domain, "d");
    assert_eq!((config.masquerade_backend, config.spoof_check), (Some(Backend::Nftables), true));
}

#[test]
fn the_masquerades_backend_is_the_hosts_unless_one_is_configured() {
    for (keys, want) in [
        ("", None),
        (r#","ipMasqBackend":null"#, None),
        (r#","ipMasqBackend":"iptables""#, Some(Backend::Iptables)),
        (r#","ipMasqBackend":"nftables""#, Some(Backend::Nftables)),
    ] {
        assert_eq!(load(keys).expect("valid").masquerade_backend, want, "{keys}");
    }
    let error = load(r#","ipMasqBackend":"""#).expect_err("no backend");
    let details = r#"ipMasqBackend is "iptables" or "nftables""#;
    assert_eq!(error, (7, r#"unknown ipmasq backend """#.to_owned(), details.to_owned()));
}

#[test]
fn a_masquerade_without_addresses_is_none() {
    assert!(!load(r#","ipMasq":true"#).expect("valid").masquerade);
    assert!(!load(r#","ipMasq":true,"ipam":{"type":""}"#).expect("valid").masquerade);
}

#[test]
fn the_runtimes_mac_comes_before_the_others() {
    let (a, b, c) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c");
    let all = format!(r#","runtimeConfig":{{"mac":"{a}"}},"args":{{"cni":{{"mac":"{b}"}}}}"#);
    let two = format!(r#","runtimeConfig":{{"mac":""}},"args":{{"cni":{{"mac":"{b}"}}}}"#);
    let args = format!("MAC={c}");
    for (keys, want) in [(all.as_str(), a), (two.as_str(), b), ("", c)] {
        let mac = load_with_args(keys, &args).expect("valid").mac.expect("a MAC");
        assert_eq!(mac.to_string(), want);
    }
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key() {
    for (keys, code, message, details) in [
        (r#","bridge":"""#, 7, r#"failed to create bridge """#, "interface name is empty"),
        (
            r#","bridge":"abcdefghijklmnop""#,
            7,
            r#"failed to create bridge "abcdefghijklmnop""#,
            "interface name is too long",
        ),
        (r#","mtu":"1500""#, 6, "failed to load netconf", r#"mtu: invalid type: string "1500", expected i64"#),
        (r#","mtu":70000"#, 7, "invalid mtu 70000 (must be at most 65535)", ""),
        (
            r#","ipMasqBackend":"foo""#,
            7,
            r#"unknown ipmasq backend "foo""#,
            r#"ipMasqBackend is "iptables" or "nftables""#,
        ),
        (
            r#","hairpinMode":true,"promiscMode":true"#,
            7,
            "cannot set hairpin mode and promiscuous mode at the same time",
            "",
        ),
        (
            r#","disableContainerInterface":true,"ipam":{"type":"x"}"#,
            7,
            "cannot use IPAM when DisableContainerInterface flag is set",
            "",
        ),
        (
            r#","runtimeConfig":{"mac":"zz"}"#,
            7,
            "failed to make veth pair: invalid runtimeConfig.mac",
            "address zz: invalid MAC address",
        ),
        (
            r#","args":{"cni":{"mac":"01:00:00:00:00:01"}}"#,
            7,
            "failed to make veth pair: args.cni.mac 01:00:00:00:00:01 is not a unicast address of 6 bytes",
            "",
        ),
    ] {
        assert_eq!(load(keys), Err((code, message.to_owned(), details.to_owned())), "{keys}");
    }
    let args = load_with_args("", "FOO=bar").expect_err("unknown");
    assert_eq!(args, (4, r#"ARGS: unknown args ["FOO=bar"]"#.to_owned(), String::new()));
}

#[test]
fn what_del_needs_is_read_whatever_else_is_wrong() {
    let keys = r#","mtu":"wrong","vlan":9999,"ipMasq":true,"ipMasqBackend":"none","macspoofchk":true,"ipam":{"type":"host-local"}"#;
    let leftovers = DelConfig::load(&request(keys, "garbage")).expect("valid");
    assert_eq!(leftovers, DelConfig { ipam: Some("host-local".to_owned()), masquerade: true });
    let leftovers = DelConfig::load(&request(r#","ipMasq":true"#, "")).expect("valid");
    assert_eq!(leftovers, DelConfig { ipam: None, masquerade: true });
}
