//! Attachments and results for the tests of this crate.

use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_model::link::{Address, Link};
use cni_model::plan::{LinkSetting, Ns, Plan};
use cni_plugin::host::{Host as _, LinkQuery};
use cni_testkit::{FakeContainer, FakeHost};

use crate::veth::NewVeth;

/// The path of the namespace of `c1`.
pub const NETNS: &str = "/run/netns/c1";

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    cni_testkit::attachment("net1", container, ifname)
}

/// DEL of the interface `eth0` of `c1` in `net1`, with its namespace at this path.
pub fn request(netns: &str) -> Request {
    let config = r#"{"cniVersion":"1.1.0","name":"net1","type":"dummy"}"#;
    cni_testkit::request("DEL", &[("CNI_NETNS", netns)], config)
}

/// A machine with the interface `eth0` of `c1` in `net1`, a veth whose end on the host has this alias, and that end.
pub fn host_with_veth(alias: Option<&str>, address: [u8; 4]) -> (FakeHost, Link) {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    let at = attachment("c1", "eth0");
    let veth = NewVeth::choose(&at, None, &mut host).expect("chosen");
    let mut plan = Plan::default();
    veth.plan(&mut plan, &at, None);
    plan.within(veth.set(LinkSetting::Alias(alias.unwrap_or_default().to_owned())));
    for (_, step) in plan.steps() {
        host.apply(step).expect("made");
    }
    host.change_link(Ns::Host, veth.host.as_str(), |link| link.alias = alias.map(str::to_owned));
    let cidr = format!("{}/24", std::net::Ipv4Addr::from(address)).parse().expect("CIDR");
    host.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
    let end = host.links(Ns::Host, LinkQuery::Kind("veth")).expect("links").pop().expect("the veth");
    (host, end)
}
