//! GC removes everything of a container that was lost without DEL, and nothing of others.

use crate::backends::world::World;

const KEPT: u16 = 8081;
const LOST: u16 = 8080;

/// Works out a cell.
pub fn work_out(world: &World) -> String {
    let kept = world.attach("kept", KEPT);
    let before = world.state();
    let mut lost = world.attach("lost", LOST);
    world.serves(&lost);
    lost.stop_serving();
    lost.container.remove();
    for _ in ["first", "second"] {
        world.runtime().gc(&[&kept.attachment]).expect_success();
        world.assert_as_before(&before);
        world.is_shut(LOST);
        world.serves(&kept);
        world.runtime().check(&kept.attachment).expect_success();
    }
    let next = world.attach("next", LOST);
    world.serves(&next);
    world.runtime().check(&next.attachment).expect_success();
    world.to_string()
}
