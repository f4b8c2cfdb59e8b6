//! The parameters that the administrator allows: a file with one pattern on each line. Without the file every
//! parameter of the container is allowed; with an empty file, none.

use std::path::Path;
use std::str::Chars;

use cni_core::error::Error;
use cni_core::fail;
use cni_plugin::host::Host;
use regex_lite::Regex;

use crate::sysctl::Parameter;

/// The path of the administrator's list; nodes of OpenShift have such a file.
const PATH: &str = "/etc/cni/tuning/allowlist.conf";

/// Verifies that the administrator allows all of these.
pub fn verify(parameters: &[Parameter], host: &mut dyn Host) -> Result<(), Error> {
    if parameters.is_empty() {
        return Ok(());
    }
    let Some(text) = host.files().administrators_file(Path::new(PATH))? else { return Ok(()) };
    parameters.iter().try_for_each(|parameter| verify_key(&parameter.key, &text))
}

/// Verifies that a line of the list matches a key; there are no comments.
fn verify_key(key: &str, list: &str) -> Result<(), Error> {
    let lines: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &lines {
        if matches(line, key)? {
            return Ok(());
        }
    }
    let text = format!("Only the following sysctls are allowed: [{}]", lines.join(" "));
    Err(fail!(InvalidConfig, "Sysctl {key} is not allowed. {text}", details: "no line of {PATH} matches it"))
}

/// Whether a line matches a part of a key.
///
/// # Errors
/// For a line that is no pattern, or means not the same to our engine.
fn matches(line: &str, key: &str) -> Result<bool, Error> {
    let no_pattern =
        |fault: String| fail!(InvalidConfig, "error parsing regexp: {fault}", details: "the line {line:?} of {PATH}");
    let pattern = translate(line).map_err(no_pattern)?;
    Ok(Regex::new(&pattern).map_err(|fault| no_pattern(fault.to_string()))?.is_match(key))
}

/// The most repetitions that RE2 takes.
const MOST_REPEATS: u32 = 1000;

/// The letters that mean the same to both behind a backslash, and those of them that may stand in brackets.
const ESCAPES: &str = "AbBzafnrtvdDsSwW";
const ESCAPES_IN_BRACKETS: &str = "afnrtvdDsSwW";

/// Rewrites a pattern of the reference for our regular expression engine.
///
/// The reference uses the syntax RE2 (<https://github.com/google/re2/wiki/Syntax>). Our engine, `regex-lite`, supports
/// nearly all of it. Patterns that it refuses or reads differently are rewritten here. A pattern that cannot be
/// rewritten is refused, since a misread pattern could allow too much.
///
/// # Errors
/// Where both do not mean the same. Other faults are left for the engine to find.
fn translate(pattern: &str) -> Result<String, String> {
    let mut translation = Translation { rest: pattern.chars(), out: String::new(), repeats: false };
    while let Some(next) = translation.rest.next() {
        translation.token(next)?;
    }
    Ok(translation.out)
}

struct Translation<'a> {
    rest: Chars<'a>,
    out: String,
    /// Whether the last token was a repetition.
    repeats: bool,
}

impl Translation<'_> {
    fn token(&mut self, next: char) -> Result<(), String> {
        let repeats = std::mem::take(&mut self.repeats);
        match next {
            '*' | '+' | '?' => self.repetition(repeats, &next.to_string()),
            '{' => match self.count()? {
                Some(count) => self.repetition(repeats, &count),
                None => self.literal('{'),
            },
            '[' => self.brackets(),
            '(' => self.group(),
            '\\' => self.escape(ESCAPES),
            other => {
                self.out.push(other);
                Ok(())
            }
        }
    }

    fn literal(&mut self, letter: char) -> Result<(), String> {
        self.out.push_str(&regex_lite::escape(&letter.to_string()));
        Ok(())
    }

    /// Takes a text, if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.as_str().strip_prefix(text) else { return false };
        self.rest = rest.chars();
        true
    }

    fn repetition(&mut self, after_another: bool, operator: &str) -> Result<(), String> {
        if after_another {
            return Err("invalid nested repetition operator".to_owned());
        }
        self.out.push_str(operator);
        if self.takes("?") {
            self.out.push('?');
        }
        self.repeats = true;
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}` behind the brace; anything else is a literal brace.
    fn count(&mut self) -> Result<Option<String>, String> {
        let Some((inside, rest)) = self.rest.as_str().split_once('}') else { return Ok(None) };
        let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
        let is_number = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_digit())
                && (text == "0" || !text.starts_with('0'))
        };
        if !is_number(least) || !(most.is_empty() || is_number(most)) {
            return Ok(None);
        }
        let too_many = |text: &str| text.parse::<u32>().map_or(true, |number| number > MOST_REPEATS);
        if too_many(least) || !most.is_empty() && too_many(most) {
            return Err(format!("invalid repeat count: more than {MOST_REPEATS}"));
        }
        self.rest = rest.chars();
        Ok(Some(format!("{{{inside}}}")))
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if !self.rest.as_str().starts_with('?') {
            return Ok(());
        }
        let flags = self.rest.as_str()[1..].chars();
        if ["P<", "<"].iter().any(|name| flags.as_str().starts_with(name)) {
            self.copy_until('>');
            return Ok(());
        }
        match flags.take_while(|flag| ![')', ':'].contains(flag)).find(|flag| !"imsU-".contains(*flag)) {
            Some(flag) => Err(format!("invalid or unsupported Perl syntax: (?{flag}")),
            None => {
                self.takes("?");
                self.out.push('?');
                Ok(())
            }
        }
    }

    fn copy_until(&mut self, end: char) {
        for letter in self.rest.by_ref() {
            self.out.push(letter);
            if letter == end {
                break;
            }
        }
    }

    /// Translates what follows a backslash; `letters` are the supported letters.
    fn escape(&mut self, letters: &str) -> Result<(), String> {
        let Some(letter) = self.rest.next() else {
            self.out.push('\\');
            return Ok(());
        };
        match letter {
            'Q' if letters == ESCAPES => self.quoted(),
            'x' => {
                self.out.push_str("\\x");
                if self.rest.as_str().starts_with('{') {
                    self.copy_until('}');
                }
                Ok(())
            }
            '0'..='7' => self.octal(letter),
            letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => self.literal(letter),
            letter if letters.contains(letter) => {
                self.out.extend(['\\', letter]);
                Ok(())
            }
            letter => Err(unknown_escape(letter)),
        }
    }

    fn quoted(&mut self) -> Result<(), String> {
        let rest = self.rest.as_str();
        let (text, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
        self.rest = rest.chars();
        self.out.push_str(&regex_lite::escape(text));
        Ok(())
    }

    /// Up to three digits. A single one that is not zero would refer to a group, which RE2 does not do.
    fn octal(&mut self, first: char) -> Result<(), String> {
        let rest = self.rest.as_str();
        let more = rest.bytes().take(2).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
        if first != '0' && more == 0 {
            return Err(unknown_escape(first));
        }
        let digits = format!("{first}{}", &rest[..more]);
        self.rest = rest[more..].chars();
        let letter = u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32);
        self.literal(letter.ok_or_else(|| unknown_escape(first))?)
    }

    /// A class of characters, behind its bracket.
    fn brackets(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.takes("^") {
            self.out.push('^');
        }
        if self.takes("]") {
            self.out.push_str("\\]");
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => {
                    self.out.push(']');
                    break;
                }
                '[' => self.bracket_in_brackets(),
                '\\' => self.escape(ESCAPES_IN_BRACKETS)?,
                '&' | '~' => self.literal(next)?,
                other => self.out.push(other),
            }
        }
        Ok(())
    }

    /// The name of a class, such as `[:alpha:]`, or a bracket.
    fn bracket_in_brackets(&mut self) {
        let rest = self.rest.as_str();
        let name = rest.strip_prefix(':').and_then(|name| name.split_once(":]"));
        match name {
            Some((name, rest)) => {
                self.out.push_str(&format!("[:{name}:]"));
                self.rest = rest.chars();
            }
            None => self.out.push_str("\\["),
        }
    }
}

fn unknown_escape(letter: char) -> String {
    format!("invalid or unsupported escape sequence: \\{letter}")
}

#[cfg(test)]
mod tests;
