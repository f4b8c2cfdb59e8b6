//! A case under way.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::Value;

use super::always;
use super::faults;
use super::format::{Case, Standing};
use super::{command, known};
use crate::container::Container;
use crate::outside::Outside;
use crate::plugin::CniError;
use crate::runtime::{Attachment, Chain, Runtime};
use crate::sandbox::{Flavour, Sandbox};
use crate::traffic::Echo;

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
    pub case: &'c Case,
    pub sandbox: &'c Sandbox,
    pub lists: BTreeMap<String, Value>,
    pub containers: BTreeMap<String, Container>,
    pub attached: Vec<Attached>,
    pub outside: Option<Outside>,
    pub servers: Vec<Echo>,
    pub said: Said,
    pub kept: Option<Vec<String>>,
    /// The folder of plugins, where the case has added a script to it.
    pub folder: Option<PathBuf>,
    /// Processes by the names of their containers.
    pub processes: Vec<(String, Child)>,
    pub standing: always::Standing,
}

/// Carries out a case with one flavour of iptables.
///
/// # Errors
/// With the line of the script, what was expected and what was found.
pub fn run(case: &Case, flavour: Flavour) -> Result<(), String> {
    let mut line = (0, "before the script".to_owned());
    let done = catch_unwind(AssertUnwindSafe(|| {
        let sandbox = Sandbox::with_flavour(flavour);
        let mut world = World::new(case, &sandbox);
        for (number, text) in &case.script {
            line = (*number, text.clone());
            command::run(&mut world, text);
        }
        line = (0, "after the script".to_owned());
        world.end();
    }));
    done.map_err(|panic| {
        let place = if line.0 == 0 { case.name.clone() } else { format!("{}.case:{}", case.name, line.0) };
        format!("{place}: {}\n{}", line.1, text_of(panic.as_ref()))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// The example of a plugin's page, as the list of the case.
fn example(plugin: &str) -> (String, Value) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(plugin).join("README.md");
    let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("read {}: {error}", page.display()));
    (LIST.to_owned(), crate::page::example(&text))
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let names: Vec<String> = self.processes.iter().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.end_processes(name));
    }
}

impl<'c> World<'c> {
    fn new(case: &'c Case, sandbox: &'c Sandbox) -> Self {
        let list = |(name, text): &(String, String)| {
            let name = name.strip_suffix(".conflist")?;
            let list =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}.conflist is not JSON: {error}"));
            Some((name.to_owned(), list))
        };
        let is_outside_wanted =
            case.script.iter().any(|(_, line)| line.split_whitespace().any(|word| word == "outside"));
        let outside = is_outside_wanted.then(|| sandbox.outside());
        Self {
            case,
            sandbox,
            lists: case.files.iter().filter_map(list).chain(case.example.as_deref().map(example)).collect(),
            containers: BTreeMap::new(),
            attached: Vec::new(),
            outside,
            servers: Vec::new(),
            said: Said::default(),
            kept: None,
            folder: None,
            processes: Vec::new(),
            standing: always::Standing::of(sandbox),
        }
    }

    /// Whether the case leaves this to the runner.
    pub fn is_on(&self, what: Standing) -> bool {
        !self.case.off.contains(&what)
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
        self.standing.enter(self.sandbox, &container);
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
        let runtime = Runtime::new(self.sandbox, list.clone());
        self.folder.as_ref().map_or_else(|| runtime.clone(), |folder| runtime.clone().binaries(folder))
    }

    /// All names that scripts and files may use by now.
    pub fn known(&self) -> Vec<(String, String)> {
        let of = |one: &Attached| known::of(&one.name, one.list["name"].as_str().unwrap_or_default(), &one.attachment);
        self.attached.iter().flat_map(of).collect()
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
            for _ in ["once", "again"] {
                self.runtime(&one.list).del(&one.attachment).expect_success();
            }
        }
        self.standing.assert_restored(self.sandbox);
        faults::try_some(self);
    }
}
