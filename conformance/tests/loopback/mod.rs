//! A network with only loopback, as a list and as the configuration of one plugin.

use std::net::Ipv4Addr;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::ping;
use cni_conformance::{Attachment, Network, Runtime, Sandbox, State, nomad};
use serde_json::{Value, json};

const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";

fn list() -> Value {
    json!({"cniVersion": "1.0.0", "name": "loopback", "plugins": [{"type": "loopback"}]})
}

/// Of a `.conf` or `.json` Nomad makes a list of one plugin, which keeps the name and the version of the whole.
fn of_a_single_plugin() -> Value {
    let plugin = json!({"cniVersion": "1.0.0", "name": "loopback", "type": "loopback"});
    json!({"cniVersion": plugin["cniVersion"], "name": plugin["name"], "plugins": [plugin]})
}

/// Nomad refuses a result without an address.
#[test]
fn loopback_alone_lives_and_has_addresses() {
    for_each([(".conflist", list()), (".conf and .json", of_a_single_plugin())], |list| {
        let sandbox = Sandbox::new();
        let host = State::of_host(&sandbox);
        let container = sandbox.container(ALLOC);
        let runtime = Runtime::new(&sandbox, list);
        let mut attachment = Attachment::new(ALLOC, &container).args(&nomad::args(ALLOC, "web", &[]));
        let result = runtime.add(&mut attachment).result();
        let addresses: Vec<&Value> =
            result["ips"].as_array().expect("addresses").iter().map(|ip| &ip["address"]).collect();
        assert_eq!(json!(addresses), json!(["127.0.0.1/8", "::1/128"]), "{result:#}");
        assert_eq!(result["interfaces"][0]["sandbox"], json!(container.path()), "{result:#}");
        runtime.check(&attachment).expect_success();
        assert!(ping(&container, Ipv4Addr::LOCALHOST.into(), Duration::from_secs(20)));
        runtime.del(&attachment.clone().args("")).expect_success();
        assert!(Network::observe(&container).links.iter().all(|link| !link.up), "lo is down again");
        container.remove();
        runtime.del(&attachment.args("")).expect_success();
        assert_same(&host, &State::of_host(&sandbox));
    });
}
