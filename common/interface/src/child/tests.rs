//! The MTU that a master allows.

use super::*;

#[test]
fn the_masters_mtu_is_the_limit() {
    let master = Link { name: "eno1".to_owned(), mtu: 1500, ..Link::default() };
    for (mtu, want) in [(0, None), (1, Some(1)), (1500, Some(1500))] {
        assert_eq!(within_master(mtu, &master).ok(), Some(want));
    }
    for mtu in [-100, 1501, i64::MAX, i64::MIN] {
        within_master(mtu, &master).expect_err("out of range");
    }
}
