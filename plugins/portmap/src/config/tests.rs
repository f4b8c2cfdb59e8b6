use super::*;
use cni_core::json::Json;

fn config(text: &str) -> Result<Config, (u32, String, String)> {
    let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
    keys.check(Backend::Iptables).map_err(|error| (error.code().number(), error.to_string(), error.details()))
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
fn a_backend_that_is_not_named_is_the_automatic_one() {
    let chosen = |automatic, text: &str| {
        let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
        keys.check(automatic).map(|config| config.backend).map_err(|error| error.to_string())
    };
    for automatic in [Backend::Iptables, Backend::Nftables] {
        assert_eq!(chosen(automatic, "{}"), Ok(automatic));
        assert_eq!(chosen(automatic, r#"{"backend":null,"markMasqBit":5}"#), Ok(automatic));
        assert_eq!(chosen(automatic, r#"{"backend":"iptables"}"#), Ok(Backend::Iptables));
        assert_eq!(chosen(automatic, r#"{"backend":"nftables"}"#), Ok(Backend::Nftables));
    }
    let refused = chosen(Backend::Nftables, r#"{"externalSetMarkChain":"X"}"#).expect_err("refused");
    assert!(refused.ends_with("iptables-specific options [externalSetMarkChain]"), "{refused}");
}

#[test]
fn options_of_the_other_backend_and_words_that_are_none_are_named() {
    let of = |name: &str| format!("{name} backend was requested but configuration contains ");
    let must = "must be a word, without control characters, for nftables without ; and #";
    for (text, message, details) in [
        (
            r#""backend":"nftables","conditionsV6":["!","-d"],"conditionsV4":["-d"],"externalSetMarkChain":"X""#,
            of("nftables") + "iptables-specific options [externalSetMarkChain conditionsV4 conditionsV6]",
            "conditions of nftables do not start with - or !, and it has no chain that sets marks; those of iptables need \
             \"backend\": \"iptables\""
                .to_owned(),
        ),
        (
            r#""conditionsV4":["-d","x"],"conditionsV6":["ip6"]"#,
            of("iptables") + "nftables-specific options [conditionsV6]",
            "conditions of iptables start with - or !; those of nft, in both keys, need \"backend\": \"nftables\" and no externalSetMarkChain"
                .to_owned(),
        ),
        (r#""conditionsV4":[""]"#, "invalid word \"\" in conditionsV4".to_owned(), format!("conditionsV4[0] {must}")),
        (
            r#""conditionsV6":["-d","a\nCOMMIT"]"#,
            r#"invalid word "a\nCOMMIT" in conditionsV6"#.to_owned(),
            format!("conditionsV6[1] {must}"),
        ),
        (
            r#""backend":"nftables","conditionsV4":["ip","\u0000"]"#,
            r#"invalid word "\0" in conditionsV4"#.to_owned(),
            format!("conditionsV4[1] {must}"),
        ),
    ] {
        assert_eq!(config(&format!("{{{text}}}")), Err((7, message, details)), "{text}");
    }
    for good in [
        r#""backend":"nftables","conditionsV4":["ip","saddr","!=","192.0.2.0/24"]"#,
        r#""conditionsV4":["!","-d","x"]"#,
    ] {
        config(&format!("{{{good}}}")).expect(good);
    }
    for name in ["", "-A"] {
        let (_, message, _) = config(&format!(r#"{{"externalSetMarkChain":"{name}"}}"#)).expect_err("refused");
        assert_eq!(message, format!("invalid externalSetMarkChain {name:?}"));
    }
}
