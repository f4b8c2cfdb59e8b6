//! The properties that every plugin has: DEL removes exactly what ADD made, an ADD that fails at any step leaves
//! nothing of its own, and looking for missing rules changes nothing.
//!
//! The first two are tested on a machine where another container of the network exists already. So everything that
//! containers share exists before, and every difference belongs to the container.

mod del;

pub use del::{
    assert_del_leaves_another_kind, assert_del_releases_after_removal, assert_del_removes_what_add_made,
    assert_del_works_with, assert_del_works_without_namespace,
};

use cni_core::error::Code;
use cni_core::names::Attachment;
use cni_core::request::Command;
use cni_core::result::ResultError;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host as _;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace::{RecordedLink, RecordedNamespace};
use cni_plugin::run::Plugin;

use crate::host::{FakeContainer, FakeHost, REFUSAL};
use crate::request::Caller;

/// Makes each step of an ADD fail in turn, and requires that nothing is left. If the plugin recovers from the failure,
/// CHECK must find everything. Returns the number of steps.
///
/// # Panics If something is left, or could not be undone.
pub fn assert_add_is_all_or_nothing(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, caller: &Caller) -> usize {
    for step in 1.. {
        let mut host = machine();
        let before = host.state();
        host.fail_at(host.applied().len() + step);
        match caller.add(plugin, &mut host) {
            Ok(_) if host.is_to_fail() => return step - 1,
            Ok(_) => {}
            Err(error) => {
                let text = error.in_full();
                assert!(text.contains(REFUSAL), "step {step}: {text}");
                assert!(!text.contains("while undoing"), "step {step}: {text}");
                assert_eq!(host.state(), before, "step {step}: {text}");
            }
        }
    }
    unreachable!("the steps do not end")
}

/// Lets the IPAM plugin fail ADD, and requires that it is called with DEL; but not where it says that the container has an
/// address already, nor where an earlier ADD of the container is recorded with its interface. Nothing else may be left either way.
///
/// # Panics
/// When that is not so.
pub fn assert_failed_ipam_is_released(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, caller: &Caller) {
    let recorded = |link: Option<RecordedLink>| {
        let namespace = RecordedNamespace { identity: "boot:0".to_owned(), number: None, path: "/earlier".to_owned() };
        let record = AttachmentRecord {
            at: caller.attachment(plugin),
            maker: plugin.kind().to_owned(),
            namespace,
            link,
            is_again: false,
        };
        let mut host = machine();
        host.apply(&record.write()).expect("recorded");
        host
    };
    let link = RecordedLink { index: 2, kind: "veth".to_owned(), mac: "0a:58:0a:01:02:03".to_owned(), parent: None };
    for (mut host, code, want) in [
        (machine(), Code::TryAgain, "ADD DEL"),
        (machine(), Code::AddressHeld, "ADD"),
        (recorded(Some(link)), Code::TryAgain, "ADD"),
        // An ADD that was killed has made no interface.
        (recorded(None), Code::TryAgain, "ADD DEL"),
    ] {
        let (before, earlier) = (host.state(), host.delegated().len());
        host.fail_delegate_with(Command::Add, code);
        let error = caller.add(plugin, &mut host).expect_err("IPAM fails");
        assert_eq!((error.code().number(), error.details()), (code.number(), String::new()), "{error}");
        let verbs = host.delegated()[earlier..].iter().filter_map(|call| call.split(' ').nth(1));
        assert_eq!(verbs.collect::<Vec<_>>().join(" "), want);
        assert_eq!(host.state(), before);
    }
}

/// Takes back an ADD that all steps of have succeeded, for an attachment that lives already, and requires that all is as
/// before: its result could not be written. Leases are left out: the IPAM plugin says whether the same address comes again.
///
/// # Panics
/// When something has changed, or could not be undone.
pub fn assert_a_repeated_add_is_rolled_back(plugin: &dyn Plugin, host: &mut FakeHost, first: &Caller, second: &Caller) {
    first.add(plugin, host).expect("the first ADD");
    let state = |host: &FakeHost| -> Vec<String> {
        host.state().into_iter().filter(|line| !line.starts_with("lease ")).collect()
    };
    let before = state(host);
    let mut journal = Journal::new(host);
    plugin.add(&second.request(plugin, "ADD"), &mut journal).expect("the second ADD");
    let error = journal.rollback(ResultError::Unknown { found: "none".to_owned() }.into());
    assert!(!error.in_full().contains("while undoing"), "{}", error.in_full());
    assert_eq!(state(host), before);
}

/// Requires that an ADD to which the IPAM plugin gives no address is refused, releases, and leaves nothing.
///
/// # Panics
/// When it does not.
pub fn assert_addresses_are_required(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, caller: &Caller) {
    let mut host = machine().with_ipam("{}");
    let before = host.state();
    assert_eq!(caller.refusal(plugin, &mut host).1, "IPAM plugin returned missing IP config");
    assert_eq!((host.delegated(), host.state()), (&["static ADD".to_owned(), "static DEL".to_owned()][..], before));
}

/// Calls ADD of an attached container once more with another namespace, as after the runtime has lost the first, lets the IPAM
/// plugin fail, and requires that it is not called with DEL: that would release an address that is still in use.
///
/// # Panics
/// When something has changed.
pub fn assert_second_add_keeps_addresses(plugin: &dyn Plugin, host: &mut FakeHost, caller: &Caller) {
    caller.add(plugin, host).expect("ADD");
    host.set_container("/run/netns/new", FakeContainer::Present(None));
    let before = host.state();
    host.fail_delegate(Some(Command::Add));
    let again = Caller { netns: "/run/netns/new".to_owned(), ..caller.clone() };
    let error = again.add(plugin, host).expect_err("IPAM fails");
    assert_eq!(error.to_string(), "host-local has failed");
    assert_eq!(host.delegated().last().map(String::as_str), Some("host-local ADD"));
    assert_eq!(host.state(), before);
}

/// A change of a link, with the message of CHECK about it.
pub type LinkChange = (fn(&mut Link), &'static str);

/// Changes the container's interface `eth0` in each way after an ADD, and requires that CHECK names the change. In a message, `MAC` stands
/// for the address in the result.
///
/// # Panics
/// When CHECK fails before the change, or not as expected after it.
pub fn assert_check_compares(
    plugin: &dyn Plugin,
    machine: impl Fn() -> FakeHost,
    caller: &Caller,
    changes: &[LinkChange],
) {
    for (change, message) in changes {
        let mut host = machine();
        let caller = caller.after_add(plugin, &mut host);
        caller.check(plugin, &mut host).expect("CHECK");
        host.change_link(Ns::Container, "eth0", change);
        let error = caller.check(plugin, &mut host).expect_err("changed");
        let result = caller.request(plugin, "CHECK").prev_result().expect("a result").expect("a result");
        let mac = result.interfaces.iter().find(|interface| interface.name == "eth0").map(|found| found.mac.as_str());
        assert_eq!(error.to_string(), message.replace("MAC", mac.unwrap_or_default()));
        assert_eq!(error.code().number(), 100, "{error}");
    }
}

/// Finds what a repair would put back, and requires that looking changes nothing.
///
/// # Panics
/// When it changes something, or cannot find out.
pub fn find_missing(plugin: &dyn Plugin, host: &mut FakeHost, caller: &Caller) -> Vec<MissingPart> {
    let applied = host.applied().len();
    let parts = caller.find_missing(plugin, host).expect("can be told");
    assert_eq!(host.applied().len(), applied, "looking has changed something");
    parts
}

/// Puts back what is missing, and records it; returns how many parts that are.
///
/// # Panics
/// As [`find_missing`], and when a part cannot be put back.
pub fn repair(plugin: &dyn Plugin, host: &mut FakeHost, caller: &Caller) -> usize {
    repair_before(plugin, host, caller, &|_| false)
}

/// The same, before those for which `is_next` holds are repaired.
///
/// # Panics
/// As [`repair`].
pub fn repair_before(
    plugin: &dyn Plugin,
    host: &mut FakeHost,
    caller: &Caller,
    is_next: &dyn Fn(&Attachment) -> bool,
) -> usize {
    let parts = find_missing(plugin, host, caller);
    let mut journal = Journal::new(host);
    parts.iter().for_each(|part| journal.apply(&part.plan).expect("put back"));
    let missing =
        plugin.find_missing_records(&caller.request(plugin, "ADD"), is_next, journal.host()).expect("can be told");
    journal.apply(&missing.plan).expect("recorded");
    journal.commit();
    parts.len()
}
