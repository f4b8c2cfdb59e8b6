//! The files of tuning: keys of its configuration, the backup of the interface when DEL comes, and the administrator's
//! list of parameters.
//!
//! No error is the plugin's own fault. An empty list allows nothing; a line of letters allows the parameters whose
//! names contain it.

use cni_core::json::Json;
use cni_testkit::FakeHost;

use crate::input::Documents;
use crate::life::{FuzzContainer, TwoContainers, machine};

const LIST: &str = "/etc/cni/tuning/allowlist.conf";
const PARAMETER: &str = "net.ipv4.conf.IFNAME.rp_filter";
const BACKUP: &str = "/run/cni/tuning/c1_eth0.json";

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (keys, backup, list) = (documents.text(), documents.text(), documents.text());
    allow(&list);
    back_up(&keys, &backup)
}

fn life(keys: &str) -> TwoContainers {
    let result =
        r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/run/netns/c1"}]}"#;
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"tuning","prevResult":{result}{keys}}}"#);
    TwoContainers { plugin: &cni_tuning::Tuning, config, args: String::new(), answer: String::new() }
}

/// ADD, and DEL with another backup than ADD has made.
fn back_up(keys: &str, backup: &str) -> Option<()> {
    let life = life(&if keys.is_empty() { String::new() } else { format!(",{keys}") });
    Json::parse(life.config.as_bytes()).ok()?;
    life.live(&mut machine(true));
    let mut host = machine(true);
    let added = life.add(FuzzContainer::Own, &mut host)?;
    host.state_files.insert(BACKUP.into(), backup.to_owned());
    life.del(FuzzContainer::Own, &mut host);
    life.del(FuzzContainer::Own, &mut host);
    added.ok().map(drop)
}

fn allow(list: &str) {
    let mut host = machine(true);
    host.administrators_files.insert(LIST.into(), list.to_owned());
    let life = life(&format!(r#","sysctl":{{"{PARAMETER}":"2"}}"#));
    let is_allowed = matches!(life.add(FuzzContainer::Own, &mut host), Some(Ok(_)));
    let lines: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.iter().all(|line| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')) {
        assert_eq!(is_allowed, lines.iter().any(|line| PARAMETER.contains(line)), "{lines:?}");
    }
    assert_untouched(is_allowed, &host);
}

/// What is not allowed is not written.
fn assert_untouched(is_allowed: bool, host: &FakeHost) {
    let writes = host.applied().iter().any(|step| step.contains("rp_filter"));
    assert_eq!(writes, is_allowed, "{:?}", host.applied());
}
