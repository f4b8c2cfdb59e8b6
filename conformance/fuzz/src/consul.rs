//! The argument that Nomad sends to consul-cni: the JSON in `CNI_ARGS`.
//!
//! Besides the properties in `life`, every rule is printed and read back unchanged.

use cni_netfilter::iptables::IptablesRule;

use crate::input::Documents;
use crate::life::{FuzzContainer, host};

const CONFIG: &str = r#"{"cniVersion":"0.4.0","name":"nomad","type":"consul-cni","log_level":"debug","prevResult":
    {"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"version":"4","address":"172.26.64.5/20","gateway":"172.26.64.1","interface":0}]}}"#;

pub fn run(input: &[u8]) -> Option<()> {
    let args = format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={}", Documents::new(input).text());
    let plugin = &cni_consul_cni::ConsulCni;
    let mut host = host(plugin);
    let added = FuzzContainer { plugin, config: CONFIG.to_owned(), args }.live(&mut host)?;
    for line in host.applied.iter().flat_map(|step| step.lines()).map(str::trim).filter(|line| line.starts_with("-A")) {
        let rule = IptablesRule::parse(line).expect("a rule");
        assert_eq!((rule.to_string(), rule.canonical()), (line.to_owned(), rule));
    }
    added.ok().map(drop)
}
