//! The input of a call: the configuration, whose keys do not change what the plugin does, and the argument.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::host::Host;
use serde::Deserialize;

use crate::argument::{self, CONFIG, Redirection};

/// What helps where there is no address.
pub const BEHIND: &str = "chain consul-cni behind the plugin that assigns addresses";

/// In `CNI_ARGS`, what a Kubernetes runtime sends.
const POD: &str = "K8S_POD_NAME";
const POD_NAMESPACE: &str = "K8S_POD_NAMESPACE";
const POD_INFRA_CONTAINER: &str = "K8S_POD_INFRA_CONTAINER_ID";

/// The keys of the reference, whose types are checked as it does. This plugin needs none: the first is about its log,
/// the others are about Kubernetes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    #[serde(rename = "log_level")]
    _log_level: String,
    #[serde(rename = "cni_bin_dir")]
    _cni_bin_dir: String,
    #[serde(rename = "cni_net_dir")]
    _cni_net_dir: String,
    #[serde(rename = "kubeconfig")]
    _kubeconfig: String,
    #[serde(rename = "multus")]
    _multus: bool,
}

/// Checks the types of the configuration's keys.
pub fn verify_keys(request: &Request) -> Result<(), Error> {
    let Keys { .. } = request.decode()?;
    Ok(())
}

/// Parses and checks the redirection.
pub fn redirection(request: &Request, host: &mut dyn Host) -> Result<Redirection, Error> {
    verify_keys(request)?;
    let args = request.args_with(&[CONFIG, POD, POD_NAMESPACE, POD_INFRA_CONTAINER])?;
    match (args.own(CONFIG), args.own(POD_NAMESPACE), args.own(POD)) {
        (Some(text), _, _) => argument::parse(text, host),
        (None, Some(namespace), Some(pod)) => {
            let details = "use HashiCorp's consul-cni of consul-k8s there, or let its init container set the redirection up \
                           (connectInject.cni.enabled=false)";
            let text = format!("pod {namespace}/{pod}: Kubernetes annotations are not supported");
            Err(fail!(UnsupportedField, "{text}", details: "{details}"))
        }
        (None, _, _) => {
            let details = "CONSUL_IPTABLES_CONFIG in CNI_ARGS says what is redirected; Nomad (1.8 and later) sends it for \
                           groups with a transparent_proxy block";
            let text = "not running in a pod, namespace and pod should have values";
            Err(fail!(InvalidEnvironment, "{text}", details: "{details}"))
        }
    }
}
