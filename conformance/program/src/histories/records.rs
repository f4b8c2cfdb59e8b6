//! The files of these plugins besides leases and locks, without what depends on the machine and the time.

/// The directories of these files.
const OWN: &str = "/.cni-plugins-rs/";

/// Returns the path of such a file without its content, boot identifiers and numbers of namespaces; other lines stay.
pub fn without_moment(line: &str) -> String {
    let Some((path, rest)) = line.split_once(OWN).filter(|(path, _)| path.starts_with("files: ")) else {
        return line.to_owned();
    };
    let mut words = rest.splitn(3, ' ');
    let (record, mode) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let parts: Vec<String> = record.split('/').map(of_any_machine).collect();
    format!("{path}{OWN}{} {mode}", parts.join("/"))
}

/// A boot's identifier has 36 characters; the number of a namespace stands behind it, or behind the name of a lock.
fn of_any_machine(part: &str) -> String {
    if part.len() > 36
        && part.is_char_boundary(36)
        && part[..36].split('-').all(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return "this-host".to_owned();
    }
    match part.strip_suffix(".lock").and_then(|name| name.rsplit_once('-')) {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{name}-here.lock"),
        _ => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_moment;

    #[test]
    fn records_have_no_content_and_no_number_of_the_moment() {
        for (line, reported) in [
            (
                "files: /run/cni/.cni-plugins-rs/2868ac69-7596-4bdd-b41e-49449e0ac33c-486669/claims/10.88.0.2 100600 \"x y\"",
                "files: /run/cni/.cni-plugins-rs/this-host/claims/10.88.0.2 100600",
            ),
            (
                "files: /run/cni/.cni-plugins-rs/filter-4026532182.lock 100600 \"\"",
                "files: /run/cni/.cni-plugins-rs/filter-here.lock 100600",
            ),
            ("files: /run/cni/net1/.cni-plugins-rs/84 100600 \"#\"", "files: /run/cni/net1/.cni-plugins-rs/84 100600"),
            ("files: /run/cni/net1/10.1.2.3 100600 \"c1\"", "files: /run/cni/net1/10.1.2.3 100600 \"c1\""),
        ] {
            assert_eq!(without_moment(line), reported);
        }
    }
}
