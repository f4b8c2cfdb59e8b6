//! The reference's plugins and ours make the same link, and either side checks and deletes what the other has made.

use std::path::{Path, PathBuf};

use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Feature, Runtime, binaries};
use serde_json::{Value, json};

use super::{KINDS, MasterHost, contents, has_eth0, plugin};

/// The folder of the reference's plugins; none where nobody has installed them.
fn reference() -> Option<PathBuf> {
    let installed = || Path::new("/usr/lib/cni/macvlan").is_file().then(|| PathBuf::from("/usr/lib/cni"));
    binaries::reference().or_else(installed)
}

/// Keys that show on the link, for each kind.
fn keys(kind: Feature) -> Vec<Value> {
    match kind {
        Feature::MacvlanLinks => vec![json!({}), json!({"mode": "private", "mtu": 1400})],
        Feature::VlanLinks => vec![json!({}), json!({"vlanId": 7, "mtu": 1400})],
        Feature::IpvlanLinks => vec![json!({}), json!({"mode": "l3", "mtu": 1400}), json!({"mode": "l3s"})],
        Feature::BridgeVlans | Feature::DummyLinks | Feature::Hardware | Feature::VrfLinks => {
            panic!("{kind:?} is no kind of link on a master")
        }
    }
}

/// A machine, its list in a version that the reference knows, and both folders of plugins, the one that adds first.
struct Sides {
    machine: MasterHost,
    list: Value,
    adds: PathBuf,
    deletes: PathBuf,
}

impl Sides {
    fn runtime(&self, folder: &Path) -> Runtime<'_> {
        self.machine.runtime(&self.list).binaries(folder)
    }

    /// What one side makes of the container, and prints; then the other one checks and deletes it.
    fn live(&self) -> (String, Value) {
        let container = self.machine.sandbox.container("c1");
        let mut attachment = Attachment::new("c1", &container);
        self.runtime(&self.adds).add(&mut attachment).expect_success();
        let made = (normal(&contents(&container)), attachment.result.clone().expect("a result"));
        for folder in [&self.adds, &self.deletes] {
            self.runtime(folder).check(&attachment).expect_success();
        }
        self.runtime(&self.deletes).del(&attachment).expect_success();
        assert!(!has_eth0(&container), "{} did not delete the link", self.deletes.display());
        assert_eq!(self.machine.leases(), [""; 0]);
        made
    }
}

/// Without indices, random addresses and those derived from them, and without the length of the queue, which
/// v1.1.1 sets to 0 and later releases leave to the kernel.
fn normal(text: &str) -> String {
    let text = text.replace(" qlen 1000", "").replace('\\', " ");
    let words = text.split_whitespace().map(|word| {
        let is_mac = word.len() == 17 && word.split(':').count() == 6;
        let is_index = word.ends_with(':') && word.trim_end_matches(':').parse::<u32>().is_ok();
        let is_random = is_mac || is_index || word.contains("@if") || word.starts_with("fe80:");
        if is_random { "RANDOM" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A result without random values. v1.1.1 prints 1.0.0 with an empty `dns`.
fn reported(mut result: Value) -> Value {
    result["interfaces"][0]["mac"] = json!("RANDOM");
    if result["dns"] == json!({}) {
        result.as_object_mut().expect("an object").remove("dns");
    }
    result
}

#[test]
fn either_side_makes_the_same_and_takes_over_from_the_other() {
    on_kernels_with(KINDS, |kind| {
        let Some(reference) = reference() else {
            eprintln!("NOT COMPARED: {}: there are no reference plugins", plugin(kind));
            return;
        };
        for keys in keys(kind) {
            let sides = |adds: &Path, deletes: &Path| {
                let machine = MasterHost::new(kind);
                let mut list = machine.network(&keys);
                list["cniVersion"] = json!("1.0.0");
                // CHECK of v1.1.1 does not know that another route without a router was given the gateway.
                list["plugins"][0]["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}]);
                Sides { machine, list, adds: adds.to_owned(), deletes: deletes.to_owned() }
            };
            let (theirs, said) = sides(&reference, &binaries::under_test()).live();
            let (ours, printed) = sides(&binaries::under_test(), &reference).live();
            assert_eq!(ours, theirs, "{keys}");
            assert_eq!(reported(printed), reported(said), "{keys}");
        }
    });
}
