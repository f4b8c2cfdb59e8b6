//! Calls a plugin as a runtime does.

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::request::{Call, Environment, Request};
use cni_core::result::CniResult;
use cni_core::version::Version;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::run::Plugin;

/// An attachment of these names.
///
/// # Panics
/// When one cannot be such a name.
pub fn attachment(network: &str, container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse(network).expect("network"),
        container: ContainerId::parse(container).expect("container"),
        ifname: IfName::parse(ifname).expect("interface"),
    }
}

/// The request of a command about the interface `eth0` of container `c1`, unless the variables say otherwise.
///
/// # Panics
/// When the variables or the configuration are refused before any plugin sees them.
pub fn request(command: &str, variables: &[(&str, &str)], config: &str) -> Request {
    parse(command, variables, config, Version::ALL)
}

fn parse(command: &str, variables: &[(&str, &str)], config: &str, versions: &'static [Version]) -> Request {
    let usual = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/c1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let variables = usual.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let call = Call::parse(command, Environment::new(variables)).expect("a call");
    call.with_config(config.as_bytes().to_vec(), versions).expect("a request")
}

/// The content of an error object: the code, the message and the details.
pub fn error_parts(error: impl Into<Error>) -> (u32, String, String) {
    let error = error.into();
    (error.code().number(), error.to_string(), error.details())
}

/// A container's place in a network: the variables and the configuration of its calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// `CNI_CONTAINERID`
    pub container: String,
    /// `CNI_NETNS`
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// The configuration, as JSON.
    pub config: String,
    /// `CNI_ARGS`
    pub args: String,
}

impl Caller {
    /// A container whose namespace is at `/run/netns/<container>` and whose interface is `eth0`.
    pub fn new(container: &str, config: &str) -> Self {
        Self {
            container: container.to_owned(),
            netns: format!("/run/netns/{container}"),
            ifname: "eth0".to_owned(),
            config: config.to_owned(),
            args: String::new(),
        }
    }

    /// The same with other `CNI_ARGS`.
    #[must_use]
    pub fn with_args(&self, args: &str) -> Self {
        Self { args: args.to_owned(), ..self.clone() }
    }

    /// The same with another configuration.
    #[must_use]
    pub fn with_config(&self, config: &str) -> Self {
        Self { config: config.to_owned(), ..self.clone() }
    }

    /// The request of a command.
    ///
    /// # Panics
    /// When the variables or the configuration are refused before any plugin sees them.
    pub fn request(&self, plugin: &dyn Plugin, command: &str) -> Request {
        let variables = [
            ("CNI_CONTAINERID", self.container.as_str()),
            ("CNI_NETNS", &self.netns),
            ("CNI_IFNAME", &self.ifname),
            ("CNI_ARGS", &self.args),
        ];
        parse(command, &variables, &self.config, plugin.versions())
    }

    /// The attachment of the container.
    ///
    /// # Panics
    /// As [`Caller::request`].
    pub fn attachment(&self, plugin: &dyn Plugin) -> Attachment {
        self.request(plugin, "ADD").attachment().expect("an attachment")
    }

    /// ADD, with everything taken back when it fails, as the plugin's process does it.
    pub fn add(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<CniResult, Error> {
        let mut journal = Journal::new(host);
        match plugin.add(&self.request(plugin, "ADD"), &mut journal) {
            Ok(result) => {
                journal.commit();
                Ok(result)
            }
            Err(error) => Err(journal.rollback(error)),
        }
    }

    /// Calls ADD, which must fail; returns the code and the message of its error.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn refusal(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> (u32, String) {
        let (code, text, _) = error_parts(self.add(plugin, host).expect_err("refused"));
        (code, text)
    }

    /// Calls ADD, and returns the caller of CHECK and DEL, whose configuration has the result as `prevResult`.
    ///
    /// # Panics
    /// When ADD fails.
    #[must_use]
    pub fn after_add(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Self {
        let result = self.add(plugin, host).expect("ADD").render(Version::LATEST).expect("text");
        self.with_config(&self.config.replacen('{', &format!(r#"{{"prevResult":{result},"#), 1))
    }

    /// DEL.
    pub fn del(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<(), Error> {
        plugin.del(&self.request(plugin, "DEL"), host)
    }

    /// CHECK.
    pub fn check(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<(), Error> {
        plugin.check(&self.request(plugin, "CHECK"), host)
    }

    /// STATUS.
    pub fn status(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<(), Error> {
        plugin.status(&self.request(plugin, "STATUS"), host)
    }

    /// Calls GC with the list in the configuration; without a list it does nothing.
    pub fn gc(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<(), Error> {
        let request = self.request(plugin, "GC");
        match request.valid_attachments()? {
            Some(valid) => plugin.gc(&request, &valid, host),
            None => Ok(()),
        }
    }

    /// Calls the search for missing rules of `repair`.
    pub fn find_missing(&self, plugin: &dyn Plugin, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        plugin.find_missing(&self.request(plugin, "ADD"), host)
    }
}
