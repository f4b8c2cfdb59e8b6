//! A container's namespace is looked up once.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Invocation, Network, Sandbox, Verb};
use serde_json::json;

/// How long the plugin may take to look at the namespace, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A link that was changed between two look-ups led ADD into the host's own namespace.
#[test]
fn the_namespace_of_a_container_is_looked_up_once() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let (link, trace) = ("/run/link", "/run/conformance/looked-up");
    symlink(container.path(), link).expect("link the namespace");
    let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "loopback"});
    let slowly = "inject=fstatfs:delay_exit=2000000:when=1";
    let words = ["/usr/bin/strace", "-qq", "-o", trace, "-e", "trace=fstatfs,setns", "-e", slowly, "--"];
    let call = Invocation::new(&sandbox, "loopback", Verb::Add).netns(link).config(&config).launched_by(&words);
    thread::scope(|scope| {
        let running = scope.spawn(|| call.run());
        let started = Instant::now();
        while !fs::read_to_string(trace).is_ok_and(|text| text.contains("fstatfs(")) {
            assert!(started.elapsed() < SOON, "the namespace is looked at");
            thread::sleep(Duration::from_millis(10));
        }
        fs::remove_file(link).expect("remove the link");
        symlink("/proc/thread-self/ns/net", link).expect("link the host's own");
        running.join().expect("ended").expect_success();
    });
    let lo = |network: Network| network.link("lo").expect("a loopback interface").to_string();
    assert!(lo(Network::observe(&container)).contains(" up "), "the container has got it");
}
