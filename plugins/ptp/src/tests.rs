//! The whole life of a routed veth pair, on a machine in memory.

use super::*;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_core::version::Version;
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, NewRoute, Ns, Step, Sysctl, SysctlNeed, VethPeer};
use cni_plugin::host::{Host, LinkQuery};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts, lifecycle};

/// What of the keys makes another plan.
const WAYS: [&str; 4] = [
    r#""mtu":1400"#,
    r#""ipMasq":true"#,
    r#""ipMasq":true,"ipMasqBackend":"iptables""#,
    r#""ipMasq":true,"ipMasqBackend":"nftables""#,
];

fn caller(container: &str, keys: &str) -> Caller {
    let ipam = r#""ipam":{"type":"host-local"}"#;
    Caller::new(container, &format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"ptp",{ipam},{keys}}}"#))
}

fn plain() -> Caller {
    caller("ctr1", r#""mtu":1400"#)
}

/// What the IPAM plugin gives the container of a number.
fn answer(number: u8) -> String {
    format!(
        r#"{{"cniVersion":"1.1.0","ips":[{{"address":"10.1.2.{number}/24","gateway":"10.1.2.1"}},
            {{"address":"fd00::{number}/64","gateway":"fd00::1"}}],
            "routes":[{{"dst":"0.0.0.0/0"}},{{"dst":"10.9.0.0/16","gw":"10.1.2.9"}}],"dns":{{"domain":"ipam"}}}}"#
    )
}

/// A machine with a container of the network, and one that is to come.
fn with_neighbour(neighbour: &Caller) -> FakeHost {
    let mut host = machine(&answer(2));
    neighbour.add(&Ptp, &mut host).expect("the neighbour is added");
    host.set_ipam(&answer(5));
    host
}

fn machine(answer: &str) -> FakeHost {
    let mut host = FakeHost::new().with_ipam(answer);
    for container in ["neighbour", "ctr1"] {
        host.set_container(&format!("/run/netns/{container}"), FakeContainer::Present(None));
    }
    host
}

/// The steps of an ADD by the answer of the IPAM plugin, without the name of the host's end.
fn steps(caller: &Caller, answer: &str) -> Vec<String> {
    let mut host = machine(answer);
    let result = caller.add(&Ptp, &mut host).expect("ADD");
    let veth = &result.interfaces[0].name;
    host.applied().iter().map(|step| step.replace(veth, "VETH")).collect()
}

#[test]
fn add_makes_a_pair_and_routes_on_both_ends() {
    let want = [
        "delegate ADD to host-local",
        "container: link add eth0 type veth peer VETH on host mtu 1400",
        r#"host: link set VETH alias "cni:net1:ctr1:eth0""#,
        "host: sysctl net/ipv6/conf/VETH/accept_ra=0",
        "host: sysctl net/ipv6/conf/VETH/accept_dad=0",
        "host: link set VETH up",
        "container: sysctl net/ipv6/conf/eth0/accept_dad=0",
        "container: sysctl net/ipv6/conf/lo/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add fd00::5/64 dev eth0 nodad",
        "container: link set eth0 up",
        "container: route add 10.1.2.1/32 dev eth0 src 10.1.2.5 scope 253",
        "container: route add fd00::1/128 dev eth0 src fd00::5 scope 253",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
        "container: route add 10.9.0.0/16 via 10.1.2.9 dev eth0",
        "container: route del 10.1.2.0/24 dev eth0 proto kernel",
        "container: route add 10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.5",
        "container: route del fd00::/64 dev eth0 proto kernel",
        "container: route add fd00::/64 via fd00::1 dev eth0 src fd00::5",
        "host: sysctl net/ipv4/ip_forward=1",
        "host: sysctl net/ipv6/conf/all/forwarding=1",
        "host: addr add 10.1.2.1/32 dev VETH",
        "host: addr add fd00::1/128 dev VETH nodad",
        "host: route add 10.1.2.5/32 dev VETH scope 254",
        "host: route add fd00::5/128 dev VETH scope 254",
        "host: await VETH up",
        "host: await local addresses of VETH fd00::1",
        "container: await local addresses of eth0 fd00::5",
    ];
    assert_eq!(steps(&plain(), &answer(5)), want);
}

#[test]
fn the_result_has_both_ends_and_the_addresses_are_the_containers() {
    let mut host = machine(&answer(5));
    let result = plain().add(&Ptp, &mut host).expect("ADD");
    let [on_host, inside] = &result.interfaces[..] else { panic!("{:?}", result.interfaces) };
    assert!(on_host.name.starts_with("veth") && on_host.sandbox.is_empty() && on_host.mac.starts_with("02:"));
    assert_eq!((inside.name.as_str(), inside.sandbox.as_str()), ("eth0", "/run/netns/ctr1"));
    assert!(result.ips.iter().all(|ip| ip.interface == Some(1)));
    assert_eq!(result.dns.domain, "ipam");
    let own = caller("ctr1", r#""dns":{"domain":"own"}"#).add(&Ptp, &mut machine(&answer(5))).expect("ADD");
    assert_eq!(own.dns.domain, "own");
}

#[test]
fn ipv6_is_unchanged_where_there_is_no_such_address() {
    let answer = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"}]}"#;
    let found = steps(&plain(), answer);
    let ipv6: Vec<_> = found.iter().filter(|step| step.contains("ipv6") && !step.contains("accept_ra")).collect();
    assert_eq!(ipv6, [""; 0]);
}

fn routes_of(ips: &str) -> Vec<String> {
    let answer =
        format!(r#"{{"cniVersion":"1.1.0","ips":[{ips}],"routes":[{{"dst":"0.0.0.0/0"}},{{"dst":"10.1.2.1/32"}}]}}"#);
    let is_of_routes = |step: &String| step.contains(" route ") || step.contains(": addr add");
    steps(&plain(), &answer).into_iter().filter(is_of_routes).collect()
}

#[test]
fn addresses_with_one_gateway_share_its_route() {
    let ip = |number: u8| format!(r#"{{"address":"10.1.2.{number}/24","gateway":"10.1.2.1"}}"#);
    let want = [
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add 10.1.2.6/24 dev eth0",
        "container: route add 10.1.2.1/32 dev eth0 src 10.1.2.5 scope 253",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
        "container: route del 10.1.2.0/24 dev eth0 proto kernel",
        "container: route add 10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.5",
        "host: addr add 10.1.2.1/32 dev VETH",
        "host: route add 10.1.2.5/32 dev VETH scope 254",
        "host: route add 10.1.2.6/32 dev VETH scope 254",
    ];
    assert_eq!(routes_of(&format!("{},{}", ip(5), ip(6))), want);
}

#[test]
fn the_gateway_may_be_in_another_network() {
    let want = [
        "container: addr add 10.7.0.5/32 dev eth0",
        "container: route add 10.1.2.1/32 dev eth0 src 10.7.0.5 scope 253",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
        "container: route del 10.7.0.5/32 dev eth0 proto kernel",
        "container: route add 10.7.0.5/32 via 10.1.2.1 dev eth0 src 10.7.0.5",
        "host: addr add 10.1.2.1/32 dev VETH",
        "host: route add 10.7.0.5/32 dev VETH scope 254",
    ];
    assert_eq!(routes_of(r#"{"address":"10.7.0.5/32","gateway":"10.1.2.1"}"#), want);
}

#[test]
fn del_removes_what_add_made() {
    for keys in WAYS {
        let mut host = with_neighbour(&caller("neighbour", keys));
        lifecycle::assert_del_removes_what_add_made(&Ptp, &mut host, &caller("ctr1", keys));
    }
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    for keys in WAYS {
        let machine = || with_neighbour(&caller("neighbour", keys));
        lifecycle::assert_failed_ipam_is_released(&Ptp, machine, &caller("ctr1", keys));
    }
}

#[test]
fn an_ipam_plugin_that_fails_a_second_add_is_not_called_with_del() {
    let mut host = with_neighbour(&caller("neighbour", WAYS[0]));
    lifecycle::assert_second_add_keeps_addresses(&Ptp, &mut host, &caller("ctr1", WAYS[0]));
}

#[test]
fn an_add_that_fails_at_any_step_leaves_nothing() {
    for keys in WAYS {
        let machine = || with_neighbour(&caller("neighbour", keys));
        let steps = lifecycle::assert_add_is_all_or_nothing(&Ptp, machine, &caller("ctr1", keys));
        assert!(steps > 25, "{keys}: {steps} steps");
    }
}

/// The masquerade was asked for when ADD came, and is not when DEL comes.
#[test]
fn del_finds_everything_without_the_namespace_and_the_key() {
    for gone in [FakeContainer::Gone, FakeContainer::Closed] {
        for keys in WAYS {
            let mut host = with_neighbour(&caller("neighbour", keys));
            let without_ctr1 = |host: &FakeHost| -> Vec<String> {
                host.state().into_iter().filter(|line| !line.contains("/run/netns/ctr1 ")).collect()
            };
            let before = without_ctr1(&host);
            caller("ctr1", keys).add(&Ptp, &mut host).expect("ADD");
            host.set_container("/run/netns/ctr1", gone.clone());
            let deleted = plain().del(&Ptp, &mut host);
            let closed = gone == FakeContainer::Closed;
            assert_eq!(deleted.is_err(), closed, "a namespace that cannot be entered is reported");
            if closed {
                assert!(
                    host.delegated().last().is_some_and(|call| call.ends_with("ADD")),
                    "the addresses stay reserved"
                );
                host.set_container("/run/netns/ctr1", FakeContainer::Present(None));
                plain().del(&Ptp, &mut host).expect("DEL");
            }
            assert_eq!(without_ctr1(&host), before, "{keys}");
        }
    }
}

#[test]
fn del_goes_on_behind_whatever_fails() {
    let mut host = with_neighbour(&caller("neighbour", WAYS[1]));
    let before = host.state();
    caller("ctr1", WAYS[1]).add(&Ptp, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Del));
    let error = plain().del(&Ptp, &mut host).expect_err("IPAM fails");
    assert_eq!(error.to_string(), "host-local has failed");
    let left: Vec<String> = host.state().into_iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(left, [format!("lease {}", answer(5))]);
}

fn refused(caller: &Caller, host: &mut FakeHost) -> (u32, String, String) {
    error_parts(caller.add(&Ptp, host).expect_err("refused"))
}

#[test]
fn a_configuration_that_cannot_be_carried_out_is_refused_before_anything_is_done() {
    for (keys, text) in [
        (r#""ipam":null"#, "no plugin name provided: ptp requires ipam.type"),
        (r#""ipam":{}"#, "no plugin name provided: ptp requires ipam.type"),
        (r#""ipMasqBackend":"foo""#, r#"unknown ipmasq backend "foo""#),
        (r#""mtu":65536"#, "invalid mtu 65536 (must be at most 65535)"),
    ] {
        let config =
            format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"ptp","ipam":{{"type":"host-local"}},{keys}}}"#);
        let config =
            if keys.contains("ipam\"") { config.replace(r#""ipam":{"type":"host-local"},"#, "") } else { config };
        let (caller, mut host) = (plain().with_config(&config), machine(&answer(5)));
        let (code, said, _) = refused(&caller, &mut host);
        assert_eq!((code, said.as_str()), (7, text));
        for error in [caller.check(&Ptp, &mut host), caller.status(&Ptp, &mut host)] {
            assert_eq!(error.expect_err("refused").to_string(), text);
        }
        assert_eq!((host.applied(), host.delegated()), (&[][..], &[][..]));
    }
}

#[test]
fn an_answer_without_a_gateway_is_released_before_the_kernel_is_touched() {
    let mut host = machine(r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24"}]}"#);
    let before = host.state();
    let text = "the IPAM plugin gives 10.1.2.5/24 no gateway, which ptp cannot do without".to_owned();
    assert_eq!(refused(&plain(), &mut host), (7, text, String::new()));
    assert_eq!((host.applied().len(), host.state()), (1, before));
}

/// A veth that leads to a namespace, with a route of the host to the container's address.
fn with_route(alias: Option<&str>) -> FakeHost {
    let mut host = machine(&answer(5));
    host.enter("/run/netns/neighbour").expect("entered");
    let name = |text| IfName::parse(text).expect("a name");
    let peer = VethPeer { ns: Ns::Host, name: name("old"), mac: "02:00:00:00:00:01".parse().expect("a MAC") };
    let link = NewLink {
        name: name("eth0"),
        mac: None,
        mtu: None,
        if_present: IfPresent::Refuse,
        kind: LinkKind::Veth { peer },
    };
    let address = "10.1.2.5/32".parse().expect("CIDR");
    let route = NewRoute { scope: Some(254), ..NewRoute::to(address) };
    let forward = |family| Step::SetSysctl {
        ns: Ns::Host,
        key: Sysctl::forwarding(family),
        value: "1".to_owned(),
        need: SysctlNeed::Required,
    };
    for step in [
        forward(Family::V4),
        forward(Family::V6),
        Step::CreateLink { ns: Ns::Container, link },
        Step::set_link(Ns::Host, &name("old"), LinkSetting::Up),
        Step::AddRoute { ns: Ns::Host, name: name("old"), route },
    ] {
        host.apply(&step).expect("made");
    }
    host.change_link(Ns::Host, "old", |link| link.alias = alias.map(str::to_owned));
    host.clear_log();
    host
}

/// As the reference leaves one when its ADD fails.
#[test]
fn a_route_of_nobody_gives_way_and_comes_back_if_add_fails() {
    let machine = || with_route(None);
    let mut host = machine();
    plain().add(&Ptp, &mut host).expect("ADD");
    assert!(
        host.applied().contains(&"host: route del 10.1.2.5/32 dev old scope 254".to_owned()),
        "{:?}",
        host.applied()
    );
    let way =
        (&mut host as &mut dyn Host).link_towards(Ns::Host, [10, 1, 2, 5].into()).expect("asked").expect("a route");
    assert_eq!(way.alias.as_deref(), Some("cni:net1:ctr1:eth0"));
    lifecycle::assert_add_is_all_or_nothing(&Ptp, machine, &plain());
}

#[test]
fn an_address_that_another_uses_is_refused_by_the_name_of_its_link() {
    for alias in ["cni:net1:neighbour:eth0", "cni:net2:other:eth0", "cni:net1:ctr1:eth0"] {
        let mut host = with_route(Some(alias));
        let before = host.state();
        let text = r#"address 10.1.2.5 is in use: the host has a route to it by "old""#.to_owned();
        assert_eq!(refused(&plain(), &mut host), (103, text, format!("that link is {alias}")));
        assert_eq!(host.state(), before);
    }
}

#[test]
fn the_address_of_a_link_that_is_no_veth_is_refused() {
    let mut host = with_route(None);
    host.change_link(Ns::Host, "old", |link| link.kind = None);
    assert_eq!(refused(&plain(), &mut host).0, 103);
}

/// The caller of CHECK, who remembers the result of ADD.
fn after_add(keys: &str) -> (FakeHost, Caller) {
    let mut host = with_neighbour(&caller("neighbour", keys));
    let result = caller("ctr1", keys).add(&Ptp, &mut host).expect("ADD").render(Version::LATEST).expect("text");
    (host, caller("ctr1", &format!(r#"{keys},"prevResult":{result}"#)))
}

fn checked(caller: &Caller, host: &mut FakeHost) -> (u32, String) {
    let (code, text, _) = error_parts(caller.check(&Ptp, host).expect_err("changed"));
    (code, text)
}

fn host_end(host: &mut FakeHost) -> IfName {
    let links = host.links(Ns::Host, LinkQuery::Kind("veth")).expect("asked");
    let own = links.into_iter().find(|link| link.alias.as_deref() == Some("cni:net1:ctr1:eth0")).expect("there");
    IfName::parse(&own.name).expect("a name")
}

#[test]
fn check_finds_what_is_wrong_inside_the_container() {
    type Change = fn(&mut Link);
    let changes: [(Change, &str); 4] = [
        (|link| link.kind = Some("dummy".to_owned()), "Interface eth0 does not have link type of veth"),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
        (|link| link.mac = None, "doesn't match container Mac: "),
        (|link| link.name = "other".to_owned(), "Interface name eth0 not found in the container namespace"),
    ];
    for (change, text) in changes {
        let (mut host, caller) = after_add(WAYS[0]);
        caller.check(&Ptp, &mut host).expect("CHECK");
        host.change_link(Ns::Container, "eth0", change);
        let (code, said) = checked(&caller, &mut host);
        assert!(code == 100 && said.contains(text), "{said}");
    }
    let error = plain().check(&Ptp, &mut machine(&answer(5))).expect_err("nothing is remembered");
    assert_eq!(error.to_string(), "Required prevResult missing");
}

#[test]
fn check_finds_what_is_wrong_on_the_host() {
    type Change = fn(IfName, &mut FakeHost);
    let change = |step: fn(IfName) -> Step| step;
    let steps = [
        (
            change(|name| Step::set_link(Ns::Host, &name, LinkSetting::Down)),
            "Interface VETH in the host namespace is down",
        ),
        (
            change(|name| Step::RemoveAddress { ns: Ns::Host, name, cidr: "fd00::1/128".parse().expect("CIDR") }),
            "Failed to match gateway addr fd00::1 on interface VETH",
        ),
        (
            change(|name| {
                let route = NewRoute { scope: Some(254), ..NewRoute::to("10.1.2.5/32".parse().expect("CIDR")) };
                Step::RemoveRoute { ns: Ns::Host, name, route }
            }),
            "Expected Route to 10.1.2.5 by interface VETH not found on the host",
        ),
    ];
    for (step, text) in steps {
        let (mut host, caller) = after_add(WAYS[0]);
        let name = host_end(&mut host);
        host.apply(&step(name.clone())).expect("changed");
        assert_eq!(checked(&caller, &mut host), (100, text.replace("VETH", name.as_str())));
    }
    let another: Change = |name, host| {
        host.change_link(Ns::Host, name.as_str(), |link| link.alias = Some("cni:net1:x:eth0".to_owned()));
    };
    let (mut host, caller) = after_add(WAYS[0]);
    another(host_end(&mut host), &mut host);
    assert_eq!(checked(&caller, &mut host), (100, "the host's end of interface eth0 not found".to_owned()));
}

#[test]
fn a_masquerade_that_others_removed_is_found_and_restored() {
    for keys in &WAYS[1..] {
        let (mut host, caller) = after_add(keys);
        let complete = host.state();
        assert_eq!(lifecycle::find_missing(&Ptp, &mut host, &caller), []);
        host.netfilter = cni_testkit::FakeNetfilter::default();
        let (code, said) = checked(&caller, &mut host);
        assert!(code == 100 && said.starts_with("masquerade rule of the container not found: "), "{keys}: {said}");
        assert!(lifecycle::repair(&Ptp, &mut host, &caller) > 0);
        caller.check(&Ptp, &mut host).expect("CHECK");
        assert!(complete.len() > host.state().len(), "the neighbour's is not put back");
    }
    let (mut host, caller) = after_add(WAYS[0]);
    assert_eq!(lifecycle::find_missing(&Ptp, &mut host, &caller), []);
}

#[test]
fn gc_removes_what_belongs_to_no_valid_attachment() {
    let valid = r#""cni.dev/valid-attachments":[{"containerID":"neighbour","ifname":"eth0"}]"#;
    for keys in WAYS {
        let mut host = with_neighbour(&caller("neighbour", keys));
        let kept = host.state();
        caller("ctr1", keys).add(&Ptp, &mut host).expect("ADD");
        let lease = format!("lease {}", answer(5));
        caller("ctr1", valid).gc(&Ptp, &mut host).expect("GC");
        let left: Vec<String> = host.state().into_iter().filter(|line| *line != lease).collect();
        assert_eq!(left, kept, "{keys}");
        assert_eq!(host.delegated().last().map(String::as_str), Some("host-local GC"));
    }
}

#[test]
fn status_is_asked_of_the_ipam_plugin() {
    let mut host = machine(&answer(5));
    plain().status(&Ptp, &mut host).expect("STATUS");
    assert_eq!(host.delegated(), ["host-local STATUS"]);
    host.fail_delegate(Some(Command::Status));
    assert_eq!(plain().status(&Ptp, &mut host).expect_err("IPAM fails").code().number(), 100);
}
