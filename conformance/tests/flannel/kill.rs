//! ADDs that were killed: DEL removes what they left.

use cni_conformance::killed::at_each_moment;
use cni_conformance::{Attachment, Verb};

use crate::flannel::setup::host;

#[test]
fn del_removes_what_a_killed_add_has_left() {
    at_each_moment(
        16,
        || {
            let host = host();
            host.add("neighbour");
            let container = host.sandbox.container("c1");
            (host, container)
        },
        |(host, container)| host.runtime().invocation(Verb::Add, "flannel", &Attachment::new("c1", container), None),
        |(host, container)| host.state_with(&[container]),
        |(host, container), before| {
            host.del(&Attachment::new("c1", container));
            host.is_as_before(before, &[container]);
        },
    );
}
