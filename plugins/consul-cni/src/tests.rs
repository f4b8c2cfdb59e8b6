//! The life of a redirection, on a machine in memory.

use cni_core::error::Error;
use cni_core::names::{ChainName, IfName};
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Step, VethPeer};
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{self, assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

use super::*;

mod argument;
mod order;

const NETNS: &str = "/run/netns/c1";

/// What Nomad sends for a group with the defaults.
const NOMAD: &str = r#"{"ConsulDNSIP":"192.168.1.117","ConsulDNSPort":8600,"ProxyUserID":"101","ProxyInboundPort":25018,"ProxyOutboundPort":15001,"ExcludeInboundPorts":["9002"],"ExcludeOutboundPorts":null,"ExcludeOutboundCIDRs":null,"ExcludeUIDs":null,"NetNS":"/var/run/netns/c1","IptablesProvider":null}"#;

const NOMADS_RULES: &str = "\
-N CONSUL_DNS_REDIRECT
-N CONSUL_PROXY_INBOUND
-N CONSUL_PROXY_IN_REDIRECT
-N CONSUL_PROXY_OUTPUT
-N CONSUL_PROXY_REDIRECT
-A CONSUL_DNS_REDIRECT -d 192.168.1.117/32 -p udp -m udp --dport 53 -j DNAT --to-destination 192.168.1.117:8600
-A CONSUL_DNS_REDIRECT -d 192.168.1.117/32 -p tcp -m tcp --dport 53 -j DNAT --to-destination 192.168.1.117:8600
-A CONSUL_PROXY_INBOUND -p tcp -m tcp --dport 9002 -j RETURN
-A CONSUL_PROXY_INBOUND -p tcp -j CONSUL_PROXY_IN_REDIRECT
-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports 25018
-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN
-A CONSUL_PROXY_OUTPUT -d 127.0.0.1/32 -j RETURN
-A CONSUL_PROXY_OUTPUT -j CONSUL_PROXY_REDIRECT
-A CONSUL_PROXY_REDIRECT -p tcp -j REDIRECT --to-ports 15001
-A OUTPUT -d 192.168.1.117/32 -p udp -m udp --dport 53 -j CONSUL_DNS_REDIRECT
-A OUTPUT -d 192.168.1.117/32 -p tcp -m tcp --dport 53 -j CONSUL_DNS_REDIRECT
-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT
-A PREROUTING -p tcp -j CONSUL_PROXY_INBOUND";

fn config(prev_result: &str) -> String {
    format!(r#"{{"cniVersion":"0.4.0","name":"nomad","type":"consul-cni","log_level":"debug"{prev_result}}}"#)
}

/// A container behind a plugin that has given it an address.
fn caller(argument: &str) -> Caller {
    let result = r#","prevResult":{"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
        "ips":[{"version":"4","address":"172.26.64.5/20","gateway":"172.26.64.1","interface":0}]}"#;
    Caller::new("c1", &config(result)).with_args(&format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={argument}"))
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    let files = [
        ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nenvoy:x:1337:1337::/:/bin/false\nbroken\n"),
        ("/etc/services", SERVICES),
    ];
    host.administrators_files = files.map(|(path, text)| (path.into(), text.to_owned())).into();
    host
}

const SERVICES: &str = "# all of them\nhttp\t80/tcp www # WorldWideWeb\ndomain 53/udp\ndomain 153/tcp\n";

/// The container's table, as `iptables -S` would print it.
fn rules(host: &mut FakeHost) -> String {
    host.enter(NETNS).expect("entered");
    host.container_netfilter().iptables.dump(crate::entry::FAMILY, crate::rules::TABLE)
}

/// The rules after an ADD with this argument.
fn made(argument: &str) -> Result<String, Error> {
    let mut host = machine();
    caller(argument).add(&ConsulCni, &mut host)?;
    Ok(rules(&mut host))
}

#[test]
fn a_second_add_that_is_rolled_back_leaves_the_redirection_of_the_first_one() {
    let without_dns = r#"{"ProxyUserID":"101","ProxyInboundPort":25019}"#;
    for argument in [NOMAD, without_dns] {
        lifecycle::assert_a_repeated_add_is_rolled_back(&ConsulCni, &mut machine(), &caller(NOMAD), &caller(argument));
        lifecycle::assert_a_repeated_add_is_rolled_back(&ConsulCni, &mut machine(), &caller(argument), &caller(NOMAD));
    }
}

#[test]
fn nomads_argument_makes_the_references_rules_in_one_batch() {
    let mut host = machine();
    let result = caller(NOMAD).add(&ConsulCni, &mut host).expect("ADD");
    assert_eq!(result.ips.len(), 1);
    assert_eq!(rules(&mut host), NOMADS_RULES);
    let iptables = &host.container_netfilter().iptables;
    assert_eq!((iptables.commits(), iptables.lists()), (1, 0));
    assert_eq!(host.netfilter.iptables.commits(), 0);
}

#[test]
fn del_removes_what_add_made_and_a_failed_add_leaves_nothing() {
    assert_del_removes_what_add_made(&ConsulCni, &mut machine(), &caller(NOMAD));
    assert_eq!(assert_add_is_all_or_nothing(&ConsulCni, machine, &caller(NOMAD)), 1);
}

#[test]
fn del_needs_neither_argument_nor_prev_result() {
    let mut host = machine();
    caller(NOMAD).add(&ConsulCni, &mut host).expect("ADD");
    host.container_netfilter()
        .iptables
        .load(crate::entry::FAMILY, crate::rules::TABLE, "-A OUTPUT -j ACCEPT")
        .expect("loads");
    let before = host.container_netfilter().iptables.commits();
    Caller::new("c1", &config("")).del(&ConsulCni, &mut host).expect("DEL");
    assert_eq!(rules(&mut host), "-A OUTPUT -j ACCEPT");
    assert_eq!(host.container_netfilter().iptables.commits() - before, 1);
}

#[test]
fn del_takes_what_a_reference_has_left_half_done() {
    let mut host = machine();
    host.enter(NETNS).expect("entered");
    let half = NOMADS_RULES.lines().filter(|line| !line.contains("INBOUND") || line.starts_with("-N"));
    let text = half.collect::<Vec<_>>().join("\n");
    host.container_netfilter().iptables.load(crate::entry::FAMILY, crate::rules::TABLE, &text).expect("loads");
    caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL");
    assert_eq!(rules(&mut host), "");
}

/// Somebody inside may write what he likes: the redirection ends, and DEL goes on without what cannot be removed.
#[test]
fn del_ends_the_redirection_whatever_is_written_inside() {
    let load = |host: &mut FakeHost, text: &str| {
        let iptables = &mut host.container_netfilter().iptables;
        iptables.load(crate::entry::FAMILY, crate::rules::TABLE, text).expect("loads");
    };
    let mut host = with_rules(NOMADS_RULES);
    let foreign = "-N MINE\n-A MINE -j CONSUL_PROXY_REDIRECT";
    load(&mut host, foreign);
    caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL");
    assert_eq!(rules(&mut host), format!("-N CONSUL_PROXY_REDIRECT\n{foreign}"));
    caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL again");
    caller(NOMAD).add(&ConsulCni, &mut host).expect("ADD");

    let entries = |text: &str| text.lines().filter(|line| line.starts_with("-A OUTPUT")).collect::<Vec<_>>().join("\n");
    for (obscure, left) in [
        ("OUTPUT", format!("-N CONSUL_DNS_REDIRECT\n-N CONSUL_PROXY_OUTPUT\n{}", entries(NOMADS_RULES))),
        ("PREROUTING", "-N CONSUL_PROXY_INBOUND\n-A PREROUTING -p tcp -j CONSUL_PROXY_INBOUND".to_owned()),
        ("CONSUL_PROXY_OUTPUT", String::new()),
        ("CONSUL_PROXY_IN_REDIRECT", String::new()),
    ] {
        let mut host = with_rules(NOMADS_RULES);
        host.container_netfilter().iptables.obscure(ChainName::fixed(obscure));
        for _ in 0..2 {
            caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL");
            assert_eq!(rules(&mut host), left, "{obscure}");
        }
    }
}

/// The path of a namespace may lead to another container by the time a late DEL comes.
#[test]
fn del_leaves_the_redirection_of_another_container() {
    let mut host = with_rules(NOMADS_RULES);
    let [eth0, h0] = ["eth0", "h0"].map(|name| IfName::parse(name).expect("a name"));
    let peer = VethPeer { ns: Ns::Host, name: h0.clone(), mac: "02:00:00:00:00:03".parse().expect("a MAC") };
    let kind = LinkKind::Veth { peer };
    let link = NewLink { name: eth0, mac: None, mtu: None, if_present: IfPresent::Refuse, kind };
    host.apply(&Step::CreateLink { ns: Ns::Container, link }).expect("a veth");
    for (alias, left) in [("cni:nomad:c2:eth0", NOMADS_RULES), ("cni:nomad:c1:eth0", ""), ("", "")] {
        host.apply(&Step::set_link(Ns::Host, &h0, LinkSetting::Alias(alias.to_owned()))).expect("an alias");
        caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL");
        assert_eq!(rules(&mut host), left, "{alias}");
        caller(NOMAD).add(&ConsulCni, &mut host).expect("ADD");
    }
}

#[test]
fn del_of_a_container_that_is_gone_has_nothing_to_do() {
    let mut host = machine();
    caller(NOMAD).add(&ConsulCni, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Gone);
    caller(NOMAD).del(&ConsulCni, &mut host).expect("DEL");
    host.set_container(NETNS, FakeContainer::Closed);
    let error = caller(NOMAD).del(&ConsulCni, &mut host).expect_err("closed");
    assert_eq!(error.code().number(), 8);
}

#[test]
fn a_second_add_puts_its_own_rules_in_place_of_the_first_ones() {
    let mut host = machine();
    let other = NOMAD.replace("25018", "30000").replace(r#"["9002"]"#, "null").replace("8600", "0");
    for (argument, want) in [(NOMAD, made(NOMAD)), (NOMAD, made(NOMAD)), (&other, made(&other)), (NOMAD, made(NOMAD))] {
        caller(argument).add(&ConsulCni, &mut host).expect("ADD");
        assert_eq!(rules(&mut host), want.expect("made"));
    }
}

#[test]
fn check_misses_every_rule_and_compares_their_order() {
    let caller = caller(NOMAD);
    let lines: Vec<&str> = NOMADS_RULES.lines().collect();
    for line in lines.iter().filter(|line| line.starts_with("-A")) {
        let mut host = with_rules(&NOMADS_RULES.replace(&format!("{line}\n"), "").replace(&format!("\n{line}"), ""));
        let error = caller.check(&ConsulCni, &mut host).expect_err(line);
        assert_eq!(error.code().number(), 100);
        assert!(error.to_string().ends_with(&format!("iptables -t nat {line}")), "{error}");
        assert_eq!(lifecycle::repair(&ConsulCni, &mut host, &caller), 1);
        assert_eq!(rules(&mut host), NOMADS_RULES);
        caller.check(&ConsulCni, &mut host).expect("repaired");
    }
    let (user, jump) = (
        "-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN",
        "-A CONSUL_PROXY_OUTPUT -j CONSUL_PROXY_REDIRECT",
    );
    let swapped = NOMADS_RULES.replace(user, "x").replace(jump, user).replace("\nx", &format!("\n{jump}"));
    let error = caller.check(&ConsulCni, &mut with_rules(&swapped)).expect_err("swapped");
    assert!(error.to_string().contains("missing or not in its place"), "{error}");
    let error = caller.check(&ConsulCni, &mut with_rules("")).expect_err("flushed");
    assert!(error.to_string().contains("-A CONSUL_PROXY_INBOUND"), "{error}");
}

fn with_rules(text: &str) -> FakeHost {
    let mut host = machine();
    host.enter(NETNS).expect("entered");
    host.container_netfilter().iptables.load(crate::entry::FAMILY, crate::rules::TABLE, text).expect("loads");
    host
}

#[test]
fn without_prev_result_add_works_and_check_does_not() {
    let mut host = machine();
    let caller = caller(NOMAD).with_config(&config(""));
    let result = caller.add(&ConsulCni, &mut host).expect("ADD");
    assert_eq!((result.ips.len(), result.interfaces.len()), (0, 0));
    assert_eq!(rules(&mut host), NOMADS_RULES);
    let error = caller.check(&ConsulCni, &mut host).expect_err("no prevResult");
    assert_eq!((error.code().number(), error.to_string().as_str()), (7, "Required prevResult missing"));
    let empty = caller.with_config(&config(r#","prevResult":{"cniVersion":"0.4.0"}"#));
    let error = empty.add(&ConsulCni, &mut host).expect_err("no address");
    assert_eq!((error.code().number(), error.to_string().as_str()), (7, "got no container IPs"));
}

#[test]
fn kubernetes_is_refused_with_what_to_use_instead() {
    let pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=abc";
    let mut host = machine();
    let (code, message, details) =
        error_parts(caller(NOMAD).with_args(pod).add(&ConsulCni, &mut host).expect_err("refused"));
    assert_eq!((code, message.as_str()), (2, "pod default/web-0: Kubernetes annotations are not supported"));
    assert!(details.contains("consul-k8s"), "{details}");
    for args in ["", "IgnoreUnknown=1;K8S_POD_NAME=web-0", "CONSUL_IPTABLES_CONFIG="] {
        let (code, message, details) =
            error_parts(caller(NOMAD).with_args(args).add(&ConsulCni, &mut host).expect_err(args));
        assert_eq!((code, message.as_str()), (4, "not running in a pod, namespace and pod should have values"));
        assert!(details.contains("CONSUL_IPTABLES_CONFIG"), "{details}");
    }
    let both = format!("{pod};CONSUL_IPTABLES_CONFIG={NOMAD}");
    caller(NOMAD).with_args(&both).add(&ConsulCni, &mut host).expect("the argument wins");
}

#[test]
fn args_of_the_job_do_not_matter() {
    for args in [
        format!(
            "CONSUL_IPTABLES_CONFIG={NOMAD};IP=10.0.0.5/24;MAC=02:00:00:00:00:0a;NOMAD_JOB_ID=a=b;IgnoreUnknown=true"
        ),
        format!("CONSUL_IPTABLES_CONFIG={NOMAD};IP=10.0.0.5/24;GATEWAY=10.0.0.1"),
    ] {
        let mut host = machine();
        caller(NOMAD).with_args(&args).add(&ConsulCni, &mut host).expect(&args);
        assert_eq!(rules(&mut host), NOMADS_RULES);
    }
    let unknown = format!("CONSUL_IPTABLES_CONFIG={NOMAD};FOO=1");
    let error = caller(NOMAD).with_args(&unknown).add(&ConsulCni, &mut machine()).expect_err("unknown");
    assert_eq!(error.to_string(), r#"ARGS: unknown args ["FOO=1"]"#);
}

#[test]
fn status_asks_for_iptables() {
    let config = r#"{"cniVersion":"1.1.0","name":"nomad","type":"consul-cni"}"#;
    let caller = Caller::new("c1", config);
    let mut host = machine();
    caller.status(&ConsulCni, &mut host).expect("STATUS");
    let wrong = caller.with_config(&config.replace('}', r#","log_level":7}"#));
    assert_eq!(wrong.status(&ConsulCni, &mut host).expect_err("no level").code().number(), 6);
    host.netfilter.iptables.uninstall(cni_core::family::Family::ALL);
    assert_eq!(caller.status(&ConsulCni, &mut host).expect_err("no iptables").code().number(), 50);
}
