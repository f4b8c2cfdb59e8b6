//! The consul-cni plugin: redirects the TCP connections and the DNS questions of a container through the Consul proxy
//! that runs in it. It is the last plugin of a list, and returns the result of the plugins before it.
//!
//! Nomad says in `CNI_ARGS` what is redirected (`argument.rs`); `rules.rs` has the iptables rules in the container's namespace. The keys of
//! the configuration do not change what the plugin does.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::alias::LinkOwner;
use cni_interface::veth;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::{Backend, Ruleset};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;
use serde::Deserialize;

use crate::argument::{CONFIG, FAMILY, Redirection};
use crate::rules::{TABLE, remove, ruleset};

mod argument;
mod rules;

/// The plugin.
pub struct ConsulCni;

impl Plugin for ConsulCni {
    fn kind(&self) -> &'static str {
        "consul-cni"
    }

    /// The release of consul-k8s with the same features, as far as Nomad uses them; Nomad needs at least 1.4.2.
    fn reference_level(&self) -> &'static str {
        "2.0.3"
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    /// Redirects what the container sends and gets: makes the rules, and replaces earlier ones.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let prev_result = request.prev_result()?;
        let redirection = redirection(request, journal.host())?;
        if prev_result.as_ref().is_some_and(|result| result.ips.is_empty()) {
            return Err(fail!(InvalidConfig, "got no container IPs", details: "{BEHIND}"));
        }
        journal.host().enter(request.netns().unwrap_or_default())?;
        let ruleset = ruleset(&redirection).into();
        journal.apply(&Plan::of_owned([Step::EnsureRules { ns: Ns::Container, ruleset }]))?;
        Ok(prev_result.unwrap_or_default())
    }

    /// Removes the chains from a namespace that still exists. It needs neither `prevResult` nor the argument, which Nomad
    /// does not send on DEL. What remains is logged, and deleted with the namespace.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        if !host.enter_if_exists(request.netns().unwrap_or_default())? {
            return Ok(());
        }
        match is_anothers(request, host) {
            Ok(true) => {}
            Ok(false) => {
                if let Err(error) = remove(host) {
                    log::warn!("chains stay in the container's namespace: {}", error.in_full());
                }
            }
            Err(error) => log::warn!("the redirection stays, since its owner is not known: {}", error.in_full()),
        }
        Ok(())
    }

    /// Verifies that every rule exists and is in its place.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let no_result = || fail!(InvalidConfig, "Required prevResult missing", details: "{BEHIND}");
        request.prev_result()?.ok_or_else(no_result)?;
        let wanted = Ruleset::from(ruleset(&redirection(request, host)?));
        host.enter(request.netns().unwrap_or_default())?;
        match wanted.missing(host.netfilter(Ns::Container)?)? {
            Some(missing) => Err(fail!(
                CheckFailed,
                "the container's redirection to its proxy is incomplete: missing or not in its place: {missing}",
                details: "see iptables -t nat -S in the container's namespace"
            )),
            None => Ok(()),
        }
    }

    /// Checks the configuration, and that the host has a usable iptables: the table of a container is made by ADD.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        verify_keys(request)?;
        Backend::Iptables.verify_available(host.netfilter(Ns::Host)?, FAMILY, TABLE)
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        let wanted = ruleset(&redirection(request, host)?);
        Ok(MissingPart::find(Ns::Container, wanted, host)?.into_iter().collect())
    }
}

/// What helps where there is no address.
const BEHIND: &str = "chain consul-cni behind the plugin that assigns addresses";

/// In `CNI_ARGS`, what a Kubernetes runtime sends.
const POD: &str = "K8S_POD_NAME";
const POD_NAMESPACE: &str = "K8S_POD_NAMESPACE";
const POD_INFRA_CONTAINER: &str = "K8S_POD_INFRA_CONTAINER_ID";

/// Parses and checks the redirection.
fn redirection(request: &Request, host: &mut dyn Host) -> Result<Redirection, Error> {
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

/// The keys of the reference, whose types are checked as it does. This plugin needs none: the first is about its log,
/// the others are about Kubernetes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    log_level: String,
    cni_bin_dir: String,
    cni_net_dir: String,
    kubeconfig: String,
    multus: bool,
}

/// Checks the types of the configuration's keys.
fn verify_keys(request: &Request) -> Result<(), Error> {
    let Keys { .. } = request.decode()?;
    Ok(())
}

/// Whether the path of the namespace leads to another container by now, according to the host's end of its interface.
fn is_anothers(request: &Request, host: &mut dyn Host) -> Result<bool, Error> {
    let at = request.attachment()?;
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(false) };
    let end = veth::host_end(&link, host)?;
    Ok(end.is_some_and(|end| LinkOwner::of(&end, &at) == LinkOwner::Another))
}
