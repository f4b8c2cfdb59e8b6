//! Calls over D-Bus, each with a time limit.
//!
//! Each call has its own connection, which is closed before the answer is read. So zbus needs no thread, and a plugin
//! that makes no call pays nothing.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use cni_core::error::{Code, Failure};
use zbus::connection::Builder;
use zbus::{Connection, DBusError, fdo};
use zruntime::{SharedRuntime, TimedOut};

/// Errors of a call over D-Bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// Nothing listens.
    #[error("cannot connect to D-Bus at {}", place(address))]
    Absent {
        address: String,
        /// The system's word, or what is wrong with the address.
        #[source]
        source: Arc<io::Error>,
    },
    /// The bus does not answer in time.
    #[error("D-Bus at {} did not answer within {limit:?}", place(address))]
    Silent { address: String, limit: Duration },
    /// The bus closed the connection, refused the process, or sent something that cannot be decoded.
    #[error("the connection to D-Bus at {} failed: {problem}", place(address))]
    Failed { address: String, problem: zbus::Error },
}

impl Failure for BusError {
    fn code(&self) -> Code {
        match self {
            Self::Absent { .. } => Code::Program,
            Self::Silent { .. } => Code::TryAgain,
            Self::Failed { .. } => Code::Io,
        }
    }
}

/// Most buses are a file.
fn place(address: &str) -> &str {
    address.strip_prefix("unix:path=").unwrap_or(address)
}

/// The answer of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BusAnswer<T> {
    Value(T),
    /// The call failed, with the text of the error.
    Error {
        /// Which failure it is.
        name: String,
        /// The words, which may be none.
        text: String,
    },
}

/// The address of a bus, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Bus {
    /// D-Bus specification, "Server Addresses": several, with a semicolon between them.
    pub(super) addresses: String,
    /// The time limit for a connection, and for an answer.
    pub(super) limit: Cell<Duration>,
}

/// The time limit after an address has timed out once, so that the call does not wait ten seconds for each address. The
/// message is still sent, and takes effect when it is read.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// A connection to a bus.
pub(super) struct OpenBus {
    pub(super) connection: Connection,
    address: String,
    limit: Duration,
}

impl Bus {
    /// Connects, and asks.
    pub(super) fn ask<T>(&self, ask: impl AsyncFnOnce(&OpenBus) -> Result<T, BusError>) -> Result<T, BusError> {
        let answer = zbus::block_on(async { ask(&self.connect().await?).await });
        if let Err(BusError::Silent { .. }) = answer {
            self.limit.set(self.limit.get().min(IMPATIENCE));
        }
        answer
    }

    /// Connects to the first address where a bus listens.
    async fn connect(&self) -> Result<OpenBus, BusError> {
        let mut addresses = self.addresses.split(';');
        let mut tried = self.connect_to(addresses.next().unwrap_or_default()).await;
        for address in addresses {
            if tried.is_ok() {
                break;
            }
            tried = self.connect_to(address).await;
        }
        tried
    }

    async fn connect_to(&self, address: &str) -> Result<OpenBus, BusError> {
        let (limit, builder) = (self.limit.get(), Builder::address(address));
        match within(limit, builder.build()).await {
            Ok(Ok(connection)) => Ok(OpenBus { connection, address: address.to_owned(), limit }),
            Ok(Err(problem)) => Err(not_connected(address.to_owned(), problem)),
            Err(TimedOut { .. }) => Err(BusError::Silent { address: address.to_owned(), limit }),
        }
    }
}

impl OpenBus {
    /// Waits for the answer of a method.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = zbus::Result<T>>,
    ) -> Result<BusAnswer<T>, BusError> {
        let address = || self.address.clone();
        match within(self.limit, call).await {
            Ok(answer) => BusAnswer::of(answer).map_err(|problem| BusError::Failed { address: address(), problem }),
            Err(TimedOut { .. }) => Err(BusError::Silent { address: address(), limit: self.limit }),
        }
    }
}

impl<T> BusAnswer<T> {
    /// A method that fails has answered.
    fn of(answer: zbus::Result<T>) -> zbus::Result<Self> {
        match answer {
            Ok(value) => Ok(Self::Value(value)),
            Err(zbus::Error::MethodError(name, text, _)) => {
                Ok(Self::Error { name: name.to_string(), text: text.unwrap_or_default() })
            }
            Err(zbus::Error::FDO(error)) => Self::of_standard_error(*error),
            Err(error) => Err(error),
        }
    }

    /// zbus has types of its own for the failures that have a name in the D-Bus specification.
    fn of_standard_error(error: fdo::Error) -> zbus::Result<Self> {
        if let fdo::Error::ZBus(error) = error {
            return Err(error);
        }
        let text = error.description().unwrap_or_default().to_owned();
        Ok(Self::Error { name: error.name().to_string(), text })
    }
}

/// Waits for something to happen, but not forever.
async fn within<T>(limit: Duration, work: impl Future<Output = zbus::Result<T>>) -> Result<zbus::Result<T>, TimedOut> {
    match SharedRuntime::current() {
        Ok(runtime) => runtime.timeout(limit, work).await,
        Err(error) => Ok(Err(error.into())),
    }
}

/// An invalid address leads to no bus.
fn not_connected(address: String, problem: zbus::Error) -> BusError {
    if let zbus::Error::Connection(source, _) = &problem
        && is_absence(source)
    {
        return BusError::Absent { address, source: Arc::clone(source) };
    }
    if let zbus::Error::Address(text) = problem {
        return BusError::Absent { address, source: Arc::new(io::Error::other(text)) };
    }
    BusError::Failed { address, problem }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}
