//! Log lines on standard error, where runtimes look for them. The environment variable `CNI_PLUGINS_LOG` is one of
//! `error`, `warn`, `info`, `debug`, `trace`, `off`; without it, warnings and errors are logged.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr {
    plugin: &'static str,
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}: {}\n", self.plugin, record.level().as_str().to_lowercase(), record.args());
            let _lost = std::io::stderr().lock().write_all(line.as_bytes());
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
