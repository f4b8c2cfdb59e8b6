//! DEL: it removes what exists and succeeds, whatever is missing.

use serde_json::json;

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::host::{CaseContainer, PrivateHost};
use crate::suite::ipam;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, Mismatch, require};
use crate::suite::subject::PluginKind;
use cni_conformance::{Invocation, Loss, Verb};

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Del, what, says, run)
}

pub const CASES: &[Template] = &[
    case("undoes", "after ADD and DEL of a second container, host and container are as before", undoes)
        .spec(&["del-undoes", "operations"]),
    case("again", "DEL succeeds three times in a row", again).spec(&["del-again"]),
    case("never-added", "DEL succeeds for a container that was never added", never_added)
        .spec(&["del-again", "del-missing"])
        .once()
        .needs(Needs::Version),
    case("netns-gone", "DEL succeeds when the namespace is gone, and the host is as before", netns_gone)
        .spec(&["del-missing"]),
    case("netns-plain-file", "DEL succeeds when a plain file is left of the namespace", netns_plain_file)
        .spec(&["del-missing"]),
    case("interface-gone", "DEL succeeds when the interface is gone from the container", interface_gone)
        .spec(&["del-missing"])
        .of(PluginSelection::Kinds(&[PluginKind::Interface, PluginKind::Chained])),
    case("without-netns", "DEL without CNI_NETNS succeeds", without_netns).spec(&["del-without-netns"]),
    case("without-result", "DEL without prevResult succeeds, and host and container are as before", without_result)
        .spec(&["del-without-result"]),
    case("ipam-anyway", "DEL calls the IPAM plugin also when the namespace is gone", ipam_anyway)
        .spec(&["del-ipam-anyway"])
        .of(PluginSelection::Delegating),
    case("lease-anyway", "DEL releases the address also when the namespace is gone", lease_anyway)
        .spec(&["del-ipam-anyway"])
        .of(PluginSelection::Only(&["host-local"])),
];

/// A host on which a container was added and deleted, so that shared objects exist before the second one is added.
struct SecondContainer {
    guest: CaseContainer,
    before: Vec<String>,
}

impl SecondContainer {
    fn new(host: &PrivateHost) -> Result<Self, Mismatch> {
        let result = host.add()?;
        host.del(&result)?;
        let guest = host.another("ctr2", 6);
        let before = host.state_with(&[&guest]);
        Ok(Self { guest, before })
    }

    /// Requires that the host is as before, without what ended with the container's namespace.
    fn only_host_is_as_before(&self, host: &PrivateHost) -> CaseVerdict {
        let kept = |lines: Vec<String>| -> Vec<String> {
            let end = self.guest.host_end();
            // The far end of a link that went into the container is in no bridge and of no use.
            let of_guest = |line: &String| {
                line.starts_with("ctr2 ") || line.contains(&end) || line.contains(&format!("far{}", self.guest.number))
            };
            lines.into_iter().filter(|line| !of_guest(line)).collect()
        };
        let device = self.guest.device();
        let before = kept(self.before.clone()).into_iter().filter(|line| !line.contains(&device)).collect::<Vec<_>>();
        host.is_as_before(&before, || {
            kept(host.state_with(&[])).into_iter().filter(|line| !line.contains(&device)).collect()
        })
    }
}

fn undoes(host: &PrivateHost) -> CaseVerdict {
    let second = SecondContainer::new(host)?;
    let result = host.add_of(&second.guest)?;
    host.del_of(&second.guest, &result)?;
    host.is_as_before(&second.before, || host.state_with(&[&second.guest]))
}

fn again(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    (0..3).try_for_each(|_| host.del(&result))
}

fn never_added(host: &PrivateHost) -> CaseVerdict {
    (0..2).try_for_each(|_| host.call(Verb::Del).run().must_succeed().map(drop))
}

fn netns_gone(host: &PrivateHost) -> CaseVerdict {
    without(host, Loss::Netns)
}

fn netns_plain_file(host: &PrivateHost) -> CaseVerdict {
    without(host, Loss::NetnsMount)
}

fn without_result(host: &PrivateHost) -> CaseVerdict {
    without(host, Loss::Result)
}

/// After a loss, two DELs restore host and container, or the host if the container's namespace has ended.
fn without(host: &PrivateHost, loss: Loss) -> CaseVerdict {
    let second = SecondContainer::new(host)?;
    let result = host.add_of(&second.guest)?;
    succeeds_twice(&host.del_after(&second.guest, &result, loss))?;
    if loss.ends_the_namespace() {
        return second.only_host_is_as_before(host);
    }
    host.is_as_before(&second.before, || host.state_with(&[&second.guest]))
}

fn interface_gone(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    succeeds_twice(&host.del_after(&host.guest, &result, Loss::Interface))
}

fn without_netns(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let call = host.del_after(&host.guest, &result, Loss::NetnsPath);
    [call.clone().without_env("CNI_NETNS"), call].iter().try_for_each(|call| call.run().must_succeed().map(drop))
}

fn succeeds_twice(call: &Invocation) -> CaseVerdict {
    (0..2).try_for_each(|_| call.run().must_succeed().map(drop))
}

fn ipam_anyway(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    host.guest.container.remove();
    let call = host.call_with(Verb::Del, &host.guest, &result, &json!({}));
    call.run().must_succeed()?;
    require(!ipam::calls_of("DEL").is_empty(), "DEL of the IPAM plugin", "no call")
}

fn lease_anyway(host: &PrivateHost) -> CaseVerdict {
    let before = host.state_with(&[]);
    let result = host.add()?;
    let first = result["ips"][0]["address"].to_string();
    host.guest.container.remove();
    host.del(&result)?;
    let leases = |lines: &[String]| lines.iter().filter(|line| line.contains("/10.88.0.")).count();
    require(leases(&host.state_with(&[])) == leases(&before), "no lease any more", first)
}
