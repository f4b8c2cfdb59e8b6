//! The masquerade of a container that the reference has made.

use cni_conformance::{Attachment, Flavour, Runtime, Sandbox, State, reference};
use serde_json::json;

use crate::bridge::setup::{V4, V6, network};

/// Returns the rules of table nat, as a program prints them.
fn rules(state: &State, program: &str) -> Vec<String> {
    let section = state.section(&format!("{program} nat"));
    section.iter().filter(|line| !line.starts_with("-P ")).cloned().collect()
}

/// Returns those of both families.
pub fn all_rules(sandbox: &Sandbox) -> [Vec<String>; 2] {
    let state = State::of_host(sandbox);
    ["iptables", "ip6tables"].map(|program| rules(&state, program))
}

/// The reference records nothing, and leaves these rules itself when the configuration no longer asks for them.
#[test]
fn del_removes_what_the_reference_has_made_whatever_the_configuration_asks_for_by_then() {
    let Some(reference) = reference::find("the masquerade of the reference's container") else { return };
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let list = |is_asked_for: bool| {
            let bridge = network(&[V4, V6], json!({"ipMasq": is_asked_for, "isGateway": true}));
            json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [bridge]})
        };
        let containers = ["id1", "id2"].map(|name| sandbox.container(name));
        let attachments = containers.each_ref().map(|container| {
            let mut attachment = Attachment::new(container.name(), container);
            let runtime = Runtime::new(&sandbox, list(true)).binaries(&reference.folder);
            runtime.add(&mut attachment).expect_success();
            attachment
        });
        let [first, second] = ["id1", "id2"].map(|name| format!("id: \\\"{name}\\\""));
        let with =
            |mark: &str| all_rules(&sandbox).map(|rules| rules.iter().filter(|rule| rule.contains(mark)).count());
        assert_eq!([with(&first), with(&second)], [[3, 3]; 2], "{:?}", all_rules(&sandbox));
        Runtime::new(&sandbox, list(false)).del(&attachments[0]).expect_success();
        assert_eq!([with(&first), with(&second)], [[0, 0], [3, 3]], "{:?}", all_rules(&sandbox));
    }
}
