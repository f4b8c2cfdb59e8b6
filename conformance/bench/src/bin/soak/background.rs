//! What runs beside the workers: an administrator who runs `gc` and `repair`, and an unprivileged user.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cni_conformance::child::Finished;
use serde_json::Value;

use crate::context::Context;

/// Between two calls of the administrator's tool.
const PAUSE: Duration = Duration::from_millis(150);

/// Runs `gc --remove` repeatedly. It must not remove a container that is alive before and after the call.
pub fn collect(context: &Context<'_>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let before = context.living();
        let output = context.tool(&["gc", "--remove", "--json"]);
        let after = context.living();
        for id in removed(&output, context) {
            if before.iter().any(|one| one.0 == id && after.contains(one)) {
                context.violation(&[&id], &format!("gc has removed {id}, which is alive: {}", output.stdout));
            }
        }
        thread::sleep(PAUSE);
    }
}

/// The containers whose remains `gc --remove --json` has removed.
fn removed(output: &Finished, context: &Context<'_>) -> Vec<String> {
    let Ok(report) = serde_json::from_str::<Value>(&output.stdout) else {
        context.violation(&[], &format!("gc prints no JSON: {:?} {}{}", output.code, output.stdout, output.stderr));
        return Vec::new();
    };
    let entries = report["leftOver"].as_array().into_iter().flatten();
    let done = entries.filter(|one| one["outcome"] == "removed");
    done.filter_map(|one| one["container"].as_str().map(str::to_owned)).collect()
}

/// Runs `repair` repeatedly.
pub fn repair(context: &Context<'_>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let output = context.tool(&["repair"]);
        if output.code.is_none() {
            context.violation(&[], &format!("repair was ended by a signal: {}{}", output.stdout, output.stderr));
        }
        thread::sleep(PAUSE * 2);
    }
}

/// An unprivileged user in a user namespace: there it holds addresses of the networks, and adds and removes thousands of others.
#[derive(Debug)]
pub struct LocalUser(Child);

/// Ends with the process whose number it gets, at the latest after an hour.
const SCRIPT: &str = r#"
exec 2>/dev/null
ip link set lo up
cd /tmp
addresses() {
    for net in 10.94.0 10.90.0 10.92.0 10.100.0 10.102.0 10.104.0 172.26.64; do
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

impl LocalUser {
    /// Starts the user's programs.
    pub fn start() -> Self {
        assert!(Path::new("/usr/bin/setpriv").exists(), "/usr/bin/setpriv is missing: install the package util-linux");
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "timeout", "3600"]);
        command.args(["nice", "-n", "19", "unshare", "-Urn", "sh", "-c", SCRIPT, "user"]);
        command.arg(std::process::id().to_string()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("start the user's programs"))
    }

    /// Whether it still runs: a kernel may refuse user namespaces.
    pub fn lives(&mut self) -> bool {
        self.0.try_wait().expect("ask for the user").is_none()
    }
}

impl Drop for LocalUser {
    fn drop(&mut self) {
        // `timeout` passes a signal on that it can catch.
        drop(Command::new("kill").arg(self.0.id().to_string()).status());
        drop(self.0.wait());
    }
}
