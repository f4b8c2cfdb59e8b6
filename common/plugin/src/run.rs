//! Runs one call, from the environment to the exit status. Every plugin uses it.

use std::io;

use serde::Serialize;

use crate::attachment_record::{self, AttachmentRecord};
use crate::exclusion;
use crate::host::Host;
use crate::journal::Journal;
use crate::ledger;
use crate::missing::{MissingPart, MissingRecords};
use crate::namespace::{self, Life, RecordedNamespace};
use crate::other_network;
use crate::share::Share;
use cni_core::error::{Error, Failures};
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::{Call, Command, Environment, Request, version_of};
use cni_core::result::CniResult;
use cni_core::result::render::to_text;
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;
use cni_model::plan::{Ns, Plan};

/// The default of [`Plugin::reference_level`].
const REFERENCE_LEVEL: &str = "1.9.1";

/// A plugin: what its binary is called, which versions it takes, and its five commands.
pub trait Plugin: Sync {
    /// The `type` in configurations, and the name of the binary.
    fn kind(&self) -> &'static str;

    /// The release of the reference with the same features. Nomad and nerdctl compare it with the one that they need.
    fn reference_level(&self) -> &'static str {
        REFERENCE_LEVEL
    }

    /// The versions it takes.
    fn versions(&self) -> &'static [Version] {
        Version::ALL
    }

    /// What the plugin contributes to an attachment.
    fn share(&self) -> Share {
        Share::Nothing
    }

    /// Refuses a configuration that ADD cannot use on any host, whatever the runtime adds to it. CNI has no such command: `cni-plugins check`
    /// asks.
    fn examine(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }

    /// Adds the attachment. What fails after this is undone through the journal as well.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error>;

    /// Removes the attachment; a missing object is success.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error>;

    /// Checks the attachment, and changes nothing.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error>;

    /// Says whether ADD can be served.
    fn status(&self, _request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }

    /// Removes what belongs to no valid attachment of the request's network. It is not called if the runtime does not
    /// list the valid ones.
    fn gc(&self, _request: &Request, _valid: &ValidAttachments, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }

    /// Finds what others have removed of the rules that ADD made, with the result of ADD as `prevResult` and
    /// the container's namespace entered. It changes nothing. CNI has no such command: the administrator's
    /// tool asks.
    fn find_missing(&self, _request: &Request, _host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        Ok(Vec::new())
    }

    /// Finds what is not recorded of an attachment whose rules are there, where what is recorded depends on those of others. `is_next`
    /// tells whether another attachment was made later, and is about to be repaired. While rules are missing, the answer tells only whether
    /// anything is to be recorded. Otherwise as [`Plugin::find_missing`].
    fn find_missing_records(
        &self,
        _request: &Request,
        _is_next: &dyn Fn(&Attachment) -> bool,
        _host: &mut dyn Host,
    ) -> Result<MissingRecords, Error> {
        Ok(MissingRecords::default())
    }

    /// Whether what the plugin made for an attachment, whose recorded namespace has ended, may serve a container: plugins of others may
    /// have added it again, and they change no record. The administrator's `gc` asks where there is nothing but records.
    fn may_be_added_again(&self, _at: &Attachment, _host: &mut dyn Host) -> Result<bool, Error> {
        Ok(false)
    }
}

/// The process around a plugin.
pub trait Process {
    /// Reads standard input to its end.
    fn read_stdin(&mut self) -> io::Result<Vec<u8>>;

    /// Writes to standard output.
    fn write_stdout(&mut self, text: &str) -> io::Result<()>;

    /// Writes to standard error; a failure to do so cannot be reported anywhere.
    fn write_stderr(&mut self, text: &str);

    /// The machine, for one request.
    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error>;
}

/// Runs a plugin, and returns the exit status of the process.
pub fn run(plugin: &dyn Plugin, our_version: &str, environment: Environment, process: &mut dyn Process) -> u8 {
    let command = environment.get("CNI_COMMAND").unwrap_or_default().to_owned();
    let mut version = Version::LATEST;
    let done = match command.as_str() {
        "" => {
            process.write_stderr(&about(plugin, our_version));
            Ok(())
        }
        "VERSION" => process.write_stdout(&version_reply(plugin)).map_err(unwritten),
        command => answer(plugin, command, environment, process, &mut version),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            let text = error_text(&error, version);
            if let Err(failed) = process.write_stdout(&text) {
                process.write_stderr(&format!("Error writing error JSON to stdout: {failed}: {text}\n"));
            }
            1
        }
    }
}

/// The version line that a plugin prints when it is started by hand. Nomad takes the first word that is a semantic
/// version; nerdctl takes the rest of the line after `plugin`.
fn about(plugin: &dyn Plugin, our_version: &str) -> String {
    let versions: Vec<&str> = plugin.versions().iter().map(|version| version.as_str()).collect();
    format!(
        "CNI {} plugin v{}+rs.{our_version}\nCNI protocol versions supported: {}\n",
        plugin.kind(),
        plugin.reference_level(),
        versions.join(", ")
    )
}

fn version_reply(plugin: &dyn Plugin) -> String {
    let versions: Vec<String> = plugin.versions().iter().map(|version| format!("\"{version}\"")).collect();
    format!("{{\"cniVersion\":\"{}\",\"supportedVersions\":[{}]}}\n", Version::LATEST, versions.join(","))
}

/// Carries out a command. `version` becomes that of the configuration.
fn answer(
    plugin: &dyn Plugin,
    command: &str,
    environment: Environment,
    process: &mut dyn Process,
    version: &mut Version,
) -> Result<(), Error> {
    let call = Call::parse(command, environment)?;
    let stdin = process.read_stdin().map_err(|error| fail!(Io, "error reading from stdin: {error}"))?;
    let decoded = call.with_config(stdin.clone(), plugin.versions());
    *version = decoded.as_ref().map_or_else(|_| version_of(&stdin), |request| request.version);
    let request = decoded?;
    let mut host = process.host(&request)?;
    match request.command {
        Command::Add => {
            refuse_own_netns(&request, host.as_mut())?;
            exclusion::begin_add(plugin.share(), &request.attachment()?, host.as_mut());
            add(plugin, &request, host.as_mut(), process)
        }
        Command::Del => {
            let mut failures = Failures::default();
            for former in or_warn(other_network::former(plugin.kind(), plugin.share(), &request, host.as_mut())) {
                log::info!("{} has no record of {}, but {} has", request.network, former.container, former.network);
                failures.keep(delete_former(plugin, &request, &former, process));
            }
            failures.keep(delete(plugin, &request, host.as_mut()));
            failures.into_result()
        }
        Command::Check => plugin.check(&request, host.as_mut()),
        Command::Status => plugin.status(&request, host.as_mut()),
        Command::Gc => match request.valid_attachments()? {
            Some(valid) => gc(plugin, &request, &valid, host.as_mut()),
            None => Ok(()),
        },
    }
}

/// Carries out DEL of the attachment under a former name of its network.
fn delete_former(
    plugin: &dyn Plugin,
    request: &Request,
    former: &Attachment,
    process: &mut dyn Process,
) -> Result<(), Error> {
    let request = request.with_network(&former.network)?;
    delete(plugin, &request, process.host(&request)?.as_mut())
}

/// Carries out DEL on a host that the caller keeps, and that may hold the attachment's locks.
pub fn delete(plugin: &dyn Plugin, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    refuse_own_netns(request, host)?;
    del(plugin, request, host)
}

/// Refuses the plugin's own namespace. The reference checks this after its work; this plugin before.
fn refuse_own_netns(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match request.netns() {
        Some(path) if !request.netns_override() && host.is_own_netns(path)? => {
            Err(fail!(InvalidNetns, "plugin's netns and netns from CNI_NETNS should not be the same"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The result is part of the ADD: when it cannot be said in this version, or not be written, nothing stays.
fn add(plugin: &dyn Plugin, request: &Request, host: &mut dyn Host, process: &mut dyn Process) -> Result<(), Error> {
    // The namespace gets its number (`nsid`, ip-netns(8)) before the interface is made: with a veth, the kernel chooses a number for the
    // namespace of the other end. An IPAM plugin leaves it to its caller.
    let namespace = if plugin.share() == Share::Nothing { None } else { namespace::observe(request, host)? };
    let mut journal = Journal::new(host);
    if let Some(namespace) = &namespace {
        match plugin.share() {
            Share::Interface => begin_interface(plugin, request, namespace, &mut journal)?,
            Share::Rules => record(plugin, request, namespace, &mut journal)?,
            Share::Properties | Share::Nothing => {}
        }
    }
    let written = plugin.add(request, &mut journal).and_then(|result| {
        if let Some(namespace) = namespace.as_ref().filter(|_| plugin.share() != Share::Rules) {
            record(plugin, request, namespace, &mut journal)?;
        }
        let text = result.render(request.version)?;
        process.write_stdout(&text).map_err(unwritten)
    });
    match written {
        Ok(()) => {
            journal.commit();
            Ok(())
        }
        Err(error) => {
            let reason = error.in_full();
            let error = journal.rollback(error);
            // What could not be undone is noted in the error.
            let is_undone = error.in_full() == reason;
            let of = (plugin.kind(), plugin.share());
            or_warn(other_network::mark(of, request, namespace.as_ref(), is_undone, host));
            Err(error)
        }
    }
}

fn unwritten(error: io::Error) -> Error {
    fail!(Io, "could not write the result to stdout", details: "{error}")
}

/// Logs a failure: what is known of other networks only keeps DEL from what is theirs.
fn or_warn<T: Default>(done: Result<T, Error>) -> T {
    done.inspect_err(|error| log::warn!("records of networks are left out: {}", error.in_full())).unwrap_or_default()
}

/// Removes an earlier interface that no process can use, and records the attachment before ADD makes anything, if nothing
/// is left of an earlier ADD. So DEL and `gc` know the namespace of an ADD that is killed, or still at work.
fn begin_interface(
    plugin: &dyn Plugin,
    request: &Request,
    namespace: &RecordedNamespace,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    let at = request.attachment()?;
    let earlier = AttachmentRecord::find(&at, journal.host());
    if let Some(earlier) = &earlier
        && !attachment_record::remove_abandoned(earlier, plugin.kind(), namespace, journal.host())?
    {
        return Ok(());
    }
    let (maker, namespace) = (plugin.kind().to_owned(), namespace.clone());
    // A record without a link is of an ADD that was killed; it says whether an ADD before that one was completed.
    let is_again = earlier.is_some_and(|earlier| earlier.link.is_some() || earlier.is_again);
    let written = journal.host().ledger().now();
    let record = AttachmentRecord { at, maker, namespace, link: None, is_again, written };
    journal.apply(&Plan::of_owned([record.write()]))
}

/// Records the attachment with its interface, unless another plugin has.
fn record(
    plugin: &dyn Plugin,
    request: &Request,
    namespace: &RecordedNamespace,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    let (kind, share) = (plugin.kind(), plugin.share());
    let observed = AttachmentRecord::observe(kind, share, request, namespace.clone(), journal.host())?;
    journal.apply(&Plan::of_owned(observed.map(|record| record.write())))
}

fn del(plugin: &dyn Plugin, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let (share, at) = (plugin.share(), request.attachment()?);
    let lost = share != Share::Nothing && leads_to_another(request, &at, host)?;
    let request = if lost { &request.without_netns() } else { request };
    if or_warn(other_network::has_all(plugin.kind(), share, request, host)) {
        return Ok(());
    }
    exclusion::begin_del(share, &at, request.netns(), host);
    plugin.del(request, host)?;
    if attachment_record::end_del(plugin.kind(), share, &at, host)? {
        let has_names = |other: &Attachment| (&other.container, &other.ifname) == (&at.container, &at.ifname);
        or_warn(other_network::sweep(has_names, host));
    }
    Ok(())
}

/// Whether the path of the namespace leads to another namespace than that of the ADD: the process number, or the name,
/// may have been reused. Then the runtime has lost the container's namespace, and the other one belongs to another
/// container.
fn leads_to_another(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(path) = request.netns() else { return Ok(false) };
    if host.enter(path).is_err() {
        return Ok(false);
    }
    let is_another = attachment_record::is_entered_by_another(at, host)? && !is_added_again(request, at, host)?;
    if is_another {
        log::info!("{path} leads to another namespace than that of the ADD, which stays as it is");
    }
    Ok(is_another)
}

/// Whether the entered namespace is the attachment's although its record names another one, which has ended: plugins of others have
/// deleted the attachment since and added it again. They remove no record, and write none. The interface has the MAC address in
/// `prevResult` then.
fn is_added_again(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let result = request.prev_result().ok().flatten().unwrap_or_default();
    let inside = result.interfaces.iter().find(|one| one.name == at.ifname.as_str() && !one.sandbox.is_empty());
    let Some(mac) = inside.map(|one| one.mac.as_str()).filter(|mac| !mac.is_empty()) else { return Ok(false) };
    let Some(record) = AttachmentRecord::find(at, host) else { return Ok(false) };
    let link = host.link(Ns::Container, &at.ifname)?;
    let has_mac = link.and_then(|link| link.mac).is_some_and(|found| found.is(mac));
    Ok(has_mac && record.life(host) == Life::Dead && !attachment_record::is_of_another(at, host)?)
}

fn gc(plugin: &dyn Plugin, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    if plugin.share() == Share::Nothing {
        return plugin.gc(request, valid, host);
    }
    exclusion::begin_gc(&request.network, host)?;
    plugin.gc(request, valid, host)?;
    or_warn(other_network::sweep(|at| ledger::is_invalid(at, &request.network, valid), host));
    attachment_record::remove_invalid(plugin.kind(), &request.network, valid, host)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorObject {
    cni_version: String,
    code: u32,
    msg: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    details: String,
}

/// The error object of the SPEC ("Error"), as the reference prints it, and with the version that the SPEC asks for: that of the
/// configuration, or our latest where that is not known.
pub fn error_text(error: &Error, version: Version) -> String {
    to_text(&ErrorObject {
        cni_version: version.to_string(),
        code: error.code().number(),
        msg: error.to_string(),
        details: error.details(),
    })
}
