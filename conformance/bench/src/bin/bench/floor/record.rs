//! Runs a program, and writes its system calls into a file, with the bytes that they point to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{self, Command};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::calls::{Call, Pointer, pointers};

/// As much of the kernel's answers as is kept.
const ANSWER: usize = 64;

/// Records one program into a file of its name, and ends with its status.
pub fn record(folder: &Path, program: &Path) -> ! {
    let name = program.file_name().expect("a program has a name");
    let (calls, status) = trace(program);
    let text = serde_json::to_vec(&calls).expect("calls are JSON");
    fs::write(folder.join(name), text).expect("write the recorded calls");
    process::exit(status);
}

fn trace(program: &Path) -> (Vec<Call>, i32) {
    let process = start_stopped(program);
    ptrace::seize(process, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_EXITKILL)
        .expect("trace the program");
    kill(process, Signal::SIGCONT).expect("continue the program");
    let (mut calls, mut entered, mut has_started) = (Vec::new(), None, false);
    loop {
        let signal = match waitpid(process, Some(WaitPidFlag::__WALL)).expect("wait for the program") {
            WaitStatus::Exited(_, status) => return (calls, status),
            WaitStatus::PtraceSyscall(_) => {
                match entered.take() {
                    None => entered = Some(enter(process)),
                    Some(call) if has_started => calls.push(leave(process, call)),
                    Some(_) => {}
                }
                None
            }
            WaitStatus::PtraceEvent(_, _, event) => {
                has_started |= event == libc::PTRACE_EVENT_EXEC;
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            other @ (WaitStatus::Signaled(..) | WaitStatus::Continued(_) | WaitStatus::StillAlive) => {
                panic!("the program is {other:?}")
            }
        };
        ptrace::syscall(process, signal).expect("continue the program");
    }
}

/// Starts a shell that stops itself, and becomes the program when it is continued.
fn start_stopped(program: &Path) -> Pid {
    let shell = Command::new("/bin/sh").args(["-c", "kill -STOP $$; exec \"$0\""]).arg(program).spawn();
    let process = Pid::from_raw(i32::try_from(shell.expect("start a shell").id()).expect("a process id"));
    let stopped = waitpid(process, Some(WaitPidFlag::WUNTRACED)).expect("wait for the shell");
    assert_eq!(stopped, WaitStatus::Stopped(process, Signal::SIGSTOP));
    process
}

fn enter(process: Pid) -> Call {
    let registers = ptrace::getregs(process).expect("read the registers");
    let number = registers.orig_rax.cast_signed();
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    let arguments = arguments.map(u64::cast_signed);
    let inputs = pointers(number).unwrap_or_default().iter();
    let inputs: BTreeMap<_, _> = inputs
        .filter(|(place, _)| arguments[*place] != 0)
        .filter_map(|(place, pointer)| Some((*place, input(process, &arguments, *place, *pointer)?)))
        .collect();
    Call { number, arguments, inputs, result: 0, answer: Vec::new() }
}

fn leave(process: Pid, mut call: Call) -> Call {
    call.result = ptrace::getregs(process).expect("read the registers").rax.cast_signed();
    let answer = pointers(call.number).unwrap_or_default().iter().find(|(_, pointer)| *pointer == Pointer::Answer);
    if let (Some((place, _)), true) = (answer, call.result > 0) {
        let size = usize::try_from(call.result).expect("a size").min(ANSWER);
        call.answer = read(process, call.arguments[*place], size);
    }
    call
}

fn input(process: Pid, arguments: &[i64; 6], place: usize, pointer: Pointer) -> Option<Vec<u8>> {
    let start = arguments[place];
    match pointer {
        Pointer::Text => {
            let mut text = read(process, start, 4096);
            let end = text.iter().position(|byte| *byte == 0).expect("a text ends");
            text.truncate(end + 1);
            Some(text)
        }
        Pointer::Bytes(size) => Some(read(process, start, usize::try_from(arguments[size]).expect("a size"))),
        Pointer::Structure(size) => Some(read(process, start, size)),
        Pointer::Control => {
            let message = read(process, start, 48);
            let word = |at: usize| i64::from_ne_bytes(message[at..at + 8].try_into().expect("eight bytes"));
            Some(read(process, word(32), usize::try_from(word(40)).expect("a size")))
        }
        Pointer::Answer => None,
    }
}

/// Reads memory of the program, up to a page that it does not have.
fn read(process: Pid, start: i64, size: usize) -> Vec<u8> {
    let memory = File::open(format!("/proc/{process}/mem")).expect("open the program's memory");
    let mut bytes = vec![0; size];
    let (mut got, start) = (0, start.cast_unsigned());
    while got < size {
        match memory.read_at(&mut bytes[got..], start + got as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => got += more,
        }
    }
    bytes.truncate(got);
    bytes
}
