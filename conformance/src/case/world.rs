//! A case under way.

use std::any::Any;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::always::{self, View};
use super::faults;
use super::format::{Case, Standing};
use super::subject::{self, Subject};
use super::variant::Variant;
use super::{command, known};
use crate::container::Container;
use crate::firewalld::FirewalldHost;
use crate::losses::TABLE;
use crate::outside::Outside;
use crate::plugin::CniError;
use crate::result_cache;
use crate::runtime::{Attachment, Chain, Runtime};
use crate::sandbox::Sandbox;
use crate::stand_in;
use crate::traffic::Echo;
use crate::transcript;

/// The list that commands use which name no other.
pub const LIST: &str = "list";

/// An attachment that the script has asked for.
pub struct Attached {
    /// As the script calls it: the container, or `container.ifname`.
    pub name: String,
    pub list: Value,
    pub attachment: Attachment,
}

/// What the last command said.
#[derive(Default)]
pub struct Said {
    pub stdout: String,
    pub stderr: String,
    pub error: Option<CniError>,
}

/// A private host, and all that a script has made and learned there.
pub struct World<'c> {
    pub variant: &'c Variant,
    pub sandbox: &'c Sandbox,
    pub lists: BTreeMap<String, Value>,
    pub containers: BTreeMap<String, Container>,
    pub attached: Vec<Attached>,
    pub outside: Option<Outside>,
    pub servers: Vec<Echo>,
    pub said: Said,
    pub kept: Option<Vec<String>>,
    /// The state after the last command, if that has looked.
    pub last: Option<Vec<String>>,
    /// Whether the next line is about what this one prints: a command that is asked something changes nothing.
    pub is_asked: bool,
    /// Whether the case is to tell what is lost.
    pub is_table: bool,
    /// The folder of plugins, where the case has added a script to it.
    pub folder: Option<PathBuf>,
    /// The folders with programs for plugins, where the case has changed them.
    pub path: Option<String>,
    pub firewalld: Option<FirewalldHost>,
    /// Processes by the names of their containers.
    pub processes: Vec<(String, Child)>,
    pub standing: always::Standing,
}

/// Where a case has failed, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The file and the number of the line, or the name of the case alone.
    pub place: String,
    /// The line of the script.
    pub line: String,
    /// What was expected, and what was found.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.place, self.line, self.text)
    }
}

/// Carries out a case, and calls `stop` after its script, or at its failing line.
///
/// # Errors
/// With the line of the script, what was expected and what was found.
pub fn run(variant: &Variant, stop: &dyn Fn(Option<&Failure>)) -> Result<(), Failure> {
    let case = &variant.case;
    let failure = |place: String, line: &str, panic: &(dyn Any + Send)| {
        let (line, text) = (line.to_owned(), text_of(panic));
        Failure { place, line, text }
    };
    let done = catch_unwind(AssertUnwindSafe(|| {
        let sandbox = Sandbox::with_flavour(variant.flavour);
        let mut world = World::new(variant, &sandbox);
        for (at, (number, line)) in case.script.iter().enumerate() {
            let next = case.script.get(at + 1).map(|(_, line)| line.trim_start_matches("! ")).unwrap_or_default();
            world.is_asked = ["stdout ", "stderr ", "cmp "].iter().any(|command| next.starts_with(command));
            catch_unwind(AssertUnwindSafe(|| command::run(&mut world, line))).map_err(|panic| {
                let failure = failure(format!("{}.case:{number}", case.name), line, panic.as_ref());
                stop(Some(&failure));
                failure
            })?;
            transcript::say(|| known::collapse(&world.said.stdout, &world.known()));
        }
        stop(None);
        catch_unwind(AssertUnwindSafe(|| world.end())).map_err(|panic| {
            let failure = failure(case.name.clone(), "after the script", panic.as_ref());
            stop(Some(&failure));
            failure
        })
    }));
    done.unwrap_or_else(|panic| Err(failure(case.name.clone(), "before the script", panic.as_ref())))
}

/// What a panic says.
pub fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let names: Vec<String> = self.processes.iter().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.end_processes(name));
    }
}

impl<'c> World<'c> {
    fn new(variant: &'c Variant, sandbox: &'c Sandbox) -> Self {
        let (case, subject) = (&*variant.case, variant.subject.as_ref());
        let list = |(name, text): &(String, String)| {
            let name = name.strip_suffix(".conflist")?;
            let list =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}.conflist is not JSON: {error}"));
            Some((name.to_owned(), list))
        };
        let given = case.example.as_ref().map(|(_, list)| list.clone());
        let given = given.or_else(|| subject.map(|(subject, version)| subject.list(version)));
        let is_outside_wanted =
            case.script.iter().any(|(_, line)| line.split_whitespace().any(|word| word == "outside"));
        let outside = is_outside_wanted.then(|| sandbox.outside());
        let folder = subject.and_then(|(subject, _)| {
            subject.prepare(sandbox);
            subject.stand_in().map(|name| stand_in::install(name, subject::STAND_IN))
        });
        let mut lists: BTreeMap<String, Value> =
            case.files.iter().filter_map(list).chain(given.map(|list| (LIST.to_owned(), list))).collect();
        let is_table = env::var_os(TABLE).is_some() && case.script.iter().any(|(_, line)| line.starts_with("losses"));
        if is_table {
            lists.values_mut().for_each(|list| list["cniVersion"] = "1.0.0".into());
        }
        let has = |types: &[&str]| {
            let is_there = |list: &Value| types.iter().any(|kind| list.to_string().contains(&format!("\"{kind}\"")));
            lists.values().any(is_there)
        };
        let view = View {
            nat_inside: has(&["consul-cni"]),
            traffic_control: has(&["bandwidth", "tc-redirect-tap"]),
            memory: subject.is_none(),
        };
        let is_compared = subject.is_none() || case.has_line("restored") || case.has_line("same");
        let standing = if is_compared { always::Standing::of(sandbox, view) } else { always::Standing::idle() };
        Self {
            variant,
            sandbox,
            lists,
            containers: BTreeMap::new(),
            attached: Vec::new(),
            outside,
            servers: Vec::new(),
            said: Said::default(),
            kept: None,
            last: None,
            is_asked: false,
            is_table,
            folder,
            path: None,
            firewalld: None,
            processes: Vec::new(),
            standing,
        }
    }

    pub fn case(&self) -> &'c Case {
        &self.variant.case
    }

    /// The plugin that a case without a list is carried out for, and the version.
    pub fn subject(&self) -> Option<&'c (Arc<Subject>, &'static str)> {
        self.variant.subject.as_ref()
    }

    /// Whether the case leaves this to the runner. A case for each plugin says all that it shows.
    pub fn is_on(&self, what: Standing) -> bool {
        self.subject().is_none() && !self.case().off.contains(&what)
    }

    /// Whether CHECK must pass after ADD of a list: it is on, and the list's version has it.
    pub fn must_pass_check(&self, list: &Value) -> bool {
        let before_it = ["0.1.0", "0.2.0", "0.3.0", "0.3.1"];
        self.is_on(Standing::Check) && !self.is_table && !before_it.iter().any(|version| list["cniVersion"] == *version)
    }

    /// Whether it matters what containers share.
    pub fn shares(&self) -> bool {
        self.is_on(Standing::Restored) || self.case().has_line("restored")
    }

    /// A container that is to be attached, by the interface that the case is about.
    pub fn unattached(&mut self, name: &str, list: &Value) -> Attachment {
        let attachment = Attachment::new(name, &self.container(name)).args(&command::args_of(list));
        match self.subject() {
            Some((subject, _)) => attachment.ifname(subject.ifname()).args(subject.args()),
            None => attachment,
        }
    }

    /// A list of the case, as the script has changed it.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn list(&self, name: &str) -> &Value {
        self.lists.get(name).unwrap_or_else(|| panic!("the case has no file {name}.conflist"))
    }

    /// A container; it is made when it is first named.
    pub fn container(&mut self, name: &str) -> Container {
        if let Some(container) = self.containers.get(name) {
            return container.clone();
        }
        let container = self.sandbox.container(name);
        if let Some((subject, _)) = self.subject() {
            subject.prepare_container(&container);
        }
        self.standing.enter(&container);
        self.last = None;
        self.containers.insert(name.to_owned(), container.clone());
        container
    }

    /// The attachment that the script calls so.
    ///
    /// # Panics
    /// If the script has not added it.
    pub fn attachment(&self, name: &str) -> &Attached {
        let found = self.attached.iter().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("the script has not added {name:?}"))
    }

    pub fn attachment_mut(&mut self, name: &str) -> &mut Attached {
        let found = self.attached.iter_mut().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("the script has not added {name:?}"))
    }

    /// A runtime with a list.
    pub fn runtime(&self, list: &Value) -> Runtime<'c> {
        let mut runtime = Runtime::new(self.sandbox, list.clone());
        if let Some(folder) = &self.folder {
            runtime = runtime.binaries(folder);
        }
        self.path.iter().fold(runtime, |runtime, path| runtime.env("PATH", path))
    }

    /// All names that scripts and files may use by now.
    pub fn known(&self) -> Vec<(String, String)> {
        let of = |one: &Attached| known::of(&one.name, one.list["name"].as_str().unwrap_or_default(), &one.attachment);
        let mut known: Vec<_> = self.attached.iter().flat_map(of).collect();
        if let Some((subject, version)) = self.subject() {
            let about = [subject.plugin.as_str(), version, subject.ifname()];
            known.extend(
                known::OF_SUBJECTS.into_iter().zip(about).map(|(name, text)| (name.to_owned(), text.to_owned())),
            );
        }
        known
    }

    /// Keeps what plugins said, and requires that they succeeded, or that they failed.
    #[track_caller]
    pub fn judge(&mut self, chain: &Chain, must_fail: bool) {
        let outputs = chain.steps().iter().map(|(_, outcome)| outcome);
        self.said = Said {
            stdout: outputs.clone().next_back().map(|outcome| outcome.stdout().to_owned()).unwrap_or_default(),
            stderr: outputs.map(|outcome| outcome.stderr().to_owned()).collect(),
            error: None,
        };
        if must_fail {
            assert!(!chain.succeeded(), "it must fail: {chain}");
            self.said.error = chain.steps().last().map(|(_, outcome)| outcome.error());
        } else {
            chain.expect_success();
        }
    }

    /// The host and its living containers, in lines.
    pub fn state(&self) -> Vec<String> {
        self.standing.now(self.sandbox)
    }

    /// The state before a command: that after the last one, if nothing was called since.
    pub fn state_before(&mut self) -> Vec<String> {
        self.last.take().unwrap_or_else(|| self.state())
    }

    /// Ends the processes of a container.
    pub fn end_processes(&mut self, name: &str) {
        for (_, process) in self.processes.iter_mut().filter(|(of, _)| of == name) {
            process.kill().expect("kill a process");
            process.wait().expect("wait for a process");
        }
        self.processes.retain(|(of, _)| of != name);
    }

    /// Deletes all attachments, twice, and requires that nothing is left.
    fn end(&mut self) {
        self.servers.clear();
        if !self.is_on(Standing::Restored) {
            return;
        }
        for one in self.attached.iter().rev() {
            if self.case().has_tool() {
                result_cache::remove(&one.list, &one.attachment);
            }
            for _ in ["once", "again"] {
                self.runtime(&one.list).del(&one.attachment).expect_success();
            }
        }
        self.standing.assert_restored(self.sandbox);
        faults::try_some(self);
    }
}
