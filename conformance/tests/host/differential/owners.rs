//! Two containers with one address, one after the other or at the same time in two networks, while the plugins are
//! exchanged: every order of their calls, each call by either side, with all back ends that both have.
//!
//! The rules for an address do not name the owner. Our plugins record it; the reference neither writes nor removes the
//! record, so the record is not believed after its owner has ended.

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{Attachment, Flavour, Runtime, Sandbox, Verb, binaries};
use serde_json::{Value, json};

use crate::differential::reference;

const ADDRESS: &str = "10.88.0.5";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerStep {
    Add(usize),
    Del(usize),
}

use OwnerStep::{Add, Del};

const ORDERS: [[OwnerStep; 4]; 3] = [
    [Add(0), Del(0), Add(1), Del(1)],
    [Add(0), Add(1), Del(0), Del(1)],
    // The first one keeps running.
    [Add(0), Add(1), Del(1), Del(0)],
];

/// Who keeps the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Iptables(Flavour),
    Firewalld,
}

impl Engine {
    fn machine(self) -> FirewalldHost {
        match self {
            Self::Iptables(flavour) => FirewalldHost::on(Sandbox::with_flavour(flavour)),
            Self::Firewalld => FirewalldHost::with_firewalld(),
        }
    }

    fn backend(self) -> &'static str {
        match self {
            Self::Iptables(_) => "iptables",
            Self::Firewalld => "firewalld",
        }
    }

    /// How many rules, or sources of a zone, an address has.
    fn rules_of_an_address(self) -> usize {
        match self {
            Self::Iptables(_) => 2,
            Self::Firewalld => 1,
        }
    }
}

/// Both containers, each in a network of its own, and the filter.
struct TwoOwners {
    engine: Engine,
    machine: FirewalldHost,
    reference: std::path::PathBuf,
    attachments: [Attachment; 2],
}

impl TwoOwners {
    fn new(engine: Engine, reference: &std::path::Path) -> Self {
        let machine = engine.machine();
        let attachments = ["first", "second"].map(|name| {
            let container = machine.sandbox().container(name);
            let mut attachment = Attachment::new(name, &container);
            attachment.result = Some(result(&attachment.netns));
            attachment
        });
        Self { engine, machine, reference: reference.to_owned(), attachments }
    }

    /// Calls the firewall plugin of one side, when the interface is there, as in a whole chain.
    fn call(&self, step: OwnerStep, by_reference: bool) {
        let (verb, at) = match step {
            Add(at) => (Verb::Add, at),
            Del(at) => (Verb::Del, at),
        };
        let attachment = &self.attachments[at];
        if verb == Verb::Add {
            self.machine.sandbox().sh(&format!("ip -n {} address add {ADDRESS}/32 dev lo", attachment.container_id));
        }
        let folder = if by_reference { self.reference.clone() } else { binaries::under_test() };
        let (bus, address) = self.machine.bus_variable();
        let list = list(self.engine, at);
        let runtime = Runtime::new(self.machine.sandbox(), list).binaries(&folder).env(bus, address);
        let result = attachment.result.as_ref();
        runtime.invocation(verb, "firewall", attachment, result).run().expect_success();
        if verb == Verb::Add {
            runtime.invocation(Verb::Check, "firewall", attachment, result).run().expect_success();
        } else {
            self.machine.sandbox().sh(&format!("ip -n {} address del {ADDRESS}/32 dev lo", attachment.container_id));
        }
    }

    fn rules(&self) -> usize {
        if self.engine == Engine::Firewalld {
            return self.machine.sources("trusted").iter().filter(|source| source.starts_with(ADDRESS)).count();
        }
        let rules = self.machine.sandbox().sh("iptables -t filter -S CNI-FORWARD");
        rules.lines().filter(|line| line.contains(ADDRESS)).count()
    }

    fn claims(&self) -> String {
        self.machine.sandbox().sh("find /run -type f -path */claims/*")
    }
}

fn list(engine: Engine, at: usize) -> Value {
    let firewall = json!({"type": "firewall", "backend": engine.backend()});
    json!({"cniVersion": "1.0.0", "name": format!("net{at}"), "plugins": [firewall]})
}

fn result(netns: &str) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "lo", "sandbox": netns}],
        "ips": [{"interface": 0, "address": format!("{ADDRESS}/32")}],
    })
}

fn every_order(engine: Engine) {
    let Some(reference) = reference::find("two containers with one address") else { return };
    let owners = TwoOwners::new(engine, &reference.folder);
    let all = engine.rules_of_an_address();
    for order in ORDERS {
        for sides in 0..16_usize {
            for (number, step) in order.into_iter().enumerate() {
                let by_reference = sides >> number & 1 == 1;
                owners.call(step, by_reference);
                let whole =
                    format!("{order:?}, by the reference: {sides:04b} from the last to the first; after {step:?}");
                match (number, step) {
                    (_, Add(_)) => assert_eq!(owners.rules(), all, "{whole}"),
                    (3, Del(_)) if by_reference => assert_eq!(owners.rules(), 0, "{whole}"),
                    (3, Del(_)) => assert_eq!((owners.rules(), owners.claims().as_str()), (0, ""), "{whole}"),
                    // Ours knows of the other one if it has made both; it is cut off otherwise, as always by the reference.
                    (_, Del(_)) if order[0] == Add(0) && order[1] == Del(0) => assert_eq!(owners.rules(), 0, "{whole}"),
                    (_, Del(_)) if sides & 0b111 == 0 => assert_eq!(owners.rules(), all, "{whole}"),
                    (_, Del(_)) => {}
                }
            }
        }
    }
}

#[test]
fn one_address_has_its_rules_whichever_plugins_made_them_on_nft_iptables() {
    every_order(Engine::Iptables(Flavour::Nft));
}

#[test]
fn one_address_has_its_rules_whichever_plugins_made_them_on_legacy_iptables() {
    every_order(Engine::Iptables(Flavour::Legacy));
}

#[test]
fn one_address_is_a_source_of_firewalld_whichever_plugins_made_it() {
    every_order(Engine::Firewalld);
}
