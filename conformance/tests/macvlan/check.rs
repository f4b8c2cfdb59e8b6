//! CHECK compares the link, and not the master.

use cni_conformance::Feature;
use cni_conformance::uml::on_a_kernel_with;
use serde_json::json;

use crate::on_a_master::{MasterHost, UPLINK, shell};

// The reference fails when the MTU of the master sinks below that of the configuration, which the link follows.
#[test]
fn check_is_about_the_link_alone() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new(Feature::MacvlanLinks);
        let list = machine.network(&json!({"mtu": 1500}));
        let (_, attachment) = machine.attach(&list, "c1");
        shell(
            machine.sandbox.host(),
            &format!("ip link set {UPLINK} mtu 1400; ip link property add dev {UPLINK} altname other"),
        );
        machine.runtime(&list).check(&attachment).expect_success();
    });
}
