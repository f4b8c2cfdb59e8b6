//! System calls as values: what the recorder writes, and what the replay needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A system call that has returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub number: i64,
    pub arguments: [i64; 6],
    /// The bytes that arguments point to, by the place of the argument.
    pub inputs: BTreeMap<usize, Vec<u8>>,
    /// A negative number is an error.
    pub result: i64,
    /// The beginning of the kernel's answer.
    pub answer: Vec<u8>,
}

/// What an argument points to; all others are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// A text that ends with a zero.
    Text,
    /// As many bytes as another argument says.
    Bytes(usize),
    /// So many bytes.
    Structure(usize),
    /// The control data of a message (`struct msghdr`).
    Control,
    /// Room for the kernel's answer.
    Answer,
}

use Pointer::{Answer, Bytes, Control, Structure, Text};

/// System calls that change or ask something, with their arguments that are pointers.
const TABLE: [(i64, &[(usize, Pointer)]); 42] = [
    (libc::SYS_access, &[(0, Text)]),
    (libc::SYS_chmod, &[(0, Text)]),
    (libc::SYS_close, &[]),
    (libc::SYS_connect, &[(1, Bytes(2))]),
    (libc::SYS_fchmod, &[]),
    (libc::SYS_fcntl, &[(2, Structure(32))]),
    (libc::SYS_fdatasync, &[]),
    (libc::SYS_flock, &[]),
    (libc::SYS_fstat, &[(1, Answer)]),
    (libc::SYS_fstatfs, &[(1, Answer)]),
    (libc::SYS_fsync, &[]),
    (libc::SYS_ftruncate, &[]),
    (libc::SYS_getdents64, &[(1, Answer)]),
    (libc::SYS_getsockopt, &[(3, Answer), (4, Structure(4))]),
    (libc::SYS_link, &[(0, Text), (1, Text)]),
    (libc::SYS_linkat, &[(1, Text), (3, Text)]),
    (libc::SYS_lseek, &[]),
    (libc::SYS_lstat, &[(0, Text), (1, Answer)]),
    (libc::SYS_mkdir, &[(0, Text)]),
    (libc::SYS_open, &[(0, Text)]),
    (libc::SYS_openat, &[(1, Text)]),
    (libc::SYS_pread64, &[(1, Answer)]),
    (libc::SYS_pwrite64, &[(1, Bytes(2))]),
    (libc::SYS_read, &[(1, Answer)]),
    (libc::SYS_readlink, &[(0, Text), (1, Answer)]),
    (libc::SYS_recvfrom, &[(1, Answer)]),
    (libc::SYS_rename, &[(0, Text), (1, Text)]),
    (libc::SYS_renameat2, &[(1, Text), (3, Text)]),
    (libc::SYS_rmdir, &[(0, Text)]),
    (libc::SYS_sendmsg, &[(1, Control)]),
    (libc::SYS_sendto, &[(1, Bytes(2)), (4, Bytes(5))]),
    (libc::SYS_setns, &[]),
    (libc::SYS_setsockopt, &[(3, Bytes(4))]),
    (libc::SYS_socket, &[]),
    (libc::SYS_socketpair, &[(3, Answer)]),
    (libc::SYS_stat, &[(0, Text), (1, Answer)]),
    (libc::SYS_statfs, &[(0, Text), (1, Answer)]),
    (libc::SYS_symlink, &[(0, Text), (1, Text)]),
    (libc::SYS_unlink, &[(0, Text)]),
    (libc::SYS_unlinkat, &[(1, Text)]),
    (libc::SYS_utimensat, &[(1, Text), (2, Structure(32))]),
    (libc::SYS_write, &[(1, Bytes(2))]),
];

/// Start, memory, signals, random numbers: what a process does for itself.
const OWN_AFFAIRS: [i64; 25] = [
    libc::SYS_arch_prctl,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_execve,
    libc::SYS_exit_group,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_poll,
    libc::SYS_prctl,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
];

/// Returns the pointers among the arguments of a call, or nothing for the process's own affairs.
///
/// # Panics
/// When neither table has the call: what it does must be known before it is left out.
pub fn pointers(number: i64) -> Option<&'static [(usize, Pointer)]> {
    let row = TABLE.iter().find(|(known, _)| *known == number).map(|(_, pointers)| *pointers);
    assert!(row.is_some() || OWN_AFFAIRS.contains(&number), "system call {number} is in no table of {}", file!());
    row
}

impl Call {
    /// Returns whether this is one of these calls.
    pub fn is(&self, numbers: &[i64]) -> bool {
        numbers.contains(&self.number)
    }

    /// Returns what an argument points to.
    pub fn input(&self, place: usize) -> &[u8] {
        self.inputs.get(&place).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the first path among the arguments.
    pub fn path(&self) -> Option<&[u8]> {
        let text = pointers(self.number)?.iter().find(|(_, pointer)| *pointer == Text)?;
        Some(self.input(text.0))
    }

    /// Returns whether the result is a file descriptor.
    pub fn opens(&self) -> bool {
        self.is(&[libc::SYS_open, libc::SYS_openat, libc::SYS_socket]) && self.result >= 0
    }
}
