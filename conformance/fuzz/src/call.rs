//! A whole process of a plugin: its environment, one line for each variable, and its standard input.
//!
//! It exits with 0 or 1, and prints nothing or one JSON document: an error has a message, and a code that is not the
//! plugin's own fault; a result can be read in the version of the configuration.

use std::io;

use cni_core::error::Error;
use cni_core::json::Json;
use cni_core::request::{Environment, Request};
use cni_core::result::CniResult;
use cni_core::version::Version;
use cni_plugin::host::Host;
use cni_plugin::run::{self, Plugin, Process};

use crate::input::Documents;
use crate::life::host;
use crate::plugins::{OUR_VERSION, plugin_of};

struct FuzzProcess<'a> {
    stdin: &'a [u8],
    stdout: String,
    plugin: &'static dyn Plugin,
}

impl Process for FuzzProcess<'_> {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.push_str(text);
        Ok(())
    }

    fn write_stderr(&mut self, _text: &str) {}

    fn host(&mut self, _request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(host(self.plugin)))
    }
}

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (variables, stdin) = (documents.text(), documents.next().unwrap_or_default());
    let json = Json::parse(stdin);
    let plugin = json.as_ref().ok().and_then(plugin_of).unwrap_or(&cni_loopback::Loopback);
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let environment = Environment::new(variables);
    let command = environment.get("CNI_COMMAND").unwrap_or_default().to_owned();
    let mut process = FuzzProcess { stdin, stdout: String::new(), plugin };
    let status = run::run(plugin, OUR_VERSION, environment, &mut process);
    let printed = Json::parse(process.stdout.as_bytes());
    match status {
        0 if ["", "DEL", "CHECK", "GC", "STATUS"].contains(&command.as_str()) => assert_eq!(process.stdout, ""),
        0 if command == "VERSION" => assert!(printed.expect("JSON").has_key("supportedVersions")),
        0 => drop(CniResult::parse_any(&printed.expect("JSON"), Version::LATEST).expect("a result")),
        1 => assert_is_error(&printed.expect("JSON")),
        status => panic!("the process ends with {status}"),
    }
    Some(())
}

fn assert_is_error(printed: &Json) {
    let Some(Json::Integer(code)) = printed.get("code") else { panic!("no code: {printed:?}") };
    assert!(*code > 0 && *code != 999, "{printed:?}");
    assert!(matches!(printed.get("msg"), Some(Json::String(text)) if !text.is_empty()), "{printed:?}");
}
