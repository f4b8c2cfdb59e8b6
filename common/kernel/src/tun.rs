//! Tap devices: `/dev/net/tun` and the requests of `linux/if_tun.h`.
//!
//! A device exists as long as its maker has it open, until `NewTap::keep` makes it persistent. So if the maker dies,
//! or a later request fails, no device is left.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use cni_core::names::IfName;
use cni_model::plan::{TapHeaders, TapOptions, TapQueues};

/// The file of the kernel's driver.
const DEVICE: &str = "/dev/net/tun";

/// The name that the program is started under, and the word behind it, to claim a device under another label.
pub const LABELLED: (&str, &str) = ("tap", "claim");

/// Refuses a device that exists already (`IFF_TUN_EXCL` of `linux/if_tun.h`).
const EXCLUSIVE: i32 = 0x8000;

/// `IFF_ONE_QUEUE` and `IFF_VNET_HDR` of `linux/if_tun.h`.
const ONE_QUEUE: i32 = 0x2000;
const VIRTIO_HEADER: i32 = 0x4000;

/// A tap device. Dropping it deletes the device, unless [`NewTap::keep`] was called.
pub struct NewTap {
    file: File,
}

impl NewTap {
    /// Creates a device in the namespace of the calling thread.
    ///
    /// # Errors
    /// If there is no driver, or it refuses: `EBUSY` or `EINVAL` if a link has the name.
    pub fn make(name: &IfName, tap: TapOptions, headers: TapHeaders, label: Option<&str>) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(DEVICE)?;
        match label {
            None => claim(&file, name.as_str(), flags(tap.queues, headers))?,
            Some(label) => claim_labelled(&file, name, flags(tap.queues, headers), label)?,
        }
        let new = Self { file };
        tap.owner.map_or(Ok(()), |owner| new.request(libc::TUNSETOWNER, owner))?;
        tap.group.map_or(Ok(()), |group| new.request(libc::TUNSETGROUP, group))?;
        Ok(new)
    }

    /// Makes the device persistent: it stays when no program has it open.
    pub fn keep(self) -> io::Result<()> {
        self.request(libc::TUNSETPERSIST, 1)
    }

    fn request(&self, request: libc::Ioctl, value: u32) -> io::Result<()> {
        // SAFETY: the descriptor is open, and these requests take a number and no memory.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), request, libc::c_ulong::from(value)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const fn flags(queues: TapQueues, headers: TapHeaders) -> i32 {
    let plain = libc::IFF_TAP
        | EXCLUSIVE
        | match headers {
            TapHeaders::None => libc::IFF_NO_PI,
            TapHeaders::PacketInformation => ONE_QUEUE,
            TapHeaders::Virtio => ONE_QUEUE | VIRTIO_HEADER,
        };
    match queues {
        TapQueues::One => plain,
        TapQueues::Many => plain | libc::IFF_MULTI_QUEUE,
    }
}

/// Makes the device of an open file: from then on it is that name's.
fn claim(file: &File, name: &str, flags: i32) -> io::Result<()> {
    // SAFETY: all zero is a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let name = CString::new(name)?;
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes_with_nul()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = i16::from_ne_bytes(u16::try_from(flags).map_err(io::Error::other)?.to_ne_bytes());
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// SELinux gives a device the label of the process that claims it. So this program is started once more under that label
/// (`attr/exec` of `proc(5)`), with the open file as its standard input.
fn claim_labelled(file: &File, name: &IfName, flags: i32, label: &str) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    std::os::unix::process::CommandExt::arg0(&mut command, LABELLED.0);
    command.args([LABELLED.1, name.as_str(), &flags.to_string()]);
    command.stdin(Stdio::from(OwnedFd::from(file.try_clone()?))).stdout(Stdio::null());
    set_label_of_programs(label)?;
    let done = command.output();
    set_label_of_programs("")?;
    let done = done?;
    match done.status.code() {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::Error::other(format!("{}: {}", done.status, String::from_utf8_lossy(&done.stderr)))),
    }
}

/// Under which label the programs run that this thread starts; its own if empty.
fn set_label_of_programs(label: &str) -> io::Result<()> {
    let file = File::options().write(true).open("/proc/thread-self/attr/exec")?;
    // The kernel wants all of it in one call.
    nix::unistd::write(&file, label.as_bytes()).map(|_| ()).map_err(io::Error::from)
}

/// Claims a device, when this program was started for that: standard input is the open file, and the arguments are the
/// name and the flags. Returns the exit status: 0, or the number of the kernel's error.
pub fn claim_standard_input(arguments: &[String]) -> u8 {
    let done = match arguments {
        [name, flags] => claim_of(name, flags),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    };
    let errno = done.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    u8::try_from(errno).unwrap_or(u8::MAX)
}

fn claim_of(name: &str, flags: &str) -> io::Result<()> {
    let name = IfName::parse(name).map_err(io::Error::other)?;
    let flags = flags.parse().map_err(io::Error::other)?;
    // SAFETY: standard input is open for as long as the process runs, and this is its only use.
    let input = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
    claim(&File::from(input.try_clone_to_owned()?), name.as_str(), flags)
}
