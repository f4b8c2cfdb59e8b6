//! Calls a delegate (SPEC section 4), with the search and the messages of the reference.
//!
//! If the delegate's program is the one that is running, it is called inside the process: starting a program takes
//! longer than the work of host-local.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_core::json::Json;
use cni_core::request::{Command, Environment, Request};
use cni_files::find_files;

use crate::process::{self, Output, ProcessError};

/// The time limit of a delegate. IPAM over a network may wait for an answer, but a delegate that hangs must not block
/// the runtime forever.
const DEADLINE: Duration = Duration::from_secs(120);

/// The variable in which plugins count how many of them have delegated, one to the next. A plugin that finds it works under
/// the locks of its caller.
pub const DELEGATIONS: &str = "CNI_PLUGINS_RS_DELEGATIONS";

/// More than any chain of plugins that makes sense.
const MOST_DELEGATIONS: u32 = 8;

/// The output of a plugin.
#[derive(Debug)]
pub struct DelegateAnswer {
    /// Whether its exit status is 0.
    pub is_success: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

/// Calls a plugin that this program contains, inside the process; `None` when it contains no such one.
pub type ContainedPlugins = fn(plugin: &str, environment: Environment, stdin: &[u8]) -> Option<DelegateAnswer>;

/// Runs `plugin` with the request's input and environment; only the command differs. `contained` calls one that this
/// program contains. A plugin of others that does not know GC has nothing to collect.
pub fn run(
    plugin: &str,
    command: Command,
    request: &Request,
    contained: Option<ContainedPlugins>,
) -> Result<Vec<u8>, Error> {
    if started_as().is_some_and(|own| own == plugin) {
        return Err(fail!(InvalidConfig, "{plugin} cannot be its own IPAM plugin"));
    }
    if delegations(request) >= MOST_DELEGATIONS {
        return Err(fail!(InvalidConfig, "plugins delegate to each other without end: the last is {plugin}"));
    }
    let program = find(plugin, request.path())?;
    let contained = contained.filter(|_| is_running(&program));
    if let Some(answer) = contained.and_then(|call| call(plugin, environment(command, request), request.stdin())) {
        return conclude(plugin, command, answer, "exit status: 1");
    }
    let Output { status, stdout, stderr } = start(&program, command, request).map_err(|source| {
        let text = format!("netplugin failed with no error message: {plugin}");
        Error::stated(Code::Delegated(0), text, source.to_string())
    })?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let answer = DelegateAnswer { is_success: status.success(), stdout, stderr };
    conclude(plugin, command, answer, &status.to_string())
}

fn conclude(plugin: &str, command: Command, answer: DelegateAnswer, status: &str) -> Result<Vec<u8>, Error> {
    let DelegateAnswer { is_success, stdout, stderr } = answer;
    if is_success {
        if !stderr.is_empty() {
            log::warn!("{plugin}: {}", stderr.trim_end());
        }
        return Ok(stdout);
    }
    let error = reported(&stdout).unwrap_or_else(|| unreported(&stdout, &stderr, status));
    // A script may say so in words of its own.
    let is_unknown = error.code().number() == Code::InvalidEnvironment.number()
        || error.to_string().to_ascii_lowercase().contains("unknown cni");
    if command == Command::Gc && is_unknown { Ok(Vec::new()) } else { Err(error) }
}

/// Whether a file is the program of this process, under any name.
fn is_running(program: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(program).is_some_and(|file| identity(Path::new("/proc/self/exe")) == Some(file))
}

fn start(program: &Path, command: Command, request: &Request) -> Result<Output, ProcessError> {
    let variables = variables(command, request);
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_os_str())).collect();
    process::run(program, &[], request.stdin(), &variables, DEADLINE)
}

fn environment(command: Command, request: &Request) -> Environment {
    Environment::new(variables(command, request).into_iter().map(|(name, value)| (OsString::from(name), value)))
}

fn variables(command: Command, request: &Request) -> Vec<(String, OsString)> {
    let ours = ["CNI_COMMAND", DELEGATIONS];
    let inherited = request.variables().filter(|(name, _)| !ours.contains(name));
    let mut variables: Vec<_> = inherited.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    variables.push(("CNI_COMMAND".to_owned(), command.as_str().into()));
    variables.push((DELEGATIONS.to_owned(), (delegations(request) + 1).to_string().into()));
    variables
}

/// The name under which this process was started: which plugin it is.
fn started_as() -> Option<OsString> {
    let started_as = PathBuf::from(std::env::args_os().next()?);
    started_as.file_name().map(OsStr::to_owned)
}

/// Whether this plugin was started as a delegate by one of these plugins.
pub fn is_delegate(request: &Request) -> bool {
    delegations(request) > 0
}

/// The number of plugins that have delegated, one to the next, up to this one.
fn delegations(request: &Request) -> u32 {
    let reported = request.variables().find(|(name, _)| *name == DELEGATIONS);
    reported.and_then(|(_, value)| value.to_str()?.parse().ok()).unwrap_or_default()
}

/// The first regular file with the name, executable or not, as the reference chooses.
fn find(plugin: &str, path: &OsStr) -> Result<PathBuf, Error> {
    if plugin.contains('/') {
        // CVE-2021-20206
        return Err(fail!(InvalidConfig, "invalid plugin name: {plugin}"));
    }
    if path.is_empty() {
        return Err(fail!(InvalidConfig, "no paths provided"));
    }
    find_files(OsStr::new(plugin), path).next().ok_or_else(|| {
        let path = path.to_string_lossy().replace(':', " ");
        fail!(Program, "failed to find plugin {plugin:?} in path [{path}]")
    })
}

fn reported(stdout: &[u8]) -> Option<Error> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct DelegateErrorObject {
        code: u32,
        msg: String,
        details: String,
    }
    let json = Json::parse(stdout).ok()?;
    let DelegateErrorObject { code, msg, details } = json.decode().ok()?;
    Some(Error::stated(Code::Delegated(code), msg, details))
}

fn unreported(stdout: &[u8], stderr: &str, status: &str) -> Error {
    let said = String::from_utf8_lossy(stdout);
    let problem = match (said.is_empty(), stderr.is_empty()) {
        (true, true) => format!(" with no error message: {status}"),
        (true, false) => format!(": {stderr:?}"),
        (false, _) => match Json::parse(stdout) {
            Ok(_) => format!(" but error parsing its diagnostic message {said:?}: not an error object"),
            Err(error) => format!(" but error parsing its diagnostic message {said:?}: {error}"),
        },
    };
    Error::stated(Code::Delegated(0), format!("netplugin failed{problem}"), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_path_is_refused() {
        for plugin in ["../bin/x", "/bin/sh", "a/b"] {
            let error = find(plugin, OsStr::new("/bin")).expect_err("refused");
            assert_eq!(
                (error.to_string(), error.code()),
                (format!("invalid plugin name: {plugin}"), Code::InvalidConfig)
            );
        }
    }

    #[test]
    fn an_absent_plugin_is_named_with_the_path() {
        let error = find("nope", OsStr::new("/nowhere:/neither")).expect_err("absent");
        assert_eq!(error.to_string(), "failed to find plugin \"nope\" in path [/nowhere /neither]");
        assert_eq!(find("nope", OsStr::new("")).expect_err("no path").to_string(), "no paths provided");
    }

    #[test]
    fn an_error_object_is_passed_on() {
        let error = reported(br#"{"code":123,"msg":"m","details":"d"}"#).expect("an object");
        assert_eq!((error.code().number(), error.to_string(), error.details()), (123, "m".to_owned(), "d".to_owned()));
    }

    #[test]
    fn a_failure_without_an_error_object_says_what_was_said() {
        for (stdout, stderr, want) in [
            ("", "", "netplugin failed with no error message: exit status: 3"),
            ("", "oops\n", r#"netplugin failed: "oops\n""#),
            (
                "x",
                "",
                r#"netplugin failed but error parsing its diagnostic message "x": invalid character 'x' looking for beginning of value"#,
            ),
        ] {
            assert_eq!(unreported(stdout.as_bytes(), stderr, "exit status: 3").to_string(), want);
        }
    }
}
