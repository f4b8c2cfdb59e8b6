//! OpenMetrics text, which Prometheus and node_exporter read.

use std::fmt::{self, Write as _};

use cni_linux::output::one_line;

/// A metric, with a sample for each set of labels. All of them are gauges. A name ends with its unit, if it has one.
pub struct Metric {
    pub name: &'static str,
    help: &'static str,
    pub samples: Vec<Sample>,
}

/// A value, and what it is about.
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    /// A range of IPv6 has more addresses than other types can count.
    pub value: u128,
}

impl Metric {
    /// A metric of a name, with what it counts.
    pub fn new(name: &'static str, help: &'static str, samples: impl IntoIterator<Item = Sample>) -> Self {
        Self { name, help, samples: samples.into_iter().collect() }
    }
}

impl Sample {
    /// A number of things.
    pub fn count<const N: usize>(labels: [(&'static str, &str); N], count: usize) -> Self {
        Self { labels: labels.map(|(name, value)| (name, value.to_owned())).into(), value: count as u128 }
    }
}

/// The whole text. It is also valid in the older text format of Prometheus, where lines that begin with `# UNIT` and `# EOF` are comments.
pub fn document(metrics: &[Metric]) -> String {
    let mut text: String = metrics.iter().map(ToString::to_string).collect();
    text.push_str("# EOF\n");
    text
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, help, samples } = self;
        writeln!(f, "# HELP {name} {help}\n# TYPE {name} gauge")?;
        if name.ends_with("_seconds") {
            writeln!(f, "# UNIT {name} seconds")?;
        }
        samples.iter().try_for_each(|sample| writeln!(f, "{name}{sample}"))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { labels, value } = self;
        for (index, (name, value)) in labels.iter().enumerate() {
            f.write_char(if index == 0 { '{' } else { ',' })?;
            write!(f, "{name}=\"{}\"", escaped(value))?;
        }
        if !labels.is_empty() {
            f.write_char('}')?;
        }
        write!(f, " {value}")
    }
}

/// The value of a label. Control characters are replaced by their numbers, as everywhere in the output of this program.
fn escaped(value: &str) -> String {
    one_line(value).replace('\\', r"\\").replace('"', r#"\""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_label_can_hold_anything() {
        for (value, text) in [
            ("plain é", "plain é"),
            (r#"a "b""#, r#"a \"b\""#),
            (r"c:\d", r"c:\\d"),
            ("one\ntwo", r"one\\u000atwo"),
            ("\u{1b}[2J\u{9b}", r"\\u001b[2J\\u009b"),
        ] {
            assert_eq!(escaped(value), text);
        }
    }
}
