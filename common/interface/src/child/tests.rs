//! The MTU that a master allows, and what is said of one that is missing.

use cni_core::error::Failure as _;

use super::*;

#[test]
fn a_missing_master_is_looked_for_where_the_configuration_says() {
    let missing = |ns| MasterError::NotFound { name: "eno3".to_owned(), ns };
    let text = r#"failed to lookup master "eno3": Link not found"#;
    assert_eq!((missing(Ns::Host).code().number(), missing(Ns::Host).to_string()), (7, text.to_owned()));
    assert_ne!(missing(Ns::Container).details(), missing(Ns::Host).details());
}

#[test]
fn the_masters_mtu_is_the_limit() {
    let master = Link { name: "eno1".to_owned(), mtu: 1500, ..Link::default() };
    for (mtu, want) in [(0, None), (1, Some(1)), (1500, Some(1500))] {
        assert_eq!(within_master(mtu, &master), Ok(want));
    }
    for mtu in [-100, 1501, i64::MAX, i64::MIN] {
        assert_eq!(within_master(mtu, &master), Err(MtuError { mtu, limit: 1500 }));
    }
}
