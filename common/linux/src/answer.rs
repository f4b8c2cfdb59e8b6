//! Writes the answer of a plugin to standard output: one JSON document, even if the process has no more memory, open
//! files or file size.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

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
pub fn write(text: &str) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::error::{Code, Error, Failure};
    use cni_core::version::Version;
    use cni_plugin::run::error_text;

    #[derive(Debug, thiserror::Error)]
    #[error("the plugin ran out of memory")]
    struct OutOfMemory;

    impl Failure for OutOfMemory {
        fn code(&self) -> Code {
            Code::TryAgain
        }

        fn details(&self) -> String {
            "what it had done is not undone; DEL removes it".to_owned()
        }
    }

    #[test]
    fn the_prepared_answer_is_what_would_be_rendered() {
        assert_eq!(error_text(&Error::from(OutOfMemory), Version::LATEST), ABORTED);
    }
}
