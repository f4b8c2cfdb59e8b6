//! Help, completion and the manual pages.

use std::fs;

use cni_conformance::Sandbox;

use crate::admin::tool;

const VERBS: &str = "list gc repair doctor metrics trace check schema install uninstall completion manual version help";

/// How many lines a page may have.
const SCREEN: usize = 48;

#[test]
fn every_verb_has_a_page_and_is_listed() {
    let sandbox = Sandbox::new();
    let help = tool(&sandbox, &[]);
    help.expect_success();
    let (_, commands) = help.stdout().split_once("\nCommands:\n").expect("the verbs");
    let listed = commands.lines().map_while(|line| line.strip_prefix("  ")?.split_whitespace().next());
    assert_eq!(listed.collect::<Vec<_>>().join(" "), VERBS, "{help}");
    assert!(help.stdout().contains("bandwidth, bridge, "), "{help}");
    for verb in VERBS.split(' ').filter(|verb| *verb != "help") {
        let page = tool(&sandbox, &[verb, "--help"]);
        page.expect_success();
        assert!(page.stdout().contains(&format!("\nUsage: cni-plugins {verb}")), "{page}");
        assert!(page.stdout().lines().count() <= SCREEN, "{page}");
        assert!(!page.stdout().contains('\u{1b}'), "{page}");
        let (about, _) = page.stdout().split_once("\nUsage: ").expect("the usage");
        assert_eq!(about.contains(&format!("cni-plugins {verb}")), verb != "version", "an example: {page}");
        let has_statuses = page.stdout().contains("\nExit status:\n  0  ");
        assert_eq!(has_statuses, !["completion", "manual", "schema", "version"].contains(&verb), "{page}");
    }
}

#[test]
fn a_wrong_command_line_is_named() {
    let sandbox = Sandbox::new();
    for (words, problem) in [
        (&["lits"][..], "unrecognized subcommand 'lits'\n\n  tip: a similar subcommand exists: 'list'"),
        (&["list", "--nope"], "unexpected argument '--nope' found"),
        (&["gc", "--network="], "a value is required for '--network <NAME>'"),
        (&["gc", "--network", "a", "--network", "b"], "the argument '--network <NAME>' cannot be used multiple times"),
        (&["completion", "tcsh"], "invalid value 'tcsh' for '<SHELL>'\n  [possible values: bash, zsh, fish]"),
        (&["manual", "nope"], "there is no verb \"nope\""),
        (&["trace", "0"], "0 is not a port"),
        (&["trace", "8080", "--seconds", "0"], "invalid value '0' for '--seconds <N>'"),
    ] {
        let refused = tool(&sandbox, words);
        assert_eq!((refused.code(), refused.stdout()), (Some(2), ""), "{refused}");
        assert!(refused.stderr().starts_with(&format!("error: {problem}")), "{refused}");
    }
}

/// Writes a shell's completion into a file, and has the shell read it.
fn completion(sandbox: &Sandbox, shell: &str) -> String {
    let script = tool(sandbox, &["completion", shell]);
    script.expect_success();
    let file = format!("/run/completion.{shell}");
    fs::write(&file, script.stdout()).expect("write the script");
    sandbox.exec(&[shell, "-n", &file]).expect_success();
    file
}

/// What `compopt` does while bash completes a word; outside, the real one fails.
const COMPOPT: &str =
    r#"compopt() { [ "$2" != plusdirs ] || mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]}"); }"#;

#[test]
fn bash_completes_verbs_options_and_words() {
    let sandbox = Sandbox::new();
    let file = completion(&sandbox, "bash");
    for (words, expected) in [
        ("cni-plugins re", "repair"),
        ("cni-plugins gc --re", "--remove"),
        ("cni-plugins list --network ''", ""),
        ("cni-plugins list --cache-dir /usr/shar", "/usr/share"),
        ("cni-plugins uninstall --d", "--dry-run"),
        ("cni-plugins completion f", "fish"),
    ] {
        let line = format!(
            ". {file}; {COMPOPT}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             f=$(complete -p cni-plugins | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); \
             $f cni-plugins \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let completed = sandbox.exec(&["bash", "-c", &line]).expect_success();
        assert_eq!(completed.stdout.trim(), expected, "{words}: {}", completed.stderr);
    }
}

#[test]
fn zsh_and_fish_understand_their_completions() {
    let sandbox = Sandbox::new();
    completion(&sandbox, "zsh");
    let file = completion(&sandbox, "fish");
    let completed =
        sandbox.exec(&["fish", "-c", &format!(". {file}; complete -C 'cni-plugins gc --re'")]).expect_success();
    assert!(completed.stdout.starts_with("--remove\t"), "{}", completed.stdout);
}

#[test]
fn every_verb_has_a_manual_page_without_a_mistake() {
    let sandbox = Sandbox::new();
    let shown = |words: &[&str]| {
        let page = tool(&sandbox, words);
        page.expect_success();
        fs::write("/run/page.8", page.stdout()).expect("write the page");
        let shown = sandbox.exec(&["groff", "-man", "-Tascii", "-ww", "-P-cbou", "/run/page.8"]).expect_success();
        assert_eq!(shown.stderr, "", "groff has nothing to complain of");
        shown.stdout
    };
    let all = shown(&["manual"]);
    for verb in VERBS.split(' ') {
        assert!(all.contains(&format!("cni-plugins-{verb}(8)")), "{verb}: {all}");
        let page = shown(&["manual", verb]);
        assert!(page.starts_with(&format!("cni-plugins-{verb}(8)")), "{page}");
    }
}
