//! GC removes everything of a container that was lost without DEL, and nothing of others.

use crate::backends::backend_host::BackendHost;

const KEPT: u16 = 8081;
const LOST: u16 = 8080;

/// Works out a cell.
pub fn work_out(machine: &BackendHost) -> String {
    let kept = machine.attach("kept", KEPT);
    let before = machine.state();
    let mut lost = machine.attach("lost", LOST);
    machine.serves(&lost);
    lost.stop_serving();
    lost.container.remove();
    for _ in ["first", "second"] {
        machine.runtime().gc(&[&kept.attachment]).expect_success();
        machine.assert_as_before(&before);
        machine.is_shut(LOST);
        machine.serves(&kept);
        machine.runtime().check(&kept.attachment).expect_success();
    }
    let next = machine.attach("next", LOST);
    machine.serves(&next);
    machine.runtime().check(&next.attachment).expect_success();
    machine.to_string()
}
