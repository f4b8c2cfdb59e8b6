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

/// The DEL after an ADD that was refused, since the name is taken. Each plugin of the list is asked, without a result.
#[test]
fn the_del_after_a_refused_add_leaves_what_chained_plugins_made_in_another_network() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new(Feature::MacvlanLinks);
        let mut list = machine.network(&json!({}));
        let chained = [json!({"type": "tuning", "mtu": 1400}), json!({"type": "sbr"})];
        list["plugins"].as_array_mut().expect("plugins").extend(chained);
        let (container, _attachment) = machine.attach(&list, "c1");
        let state = || {
            container.sh("ip -d link show eth0") + &container.sh("ip rule") + &container.sh("ip route show table all")
        };
        let before = state();
        list["name"] = json!("other");
        let mut refused = Attachment::new("c1", &container);
        assert!(!machine.runtime(&list).add(&mut refused).succeeded());
        machine.runtime(&list).del(&refused).expect_success();
        assert_eq!(state(), before);
    });
}
