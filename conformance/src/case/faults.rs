//! A system call of ADD or DEL fails, or the plugin is killed at it: DEL removes everything all the same, and an ADD that fails by itself
//! leaves nothing.
//!
//! `CNI_CASE_FAULTS` says how many are tried for each case: a number of them, the same ones in each run, or `all`.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::world::World;
use crate::injection::{SystemCall, calls_of};
use crate::plugin::{Invocation, Verb};
use crate::runtime::{Attachment, Runtime};

/// One way to disturb a plugin.
struct Fault {
    verb: Verb,
    /// The plugin's place in the list.
    place: usize,
    call: SystemCall,
    is_killed: bool,
}

/// Tries faults of the first attachment of a case that was added, with another container. Where the script has left a host on which it could
/// not be added again, there is nothing to disturb.
///
/// # Panics
/// If something is left: the message names the call, and how to repeat it.
pub fn try_some(world: &World<'_>) {
    let count = match env::var("CNI_CASE_FAULTS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("CNI_CASE_FAULTS={number} is neither a number nor all")),
        Err(_) => return,
    };
    let Some(first) = world.attached.iter().find(|one| one.attachment.result.is_some()) else { return };
    let container = world.sandbox.container("fault");
    let mut attachment = Attachment { netns: container.path().to_owned(), ..first.attachment.clone() };
    (attachment.container_id, attachment.result) = ("fault".to_owned(), None);
    let runtime = world.runtime(&first.list);
    let can_be_added = runtime.add(&mut attachment.clone()).succeeded();
    runtime.del(&attachment).expect_success();
    if !can_be_added {
        return;
    }
    for fault in chosen(all(&runtime, &attachment), count, &world.case.name) {
        let before = world.state();
        let what = if fault.is_killed { "killed at" } else { "failing" };
        let label = format!("{} {}, {what} {}", kind(&runtime, fault.place), fault.verb, fault.call.label());
        let unchanged = || world.standing.assert_unchanged_since(&before, world.sandbox);
        let done = catch_unwind(AssertUnwindSafe(|| {
            disturb(&runtime, attachment.clone(), &fault, &unchanged);
            unchanged();
        }));
        if let Err(panic) = done {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("{label}\n{text}\nto repeat it: CNI_CASE_FAULTS=all");
        }
    }
}

fn kind<'r>(runtime: &'r Runtime<'_>, place: usize) -> &'r str {
    runtime.plugins()[place]["type"].as_str().expect("a plugin has a type")
}

fn call(runtime: &Runtime<'_>, verb: Verb, place: usize, at: &Attachment, previous: Option<&Value>) -> Invocation {
    runtime.invocation(verb, kind(runtime, place), at, previous)
}

/// All faults of an ADD and a DEL that nothing disturbs otherwise.
fn all(runtime: &Runtime<'_>, at: &Attachment) -> Vec<Fault> {
    let (mut faults, mut results) = (Vec::new(), Vec::new());
    let mut extend = |verb, place, calls: Vec<SystemCall>| {
        // What the loader of a dynamic program does is not the plugin's.
        let own = calls.into_iter().filter(|call| !call.label().contains(".so"));
        let both = own.flat_map(|call| [(call.clone(), false), (call, true)]);
        faults.extend(both.map(|(call, is_killed)| Fault { verb, place, call, is_killed }));
    };
    for place in 0..runtime.plugins().len() {
        let add = call(runtime, Verb::Add, place, at, results.last());
        extend(Verb::Add, place, calls_of(&add));
        // The calls were counted in an ADD; its result is the same a second time, and DEL comes between.
        call(runtime, Verb::Del, place, at, results.last()).run().expect_success();
        results.push(add.run().result());
    }
    for place in (0..runtime.plugins().len()).rev() {
        extend(Verb::Del, place, calls_of(&call(runtime, Verb::Del, place, at, results.last())));
    }
    runtime.del(at).expect_success();
    faults
}

/// Some of the faults, which depend on the name of the case alone.
fn chosen(mut faults: Vec<Fault>, count: usize, name: &str) -> Vec<Fault> {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let mut number = hasher.finish();
    while faults.len() > count {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from(number >> 33).unwrap_or_default() % faults.len();
        faults.swap_remove(place);
    }
    faults
}

/// Adds and deletes with a fault. As a runtime does, DEL follows an ADD that has failed, and is repeated if it fails.
fn disturb(runtime: &Runtime<'_>, mut at: Attachment, fault: &Fault, unchanged: &dyn Fn()) {
    let mut results: Vec<Value> = Vec::new();
    for place in 0..runtime.plugins().len() {
        let add = call(runtime, Verb::Add, place, &at, results.last());
        if fault.verb == Verb::Add && fault.place == place {
            if !strike(fault, &add) {
                if place == 0 && !fault.is_killed {
                    unchanged();
                }
                break;
            }
            // It has recovered, or did not come to the call.
            continue_from(runtime, &at, place, &mut results);
        } else {
            results.push(add.run().result());
        }
    }
    at.result = results.last().filter(|_| results.len() == runtime.plugins().len()).cloned();
    if fault.verb == Verb::Del {
        for place in (fault.place + 1..runtime.plugins().len()).rev() {
            call(runtime, Verb::Del, place, &at, at.result.as_ref()).run().expect_success();
        }
        strike(fault, &call(runtime, Verb::Del, fault.place, &at, at.result.as_ref()));
    }
    for _ in ["once", "again"] {
        runtime.del(&at).expect_success();
    }
}

/// An ADD that has succeeded is repeated without its fault where its result is needed.
fn continue_from(runtime: &Runtime<'_>, at: &Attachment, place: usize, results: &mut Vec<Value>) {
    call(runtime, Verb::Del, place, at, results.last()).run().expect_success();
    let again = call(runtime, Verb::Add, place, at, results.last()).run().result();
    results.push(again);
}

/// Runs a plugin with a fault, and tells whether it has succeeded all the same.
fn strike(fault: &Fault, invocation: &Invocation) -> bool {
    if fault.is_killed {
        fault.call.kill_in(invocation);
        return false;
    }
    let injected = fault.call.fail_in(invocation);
    if !injected.outcome.succeeded() {
        injected.expect_error();
    }
    injected.outcome.succeeded()
}
