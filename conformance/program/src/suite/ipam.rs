//! A stand-in for IPAM plugins: a script that records its calls, and prints the answer that a case has set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use cni_conformance::script;

/// The type of the stand-in.
pub const IPAM: &str = "cni-conformance-ipam";

/// The folder that it is in.
pub const PLUGINS: &str = "/run/conformance/cni";

/// The folder of its files.
const FOLDER: &str = "/run/conformance/ipam";

/// Its text on standard error.
pub const REMARK: &str = "the stand-in was here";

/// One call of it.
#[derive(Debug, Clone)]
pub struct IpamCall {
    /// `CNI_COMMAND`
    pub verb: String,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: String,
}

/// Puts the script into its folder.
///
/// # Panics
/// When files cannot be written.
pub fn install() {
    for folder in [PLUGINS.to_owned(), format!("{FOLDER}/calls")] {
        fs::create_dir_all(folder).expect("a folder for the stand-in");
    }
    script::install(&Path::new(PLUGINS).join(IPAM), &lines());
}

/// Sets the answer for ADD.
///
/// # Panics
/// When it cannot be written.
pub fn answer(result: &Value) {
    fs::write(format!("{FOLDER}/result"), result.to_string()).expect("write the stand-in's answer");
}

/// Makes it fail a command with this code and text from now on.
///
/// # Panics
/// When that cannot be written down.
pub fn fail(verb: &str, code: u64, text: &str) {
    let object = serde_json::json!({"cniVersion": "1.0.0", "code": code, "msg": text});
    fs::write(format!("{FOLDER}/fail.{verb}"), object.to_string()).expect("write the stand-in's error");
}

/// Makes it answer ADD with this text.
///
/// # Panics
/// When it cannot be written.
pub fn answer_text(text: &str) {
    fs::write(format!("{FOLDER}/result"), text).expect("write the stand-in's answer");
}

/// Returns all calls so far, in their order.
///
/// # Panics
/// When they cannot be read.
pub fn calls() -> Vec<IpamCall> {
    let mut folders: Vec<_> = fs::read_dir(format!("{FOLDER}/calls"))
        .expect("list the stand-in's calls")
        .map(|entry| entry.expect("read a list").path())
        .collect();
    folders.sort();
    folders.iter().map(|folder| read(folder)).collect()
}

/// Returns the calls of one command.
pub fn calls_of(verb: &str) -> Vec<IpamCall> {
    calls().into_iter().filter(|call| call.verb == verb).collect()
}

fn read(folder: &Path) -> IpamCall {
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect("read a call of the stand-in");
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let environment: BTreeMap<String, String> = text("env").lines().filter_map(pair).collect();
    let verb = environment.get("CNI_COMMAND").cloned().unwrap_or_default();
    IpamCall { verb, environment, stdin: text("stdin") }
}

fn lines() -> String {
    format!(
        r#"
number=100
while ! mkdir {FOLDER}/calls/$number 2>/dev/null; do number=$((number + 1)); done
env > {FOLDER}/calls/$number/env
cat > {FOLDER}/calls/$number/stdin
if [ "$CNI_COMMAND" = VERSION ]; then
    echo '{{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}}'
    exit 0
fi
echo '{REMARK}' >&2
if [ -e {FOLDER}/fail.$CNI_COMMAND ]; then cat {FOLDER}/fail.$CNI_COMMAND; exit 1; fi
if [ "$CNI_COMMAND" = ADD ]; then cat {FOLDER}/result; fi
"#
    )
}
