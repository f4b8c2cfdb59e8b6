//! The result cache of libcni: a file for each attachment, which a runtime writes after ADD and removes after DEL.
//!
//! As in libcni, a file is written in place, so a reader may see half of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::runtime::Attachment;

/// libcni's folder.
const FOLDER: &str = "/var/lib/cni/results";

/// Writes the file of an attachment that ADD has made.
///
/// # Panics
/// When the list has no name, or the file cannot be written.
pub fn store(list: &Value, attachment: &Attachment) {
    let Attachment { container_id, netns, ifname, args, capabilities, result } = attachment;
    let pairs = args.split(';').filter_map(|pair| pair.split_once('='));
    let content = json!({
        "kind": "cniCacheV1", "containerId": container_id, "config": STANDARD.encode(list.to_string()),
        "ifName": ifname, "networkName": name_of(list), "netns": netns,
        "cniArgs": pairs.collect::<Vec<_>>(), "capabilityArgs": capabilities, "result": result,
    });
    fs::create_dir_all(FOLDER).unwrap_or_else(|error| panic!("create {FOLDER}: {error}"));
    let path = path_of(list, attachment);
    fs::write(&path, content.to_string()).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

/// Removes the file of an attachment, if it exists.
///
/// # Panics If the list has no name, or the file cannot be removed.
pub fn remove(list: &Value, attachment: &Attachment) {
    let path = path_of(list, attachment);
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => panic!("remove {}: {error}", path.display()),
    }
}

fn path_of(list: &Value, attachment: &Attachment) -> PathBuf {
    let Attachment { container_id, ifname, .. } = attachment;
    Path::new(FOLDER).join(format!("{}-{container_id}-{ifname}", name_of(list)))
}

fn name_of(list: &Value) -> &str {
    list["name"].as_str().expect("a configuration list has a name")
}
