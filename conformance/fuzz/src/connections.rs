//! Tracked connections: a datagram of the kernel's answer to a dump.
//!
//! Only connections that match the filter are listed, and each listed one can be deleted.

use cni_core::family::Family;
use cni_kernel::conntrack::Conntrack;
use cni_kernel::netlink::played;
use cni_netfilter::flows::FlowFilter;

pub fn run(input: &[u8]) -> Option<()> {
    let [first, datagram @ ..] = input else { return None };
    let family = Family::ALL[usize::from(first % 2)];
    let all = FlowFilter { family, to: None, ports: Vec::new(), led_to: None };
    let filters = [all.clone(), FlowFilter { ports: vec![8080], ..all }];
    for filter in filters {
        let (socket, kernel) = played(&[crate::netlink::answered(datagram)]);
        let mut conntrack = Conntrack::played(socket);
        let found = conntrack.udp(&filter, |_| true).ok()?;
        assert!(found.iter().all(|entry| filter.takes(&entry.flow)), "{found:?}");
        drop(conntrack.delete(&found));
        drop(kernel);
    }
    Some(())
}
