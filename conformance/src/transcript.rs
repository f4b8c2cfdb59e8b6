//! Records what plugins received and printed, for the program that shows it.
//!
//! Nothing is recorded unless [`start`] was called.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::child::Finished;

/// One call of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: String,
    /// Its outcome; `None` if it did not end in time.
    pub answer: Option<PluginAnswer>,
}

/// The outcome of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginAnswer {
    /// The exit status, or nothing after a signal.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its running time.
    pub milliseconds: u64,
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

static KEPT: Mutex<Option<Vec<Exchange>>> = Mutex::new(None);

/// Keeps all calls of this process from now on.
pub fn start() {
    *kept() = Some(Vec::new());
}

/// Returns the calls so far.
pub fn so_far() -> Vec<Exchange> {
    kept().clone().unwrap_or_default()
}

/// Notes what was said in a line of a script, if calls are kept.
pub(crate) fn say(text: impl FnOnce() -> String) {
    if kept().is_some() {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push(text());
    }
}

/// Whether what is said is kept.
pub(crate) fn is_kept() -> bool {
    kept().is_some()
}

/// Returns what was said so far, line by line of the script.
pub fn said() -> Vec<String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Notes a call that begins and returns its place, if calls are kept.
pub(crate) fn begin(call: impl FnOnce() -> Exchange) -> Option<usize> {
    let mut kept = kept();
    let calls = kept.as_mut()?;
    calls.push(call());
    Some(calls.len() - 1)
}

/// Notes what became of a call.
pub(crate) fn end(place: Option<usize>, finished: &Finished) {
    let mut kept = kept();
    let Some(call) = place.and_then(|place| kept.as_mut()?.get_mut(place)) else { return };
    call.answer = Some(PluginAnswer {
        status: finished.code,
        stdout: finished.stdout.clone(),
        stderr: finished.stderr.clone(),
        milliseconds: u64::try_from(finished.elapsed.as_millis()).unwrap_or(u64::MAX),
    });
}

fn kept() -> std::sync::MutexGuard<'static, Option<Vec<Exchange>>> {
    // A list of notes is whole after every change.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
