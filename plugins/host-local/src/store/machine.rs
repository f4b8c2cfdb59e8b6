//! The identity of the machine and of its boot: it separates leases of this boot from those of an earlier one.

use cni_files::{FileError, boot_id, machine_id};

/// The identity of a machine and of its boot, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Differs between machines: machine-id(5).
    pub id: Option<String>,
    /// Differs between boots: random(4), `boot_id`.
    pub boot: Option<String>,
}

impl MachineIdentity {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Self { id: known(machine_id()), boot: known(boot_id()) }
    }

    /// Whether it is certain that this machine was restarted since `before`. A directory on a network file system has
    /// leases of other machines, whose boot differs too, but which are still running.
    pub fn has_restarted_since(&self, before: &Self) -> bool {
        let (id, boot) = (self.id.as_ref(), self.boot.as_ref());
        id.is_some()
            && boot.is_some()
            && before.boot.is_some()
            && id == before.id.as_ref()
            && boot != before.boot.as_ref()
    }
}

fn known(id: Result<String, FileError>) -> Option<String> {
    id.inspect_err(|error| log::debug!("{error}: {}", error.source)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(id: &str, boot: &str) -> MachineIdentity {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        MachineIdentity { id: known(id), boot: known(boot) }
    }

    #[test]
    fn a_restart_is_certain_only_when_all_is_known_and_the_machine_is_the_same() {
        let now = machine("m", "b2");
        assert!(now.has_restarted_since(&machine("m", "b1")));
        for before in [machine("m", "b2"), machine("other", "b1"), machine("", "b1"), machine("m", ""), machine("", "")]
        {
            assert!(!now.has_restarted_since(&before), "{before:?}");
        }
        for now in [machine("", "b2"), machine("m", ""), machine("", "")] {
            assert!(!now.has_restarted_since(&machine("m", "b1")), "{now:?}");
            assert!(!now.has_restarted_since(&machine("", "b1")), "{now:?}");
        }
    }
}
