//! DEL: nothing of the container is reachable or left, whatever the runtime has forgotten.

use cni_conformance::Attachment;

use crate::backends::world::{Guest, World};

/// Host ports of the container that stays and of those that go.
const KEPT: u16 = 8081;
const GOES: u16 = 8080;

/// Does something to the container, and returns the request that DEL then comes with.
type Before = fn(&mut Guest) -> Attachment;

const REQUESTS: [(&str, Before); 7] = [
    ("as ADD", |guest| guest.attachment.clone()),
    ("no prevResult", |guest| guest.attachment.clone().without_result()),
    ("no runtimeConfig", |guest| guest.attachment.clone().without_capabilities()),
    ("no netns", |guest| guest.attachment.clone().netns("")),
    ("netns gone", |guest| {
        guest.stop_serving();
        guest.container.remove();
        guest.attachment.clone()
    }),
    ("netns a plain file", |guest| {
        guest.stop_serving();
        guest.container.unmount();
        guest.attachment.clone()
    }),
    ("nothing but names", |guest| {
        guest.stop_serving();
        guest.container.remove();
        guest.attachment.clone().without_result().without_capabilities().netns("")
    }),
];

/// Works out a cell.
pub fn work_out(world: &World) -> String {
    let kept = world.attach("kept", KEPT);
    let before = world.state();
    for (number, (what, prepare)) in REQUESTS.iter().enumerate() {
        let mut guest = world.attach(&format!("goes{number}"), GOES);
        world.serves(&guest);
        let request = prepare(&mut guest);
        for time in ["first", "second"] {
            let chain = world.runtime().del(&request);
            assert!(chain.succeeded(), "the {time} DEL with {what}: {chain}");
            world.assert_as_before(&before);
        }
        world.is_shut(GOES);
        world.serves(&kept);
    }
    world.runtime().check(&kept.attachment).expect_success();
    last_one(world, kept);
    format!("{} kinds of DEL, twice each; {world}", REQUESTS.len())
}

/// What stays on the host after the last container names none.
fn last_one(world: &World, kept: Guest) {
    world.runtime().del(&kept.attachment).expect_success();
    world.is_shut(KEPT);
    let addresses = world.families().iter().map(|family| kept.ip(family).to_string());
    let words: Vec<String> = addresses.chain(["kept".to_owned(), KEPT.to_string()]).collect();
    let lines = world.state().lines();
    // Where the next address is looked for.
    let told = lines.iter().filter(|line| !line.contains("/last_reserved_ip."));
    let of_container =
        |line: &&String| line.split(|c: char| !is_part(c)).any(|part| words.iter().any(|word| word == part));
    assert_eq!(told.into_iter().find(of_container), None, "of {words:?}: {lines:#?}");
}

/// Characters of names, addresses and ports.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || [':', '.', '_'].contains(&c)
}
