//! Whose something is that its name does not tell: how an attachment is written down in a record, and how it is found
//! out later whether its container is still there.

use std::fmt;

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::request::Request;

use crate::host::{Host, NetnsError};
use crate::plan::Ns;

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

/// The network namespace of an owner's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerHome {
    /// What distinguishes it from all others.
    pub identity: String,
    /// `CNI_NETNS`
    pub path: String,
}

/// What has become of a home.
#[derive(Debug)]
pub enum Residence {
    /// The path leads to it. [`Ns::Container`] means it from now on.
    Kept,
    /// The path leads nowhere, or to another namespace.
    Left,
    /// It cannot be told.
    Unknown(NetnsError),
}

impl OwnerHome {
    /// The namespace of a request's container, which is entered; `None` when there is none, or none that could be
    /// told from others later.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn observe(request: &Request, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let Some(path) = request.netns().filter(|path| !path.is_empty() && !path.contains('\n')) else {
            return Ok(None);
        };
        if let Err(error) = host.enter(path) {
            log::debug!("the container's namespace is not recorded: {error}");
            return Ok(None);
        }
        Ok(host.identity(Ns::Container)?.map(|identity| Self { identity, path: path.to_owned() }))
    }

    /// Reads what is displayed. The path may hold blanks.
    pub fn parse(text: &str) -> Option<Self> {
        let (identity, path) = text.split_once(' ')?;
        Some(Self { identity: identity.to_owned(), path: path.to_owned() })
    }

    /// Looks whether it is still there.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn observe_residence(&self, host: &mut dyn Host) -> Result<Residence, Error> {
        match host.enter(&self.path) {
            Ok(()) => {}
            Err(NetnsError::Gone { .. }) => return Ok(Residence::Left),
            Err(error @ NetnsError::Failed { .. }) => return Ok(Residence::Unknown(error)),
        }
        let is_same = host.identity(Ns::Container)?.as_deref() == Some(self.identity.as_str());
        Ok(if is_same { Residence::Kept } else { Residence::Left })
    }
}

impl fmt::Display for OwnerHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.identity, self.path)
    }
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

    #[test]
    fn a_home_is_read_back_with_the_blanks_of_its_path() {
        let home = OwnerHome { identity: "boot:17".to_owned(), path: "/run/a b".to_owned() };
        assert_eq!((OwnerHome::parse(&home.to_string()), OwnerHome::parse("boot")), (Some(home), None));
    }
}
