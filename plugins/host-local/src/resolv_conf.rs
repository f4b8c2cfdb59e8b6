//! The name resolution of a `resolv.conf`, as the reference reads it.
//!
//! Pure: `add.rs` reads the file.

use cni_core::result::Dns;

/// The longest line that the reference can read.
const LINE_LEN: usize = 64 * 1024 - 1;

/// A line is too long for the reference, and so for us: the result must not depend on who reads the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than 64 KiB")]
pub struct LineTooLong;

/// Reads the name servers, the domain, the search list and the options. Lines with other words are skipped, and
/// so are lines that are comments.
pub fn parse(bytes: &[u8]) -> Result<Dns, LineTooLong> {
    let text = String::from_utf8_lossy(bytes);
    let mut dns = Dns::default();
    for line in text.split('\n') {
        if line.len() > LINE_LEN {
            return Err(LineTooLong);
        }
        let mut words = line.split_whitespace();
        let (Some(key), Some(first)) = (words.next(), words.next()) else { continue };
        let all = std::iter::once(first).chain(words).map(str::to_owned);
        match key {
            "nameserver" => dns.nameservers.get_or_insert_default().push(first.to_owned()),
            "domain" => first.clone_into(&mut dns.domain),
            "search" => dns.search.get_or_insert_default().extend(all),
            "options" => dns.options.get_or_insert_default().extend(all),
            _ => {}
        }
    }
    Ok(dns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn lists_accumulate_and_the_last_domain_wins() {
        let text = "; old\n#nameserver 1.1.1.1\nnameserver 9.9.9.9 # quad\n  nameserver\tnot-checked\r\n\
                    domain a.example\ndomain b.example c\nsearch x y\nsearch z\noptions ndots:2 # five\nNameserver 8.8.8.8\n\
                    nameserver\nsortlist 10.0.0.0\n";
        let want = Dns {
            nameservers: words(&["9.9.9.9", "not-checked"]),
            domain: "b.example".to_owned(),
            search: words(&["x", "y", "z"]),
            options: words(&["ndots:2", "#", "five"]),
        };
        assert_eq!(parse(text.as_bytes()), Ok(want));
    }

    #[test]
    fn nothing_said_is_nothing_known() {
        assert_eq!(parse(b"\n# nothing\nnameserver\n").map(|dns| dns.is_absent()), Ok(true));
    }

    #[test]
    fn a_line_may_have_64_kibibytes_with_its_end() {
        let line = format!("search {}\n", "x".repeat(LINE_LEN - 7));
        assert_eq!(parse(line.as_bytes()).map(|dns| dns.search.map(|list| list.len())), Ok(Some(1)));
        assert_eq!(parse(format!("search {}", "x".repeat(LINE_LEN - 6)).as_bytes()), Err(LineTooLong));
    }
}
