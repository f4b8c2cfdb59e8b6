//! What processes inherit from a runtime, besides environment and standard input.

use std::fs;
use std::process::Command;
use std::time::Duration;

use cni_conformance::{Verb, binaries};

use crate::protocol::{call, config};

/// The time limit for an answer, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A folder whose name is no text is one like others.
const FOLDER: &str = r#"new=$(printf '/run/plugins-\377'); mkdir "$new"; cp "${0%/*}/bridge" "${0%/*}/host-local" "$new"
CNI_PATH=$new exec "$new/bridge""#;

/// What starts a plugin through another program, and why a plugin might lose its delegate then.
const LAUNCHERS: [(&str, &[&str]); 4] = [
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
    ("a folder whose name is no text", &["/bin/sh", "-ec", FOLDER]),
    (
        "variables that are no text",
        &["/bin/sh", "-c", r#"exec env "$(printf 'a\377b')=x" "FOREIGN=$(printf '\377')" "$0""#],
    ),
];

#[test]
fn delegates_and_programs_end_as_ever() {
    for (what, launcher) in LAUNCHERS {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let add = call(&sandbox, "bridge", Verb::Add, &container).config(&config("bridge", "1.0.0"));
        let outcome = add.launched_by(launcher).run();
        assert!(outcome.succeeded(), "{what}: {outcome}");
    }
}

#[test]
fn a_tool_that_nobody_can_read_says_so() {
    let tool = binaries::under_test().join("cni-plugins");
    let full = || fs::File::options().write(true).open("/dev/full").expect("open");
    for arguments in [&["help"][..], &["version"], &["repair", "--help"]] {
        let output = Command::new(&tool).args(arguments).stdout(full()).output().expect("started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("cni-plugins: failed to write to standard output: No space left"), "{said}");
    }
    for arguments in [&["nonsense"][..], &["repair", "--nonsense"], &["repair", "--directory"]] {
        let output = Command::new(&tool).args(arguments).stdout(full()).stderr(full()).output().expect("started");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {output:?}");
    }
}

/// Nothing comes and nothing is waited for, or standard input is a folder.
#[test]
fn odd_standard_input_is_an_error_or_nothing() {
    let sandbox = crate::protocol::sandbox();
    sandbox.sh("mkfifo /run/conformance/never");
    for plugin in crate::protocol::PLUGINS {
        let call = |verb, line| {
            call(&sandbox, plugin, verb, sandbox.host()).launched_by(&["/bin/sh", "-c", line]).deadline(SOON).run()
        };
        call(Verb::Version, "exec \"$0\" <>/run/conformance/never").result();
        let error = call(Verb::Status, "exec \"$0\" </").error();
        assert!(error.msg.starts_with("error reading from stdin: "), "{plugin}: {error:?}");
    }
}
