//! A host without tables, and `nft` as the witness of what is in it.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};

use cni_linux::nftables::NetlinkNftables;

/// Runs a test in namespaces of its own, which end with their thread.
pub fn alone<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            crate::alone();
            test()
        });
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// nf_tables by netlink alone: there is no program to be found.
pub fn nftables() -> NetlinkNftables {
    NetlinkNftables::new().with_path(OsString::from("/nonexistent"))
}

/// Runs `nft` as an administrator would.
pub fn nft(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nft is installed");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "nft {arguments:?} <<< {input}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Everything, as an administrator sees it.
pub fn ruleset() -> String {
    nft(&["list", "ruleset"], "")
}

/// Everything, with the numbers of rules.
pub fn handles() -> String {
    nft(&["-a", "list", "ruleset"], "")
}

/// Everything, with the instructions that the kernel runs, but for the numbers of rules, and the elements of
/// sets, which come in no order.
pub fn instructions() -> String {
    let text = nft(&["-n", "--debug=netlink", "list", "ruleset"], "");
    let numbered = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        while words.len() > 3 && words.last().is_some_and(|word| word.parse::<u64>().is_ok()) {
            words.pop();
        }
        words.join(" ")
    };
    let reported = |line: &&str| !line.starts_with("\telement ");
    text.lines().filter(reported).map(numbered).collect::<Vec<_>>().join("\n")
}
