//! The index against changes behind its back, and a model. What is on the disk is in `conformance/cases/host-local`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn machine() -> MachineIdentity {
    MachineIdentity { id: Some("m".to_owned()), boot: Some("b1".to_owned()) }
}

fn home(namespace: &str) -> LeaseOrigin {
    LeaseOrigin { machine: machine(), namespace: Some(namespace.to_owned()) }
}

fn owner(container: &str) -> Owner {
    Owner { container: container.to_owned(), ifname: Some("eth0".to_owned()) }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 1, 2, last])
}

struct Fixture {
    _root: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("directory");
        let path = root.path().join("networks/net");
        Self { _root: root, path }
    }

    fn open(&self) -> Store {
        Store::create(&self.path, machine()).expect("store")
    }

    /// What the reference does: no index, no link, the lease is written in place.
    fn foreign_add(&self, name: &str, content: &str) {
        fs::write(self.path.join(name), content).expect("write");
    }

    /// What an ADD does: it looks before it leases.
    fn add(&self, container: &str, last: u8) -> Lease {
        let mut store = self.open();
        store.leases_of(container).expect("no failure");
        store.lease(ip(last), &owner(container), &home("ns1")).expect("no failure").expect("free")
    }

    fn leases_of(&self, container: &str) -> String {
        let leases = self.open().leases_of(container).expect("no failure");
        leases.iter().map(|lease| lease.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn own(&self, name: &str) -> PathBuf {
        self.path.join(OWN_DIRECTORY).join(name)
    }

    /// Whether the index, as it lies there, would be believed.
    fn is_proven(&self) -> bool {
        let handle = File::open(&self.path).expect("open");
        let stamp = stamp::DirectoryStamp::of(&handle, &machine()).expect("stat");
        let saved = fs::read_to_string(self.own("stamp")).unwrap_or_default();
        stamp.is_some_and(|stamp| stamp.text() == saved)
    }

    /// What everybody sees: names and contents of all plain files in the directory.
    fn files(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(&self.path).expect("read").map(|entry| entry.expect("entry").path());
        let files = entries.filter(|path| path.is_file());
        files
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).expect("text"))
            })
            .collect()
    }
}

#[test]
fn nothing_of_ours_looks_like_a_lease() {
    let fixture = Fixture::new();
    fixture.add("c1", 2);
    for entry in fs::read_dir(fixture.own("")).expect("read") {
        let path = entry.expect("entry").path();
        assert!(fs::read_to_string(&path).expect("text").starts_with('#'), "{}", path.display());
        assert!(parse_ip(&path.file_name().expect("a name").to_string_lossy()).is_none());
    }
}

#[test]
fn a_lease_is_never_written_over() {
    let fixture = Fixture::new();
    fixture.add("c1", 2);
    let mut store = fixture.open();
    assert!(store.lease(ip(2), &owner("c2"), &home("ns2")).expect("no failure").is_none());
    let lease = store.lease(ip(3), &owner("c3"), &home("ns3")).expect("no failure").expect("free");
    assert_eq!(lease.owner, owner("c3"), "the draft for c2 is not used for c3");
    drop(store);
    assert_eq!(fixture.files()["10.1.2.2"], "c1\r\neth0");
    assert_eq!(fixture.files()["10.1.2.3"], "c3\r\neth0");
}

#[test]
fn the_index_answers_without_reading_the_other_leases() {
    let fixture = Fixture::new();
    fixture.add("c1", 2);
    fixture.add("c2", 3);
    assert!(fixture.is_proven());
    // A content that changes in place does not show in the directory, so this tells who was asked.
    fixture.foreign_add("10.1.2.3", "c9\r\neth0");
    assert_eq!(fixture.leases_of("c9"), "", "the index does not know it");
    assert_eq!(fixture.leases_of("c1"), "10.1.2.2");
    assert_eq!(fixture.leases_of("c2"), "", "the lease is not as it was recorded, so all are read");
    assert_eq!(fixture.leases_of("c9"), "10.1.2.3");
}

#[test]
fn the_home_is_known_of_the_leases_that_we_have_written() {
    let fixture = Fixture::new();
    fixture.add("c1", 2);
    fixture.foreign_add("10.1.2.3", "c2\r\neth0");
    let home_of = |container| fixture.open().leases_of(container).expect("no failure")[0].home.clone();
    assert_eq!((home_of("c1"), home_of("c2")), (home("ns1"), LeaseOrigin::default()));
    // Another lease of the same address and the same owner is another lease.
    fs::remove_file(fixture.path.join("10.1.2.2")).expect("remove");
    fixture.foreign_add("10.1.2.2", "c1\r\neth0");
    assert_eq!(home_of("c1"), LeaseOrigin::default());
}

#[test]
fn a_lease_that_is_kept_gets_a_new_home() {
    let fixture = Fixture::new();
    let lease = fixture.add("c1", 2);
    fixture.open().keep(&lease, &home("ns2")).expect("recorded");
    assert!(fixture.is_proven(), "nothing was changed that others see");
    let kept = fixture.open().leases_of("c1").expect("no failure");
    assert_eq!(kept, [Lease { home: home("ns2"), ..lease.clone() }]);
    fixture.open().undo(&[LeaseUndo::Kept(lease.clone())]).expect("undo");
    assert_eq!(fixture.open().leases_of("c1").expect("no failure"), [lease]);
}

#[test]
fn undo_removes_that_very_lease() {
    let fixture = Fixture::new();
    let first = fixture.add("c1", 2);
    let second = fixture.add("c1", 3);
    fixture.open().undo(&[LeaseUndo::Made(second)]).expect("undo");
    assert_eq!(fixture.leases_of("c1"), "10.1.2.2");
    // Meanwhile the first was released by others, and its address leased again to the same container.
    fs::remove_file(fixture.path.join("10.1.2.2")).expect("remove");
    fixture.foreign_add("10.1.2.2", "c1\r\neth0");
    fixture.open().undo(&[LeaseUndo::Made(first)]).expect("undo");
    assert_eq!(fixture.leases_of("c1"), "10.1.2.2");
}

/// STATUS makes the directory of a network that has none yet, and removes it at once.
#[test]
fn status_and_the_first_add_of_a_network_do_not_get_in_each_others_way() {
    let fixture = Fixture::new();
    let (number, probes, end) = (AtomicUsize::new(0), AtomicUsize::new(0), 300);
    let reported = Mutex::new(Vec::new());
    let path = || fixture.path.with_file_name(number.load(Ordering::Relaxed).to_string());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while number.load(Ordering::Relaxed) < end {
                    let path = path();
                    let probe = || match Store::existing(&path, machine())? {
                        Some(_) => Ok(()),
                        None => Store::probe_creation(&path),
                    };
                    let failed = Store::reading(&path, machine()).map(drop).and_then(|()| probe()).err();
                    reported.lock().expect("no panic").extend(failed.map(|error| error.to_string()));
                    probes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while number.load(Ordering::Relaxed) < end {
            let probed = probes.load(Ordering::Relaxed);
            while probes.load(Ordering::Relaxed) < probed + 3 {
                std::thread::yield_now();
            }
            let failed = Store::create(&path(), machine()).err();
            reported.lock().expect("no panic").extend(failed.map(|error| error.to_string()));
            number.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(reported.into_inner().expect("no panic"), [""; 0]);
}

#[test]
fn the_cursor_is_an_address_or_nothing() {
    let fixture = Fixture::new();
    let mut store = fixture.open();
    assert_eq!(store.last_reserved(0), None);
    store.set_last_reserved(0, ip(7)).expect("no failure");
    assert_eq!((store.last_reserved(0), store.last_reserved(1)), (Some(ip(7)), None));
    for content in ["", "10.1.2.7\n", " 10.1.2.7", "x"] {
        fixture.foreign_add("last_reserved_ip.0", content);
        assert_eq!(store.last_reserved(0), None, "{content:?}");
    }
    fs::create_dir(fixture.path.join("last_reserved_ip.1")).expect("mkdir");
    assert_eq!(store.last_reserved(1), None, "the reference goes on, too");
    let error = store.set_last_reserved(1, ip(8)).expect_err("refused");
    assert_eq!(error.to_string(), format!("open {}", fixture.path.join("last_reserved_ip.1").display()));
}

#[test]
fn threads_never_get_the_same_address() {
    let fixture = Fixture::new();
    let add = |thread: u8| {
        let container = format!("c{thread}");
        let mut store = fixture.open();
        assert_eq!(store.leases_of(&container).expect("no failure"), []);
        (2..=51).find(|last| store.lease(ip(*last), &owner(&container), &home("ns")).expect("no failure").is_some())
    };
    let add = &add;
    let mut given: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|thread| scope.spawn(move || add(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("enough for all")).collect()
    });
    given.sort_unstable();
    assert_eq!(given, (2..=51).collect::<Vec<_>>());
    assert!(fixture.is_proven());
}

#[derive(Clone, Debug)]
enum Act {
    Lease { container: u8, address: u8 },
    Release { container: u8 },
    ForeignAdd { container: u8, address: u8 },
    ForeignRemove { address: u8 },
    LoseStamp,
    Reboot,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u8, 2..9_u8).prop_map(|(container, address)| Act::Lease { container, address }),
        3 => (0..6_u8).prop_map(|container| Act::Release { container }),
        2 => (0..6_u8, 2..9_u8).prop_map(|(container, address)| Act::ForeignAdd { container, address }),
        1 => (2..9_u8).prop_map(|address| Act::ForeignRemove { address }),
        1 => Just(Act::LoseStamp),
        1 => Just(Act::Reboot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever we and others do, the index says what a look at all files would say.
    #[test]
    fn the_index_agrees_with_the_files(acts in prop::collection::vec(act(), 1..40)) {
        let fixture = Fixture::new();
        let mut boot = 0;
        let mut model: BTreeMap<u8, u8> = BTreeMap::new();
        fs::create_dir_all(&fixture.path).expect("mkdir");
        for act in acts {
            let machine = MachineIdentity { boot: Some(format!("b{boot}")), ..machine() };
            let open = || Store::create(&fixture.path, machine.clone()).expect("store");
            match act {
                Act::Lease { container, address } => {
                    let owner = owner(&format!("c{container}"));
                    let lease = open().lease(ip(address), &owner, &home("ns")).expect("no failure");
                    prop_assert_eq!(lease.is_some(), !model.contains_key(&address));
                    model.entry(address).or_insert(container);
                }
                Act::Release { container } => {
                    let mut store = open();
                    for lease in store.leases_of(&format!("c{container}")).expect("no failure") {
                        store.release(&lease).expect("no failure");
                    }
                    model.retain(|_, holder| *holder != container);
                }
                Act::ForeignAdd { container, address } => {
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(address) {
                        entry.insert(container);
                        fixture.foreign_add(&ip(address).to_string(), &format!("c{container}\r\neth0"));
                    }
                }
                Act::ForeignRemove { address } => {
                    if model.remove(&address).is_some() {
                        fs::remove_file(fixture.path.join(ip(address).to_string())).expect("remove");
                    }
                }
                Act::LoseStamp => remove(&fixture.own("stamp")).expect("remove"),
                Act::Reboot => boot += 1,
            }
            let machine = MachineIdentity { boot: Some(format!("b{boot}")), ..machine };
            for container in 0..6 {
                let store = Store::reading(&fixture.path, machine.clone()).expect("no failure");
                let leases = store.expect("there").leases_of(&format!("c{container}")).expect("no failure");
                let found: Vec<IpAddr> = leases.iter().map(|lease| lease.address).collect();
                let held = model.iter().filter(|(_, holder)| **holder == container);
                let want: Vec<IpAddr> = held.map(|(address, _)| ip(*address)).collect();
                prop_assert_eq!(found, want);
            }
        }
    }
}
