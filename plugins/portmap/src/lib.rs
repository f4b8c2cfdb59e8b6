//! The portmap plugin: host ports forwarded to a container.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. `config.rs` judges the configuration and `plan.rs` decides; what is done is in
//! their plans. DEL needs nothing but the names of the network and the container: what else it is told
//! only makes it faster.

use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::firewall::{FilterError, Rule, Table, missing};
use cni_core::host::Host;
use cni_core::journal::Journal;
use cni_core::names::{Attachment, ChainName, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::run::Plugin;

use crate::config::{Config, Keys};

mod config;
mod plan;

/// The plugin.
pub struct Portmap;

/// What the plugin cannot do, or finds.
#[derive(Debug, thiserror::Error)]
enum PortmapError {
    #[error("must be called as chained plugin")]
    NotChained,
    #[error("Required prevResult missing")]
    NoPrevResult,
    #[error("could not check {} dnat: rule [{}] in chain {} not found in table nat", family.word(), words(rule), rule.chain)]
    Missing { family: Family, rule: Rule },
}

impl Failure for PortmapError {
    fn code(&self) -> Code {
        match self {
            Self::NotChained | Self::NoPrevResult => Code::InvalidConfig,
            Self::Missing { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotChained | Self::NoPrevResult => {
                "chain portmap behind the plugin that assigns addresses".to_owned()
            }
            Self::Missing { family, rule } => {
                format!("this fails: {} -t nat -C {}", family.iptables(), rule.specification())
            }
        }
    }
}

/// The words of a rule, without its chain.
fn words(rule: &Rule) -> String {
    let specification = rule.specification();
    specification.split_once(' ').map(|(_, words)| words.to_owned()).unwrap_or_default()
}

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = load(request)?;
        let prev_result = request.prev_result()?.ok_or(PortmapError::NotChained)?;
        let at = request.attachment()?;
        let targets = plan::targets(&prev_result, &at.ifname);
        let link = match plan::localnet_target(&config, &targets) {
            Some(target) => observe_link(journal.host(), target)?,
            None => None,
        };
        journal.apply(&plan::add(&config, &at, &targets, link.as_ref()))?;
        Ok(prev_result)
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let config = logged("its configuration", load(request));
        let prev_result = logged("prevResult", request.prev_result().map_err(Error::from)).flatten();
        let targets = prev_result.map(|result| plan::targets(&result, &at.ifname)).unwrap_or_default();
        let mut failed: Option<Error> = None;
        for family in Family::ALL {
            let tool = match &targets[..] {
                [] => Tool::Optional,
                targets if targets.iter().any(|target| target.family() == family) => Tool::Required,
                _ => continue,
            };
            let expected = config.as_ref().map(|config| plan::entries(config, &at, family)).unwrap_or_default();
            if let Err(error) = remove(host, family, &at, expected, tool) {
                failed = Some(match failed {
                    None => error,
                    Some(first) => first.with_note(format!("and: {error}: {}", error.details())),
                });
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = load(request)?;
        let prev_result = request.prev_result()?.ok_or(PortmapError::NoPrevResult)?;
        let at = request.attachment()?;
        for want in plan::wanted(&config, &at, &plan::targets(&prev_result, &at.ifname)) {
            if let Some(rule) = missing(host.tables(), &want)? {
                return Err(PortmapError::Missing { family: want.family, rule: rule.clone() }.into());
            }
        }
        Ok(())
    }
}

fn load(request: &Request) -> Result<Config, Error> {
    Ok(Config::try_from(request.decode::<Keys>()?)?)
}

/// What DEL can do without is logged when it is of no use.
fn logged<T>(what: &str, found: Result<T, Error>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            log::warn!("DEL goes on without {what}: {error}: {}", error.details());
            None
        }
    }
}

fn observe_link(host: &mut dyn Host, target: IpAddr) -> Result<Option<IfName>, Error> {
    match host.route_link(target)? {
        Some(link) => Ok(Some(IfName::parse(&link.name)?)),
        None => {
            log::warn!("there is no route to {target}: its ports are not reached from the host's loopback");
            Ok(None)
        }
    }
}

/// Whether the container is known to have had rules of a family, so that its program must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Required,
    Optional,
}

/// Removes a container's chains. The rules that lead to them, expected or seen, prove in one batch that
/// nothing is left. Most containers have no chain, so without expectations it is looked for first.
fn remove(
    host: &mut dyn Host,
    family: Family,
    at: &Attachment,
    mut expected: Vec<Rule>,
    tool: Tool,
) -> Result<(), Error> {
    if expected.is_empty() || tool == Tool::Optional {
        match host.tables().list(family, Table::Nat, &at.dnat_chain()) {
            Ok(None) if expected.is_empty() => return Ok(()),
            Ok(_) => {}
            Err(error @ FilterError::NoProgram { .. }) if tool == Tool::Optional => {
                log::warn!("DEL goes on without {family}: {error}: {}", error.details());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if expected.is_empty() {
        expected = observe_entries(host, family, at)?;
    }
    host.apply(&plan::del(family, at, expected)).map(|_| ())
}

fn observe_entries(host: &mut dyn Host, family: Family, at: &Attachment) -> Result<Vec<Rule>, FilterError> {
    let rules = host.tables().list(family, Table::Nat, &ChainName::fixed(plan::DNAT))?.unwrap_or_default();
    Ok(rules.into_iter().filter(|rule| rule.jumps_to(&at.dnat_chain())).collect())
}

#[cfg(test)]
mod tests;
