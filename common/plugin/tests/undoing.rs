//! What a failed ADD takes back, and how far DEL goes, on a machine in memory.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_model::plan::{Dad, IfPresent, LinkKind, LinkSetting, NewLink, NewRoute, Ns, Plan, Step, Sysctl, SysctlNeed};
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;
use cni_testkit::{FakeContainer, FakeHost, REFUSAL};

/// The note about addresses of a link that stays.
const KEPT: &str = "the addresses stay reserved until DEL, since the interface may still have them";

const RECORDS: RecordKind = RecordKind::new("things");

fn host() -> FakeHost {
    let mut host = FakeHost::new().with_container("/c", FakeContainer::Present(None));
    host.enter("/c").expect("entered");
    host
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn create(new: &str, if_present: IfPresent) -> Step {
    let link = NewLink { name: name(new), mac: None, mtu: None, if_present, kind: LinkKind::Dummy };
    Step::CreateLink { ns: Ns::Container, link }
}

fn set(of: &str, setting: LinkSetting) -> Step {
    Step::SetLink { ns: Ns::Container, name: name(of), setting }
}

fn write(key: &str, text: &str) -> Step {
    Step::WriteRecord { key: RecordKey::new(RECORDS, key).expect("a key"), text: text.to_owned() }
}

fn remove(key: &str) -> Step {
    Step::RemoveRecord { key: RecordKey::new(RECORDS, key).expect("a key") }
}

/// ADD of an IPAM plugin, which is called with DEL on rollback.
fn call_ipam(journal: &mut Journal<'_>) {
    journal.host().delegate("ipam", Command::Add, None).expect("an answer");
    journal.release_delegate("ipam");
}

fn owned(steps: impl IntoIterator<Item = Step>) -> Plan {
    let mut plan = Plan::default();
    steps.into_iter().for_each(|step| plan.owned(step));
    plan
}

/// A failure that a plugin comes to by itself.
fn failure() -> Error {
    IfName::parse("").expect_err("no name").into()
}

#[test]
fn every_kind_of_owned_step_is_undone() {
    let mut host = host();
    host.apply(&write("there", "before")).expect("written");
    host.apply(&write("gone", "before")).expect("written");
    let (ns, of) = (Ns::Container, || name("d0"));
    let cidr = "10.1.2.5/24".parse().expect("CIDR");
    let key = Sysctl::interface(cni_core::family::Family::V4, &IfName::lo(), "arp_notify");
    let steps = [
        create("d0", IfPresent::Refuse),
        create("d1", IfPresent::Accept),
        set("lo", LinkSetting::Mtu(1400)),
        set("lo", LinkSetting::Promisc(true)),
        set("lo", LinkSetting::AllMulticast(true)),
        set("lo", LinkSetting::TxQueueLength(5)),
        set("lo", LinkSetting::Alias("ours".to_owned())),
        set("d0", LinkSetting::Up),
        Step::AddAddress { ns, name: of(), cidr, dad: Dad::Skip, if_present: IfPresent::Refuse },
        Step::AddRoute { ns, name: of(), route: NewRoute::to("10.9.0.0/16".parse().expect("CIDR")) },
        Step::SetSysctl { ns, key, value: "1".to_owned(), need: SysctlNeed::Required },
        write("new", "text"),
        write("there", "after"),
        remove("gone"),
    ];
    for length in 1..=steps.len() {
        let before = host.state();
        let mut journal = Journal::new(&mut host);
        journal.apply(&owned(steps[..length].iter().cloned())).expect("carried out");
        let error = journal.rollback(failure());
        assert_eq!((host.state(), error.details()), (before, failure().details()), "{}", steps[length - 1]);
    }
}

#[test]
fn what_was_there_before_and_what_is_shared_stays() {
    let mut host = host();
    host.apply(&create("d0", IfPresent::Refuse)).expect("made");
    let before = host.state();
    let mut journal = Journal::new(&mut host);
    let mut plan = owned([create("d0", IfPresent::Accept), set("d0", LinkSetting::Down)]);
    plan.shared(create("d1", IfPresent::Accept));
    journal.apply(&plan).expect("carried out");
    journal.rollback(failure());
    let more: Vec<String> = host.state().into_iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(more.len(), 1, "{more:?}");
    assert!(more[0].contains("link d1"), "{more:?}");
}

#[test]
fn undoing_goes_backwards_and_its_failures_are_notes() {
    let mut host = host().with_ipam(r#"{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24"}]}"#);
    host.fail_delegate(Some(Command::Del));
    let mut journal = Journal::new(&mut host);
    call_ipam(&mut journal);
    let unreleased = || -> Error { IfName::parse("a/b").expect_err("no name").into() };
    journal.on_failure(Box::new(move || Err(unreleased())));
    journal.apply(&owned([create("d0", IfPresent::Refuse)])).expect("made");
    let error = journal.rollback(failure());
    assert_eq!(error.to_string(), failure().to_string());
    let notes = error.details();
    let own = notes.find(&format!("and while undoing: {}", unreleased().in_full())).expect("a note of the release");
    let delegate = notes.find("and while undoing: ipam has failed").expect("a note of the delegate");
    assert!(own < delegate, "{notes}");
    assert_eq!(host.applied().last().map(String::as_str), Some("container: link del d0"));
    assert_eq!(host.delegated(), ["ipam ADD", "ipam DEL"]);
}

#[test]
fn addresses_are_not_released_while_the_link_cannot_be_removed() {
    let mut host = host().with_ipam(r#"{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24"}]}"#);
    host.fail_at(3);
    let mut journal = Journal::new(&mut host);
    call_ipam(&mut journal);
    journal.apply(&owned([create("d0", IfPresent::Refuse)])).expect("made");
    let error = journal.rollback(failure());
    let details = error.details();
    assert!(details.contains(REFUSAL) && details.ends_with(KEPT), "{details}");
    assert_eq!(host.delegated(), ["ipam ADD"]);
}

#[test]
fn addresses_are_released_after_a_later_removal_of_the_link() {
    let mut host = host().with_ipam(r#"{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24"}]}"#);
    host.fail_at(3);
    let mut journal = Journal::new(&mut host);
    journal.apply(&owned([create("d0", IfPresent::Refuse)])).expect("made");
    call_ipam(&mut journal);
    let index = journal.host().link(Ns::Container, &name("d0")).expect("an answer").expect("a link").index;
    journal.undo_first(Step::RemoveLinkByIndex { ns: Ns::Container, index });
    let error = journal.rollback(failure());
    assert!(!error.details().contains(KEPT), "{}", error.details());
    assert_eq!(host.delegated(), ["ipam ADD", "ipam DEL"]);
}

#[test]
fn addresses_are_not_released_while_a_link_that_stays_has_them() {
    for (stays, failing, delegated) in [(true, None, true), (true, Some(4), false), (false, Some(4), true)] {
        let mut host = host().with_ipam(r#"{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24"}]}"#);
        failing.into_iter().for_each(|step| host.fail_at(step));
        let mut journal = Journal::new(&mut host);
        let mut plan = Plan::default();
        let link = create("d0", IfPresent::Refuse);
        if stays {
            plan.shared(link)
        } else {
            plan.owned(link)
        }
        journal.apply(&plan).expect("made");
        call_ipam(&mut journal);
        let (ns, cidr) = (Ns::Container, "10.1.2.5/24".parse().expect("CIDR"));
        let (dad, if_present) = (Dad::Skip, IfPresent::Refuse);
        journal.apply(&owned([Step::AddAddress { ns, name: name("d0"), cidr, dad, if_present }])).expect("added");
        let error = journal.rollback(failure());
        assert_eq!(error.details().contains(KEPT), !delegated, "{stays} {failing:?}: {}", error.details());
        assert_eq!(host.delegated().contains(&"ipam DEL".to_owned()), delegated, "{stays} {failing:?}");
    }
}

/// The kernel may have set the link up before its answer was lost.
#[test]
fn a_link_whose_setting_up_failed_is_set_down() {
    let mut host = host();
    host.fail_at(1);
    let mut journal = Journal::new(&mut host);
    let error = journal.apply(&owned([set("lo", LinkSetting::Up)])).expect_err("fails");
    journal.rollback(error);
    assert_eq!(host.applied(), ["container: link set lo up", "container: link set lo down"]);
}

#[test]
fn a_removal_tries_everything_and_tells_the_first_failure() {
    let mut host = host();
    for key in ["a", "b", "c"] {
        host.apply(&write(key, "text")).expect("written");
    }
    host.fail_at(host.applied().len() + 1);
    let mut removal = Removal::new(&mut host);
    removal.in_order(&owned([remove("a"), remove("b")]));
    assert_eq!(removal.attempt(|_| Err::<(), _>(failure())), None);
    removal.step(&remove("c"));
    assert_eq!(removal.attempt(|host| host.namespaces().identity(Ns::Host)), Some(Some("boot:host".to_owned())));
    let error = removal.finish().expect_err("two have failed");
    assert_eq!(error.to_string(), format!("{REFUSAL}: host: remove record things/a"));
    assert_eq!(error.details(), format!("and: {}", failure().in_full()));
    let left = host.records.lines();
    assert_eq!(left, [r#"things/a: "text""#, r#"things/b: "text""#], "b needed a to go first; c did not");
}

#[test]
fn a_removal_without_failure_succeeds() {
    let mut host = host();
    let mut removal = Removal::new(&mut host);
    removal.step(&Step::RemoveLink { ns: Ns::Container, name: name("none") });
    removal.finish().expect("absence is no failure");
}
