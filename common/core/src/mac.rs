//! Link-layer addresses.

use std::fmt;
use std::str::FromStr;

/// Text that is not a link-layer address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {text}: invalid MAC address")]
pub struct MacError {
    text: String,
}

/// A link-layer address of 6, 8 or 20 bytes, printed in lower case with colons.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mac(Vec<u8>);

impl Mac {
    /// Wraps the bytes that the kernel reports; `None` if they are missing or all zero, which means "no address".
    pub fn from_kernel(bytes: &[u8]) -> Option<Self> {
        if bytes.iter().all(|byte| *byte == 0) { None } else { Some(Self(bytes.to_vec())) }
    }

    /// A locally administered unicast address from six random bytes.
    pub fn local(mut random: [u8; 6]) -> Self {
        random[0] = (random[0] & 0xfe) | 0x02;
        Self(random.to_vec())
    }

    /// The bytes, most significant first.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a text means this address. tuning of the reference writes it into its result as the configuration spells it.
    pub fn is(&self, text: &str) -> bool {
        text.parse().as_ref() == Ok(self)
    }
}

impl FromStr for Mac {
    type Err = MacError;

    /// Accepts `aa:bb:…`, `aa-bb-…` and `aabb.ccdd.…` in any case, as Go's `net.ParseMAC` documents.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let refused = || MacError { text: text.to_owned() };
        let (separator, group) = match text.chars().find(|c| matches!(c, ':' | '-' | '.')) {
            Some('.') => ('.', 4),
            Some(separator) => (separator, 2),
            None => return Err(refused()),
        };
        let mut bytes = Vec::new();
        for part in text.split(separator) {
            if part.len() != group || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(refused());
            }
            for start in (0..group).step_by(2) {
                bytes.push(u8::from_str_radix(&part[start..start + 2], 16).map_err(|_| refused())?);
            }
        }
        if matches!(bytes.len(), 6 | 8 | 20) { Ok(Self(bytes)) } else { Err(refused()) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_read_in_every_spelling_and_printed_in_one() {
        for text in ["AA:bb:cc:00:11:22", "aa-bb-cc-00-11-22", "aabb.cc00.1122"] {
            assert_eq!(
                text.parse::<Mac>().map(|mac| (mac.to_string(), mac.is(text))),
                Ok(("aa:bb:cc:00:11:22".to_owned(), true))
            );
        }
    }

    #[test]
    fn a_text_that_is_no_mac_is_named() {
        for text in
            ["", "zz", "aa:bb", "aa:bb:cc:00:11:2", "aa:bb:cc:00:11:zz", "aa:bb-cc:00:11:22", "aa:bb:cc:00:11:é"]
        {
            let error = text.parse::<Mac>().expect_err("refused");
            assert_eq!(error.to_string(), format!("address {text}: invalid MAC address"));
        }
    }

    #[test]
    fn a_local_mac_is_unicast() {
        assert_eq!(Mac::local([0xff; 6]).to_string(), "fe:ff:ff:ff:ff:ff");
    }
}
