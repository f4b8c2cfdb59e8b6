//! The cases of `conformance/cases`, each a test of its own. `cargo test -p cni-conformance --test cases -- bridge/` runs those of bridge.

use std::path::Path;

use cni_conformance::Flavour;
use cni_conformance::case::{self, Case};
use cni_conformance::uml;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let trials = case::all(&folder).into_iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A test for each flavour of iptables.
fn trials(case: Case) -> Vec<Trial> {
    let trial = |flavour: &Flavour| {
        let (case, flavour) = (case.clone(), *flavour);
        let name = match flavour {
            Flavour::Nft => case.name.clone(),
            Flavour::Legacy => format!("{}@legacy", case.name),
        };
        Trial::test(name.clone(), move || one(&case, flavour, &name))
    };
    case.flavours().iter().map(trial).collect()
}

fn one(case: &Case, flavour: Flavour, name: &str) -> Result<(), Failed> {
    let run = || case::run(case, flavour);
    let done = uml::result_on_a_kernel_with(case.needs(), name, run);
    let again =
        format!("\n# {}\nto run it alone: cargo test -p cni-conformance --test cases -- --exact {name}", case.about);
    done.map_err(|text| Failed::from(text + &again))
}
