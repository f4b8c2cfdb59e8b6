//! Limits of the process (getrlimit(2)): whichever is reached, standard output has one JSON object.

use cni_conformance::{Invocation, Outcome, Sandbox, State, Verb};
use serde_json::json;

use crate::protocol::{PLUGINS, call, config};

fn limited(call: &Invocation, limit: &str) -> Outcome {
    call.clone().launched_by(&["/usr/bin/prlimit", limit, "--"]).run()
}

fn add(sandbox: &Sandbox, plugin: &str) -> Invocation {
    let container = sandbox.container("ctr1");
    call(sandbox, plugin, Verb::Add, &container).config(&config(plugin, "1.0.0"))
}

#[test]
fn without_open_files_there_is_an_error_object() {
    for plugin in PLUGINS {
        let sandbox = crate::protocol::sandbox();
        let add = add(&sandbox, plugin);
        let outcome = limited(&add, "--nofile=3");
        let error = outcome.error();
        let text = format!("{}: {}", error.msg, error.details).to_lowercase();
        // The words of glibc and of musl.
        let words = ["too many open files", "no file descriptors available"];
        assert!(words.iter().any(|words| text.contains(words)), "{plugin}: {outcome}");
    }
}

/// However many there are, the answer needs none.
#[test]
fn with_few_open_files_add_succeeds_or_leaves_nothing() {
    let sandbox = crate::protocol::sandbox();
    let add = add(&sandbox, "static");
    for files in 3..8 {
        let outcome = limited(&add, &format!("--nofile={files}"));
        if outcome.succeeded() {
            outcome.result();
        } else {
            outcome.error();
        }
    }
    limited(&add, "--nofile=16").result();
}

#[test]
fn where_no_file_may_grow_there_is_an_error_object_and_nothing_is_left() {
    for plugin in ["bridge", "host-local", "ptp"] {
        let sandbox = crate::protocol::sandbox();
        let add = add(&sandbox, plugin);
        let before = State::capture(&sandbox, &[]).without("files").without("settings");
        let outcome = limited(&add, "--fsize=0");
        let error = outcome.expect_error(5, "write ");
        assert!(error.details.to_lowercase().contains("file too large"), "{plugin}: {outcome}");
        let after = State::capture(&sandbox, &[]).without("files").without("settings");
        cni_conformance::state::assert_same(&before, &after);
        add.run().expect_success();
    }
}

/// In memory a list of numbers takes sixteen times as much as its text.
#[test]
fn without_memory_there_is_an_error_object() {
    let sandbox = crate::protocol::sandbox();
    let text = format!("{{\"name\":\"n1\",\"cniVersion\":\"1.0.0\",\"x\":[{}1]}}", "1,".repeat(4_000_000));
    for plugin in PLUGINS {
        for verb in [Verb::Add, Verb::Del] {
            let outcome =
                limited(&call(&sandbox, plugin, verb, sandbox.host()).stdin(text.as_bytes()), "--data=50000000");
            let error = outcome.expect_error(11, "the plugin ran out of memory");
            assert_eq!(error.details, "what it had done is not undone; DEL removes it");
        }
    }
    let small = json!({"name": "n1", "cniVersion": "1.1.0", "type": "static", "ipam": {"type": "static"}});
    limited(&call(&sandbox, "static", Verb::Status, sandbox.host()).config(&small), "--data=50000000").expect_success();
}
