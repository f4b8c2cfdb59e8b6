//! What a failed ADD takes back, and how far DEL goes.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_model::plan::{Dad, IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Sharing, Step};
use cni_model::record::PartKind;
use cni_model::state_file::StateFile;
use cni_plugin::journal::Journal;
use cni_plugin::ledger;
use cni_plugin::removal::Removal;

use crate::stub::{StubHost, Told, at};

fn create() -> Step {
    let name = IfName::parse("d0").expect("a name");
    let (if_present, kind) = (IfPresent::Refuse, LinkKind::Dummy);
    Step::CreateLink { ns: Ns::Container, link: NewLink { name, mac: None, mtu: None, if_present, kind } }
}

fn address() -> Step {
    let (cidr, dad, if_present) = ("10.1.2.5/24".parse().expect("CIDR"), Dad::Skip, IfPresent::Refuse);
    Step::AddAddress { ns: Ns::Container, name: IfName::parse("d0").expect("a name"), cidr, dad, if_present }
}

fn up() -> Step {
    Step::SetLink { ns: Ns::Container, name: IfName::lo(), setting: LinkSetting::Up }
}

fn file() -> Step {
    let file = StateFile::new("/run/x", "y").expect("a place");
    Step::WriteStateFile { file, text: String::new() }
}

fn planned(sharing: Sharing, step: Step) -> Plan {
    let mut plan = Plan::default();
    match sharing {
        Sharing::Owned => plan.owned(step),
        Sharing::Within => plan.within(step),
        Sharing::Shared => plan.shared(step),
    }
    plan
}

/// What a rollback does after these steps and a call of IPAM, where some of all that is done fail; and its notes.
fn rolled_back(steps: &[(Sharing, Step)], failing: &[usize]) -> (Vec<String>, String) {
    let mut host = StubHost { failing: failing.to_vec(), ..StubHost::new() };
    let mut journal = Journal::new(&mut host);
    let mut error: Error = Told("first").into();
    for (at, (sharing, step)) in steps.iter().enumerate() {
        if at == 1 {
            journal.host().delegate("ipam", Command::Add, None).expect("an answer");
            journal.release_delegate("ipam");
        }
        if let Err(failed) = journal.apply(&planned(*sharing, step.clone())) {
            error = failed;
        }
    }
    let done = journal.rollback(error);
    assert!(["first", "refused"].contains(&done.to_string().as_str()), "the first error is reported");
    let undone = host.applied.split_off(steps.len() + usize::from(steps.len() > 1));
    (undone, done.details())
}

/// The kernel may have set a link up before its answer was lost. Addresses stay reserved as long as a link may have them.
#[test]
fn what_is_owned_is_undone_backwards_and_its_failures_are_notes() {
    use Sharing::{Owned, Shared, Within};
    let kept = "the addresses stay reserved until DEL, since the interface may still have them";
    let (gone, down) = ("container: link del d0", "container: link set lo down");
    let off = "container: addr del 10.1.2.5/24 dev d0";
    let removed = "host: rm /run/x/y";
    let noted = "and while undoing: refused";
    for (steps, failing, undone, notes) in [
        (&[(Owned, create()), (Owned, up())][..], &[][..], &["ipam DEL", gone][..], String::new()),
        (&[(Shared, create()), (Within, up())], &[], &["ipam DEL"], String::new()),
        (&[(Owned, up())], &[1], &[down], String::new()),
        (&[(Owned, up()), (Owned, create())], &[4], &[gone], format!("{noted}; {kept}")),
        (&[(Owned, create()), (Owned, address())], &[4], &[off, gone, "ipam DEL"], noted.to_owned()),
        (&[(Shared, create()), (Owned, address())], &[4], &[off], format!("{noted}; {kept}")),
        (&[(Shared, create()), (Owned, address())], &[], &[off, "ipam DEL"], String::new()),
        (&[(Owned, file()), (Owned, up())], &[4], &["ipam DEL"], "and while undoing: plugin failed".to_owned()),
        (&[(Owned, file()), (Owned, up())], &[], &["ipam DEL", removed], String::new()),
    ] {
        assert_eq!(rolled_back(steps, failing), (undone.iter().map(ToString::to_string).collect(), notes), "{steps:?}");
    }
}

#[test]
fn addresses_are_released_after_a_later_removal_of_the_link() {
    let mut host = StubHost { failing: vec![3], ..StubHost::new() };
    let mut journal = Journal::new(&mut host);
    journal.apply(&planned(Sharing::Owned, create())).expect("made");
    journal.host().delegate("ipam", Command::Add, None).expect("an answer");
    journal.release_delegate("ipam");
    journal.on_failure(Box::new(|| Err(Told("unreleased").into())));
    journal.undo_first(Step::RemoveLinkByIndex { ns: Ns::Container, index: 2 });
    let error = journal.rollback(Told("first").into());
    assert_eq!(error.details(), "and while undoing: refused; and while undoing: unreleased");
    assert_eq!(host.applied[3..], ["container: link del d0", "ipam DEL"]);
}

#[test]
fn a_removal_tries_everything_and_tells_the_first_failure() {
    let remove = |thing| ledger::remove(&at("c1", "eth0"), [PartKind::new("thing").about(thing)]);
    let mut host = StubHost { failing: vec![1], ..StubHost::new() };
    let mut removal = Removal::new(&mut host);
    let mut both = planned(Sharing::Owned, remove("a"));
    both.owned(remove("b"));
    removal.in_order(&both);
    assert_eq!(removal.attempt(|_| Err::<(), _>(Told("second").into())), None);
    removal.step(&remove("c"));
    assert_eq!(removal.attempt(|_| Ok(1)), Some(1));
    let error = removal.finish().expect_err("two have failed");
    assert_eq!((error.to_string().as_str(), error.details().as_str()), ("refused", "and: second"));
    assert_eq!(host.applied, ["a", "c"].map(|name| remove(name).to_string()), "b needed a to go first; c did not");
    Removal::new(&mut StubHost::new()).finish().expect("nothing has failed");
}
