//! Names with rules: names of containers, networks, interfaces and chains, and comments.
//!
//! The names of kernel objects are derived from an [`Attachment`] by the formulas of the reference plugins, so each
//! implementation finds the objects of the other.

use std::fmt;

use sha2::{Digest, Sha512};

use crate::error::Error;
use crate::fail;

macro_rules! text_newtype {
    ($name:ident) => {
        impl $name {
            /// The text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// The identity of a container, unique for its runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(String);
text_newtype!(ContainerId);

impl ContainerId {
    /// Accepts an id that follows SPEC "Parameters": it starts with a letter or digit; after that, `_.-` are allowed too.
    pub fn parse(id: &str) -> Result<Self, Error> {
        if is_spec_name(id) {
            Ok(Self(id.to_owned()))
        } else {
            Err(fail!(InvalidEnvironment, "invalid characters in containerID", details: "{id}"))
        }
    }
}

/// The name of a network, unique on its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkName(String);
text_newtype!(NetworkName);

impl NetworkName {
    /// Accepts a name that follows SPEC "Configuration format": it has the characters of a container id.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "" => Err(fail!(InvalidConfig, "missing network name")),
            name if is_spec_name(name) => Ok(Self(name.to_owned())),
            name => Err(fail!(InvalidConfig, "invalid characters found in network name", details: "{name}")),
        }
    }
}

fn is_spec_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// The name of a network interface, as the kernel accepts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IfName(String);
text_newtype!(IfName);

impl IfName {
    /// Accepts a name of at most 15 bytes (`IFNAMSIZ` of `linux/if.h`) that can be part of a path below `/proc/sys/net`, as `dev_valid_name`
    /// of `net/core/dev.c` does. The rules have the order of the reference.
    pub fn parse(name: &str) -> Result<Self, Error> {
        Err(match name {
            "" => fail!(InvalidEnvironment, "interface name is empty"),
            long if long.len() > 15 => fail!(
                InvalidEnvironment,
                "interface name is too long",
                details: "interface name should be less than 16 characters"
            ),
            "." | ".." => fail!(InvalidEnvironment, "interface name is . or .."),
            odd if odd.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0') => {
                fail!(InvalidEnvironment, "interface name contains / or : or whitespace characters")
            }
            good => return Ok(Self(good.to_owned())),
        })
    }

    /// A name for the host end of a veth: `veth` and eight hexadecimal digits.
    pub fn host_veth(random: u32) -> Self {
        Self(format!("veth{random:08x}"))
    }

    /// The loopback interface.
    pub fn lo() -> Self {
        Self("lo".to_owned())
    }
}

/// The name of an iptables chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(String);
text_newtype!(ChainName);

/// The longest chain name: `XT_EXTENSION_MAXNAMELEN` of `linux/netfilter/x_tables.h`, less one.
const CHAIN_LEN: usize = 28;

impl ChainName {
    /// Accepts a chain name of the user that iptables neither refuses nor misreads.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let fits = (1..=CHAIN_LEN).contains(&name.len());
        let clean = name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'));
        if fits && clean && !name.starts_with(['-', '!', ':', '*', '#', '[']) {
            Ok(Self(name.to_owned()))
        } else {
            Err(fail!(
                InvalidConfig,
                "invalid chain name {name:?}",
                details: "an iptables chain has 1 to 28 characters, no blank, and does not start with - or !"
            ))
        }
    }

    /// A chain with a name that is fixed in the program.
    pub fn fixed(name: &'static str) -> Self {
        debug_assert!(name.len() <= CHAIN_LEN);
        Self(name.to_owned())
    }
}

/// The text of an iptables comment: at most 255 bytes, which is what the kernel keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Comment(String);
text_newtype!(Comment);

/// The length of a comment that `xt_comment` keeps, without the terminating null byte: `linux/netfilter/xt_comment.h`.
const COMMENT_LEN: usize = 255;

impl Comment {
    /// Takes a text, cut to what the kernel keeps: it ends at a byte of zero, too.
    pub fn new(text: &str) -> Self {
        let text = text.split('\0').next().unwrap_or_default();
        Self(cut(text, COMMENT_LEN).to_owned())
    }

    /// Makes a comment from a text. A text that is too long is cut and ends in two dots: the reference's portmap
    /// appends three, and the kernel keeps two of them.
    fn elided(text: &str) -> Self {
        if text.len() <= COMMENT_LEN {
            return Self(text.to_owned());
        }
        Self(format!("{}..", cut(text, COMMENT_LEN - 2)))
    }

    /// Whether the comment was made by [`Attachment::comment`] or [`Attachment::dnat_comment`] for an attachment in the
    /// network. The container cannot be read from it, since a long comment is cut.
    pub fn is_of(&self, network: &NetworkName) -> bool {
        let text = self.0.strip_prefix(DNAT).unwrap_or(&self.0);
        text.starts_with(&in_network(network))
    }
}

/// The beginning of the comment of a port mapping rule.
const DNAT: &str = "dnat ";

fn in_network(network: &NetworkName) -> String {
    format!("name: \"{network}\" id: \"")
}

fn cut(text: &str, len: usize) -> &str {
    let mut end = len.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// One container in one network through one interface. Everything that a plugin makes belongs to one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The network.
    pub network: NetworkName,
    /// The container.
    pub container: ContainerId,
    /// The interface inside the container.
    pub ifname: IfName,
}

impl Attachment {
    /// The chain that holds the masquerade rules: `CNI-` and 24 digits of the hash.
    pub fn masquerade_chain(&self) -> ChainName {
        self.hashed_chain("CNI-")
    }

    /// The chain that holds the port mappings: `CNI-DN-` and 21 digits of the hash.
    pub fn dnat_chain(&self) -> ChainName {
        self.hashed_chain("CNI-DN-")
    }

    /// The chain that holds the port mappings of an interface where another one of the container, in the same network, has
    /// [`Attachment::dnat_chain`]. No name contains the separator.
    pub fn interface_dnat_chain(&self) -> ChainName {
        let digest = hash_hex(&format!("{}/{}/{}", self.network, self.container, self.ifname));
        ChainName(format!("CNI-DN-{}", &digest[..CHAIN_LEN - "CNI-DN-".len()]))
    }

    /// The chain in which old releases of portmap kept their source translation.
    pub fn snat_chain(&self) -> ChainName {
        self.hashed_chain("CNI-SN-")
    }

    /// The comment of masquerade rules.
    pub fn comment(&self) -> Comment {
        Comment::new(&self.quoted(""))
    }

    /// The comment of port mapping rules.
    pub fn dnat_comment(&self) -> Comment {
        Comment::elided(&self.quoted(DNAT))
    }

    fn quoted(&self, prefix: &str) -> String {
        format!("{prefix}{}{}\"", in_network(&self.network), self.container)
    }

    /// The interface is not part of the name, so two interfaces in one network share their chains.
    fn hashed_chain(&self, prefix: &str) -> ChainName {
        let digest = hash_hex(&format!("{}{}", self.network, self.container));
        ChainName(format!("{prefix}{}", &digest[..CHAIN_LEN - prefix.len()]))
    }
}

/// The SHA-512 of a text in lower-case hexadecimal digits.
pub fn hash_hex(text: &str) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    Sha512::digest(text.as_bytes()).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn attachment(network: &str, container: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse(network).expect("network"),
            container: ContainerId::parse(container).expect("container"),
            ifname: IfName::parse("eth0").expect("interface"),
        }
    }

    #[test]
    fn container_ids_follow_the_spec() {
        for good in ["a", "ABCdef", "0-1_2.3", &"x".repeat(400)] {
            assert!(ContainerId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "a b", "a\n", "ü", "a/b"] {
            let error =
                Error::stated(Code::InvalidEnvironment, "invalid characters in containerID".to_owned(), bad.to_owned());
            assert_eq!(ContainerId::parse(bad), Err(error));
        }
    }

    #[test]
    fn interface_names_follow_the_kernel() {
        let refused = |name: &str| IfName::parse(name).expect_err("refused").in_full();
        let too_long = "interface name is too long: interface name should be less than 16 characters";
        assert_eq!(refused("abcdefghijklmnop"), too_long);
        assert_eq!(refused(".."), "interface name is . or ..");
        for odd in ["a/b", "a:b", "a b", "a\tb", "a\u{a0}b"] {
            assert_eq!(refused(odd), "interface name contains / or : or whitespace characters");
        }
        for good in ["eth0", "-x", "a%d", "abcdefghijklmno", "eth0.100"] {
            assert!(IfName::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_long_comment_is_cut_where_the_kernel_cuts_the_references() {
        let at = attachment("n1", &"x".repeat(300));
        let text = at.dnat_comment().to_string();
        assert_eq!(text.len(), 255);
        assert!(text.starts_with("dnat name: \"n1\" id: \"xxx") && text.ends_with("x.."));
        let text = at.comment().to_string();
        assert!(text.len() == 255 && text.ends_with("xx"));
        assert_eq!(Comment::new("a\0b").as_str(), "a");
    }

    #[test]
    fn a_comment_tells_its_network() {
        let network = |name: &str| NetworkName::parse(name).expect("network");
        for id in ["c", &"x".repeat(300)] {
            let at = attachment("n1", id);
            for comment in [at.comment(), at.dnat_comment()] {
                assert!(comment.is_of(&network("n1")) && !comment.is_of(&network("n")), "{comment}");
            }
        }
        for foreign in ["", "n1", "dnat dnat name: \"n1\" id: \"c\"", "name: \"n1\" ID: \"c\""] {
            assert!(!Comment::new(foreign).is_of(&network("n1")), "{foreign}");
        }
    }

    #[test]
    fn a_users_chain_name_must_be_one_that_iptables_takes() {
        assert!(ChainName::parse("NOMAD-ADMIN").is_ok());
        for bad in ["", "A B", "-A", "!A", &"C".repeat(29), "a\"b"] {
            assert_eq!(ChainName::parse(bad).expect_err("refused").to_string(), format!("invalid chain name {bad:?}"));
        }
    }
}
