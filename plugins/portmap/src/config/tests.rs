use super::*;
use cni_core::json::Json;
use proptest::prelude::*;

fn config(text: &str) -> Result<Config, (u32, String, String)> {
    let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
    keys.check(Backend::Iptables).map_err(cni_testkit::error_parts)
}

fn refused(message: &str, details: &str) -> Result<Config, (u32, String, String)> {
    Err((7, message.to_owned(), details.to_owned()))
}

fn mapping(entry: &str) -> Mapping {
    config(&format!(r#"{{"runtimeConfig":{{"portMappings":[{entry}]}}}}"#)).expect("valid").mappings[0]
}

#[test]
fn nothing_need_be_said() {
    let own = Marker::Own(Mark::bit(13).expect("bit"));
    let want = Config {
        backend: Backend::Iptables,
        other: None,
        masquerade: Some(Masquerade { sources: Sources::Local, marker: own }),
        conditions_v4: Vec::new(),
        conditions_v6: Vec::new(),
        mappings: Vec::new(),
    };
    for text in [
        "{}",
        r#"{"snat":null,"backend":null,"markMasqBit":null,"conditionsV4":null,"runtimeConfig":null}"#,
        r#"{"snat":true,"backend":"iptables","conditionsV6":[],"runtimeConfig":{"portMappings":[]}}"#,
        r#"{"capabilities":{"portMappings":true},"runtimeConfig":{"portMappings":null}}"#,
    ] {
        let other = (!text.contains("iptables")).then_some(Backend::Nftables);
        assert_eq!(config(text), Ok(Config { other, ..want.clone() }), "{text}");
    }
}

#[test]
fn masquerading_is_chosen_by_four_keys() {
    let masquerade = |text: &str| config(text).expect("valid").masquerade;
    assert_eq!(masquerade(r#"{"snat":false,"masqAll":true}"#), None);
    let all = masquerade(r#"{"masqAll":true,"markMasqBit":0}"#).expect("on");
    assert_eq!((all.sources, all.marker), (Sources::All, Marker::Own(Mark { value: 1, mask: 1 })));
    let external = masquerade(r#"{"externalSetMarkChain":"KUBE-MARK-MASQ"}"#).expect("on");
    assert_eq!(external.marker, Marker::External(ChainName::fixed("KUBE-MARK-MASQ")));
}

#[test]
fn mappings_are_read_as_every_runtime_writes_them() {
    let want = Mapping { host_port: 8080, container_port: 80, proto: Proto::Tcp, listen: ListenAddress::Anywhere };
    assert_eq!(mapping(r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"}"#), want);
    assert_eq!(mapping(r#"{"HostPort":8080,"ContainerPort":80,"Protocol":"TCP","HostIP":""}"#), want);
    for (text, listen) in [
        ("0.0.0.0", ListenAddress::Family(Family::V4)),
        ("::", ListenAddress::Family(Family::V6)),
        ("::ffff:10.0.0.1", ListenAddress::Address(IpAddr::from([10, 0, 0, 1]))),
        ("10.0.0.1", ListenAddress::Address(IpAddr::from([10, 0, 0, 1]))),
    ] {
        let got = mapping(&format!(r#"{{"hostPort":1,"containerPort":65535,"protocol":"sctp","hostIP":"{text}"}}"#));
        assert_eq!(got, Mapping { host_port: 1, container_port: 65535, proto: Proto::Sctp, listen });
    }
}

#[test]
fn a_mapping_applies_to_the_families_it_listens_on() {
    for (listen, v4, v6) in [
        (ListenAddress::Anywhere, true, true),
        (ListenAddress::Family(Family::V4), true, false),
        (ListenAddress::Address(IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 1])), false, true),
    ] {
        let mapping = Mapping { host_port: 1, container_port: 1, proto: Proto::Udp, listen };
        assert_eq!((mapping.applies_to(Family::V4), mapping.applies_to(Family::V6)), (v4, v6), "{listen:?}");
    }
}

#[test]
fn who_marks_is_said_once_and_rightly() {
    assert_eq!(
        config(r#"{"externalSetMarkChain":"X","markMasqBit":13}"#),
        refused(
            "Cannot specify externalSetMarkChain and markMasqBit",
            r#"externalSetMarkChain is "X", markMasqBit is 13"#
        )
    );
    for bit in [-1, 32, 269] {
        let want = refused("MasqMarkBit must be between 0 and 31", &format!("markMasqBit is {bit}"));
        assert_eq!(config(&format!(r#"{{"markMasqBit":{bit}}}"#)), want);
    }
    for name in ["", "A B", "-A"] {
        let got = config(&format!(r#"{{"externalSetMarkChain":"{name}"}}"#)).expect_err("refused");
        assert_eq!((got.0, got.1), (7, format!("invalid externalSetMarkChain {name:?}")));
    }
}

#[test]
fn other_backends_are_refused() {
    for name in ["foo", "", "Iptables"] {
        let want =
            refused(&format!("unrecognized backend {name:?}"), "backend must be iptables or nftables, or not be given");
        assert_eq!(config(&format!(r#"{{"backend":"{name}"}}"#)), want);
    }
}

#[test]
fn a_backend_that_is_not_named_is_the_automatic_one() {
    let chosen = |automatic, text: &str| {
        let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
        keys.check(automatic).map(|config| config.backend)
    };
    for automatic in [Backend::Iptables, Backend::Nftables] {
        assert_eq!(chosen(automatic, "{}"), Ok(automatic));
        assert_eq!(chosen(automatic, r#"{"backend":null,"markMasqBit":5}"#), Ok(automatic));
        assert_eq!(chosen(automatic, r#"{"backend":"iptables"}"#), Ok(Backend::Iptables));
        assert_eq!(chosen(automatic, r#"{"backend":"nftables"}"#), Ok(Backend::Nftables));
    }
    let keys = vec!["externalSetMarkChain"];
    let refused = ConfigError::IptablesOptions { keys };
    assert_eq!(chosen(Backend::Nftables, r#"{"externalSetMarkChain":"X"}"#), Err(refused));
}

#[test]
fn nftables_takes_no_options_of_iptables() {
    let message = "nftables backend was requested but configuration contains iptables-specific options";
    let details = "conditions of nftables do not start with - or !, and it has no chain that sets marks; those of iptables need \"backend\": \"iptables\"";
    for (text, keys) in [
        (r#""externalSetMarkChain":"X""#, "[externalSetMarkChain]"),
        (r#""conditionsV4":["-d","x"],"conditionsV6":["ip6"]"#, "[conditionsV4]"),
        (
            r#""conditionsV6":["!","-d"],"conditionsV4":["-d"],"externalSetMarkChain":"X""#,
            "[externalSetMarkChain conditionsV4 conditionsV6]",
        ),
    ] {
        assert_eq!(
            config(&format!(r#"{{"backend":"nftables",{text}}}"#)),
            refused(&format!("{message} {keys}"), details)
        );
    }
    for word in ["", "a\\nb", "x;", "#"] {
        let got = config(&format!(r#"{{"backend":"nftables","conditionsV4":["ip","{word}"]}}"#)).expect_err("refused");
        assert!(got.1.ends_with(" in conditionsV4") && got.2.starts_with("conditionsV4[1] must be a word"), "{got:?}");
    }
    let good = config(r#"{"backend":"nftables","conditionsV4":["ip","saddr","!=","192.0.2.0/24"]}"#).expect("valid");
    assert_eq!(good.conditions(Family::V4), ["ip", "saddr", "!=", "192.0.2.0/24"]);
}

#[test]
fn conditions_must_be_words_of_iptables() {
    let message = "iptables backend was requested but configuration contains nftables-specific options";
    let details =
        "conditions of iptables start with - or !; those of nft, in both keys, need \"backend\": \"nftables\"";
    for (text, keys) in [
        (r#"{"conditionsV4":["ip"]}"#, "[conditionsV4]"),
        (r#"{"conditionsV4":["-d","x"],"conditionsV6":["ip6"]}"#, "[conditionsV6]"),
        (r#"{"backend":"iptables","conditionsV4":["ip"],"conditionsV6":["ip6"]}"#, "[conditionsV4 conditionsV6]"),
    ] {
        assert_eq!(config(text), refused(&format!("{message} {keys}"), details), "{text}");
    }
    for (text, word, place) in [
        (r#"{"conditionsV4":[""]}"#, r#""""#, "conditionsV4[0]"),
        (r#"{"conditionsV6":["-d","a\nCOMMIT"]}"#, r#""a\nCOMMIT""#, "conditionsV6[1]"),
        (r#"{"conditionsV4":["-d","a\u0000"]}"#, r#""a\0""#, "conditionsV4[1]"),
    ] {
        let key = &place[..12];
        let details = format!("{place} must be a word, without control characters, for nftables without ; and #");
        assert_eq!(config(text), refused(&format!("invalid word {word} in {key}"), &details), "{text}");
    }
    let good = config(r#"{"conditionsV4":["!","-d","192.0.2.0/24"]}"#).expect("valid");
    assert_eq!(good.conditions(Family::V4), ["!", "-d", "192.0.2.0/24"]);
    assert!(good.conditions(Family::V6).is_empty());
}

#[test]
fn a_bad_mapping_is_named_with_its_place() {
    let good = r#"{"hostPort":1,"containerPort":2,"protocol":"udp"}"#;
    for (entry, message, key, must) in [
        ("null", "Invalid container port number: 0", "containerPort", "be between 1 and 65535"),
        (
            r#"{"containerPort":70000}"#,
            "Invalid container port number: 70000",
            "containerPort",
            "be between 1 and 65535",
        ),
        (r#"{"containerPort":1}"#, "Invalid host port number: 0", "hostPort", "be between 1 and 65535"),
        (r#"{"containerPort":1,"hostPort":-5}"#, "Invalid host port number: -5", "hostPort", "be between 1 and 65535"),
        (
            r#"{"containerPort":1,"hostPort":65536}"#,
            "Invalid host port number: 65536",
            "hostPort",
            "be between 1 and 65535",
        ),
        (r#"{"containerPort":1,"hostPort":1}"#, r#"Invalid protocol: """#, "protocol", "be tcp, udp or sctp"),
        (
            r#"{"containerPort":1,"hostPort":1,"protocol":"icmp"}"#,
            r#"Invalid protocol: "icmp""#,
            "protocol",
            "be tcp, udp or sctp",
        ),
        (
            r#"{"containerPort":1,"hostPort":1,"protocol":"dccp"}"#,
            r#"Invalid protocol: "dccp""#,
            "protocol",
            "be tcp, udp or sctp",
        ),
        (
            r#"{"containerPort":1,"hostPort":1,"protocol":"tcp","hostIP":"10.0.0"}"#,
            r#"Invalid host IP: "10.0.0""#,
            "hostIP",
            "be an IP address, or empty",
        ),
    ] {
        let text = format!(r#"{{"runtimeConfig":{{"portMappings":[{good},{entry}]}}}}"#);
        let details = format!("runtimeConfig.portMappings[1].{key} must {must}");
        assert_eq!(config(&text), refused(message, &details), "{entry}");
    }
}

proptest! {
    #[test]
    fn no_configuration_panics(
        value in r#"\{("(backend|snat|masqAll|markMasqBit|externalSetMarkChain|conditionsV4)":("[a-z!\-]{0,9}"|-?[0-9]{1,19}|true|null|\["[a-z-]{0,3}"\]),?){0,4}\}"#,
        port in any::<i64>(),
        text in "\\PC{0,20}",
    ) {
        let entry = format!(r#"{{"hostPort":{port},"containerPort":{port},"protocol":"udp","hostIP":{text:?}}}"#);
        let mappings = format!(r#"{{"runtimeConfig":{{"portMappings":[{entry}]}}}}"#);
        for json in [value, mappings] {
            if let Ok(json) = Json::parse(json.as_bytes())
                && let Ok(keys) = json.decode::<Keys>()
                && let Ok(config) = keys.check(Backend::Iptables)
            {
                prop_assert!(config.mappings.iter().all(|mapping| mapping.host_port > 0));
            }
        }
    }
}
