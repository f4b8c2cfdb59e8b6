//! Makes random histories. The same seed gives the same history, in every run.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::strategy::{Union, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::history::{History, HistoryStep, NetworkMember, Rules};
use cni_conformance::drawn::{Chained, Setup, setups};
use cni_conformance::plugin::Verb;
use cni_conformance::ports::{self, Spelling};
use cni_conformance::reference::Level;
use cni_conformance::sandbox::Flavour;

/// Draws the history of this number.
///
/// # Panics
/// Never: everything that can be drawn is a history.
pub fn history(seed: u64, number: u64, level: Level) -> History {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    histories(level).new_tree(&mut runner).expect("a history can be drawn").current()
}

fn histories(level: Level) -> impl Strategy<Value = History> {
    let networks = vec(network(level), 1..=2);
    let flavour = prop_oneof![3 => Just(Flavour::Nft), 1 => Just(Flavour::Legacy)];
    let together = prop_oneof![2 => Just(false), 1 => Just(true)];
    (flavour, networks, 1..=4_usize, together).prop_flat_map(move |(iptables, networks, count, together)| {
        let mut containers: BTreeMap<String, NetworkMember> = (0..count).map(|at| member(at, &networks)).collect();
        if together && networks.len() == 2 {
            join(&mut containers);
        }
        let lists = networks.iter().enumerate().map(|(at, network)| (format!("n{at}"), apart(&network.list, at)));
        let lists: BTreeMap<String, Value> = lists.collect();
        steps(level, &containers, lists.len()).prop_map(move |steps| {
            History { iptables, networks: lists.clone(), containers: containers.clone(), steps }.without_the_unused()
        })
    })
}

/// A network, and what its containers ask for.
#[derive(Debug, Clone)]
struct DrawnNetwork {
    setup: Setup,
    list: Value,
    requested: Option<u8>,
}

fn network(level: Level) -> impl Strategy<Value = DrawnNetwork> {
    let chains: [&[Chained]; 4] =
        [&[], &[Chained::Firewall], &[Chained::Portmap], &[Chained::Firewall, Chained::Portmap]];
    let setup = Union::new(chains.map(|chain| setups(Flavour::Nft, chain).boxed()));
    let tuning = option::weighted(0.25, select(TUNING.map(|keys| keys()).to_vec()));
    (setup, any::<u8>(), tuning, option::weighted(0.2, 2..5_u8)).prop_map(move |(setup, more, tuning, requested)| {
        let mut list = setup.list();
        let plugins = list["plugins"].as_array_mut().expect("a list has plugins");
        if more % 4 == 0 && !setup.subnets.is_empty() {
            plugins[0]["type"] = json!("ptp");
        }
        if more % 8 < 2 {
            plugins.insert(0, json!({"type": "loopback"}));
        }
        plugins.extend(tuning);
        known(level, &mut list);
        DrawnNetwork { setup, list, requested }
    })
}

/// Configurations of tuning.
const TUNING: [fn() -> Value; 3] = [
    || json!({"type": "tuning", "mtu": 1300}),
    || json!({"type": "tuning", "promisc": true}),
    || json!({"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}),
];

/// The keys that v1.1.1 does not know.
const NEWER: [&str; 4] = ["portIsolation", "macspoofchk", "ipMasqBackend", "masqAll"];

/// Takes away what an old set does not know.
fn known(level: Level, list: &mut Value) {
    if level > Level::Old {
        return;
    }
    if list["cniVersion"] == "1.1.0" {
        list["cniVersion"] = json!("1.0.0");
    }
    for plugin in list["plugins"].as_array_mut().expect("a list has plugins") {
        let keys = plugin.as_object_mut().expect("a plugin's configuration is an object");
        keys.retain(|key, _| !NEWER.contains(&key.as_str()));
        if keys.get("ingressPolicy").is_some_and(|policy| policy == "isolated") {
            keys.insert("ingressPolicy".to_owned(), json!("same-bridge"));
        }
    }
}

/// Gives the second network addresses, a bridge and a name of its own.
fn apart(list: &Value, at: usize) -> Value {
    if at == 0 {
        return list.clone();
    }
    let text =
        list.to_string().replace("\"10.1.", "\"10.2.").replace("\"fd00:", "\"fd01:").replace("\"br0\"", "\"br1\"");
    let mut list: Value = serde_json::from_str(&text).expect("it was JSON before");
    list["name"] = json!(format!("{}-{at}", list["name"].as_str().unwrap_or_default()));
    list
}

/// Containers take turns in the networks, and each has host ports of its own.
fn member(at: usize, networks: &[DrawnNetwork]) -> (String, NetworkMember) {
    let of = at % networks.len();
    let DrawnNetwork { setup, requested, .. } = &networks[of];
    let mappings = setup.portmap.iter().flat_map(|(_, mappings)| mappings.clone());
    let further = u16::try_from(at).unwrap_or_default() * 3000;
    let mappings: Vec<_> = mappings
        .map(|mut mapping| {
            mapping.host_port += further;
            mapping
        })
        .collect();
    let subnet = setup.subnets.first().map(|(subnet, _)| subnet.replace("10.1.", &format!("10.{}.", of + 1)));
    let asked = requested.zip(subnet.filter(|subnet| subnet.starts_with("10.")));
    let args = asked.map(|(host, subnet)| {
        let network = subnet.rsplit_once('.').map(|(network, _)| network.to_owned()).unwrap_or_default();
        format!("IgnoreUnknown=1;IP={network}.{}", usize::from(host) + at)
    });
    let member = NetworkMember {
        network: format!("n{of}"),
        id: if at == 0 { setup.id.clone() } else { format!("{at}-{}", setup.id) },
        ifname: setup.ifname.to_owned(),
        args: args.unwrap_or_default(),
        ports: ports::render(&mappings, Spelling::Spec),
        beside: None,
    };
    (format!("c{at}"), member)
}

/// Makes the second container the second interface of the first, in the other network.
fn join(containers: &mut BTreeMap<String, NetworkMember>) {
    let Some(id) = containers.get("c0").map(|first| first.id.clone()) else { return };
    if let Some(second) = containers.get_mut("c1") {
        second.id = id;
        "second".clone_into(&mut second.ifname);
        second.beside = Some("c0".to_owned());
    }
}

/// Random steps: mostly calls, and sometimes a loss.
fn steps(
    level: Level,
    containers: &BTreeMap<String, NetworkMember>,
    networks: usize,
) -> impl Strategy<Value = Vec<HistoryStep>> + use<> {
    let names: Vec<String> = containers.keys().cloned().collect();
    let name = || select(names.clone());
    let call = |verb: Verb| name().prop_map(move |name| HistoryStep::Call(verb, name)).boxed();
    let mut weighted = vec![
        (7, call(Verb::Add)),
        (3, call(Verb::Check)),
        (5, call(Verb::Del)),
        (1, name().prop_map(HistoryStep::LoseNamespace).boxed()),
        (1, name().prop_map(HistoryStep::ForgetResult).boxed()),
        (1, select(Rules::ALL.to_vec()).prop_map(HistoryStep::Flush).boxed()),
    ];
    if level > Level::Old {
        weighted.push((1, (0..networks).prop_map(|at| HistoryStep::Collect(format!("n{at}"))).boxed()));
    }
    vec(Union::new_weighted(weighted), 3..=12)
}

#[cfg(test)]
mod tests {
    use super::history;
    use cni_conformance::reference::Level;

    #[test]
    fn the_same_numbers_draw_the_same_history() {
        for number in 0..50 {
            assert_eq!(history(7, number, Level::New), history(7, number, Level::New));
        }
        assert_ne!(history(7, 0, Level::New), history(8, 0, Level::New));
        assert_ne!(history(7, 0, Level::New), history(7, 1, Level::New));
    }

    #[test]
    fn an_old_set_gets_no_keys_that_it_does_not_know() {
        for number in 0..200 {
            let text = history(1, number, Level::Old).to_line();
            for word in ["\"1.1.0\"", "portIsolation", "ipMasqBackend", "macspoofchk", "isolated", "masqAll", "GC "] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }
}
