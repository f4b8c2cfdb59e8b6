//! Writes log lines to standard error, where runtimes look for them. The environment variable `CNI_PLUGINS_LOG` is one
//! of `error`, `warn`, `info`, `debug`, `trace`, `off`; the default is `warn`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

use crate::output::complain;

struct Stderr {
    plugin: &'static str,
}

/// A delegate that is called inside the process, and what it has said.
struct Delegate {
    plugin: &'static str,
    said: String,
}

/// Those that work at the moment: each was called by the one before it.
static DELEGATES: Mutex<Vec<Delegate>> = Mutex::new(Vec::new());

fn delegates() -> MutexGuard<'static, Vec<Delegate>> {
    DELEGATES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line =
                |plugin: &str| format!("{plugin} {}: {}\n", record.level().as_str().to_lowercase(), record.args());
            match delegates().last_mut() {
                Some(Delegate { plugin, said }) => said.push_str(&line(plugin)),
                None => {
                    complain(&line(self.plugin));
                }
            }
        }
    }

    fn flush(&self) {}
}

/// Sets the logger of the process.
pub fn install(plugin: &'static str) {
    let asked = std::env::var("CNI_PLUGINS_LOG").ok().and_then(|level| level.parse().ok());
    let logger: &'static Stderr = Box::leak(Box::new(Stderr { plugin }));
    if log::set_logger(logger).is_ok() {
        log::set_max_level(asked.unwrap_or(LevelFilter::Warn));
    }
}

/// Does the work of a delegate, and returns what it logs as well, as its process would have written it.
pub fn of_delegate<T>(plugin: &'static str, work: impl FnOnce() -> T) -> (T, String) {
    delegates().push(Delegate { plugin, said: String::new() });
    let done = work();
    let said = delegates().pop().map(|delegate| delegate.said).unwrap_or_default();
    (done, said)
}
