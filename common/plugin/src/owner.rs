//! The owner in a record: the names of an attachment, as text.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};

/// The three names of an attachment in one line. None of them can hold a blank.
pub fn text(owner: &Attachment) -> String {
    format!("{} {} {}", owner.network, owner.container, owner.ifname)
}

/// Reads three words of what [`text`] writes; `None` when they are no such names.
pub fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Attachment> {
    let network = NetworkName::parse(words.next()?).ok()?;
    let container = ContainerId::parse(words.next()?).ok()?;
    let ifname = IfName::parse(words.next()?).ok()?;
    Some(Attachment { network, container, ifname })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_three_words_that_are_read_back() {
        let owner = parse(&mut "net ctr eth0".split(' ')).expect("an owner");
        assert_eq!(text(&owner), "net ctr eth0");
        for text in ["", "net", "net ctr", "net a/b eth0", "net ctr a/b"] {
            assert_eq!(parse(&mut text.split(' ')), None, "{text}");
        }
    }
}
