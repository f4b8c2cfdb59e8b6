//! The argument that Nomad sends to consul-cni: the JSON in `CNI_ARGS`.
//!
//! Besides the properties in `life`, every rule is printed and read back unchanged.

use cni_core::family::Family;
use cni_netfilter::iptables::{IptablesRule, IptablesTable};
use cni_plugin::host::Host as _;

use crate::input::Documents;
use crate::life::{FuzzContainer, TwoContainers, machine};

const CONFIG: &str = r#"{"cniVersion":"0.4.0","name":"nomad","type":"consul-cni","log_level":"debug","prevResult":
    {"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"version":"4","address":"172.26.64.5/20","gateway":"172.26.64.1","interface":0}]}}"#;

pub fn run(input: &[u8]) -> Option<()> {
    let argument = Documents::new(input).text();
    let args = format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={argument}");
    let life =
        TwoContainers { plugin: &cni_consul_cni::ConsulCni, config: CONFIG.to_owned(), args, answer: String::new() };
    life.live(&mut machine(true));
    let mut host = machine(true);
    life.add(FuzzContainer::Own, &mut host)?.ok()?;
    host.enter(FuzzContainer::Own.netns()).expect("it is there");
    let rules = host.container_netfilter().iptables.dump(Family::V4, IptablesTable::Nat);
    for line in rules.lines().filter(|line| line.starts_with("-A")) {
        let rule = IptablesRule::parse(line).expect("a rule");
        assert_eq!((rule.to_string(), rule.canonical()), (line.to_owned(), rule));
    }
    Some(())
}
