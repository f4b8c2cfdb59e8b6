//! A plugin that the program does not know, by a configuration of it.

use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::script;

use crate::run::{cases, document, word};

/// A plugin of somebody's own: it makes a link in the container, and forgets about errors of it.
const LINES: &str = r#"
config=$(cat)
fail() { echo "{\"cniVersion\": \"1.0.0\", \"code\": $1, \"msg\": \"$2\"}"; exit 1; }
version=$(printf %s "$config" | sed -n 's/.*"cniVersion": *"\([^"]*\)".*/\1/p')
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}' ;;
ADD)
    [ -n "$CNI_CONTAINERID" ] || fail 4 "CNI_CONTAINERID is missing"
    [ -n "$CNI_IFNAME" ] || fail 4 "CNI_IFNAME is missing"
    [ -n "$CNI_NETNS" ] || fail 4 "CNI_NETNS is missing"
    case "$version" in 0.4.0 | 1.0.0) ;; *) fail 1 "unknown version" ;; esac
    nsenter --net="$CNI_NETNS" ip link add "$CNI_IFNAME" type bridge 2>/dev/null || fail 100 "cannot make the link"
    mac=$(nsenter --net="$CNI_NETNS" ip -o link show dev "$CNI_IFNAME" | sed 's/.*link.ether \([^ ]*\).*/\1/')
    echo "{\"cniVersion\": \"$version\", \"interfaces\": [{\"name\": \"$CNI_IFNAME\", \"sandbox\": \"$CNI_NETNS\", \"mac\": \"$mac\"}]}"
    ;;
DEL) nsenter --net="$CNI_NETNS" ip link del "$CNI_IFNAME" 2>/dev/null || true ;;
CHECK) nsenter --net="$CNI_NETNS" ip link show "$CNI_IFNAME" >/dev/null 2>&1 || fail 100 "the link is gone" ;;
esac
"#;

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    fs::create_dir_all(&folder).expect("a folder for the plugin");
    script::install(&folder.join("somebodys"), LINES);
    folder
}

#[test]
fn the_cases_of_its_kind_run_for_it() {
    let folder = folder();
    let file = folder.join("somebodys.conf");
    fs::write(&file, r#"{"cniVersion": "1.0.0", "name": "any", "type": "somebodys"}"#)
        .expect("write its configuration");
    let file = file.to_str().expect("paths are text");
    let document = document(&folder, &["--filter", "/somebodys/", "--config", file]);
    let outcome = |name: &str| {
        let found = cases(&document).iter().find(|case| word(case, "name") == name);
        word(found.unwrap_or_else(|| panic!("no case {name}")), "outcome").to_owned()
    };
    for name in [
        "spec/version/answer/somebodys/1.0.0",
        "spec/add/interface/somebodys/1.0.0",
        "spec/add/occupied/somebodys/0.4.0",
        "spec/result/mac/somebodys/1.0.0",
        "spec/check/interface-missing/somebodys/1.0.0",
        "spec/del/netns-gone/somebodys/1.0.0",
        "robustness/add/killed/somebodys/1.0.0",
    ] {
        assert_eq!(outcome(name), "passed", "{name}");
    }
    // It does not look at its input before it works.
    assert_eq!(outcome("robustness/parameters/no-json/somebodys/1.0.0"), "failed");
    assert_eq!(outcome("spec/gc/silent/somebodys/1.1.0"), "not-run");
}
