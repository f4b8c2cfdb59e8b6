//! The lists of Nomad's users that have a link on a master, and addresses by the job.

use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Feature, nomad};
use serde_json::json;

use super::{KINDS, MasterHost, UPLINK, assert_reaches, has_eth0, plugin};

const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";

#[test]
fn addresses_by_the_job_live() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let mut keys = json!({"type": plugin(kind), "master": UPLINK, "ipam": {"type": "static"}});
        if kind == Feature::VlanLinks {
            keys["vlanId"] = json!(5);
        }
        let list = json!({"cniVersion": "1.0.0", "name": "fixed", "plugins": [keys]});
        let user = [("IP", "10.7.0.53/24"), ("GATEWAY", "10.7.0.1"), ("NOMAD_JOB_NAME", "web")];
        let container = machine.sandbox.container(ALLOC);
        let mut attachment = Attachment::new(ALLOC, &container).args(&nomad::args(ALLOC, "web", &user));
        machine.runtime(&list).add(&mut attachment).expect_success();
        assert_eq!(attachment.result.as_ref().expect("a result")["ips"][0]["address"], json!("10.7.0.53/24"));
        machine.runtime(&list).check(&attachment).expect_success();
        assert_reaches(&container, "10.7.0.1");
        // Nomad's DEL has no arguments, and comes again.
        let request = attachment.clone().args("");
        for _ in 0..2 {
            machine.runtime(&list).del(&request).expect_success();
            assert!(!has_eth0(&container));
        }
    });
}
