//! `CNI_NETNS` must not be the namespace that the plugin itself runs in.
//!
//! Go looks at it after the work, so a runtime that makes this mistake loses its own `lo` or keeps
//! a half-made attachment, and reads two documents on standard output. Ours looks at it first.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use cni_conformance::{Invocation, Outcome, Sandbox, State, Verb, plugins, state};
use serde_json::Value;

use crate::protocol::{PLUGINS, call, config};

const REFUSED: &str = "plugin's netns and netns from CNI_NETNS should not be the same";

/// The plugin's own namespace, by a name that the kernel resolves and by a mount.
const OWN: [&str; 2] = ["/proc/self/ns/net", "/run/netns/own"];

fn mount_own(sandbox: &Sandbox) {
    File::create_new("/run/netns/own").expect("create a mount point");
    sandbox.sh("mount --bind /proc/self/ns/net /run/netns/own");
}

fn prepare(sandbox: &Sandbox, plugin: &str, verb: Verb, netns: &str) -> Invocation {
    call(sandbox, plugin, verb, sandbox.host()).netns(netns).config(&config(plugin, "1.0.0"))
}

#[track_caller]
fn assert_refused(outcome: &Outcome) {
    let error = outcome.expect_error(8, REFUSED);
    assert_eq!(error.msg, REFUSED, "{outcome}");
    let documents = serde_json::Deserializer::from_str(outcome.stdout()).into_iter::<Value>();
    assert_eq!(documents.count(), 1, "{outcome}");
}

#[test]
fn add_into_the_plugins_own_namespace_is_refused_before_any_work() {
    let sandbox = crate::protocol::sandbox();
    mount_own(&sandbox);
    let before = State::of_host(&sandbox);
    for plugin in PLUGINS {
        for netns in OWN {
            assert_refused(&prepare(&sandbox, plugin, Verb::Add, netns).run());
            for answer in ["", "0", "yes", "2", "false", " true"] {
                let call = prepare(&sandbox, plugin, Verb::Add, netns).env("CNI_NETNS_OVERRIDE", answer);
                assert_refused(&call.run());
            }
            state::assert_same(&before, &State::of_host(&sandbox));
        }
    }
}

#[test]
fn del_from_the_plugins_own_namespace_is_refused_before_any_work() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        mount_own(&sandbox);
        let container = sandbox.container("ctr1");
        prepare(&sandbox, plugin, Verb::Add, container.path()).run().expect_success();
        let before = State::capture(&sandbox, &[&container]);
        for netns in OWN {
            assert_refused(&prepare(&sandbox, plugin, Verb::Del, netns).run());
            state::assert_same(&before, &State::capture(&sandbox, &[&container]));
        }
        let del = prepare(&sandbox, plugin, Verb::Del, container.path()).run();
        assert_eq!((del.code(), del.stdout()), (Some(0), ""), "{del}");
    }
}

#[test]
fn an_override_skips_the_check() {
    for plugin in plugins::that_can_add() {
        for answer in ["1", "true", "TRUE", "True"] {
            let sandbox = crate::protocol::sandbox();
            mount_own(&sandbox);
            for verb in [Verb::Add, Verb::Del] {
                let call = prepare(&sandbox, plugin, verb, "/run/netns/own").env("CNI_NETNS_OVERRIDE", answer);
                call.run().expect_success();
            }
        }
    }
}

/// These need no namespace, so a path that is gone or plain is nothing to them.
#[test]
fn a_path_that_is_no_namespace_is_not_the_plugins_own() {
    let sandbox = crate::protocol::sandbox();
    File::create_new("/run/netns/plain").expect("create a plain file");
    for plugin in ["host-local", "firewall", "portmap"] {
        for netns in ["/run/netns/gone", "/run/netns/plain", "/run"] {
            prepare(&sandbox, plugin, Verb::Add, netns).run().result();
            prepare(&sandbox, plugin, Verb::Del, netns).run().expect_success();
        }
    }
}

#[test]
fn check_does_not_look_whose_namespace_it_is() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    for plugin in ["host-local", "firewall", "portmap"] {
        prepare(&sandbox, plugin, Verb::Add, container.path()).run().expect_success();
        prepare(&sandbox, plugin, Verb::Check, OWN[0]).run().expect_success();
    }
}

/// Opening a named pipe would wait for a writer, and a socket or a loop of links cannot be opened at all. DEL of a
/// container whose namespace is replaced by such a thing has nothing to do there.
#[test]
fn a_path_that_is_no_namespace_is_reported_at_once_and_does_not_prevent_del() {
    let sandbox = crate::protocol::sandbox();
    sandbox.sh("mkfifo /run/netns/fifo");
    let _listener = UnixListener::bind("/run/netns/socket").expect("a socket");
    symlink("/run/netns/loop", "/run/netns/loop").expect("a link to itself");
    let before = State::of_host(&sandbox);
    let rows = [
        ("/run/netns/fifo", "it is not a network namespace"),
        ("/run/netns/socket", "it is not a network namespace"),
        ("/run/netns/loop", "too many levels of symbolic links"),
    ];
    for (netns, text) in rows {
        for plugin in ["bridge", "loopback"] {
            let call = |verb| prepare(&sandbox, plugin, verb, netns).deadline(Duration::from_secs(30)).run();
            call(Verb::Add).expect_error(8, text);
            call(Verb::Del).expect_success();
        }
    }
    state::assert_same(&before, &State::of_host(&sandbox));
}
