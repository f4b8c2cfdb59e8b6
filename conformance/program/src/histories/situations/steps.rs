//! Steps that the reference treats differently on purpose.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::histories::history::{History, HistoryStep};
use cni_conformance::plugin::Verb;

/// A step that is left out.
pub(super) struct StepRow {
    /// Why.
    pub reason: &'static str,
    /// Whether the row is about a step.
    is: fn(&ContainerStates, &HistoryStep) -> bool,
}

/// Why a step is left out, if it is.
pub(super) fn reason(course: &ContainerStates, step: &HistoryStep) -> Option<&'static str> {
    ROWS.iter().find(|row| (row.is)(course, step)).map(|row| row.reason)
}

pub(super) const ROWS: [StepRow; 8] = [
    StepRow {
        reason: "the reference's ADD of a container whose namespace was lost fails; here it gets its address back",
        is: |course, step| course.called(Verb::Add, step).is_some_and(|container| container.attached && container.lost),
    },
    StepRow {
        reason: "the reference's DEL leaves the masquerade of a container whose namespace was lost",
        is: |course, step| {
            course.called(Verb::Del, step).is_some_and(|container| container.lost && container.masquerade)
        },
    },
    StepRow {
        reason: "the reference's DEL leaves tuning's file of a container whose namespace was lost",
        is: |course, step| course.called(Verb::Del, step).is_some_and(|container| container.lost && container.tuning),
    },
    StepRow {
        reason: "the reference's DEL leaves firewall's rules when the result was forgotten",
        is: |course, step| {
            course.called(Verb::Del, step).is_some_and(|container| container.forgotten && container.firewall)
        },
    },
    StepRow {
        reason: "the reference's CHECK passes although rules are missing, or makes them",
        is: |course, step| course.called(Verb::Check, step).is_some_and(|container| container.flushed),
    },
    StepRow {
        reason: "the reference's DEL fails, and leaves the rest, where the masquerade was flushed",
        is: |course, step| {
            course.called(Verb::Del, step).is_some_and(|container| container.flushed && container.masquerade)
        },
    },
    StepRow {
        reason: "the reference's CHECK fails where a bridge without gateway has taken the MAC address of another port",
        is: |course, step| course.called(Verb::Check, step).is_some_and(|container| container.borrowed_mac),
    },
    StepRow {
        reason: "v1.1.1's CHECK fails on a network without addresses, on routes without a router, and on ports",
        is: |course, step| course.called(Verb::Check, step).is_some_and(|container| container.broken_check),
    },
];

/// The states of a history's containers.
#[derive(Debug)]
pub struct ContainerStates {
    containers: BTreeMap<String, ContainerState>,
    homes: BTreeMap<String, String>,
}

/// The properties of a container's network, and what has happened to the container.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContainerState {
    masquerade: bool,
    firewall: bool,
    tuning: bool,
    borrowed_mac: bool,
    broken_check: bool,
    attached: bool,
    lost: bool,
    forgotten: bool,
    flushed: bool,
}

impl ContainerStates {
    /// At the start nothing has happened.
    pub fn of(history: &History) -> Self {
        let container = |network: &str| ContainerState::of(&history.networks[network]);
        let containers = history.containers.iter().map(|(name, member)| (name.clone(), container(&member.network)));
        let homes = history.containers.keys().map(|name| (name.clone(), history.home(name).to_owned()));
        Self { containers: containers.collect(), homes: homes.collect() }
    }

    /// Takes note of a step.
    pub fn goes_on(&mut self, step: &HistoryStep) {
        let name = match step {
            HistoryStep::Call(_, name) | HistoryStep::ForgetResult(name) => name,
            HistoryStep::LoseNamespace(name) => return self.loses(name),
            HistoryStep::Flush(_) => return self.containers.values_mut().for_each(ContainerState::is_flushed),
            HistoryStep::Collect(_) => return,
        };
        if let Some(container) = self.containers.get_mut(name) {
            container.goes_on(step);
        }
    }

    /// All that are in a namespace lose it.
    fn loses(&mut self, name: &str) {
        let Self { containers, homes } = self;
        let lost = containers.iter_mut().filter(|(other, _)| homes.get(*other) == homes.get(name));
        lost.for_each(|(_, container)| container.lost = true);
    }

    /// Tells whether a step is the ADD of a container that has no interface yet.
    pub fn is_first_add(&self, step: &HistoryStep) -> bool {
        self.called(Verb::Add, step).is_some_and(|container| !container.attached || container.lost)
    }

    /// The container for which a verb is called, when the step is that.
    fn called(&self, verb: Verb, step: &HistoryStep) -> Option<&ContainerState> {
        match step {
            HistoryStep::Call(called, name) if *called == verb => self.containers.get(name),
            HistoryStep::Call(..)
            | HistoryStep::Collect(_)
            | HistoryStep::LoseNamespace(_)
            | HistoryStep::ForgetResult(_)
            | HistoryStep::Flush(_) => None,
        }
    }
}

impl ContainerState {
    fn of(list: &Value) -> Self {
        let plugins = list["plugins"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |kind: &str| plugins.iter().any(|plugin| plugin["type"] == kind);
        let links = || plugins.iter().filter(|plugin| plugin["type"] == "bridge" || plugin["type"] == "ptp");
        let routes = links().any(|plugin| plugin["ipam"]["routes"].as_array().is_some_and(|routes| !routes.is_empty()));
        Self {
            masquerade: links().any(|plugin| plugin["ipMasq"] == true),
            firewall: has("firewall"),
            tuning: has("tuning"),
            borrowed_mac: plugins.iter().any(|plugin| {
                let gateway = ["isGateway", "isDefaultGateway"].iter().any(|key| plugin[*key] == true);
                plugin["type"] == "bridge" && !gateway
            }),
            broken_check: routes || has("portmap") || links().any(|plugin| plugin.get("ipam").is_none()),
            ..Self::default()
        }
    }

    fn is_flushed(&mut self) {
        self.flushed = self.attached;
    }

    fn goes_on(&mut self, step: &HistoryStep) {
        match step {
            // It fails, and all stays as it was.
            HistoryStep::Call(Verb::Add, _) if self.attached && !self.lost => {}
            HistoryStep::Call(Verb::Add, _) => {
                (self.attached, self.lost, self.forgotten, self.flushed) = (true, false, false, false);
            }
            HistoryStep::Call(Verb::Del, _) => (self.attached, self.forgotten) = (false, false),
            HistoryStep::ForgetResult(_) => self.forgotten = self.attached,
            HistoryStep::Call(Verb::Check | Verb::Gc | Verb::Status | Verb::Version, _)
            | HistoryStep::Collect(_)
            | HistoryStep::LoseNamespace(_)
            | HistoryStep::Flush(_) => {}
        }
    }
}
