//! Writes log lines to standard error, where runtimes look for them. The environment variable `CNI_PLUGINS_LOG` is one
//! of `error`, `warn`, `info`, `debug`, `trace`, `off`; the default is `warn`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

use crate::output::{complain, one_line};

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
            let line = |plugin: &str| line(plugin, record);
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

/// One line, whatever the message holds: a name that a container has chosen must not look like a line of the log.
fn line(plugin: &str, record: &Record<'_>) -> String {
    format!("{plugin} {}: {}\n", record.level().as_str().to_lowercase(), one_line(&record.args().to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let path = "a\nmacvlan error: b\u{1b}";
        let mut record = Record::builder();
        record.level(log::Level::Warn);
        let written = line("macvlan", &record.args(format_args!("removed from {path}")).build());
        assert_eq!(written, "macvlan warn: removed from a\\u000amacvlan error: b\\u001b\n");
    }
}
