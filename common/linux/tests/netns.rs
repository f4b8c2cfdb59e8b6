//! What stands at `CNI_NETNS`: a namespace, or something else that a host may have there.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread;

use cni_model::netns::NetnsError;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use nix::sched::{CloneFlags, unshare};

use crate::{host, run};

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
    for (name, want) in [
        ("fifo", "it is not a network namespace"),
        ("socket", "it is not a network namespace"),
        ("plain", "it is not a network namespace"),
        ("loop", "too many levels of symbolic links"),
        ("missing", "no such file or directory"),
        ("plain/file", "not a directory"),
    ] {
        assert_eq!(reason(host.enter(&at(name))), want, "{name}");
    }
    assert_eq!(reason(host.enter("")), "no path is given");
    let error = host.enter("/proc/thread-self/ns/uts").expect_err("no network namespace");
    assert_eq!(error.to_string(), "failed to open netns \"/proc/thread-self/ns/uts\"");
}

/// A change of the link between the two questions would make the plugin work on the host.
#[test]
fn the_namespace_that_was_compared_is_the_one_that_is_entered() {
    let mut host = host();
    let folder = tempfile::tempdir().expect("folder");
    let link = folder.path().join("netns");
    let container = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace");
        run("ip address add 192.0.2.9/32 dev lo");
        File::open("/proc/thread-self/ns/net").expect("opened")
    });
    let container = container.join().expect("no panic");
    symlink(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&container)), &link).expect("linked");
    let path = link.to_str().expect("text");
    assert!(!host.is_own_netns(path).expect("an answer"));
    fs::remove_file(&link).expect("removed");
    symlink("/proc/thread-self/ns/net", &link).expect("linked");
    host.enter(path).expect("entered");
    let addresses = host.addresses(Ns::Container, None, None).expect("a list");
    assert_eq!(addresses.iter().map(|address| address.cidr.to_string()).collect::<Vec<_>>(), ["192.0.2.9/32"]);
    assert!(!host.is_own_netns(path).expect("an answer"), "it is about the entered one");
}
