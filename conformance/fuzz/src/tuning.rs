//! The files of tuning: keys of its configuration, the backup of the interface when DEL comes, and the administrator's
//! list of parameters.
//!
//! Besides the properties in `life`: an empty list allows nothing; a line of letters allows the parameters whose names
//! contain it; what is not allowed is not written.

use crate::host::FuzzHost;
use crate::input::Documents;
use crate::life::{FuzzContainer, host};

const PARAMETER: &str = "net.ipv4.conf.IFNAME.rp_filter";

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (keys, backup, list) = (documents.text(), documents.text(), documents.text());
    let allowing = FuzzHost { administrators_file: Some(list.clone().into_owned()), ..host(&cni_tuning::Tuning) };
    allow(&list, allowing);
    let keys = if keys.is_empty() { String::new() } else { format!(",{keys}") };
    let mut host = FuzzHost { state_file: Some(backup.into_owned()), ..host(&cni_tuning::Tuning) };
    life(&keys).live(&mut host)?.ok().map(drop)
}

fn life(keys: &str) -> FuzzContainer {
    let result =
        r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/run/netns/c1"}]}"#;
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"tuning","prevResult":{result}{keys}}}"#);
    FuzzContainer { plugin: &cni_tuning::Tuning, config, args: String::new() }
}

fn allow(list: &str, mut host: FuzzHost) {
    let life = life(&format!(r#","sysctl":{{"{PARAMETER}":"2"}}"#));
    let is_allowed = matches!(life.add(&mut host), Some(Ok(_)));
    let lines: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.iter().all(|line| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')) {
        assert_eq!(is_allowed, lines.iter().any(|line| PARAMETER.contains(line)), "{lines:?}");
    }
    let writes = host.applied.iter().any(|step| step.contains("rp_filter="));
    assert_eq!(writes, is_allowed, "{:?}", host.applied);
}
