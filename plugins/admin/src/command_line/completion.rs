//! Completion for shells, from the table of verbs.

use std::fmt::Write as _;

use super::usage::is_folder;
use super::{OptionSpec, ValueSpec, VerbSpec};

/// A shell for which there is completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// The script for a shell.
pub fn script(shell: Shell, verbs: &[VerbSpec]) -> String {
    match shell {
        Shell::Bash => bash(verbs),
        Shell::Zsh => zsh(verbs),
        Shell::Fish => fish(verbs),
    }
}

/// What a verb's words and options can begin with.
fn choices(verb: &VerbSpec) -> String {
    let options = verb.options.iter().map(|option| option.name);
    verb.words.iter().copied().chain(options).chain(["--help"]).collect::<Vec<_>>().join(" ")
}

fn names(verbs: &[VerbSpec]) -> String {
    verbs.iter().map(|verb| verb.name).collect::<Vec<_>>().join(" ")
}

/// The options of all verbs that are of a kind, each once.
fn options_with(verbs: &[VerbSpec], is_meant: impl Fn(ValueSpec) -> bool) -> Vec<&'static str> {
    let mut found: Vec<_> = verbs
        .iter()
        .flat_map(|verb| verb.options)
        .filter(|option| is_meant(option.value))
        .map(|one| one.name)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn bash(verbs: &[VerbSpec]) -> String {
    let folders = options_with(verbs, is_folder).join("|");
    let texts = options_with(verbs, |value| matches!(value, ValueSpec::Text(_))).join("|");
    let mut script = format!(
        "# Completion of cni-plugins for bash.\n\
         _cni_plugins() {{\n    \
             local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} choices\n    \
             case $before in\n    \
             {folders}) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") && return ;;\n    \
             {texts}) return ;;\n    \
             esac\n    \
             case $COMP_CWORD:${{COMP_WORDS[1]}} in\n    \
             1:*) choices='{}' ;;\n",
        names(verbs)
    );
    for verb in verbs {
        let _infallible = writeln!(script, "    *:{}) choices='{}' ;;", verb.name, choices(verb));
    }
    script
        + "    esac\n    \
           mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$word\")\n\
           }\n\
           complete -F _cni_plugins cni-plugins\n"
}

/// The first line of an option's help, as a shell shows it beside the option.
fn hint(option: &OptionSpec) -> String {
    option.help.lines().next().unwrap_or_default().replace(['\'', '[', ']', ':'], "")
}

fn zsh(verbs: &[VerbSpec]) -> String {
    let mut script = "#compdef cni-plugins\n# Completion of cni-plugins for zsh.\n\
                      if (( CURRENT == 2 )); then\n    local -a verbs=(\n"
        .to_owned();
    for verb in verbs {
        let _infallible = writeln!(script, "        '{}:{}'", verb.name, verb.summary.replace('\'', ""));
    }
    script.push_str("    )\n    _describe verb verbs\n    return\nfi\ncase $words[2] in\n");
    for verb in verbs {
        let mut specs: Vec<String> = verb.options.iter().map(zsh_option).collect();
        specs.push("'--help[print its page]'".to_owned());
        if !verb.words.is_empty() {
            specs.push(format!("'2:word:({})'", verb.words.join(" ")));
        }
        let _infallible = writeln!(script, "{}) _arguments '1:verb:' {} ;;", verb.name, specs.join(" "));
    }
    script + "esac\n"
}

fn zsh_option(option: &OptionSpec) -> String {
    let value = match option.value {
        ValueSpec::None => String::new(),
        ValueSpec::Text(name) => format!(":{name}:"),
        ValueSpec::Folder(name) => format!(":{name}:_files -/"),
    };
    format!("'{}[{}]{value}'", option.name, hint(option))
}

fn fish(verbs: &[VerbSpec]) -> String {
    let mut script = "# Completion of cni-plugins for fish.\ncomplete -c cni-plugins -f\n".to_owned();
    for verb in verbs {
        let VerbSpec { name, summary, .. } = verb;
        let behind = format!("complete -c cni-plugins -n '__fish_seen_subcommand_from {name}'");
        let summary = summary.replace('\'', "");
        let _infallible = writeln!(script, "complete -c cni-plugins -n __fish_use_subcommand -a {name} -d '{summary}'");
        for word in verb.words {
            let _infallible = writeln!(script, "{behind} -a {word}");
        }
        for option in verb.options {
            let value = match option.value {
                ValueSpec::None => "",
                ValueSpec::Text(_) => " -x",
                ValueSpec::Folder(_) => " -x -a '(__fish_complete_directories)'",
            };
            let long = option.name.trim_start_matches('-');
            let _infallible = writeln!(script, "{behind} -l {long}{value} -d '{}'", hint(option));
        }
        let _infallible = writeln!(script, "{behind} -l help -d 'print its page'");
    }
    script
}
