//! ADDs that fail leave nothing behind.

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Container, Feature, Invocation, Verb};
use serde_json::{Value, json};

use super::{KINDS, MasterHost, UPLINK, calls, contents, has_eth0, plugin, shell, with_script};

const INVALID: u64 = 7;
const CONFLICT: u64 = 103;

/// Requires that an ADD fails so, and leaves nothing.
#[track_caller]
fn assert_refused(machine: &MasterHost, container: &Container, list: &Value, code: u64, text: &str) {
    let before = contents(container);
    let mut attachment = Attachment::new("c1", container);
    machine.runtime(list).add(&mut attachment).expect_error(plugin(machine.kind), code, text);
    assert_eq!(contents(container), before);
    assert_eq!(machine.leases(), [""; 0]);
}

#[test]
fn a_master_that_is_not_there_or_an_mtu_beyond_its_own_is_refused() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        let none = r#"failed to lookup master "none": Link not found"#;
        assert_refused(&machine, &container, &machine.network(&json!({"master": "none"})), INVALID, none);
        for mtu in if kind == Feature::IpvlanLinks { vec![] } else { vec![1501, -100] } {
            let text = format!("invalid MTU {mtu}, must be [0, master MTU(1500)]");
            assert_refused(&machine, &container, &machine.network(&json!({"mtu": mtu})), INVALID, &text);
        }
    });
}

#[test]
fn a_name_that_an_interface_has_is_refused_and_the_interface_stays() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        container.sh("ip link add eth0 type veth peer name peer");
        let text = format!("failed to create {}: file exists", plugin(kind));
        assert_refused(&machine, &container, &machine.network(&json!({})), CONFLICT, &text);
    });
}

/// The kernel says so with one word; what it means is in the details.
#[test]
fn a_master_that_is_taken_is_refused_with_what_has_it() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        shell(machine.sandbox.host(), &format!("ip link add br0 type bridge; ip link set {UPLINK} master br0"));
        let error = machine.runtime(&machine.network(&json!({}))).add(&mut Attachment::new("c1", &container));
        let text = format!("failed to create {}: device or resource busy", plugin(kind));
        let error = error.expect_error(plugin(kind), CONFLICT, &text);
        assert!(error.details.contains(&format!("{UPLINK} is a port of a bridge")), "{error:?}");
    });
}

// The reference keeps the link, or the lease, or both.
#[test]
fn an_unusable_answer_of_ipam_leaves_nothing() {
    on_kernels_with(KINDS, |kind| {
        let ips = r#""ips":[{"address":"10.7.0.2/24","gateway":"10.7.0.1"}]"#;
        let rows = [
            ("nothing", "{}".to_owned(), "IPAM plugin returned missing IP config"),
            ("no JSON", "nonsense".to_owned(), "failed to unmarshal raw result of script"),
            ("an entry without content", r#"{"ips":[null]}"#.to_owned(), "script returned an invalid result"),
            (
                "a route of two families",
                format!(r#"{{{ips},"routes":[{{"dst":"::/0","gw":"10.7.0.1"}}]}}"#),
                "another family",
            ),
            (
                "no way to the gateway",
                format!(r#"{{{ips},"routes":[{{"dst":"0.0.0.0/0","gw":"172.16.0.1"}}]}}"#),
                "route",
            ),
            (
                "one address twice",
                r#"{"ips":[{"address":"10.7.0.2/24"},{"address":"10.7.0.2/24"}]}"#.to_owned(),
                "address",
            ),
        ];
        for_each(rows.map(|(name, answer, text)| (name, (answer, text))), |(answer, text)| {
            let machine = MasterHost::new(kind);
            let container = machine.sandbox.container("c1");
            let before = contents(&container);
            let path = with_script(&format!("[ $CNI_COMMAND = DEL ] || echo '{answer}'"));
            let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin(kind), "master": UPLINK, "ipam": {"type": "script"}});
            let add =
                Invocation::new(&machine.sandbox, plugin(kind), Verb::Add).container_id("c1").netns(container.path());
            let error = add.path(&path).config(&config).run().error();
            assert!(error.msg.contains(text), "{error:?}");
            // The link is there when the IPAM plugin is asked, and gone when the address is given back.
            assert_eq!(calls(), ["ADD there", "DEL gone"]);
            assert_eq!(contents(&container), before);
        });
    });
}

// The reference's vlan says 999.
#[test]
fn an_error_of_ipam_keeps_its_code() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        let before = contents(&container);
        let path =
            with_script(r#"echo '{"cniVersion":"1.0.0","code":102,"msg":"full","details":"none left"}'; exit 1"#);
        let mut config = machine.network(&json!({"ipam": {"type": "script"}}))["plugins"][0].clone();
        config["cniVersion"] = json!("1.0.0");
        config["name"] = json!("lan");
        let add = Invocation::new(&machine.sandbox, plugin(kind), Verb::Add).container_id("c1").netns(container.path());
        let error = add.path(&path).config(&config).run().expect_error(102, "full");
        assert!(error.details.contains("none left"), "{error:?}");
        assert_eq!(contents(&container), before);
    });
}

// The reference keeps both.
#[test]
fn a_result_that_cannot_be_written_leaves_nothing() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        let before = contents(&container);
        let attachment = Attachment::new("c1", &container);
        let list = machine.network(&json!({}));
        let add = machine.runtime(&list).invocation(Verb::Add, plugin(kind), &attachment, None);
        let outcome = add.launched_by(&["/bin/sh", "-c", "exec \"$0\" > /dev/full"]).run();
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        assert_eq!(contents(&container), before);
        assert_eq!(machine.leases(), [""; 0]);
    });
}

// The reference keeps the link and gives its address to the next container, whose packets the other one gets.
#[test]
fn an_address_that_another_host_has_is_found_out() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let addresses = json!([{"address": "fd00:7::1/64"}]);
        let list = machine.network(&json!({"ipam": {"type": "static", "addresses": addresses}}));
        let container = machine.sandbox.container("c1");
        assert_refused(&machine, &container, &list, CONFLICT, "DADFAILED");
    });
}

/// The runtime deletes what it could not add, without a result. The reference deletes whatever has the name.
#[test]
fn the_del_after_a_refused_add_leaves_the_interface_of_another_network() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let before = contents(&container);
        let other = with(&list, &json!({"name": "other"}));
        let mut refused = Attachment::new("c1", &container);
        assert!(!machine.runtime(&other).add(&mut refused).succeeded());
        machine.runtime(&other).del(&refused).expect_success();
        assert_eq!(contents(&container), before);
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(!has_eth0(&container));
    });
}

/// There was no other ADD: the network was renamed. The reference leaves the address reserved.
#[test]
fn del_under_the_new_name_of_a_network_removes_the_link_and_releases_its_address() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let renamed = with(&list, &json!({"name": "renamed"}));
        machine.runtime(&renamed).del(&attachment.without_result()).expect_success();
        assert!(!has_eth0(&container));
        assert_eq!(machine.leases(), [""; 0]);
    });
}
