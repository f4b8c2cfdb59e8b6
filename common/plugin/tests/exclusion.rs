//! Locks and marks of an attachment, and what repair learns from them.

use cni_core::names::Attachment;
use cni_plugin::attachment_record::end_del;
use cni_plugin::exclusion::{begin_add, begin_del, begin_gc, begin_repair, is_being_deleted};
use cni_plugin::host::Host as _;
use cni_plugin::ledger::Entry;
use cni_plugin::lock::LockName;
use cni_plugin::share::Share;

use crate::stub::{NETNS, StubHost, at};

fn is_marked(at: &Attachment, host: &mut StubHost) -> bool {
    is_being_deleted(at, host).expect("a record can be read")
}

/// A host where DEL has marked `c1`.
fn marked() -> (StubHost, Attachment) {
    let (mut host, ours) = (StubHost::new(), at("c1", "eth0"));
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    assert!(is_marked(&ours, &mut host));
    (host, ours)
}

#[test]
fn the_mark_comes_with_the_del_of_rules_and_goes_with_the_interface_or_the_next_add() {
    let (mut host, ours) = (StubHost::new(), at("c1", "eth0"));
    for share in [Share::Nothing, Share::Interface] {
        begin_del(share, &ours, Some(NETNS), &mut host);
        assert!(!is_marked(&ours, &mut host), "{share:?} alone needs no mark");
    }
    for (share, is_add, stays) in [
        (Share::Rules, false, true),
        (Share::Nothing, false, true),
        (Share::Interface, false, false),
        (Share::Nothing, true, true),
        (Share::Interface, true, false),
        (Share::Rules, true, false),
    ] {
        let (mut host, ours) = marked();
        if is_add {
            begin_add(share, &ours, &mut host)
        } else {
            end_del("stub", share, &ours, &mut host).expect("ended");
        }
        assert_eq!((is_marked(&ours, &mut host), host.ledger.len()), (stays, usize::from(stays)), "{share:?} {is_add}");
        assert!(!is_marked(&at("c1", "eth1"), &mut host) && !is_marked(&at("c2", "eth0"), &mut host));
    }
}

/// Plugins of others have deleted the attachment and added it again, and know nothing of the mark.
#[test]
fn a_mark_of_another_interface_says_nothing() {
    let (mut host, ours) = marked();
    host.namespaces[0].links[0].name = "renamed".to_owned();
    assert!(is_marked(&ours, &mut host), "the same interface under another name");
    host.namespaces[0].links[0].index = 99;
    assert!(!is_marked(&ours, &mut host));
}

#[test]
fn everything_locks_what_it_works_on_and_only_repair_and_gc_fail_without() {
    let ours = at("c1", "eth0");
    let (attachment, network) = (LockName::attachment(&ours), LockName::network(&ours.network));
    for are_locks_held in [false, true] {
        let mut host = StubHost { are_locks_held, ..StubHost::new() };
        begin_add(Share::Rules, &ours, &mut host);
        begin_add(Share::Nothing, &ours, &mut host);
        begin_del(Share::Interface, &ours, Some(NETNS), &mut host);
        let started = [begin_gc(&ours.network, &mut host), begin_repair(&ours, &mut host)];
        assert!(started.iter().all(|started| started.is_err() == are_locks_held));
        let all = [&attachment, &attachment, &network, &LockName::several(), &network, &attachment];
        assert_eq!(host.locks.iter().collect::<Vec<_>>(), all[..if are_locks_held { 4 } else { 6 }]);
        begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
        assert!(is_marked(&ours, &mut host), "with its mark, DEL goes on without its lock");
    }
    let lock = |container, ifname| LockName::attachment(&at(container, ifname)).number();
    assert_eq!(lock("c1", "eth0"), lock("c1", "eth1"), "they share chains of the packet filter");
    assert!(lock("c1", "eth0") != lock("c2", "eth0") && lock("c1", "eth0") != network.number());
}

#[test]
fn an_attachment_is_not_marked_without_its_interface_or_if_that_cannot_be_written() {
    let mut host = StubHost::new();
    host.add("/run/netns/empty").links.clear();
    host.add("/run/netns/closed").is_closed = true;
    host.failing = vec![1];
    for netns in [Some(NETNS), None, Some("/run/netns/other"), Some("/run/netns/empty")] {
        begin_del(Share::Rules, &at("c1", "eth0"), netns, &mut host);
        assert!(!is_marked(&at("c1", "eth0"), &mut host), "{netns:?}");
    }
    begin_del(Share::Rules, &at("c1", "eth0"), Some("/run/netns/closed"), &mut host);
    assert!(is_marked(&at("c1", "eth0"), &mut host), "it may be there");
}

/// An interface was another plugin's, and nobody of ours saw it go; or a DEL was never finished, by the time since boot, which
/// nobody sets.
#[test]
fn the_next_del_takes_away_the_marks_of_what_is_gone_or_was_given_up() {
    for (made, change, is_kept) in [
        ("86400", "", true),
        ("83000", "", true),
        ("99999", "", true),
        ("82000", "", false),
        ("late", "", false),
        ("86400", "ended", false),
        ("86400", "bare", false),
    ] {
        let (mut host, other) = (StubHost::new(), at("c2", "eth0"));
        host.add("/run/netns/c2");
        begin_del(Share::Rules, &other, Some("/run/netns/c2"), &mut host);
        let mark = host.ledger.values_mut().next().expect("a mark");
        *mark = Entry::parse(&mark.to_string().replacen("86400", made, 1)).expect("an entry");
        match change {
            "ended" => host.namespaces[1].has_ended = true,
            "bare" => host.namespaces[1].links.clear(),
            _ => {}
        }
        begin_del(Share::Rules, &at("c1", "eth0"), Some(NETNS), &mut host);
        assert_eq!(host.ledger.len(), 1 + usize::from(is_kept), "{made} {change}");
        host.enter(NETNS).expect("it lives");
        assert!(is_marked(&at("c1", "eth0"), &mut host));
    }
}
