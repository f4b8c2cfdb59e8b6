//! libFuzzer around the target that `CNI_FUZZ_TARGET` names. `scripts/fuzz.sh` builds and starts it.
#![no_main]

use std::sync::LazyLock;

use cni_fuzz::{FuzzTarget, TARGETS, target};

static CHOSEN: LazyLock<&'static FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("CNI_FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    target(&name).unwrap_or_else(|| panic!("CNI_FUZZ_TARGET is {name:?}, not one of {}", names.join(" ")))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // Whether it was refused is of no interest here.
    let _ = (CHOSEN.run)(input);
});
