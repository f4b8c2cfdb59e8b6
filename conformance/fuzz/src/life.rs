//! Calls a plugin with every command, and asserts what must hold for every configuration:
//!
//! - no error is the plugin's own fault (code 999), and each has a message;
//! - a result can be printed in the version of its configuration, and read back;
//! - STATUS, CHECK and looking for missing rules change nothing.

use cni_catalog::PluginKind;
use cni_core::error::{Code, Error};
use cni_core::json::Json;
use cni_core::request::{Call, Environment, Request};
use cni_core::result::CniResult;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

use crate::host::FuzzHost;

/// A container of a network.
pub struct FuzzContainer {
    pub plugin: &'static dyn Plugin,
    /// The configuration, as JSON.
    pub config: String,
    /// `CNI_ARGS`
    pub args: String,
}

/// A host on which another plugin has made the interface if a chained plugin is to work on it.
pub fn host(plugin: &dyn Plugin) -> FuzzHost {
    let entry = cni_catalog::entry(plugin.kind());
    FuzzHost::new(entry.is_some_and(|entry| entry.kind == PluginKind::Chained))
}

impl FuzzContainer {
    /// The request of a command; `None` when it is refused before the plugin sees it.
    pub fn request(&self, command: &str, config: &str) -> Option<Request> {
        let variables = [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/c1"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
            ("CNI_ARGS", &self.args),
        ];
        let call = Call::parse(command, Environment::new(variables)).expect("the variables are sound");
        known(call.with_config(config.as_bytes().to_vec(), self.plugin.versions())).ok()
    }

    /// ADD, with everything taken back when it fails.
    pub fn add(&self, host: &mut dyn Host) -> Option<Result<CniResult, Error>> {
        let request = self.request("ADD", &self.config)?;
        let mut journal = Journal::new(host);
        Some(known(match self.plugin.add(&request, &mut journal) {
            Ok(result) => {
                journal.commit();
                Ok(result)
            }
            Err(error) => Err(journal.rollback(error)),
        }))
    }

    pub fn del(&self, host: &mut dyn Host) -> Option<Result<(), Error>> {
        Some(known(self.plugin.del(&self.request("DEL", &self.config)?, host)))
    }

    /// CHECK, STATUS and what `repair` looks for, after a result.
    pub fn look(&self, config: &str, host: &mut FuzzHost) {
        let before = host.applied.len();
        for command in ["CHECK", "ADD", "STATUS"] {
            let Some(request) = self.request(command, config) else { continue };
            match command {
                "CHECK" => drop(known(self.plugin.check(&request, host))),
                "STATUS" => drop(known(self.plugin.status(&request, host))),
                _ => drop(known(self.plugin.find_missing(&request, host))),
            }
        }
        assert_eq!(host.applied.len(), before, "looking changes nothing");
    }

    /// Everything of it; what ADD comes to.
    pub fn live(&self, host: &mut FuzzHost) -> Option<Result<String, u32>> {
        let added = self.add(host)?;
        let mut config = self.config.clone();
        if let Ok(result) = &added
            && let Some(add) = self.request("ADD", &self.config)
            && let Ok(text) = known(result.render(add.version))
        {
            let printed = Json::parse(text.as_bytes()).expect("JSON");
            let read = CniResult::parse_prev(&printed, add.version).expect("its own result");
            assert_eq!(read.render(add.version).as_ref(), Ok(&text), "what is printed is read back");
            let plain = add.config().to_string();
            config = format!("{},\"prevResult\":{text}}}", plain.strip_suffix('}').unwrap_or(&plain));
        }
        self.look(&config, host);
        self.del(host);
        Some(added.map(|result| format!("{result:?}")).map_err(|error| error.code().number()))
    }
}

/// What a request came to, which is never an error of the plugin itself.
pub fn known<T>(result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        assert_ne!(error.code(), Code::Internal, "{}", error.in_full());
        assert!(!error.to_string().is_empty(), "an error without a message");
    }
    result
}
