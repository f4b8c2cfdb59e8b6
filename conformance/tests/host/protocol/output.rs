//! A result that cannot be written: the runtime takes the ADD for failed, so nothing of it may stay. There is no place for the error object,
//! but standard error and the exit status tell. Go leaves the container half attached.

use cni_conformance::cases::for_each;
use cni_conformance::state::differences;
use cni_conformance::{State, Verb, plugins};

use crate::protocol::{call, config};

/// Standard output is full, or its reader has ended.
const WAYS: [&str; 2] = [
    "exec \"$0\" > /dev/full",
    "mkfifo /run/conformance/pipe; (: < /run/conformance/pipe) & exec 3> /run/conformance/pipe; wait; exec \"$0\" >&3 3>&-",
];

#[test]
fn an_add_whose_result_cannot_be_written_leaves_what_was_there() {
    for_each(plugins::that_can_add().into_iter().map(|plugin| (plugin, plugin)), |plugin| {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let prepare = |verb| call(&sandbox, plugin, verb, &container).config(&config(plugin, "1.0.0"));
        // The first one makes what all share.
        prepare(Verb::Add).run().expect_success();
        prepare(Verb::Del).run().expect_success();
        let fails = |way: &str| {
            let state = || State::capture(&sandbox, &[&container]).lasting();
            let before = state();
            let outcome = prepare(Verb::Add).launched_by(&["/bin/sh", "-c", way]).run();
            assert_eq!(outcome.code(), Some(1), "{outcome}");
            assert!(outcome.stderr().contains("Error writing error JSON to stdout: "), "{outcome}");
            let left = differences(&before, &state());
            assert!(left.is_empty(), "{way} left:\n{}", left.join("\n"));
        };
        WAYS.iter().for_each(|way| fails(way));
        // An attachment that lives keeps what its ADD has made.
        prepare(Verb::Add).run().expect_success();
        fails(WAYS[0]);
    });
}
