//! What processes inherit from a runtime, besides environment and standard input.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cni_conformance::{Invocation, Sandbox, Verb, binaries, script};

use crate::protocol::{call, config};

/// What starts a plugin through another program, and why a plugin might lose its delegate then.
const LAUNCHERS: [(&str, &[&str]); 2] = [
    ("a runtime that ignores the end of its children", &["/bin/sh", "-c", "trap '' CHLD; exec \"$0\""]),
    (
        "a container engine that knows no pidfd_open",
        &[
            "/usr/bin/strace",
            "-qq",
            "-o",
            "/run/trace",
            "-e",
            "trace=pidfd_open",
            "-e",
            "inject=pidfd_open:error=EPERM",
        ],
    ),
];

fn bridge(sandbox: &Sandbox, verb: Verb) -> Invocation {
    call(sandbox, "bridge", verb, &sandbox.container("ctr1")).config(&config("bridge", "1.0.0"))
}

#[test]
fn delegates_and_programs_end_as_ever() {
    for (what, launcher) in LAUNCHERS {
        let sandbox = crate::protocol::sandbox();
        let outcome = bridge(&sandbox, Verb::Add).launched_by(launcher).run();
        assert!(outcome.succeeded(), "{what}: {outcome}");
    }
}

/// A folder may have any name, and its plugins are found in it.
#[test]
fn a_folder_whose_name_is_no_text_is_one_like_others() {
    let sandbox = crate::protocol::sandbox();
    let folder = Path::new("/run").join(OsStr::from_bytes(b"plugins-\xff"));
    fs::create_dir(&folder).expect("create a folder");
    for plugin in ["bridge", "host-local"] {
        script::copy_program(binaries::under_test().join(plugin), folder.join(plugin));
    }
    let container = sandbox.container("ctr1");
    let mut command = Command::new(folder.join("bridge"));
    command.env_clear().env("PATH", sandbox.search_path()).env("CNI_PATH", &folder);
    command.envs([("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "ctr1"), ("CNI_IFNAME", "eth0")]);
    command.env("CNI_NETNS", container.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let config = config("bridge", "1.0.0").to_string();
    child.stdin.take().expect("a pipe").write_all(config.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_tool_that_nobody_can_read_says_so() {
    let tool = binaries::under_test().join("cni-plugins");
    for arguments in [&["help"][..], &["version"], &["repair", "--help"]] {
        let full = File::options().write(true).open("/dev/full").expect("open");
        let output = Command::new(&tool).args(arguments).stdout(full).output().expect("started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("cni-plugins: failed to write to standard output: No space left"), "{said}");
    }
    for arguments in [&["nonsense"][..], &["repair", "--nonsense"], &["repair", "--directory"]] {
        let full = || File::options().write(true).open("/dev/full").expect("open");
        let output = Command::new(&tool).args(arguments).stdout(full()).stderr(full()).output().expect("started");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {output:?}");
    }
}
