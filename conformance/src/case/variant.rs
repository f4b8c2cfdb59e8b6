//! The ways to carry out a case: with each flavour of iptables, or for each plugin in each version.

use std::fs::File;
use std::sync::Arc;

use serde_json::Value;

use super::format::Case;
use super::requirement::VERSIONS;
use super::subject::Subject;
use super::world::{self, Failure};
use crate::sandbox::{Flavour, is_guest};

/// One way to carry out a case.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The case.
    pub case: Arc<Case>,
    /// The flavour of iptables.
    pub flavour: Flavour,
    /// What its name has behind that of the case.
    end: &'static str,
    /// For a case without a list of its own, the plugin that it is carried out for, and the version.
    pub subject: Option<(Arc<Subject>, &'static str)>,
}

/// All ways to carry out these cases, in their order.
pub fn variants(cases: Vec<Case>, subjects: &[Arc<Subject>]) -> Vec<Variant> {
    cases.into_iter().flat_map(|case| of_case(Arc::new(case), subjects)).collect()
}

fn of_case(case: Arc<Case>, subjects: &[Arc<Subject>]) -> Vec<Variant> {
    if !case.is_for_each_plugin() {
        let with = |case, flavour, end| Variant { case, flavour, end, subject: None };
        let of_iptables = case.flavours().iter().map(|flavour| match flavour {
            Flavour::Nft => with(Arc::clone(&case), *flavour, ""),
            Flavour::Legacy => with(Arc::clone(&case), *flavour, "@legacy"),
        });
        let in_nftables = || with(Arc::new((*case).clone().in_nftables()), Flavour::Nft, "@nftables");
        return of_iptables.chain(case.is_for_nftables().then(in_nftables)).collect();
    }
    let mut variants = Vec::new();
    for subject in subjects.iter().filter(|subject| subject.is_one_of(&case.subjects)) {
        let with = |version| Variant {
            case: Arc::clone(&case),
            flavour: Flavour::Nft,
            end: "",
            subject: Some((Arc::clone(subject), version)),
        };
        variants.extend(case.versions().into_iter().map(with));
    }
    variants
}

impl Variant {
    /// Its name: that of the case, with `@legacy`, `@nftables` or `/PLUGIN/VERSION` behind it.
    pub fn name(&self) -> String {
        match &self.subject {
            Some((subject, version)) => format!("{}/{}/{version}", self.case.name, subject.plugin),
            None => self.case.name.clone() + self.end,
        }
    }

    /// Why it cannot be carried out here: without root, or for a plugin of its own on this kernel. A case with a list says itself what it needs
    /// of the kernel.
    pub fn lacks(&self) -> Option<String> {
        if is_guest() && (self.case.needs_root || self.needs_tap()) {
            return Some("root is needed".to_owned());
        }
        let (subject, _) = self.subject.as_ref()?;
        if self.case.needs_add() { subject.lacks() } else { None }
    }

    /// Whether its plugins make tap devices, and users may not.
    fn needs_tap(&self) -> bool {
        let may = || File::options().read(true).write(true).open("/dev/net/tun").is_ok();
        self.plugins().iter().any(|plugin| plugin.contains("tap")) && !may()
    }

    /// Carries it out.
    ///
    /// # Errors
    /// With the line of the script, what was expected and what was found.
    pub fn run(&self) -> Result<(), Failure> {
        self.run_until(&|_| {})
    }

    /// Carries it out, and calls `stop` on its host after the script, or at its failing line.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_until(&self, stop: &dyn Fn(Option<&Failure>)) -> Result<(), Failure> {
        world::run(self, stop)
    }
}

impl Variant {
    /// The plugins that it calls: those of its lists, but for those that it plays itself.
    pub fn plugins(&self) -> Vec<String> {
        if let Some((subject, _)) = &self.subject {
            return vec![subject.plugin.clone()];
        }
        let mut types: Vec<String> = self.case.has_tool().then(|| "cni-plugins".to_owned()).into_iter().collect();
        for list in self.case.lists() {
            for plugin in list["plugins"].as_array().into_iter().flatten() {
                let own = [&plugin["type"], &plugin["ipam"]["type"], &plugin["delegate"]["type"]];
                types.extend(own.into_iter().filter_map(Value::as_str).map(str::to_owned));
            }
        }
        types.sort();
        types.dedup();
        types.retain(|name| !self.case.plays(name));
        types
    }

    /// The versions of the SPEC that its plugins must know.
    pub fn versions(&self) -> Vec<String> {
        if let Some((_, version)) = &self.subject {
            return vec![(*version).to_owned()];
        }
        let of_lists = self.case.lists().into_iter().filter_map(|list| list["cniVersion"].as_str().map(str::to_owned));
        of_lists.chain(self.case.versions_set()).filter(|version| VERSIONS.contains(&version.as_str())).collect()
    }
}
