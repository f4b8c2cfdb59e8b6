//! Jumps beside rules in the tables of iptables that only `nft` can print.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, PortMapping, Runtime, Sandbox, Spelling, flannel};
use serde_json::{Value, json};

/// As administrators write them: sets, maps and names of interfaces, in chains with the names of iptables.
const RULES: &str = "
table FAMILY filter {
    chain FORWARD {
        type filter hook forward priority 0; policy drop;
        ct state vmap { established : accept, related : accept, invalid : drop }
        iifname { \"lan0\", \"wlan0\" } accept
    }
}
table FAMILY nat {
    chain PREROUTING {
        type nat hook prerouting priority -100; policy accept;
        iifname \"wan0\" tcp dport { 80, 443 } redirect to :8443
    }
    chain OUTPUT {
        type nat hook output priority -100; policy accept;
        tcp dport { 81, 444 } redirect to :8444
    }
    chain POSTROUTING {
        type nat hook postrouting priority 100; policy accept;
        oifname { \"wan0\", \"wan1\" } masquerade
    }
}
";

/// What is in these rules and in none of ours.
const MARKS: [&str; 6] = ["ct state vmap", "lan0", "wan0", "redirect to", "policy drop", "type nat hook"];

fn interfaces() -> [(&'static str, Value); 3] {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]});
    let delegate = json!({"isDefaultGateway": true, "ipMasq": true});
    [
        ("bridge", json!({"type": "bridge", "isGateway": true, "ipMasq": true, "ipam": ipam})),
        ("ptp", json!({"type": "ptp", "ipMasq": true, "ipam": ipam})),
        ("flannel", json!({"type": "flannel", "delegate": delegate})),
    ]
}

fn lines(sandbox: &Sandbox, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let rules = sandbox.sh("nft --stateless list ruleset");
    rules.lines().filter(|line| is_wanted(line)).map(str::to_owned).collect()
}

/// The first container of a host finds no jump, and the second one finds it.
#[test]
fn containers_come_and_go_beside_rules_that_only_nft_prints() {
    for_each(interfaces(), |interface| {
        let sandbox = Sandbox::new();
        flannel::write_lease(flannel::BOTH_FAMILIES);
        let rules = ["ip", "ip6"].map(|family| RULES.replace("FAMILY", family)).concat();
        std::fs::write("/run/conformance/rules", rules).expect("write the rules");
        sandbox.sh("nft -f /run/conformance/rules");
        let foreign = || lines(&sandbox, |line| MARKS.iter().any(|mark| line.contains(mark)));
        let before = foreign();
        assert_eq!(before.len(), 18);
        let plugins = json!([
            interface,
            {"type": "firewall", "backend": "iptables", "ingressPolicy": "open"},
            {"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}},
        ]);
        let runtime = Runtime::new(&sandbox, json!({"cniVersion": "1.1.0", "name": "n1", "plugins": plugins}));
        let mut attached = [("c1", 8080), ("c2", 8081)].map(|(name, port)| {
            let ports = [PortMapping::new(port, 80, "tcp")];
            Attachment::new(name, &sandbox.container(name)).ports(&ports, Spelling::Go)
        });
        for attachment in &mut attached {
            runtime.add(attachment).expect_success();
            runtime.check(attachment).expect_success();
            assert_eq!(foreign(), before);
        }
        let jumps =
            lines(&sandbox, |line| line.contains("jump CNI-FORWARD") || line.contains("jump CNI-HOSTPORT-DNAT"));
        assert_eq!(jumps.len(), 6, "{jumps:?}");
        let [first, second] = &attached;
        runtime.gc(&[first]).expect_success();
        runtime.del(&second.clone().without_result()).expect_success();
        runtime.check(first).expect_success();
        runtime.del(first).expect_success();
        let own = |line: &str| ["10.88.0.", "fd00:88::", "CNI-DN-", ":80"].iter().any(|mark| line.contains(mark));
        assert_eq!(lines(&sandbox, own), [""; 0]);
        assert_eq!(foreign(), before);
    });
}
