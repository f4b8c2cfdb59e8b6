//! What only ipvlan has: one mode for all links of a master, and addresses of an earlier plugin.

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Invocation, Network, Verb};
use serde_json::json;

use crate::on_a_master::{MasterHost, UPLINK, has_eth0, shell};

const INVALID: u64 = 7;
const CONFLICT: u64 = 103;

// With the reference the new link switches all others, and their CHECK fails from then on.
#[test]
fn a_link_in_another_mode_is_refused_and_the_others_stay_as_they_are() {
    on_a_kernel_with(Feature::IpvlanLinks, || {
        let machine = MasterHost::new(Feature::IpvlanLinks);
        let (l2, l3) = (machine.network(&json!({})), machine.network(&json!({"mode": "l3"})));
        let (_, one) = machine.attach(&l2, "c1");
        let second = machine.sandbox.container("c2");
        let chain = machine.runtime(&l3).add(&mut Attachment::new("c2", &second));
        let text = "failed to create ipvlan: uplink0 has links in mode l2 already, which mode l3 would change";
        chain.expect_error("ipvlan", CONFLICT, text);
        assert!(!has_eth0(&second));
        assert_eq!(machine.leases(), ["10.7.0.2"]);
        machine.runtime(&l2).check(&one).expect_success();
        machine.runtime(&l2).add(&mut Attachment::new("c2", &second)).expect_success();
    });
}

#[test]
fn when_the_last_link_of_a_mode_is_gone_another_mode_may_come() {
    on_a_kernel_with(Feature::IpvlanLinks, || {
        let machine = MasterHost::new(Feature::IpvlanLinks);
        let (l2, l3s) = (machine.network(&json!({})), machine.network(&json!({"mode": "l3s"})));
        let (_, one) = machine.attach(&l2, "c1");
        let (gone, _) = machine.attach(&l2, "c2");
        machine.runtime(&l2).del(&one).expect_success();
        gone.remove();
        let mut attachment = Attachment::new("c3", &machine.sandbox.container("c3"));
        let attempt = || machine.runtime(&l3s).add(&mut attachment.clone());
        // The kernel takes its time to end a namespace.
        for _ in 0..50 {
            if attempt().succeeded() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        machine.runtime(&l3s).del(&attachment).expect_success();
        machine.runtime(&l3s).add(&mut attachment).expect_success();
        machine.runtime(&l3s).check(&attachment).expect_success();
    });
}

/// A link on the host, or of another program in a namespace that has a number.
#[test]
fn a_link_of_somebody_else_counts_as_well() {
    on_a_kernel_with(Feature::IpvlanLinks, || {
        let machine = MasterHost::new(Feature::IpvlanLinks);
        let list = machine.network(&json!({}));
        let container = machine.sandbox.container("c1");
        for (make, undo) in [
            (format!("ip link add link {UPLINK} name other0 type ipvlan mode l3"), "ip link del other0"),
            (
                format!(
                    "ip netns add other; ip netns set other 4711; ip link add link {UPLINK} name other0 netns other type ipvlan mode l3"
                ),
                "ip -n other link del other0",
            ),
        ] {
            shell(machine.sandbox.host(), &make);
            let chain = machine.runtime(&list).add(&mut Attachment::new("c1", &container));
            chain.expect_error("ipvlan", CONFLICT, "uplink0 has links in mode l3 already");
            shell(machine.sandbox.host(), undo);
        }
        machine.runtime(&list).add(&mut Attachment::new("c1", &container)).expect_success();
    });
}

#[test]
fn behind_another_plugin_it_takes_over_its_interface_and_addresses() {
    on_a_kernel_with(Feature::IpvlanLinks, || {
        let machine = MasterHost::new(Feature::IpvlanLinks);
        let container = machine.sandbox.container("c1");
        let call = |verb, previous: &serde_json::Value| {
            let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "ipvlan", "prevResult": previous});
            let call = Invocation::new(&machine.sandbox, "ipvlan", verb).container_id("c1").netns(container.path());
            call.config(&config).run()
        };
        let previous = json!({
            "interfaces": [{"name": UPLINK}], "routes": [{"dst": "10.9.0.0/16"}],
            "ips": [{"address": "10.7.0.9/24", "gateway": "10.7.0.1", "interface": 0}],
        });
        let result = call(Verb::Add, &previous).result();
        assert_eq!(Network::observe(&container).addresses_of("eth0"), ["10.7.0.9/24"]);
        assert_eq!((&result["interfaces"][0]["name"], &result["ips"][0]["interface"]), (&json!("eth0"), &json!(0)));
        assert_eq!(result["routes"], json!([{"dst": "10.9.0.0/16"}]));
        crate::on_a_master::assert_reaches(&container, "10.7.0.1");
        // The reference's CHECK needs a master in the configuration.
        call(Verb::Check, &result).expect_success();
        call(Verb::Del, &result).expect_success();
        assert!(!has_eth0(&container));
        let text = "chained master failure. PrevResult lacks a single named interface";
        for interfaces in [json!([]), json!([{"name": UPLINK}, {"name": "lo"}])] {
            let mut other = previous.clone();
            other["interfaces"] = interfaces;
            call(Verb::Add, &other).expect_error(INVALID, text);
        }
        let mut without = previous.clone();
        without["ips"] = json!([]);
        call(Verb::Add, &without).expect_error(INVALID, "requires an IPAM configuration");
    });
}
