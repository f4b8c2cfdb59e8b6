//! flannel

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::CaseVerdict;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["flannel"])
}

pub const CASES: &[Template] = &[
    add("flannel-mtu", "the interface has the MTU of the lease", |host| {
        host.add()?;
        host.container_shows("ip link show eth0", "mtu 1450")
    }),
    add("flannel-delegate-mtu", "the MTU of the delegate overrides that of the lease", |host| {
        host.add_with(&json!({"delegate": {"bridge": "br0", "mtu": 1300}}))?;
        host.container_shows("ip link show eth0", "mtu 1300")
    }),
    add("flannel-state", "the composed configuration is kept under the id of the container", |host| {
        host.add()?;
        host.host_shows("cat /var/lib/cni/flannel/ctr1", r#""mtu":1450"#)
    }),
];
