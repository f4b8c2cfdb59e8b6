//! Lists with one mistake each, and the finding that names it.

/// A broken list.
pub struct Broken {
    /// The list, or its `plugins` alone.
    pub list: &'static str,
    /// The finding as it is printed, without the file.
    pub finding: &'static str,
    /// Whether a schema can see it: it cannot compare addresses or guess names.
    pub in_schema: bool,
}

/// The text of a whole list.
pub fn whole(list: &str) -> String {
    if list.starts_with('[') {
        format!(r#"{{"cniVersion": "1.0.0", "name": "n1", "plugins": {list}}}"#)
    } else {
        list.to_owned()
    }
}

/// All of them, from `broken.txt`: each list on a line, and its finding on the next one.
pub fn all() -> impl Iterator<Item = Broken> {
    include_str!("broken.txt").trim_end().split("\n\n").map(|entry| {
        let (line, finding) = entry.split_once('\n').expect("a list and its finding");
        let unseen = line.strip_prefix("no schema sees it: ");
        Broken { list: unseen.unwrap_or(line), finding, in_schema: unseen.is_none() }
    })
}
