//! Names of tables, chains, sets and comments. They have at most the length that the kernel and `nft` accept, and no
//! character with a special meaning in a script.

use std::fmt;

use cni_core::error::{Code, Failure};
use cni_core::names::hash_hex;

/// `NFT_NAME_MAXLEN` of `linux/netfilter/nf_tables.h`, less the end mark.
const NAME_LEN: usize = 255;

/// `NFTNL_UDATA_COMMENT_MAXLEN` of libnftnl's `udata.h`: what `nft` itself accepts.
const COMMENT_LEN: usize = 128;

/// A name or a comment that breaks its rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// A name of nf_tables has 1 to 255 bytes, and none that a script reads as something else.
    #[error("invalid nftables name {name:?}")]
    Name { name: String },
    /// A comment of nf_tables has at most 128 bytes, none of them a quotation mark or a control character.
    #[error("invalid nftables comment {text:?}")]
    Comment { text: String },
}

impl Failure for WordError {
    fn code(&self) -> Code {
        match self {
            Self::Name { .. } | Self::Comment { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Name { .. } => format!("it must have 1 to {NAME_LEN} bytes, no blank, and none of \"';{{}}#\\"),
            Self::Comment { .. } => format!("it must have at most {COMMENT_LEN} bytes, and no quotation mark"),
        }
    }
}

/// The name of a table, a chain or a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NftName(String);

impl NftName {
    /// Accepts a name that fits.
    ///
    /// # Errors
    /// [`WordError::Name`] for one that is empty, too long, or holds a character that a script cannot hold.
    pub fn parse(name: &str) -> Result<Self, WordError> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "\"';{}#\\".contains(c);
        if (1..=NAME_LEN).contains(&name.len()) && !name.contains(odd) {
            Ok(Self(name.to_owned()))
        } else {
            Err(WordError::Name { name: name.to_owned() })
        }
    }

    /// A name that is part of the program.
    pub fn fixed(name: &'static str) -> Self {
        debug_assert!(Self::parse(name).is_ok());
        Self(name.to_owned())
    }

    /// A name of two fixed parts, with 64 digits between them: the hash of a text of any length.
    pub fn hashed(start: &'static str, text: &str, end: &'static str) -> Self {
        let name = format!("{start}{}{end}", &hash_hex(text)[..64]);
        debug_assert!(Self::parse(&name).is_ok());
        Self(name)
    }

    /// A name made of a fixed part, and 16 hash digits for each of some texts of any length. Names whose first texts
    /// are the same have the same beginning.
    pub fn hashed_parts(start: &'static str, texts: &[&str]) -> Self {
        let digits = texts.iter().map(|text| hash_hex(text)[..16].to_owned());
        let name = [start.to_owned()].into_iter().chain(digits).collect::<Vec<_>>().join("-");
        debug_assert!(Self::parse(&name).is_ok());
        Self(name)
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NftName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The comment of a table, a chain or a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NftComment(String);

impl NftComment {
    /// Accepts a comment that fits.
    ///
    /// # Errors
    /// [`WordError::Comment`] for one that is too long, or holds a character that `nft` cannot read back.
    pub fn parse(text: &str) -> Result<Self, WordError> {
        let comment = Self::cut(text);
        if comment.0 == text { Ok(comment) } else { Err(WordError::Comment { text: text.to_owned() }) }
    }

    /// Takes a text without its quotation marks and control characters, and no more of it than fits.
    pub fn cut(text: &str) -> Self {
        let mut text: String = text.chars().filter(|c| *c != '"' && !c.is_control()).collect();
        let mut end = COMMENT_LEN.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self(text)
    }

    /// The text of the comment.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NftComment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_long_as_the_kernel_takes_and_stays_one_word() {
        for good in ["a", "cni-br-iface-id1-eth0.100-mac", "_x", &"n".repeat(255)] {
            assert_eq!(NftName::parse(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "a b", "a;b", "a\nb", "{", "a\"", "a#b", &"n".repeat(256)] {
            assert_eq!(NftName::parse(bad), Err(WordError::Name { name: bad.to_owned() }));
        }
        let hashed = NftName::hashed("cni-br-iface-", &"n".repeat(300), "-mac");
        assert_eq!(NftName::parse(hashed.as_str()).map(|name| name.as_str().len()), Ok(13 + 64 + 4));
        assert_eq!(
            NftName::hashed_parts("dnat", &["net1", "eth0:id1"]).as_str(),
            "dnat-8e48f37d5de60467-d509459a5455817c"
        );
    }

    #[test]
    fn a_comment_is_cut_between_characters() {
        let long = format!("{}ü", "x".repeat(127));
        assert_eq!(NftComment::cut(&long).as_str(), "x".repeat(127));
        assert_eq!(NftComment::cut("a \"b\"\n c").as_str(), "a b c");
        assert_eq!(NftComment::parse(&long), Err(WordError::Comment { text: long }));
        assert_eq!(NftComment::parse(&"x".repeat(128)).map(|comment| comment.as_str().len()), Ok(128));
    }
}
