//! DEL of a container whose namespace another one has by now.

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature};
use serde_json::json;

use crate::on_a_master::{MasterHost, has_eth0};

/// A container that has the namespace of another one that is gone, as `/proc/<pid>/ns/net` may show it.
#[test]
fn del_leaves_a_link_that_has_another_mac_address() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new(Feature::MacvlanLinks);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        container.sh("ip link del eth0");
        let mut other = Attachment::new("c2", &container);
        machine.runtime(&list).add(&mut other).expect_success();
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&container));
        machine.runtime(&list).del(&other).expect_success();
        assert!(!has_eth0(&container));
    });
}
