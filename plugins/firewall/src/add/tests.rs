use super::*;
use cni_core::json::Json;
use cni_core::names::Attachment;
use cni_core::version::Version;
use cni_netfilter::firewalld::Zone;

use crate::config::Keys;

fn config(text: &str) -> Config {
    let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
    Config::try_from(keys).expect("valid")
}

fn owner() -> Attachment {
    cni_testkit::attachment("n1", "ctr1", "eth0")
}

fn result(text: &str) -> CniResult {
    CniResult::parse_prev(&Json::parse(text.as_bytes()).expect("JSON"), Version::V1_0_0).expect("result")
}

/// The plan of a container whose addresses nobody has claimed.
fn planned(config: &Config, backend: &RuleBackend, result: &CniResult) -> Result<Plan, RulesetError> {
    let claim = ClaimRegister::default().claim(&owner(), None, &addresses(result), backend);
    plan(config, backend, claim, result)
}

const BRIDGED: &str =
    r#"{"interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.88.0.5/24"}]}"#;

#[test]
fn an_address_is_claimed_before_its_rules_are_made() {
    let plan = planned(&config("{}"), &RuleBackend::Iptables, &result(BRIDGED)).expect("plan");
    assert_eq!(
        plan.to_string(),
        r#"owned  host: write record claims/owner-8c757206cca44345d6fe223bb7fcd9e6 "10.88.0.5\n"
owned  host: write record claims/10.88.0.5 "n1 ctr1 eth0"
owned  host: ensure v4 filter
  shared chain CNI-FORWARD
  shared chain CNI-ADMIN
  shared first -A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
  shared first -A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
  -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
"#
    );
}

#[test]
fn a_policy_adds_two_stages() {
    let plan =
        planned(&config(r#"{"ingressPolicy":"isolated"}"#), &RuleBackend::Iptables, &result(BRIDGED)).expect("plan");
    let text = plan.to_string();
    let stages: Vec<&str> = text.lines().filter(|line| line.contains("STAGE")).collect();
    assert_eq!(
        stages,
        [
            "  shared chain CNI-ISOLATION-STAGE-1",
            "  shared chain CNI-ISOLATION-STAGE-2",
            r#"  shared first -A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1"#,
            r#"  shared first -A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2"#,
            r#"  shared first -A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP"#,
            r#"  shared last -A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#,
            r#"  shared first -A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP"#,
            r#"  shared last -A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#,
        ]
    );
}

#[test]
fn every_address_counts_once_and_ipv4_comes_first() {
    let result = result(
        r#"{"interfaces":[],"ips":[{"address":"fd00::5/64","interface":9},{"address":"10.0.0.5/8","interface":-1},
            {"address":"10.0.0.5/16"},{"address":"10.0.0.6/8"},{"address":"::ffff:10.0.0.7/128"}]}"#,
    );
    let texts: Vec<String> = addresses(&result).iter().map(IpAddr::to_string).collect();
    assert_eq!(texts, ["10.0.0.5", "10.0.0.6", "10.0.0.7", "fd00::5"]);
    let rules = rulesets(&config("{}"), &RuleBackend::Iptables, &addresses(&result), &result).expect("rules");
    let families: Vec<Family> = rules
        .iter()
        .filter_map(|want| if let Ruleset::Iptables(want) = want { Some(want.family) } else { None })
        .collect();
    assert_eq!(families, [Family::V4, Family::V6]);
}

#[test]
fn no_address_needs_nothing() {
    let isolated = config(r#"{"ingressPolicy":"isolated"}"#);
    assert_eq!(planned(&isolated, &RuleBackend::Iptables, &CniResult::default()), Ok(Plan::default()));
}

#[test]
fn a_policy_needs_a_bridge() {
    let isolated = config(r#"{"ingressPolicy":"isolated"}"#);
    for (interfaces, message, details) in [
        (
            "[]",
            r#"interface needs to be set for ingress policy "isolated", make sure to chain "firewall" plugin with "bridge""#,
            "",
        ),
        (r#"[{"name":""}]"#, "got empty bridge name", ""),
        ("[null]", "got empty bridge name", ""),
        (
            r#"[{"name":"a/b"}]"#,
            r#"got invalid bridge name "a/b""#,
            "interface name contains / or : or whitespace characters",
        ),
        (
            r#"[{"name":"br+"}]"#,
            r#"bridge name "br+" ends in +, which is a wildcard for iptables"#,
            "a + at the end of a name stands for any ending: use backend nftables",
        ),
    ] {
        let result = result(&format!(r#"{{"interfaces":{interfaces},"ips":[{{"address":"10.0.0.5/8"}}]}}"#));
        let error = planned(&isolated, &RuleBackend::Iptables, &result).expect_err("refused");
        assert_eq!((error.code(), error.to_string().as_str()), (Code::InvalidConfig, message));
        assert_eq!(error.details(), details);
        assert!(planned(&config("{}"), &RuleBackend::Iptables, &result).is_ok(), "open needs no bridge");
    }
}

fn trusted() -> RuleBackend {
    RuleBackend::Firewalld(Zone::fixed("trusted"))
}

#[test]
fn firewalld_gets_sources_and_only_a_policy_is_one_of_iptables() {
    let result =
        result(r#"{"interfaces":[{"name":"br0"}],"ips":[{"address":"10.88.0.5/24"},{"address":"fd00:88::5/64"}]}"#);
    let open = planned(&config("{}"), &trusted(), &result).expect("plan");
    assert_eq!(
        open.to_string(),
        r#"owned  host: write record claims/owner-8c757206cca44345d6fe223bb7fcd9e6 "10.88.0.5\nfd00:88::5\n"
owned  host: write record claims/10.88.0.5 "n1 ctr1 eth0 firewalld:trusted"
owned  host: write record claims/fd00:88::5 "n1 ctr1 eth0 firewalld:trusted"
owned  host: firewalld add source 10.88.0.5/32 to zone trusted
owned  host: firewalld add source fd00:88::5/128 to zone trusted
"#
    );
    let keys = r#"{"ingressPolicy":"same-bridge"}"#;
    let text = planned(&config(keys), &trusted(), &result).expect("plan").to_string();
    assert!(text.starts_with(&open.to_string()), "{text}");
    assert_eq!(text.matches("owned  host: ensure").count(), 2, "{text}");
    assert!(text.contains("shared chain CNI-ISOLATION-STAGE-2") && !text.contains("CNI-FORWARD"), "{text}");
}
