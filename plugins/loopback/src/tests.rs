//! The commands in the order of a container's life.

use super::*;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host as _;
use cni_testkit::{Caller, FakeContainer, FakeHost, lifecycle};

fn machine() -> FakeHost {
    FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None))
}

fn caller() -> Caller {
    Caller::new("c1", r#"{"cniVersion":"1.1.0","name":"net1","type":"loopback"}"#)
}

#[test]
fn an_add_that_fails_leaves_lo_down() {
    assert_eq!(lifecycle::assert_add_is_all_or_nothing(&Loopback, machine, &caller()), 1);
}

/// The addresses of a `lo` that was up once stay; they are the kernel's.
#[test]
fn del_sets_lo_down_again() {
    let mut host = machine();
    let before = host.state();
    caller().add(&Loopback, &mut host).expect("ADD");
    caller().check(&Loopback, &mut host).expect("CHECK");
    assert_ne!(host.state(), before);
    for _ in 0..2 {
        caller().del(&Loopback, &mut host).expect("DEL");
        let left: Vec<String> = host.state().into_iter().filter(|line| !line.contains(" address ")).collect();
        let before: Vec<&String> = before.iter().filter(|line| !line.contains(" address ")).collect();
        assert_eq!(left.iter().collect::<Vec<_>>(), before);
    }
    host.set_container("/run/netns/c1", FakeContainer::Gone);
    caller().del(&Loopback, &mut host).expect("a namespace that is gone has no lo");
}

/// The path of the namespace may lead to another container by now, and one container may be in several networks.
#[test]
fn del_leaves_lo_up_where_another_interface_is() {
    let mut host = machine();
    caller().add(&Loopback, &mut host).expect("ADD");
    host.enter("/run/netns/c1").expect("it is there");
    host.add_link(Ns::Container, Link { name: "tunl0".to_owned(), up: false, ..Link::default() });
    let is_up = |host: &FakeHost| {
        host.state()
            .iter()
            .any(|line| line.contains("link lo") && line.contains("up true") && !line.starts_with("host"))
    };
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), up: true, ..Link::default() });
    caller().del(&Loopback, &mut host).expect("DEL");
    assert!(is_up(&host), "{:#?}", host.state());
    host.change_link(Ns::Container, "eth0", |link| link.up = false);
    caller().del(&Loopback, &mut host).expect("DEL");
    assert!(!is_up(&host), "{:#?}", host.state());
}
