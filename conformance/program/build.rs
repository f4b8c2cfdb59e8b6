//! Builds the cases into the program, with the pages whose examples they use.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cases = folder.join("cases").canonicalize().expect("conformance/cases");
    println!("cargo::rerun-if-changed={}", cases.display());
    let (mut files, mut pages) = (Vec::new(), Vec::new());
    collect(&cases, &mut files);
    files.sort();
    let mut source = "pub const CASES: &[(&str, &str)] = &[\n".to_owned();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("read {}: {error}", file.display()));
        pages.extend(text.lines().filter_map(|line| line.strip_prefix("# example: ")).map(str::to_owned));
        let name = file.strip_prefix(&cases).expect("a file below the cases").with_extension("");
        writeln!(source, "    ({:?}, include_str!({:?})),", name.display().to_string(), file).expect("a text");
    }
    pages.sort();
    pages.dedup();
    source.push_str("];\npub const PAGES: &[(&str, &str)] = &[\n");
    for plugin in pages {
        let page = folder.join("../plugins").join(&plugin).join("README.md").canonicalize();
        let page = page.unwrap_or_else(|error| panic!("the page of {plugin}: {error}"));
        writeln!(source, "    ({plugin:?}, include_str!({page:?})),").expect("a text");
    }
    source.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR")).join("cases.rs");
    fs::write(&out, source).unwrap_or_else(|error| panic!("write {}: {error}", out.display()));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "case") {
            files.push(path);
        }
    }
}
