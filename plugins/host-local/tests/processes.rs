//! Many processes on one directory, and processes that are killed in the middle of their work.
//!
//! The program starts itself again as a worker, `worker <dataDir> <rounds> <container>`; each worker adds
//! its container and, if there are more rounds, deletes it and begins again.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test is about processes")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni_host_local::HostLocal;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;
use cni_testkit::{FakeContainer, FakeHost};

#[path = "common/request.rs"]
mod request;

use request::request;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker", data_dir, rounds, container] => work(data_dir, rounds.parse().expect("a number"), container),
        _ => {
            processes_never_get_the_same_address();
            killed_processes_leave_nothing_torn();
            eprintln!("test result: ok. 2 scenarios with processes");
        }
    }
}

/// A host whose container lives in the namespace of this identity.
fn host_at(identity: &str) -> FakeHost {
    FakeHost::new().with_container("/netns", FakeContainer::Present(Some(identity.to_owned())))
}

fn config(data_dir: &str) -> String {
    format!(r#"{{"cniVersion":"1.1.0","ipam":{{"subnet":"10.1.2.0/26","dataDir":"{data_dir}"}}}}"#)
}

fn add(data_dir: &str, container: &str, namespace: &str) -> Result<String, String> {
    let mut host = host_at(namespace);
    let mut journal = Journal::new(&mut host);
    let result = HostLocal.add(&request("ADD", &[("CNI_CONTAINERID", container)], &config(data_dir)), &mut journal);
    journal.commit();
    result
        .map(|result| result.ips[0].address.address().to_string())
        .map_err(|error| format!("{error}: {}", error.details()))
}

fn del(data_dir: &str, container: &str) {
    let request = request("DEL", &[("CNI_CONTAINERID", container)], &config(data_dir));
    HostLocal.del(&request, &mut host_at("none")).unwrap_or_else(|error| panic!("{error}: {}", error.details()));
}

fn check(data_dir: &str, container: &str) -> bool {
    let request = request("CHECK", &[("CNI_CONTAINERID", container)], &config(data_dir));
    HostLocal.check(&request, &mut host_at("none")).is_ok()
}

fn work(data_dir: &str, rounds: u64, container: &str) {
    add(data_dir, container, &std::process::id().to_string()).expect("an address");
    for round in 1..rounds {
        del(data_dir, container);
        add(data_dir, container, &round.to_string()).expect("an address");
    }
}

fn worker(data_dir: &Path, rounds: u64, container: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg("worker").arg(data_dir).arg(rounds.to_string()).arg(container);
    command.stdout(Stdio::null()).spawn().expect("a process")
}

/// The containers of all leases; fails if a lease is incomplete.
fn holders(directory: &Path) -> Vec<String> {
    let paths = fs::read_dir(directory).expect("read").map(|entry| entry.expect("entry").path());
    let leases = paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("10.")));
    leases
        .map(|path| {
            let content = fs::read_to_string(&path).expect("text");
            let (container, ifname) =
                content.split_once("\r\n").unwrap_or_else(|| panic!("torn: {path:?} {content:?}"));
            assert_eq!(ifname, "eth0", "torn: {}", path.display());
            container.to_owned()
        })
        .collect()
}

fn processes_never_get_the_same_address() {
    let root = tempfile::tempdir().expect("directory");
    let containers: BTreeSet<String> = (0..50).map(|number| format!("c{number}")).collect();
    let workers: Vec<Child> = containers.iter().map(|container| worker(root.path(), 3, container)).collect();
    for mut worker in workers {
        assert!(worker.wait().expect("a process of ours").success());
    }
    let holders = holders(&root.path().join("net"));
    assert_eq!(holders.len(), 50);
    assert_eq!(holders.into_iter().collect::<BTreeSet<_>>(), containers);
}

fn killed_processes_leave_nothing_torn() {
    let root = tempfile::tempdir().expect("directory");
    let data_dir = root.path().to_str().expect("text");
    let end = Instant::now() + Duration::from_secs(3);
    let mut kills = 0;
    while Instant::now() < end {
        let mut workers: Vec<Child> =
            (0..4).map(|number| worker(root.path(), u64::MAX, &format!("c{number}"))).collect();
        for worker in &mut workers {
            sleep(Duration::from_micros(2_000 + kills * 7_919 % 20_000));
            worker.kill().expect("a process of ours");
            worker.wait().expect("a process of ours");
            kills += 1;
        }
        let directory = root.path().join("net");
        if directory.exists() {
            let held = holders(&directory);
            assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), held.len(), "two leases: {held:?}");
            for number in 0..4 {
                let container = format!("c{number}");
                assert_eq!(check(data_dir, &container), held.contains(&container), "{container} in {held:?}");
            }
        }
    }
    assert!(kills > 40, "{kills} are too few to say anything");
    for number in 0..4 {
        del(data_dir, &format!("c{number}"));
    }
    assert_eq!(holders(&root.path().join("net")), Vec::<String>::new());
    add(data_dir, "last", "ns").expect("an address");
    let own = fs::read_dir(root.path().join("net/.cni-plugins-rs")).expect("read");
    let drafts: Vec<_> =
        own.map(|entry| entry.expect("entry").file_name()).filter(|name| name == "lease.draft").collect();
    assert!(drafts.is_empty(), "what the dead have left is cleaned up");
}
