//! What stands at `CNI_NETNS`: a namespace, or something else that a host may have there. Every test makes a
//! network namespace of its own, which ends with its thread.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::family::Family;
use cni_linux::host::LinuxHost;
use cni_model::netns::NetnsError;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;

const CONFIG: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge"}"#;

fn host() -> LinuxHost {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG))
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Does something while there is a namespace with the address 192.0.2.9 at a path.
fn with_container(work: impl FnOnce(&Path)) {
    thread::scope(|scope| {
        let (tell, reported) = mpsc::channel();
        let (done, until_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace");
            run("ip address add 192.0.2.9/32 dev lo");
            tell.send(format!("/proc/self/task/{}/ns/net", gettid())).expect("told");
            until_done.recv().expect_err("nothing is said");
        });
        work(Path::new(&reported.recv().expect("a path")));
        drop(done);
    });
}

fn reason(entered: Result<(), NetnsError>) -> String {
    match entered {
        Err(NetnsError::Gone { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Nothing would ever be written to the named pipe, and a socket cannot be opened.
#[test]
fn a_path_that_is_no_namespace_is_reported_as_gone_at_once() {
    let mut host = host();
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    run(&format!("mkfifo {}", at("fifo")));
    let _listener = UnixListener::bind(at("socket")).expect("a socket");
    File::create(at("plain")).expect("a file");
    symlink(at("loop"), at("loop")).expect("a link to itself");
    let started = Instant::now();
    for name in ["fifo", "socket", "plain", ""] {
        assert_eq!(reason(host.enter(&at(name))), "it is not a network namespace", "{name}");
        assert!(!host.is_own_netns(&at(name)).expect("an answer"), "{name}");
    }
    assert_eq!(reason(host.enter(&at("loop"))), "too many levels of symbolic links");
    assert_eq!(reason(host.enter(&at("missing"))), "no such file or directory");
    assert_eq!(reason(host.enter(&at("plain/file"))), "not a directory");
    assert_eq!(reason(host.enter("")), "no path is given");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn another_kind_of_namespace_cannot_be_entered() {
    let error = host().enter("/proc/thread-self/ns/uts").expect_err("no network namespace");
    assert_eq!(error.to_string(), "failed to open netns \"/proc/thread-self/ns/uts\"");
}

/// A change of the link between the two questions would make the plugin work on the host.
#[test]
fn the_namespace_that_was_compared_is_the_one_that_is_entered() {
    let mut host = host();
    let folder = tempfile::tempdir().expect("folder");
    let link = folder.path().join("netns");
    with_container(|container| {
        symlink(container, &link).expect("linked");
        let path = link.to_str().expect("text");
        assert!(!host.is_own_netns(path).expect("an answer"));
        fs::remove_file(&link).expect("removed");
        symlink("/proc/thread-self/ns/net", &link).expect("linked");
        host.enter(path).expect("entered");
        let addresses = host.addresses(Ns::Container, None, None).expect("a list");
        assert_eq!(addresses.iter().map(|address| address.cidr.to_string()).collect::<Vec<_>>(), ["192.0.2.9/32"]);
        assert!(host.is_own_netns(path).expect("an answer"), "it is asked anew");
    });
}

/// A link may disappear between the question for it and the one for its addresses.
#[test]
fn a_link_that_does_not_exist_has_no_addresses() {
    let found = host().addresses(Ns::Host, Some(i32::MAX.unsigned_abs()), None);
    assert_eq!(found.expect("a list"), []);
}

/// The kernel turns IPv6 off on a link with an MTU below 1280.
#[test]
fn a_link_without_ipv6_has_its_ipv4_addresses() {
    let mut host = host();
    run("ip link add br0 mtu 1000 type bridge");
    run("ip address add 192.0.2.9/24 dev br0");
    let bridges = host.links(Ns::Host, LinkQuery::Kind("bridge")).expect("links");
    for (family, want) in [(None, 1), (Some(Family::V4), 1), (Some(Family::V6), 0)] {
        let found = host.addresses(Ns::Host, Some(bridges[0].index), family).expect("a list");
        assert_eq!(found.len(), want, "{family:?}: {found:?}");
    }
}
