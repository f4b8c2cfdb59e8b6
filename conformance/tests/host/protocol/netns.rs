//! `CNI_NETNS` must not be the namespace that the plugin itself runs in.
//!
//! Go looks at it after the work, so a runtime that makes this mistake loses its own `lo` or keeps
//! a half-made attachment, and reads two documents on standard output. Ours looks at it first.

use std::fs::File;

use cni_conformance::{Invocation, Sandbox, State, Verb, plugins, state};

use crate::protocol::{PLUGINS, call, config};

const REFUSED: &str = "plugin's netns and netns from CNI_NETNS should not be the same";

/// The plugin's own namespace, by a name that the kernel resolves and by a mount.
const OWN: [&str; 2] = ["/proc/self/ns/net", "/run/netns/own"];

fn sandbox() -> Sandbox {
    let sandbox = crate::protocol::sandbox();
    File::create_new("/run/netns/own").expect("create a mount point");
    sandbox.sh("mount --bind /proc/self/ns/net /run/netns/own");
    sandbox
}

fn prepare(sandbox: &Sandbox, plugin: &str, verb: Verb, netns: &str) -> Invocation {
    call(sandbox, plugin, verb, sandbox.host()).netns(netns).config(&config(plugin, "1.0.0"))
}

/// One document is printed.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, plugin: &str, verb: Verb) {
    for netns in OWN {
        let call = prepare(sandbox, plugin, verb, netns);
        for call in [call.clone(), call.env("CNI_NETNS_OVERRIDE", "false")] {
            let outcome = call.run();
            assert_eq!(outcome.expect_error(8, REFUSED).msg, REFUSED, "{outcome}");
        }
    }
}

#[test]
fn add_into_the_plugins_own_namespace_is_refused_before_any_work() {
    let sandbox = sandbox();
    let before = State::of_host(&sandbox);
    PLUGINS.iter().for_each(|plugin| assert_refused(&sandbox, plugin, Verb::Add));
    state::assert_same(&before, &State::of_host(&sandbox));
}

/// An override skips the check.
#[test]
fn del_from_the_plugins_own_namespace_is_refused_before_any_work() {
    for plugin in plugins::that_can_add() {
        let sandbox = sandbox();
        let container = sandbox.container("ctr1");
        prepare(&sandbox, plugin, Verb::Add, container.path()).run().expect_success();
        let before = State::capture(&sandbox, &[&container]);
        assert_refused(&sandbox, plugin, Verb::Del);
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
        let del = prepare(&sandbox, plugin, Verb::Del, container.path()).run();
        assert_eq!((del.code(), del.stdout()), (Some(0), ""), "{del}");
        for (verb, answer) in [(Verb::Add, "1"), (Verb::Del, "true")] {
            prepare(&sandbox, plugin, verb, OWN[1]).env("CNI_NETNS_OVERRIDE", answer).run().expect_success();
        }
    }
}
