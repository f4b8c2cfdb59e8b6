//! The answer of a plugin on standard output: one JSON document, also where the process may have no more memory, open
//! files or bytes in a file.

use std::io::{self, ErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Whether the answer was begun: a second one would spoil it.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
/// The answer of a process that is aborted.
static ABORTED: OnceLock<String> = OnceLock::new();

/// Writes an answer, without the standard library's buffer, which is written line by line: if writing fails, no part of a
/// result comes before the error object. It takes no descriptor, of which there may be no more.
///
/// # Errors
/// Those of writing.
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

/// Has a process that is aborted give an answer and end with status 1. The standard library aborts a process that is out of
/// memory or of stack; it has nothing left to make an answer of, so this is made beforehand.
///
/// # Errors
/// When the kernel refuses.
pub fn answer_aborts(answer: String) -> io::Result<()> {
    ABORTED.get_or_init(|| answer);
    handle(Signal::SIGABRT, give_answer)
}

/// Lets writing fail with `EFBIG` where a file would exceed the limit of its size. The signal would end the process without
/// a word. A handler is not passed on to programs that are started, as ignoring the signal would be.
///
/// # Errors
/// When the kernel refuses.
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
    let answer = ABORTED.get().filter(|_| !IS_BEGUN.load(Ordering::Relaxed));
    if let Some(answer) = answer {
        // SAFETY: the text is not changed any more, and the length is its own.
        unsafe { libc::write(libc::STDOUT_FILENO, answer.as_ptr().cast(), answer.len()) };
    }
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(1) }
}

extern "C" fn do_nothing(_: libc::c_int) {}
