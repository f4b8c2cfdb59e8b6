//! Standard output and standard error: the texts of the tool, the answer of a plugin, and its log.
//!
//! Texts from files and plugins can contain control characters, which are escaped for the terminal. An answer is one JSON
//! document, even if the process has no more memory, open files or file size. Log lines go to standard error, where runtimes
//! look for them. The environment variable `CNI_PLUGINS_LOG` is one of `error`, `warn`, `info`, `debug`, `trace`, `off`; the
//! default is `warn`.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Writes lines to standard output.
pub fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush())
}

/// Prints an error on standard error. A failure to do so cannot be reported anywhere.
pub fn complain(text: &str) {
    let _lost = io::stderr().write_all(printable(text).as_bytes());
}

/// Escapes control characters other than the ends of lines, as JSON does.
pub fn printable(text: &str) -> String {
    escape(text, |c| c.is_control() && c != '\n')
}

/// Escapes control characters of what has to stay in one line.
pub fn one_line(text: &str) -> String {
    escape(text, char::is_control)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            let _infallible = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether an answer was begun: a second one would make the output invalid.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
/// The answer of a process that is aborted, since it has no more memory, or no more stack. It is not rendered, which takes a
/// twentieth of a start.
const ABORTED: &str = r#"{
    "cniVersion": "1.1.0",
    "code": 11,
    "msg": "the plugin ran out of memory",
    "details": "what it had done is not undone; DEL removes it"
}"#;

/// Writes an answer without the standard library's line buffer: if writing fails, no part of a result precedes the
/// error object. It needs no further file descriptor.
pub fn write_answer(text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match nix::unistd::write(io::stdout(), rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => {
                IS_BEGUN.store(true, Ordering::Relaxed);
                rest = &rest[length..];
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Makes a process that is aborted print an answer and exit with status 1. The standard library aborts a process that
/// is out of memory or stack. Nothing can be allocated then.
pub fn answer_aborts() -> io::Result<()> {
    handle(Signal::SIGABRT, give_answer)
}

/// Lets writing fail with `EFBIG` where a file would exceed the limit of its size. The signal would end the process without
/// a word. A handler is not passed on to programs that are started, as ignoring the signal would be.
pub fn survive_file_limit() -> io::Result<()> {
    handle(Signal::SIGXFSZ, do_nothing)
}

fn handle(signal: Signal, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // On the signal stack that the standard library has made, since the other one may be exhausted.
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_ONSTACK, SigSet::empty());
    // SAFETY: the handlers call only what signal-safety(7) lists: write and _exit.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

extern "C" fn give_answer(_: libc::c_int) {
    if !IS_BEGUN.load(Ordering::Relaxed) {
        // SAFETY: the text is constant, and the length is its own.
        unsafe { libc::write(libc::STDOUT_FILENO, ABORTED.as_ptr().cast(), ABORTED.len()) };
    }
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(1) }
}

extern "C" fn do_nothing(_: libc::c_int) {}

struct Stderr {
    plugin: &'static str,
}

/// A delegate that is called inside the process, and what it has said.
struct Delegate {
    plugin: &'static str,
    said: String,
}

/// Those that work at the moment: each was called by the one before it.
static DELEGATES: Mutex<Vec<Delegate>> = Mutex::new(Vec::new());

fn delegates() -> MutexGuard<'static, Vec<Delegate>> {
    DELEGATES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = |plugin: &str| line(plugin, record);
            match delegates().last_mut() {
                Some(Delegate { plugin, said }) => said.push_str(&line(plugin)),
                None => complain(&line(self.plugin)),
            }
        }
    }

    fn flush(&self) {}
}

/// One line, whatever the message holds: a name that a container has chosen must not look like a line of the log.
fn line(plugin: &str, record: &Record<'_>) -> String {
    format!("{plugin} {}: {}\n", record.level().as_str().to_lowercase(), one_line(&record.args().to_string()))
}

/// Sets the logger of the process.
pub fn install_logger(plugin: &'static str) {
    let asked = std::env::var("CNI_PLUGINS_LOG").ok().and_then(|level| level.parse().ok());
    let logger: &'static Stderr = Box::leak(Box::new(Stderr { plugin }));
    if log::set_logger(logger).is_ok() {
        log::set_max_level(asked.unwrap_or(LevelFilter::Warn));
    }
}

/// Does the work of a delegate, and returns what it logs as well, as its process would have written it.
pub(crate) fn of_delegate<T>(plugin: &'static str, work: impl FnOnce() -> T) -> (T, String) {
    delegates().push(Delegate { plugin, said: String::new() });
    let done = work();
    let said = delegates().pop().map(|delegate| delegate.said).unwrap_or_default();
    (done, said)
}

#[cfg(test)]
mod tests {
    use cni_core::fail;
    use cni_core::version::Version;
    use cni_plugin::run::error_text;

    use super::*;

    #[test]
    fn control_characters_are_escaped_as_in_json() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}1m\r\t\u{7f}…\n"), "a\\u001b[2J\\u009b1m\\u000d\\u0009\\u007f…\n");
        assert_eq!(one_line("a\nb"), "a\\u000ab");
        let document = serde_json::json!({"a": "\u{1b}\u{9b}\u{7f}\n"});
        let read: serde_json::Value = serde_json::from_str(&printable(&document.to_string())).expect("JSON");
        assert_eq!(read, document);
    }

    #[test]
    fn the_prepared_answer_is_what_would_be_rendered() {
        let error = fail!(
            TryAgain,
            "the plugin ran out of memory",
            details: "what it had done is not undone; DEL removes it"
        );
        assert_eq!(error_text(&error, Version::LATEST), ABORTED);
    }

    #[test]
    fn a_message_is_one_line() {
        let path = "a\nmacvlan error: b\u{1b}";
        let mut record = Record::builder();
        record.level(log::Level::Warn);
        let written = line("macvlan", &record.args(format_args!("removed from {path}")).build());
        assert_eq!(written, "macvlan warn: removed from a\\u000amacvlan error: b\\u001b\n");
    }
}
