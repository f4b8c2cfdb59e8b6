//! Two owners of one address (C8 of `reference/defects.md`).

use cni_conformance::cases::for_each;
use cni_conformance::{CniTool, Nomad, Sandbox, Standalone};
use serde_json::json;

/// The DEL of either removed the rules of both.
#[test]
fn one_address_in_two_networks_has_its_rules_until_the_last_owner_goes() {
    for_each([("the first goes first", [0, 1]), ("the last goes first", [1, 0])], |order| {
        let sandbox = Sandbox::new();
        let owners = [("c1", "n1"), ("c2", "n2")].map(|(id, network)| {
            let container = sandbox.container(id);
            container.sh("ip link add eth0 type bridge");
            container.sh("ip address add 10.1.2.3/24 dev eth0");
            let interfaces = json!([{"name": "eth0", "sandbox": container.path()}]);
            let ips = json!([{"address": "10.1.2.3/24", "interface": 0}]);
            let prev_result = json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips});
            let keys = json!({"backend": "iptables", "name": network});
            (Standalone::new(&sandbox, "firewall", id, &prev_result, &keys), container)
        });
        let rules = || sandbox.sh("iptables -S CNI-FORWARD").lines().filter(|line| line.contains("10.1.2.3")).count();
        for (owner, _) in &owners {
            owner.add();
            assert_eq!(rules(), 2);
        }
        let [goes, stays] = order.map(|at| &owners[at].0);
        goes.del();
        assert_eq!(rules(), 2);
        stays.check();
        stays.del();
        assert_eq!(rules(), 0);
    });
}

/// The same where the one that stays is a sandbox such as gVisor, which takes the address from the kernel.
#[test]
fn the_rules_go_back_to_a_sandbox_that_has_taken_the_address_from_the_kernel() {
    let sandbox = Sandbox::new();
    let [stays, goes] = ["stays", "goes"].map(|name| {
        let mut list = Nomad::version("1.0.0").conflist();
        list["name"] = name.into();
        list["plugins"][1]["bridge"] = name.into();
        list["plugins"][1]["ipam"]["dataDir"] = format!("/var/lib/cni/{name}").into();
        (CniTool::new(&sandbox, &list), sandbox.container(name))
    });
    stays.0.add(&stays.1).expect_success();
    stays.1.sh("ip address flush dev eth0");
    goes.0.add(&goes.1).expect_success();
    let rules = || sandbox.sh("iptables -S CNI-FORWARD").lines().filter(|line| line.contains("172.26.64.2/32")).count();
    assert_eq!(rules(), 2);
    goes.0.del(&goes.1).expect_success();
    assert_eq!(rules(), 2);
    stays.0.del(&stays.1).expect_success();
    assert_eq!(rules(), 0);
}

/// gVisor takes the address from the kernel, and uses it itself. A late DEL of the one that had the address before comes again.
#[test]
fn the_rules_of_a_sandbox_that_has_taken_its_address_from_the_kernel_stay() {
    let sandbox = Sandbox::new();
    let tool = CniTool::new(&sandbox, &Nomad::version("1.0.0").conflist());
    let container = sandbox.container("stays");
    tool.add(&container).expect_success();
    container.sh("ip address flush dev eth0");
    let rules = || sandbox.sh("iptables -S CNI-FORWARD").lines().filter(|line| line.contains("172.26.64.2/32")).count();
    assert_eq!(rules(), 2);
    let ips = json!([{"address": "172.26.64.2/20"}]);
    let prev_result = json!({"cniVersion": "1.0.0", "interfaces": [], "ips": ips});
    Standalone::new(&sandbox, "firewall", "gone", &prev_result, &json!({"name": "other"})).del();
    assert_eq!(rules(), 2);
    tool.del(&container).expect_success();
    assert_eq!(rules(), 0);
}
