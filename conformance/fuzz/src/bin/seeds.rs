//! Writes the seeds of the target `config` that are derived from the rows of the plugins into a folder.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let folder = PathBuf::from(env::args_os().nth(1).expect("usage: seeds FOLDER"));
    fs::create_dir_all(&folder).expect("create the folder");
    for (name, seed) in cni_fuzz::rows::seeds() {
        fs::write(folder.join(name), seed).expect("write a seed");
    }
}
