//! Configurations of every plugin but host-local: the configuration, `CNI_ARGS`, and the IPAM plugin's answer.
//!
//! Besides the properties in `life`, the case of letters in keys does not matter.

use cni_core::json::Json;

use crate::host::FuzzHost;
use crate::input::Documents;
use crate::life::{FuzzContainer, host};
use crate::plugins::plugin_of;
use crate::spelling::{with_other_case, with_other_case_outside};

/// What the IPAM plugin answers unless the input says otherwise.
const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"0.0.0.0/0"}]}"#;

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (config, args, answer, others) = (documents.text(), documents.text(), documents.text(), documents.text());
    let json = Json::parse(config.as_bytes()).ok()?;
    let plugin = plugin_of(&json)?;
    let answer = if answer.is_empty() { ANSWER.into() } else { answer };
    // flannel keeps the keys of its delegate as they are.
    let other = if plugin.kind() == "flannel" { with_other_case_outside(&json) } else { with_other_case(&json) };
    let [done, respelled] = [json.to_string(), other].map(|config| {
        let life = FuzzContainer { plugin, config, args: args.clone().into_owned() };
        let (answer, is_firewalld_running) = (answer.clone().into_owned(), others == "firewalld");
        let mut host = FuzzHost { answer, is_firewalld_running, ..host(plugin) };
        (life.live(&mut host), host.applied)
    });
    assert_eq!(done, respelled, "keys in other letters");
    done.0?.ok().map(drop)
}
