//! The tuning plugin, killed while it changes and announces a MAC address. In cases a new container has no interface whose address can be set back.

use cni_conformance::Verb::{Add, Del};
use cni_conformance::injection::calls_of;
use cni_conformance::state::assert_same;
use cni_conformance::{Attachment, Container, ListHost, State};
use serde_json::json;

fn host() -> (ListHost, Container, Attachment) {
    let host = ListHost::new(json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [{
        "type": "tuning", "mac": "02:00:00:00:00:0a", "sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "1"},
        "prevResult": {"cniVersion": "1.0.0"},
    }]}));
    host.sandbox.sh("mkdir -m 700 /run/cni/tuning");
    let container = host.sandbox.container("c1");
    container.ip(&["link add eth0 up address 02:00:00:00:00:01 type veth peer name peer", "link set peer up"]);
    let attachment = Attachment::new("c1", &container);
    (host, container, attachment)
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let (first, _container, attachment) = host();
    let calls = calls_of(&first.runtime().invocation(Add, "tuning", &attachment, None));
    drop(first);
    for call in calls {
        let (host, container, attachment) = host();
        let before = State::capture(&host.sandbox, &[&container]);
        call.kill_in(&host.runtime().invocation(Add, "tuning", &attachment, None));
        host.runtime().invocation(Del, "tuning", &attachment, None).run().expect_success();
        assert_same(&before, &State::capture(&host.sandbox, &[&container]));
    }
}
