//! Configurations of every plugin but host-local: the configuration, `CNI_ARGS`, the IPAM plugin's answer, and rules
//! of other programs in the host's tables, each `nat` or `filter` and a line of iptables; a line `firewalld` means
//! that firewalld runs.
//!
//! Besides the properties in `life`, the case of letters in keys does not matter.

use cni_core::family::Family;
use cni_core::json::Json;
use cni_netfilter::iptables::IptablesTable;
use cni_testkit::FakeHost;

use crate::input::Documents;
use crate::life::{FuzzContainer, TwoContainers, is_chained, machine};
use crate::plugins::plugin_of;
use crate::spelling::{with_other_case, with_other_case_outside};

/// What the IPAM plugin answers unless the input says otherwise.
const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"0.0.0.0/0"}]}"#;

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (config, args, answer, rules) = (documents.text(), documents.text(), documents.text(), documents.text());
    let json = Json::parse(config.as_bytes()).ok()?;
    let plugin = plugin_of(&json)?;
    let answer = if answer.is_empty() { ANSWER.into() } else { answer };
    let build = || {
        let mut host = machine(is_chained(plugin)).with_ipam(&answer);
        load(&rules, &mut host);
        host.firewalld.running = rules.lines().any(|line| line == "firewalld");
        host
    };
    let life = TwoContainers {
        plugin,
        config: config.into_owned(),
        args: args.into_owned(),
        answer: answer.clone().into_owned(),
    };
    life.live(&mut build());
    // flannel keeps the keys of its delegate as they are.
    let other = if plugin.kind() == "flannel" { with_other_case_outside(&json) } else { with_other_case(&json) };
    let respelled = TwoContainers { config: other, args: life.args.clone(), answer: life.answer.clone(), ..life };
    let done = outcome(&life, build());
    assert_eq!(done, outcome(&respelled, build()), "keys in other letters");
    done?.0.ok().map(drop)
}

/// What ADD comes to.
fn outcome(life: &TwoContainers, mut host: FakeHost) -> Option<(Result<String, u32>, Vec<String>)> {
    let added = life.add(FuzzContainer::Own, &mut host)?;
    Some((added.map(|result| format!("{result:?}")).map_err(|error| error.code().number()), host.state()))
}

/// Rules of others; those that do not fit a table are left out.
fn load(rules: &str, host: &mut FakeHost) {
    for line in rules.lines() {
        for (name, table) in [("nat ", IptablesTable::Nat), ("filter ", IptablesTable::Filter)] {
            if let Some(rule) = line.strip_prefix(name) {
                drop(host.netfilter.iptables.load(Family::V4, table, rule));
            }
        }
    }
}
