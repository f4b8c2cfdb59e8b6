//! The flags of `dhcp daemon`: those of the reference, in the syntax of Go's programs.

use std::time::Duration;

use crate::client::Limits;

/// The command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// The path of the socket.
    pub socket: String,
    /// The prefix of that path and of namespaces' paths, for a daemon in a container.
    pub host_prefix: String,
    /// The file for the process id.
    pub pid_file: Option<String>,
    /// The time limits for servers.
    pub limits: Limits,
    /// Whether servers are asked to answer by broadcast.
    pub broadcast: bool,
}

/// The socket that plugins ask unless `daemonSocketPath` says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/cni/dhcp.sock";

impl Default for Flags {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.to_owned(),
            host_prefix: String::new(),
            pid_file: None,
            limits: Limits::default(),
            broadcast: false,
        }
    }
}

/// The help text.
pub const USAGE: &str = "Usage of dhcp daemon:
  -broadcast
        ask DHCP servers to answer to everybody, for interfaces that share a MAC address
  -hostprefix string
        prefix of the socket's path and of those of network namespaces, for a daemon in a container
  -pidfile string
        file to write the number of the process to
  -resendmax duration
        longest pause between two messages (default 1m2s)
  -resendtimeout duration
        how long an address is asked for (default 3m28s)
  -socketpath string
        socket to listen on (default \"/run/cni/dhcp.sock\")
  -timeout duration
        longest first pause, and how long a known address is asked for (default 10s)
";

/// Why there are no flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagsError {
    /// Help was requested.
    #[error("flag: help requested")]
    Help,
    /// The command line is not understood.
    #[error("{0}")]
    Wrong(String),
}

impl Flags {
    /// Parses a command line. As in Go's programs, everything after the first word that is not a flag is ignored.
    pub fn parse(words: &[String]) -> Result<Self, FlagsError> {
        let mut flags = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(text) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|text| !text.is_empty())
            else {
                break;
            };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            flags.set(name, value, &mut words)?;
        }
        Ok(flags)
    }

    fn set<'a>(
        &mut self,
        name: &str,
        value: Option<String>,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), FlagsError> {
        if name == "broadcast" {
            self.broadcast = boolean(name, value.as_deref())?;
            return Ok(());
        }
        if ["h", "help"].contains(&name) {
            return Err(FlagsError::Help);
        }
        if !["socketpath", "hostprefix", "pidfile", "timeout", "resendmax", "resendtimeout"].contains(&name) {
            return Err(FlagsError::Wrong(format!("flag provided but not defined: -{name}")));
        }
        let no_value = || FlagsError::Wrong(format!("flag needs an argument: -{name}"));
        let value = value.or_else(|| words.next().cloned()).ok_or_else(no_value)?;
        match name {
            "socketpath" => self.socket = value,
            "hostprefix" => self.host_prefix = value,
            "pidfile" => self.pid_file = Some(value).filter(|path| !path.is_empty()),
            "timeout" => self.limits.first = duration(name, &value)?,
            "resendmax" => self.limits.pause = duration(name, &value)?,
            _ => self.limits.whole = duration(name, &value)?,
        }
        Ok(())
    }
}

fn boolean(flag: &str, value: Option<&str>) -> Result<bool, FlagsError> {
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(other) => Err(invalid(flag, other, "neither true nor false")),
    }
}

fn invalid(flag: &str, value: &str, problem: &str) -> FlagsError {
    FlagsError::Wrong(format!("invalid value {value:?} for flag -{flag}: {problem}"))
}

/// The units of Go's `time.ParseDuration`, in nanoseconds, the longer names first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("h", 3.6e12),
    ("m", 6e10),
    ("s", 1e9),
];

/// The longest time that makes sense: a day.
const LONGEST: f64 = 8.64e13;

fn duration(flag: &str, text: &str) -> Result<Duration, FlagsError> {
    match nanoseconds(text).filter(|time| (0.0..=LONGEST).contains(time)) {
        Some(time) if time > 0.0 => Ok(Duration::from_secs_f64(time / 1e9)),
        Some(_) | None => Err(invalid(flag, text, "not a time such as 1m30s, more than nothing and at most a day")),
    }
}

fn nanoseconds(text: &str) -> Option<f64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let (unit, factor) = UNITS.into_iter().find(|(unit, _)| behind.starts_with(unit))?;
        sum += number.parse::<f64>().ok()? * factor;
        rest = behind.strip_prefix(unit)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Flags::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn every_flag_is_read_in_every_spelling() {
        let line = "-socketpath /x.sock --hostprefix=/host -pidfile /x.pid --timeout 1s -resendmax=1m2.5s \
                    --resendtimeout 1h2m3s --broadcast=true";
        let ms = Duration::from_millis;
        let want = Flags {
            socket: "/x.sock".to_owned(),
            host_prefix: "/host".to_owned(),
            pid_file: Some("/x.pid".to_owned()),
            limits: Limits { first: ms(1000), pause: ms(62_500), whole: ms(3_723_000) },
            broadcast: true,
        };
        assert_eq!(parse(line), Ok(want));
        assert_eq!(parse(""), Ok(Flags::default()));
        assert_eq!(parse("word -unknown"), Ok(Flags::default()), "as Go's programs do");
        assert_eq!(parse("-broadcast -pidfile="), Ok(Flags { broadcast: true, ..Flags::default() }));
        assert_eq!(parse("-timeout 250ms").expect("good").limits.first, ms(250));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, says) in [
            ("-unknown", "flag provided but not defined: -unknown"),
            ("-timeout", "flag needs an argument: -timeout"),
            ("-broadcast=maybe", r#"invalid value "maybe" for flag -broadcast: neither true nor false"#),
            ("--help", "flag: help requested"),
        ] {
            assert_eq!(parse(line), Err(says.to_owned()));
        }
        for value in ["5", "", "s", "-1s", "0s", "1d", "1.2.3s", "25h", "1e3s"] {
            let says = parse(&format!("-timeout={value}")).expect_err("refused");
            assert!(says.starts_with(&format!("invalid value {value:?} for flag -timeout: not a time")), "{says}");
        }
    }
}
