//! `cni-plugins doctor` says why a network of flannel does not work: the lease is missing, flanneld does not run, or the bridge has the
//! address of an earlier lease.

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Invocation, ListHost, Verb, script};
use serde_json::{Value, json};

use crate::flannel::setup::{DUAL, LEASE, SUBNET_FILE, host_with, remove_lease, write_lease};

const CONFIGURATIONS: &str = "/run/conformance/flannel.d";

/// The findings of `doctor` about flannel: severity, message and remedy.
fn findings(host: &ListHost) -> Vec<[String; 3]> {
    fs::create_dir_all(CONFIGURATIONS).expect("create a folder");
    fs::write(format!("{CONFIGURATIONS}/1.conflist"), host.list.to_string()).expect("write the list");
    let words = ["doctor", "--json", "--config-dir", CONFIGURATIONS];
    let output = Invocation::new(&host.sandbox, "cni-plugins", Verb::Add).arguments(&words).run();
    let document: Value = serde_json::from_str(output.stdout()).unwrap_or_else(|error| panic!("{error}: {output}"));
    let all = document["findings"].as_array().expect("findings").iter();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    all.filter(|one| one["topic"] == "flannel")
        .map(|one| ["severity", "says", "cure"].map(|key| text(one, key)))
        .collect()
}

#[track_caller]
fn assert_found(host: &ListHost, severity: &str, says: &str, cure: &str) {
    let found = findings(host);
    let [[found_severity, found_says, found_cure]] = &found[..] else { panic!("one finding: {found:#?}") };
    assert_eq!((found_severity.as_str(), found_says.as_str()), (severity, says));
    assert!(found_cure.contains(cure), "{found_cure}");
}

/// A process with the name flanneld.
struct Flanneld(Child);

impl Flanneld {
    fn start(host: &ListHost) -> Self {
        let program = "/run/conformance/flanneld";
        script::copy_program("/bin/sleep", program);
        let child = host.sandbox.host().run(|| Command::new(program).arg("300").spawn().expect("start a process"));
        let started = Instant::now();
        let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
        while name() != "flanneld\n" {
            assert!(started.elapsed() < Duration::from_secs(30), "the process is still called {:?}", name());
            thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }
}

impl Drop for Flanneld {
    fn drop(&mut self) {
        self.0.kill().expect("end the process");
        self.0.wait().expect("the process ends");
    }
}

#[test]
fn a_missing_lease_is_explained() {
    let host = host_with(LEASE, &json!({}));
    remove_lease();
    let says = format!("flanneld has not written {SUBNET_FILE} and does not run, so ADD fails");
    assert_found(&host, "problem", &says, "start flanneld");
    let _flanneld = Flanneld::start(&host);
    assert_found(&host, "problem", &format!("flanneld has not written {SUBNET_FILE}, so ADD fails"), "log");
    write_lease("FLANNEL_SUBNET=10.42.1.1/24\n");
    let says = format!(
        "the lease cannot be used: {SUBNET_FILE} is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_MTU, FLANNEL_IPMASQ"
    );
    assert_found(&host, "problem", &says, "restart flanneld");
    write_lease(LEASE);
    assert_found(&host, "ok", &format!("flanneld has leased 10.42.1.0/24 for this host ({SUBNET_FILE})"), "");
}

#[test]
fn a_lease_may_be_stale_if_flanneld_does_not_run() {
    let host = host_with(LEASE, &json!({}));
    let says = format!("flanneld does not run: the lease in {SUBNET_FILE} may be stale");
    assert_found(&host, "note", &says, "start flanneld");
}

/// The next ADD behaves as `doctor` says.
#[test]
fn a_bridge_with_the_address_of_an_earlier_lease_is_named() {
    for (force, severity, end, cure) in
        [(false, "problem", ", so ADD fails", "ip link del cni0"), (true, "note", "", "create the containers again")]
    {
        let delegate = json!({"isDefaultGateway": true, "forceAddress": force});
        let host = host_with(LEASE, &json!({"delegate": delegate}));
        let _flanneld = Flanneld::start(&host);
        let (_container, attachment) = host.add("c1");
        write_lease(&LEASE.replace("10.42.1.1", "10.42.7.1"));
        let says = format!("cni0 has the address 10.42.1.1/24, and {SUBNET_FILE} says 10.42.7.0/24{end}");
        assert_found(&host, severity, &says, cure);
        assert_eq!(host.try_to_add("c2").succeeded(), force);
        if force {
            assert_found(&host, "ok", &format!("flanneld has leased 10.42.7.0/24 for this host ({SUBNET_FILE})"), "");
        }
        host.del(&attachment);
    }
}

/// The bridge plugin, like the reference, leaves an IPv6 address whose network does not overlap.
#[test]
fn an_address_of_an_earlier_lease_beside_the_new_one_is_named() {
    let host = host_with(DUAL, &json!({}));
    let _flanneld = Flanneld::start(&host);
    let (_first, before) = host.add("c1");
    write_lease(&DUAL.replace("10.42.1.1", "10.42.7.1").replace("fd00:42:0:1::", "fd00:42:0:7::"));
    let (_second, after) = host.add("c2");
    let says = "cni0 has the address fd00:42:0:1::1/64 of an earlier lease too, so another host with that subnet is not reached";
    assert_found(&host, "note", says, "ip address del fd00:42:0:1::1/64 dev cni0");
    host.del(&before);
    host.sandbox.sh("ip address del fd00:42:0:1::1/64 dev cni0");
    let says = format!("flanneld has leased 10.42.7.0/24, fd00:42:0:7::/64 for this host ({SUBNET_FILE})");
    assert_found(&host, "ok", &says, "");
    host.del(&after);
}

#[test]
fn a_host_without_flannel_has_no_finding_about_it() {
    let host = ListHost::new(json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "loopback"}]}));
    assert_eq!(findings(&host), [[""; 3]; 0]);
}
