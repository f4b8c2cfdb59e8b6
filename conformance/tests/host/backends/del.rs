//! DEL: nothing of the container is reachable or left, whatever the runtime has forgotten.

use cni_conformance::Attachment;

use crate::backends::backend_host::{BackendHost, ServingContainer};

/// Host ports of the container that stays and of those that go.
const KEPT: u16 = 8081;
const GOES: u16 = 8080;

/// Does something to the container, and returns the request that DEL then comes with.
type Before = fn(&mut ServingContainer) -> Attachment;

const REQUESTS: [(&str, Before); 7] = [
    ("as ADD", |attached| attached.attachment.clone()),
    ("no prevResult", |attached| attached.attachment.clone().without_result()),
    ("no runtimeConfig", |attached| attached.attachment.clone().without_capabilities()),
    ("no netns", |attached| attached.attachment.clone().netns("")),
    ("netns gone", |attached| {
        attached.stop_serving();
        attached.container.remove();
        attached.attachment.clone()
    }),
    ("netns a plain file", |attached| {
        attached.stop_serving();
        attached.container.unmount();
        attached.attachment.clone()
    }),
    ("nothing but names", |attached| {
        attached.stop_serving();
        attached.container.remove();
        attached.attachment.clone().without_result().without_capabilities().netns("")
    }),
];

/// Works out a cell.
pub fn work_out(machine: &BackendHost) -> String {
    let kept = machine.attach("kept", KEPT);
    let before = machine.state();
    for (number, (what, prepare)) in REQUESTS.iter().enumerate() {
        let mut attached = machine.attach(&format!("goes{number}"), GOES);
        machine.serves(&attached);
        let request = prepare(&mut attached);
        for time in ["first", "second"] {
            let chain = machine.runtime().del(&request);
            assert!(chain.succeeded(), "the {time} DEL with {what}: {chain}");
            machine.assert_as_before(&before);
        }
        machine.is_shut(GOES);
        machine.serves(&kept);
    }
    machine.runtime().check(&kept.attachment).expect_success();
    last_one(machine, kept);
    format!("{} kinds of DEL, twice each; {machine}", REQUESTS.len())
}

/// What stays on the host after the last container names none.
fn last_one(machine: &BackendHost, kept: ServingContainer) {
    machine.runtime().del(&kept.attachment).expect_success();
    machine.is_shut(KEPT);
    let addresses = machine.families().iter().map(|family| kept.ip(family).to_string());
    let words: Vec<String> = addresses.chain(["kept".to_owned(), KEPT.to_string()]).collect();
    let lines = machine.state().lines();
    // Where the next address is looked for.
    let reported = lines.iter().filter(|line| !line.contains("/last_reserved_ip."));
    let of_container =
        |line: &&String| line.split(|c: char| !is_part(c)).any(|part| words.iter().any(|word| word == part));
    assert_eq!(reported.into_iter().find(of_container), None, "of {words:?}: {lines:#?}");
}

/// Characters of names, addresses and ports.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || [':', '.', '_'].contains(&c)
}
