//! Help, completion and the manual page, which follow from one table.

use std::fs;

use cni_conformance::Sandbox;

use crate::admin::tool;

const VERBS: [&str; 8] = ["list", "gc", "repair", "doctor", "completion", "manual", "help", "version"];

#[test]
fn every_verb_has_a_page_and_is_listed() {
    let sandbox = Sandbox::new();
    let help = tool(&sandbox, &[]);
    help.expect_success();
    let listed = help.stdout().lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let listed: Vec<&str> = listed.skip(1).collect();
    assert_eq!(listed, VERBS, "{help}");
    for verb in VERBS {
        let page = tool(&sandbox, &[verb, "--help"]);
        page.expect_success();
        assert!(page.stdout().starts_with(&format!("usage: cni-plugins {verb}")), "{page}");
        assert!(page.stdout().contains("\nexit status:\n  0  "), "{page}");
    }
}

#[test]
fn a_wrong_command_line_is_named() {
    let sandbox = Sandbox::new();
    for (words, problem, status) in [
        (&["nope"][..], "cni-plugins: unknown verb \"nope\"", 1),
        (&["list", "--nope"], "cni-plugins list: unknown argument \"--nope\"\nusage: ", 2),
        (&["gc", "--network"], "cni-plugins gc: --network needs a value\nusage: ", 2),
        (&["completion"], "cni-plugins completion: one of these words is needed: bash, zsh, fish\nusage: ", 2),
        (&["completion", "tcsh"], "cni-plugins completion: unknown argument \"tcsh\"\nusage: ", 2),
        (&["version", "now"], "cni-plugins version: unknown argument \"now\"\nusage: ", 2),
    ] {
        let refused = tool(&sandbox, words);
        assert_eq!((refused.code(), refused.stdout()), (Some(status), ""), "{refused}");
        assert!(refused.stderr().starts_with(problem), "{refused}");
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

#[test]
fn bash_completes_verbs_options_and_words() {
    let sandbox = Sandbox::new();
    let file = completion(&sandbox, "bash");
    for (words, expected) in [
        ("cni-plugins re", "repair"),
        ("cni-plugins gc --re", "--remove"),
        ("cni-plugins list --network ''", ""),
        ("cni-plugins list --cache-dir /usr/shar", "/usr/share"),
        ("cni-plugins completion f", "fish"),
    ] {
        let line = format!(
            ". {file}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _cni_plugins; echo \"${{COMPREPLY[*]}}\""
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
fn the_manual_has_every_verb_and_no_mistake() {
    let sandbox = Sandbox::new();
    let page = tool(&sandbox, &["manual"]);
    page.expect_success();
    fs::write("/run/cni-plugins.8", page.stdout()).expect("write the page");
    let shown = sandbox.exec(&["groff", "-man", "-Tascii", "-ww", "-P-cbou", "/run/cni-plugins.8"]).expect_success();
    assert_eq!(shown.stderr, "", "groff has nothing to complain of");
    for verb in VERBS {
        assert!(shown.stdout.contains(&format!("cni-plugins {verb}")), "{verb}: {}", shown.stdout);
    }
}
