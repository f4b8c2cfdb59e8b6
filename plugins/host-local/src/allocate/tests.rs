//! ADD on a real directory: order, requested addresses, earlier lives of a container, rollback.

use std::fs;
use std::path::Path;

use cni_model::link::{Address, Link};
use cni_model::plan::Ns;
use cni_plugin::host::Host as _;
use cni_testkit::{FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::ranges::{GivenRange, Subnet};
use crate::store::MachineIdentity;

const NETNS: &str = "/netns";

struct Network {
    root: TempDir,
    sets: Vec<RangeSet>,
    machine: MachineIdentity,
}

fn set(subnets: &[&str]) -> RangeSet {
    let given = |subnet: &&str| GivenRange {
        subnet: Some(Subnet::Plain(subnet.parse().expect("subnet"))),
        ..GivenRange::default()
    };
    RangeSet::new(&subnets.iter().map(given).collect::<Vec<_>>()).expect("valid")
}

fn machine(boot: &str) -> MachineIdentity {
    MachineIdentity { id: Some("m".to_owned()), boot: Some(boot.to_owned()) }
}

fn attachment(container: &str, ifname: &str) -> Attachment {
    cni_testkit::attachment("net", container, ifname)
}

/// A host whose container lives in the namespace of this identity.
fn at_netns(identity: &str) -> FakeHost {
    FakeHost::new().with_container(NETNS, FakeContainer::Present(Some(identity.to_owned())))
}

/// One whose interface has an address.
fn at_netns_with(identity: &str, cidr: &str) -> FakeHost {
    let mut host = at_netns(identity);
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
    let cidr = cidr.parse().expect("address");
    host.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
    host
}

type Refusal = (u32, String, String);

impl Network {
    fn new(sets: &[&[&str]]) -> Self {
        let root = tempfile::tempdir().expect("directory");
        Self { root, sets: sets.iter().map(|subnets| set(subnets)).collect(), machine: machine("b1") }
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path().join(name), content).expect("write");
    }

    fn leases(&self) -> String {
        let entries = fs::read_dir(self.path()).expect("read").map(|entry| entry.expect("entry").path());
        let mut texts: Vec<String> = entries
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".1.")))
            .map(|path| {
                let content = fs::read_to_string(&path).expect("text").replace("\r\n", "/");
                format!("{}={content}", path.file_name().expect("a name").to_string_lossy())
            })
            .collect();
        texts.sort();
        texts.join(" ").replace("10.1.", "")
    }

    fn store(&self) -> Store {
        Store::create(self.path(), self.machine.clone()).expect("store")
    }

    fn add_by(&self, host: &mut FakeHost, attachment: &Attachment, requested: &[&str]) -> Result<String, Refusal> {
        let requested = requested.iter().map(|text| text.parse().expect("address")).collect();
        let mut store = self.store();
        let mut presence = CurrentNamespace::observe(host, Some(NETNS), attachment).expect("no failure");
        match Allocation::new(&mut store, &mut presence, attachment).run(&self.sets, requested) {
            Ok((ips, _)) => {
                let texts: Vec<String> = ips.iter().map(|ip| ip.address.address().to_string()).collect();
                Ok(texts.join(" ").replace("10.1.", ""))
            }
            Err(error) => Err(error_parts(error)),
        }
    }

    fn add(&self, container: &str) -> Result<String, Refusal> {
        self.add_by(&mut at_netns("ns"), &attachment(container, "eth0"), &[])
    }

    fn add_at(&self, namespace: &str, container: &str) -> Result<String, Refusal> {
        self.add_by(&mut at_netns(namespace), &attachment(container, "eth0"), &[])
    }

    fn request(&self, container: &str, requested: &[&str]) -> Result<String, Refusal> {
        self.add_by(&mut at_netns("ns"), &attachment(container, "eth0"), requested)
    }

    fn del(&self, container: &str) {
        let mut store = self.store();
        for lease in store.leases_of(container).expect("no failure") {
            store.release(&lease).expect("no failure");
        }
    }
}

fn refused(text: &str, details: &str) -> Result<String, Refusal> {
    Err((102, text.to_owned(), details.to_owned()))
}

/// The refusal where the container has an address that it may use.
fn held(text: &str) -> Result<String, Refusal> {
    Err((105, text.to_owned(), "its container still runs, or its namespace cannot be read".to_owned()))
}

fn given(text: &str) -> Result<String, Refusal> {
    Ok(text.to_owned())
}

#[test]
fn addresses_go_round_and_a_released_one_comes_last() {
    let network = Network::new(&[&["10.1.2.0/29", "10.1.3.0/30"]]);
    for (container, want) in [("a", "2.2"), ("b", "2.3"), ("c", "2.4")] {
        assert_eq!(network.add(container), given(want));
    }
    network.del("a");
    for (container, want) in [("d", "2.5"), ("e", "2.6"), ("f", "3.2"), ("g", "2.2")] {
        assert_eq!(network.add(container), given(want));
    }
    let details = format!("6 of 6 addresses are held by 6 containers; see {}", network.path().display());
    let text =
        "failed to allocate for range 0: no IP addresses available in range set: 10.1.2.1-10.1.2.6,10.1.3.1-10.1.3.2";
    assert_eq!(network.add("h"), refused(text, &details));
}

#[test]
fn a_cursor_that_cannot_be_used_starts_from_the_first_range() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    for (cursor, want) in [("10.1.2.4", "2.5"), ("10.1.2.4\n", "2.2"), ("10.1.9.1", "2.3"), ("", "2.4")] {
        network.write("last_reserved_ip.0", cursor);
        assert_eq!(network.add(want), given(want), "{cursor:?}");
    }
}

#[test]
fn requested_addresses_are_taken_from_their_sets_and_move_the_cursor() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/29"]]);
    assert_eq!(network.request("a", &["10.1.3.5", "10.1.2.4"]), given("2.4 3.5"));
    assert_eq!(network.request("b", &["10.1.3.4"]), given("2.5 3.4"));
    assert_eq!(network.add("c"), given("2.6 3.6"), "behind 3.4 stands 3.5, which is taken");
    let prefix = "failed to allocate for range";
    let taken = format!("{prefix} 1: requested IP address 10.1.3.5 is not available in range set 10.1.3.1-10.1.3.6");
    assert_eq!(network.request("d", &["10.1.3.5"]), refused(&taken, "held by a eth0"));
    let gateway = format!("{prefix} 0: requested ip 10.1.2.1 is subnet's gateway");
    assert_eq!(network.request("d", &["10.1.2.1"]), refused(&gateway, ""));
    let left = "failed to allocate all requested IPs: 10.1.9.9 10.1.2.3";
    let details = "each range set gives one address, from its own ranges only";
    assert_eq!(network.request("d", &["10.1.9.9", "10.1.2.2", "10.1.2.3"]), refused(left, details));
    assert_eq!(network.leases(), "2.4=a/eth0 2.5=b/eth0 2.6=c/eth0 3.4=b/eth0 3.5=a/eth0 3.6=c/eth0");
}

#[test]
fn a_container_that_is_there_gets_no_second_address() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    assert_eq!(network.add("c1"), given("2.2"));
    let text = "failed to allocate for range 0: 10.1.2.2 has been allocated to c1, duplicate allocation is not allowed";
    assert_eq!(network.add("c1"), held(text));
    let other = network.add_by(&mut at_netns("ns"), &attachment("c1", "eth1"), &[]);
    assert_eq!(other, given("2.3"), "another interface is another attachment");
    assert_eq!(
        network.request("c1", &["10.1.2.5"]),
        given("2.5"),
        "as the reference: what is asked for is not compared"
    );
    assert_eq!(network.leases(), "2.2=c1/eth0 2.3=c1/eth1 2.5=c1/eth0");
}

#[test]
fn a_container_that_comes_again_in_another_namespace_gets_its_addresses_again() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/29"]]);
    assert_eq!(network.add_at("ns1", "c1"), given("2.2 3.2"));
    assert_eq!(network.add_at("ns1", "c2"), given("2.3 3.3"));
    assert_eq!(network.add_at("ns2", "c1"), given("2.2 3.2"));
    let text = "failed to allocate for range 0: 10.1.2.2 has been allocated to c1, duplicate allocation is not allowed";
    assert_eq!(network.add_at("ns2", "c1"), held(text));
    let again = network.add_by(&mut at_netns("ns3"), &attachment("c1", "eth0"), &["10.1.3.2"]);
    assert_eq!(again, given("2.2 3.2"), "also when it is asked for");
    assert_eq!(network.add_at("ns1", "c3"), given("2.4 3.4"), "the cursor stays where it was");
}

#[test]
fn a_set_without_a_lease_of_the_container_gives_one() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/29"]]);
    network.add_at("ns1", "c1").expect("free");
    fs::remove_file(network.path().join("10.1.3.2")).expect("remove");
    assert_eq!(network.add_at("ns2", "c1"), given("2.2 3.3"));
}

#[test]
fn a_lease_of_unknown_home_is_given_again_when_the_container_is_there_without_it() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    network.write("10.1.2.4", "c1\r\neth0");
    let text = "failed to allocate for range 0: 10.1.2.4 has been allocated to c1, duplicate allocation is not allowed";
    let at = attachment("c1", "eth0");
    assert_eq!(network.add_by(&mut FakeHost::default(), &at, &[]), held(text));
    let mut living = at_netns_with("ns1", "10.1.2.4/29");
    assert_eq!(network.add_by(&mut living, &at, &[]), held(text));
    let mut old_kernel = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    assert_eq!(network.add_by(&mut old_kernel, &at, &[]), given("2.4"));
    assert_eq!(network.add_by(&mut at_netns("ns1"), &at, &[]), given("2.4"));
    assert_eq!(network.add_by(&mut at_netns("ns1"), &at, &[]), held(text), "now it is known");
}

#[test]
fn a_lease_without_interface_is_refused_as_by_the_reference() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    network.write("10.1.2.4", "c1");
    let text = "failed to allocate for range 0: 10.1.2.4 has been allocated to c1, duplicate allocation is not allowed";
    assert_eq!(network.add("c1"), held(text));
    assert_eq!(network.add("c2"), given("2.2"));
}

#[test]
fn torn_leases_are_taken_when_nothing_else_is_free() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    for last in 2..=5 {
        network.write(&format!("10.1.2.{last}"), if last == 4 { "\0\0" } else { "" });
    }
    for (container, want) in [("a", "2.6"), ("b", "2.2"), ("c", "2.3"), ("d", "2.4"), ("e", "2.5")] {
        assert_eq!(network.add(container), given(want));
    }
    assert_eq!(network.add("f").map_err(|(code, ..)| code), Err(102));
}

#[test]
fn a_torn_lease_is_no_obstacle_for_who_asks_for_the_address() {
    let network = Network::new(&[&["10.1.2.0/29"]]);
    network.write("10.1.2.4", "");
    assert_eq!(network.request("a", &["10.1.2.4"]), given("2.4"));
}

#[test]
fn leases_from_before_a_restart_are_taken_when_nothing_else_is_free() {
    let mut network = Network::new(&[&["10.1.2.0/29"]]);
    for container in ["a", "b", "c"] {
        network.add_at("b1:1", container).expect("free");
    }
    network.write("10.1.2.5", "foreign\r\neth0");
    network.machine = machine("b2");
    for (container, want) in [("d", "2.6"), ("e", "2.2"), ("f", "2.3"), ("g", "2.4")] {
        assert_eq!(network.add_at("b2:1", container), given(want));
    }
    assert_eq!(network.add_at("b2:1", "h").map_err(|(code, ..)| code), Err(102), "a lease of unknown age is kept");
    assert_eq!(network.leases(), "2.2=e/eth0 2.3=f/eth0 2.4=g/eth0 2.5=foreign/eth0 2.6=d/eth0");
}

/// Otherwise its address would be taken for that of a container from before the restart.
#[test]
fn a_container_that_comes_again_after_a_restart_is_refused_if_that_cannot_be_recorded() {
    let mut network = Network::new(&[&["10.1.2.0/30"]]);
    network.add_at("b1:1", "a").expect("free");
    network.machine = machine("b2");
    let draft = network.path().join(".cni-plugins-rs/index.draft");
    fs::create_dir(&draft).expect("in the way");
    network.add_at("b2:1", "a").expect_err("the index cannot be written");
    fs::remove_dir(&draft).expect("out of the way");
    assert_eq!(network.add_at("b2:1", "a"), given("2.2"));
    fs::create_dir(&draft).expect("in the way");
    assert_eq!(network.add_at("b2:2", "b").map_err(|(code, ..)| code), Err(102), "it is in use");
    assert_eq!(network.leases(), "2.2=a/eth0");
}

#[test]
fn leases_of_another_machine_are_never_taken() {
    let mut network = Network::new(&[&["10.1.2.0/30"]]);
    network.add_at("b1:1", "a").expect("free");
    network.machine = MachineIdentity { id: Some("other".to_owned()), boot: Some("b2".to_owned()) };
    assert_eq!(network.add_at("b2:1", "b").map_err(|(code, ..)| code), Err(102));
}

#[test]
fn a_failure_removes_what_was_made_and_nothing_else() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/30"]]);
    network.add_at("ns1", "c1").expect("free");
    let before = network.leases();
    assert_eq!(network.add_at("ns1", "c2").map_err(|(code, ..)| code), Err(102), "the second set is full");
    assert_eq!(network.leases(), before);
    let text = "failed to allocate for range 1: 10.1.3.2 has been allocated to c1, duplicate allocation is not allowed";
    let again = network.add_by(&mut at_netns("ns1"), &attachment("c1", "eth0"), &["10.1.2.5"]);
    assert_eq!(again, held(text), "the first set gave 10.1.2.5");
    assert_eq!(network.leases(), before, "the leases of the first ADD stay");
}

/// Otherwise the caller would release the address in use.
#[test]
fn the_code_tells_that_the_container_uses_an_address_of_another_set() {
    let network = Network::new(&[&["10.1.2.0/30"], &["10.1.3.0/29"]]);
    network.write("10.1.2.2", "other\r\neth0");
    network.write("10.1.3.4", "c1\r\neth0");
    let code = |host: &mut FakeHost| {
        let at = attachment("c1", "eth0");
        network.add_by(host, &at, &[]).map_err(|(code, text, _)| (code, text.contains("no IP addresses available")))
    };
    assert_eq!(code(&mut at_netns_with("ns1", "10.1.3.4/29")), Err((105, true)));
    assert_eq!(code(&mut at_netns("ns1")), Err((102, true)), "the container no longer has it");
}

#[test]
fn a_lease_that_was_given_again_stays_when_the_rest_fails() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/30"]]);
    network.write("10.1.3.2", "other\r\neth0");
    network.write("10.1.2.4", "c1\r\neth0");
    for _ in 0..2 {
        assert_eq!(
            network.add_at("ns2", "c1").map_err(|(code, ..)| code),
            Err(102),
            "its home is not settled by a failure"
        );
        assert_eq!(network.leases(), "2.4=c1/eth0 3.2=other/eth0");
    }
}

#[test]
fn a_cursor_that_cannot_be_written_leaves_no_lease() {
    let network = Network::new(&[&["10.1.2.0/29"], &["10.1.3.0/29"]]);
    fs::create_dir(network.path().join("last_reserved_ip.1")).expect("mkdir");
    let (code, text, _) = network.add("c1").expect_err("refused");
    assert_eq!((code, text), (5, format!("open {}/last_reserved_ip.1", network.path().display())));
    assert_eq!(network.leases(), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The model is a row of addresses and a cursor.
    #[test]
    fn adds_and_dels_follow_the_model(acts in prop::collection::vec((any::<bool>(), 0..12_u8), 1..60)) {
        let network = Network::new(&[&["10.1.2.0/29", "10.1.3.0/29"]]);
        let row = ["2.2", "2.3", "2.4", "2.5", "2.6", "3.2", "3.3", "3.4", "3.5", "3.6"];
        let mut holders: [Option<u8>; 10] = [None; 10];
        let mut next = 0;
        for (add, container) in acts {
            let name = format!("c{container}");
            if !add {
                network.del(&name);
                holders.iter_mut().filter(|holder| **holder == Some(container)).for_each(|holder| *holder = None);
                continue;
            }
            let free = (next..next + 10).map(|place| place % 10).find(|place| holders[*place].is_none());
            match free {
                _ if holders.contains(&Some(container)) => {
                    let (code, text, _) = network.add(&name).expect_err("refused");
                    prop_assert!(code == 105 && text.ends_with("duplicate allocation is not allowed"), "{}", text);
                }
                None => {
                    let (code, text, _) = network.add(&name).expect_err("refused");
                    prop_assert!(code == 102 && text.contains("no IP addresses available"), "{}", text);
                }
                Some(place) => {
                    prop_assert_eq!(network.add(&name), given(row[place]));
                    holders[place] = Some(container);
                    next = place + 1;
                }
            }
        }
    }
}
