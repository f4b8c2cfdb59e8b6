//! A history: what happens to containers, as text that can be stored and run again.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use cni_conformance::plugin::Verb;
use cni_conformance::sandbox::Flavour;

/// Networks, containers in them, and what happens in which order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Which iptables the host has.
    pub iptables: Flavour,
    /// Network configuration lists.
    pub networks: BTreeMap<String, Value>,
    /// Containers by name, which is also the name of their namespace.
    pub containers: BTreeMap<String, NetworkMember>,
    /// The steps.
    pub steps: Vec<HistoryStep>,
}

/// A container that is to be in one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkMember {
    /// Which one.
    pub network: String,
    /// `CNI_CONTAINERID`
    pub id: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`
    pub args: String,
    /// The value of the capability `portMappings`.
    pub ports: Value,
    /// The container whose namespace it shares, with an interface of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HistoryStep {
    /// The runtime calls all plugins of a container's network.
    Call(Verb, String),
    /// The runtime calls GC of a network, with the containers that it has added and not deleted.
    Collect(String),
    /// A container's namespace ends, with its end of every link.
    LoseNamespace(String),
    /// The runtime forgets what ADD has answered.
    ForgetResult(String),
    /// Another program removes rules.
    Flush(Rules),
}

/// Rules that another program may remove at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Those of one table of iptables.
    Table {
        /// `iptables` or `ip6tables`
        program: &'static str,
        /// `nat` or `filter`
        table: &'static str,
    },
    /// All that nf_tables has.
    Everything,
}

impl Rules {
    /// All that a history may flush.
    pub const ALL: [Self; 5] = [
        Self::Table { program: "iptables", table: "nat" },
        Self::Table { program: "iptables", table: "filter" },
        Self::Table { program: "ip6tables", table: "nat" },
        Self::Table { program: "ip6tables", table: "filter" },
        Self::Everything,
    ];

    /// Returns what an administrator would type.
    pub fn command(self) -> String {
        match self {
            Self::Table { program, table } => format!("{program} -t {table} -F"),
            Self::Everything => "nft flush ruleset".to_owned(),
        }
    }
}

impl HistoryStep {
    /// Returns the container or the network that it is about.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::Call(_, name) | Self::Collect(name) | Self::LoseNamespace(name) | Self::ForgetResult(name) => {
                Some(name)
            }
            Self::Flush(_) => None,
        }
    }
}

/// The beginning of a step's text, before the name of its object.
const LOSE: &str = "lose the namespace of ";
const FORGET: &str = "forget the result of ";
const RUN: &str = "run ";

impl fmt::Display for HistoryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(verb, name) => write!(f, "{verb} {name}"),
            Self::Collect(name) => write!(f, "{} {name}", Verb::Gc),
            Self::LoseNamespace(name) => write!(f, "{LOSE}{name}"),
            Self::ForgetResult(name) => write!(f, "{FORGET}{name}"),
            Self::Flush(rules) => write!(f, "{RUN}{}", rules.command()),
        }
    }
}

impl From<HistoryStep> for String {
    fn from(step: HistoryStep) -> Self {
        step.to_string()
    }
}

impl TryFrom<String> for HistoryStep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for HistoryStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix(LOSE) {
            return Ok(Self::LoseNamespace(name.to_owned()));
        }
        if let Some(name) = text.strip_prefix(FORGET) {
            return Ok(Self::ForgetResult(name.to_owned()));
        }
        if let Some(command) = text.strip_prefix(RUN) {
            let known = Rules::ALL.into_iter().find(|rules| rules.command() == command);
            return known.map(Self::Flush).ok_or_else(|| format!("{command:?} is no flush that a history may have"));
        }
        match text.split_once(' ') {
            Some(("ADD", name)) => Ok(Self::Call(Verb::Add, name.to_owned())),
            Some(("CHECK", name)) => Ok(Self::Call(Verb::Check, name.to_owned())),
            Some(("DEL", name)) => Ok(Self::Call(Verb::Del, name.to_owned())),
            Some(("GC", name)) => Ok(Self::Collect(name.to_owned())),
            _ => Err(format!("{text:?} is no step of a history")),
        }
    }
}

impl History {
    /// Reads one that was written down.
    pub fn parse(text: &str) -> Result<Self, String> {
        let history: Self = serde_json::from_str(text).map_err(|error| format!("this is no history: {error}"))?;
        match history.dangling() {
            Some(name) => Err(format!("the history has nothing of the name {name:?}")),
            None => Ok(history),
        }
    }

    /// Returns the container whose namespace a container uses.
    ///
    /// # Panics If there is no such container.
    pub fn home<'h>(&'h self, name: &'h str) -> &'h str {
        self.containers[name].beside.as_deref().unwrap_or(name)
    }

    /// Returns a name that nothing in the history has.
    fn dangling(&self) -> Option<&str> {
        let networks = self.containers.values().map(|member| member.network.as_str());
        let networks = networks.filter(|name| !self.networks.contains_key(*name));
        let unknown = |step: &&HistoryStep| match step {
            HistoryStep::Collect(name) => !self.networks.contains_key(name),
            HistoryStep::Call(_, name) | HistoryStep::LoseNamespace(name) | HistoryStep::ForgetResult(name) => {
                !self.containers.contains_key(name)
            }
            HistoryStep::Flush(_) => false,
        };
        let besides = self.containers.values().filter_map(|member| member.beside.as_deref());
        let networks = networks.chain(besides.filter(|name| !self.containers.contains_key(*name)));
        networks.chain(self.steps.iter().filter(unknown).filter_map(HistoryStep::subject)).next()
    }

    /// Returns it without containers and networks that no step is about.
    #[must_use]
    pub fn without_the_unused(mut self) -> Self {
        let named = |name: &String| self.steps.iter().any(|step| step.subject() == Some(name));
        let homes: Vec<String> = self.containers.values().filter_map(|member| member.beside.clone()).collect();
        self.containers.retain(|name, _| named(name) || homes.contains(name));
        let Self { networks, containers, steps, .. } = &mut self;
        networks.retain(|name, _| {
            containers.values().any(|member| member.network == *name)
                || steps.iter().any(|step| step.subject() == Some(name))
        });
        self
    }

    /// Returns it in one line.
    ///
    /// # Panics
    /// Never: its keys are text.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("the keys of a history are text")
    }
}

#[cfg(test)]
mod tests {
    use super::{History, HistoryStep, Rules};
    use cni_conformance::plugin::Verb;

    fn every_step() -> Vec<HistoryStep> {
        let name = || "c0".to_owned();
        let calls = [Verb::Add, Verb::Check, Verb::Del].map(|verb| HistoryStep::Call(verb, name()));
        let others = [
            HistoryStep::Collect("n0".to_owned()),
            HistoryStep::LoseNamespace(name()),
            HistoryStep::ForgetResult(name()),
        ];
        calls.into_iter().chain(others).chain(Rules::ALL.map(HistoryStep::Flush)).collect()
    }

    #[test]
    fn steps_are_read_as_they_are_written() {
        for step in every_step() {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
    }

    #[test]
    fn other_words_are_no_steps() {
        for (text, why) in [
            ("VERSION c0", "\"VERSION c0\" is no step of a history"),
            ("run rm -rf", "\"rm -rf\" is no flush that a history may have"),
        ] {
            assert_eq!(text.parse::<HistoryStep>(), Err(why.to_owned()));
        }
    }

    const SMALL: &str = r#"{"iptables":"nft","networks":{"n0":{}},"containers":{"c0":
        {"network":"n0","id":"a","ifname":"eth0","args":"","ports":[]}},"steps":["ADD c0"]}"#;

    #[test]
    fn a_history_is_read_as_it_is_written() {
        let history = History::parse(SMALL).expect("a history");
        assert_eq!(History::parse(&history.to_line()), Ok(history));
    }

    #[test]
    fn an_unknown_name_is_reported() {
        let text = SMALL.replace("ADD c0", "ADD c1");
        assert_eq!(History::parse(&text), Err("the history has nothing of the name \"c1\"".to_owned()));
    }
}
