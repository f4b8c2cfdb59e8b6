//! What is said of a container: for people, and for programs.

use std::path::PathBuf;

use cni_linux::output::one_line;
use serde_json::{Value, json};

use super::about::{About, AboutAttachment};
use crate::doctor::finding::Finding;

/// How wide the names of lines are.
const WIDTH: usize = 12;

/// Text in lines that begin with a name, and then the findings.
pub fn plain_text(about: &About, findings: &[Finding]) -> String {
    let mut text = lines("container", std::slice::from_ref(&about.container));
    for one in &about.attachments {
        text.push('\n');
        text += &of_attachment(one);
    }
    if !about.records.is_empty() {
        text += "\n";
        text += &lines("records", &paths(&about.records));
    }
    text.push('\n');
    text + &findings.iter().map(ToString::to_string).collect::<String>()
}

fn of_attachment(one: &AboutAttachment) -> String {
    let AboutAttachment { network, ifname, state, netns, life, macs, host_interfaces, addresses, .. } = one;
    let namespace = netns.as_ref().map_or_else(|| life.clone(), |path| format!("{path} ({life})"));
    let macs: String = macs.iter().filter(|mac| !mac.is_empty()).map(|mac| format!(", MAC {mac}")).collect();
    let (chains, rules) = match &one.rules {
        Ok(own) => (own.chains.clone(), own.rules.clone()),
        Err(reason) => (Vec::new(), vec![format!("unknown: {reason}")]),
    };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let cache: Vec<PathBuf> = one.cache.iter().cloned().collect();
    [
        lines("network", &[format!("{network}: {state}")]),
        lines("namespace", &[namespace]),
        lines("interface", &[format!("{ifname}{macs}")]),
        lines("on the host", host_interfaces),
        lines("addresses", &addresses),
        lines("host ports", &one.ports),
        lines("plugins", &[one.plugins.join(", ")]),
        lines("chains", &chains),
        lines("rules", &rules),
        lines("cache", &paths(&cache)),
        lines("leases", &paths(&one.leases)),
    ]
    .concat()
}

/// Returns a line for each value, the first one with the name; nothing if there are no values.
fn lines(name: &str, values: &[String]) -> String {
    let names = [name].into_iter().chain(std::iter::repeat(""));
    names.zip(values).map(|(name, value)| format!("{name:WIDTH$} {}\n", one_line(value))).collect()
}

fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// One document.
pub fn json_text(about: &About, findings: &[Finding]) -> String {
    let document = json!({
        "container": about.container,
        "attachments": about.attachments.iter().map(json_of).collect::<Vec<_>>(),
        "records": paths(&about.records),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn json_of(one: &AboutAttachment) -> Value {
    let own = one.rules.as_ref().ok();
    json!({
        "network": one.network,
        "ifname": one.ifname,
        "state": one.state,
        "netns": one.netns,
        "namespace": one.life,
        "macs": one.macs,
        "hostInterfaces": one.host_interfaces,
        "addresses": one.addresses,
        "ports": one.ports,
        "plugins": one.plugins,
        "chains": own.map(|own| &own.chains),
        "rules": own.map(|own| &own.rules),
        "cache": one.cache.as_ref().map(|path| path.display().to_string()),
        "leases": paths(&one.leases),
    })
}

#[cfg(test)]
mod tests {
    use super::super::rules::OwnRules;
    use super::*;

    fn about(rules: Result<OwnRules, String>) -> About {
        let one = AboutAttachment {
            network: "n1".to_owned(),
            ifname: "eth0".to_owned(),
            state: "whole".to_owned(),
            netns: Some("/run/netns/a".to_owned()),
            life: "alive".to_owned(),
            macs: vec!["0a:58:0a:01:02:03".to_owned()],
            host_interfaces: vec!["br0".to_owned(), "veth1".to_owned()],
            addresses: vec![[10, 1, 2, 3].into()],
            ports: Vec::new(),
            plugins: vec!["bridge".to_owned(), "portmap".to_owned()],
            rules,
            cache: Some("/var/lib/cni/results/x\u{1b}".into()),
            leases: Vec::new(),
        };
        About { container: "c1".to_owned(), attachments: vec![one], records: vec!["/run/r".into()] }
    }

    #[test]
    fn every_line_has_a_name_and_what_there_is_none_of_has_no_line() {
        let own = OwnRules { chains: vec!["a chain".to_owned()], rules: vec!["one".to_owned(), "two".to_owned()] };
        let text = plain_text(&about(Ok(own)), &[Finding::fine("container", "nothing is wrong with it")]);
        assert_eq!(
            text,
            "container    c1\n\
             \n\
             network      n1: whole\n\
             namespace    /run/netns/a (alive)\n\
             interface    eth0, MAC 0a:58:0a:01:02:03\n\
             on the host  br0\n\
             \u{20}            veth1\n\
             addresses    10.1.2.3\n\
             plugins      bridge, portmap\n\
             chains       a chain\n\
             rules        one\n\
             \u{20}            two\n\
             cache        /var/lib/cni/results/x\\u001b\n\
             \n\
             records      /run/r\n\
             \n\
             ok       container: nothing is wrong with it\n"
        );
    }

    #[test]
    fn rules_that_are_not_known_are_null_for_programs() {
        let about = about(Err("its namespace has ended".to_owned()));
        assert!(plain_text(&about, &[]).contains("\nrules        unknown: its namespace has ended\n"));
        let document: Value = serde_json::from_str(&json_text(&about, &[])).expect("JSON");
        assert_eq!(document["attachments"][0]["rules"], Value::Null);
        assert_eq!(document["attachments"][0]["addresses"], json!(["10.1.2.3"]));
        assert_eq!(document["findings"], json!([]));
    }
}
