//! The cases of `conformance/cases`, each a test of its own. `cargo test -p cni-conformance --test cases -- bridge/` runs those of bridge.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cni_conformance::case::{self, Subject, Variant, variants};
use cni_conformance::sandbox::become_root;
use cni_conformance::{plugins, uml};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    if let Err(error) = become_root() {
        eprintln!("NOT RUN: the kernel does not let users make namespaces ({error}): run the cases with sudo");
        std::process::exit(1);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let subjects = plugins::ALL.map(|plugin| Arc::new(Subject::known(plugin)));
    let mut variants = variants(case::all(&folder), &subjects);
    // Those on another kernel come last, and its boot begins at once: until all of them have run there, each waits.
    variants.sort_by_key(|variant| uml::is_elsewhere(variant.case.needs()));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(at_once);
    if variants.iter().any(|variant| uml::is_elsewhere(variant.case.needs()) && is_wanted(&variant.name(), &arguments))
    {
        std::thread::spawn(uml::console);
    }
    let mut lacks: BTreeMap<String, usize> = BTreeMap::new();
    for reason in variants.iter().filter(|variant| is_wanted(&variant.name(), &arguments)).filter_map(Variant::lacks) {
        *lacks.entry(reason).or_default() += 1;
    }
    for (reason, count) in lacks {
        eprintln!("NOT RUN: {count} runs of cases: {reason}");
    }
    if let Some(word) = arguments
        .filter
        .as_ref()
        .filter(|_| !arguments.list && !variants.iter().any(|one| is_wanted(&one.name(), &arguments)))
    {
        eprintln!("no case has {word:?} in its name");
        // Other words may be for other tests of `cargo test`.
        if word.contains('/') {
            std::process::exit(1);
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    libtest_mimic::run(&arguments, variants.into_iter().map(trial).collect()).exit();
}

/// So many run at once, unless RUST_TEST_THREADS says it, as for other tests: they wait for the kernel most of their time.
fn at_once() -> usize {
    let given = std::env::var("RUST_TEST_THREADS").ok().and_then(|number| number.parse().ok());
    given.unwrap_or_else(|| 4 * std::thread::available_parallelism().map_or(1, Into::into))
}

fn is_wanted(name: &str, arguments: &Arguments) -> bool {
    let matches = |text: &String| if arguments.exact { name == text } else { name.contains(text.as_str()) };
    !arguments.list && arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// What the kernel lacks for a plugin, its own cases show on another kernel; those for each plugin count as ignored.
fn trial(variant: Variant) -> Trial {
    let lacks = variant.lacks().is_some();
    Trial::test(variant.name(), move || one(&variant)).with_ignored_flag(lacks)
}

fn one(variant: &Variant) -> Result<(), Failed> {
    let (name, about) = (variant.name(), &variant.case.about);
    let run = || variant.run().map_err(|failure| failure.to_string());
    let done = uml::result_on_a_kernel_with(variant.case.needs(), &name, run);
    let again = format!(
        "\n# {about}\nto run it alone: cargo test -p cni-conformance --test cases -- --exact {name}\n\
         to look into its host: cargo run -p cni-conformance-program -- shell {name} --plugins $CNI_BIN_DIR"
    );
    done.map_err(|text| Failed::from(text + &again))
}
