//! One error for every plugin: a code of the SPEC, a message, and the chain of causes.
//!
//! [`fail!`](crate::fail) makes an [`Error`] of a code and a text. Where a caller decides by an error, its module has a small enum and
//! implements [`Failure`] for it, which maps every variant to a [`Code`] in one exhaustive match. One place prints an error: `msg` is the
//! outermost text, `details` the rest of the chain and what could not be undone.

/// The `code` of a CNI error object: SPEC section 5 "Error", and those of the reference plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// 1: the configuration's `cniVersion` is not supported for this command.
    IncompatibleVersion,
    /// 2: a field of the configuration asks for something that this plugin or host cannot do.
    UnsupportedField,
    /// 4: an environment variable is missing or invalid.
    InvalidEnvironment,
    /// 5: reading or writing failed.
    Io,
    /// 6: JSON, or a number in it, could not be decoded.
    Decoding,
    /// 7: the network configuration is invalid.
    InvalidConfig,
    /// 8: `CNI_NETNS` is the namespace of the plugin itself, or not a network namespace.
    InvalidNetns,
    /// 11: a condition that passes, such as a lock that another process holds.
    TryAgain,
    /// 50: STATUS: the plugin cannot serve ADD.
    NotAvailable,
    /// 51: STATUS: the plugin cannot serve ADD, and running containers may have limited connectivity.
    LimitedConnectivity,
    /// 100: CHECK found that something which the container needs is missing or wrong.
    CheckFailed,
    /// 101: the kernel refused a change.
    Kernel,
    /// 102: no address is available.
    AddressUnavailable,
    /// 103: an object of this name exists already and belongs to another owner.
    Conflict,
    /// 104: a program that the plugin runs is missing or failed.
    Program,
    /// 105: the attachment has an address already, or may have.
    AddressHeld,
    /// 999: the plugin itself is at fault.
    Internal,
    /// The code that a delegate reported, unchanged.
    Delegated(u32),
}

impl Code {
    /// The number in the error object.
    pub const fn number(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::UnsupportedField => 2,
            Self::InvalidEnvironment => 4,
            Self::Io => 5,
            Self::Decoding => 6,
            Self::InvalidConfig => 7,
            Self::InvalidNetns => 8,
            Self::TryAgain => 11,
            Self::NotAvailable => 50,
            Self::LimitedConnectivity => 51,
            Self::CheckFailed => 100,
            Self::Kernel => 101,
            Self::AddressUnavailable => 102,
            Self::Conflict => 103,
            Self::Program => 104,
            Self::AddressHeld => 105,
            Self::Internal => 999,
            Self::Delegated(number) => number,
        }
    }
}

/// A module's error: knows its code, and its details when these are not just its chain of sources.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// The code under which the failure is reported.
    fn code(&self) -> Code;

    /// The text of `details`: by default the texts of the chain of sources.
    fn details(&self) -> String {
        let mut texts = Vec::new();
        let mut cause = self.source();
        while let Some(error) = cause {
            texts.push(error.to_string());
            cause = error.source();
        }
        texts.join(": ")
    }
}

/// Makes an [`Error`] of a [`Code`], a text that names the thing with its value, and optionally what helps.
///
/// ```
/// let id = 4097;
/// let error = cni_core::fail!(InvalidConfig, "invalid VLAN ID {id}", details: "vlanId is the number of a VLAN");
/// assert_eq!((error.code().number(), error.to_string().as_str()), (7, "invalid VLAN ID 4097"));
/// ```
#[macro_export]
macro_rules! fail {
    ($code:ident, $text:literal) => { $crate::fail!($code, $text, details: "") };
    ($code:ident, $text:literal, details: $details:literal) => {
        $crate::error::Error::stated($crate::error::Code::$code, format!($text), format!($details))
    };
}

/// A failure on its way to the runtime.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    code: Code,
    text: String,
    details: String,
}

impl Error {
    /// An error of its parts: for [`fail!`](crate::fail), and where the code is a value.
    pub fn stated(code: Code, text: String, details: String) -> Self {
        Self { code, text, details }
    }

    /// The code of the failure.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The text of `details`: the failure's causes, then the notes.
    pub fn details(&self) -> String {
        self.details.clone()
    }

    /// The message with its details, for a note or a log.
    pub fn in_full(&self) -> String {
        if self.details.is_empty() { self.text.clone() } else { format!("{}: {}", self.text, self.details) }
    }

    /// Adds something that the user must know beside the failure, such as an undo step that failed.
    #[must_use]
    pub fn with_note(mut self, note: String) -> Self {
        self.details = if self.details.is_empty() { note } else { format!("{}; {note}", self.details) };
        self
    }
}

impl<F: Failure> From<F> for Error {
    fn from(failure: F) -> Self {
        Self { code: failure.code(), text: failure.to_string(), details: failure.details() }
    }
}

/// The failures of work in which every step is tried: the first is reported, the others are notes in its details.
#[derive(Debug, Default)]
pub struct Failures(Option<Error>);

impl Failures {
    /// Remembers a failure; returns the value of a success.
    pub fn keep<T>(&mut self, done: Result<T, impl Into<Error>>) -> Option<T> {
        match done {
            Ok(value) => Some(value),
            Err(error) => {
                let error = error.into();
                self.0 = Some(match self.0.take() {
                    None => error,
                    Some(first) => first.with_note(format!("and: {}", error.in_full())),
                });
                None
            }
        }
    }

    /// Ends the work: fails if any step has.
    pub fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not do the thing to \"x\"")]
    struct Outer(#[source] std::num::ParseIntError);

    impl Failure for Outer {
        fn code(&self) -> Code {
            Code::Kernel
        }
    }

    #[test]
    fn details_are_the_chain_without_the_message_and_then_the_notes() {
        let cause = "x".parse::<u8>().expect_err("not a number");
        let error = Error::from(Outer(cause)).with_note("also this".to_owned());
        assert_eq!(error.to_string(), "could not do the thing to \"x\"");
        assert_eq!(error.details(), "invalid digit found in string; also this");
        assert_eq!(error.code().number(), 101);
    }

    #[test]
    fn of_several_failures_the_first_is_reported_and_the_others_are_noted() {
        let failure = |text: &str| Outer(text.parse::<u8>().expect_err("not a number"));
        let mut failures = Failures::default();
        assert_eq!(failures.keep(Ok::<_, Error>(1)), Some(1));
        assert_eq!(failures.keep(Err::<(), _>(failure("x"))), None);
        assert_eq!(failures.keep(Err::<(), _>(failure(""))), None);
        let error = failures.into_result().expect_err("failed");
        let second = "and: could not do the thing to \"x\": cannot parse integer from empty string";
        assert_eq!(error.details(), format!("invalid digit found in string; {second}"));
        assert!(Failures::default().into_result().is_ok());
    }
}
