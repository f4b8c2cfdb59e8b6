//! What has to be done, as values.

/// The name of the administrator's tool. It is installed with every selection, since only it can uninstall.
pub const TOOL: &str = "cni-plugins";

/// What a folder has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Present {
    Nothing,
    /// This very program.
    Current,
    /// This program in another build, with its version.
    Ours(String),
    /// Another program, with what it says about itself.
    Other(String),
}

/// A name that is to be this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallChange {
    pub name: &'static str,
    pub was: Present,
}

impl InstallChange {
    /// Whether the present file must be kept for the way back: the program of somebody else.
    pub const fn keeps(&self) -> bool {
        matches!(self.was, Present::Other(_))
    }
}

/// What `install` does, in this order.
pub fn install(facts: Vec<(&'static str, Present)>) -> Vec<InstallChange> {
    facts.into_iter().map(|(name, was)| InstallChange { name, was }).collect()
}

/// Whether every name is this very program already.
pub fn is_current(changes: &[InstallChange]) -> bool {
    changes.iter().all(|change| change.was == Present::Current)
}

/// A file of ours that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UninstallStep {
    pub name: String,
    /// Whether the file that `install` has replaced is put back.
    pub restores: bool,
}

/// What `uninstall` does with the files of ours, given the names of the files that were kept. The tool goes last, so that
/// `uninstall` can be repeated after a failure.
pub fn uninstall(mut ours: Vec<String>, kept: &[String]) -> Vec<UninstallStep> {
    ours.sort_by_key(|name| (name == TOOL, name.clone()));
    ours.into_iter().map(|name| UninstallStep { restores: kept.contains(&name), name }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninstall_restores_what_was_kept_and_removes_the_tool_last() {
        let ours = ["cni-plugins", "dummy", "bridge"].map(str::to_owned).to_vec();
        let removals = uninstall(ours, &["bridge".to_owned(), "calico".to_owned()]);
        let shown: Vec<_> = removals.iter().map(|one| (one.name.as_str(), one.restores)).collect();
        assert_eq!(shown, [("bridge", true), ("dummy", false), ("cni-plugins", false)]);
    }
}
