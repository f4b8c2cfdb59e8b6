//! The host-device plugin with a network card. When its namespace ends, the kernel does not delete it, but moves it to
//! the first namespace, under the name that it had in the container.

use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Container, Feature, Invocation, Runtime, Sandbox, Verb};
use serde_json::{Value, json};

/// Runs what follows in the first namespace, where the card is.
const FIRST: [&str; 2] = ["nsenter", "--net=/proc/1/ns/net"];

/// The card's address.
const MAC: &str = "02:00:00:00:00:0a";

struct CardHost {
    sandbox: Sandbox,
    list: Value,
}

impl CardHost {
    /// A host whose card is up, and has an alias of its administrator.
    fn new(keys: Value) -> Self {
        let mut plugin = keys;
        plugin["type"] = json!("host-device");
        let list = json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [plugin]});
        let host = Self { sandbox: Sandbox::new(), list };
        host.first(&["ip", "link", "set", "eth0", "alias", "uplink", "up"]);
        host
    }

    fn first(&self, words: &[&str]) -> String {
        self.sandbox.host().must(&[&FIRST[..], words].concat())
    }

    fn call(&self, verb: Verb, attachment: &Attachment) -> Invocation {
        let runtime = Runtime::new(&self.sandbox, self.list.clone());
        runtime.invocation(verb, "host-device", attachment, None).launched_by(&FIRST)
    }

    /// Attaches a container, which knows the card as `net1`.
    fn add(&self, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let attachment = Attachment::new(name, &container).ifname("net1");
        self.call(Verb::Add, &attachment).run().expect_success();
        assert!(container.sh("ip link show dev net1").contains(MAC));
        (container, attachment)
    }

    fn del(&self, attachment: &Attachment) {
        self.call(Verb::Del, attachment).run().expect_success();
    }

    /// Ends a namespace, and waits until the kernel has given the card back.
    fn end(&self, container: &Container) {
        container.remove();
        let started = Instant::now();
        while !self.first(&["ip", "-o", "link"]).contains(" net1: ") {
            assert!(started.elapsed() < Duration::from_secs(20), "the card does not come back");
            thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn card_is_as_before(&self) {
        let shown = self.first(&["ip", "link", "show", "dev", "eth0"]);
        let is_as_before = [MAC, "alias uplink", ",UP", "mtu 1500"].iter().all(|text| shown.contains(text));
        assert!(is_as_before, "{shown}");
    }
}

#[test]
fn a_card_whose_namespace_ended_gets_its_name_back() {
    on_a_kernel_with(Feature::Hardware, || {
        let host = CardHost::new(json!({"device": "eth0"}));
        let (container, attachment) = host.add("id1");
        host.end(&container);
        assert!(host.first(&["ip", "-o", "link"]).contains(" net1: "), "under the container's name");
        for _ in 0..2 {
            host.del(&attachment);
            host.card_is_as_before();
        }
        let (container, attachment) = host.add("id1");
        host.end(&container);
        let mut list = host.list.clone();
        list["plugins"][0]["cni.dev/valid-attachments"] = json!([]);
        let gc = Runtime::new(&host.sandbox, list).invocation(Verb::Gc, "host-device", &attachment, None);
        gc.launched_by(&FIRST).run().expect_success();
        host.card_is_as_before();
        // As the reference leaves it: the name is in the alias, and nowhere else.
        let (container, attachment) = host.add("id2");
        host.sandbox.sh("rm -r /run/cni/.cni-plugins-rs");
        host.end(&container);
        host.del(&attachment);
        host.first(&["ip", "link", "show", "dev", "eth0"]);
    });
}

/// The kernel may not have given it back yet.
#[test]
fn a_card_goes_back_when_its_container_is_added_again_with_another_device() {
    on_a_kernel_with(Feature::Hardware, || {
        let mut host = CardHost::new(json!({"device": "eth0"}));
        host.first(&["ip", "link", "add", "spare", "type", "dummy"]);
        host.add("id1").0.remove();
        host.list["plugins"][0]["device"] = json!("spare");
        let container = host.sandbox.container("again");
        let attachment = Attachment::new("id1", &container).ifname("net1");
        host.call(Verb::Add, &attachment).run().expect_success();
        host.card_is_as_before();
        assert!(container.sh("ip link show dev net1").contains("alias spare"));
        host.del(&attachment);
        host.first(&["ip", "link", "del", "spare"]);
    });
}

/// As tuning does, whose DEL cannot restore them once the namespace has ended.
#[test]
fn a_card_gets_the_address_and_the_mtu_back_that_the_container_has_changed() {
    on_a_kernel_with(Feature::Hardware, || {
        for is_ended in [false, true] {
            let host = CardHost::new(json!({"device": "eth0"}));
            let (container, attachment) = host.add("id1");
            container.ip(&["link set net1 down", "link set net1 address 02:00:00:00:00:77 mtu 1400"]);
            if is_ended {
                host.end(&container);
            }
            host.del(&attachment);
            host.card_is_as_before();
        }
    });
}

/// A bond has the address of its first port, or its own; it gives its ports its address, and back their own when they leave.
#[test]
fn the_port_of_a_bond_gets_its_own_address_back() {
    on_a_kernel_with(Feature::Hardware, || {
        for (keys, of_bond) in [(json!({"device": "eth0"}), "address 02:00:00:00:00:b0"), (json!({"hwaddr": MAC}), "")]
        {
            let host = CardHost::new(keys);
            host.first(&[
                "sh",
                "-ec",
                &format!("ip link add bond7 {of_bond} type bond; ip link set eth0 down; ip link set eth0 master bond7"),
            ]);
            let (container, attachment) = host.add("id1");
            if !of_bond.is_empty() {
                host.end(&container);
            }
            host.del(&attachment);
            assert!(host.first(&["ip", "link", "show", "dev", "eth0"]).contains("master bond7"));
            host.first(&["sh", "-ec", "ip link del bond7; ip link set eth0 up"]);
            host.card_is_as_before();
        }
    });
}

/// The runtime repeats DEL, or never does; the next container finds the card all the same.
#[test]
fn a_card_that_comes_back_after_del_is_found_by_its_name() {
    on_a_kernel_with(Feature::Hardware, || {
        let host = CardHost::new(json!({"device": "eth0"}));
        let (container, attachment) = host.add("id1");
        host.end(&container);
        let (again, second) = host.add("id2");
        // A late DEL leaves it in the container that has it now.
        host.del(&attachment);
        assert!(again.sh("ip link show dev net1").contains("alias eth0"));
        host.del(&second);
        host.card_is_as_before();
        host.del(&attachment);
        host.card_is_as_before();
    });
}

/// By its address alone the reference would take the container's name for its own.
#[test]
fn a_card_that_is_named_by_its_address_keeps_its_name() {
    on_a_kernel_with(Feature::Hardware, || {
        let host = CardHost::new(json!({"hwaddr": MAC}));
        let (container, _) = host.add("id1");
        host.end(&container);
        let (_again, second) = host.add("id2");
        host.del(&second);
        host.card_is_as_before();
    });
}
