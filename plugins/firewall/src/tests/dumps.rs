//! The rules on a machine, against what `iptables-save` prints on one where the reference plugin worked.

use super::*;

/// The lines of a dump by chain, in the order that they have there.
fn by_chain(text: &str) -> Vec<String> {
    let chain = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.trim_end_matches(" -").replacen(':', "-N ", usize::from(line.starts_with(':'))))
        .collect();
    lines.sort_by_key(|line| chain(line));
    lines
}

fn assert_dump(machine: &FakeHost, family: Family, want: &str) {
    assert_eq!(by_chain(&dump(machine, family)), by_chain(want));
}

const OPEN: &str = r#":CNI-ADMIN -
:CNI-FORWARD -
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT"#;

#[test]
fn open() {
    let machine = &mut FakeHost::default();
    Caller::new("ctr1", "", &["10.88.0.5/24"]).add(machine).expect("added");
    assert_dump(machine, Family::V4, OPEN);
    assert_eq!(dump(machine, Family::V6), "");
}

const NOMAD_V4: &str = r#":CNI-FORWARD -
:NOMAD-ADMIN -
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j NOMAD-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT"#;

const NOMAD_V6: &str = r#":CNI-FORWARD -
:NOMAD-ADMIN -
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j NOMAD-ADMIN
-A CNI-FORWARD -d fd00:88::5/128 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s fd00:88::5/128 -j ACCEPT"#;

#[test]
fn dual_stack_with_an_admin_chain_of_nomad() {
    let machine = &mut FakeHost::default();
    machine.netfilter.iptables.load(Family::V4, IptablesTable::Filter, "-N NOMAD-ADMIN").expect("loads");
    let keys = r#""backend":"iptables","iptablesAdminChainName":"NOMAD-ADMIN""#;
    Caller::new("ctr1", keys, &["10.88.0.5/24", "fd00:88::5/64"]).add(machine).expect("added");
    assert_dump(machine, Family::V4, NOMAD_V4);
    assert_dump(machine, Family::V6, NOMAD_V6);
}

const SAME_BRIDGE_V4: &str = r#":CNI-ADMIN -
:CNI-FORWARD -
:CNI-ISOLATION-STAGE-1 -
:CNI-ISOLATION-STAGE-2 -
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#;

const SAME_BRIDGE_V6: &str = r#":CNI-ADMIN -
:CNI-FORWARD -
:CNI-ISOLATION-STAGE-1 -
:CNI-ISOLATION-STAGE-2 -
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d fd00:88::5/128 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s fd00:88::5/128 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#;

#[test]
fn same_bridge() {
    let machine = &mut FakeHost::default();
    let keys = r#""ingressPolicy":"same-bridge""#;
    Caller::new("ctr1", keys, &["fd00:88::5/64", "10.88.0.5/24"]).add(machine).expect("added");
    assert_dump(machine, Family::V4, SAME_BRIDGE_V4);
    assert_dump(machine, Family::V6, SAME_BRIDGE_V6);
}

const ISOLATED: &str = r#":CNI-ADMIN -
:CNI-FORWARD -
:CNI-ISOLATION-STAGE-1 -
:CNI-ISOLATION-STAGE-2 -
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#;

const ISOLATED_AND_SAME_BRIDGE: &str = r#":CNI-ADMIN -
:CNI-FORWARD -
:CNI-ISOLATION-STAGE-1 -
:CNI-ISOLATION-STAGE-2 -
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-FORWARD -d 10.89.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.89.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br1 ! -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN"#;

#[test]
fn isolated_and_then_another_bridge() {
    let machine = &mut FakeHost::default();
    Caller::new("ctr1", r#""ingressPolicy":"isolated""#, &["10.88.0.5/24"]).add(machine).expect("added");
    assert_dump(machine, Family::V4, ISOLATED);
    let other = Caller::on_bridge("ctr2", "br1", r#""ingressPolicy":"same-bridge""#, &["10.89.0.5/24"]);
    other.add(machine).expect("added");
    assert_dump(machine, Family::V4, ISOLATED_AND_SAME_BRIDGE);
}

#[test]
fn what_is_shared_stays() {
    let machine = &mut FakeHost::default();
    let first = Caller::new("ctr1", r#""ingressPolicy":"isolated""#, &["10.88.0.5/24"]);
    let second = Caller::on_bridge("ctr2", "br1", r#""ingressPolicy":"same-bridge""#, &["10.89.0.5/24"]);
    for caller in [&first, &second] {
        caller.add(machine).expect("added");
    }
    for caller in [&first, &second] {
        caller.del(machine).expect("removed");
    }
    let shared = ISOLATED_AND_SAME_BRIDGE.lines().filter(|line| !line.contains("/32"));
    assert_dump(machine, Family::V4, &shared.collect::<Vec<_>>().join("\n"));
}
