//! Names of tables, chains, sets and comments. They have at most the length that the kernel and `nft` accept, and no
//! character with a special meaning in a script.

use std::fmt;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::hash_hex;

/// `NFT_NAME_MAXLEN` of `linux/netfilter/nf_tables.h`, less the end mark.
const NAME_LEN: usize = 255;

/// `NFTNL_UDATA_COMMENT_MAXLEN` of libnftnl's `udata.h`: what `nft` itself accepts.
const COMMENT_LEN: usize = 128;

/// The name of a table, a chain or a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NftName(String);

impl NftName {
    /// Accepts a name that fits.
    ///
    /// # Errors
    /// For one that is empty, too long, or holds a character that a script cannot hold.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "\"';{}#\\".contains(c);
        if (1..=NAME_LEN).contains(&name.len()) && !name.contains(odd) {
            Ok(Self(name.to_owned()))
        } else {
            Err(fail!(
                InvalidConfig,
                "invalid nftables name {name:?}",
                details: "it must have 1 to {NAME_LEN} bytes, no blank, and none of \"';{{}}#\\"
            ))
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
    /// For one that is too long, or holds a character that `nft` cannot read back.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let comment = Self::cut(text);
        if comment.0 == text {
            return Ok(comment);
        }
        Err(fail!(
            InvalidConfig,
            "invalid nftables comment {text:?}",
            details: "it must have at most {COMMENT_LEN} bytes, and no quotation mark"
        ))
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
            assert_eq!(NftName::parse(good).map(|name| name.to_string()).ok(), Some(good.to_owned()));
        }
        for bad in ["", "a b", "a;b", "a\nb", "{", "a\"", "a#b", &"n".repeat(256)] {
            let error = NftName::parse(bad).expect_err(bad);
            assert_eq!((error.code().number(), error.to_string()), (7, format!("invalid nftables name {bad:?}")));
        }
        let hashed = NftName::hashed("cni-br-iface-", &"n".repeat(300), "-mac");
        assert_eq!(NftName::parse(hashed.as_str()).map(|name| name.as_str().len()).ok(), Some(13 + 64 + 4));
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
        let error = NftComment::parse(&long).expect_err("too long");
        assert_eq!((error.code().number(), error.to_string()), (7, format!("invalid nftables comment {long:?}")));
        assert_eq!(NftComment::parse(&"x".repeat(128)).map(|comment| comment.as_str().len()).ok(), Some(128));
    }
}
