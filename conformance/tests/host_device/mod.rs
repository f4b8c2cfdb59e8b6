//! The host-device plugin: root of the container puts another link in the place of the interface after DEL has proven it, and before DEL moves it.

use std::fs;
use std::thread::{self, sleep};
use std::time::Duration;

use cni_conformance::cases::within_three_attempts;
use cni_conformance::wait::wait_until;
use cni_conformance::{Attachment, Invocation, ListHost, Network, Outcome, Verb};
use serde_json::json;

/// A host with an interface that containers get: it is up, has an alias of the administrator, and is a port of `br9`.
fn host() -> ListHost {
    let plugin = json!({"type": "host-device", "device": "ens1"});
    let host = ListHost::new(json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [plugin]}));
    host.sandbox.host().ip(&[
        "link add br9 address 02:00:00:00:00:99 type bridge",
        "link set br9 up",
        "link add ens1 mtu 1400 type veth peer name far",
        "link set ens1 alias uplink master br9 up",
        "link set far up",
    ]);
    host
}

const TRACE: &str = "/run/conformance/race";

/// What begins a message that changes a link: `strace` knows no names in other namespaces than its own.
const CHANGES: [&str; 4] = ["RTM_SETLINK", "RTM_NEWLINK", "nlmsg_type=0x13", "nlmsg_type=0x10"];

/// DEL under `strace`, which does this to a call.
fn del(host: &ListHost, attachment: &Attachment, expression: &str) -> Invocation {
    let words =
        ["/usr/bin/strace", "-qq", "-o", TRACE, "-e", "signal=none", "-e", "trace=sendto", "-e", expression, "--"];
    host.runtime().invocation(Verb::Del, "host-device", attachment, None).launched_by(&words)
}

/// Runs DEL, and does something in the container while DEL waits before it moves the interface.
fn del_while(deed: &str) -> (ListHost, Attachment, Outcome) {
    let host = host();
    let (container, attachment) = host.add("id1");
    let _hidden = host.sandbox.container("hidden");
    del(&host, &attachment, "trace=sendto").run().expect_success();
    let trace = fs::read_to_string(TRACE).expect("a trace");
    let before = trace.lines().position(|line| CHANGES.iter().any(|change| line.contains(change))).expect("the move");
    host.runtime().add(&mut attachment.clone()).expect_success();
    fs::remove_file(TRACE).expect("remove the trace");
    let delay = format!("inject=sendto:delay_enter=4000000:when={}", before + 1);
    let call = del(&host, &attachment, &delay);
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| call.run());
        wait_until("DEL is about to move the interface", || {
            fs::read_to_string(TRACE).unwrap_or_default().lines().count() >= before
        });
        sleep(Duration::from_secs(1));
        container.must(&["sh", "-ec", deed]);
        running.join().expect("DEL")
    });
    (host, attachment, outcome)
}

/// The index is the container's choice, too.
#[test]
fn a_link_that_has_the_index_of_the_proven_one_by_then_goes_back_into_the_container() {
    let deed = "index=$(ip -o link show eth0 | cut -d: -f1); ip link set eth0 netns hidden; \
                ip link add eth0 index $index address 02:00:00:00:00:0a type veth peer name tail; ip link set eth0 alias ens1 up";
    within_three_attempts(|| {
        let (host, attachment, outcome) = del_while(deed);
        let want = "ens1 stays in the container namespace: another link took its place while it was moved to the host";
        if !outcome.stdout().contains(want) || Network::observe(host.sandbox.host()).link("ens1").is_some() {
            return Err(outcome.to_string());
        }
        host.del(&attachment);
        let network = Network::observe(host.sandbox.host());
        let link = network.link("ens1").ok_or("ens1 does not come back")?;
        if link.up && link.controller.is_some() { Ok(()) } else { Err(link.to_string()) }
    });
}

#[test]
fn the_link_that_was_proven_comes_back_although_another_one_has_its_name_by_then() {
    let deed = "ip link set eth0 down; ip link set eth0 name x; ip link add eth0 type veth peer name tail";
    within_three_attempts(|| {
        let (host, _, outcome) = del_while(deed);
        outcome.expect_success();
        let network = Network::observe(host.sandbox.host());
        let link = network.link("ens1").ok_or("ens1 does not come back")?;
        if link.up && link.controller.is_some() { Ok(()) } else { Err(link.to_string()) }
    });
}
