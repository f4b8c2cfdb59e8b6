//! Limits of the process (getrlimit(2)): whichever is reached, standard output has one JSON object.

use cni_conformance::{Invocation, Outcome, State, Verb};
use serde_json::json;

use crate::protocol::{PLUGINS, call, config};

fn limited(call: &Invocation, limit: &str) -> Outcome {
    call.clone().launched_by(&["/usr/bin/prlimit", limit, "--"]).run()
}

/// However few there are, the answer needs none. The words are those of glibc and of musl.
#[test]
fn without_open_files_there_is_an_error_object() {
    for plugin in PLUGINS {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let outcome =
            limited(&call(&sandbox, plugin, Verb::Add, &container).config(&config(plugin, "1.0.0")), "--nofile=3");
        let error = outcome.error();
        let text = format!("{}: {}", error.msg, error.details).to_lowercase();
        let words = ["too many open files", "no file descriptors available"];
        assert!(words.iter().any(|words| text.contains(words)), "{plugin}: {outcome}");
    }
}

#[test]
fn where_no_file_may_grow_there_is_an_error_object_and_nothing_is_left() {
    for plugin in ["bridge", "host-local", "ptp"] {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let add = call(&sandbox, plugin, Verb::Add, &container).config(&config(plugin, "1.0.0"));
        let state = || State::capture(&sandbox, &[]).without("files").without("settings");
        let before = state();
        let error = limited(&add, "--fsize=0").expect_error(5, "write ");
        assert!(error.details.to_lowercase().contains("file too large"), "{plugin}: {error:?}");
        cni_conformance::state::assert_same(&before, &state());
        add.run().expect_success();
    }
}

/// In memory a list of numbers takes sixteen times as much as its text.
#[test]
fn without_memory_there_is_an_error_object() {
    let sandbox = crate::protocol::sandbox();
    let text = format!("{{\"name\":\"n1\",\"cniVersion\":\"1.0.0\",\"x\":[{}1]}}", "1,".repeat(4_000_000));
    for (plugin, verb) in PLUGINS.into_iter().flat_map(|plugin| [Verb::Add, Verb::Del].map(|verb| (plugin, verb))) {
        let call = call(&sandbox, plugin, verb, sandbox.host()).stdin(text.as_bytes());
        let error = limited(&call, "--data=50000000").expect_error(11, "the plugin ran out of memory");
        assert_eq!(error.details, "what it had done is not undone; DEL removes it");
    }
    let small = json!({"name": "n1", "cniVersion": "1.1.0", "type": "static", "ipam": {"type": "static"}});
    limited(&call(&sandbox, "static", Verb::Status, sandbox.host()).config(&small), "--data=50000000").expect_success();
}
