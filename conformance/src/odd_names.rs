//! Names of links that root in a container can choose, and that neither a configuration nor `CNI_IFNAME` may have.

use crate::Namespace;

/// What the names are, and the names as `printf` takes them.
pub const ODD_NAMES: [(&str, &str); 2] = [("bytes that are not UTF-8", r"\377"), ("white space", r"\343\200\200")];

/// Gives a link such a name, and sets it up.
///
/// # Panics
/// When the kernel refuses.
#[track_caller]
pub fn rename(namespace: &Namespace, link: &str, name: &str) {
    let lines = format!(
        "name=$(printf '{name}'); ip link set {link} down; ip link set {link} name \"$name\"; ip link set \"$name\" up"
    );
    namespace.must(&["sh", "-ec", &lines]);
}
