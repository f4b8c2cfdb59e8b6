//! Who works on the host while containers come and go: an administrator who collects garbage and repairs, and a local user
//! without any right.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cni_conformance::child::Finished;
use serde_json::Value;

use crate::stage::Stage;

/// Between two calls of the administrator's tool.
const PAUSE: Duration = Duration::from_millis(150);

/// Runs `gc --remove` again and again. Nobody may be removed who lived before and after.
pub fn collect(stage: &Stage<'_>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let before = stage.living();
        let said = stage.tool(&["gc", "--remove", "--json"]);
        let after = stage.living();
        for id in removed(&said, stage) {
            if before.iter().any(|one| one.0 == id && after.contains(one)) {
                stage.violation(&[&id], &format!("gc has removed {id}, which lives: {}", said.stdout));
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Whom a `gc --remove --json` has removed.
fn removed(said: &Finished, stage: &Stage<'_>) -> Vec<String> {
    let Ok(told) = serde_json::from_str::<Value>(&said.stdout) else {
        stage.violation(&[], &format!("gc prints no JSON: {:?} {}{}", said.code, said.stdout, said.stderr));
        return Vec::new();
    };
    let entries = told["leftOver"].as_array().into_iter().flatten();
    let done = entries.filter(|one| one["outcome"] == "removed");
    done.filter_map(|one| one["container"].as_str().map(str::to_owned)).collect()
}

/// Runs `repair` again and again.
pub fn repair(stage: &Stage<'_>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let said = stage.tool(&["repair"]);
        if said.code.is_none() {
            stage.violation(&[], &format!("repair was ended by a signal: {}{}", said.stdout, said.stderr));
        }
        thread::sleep(PAUSE * 2);
    }
}

/// A user who is nobody, and root in a network namespace of its own: it holds addresses of the networks there, adds and removes
/// thousands, and looks like a plugin that deletes a container.
#[derive(Debug)]
pub struct User(Child);

/// It ends with the process whose number it is given, and by itself after an hour.
const SCRIPT: &str = r#"
exec 2>/dev/null
ip link set lo up
cd /tmp
addresses() {
    for net in 10.94.0 10.90.0 10.92.0 10.100.0 10.102.0 172.26.64; do
        for last in $(seq 2 100); do echo "address $1 $net.$last/32 dev lo"; done
    done
}
many() { for a in $(seq 8); do for b in $(seq 250); do echo "address $1 10.99.$a.$b/32 dev lo"; done; done; }
addresses add | ip -batch -
while [ -d "/proc/$1" ]; do
    many add | ip -batch -
    many del | ip -batch -
done
"#;

impl User {
    /// Starts the user's programs, which look like DEL of this container.
    pub fn start(container: &str) -> Self {
        assert!(Path::new("/usr/bin/setpriv").exists(), "/usr/bin/setpriv is missing: install the package util-linux");
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "timeout", "3600"]);
        command.args(["nice", "-n", "19", "unshare", "-Urn", "sh", "-c", SCRIPT, "user"]);
        command.arg(std::process::id().to_string()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs([("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", container), ("CNI_IFNAME", "eth0")]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("start the user's programs"))
    }

    /// Tells whether it still runs: a kernel may refuse user namespaces.
    pub fn lives(&mut self) -> bool {
        self.0.try_wait().expect("ask for the user").is_none()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // `timeout` passes a signal on that it can catch.
        drop(Command::new("kill").arg(self.0.id().to_string()).status());
        drop(self.0.wait());
    }
}
