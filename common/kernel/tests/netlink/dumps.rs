//! Lists that fail in the middle. `strace` makes a call of this very test fail, which it runs a second time.

use std::env;
use std::process::Command;

use cni_kernel::netlink::Socket;
use nix::sched::{CloneFlags, unshare};

use crate::netlink::errno;

/// Set in the second run.
const TRACED: &str = "CNI_TEST_IS_TRACED";

#[test]
fn a_list_succeeds_after_one_that_failed_half_way() {
    if env::var_os(TRACED).is_none() {
        return run_traced("netlink::dumps::a_list_succeeds_after_one_that_failed_half_way");
    }
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut socket = Socket::open().expect("a socket");
    unshare(CloneFlags::CLONE_NEWNET).expect("another namespace");
    assert_eq!(errno(socket.links()), Some(libc::ENOBUFS), "the first answer is not received");
    for _ in 0..2 {
        let names: Vec<String> = socket.links().expect("links").into_iter().map(|link| link.name).collect();
        assert_eq!(names, ["lo"]);
    }
}

fn run_traced(test: &str) {
    let exe = env::current_exe().expect("this test's own program");
    let words = ["-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e", "inject=recvfrom:error=ENOBUFS:when=1"];
    let mut strace = Command::new("strace");
    let output = strace.args(words).arg(exe).args(["--exact", test]).env(TRACED, "1").output();
    let output = output.expect("strace is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}
