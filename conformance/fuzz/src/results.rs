//! Results of every version, as `prevResult` and as the answer of a delegate; attachments that GC must keep.
//!
//! What is read can be printed in every version that can express it, and is read back and printed the same.

use cni_core::json::Json;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;

use crate::spelling::with_other_case;

pub fn run(input: &[u8]) -> Option<()> {
    let json = Json::parse(input).ok()?;
    let respelled = Json::parse(with_other_case(&json).as_bytes()).expect("the same document");
    assert_eq!(ValidAttachments::parse(&json).ok(), ValidAttachments::parse(&respelled).ok());
    for version in Version::ALL {
        let read = CniResult::parse_any(&json, *version);
        assert_eq!(
            read.as_ref().ok(),
            CniResult::parse_any(&respelled, *version).as_ref().ok(),
            "keys in other letters"
        );
        let Ok(result) = CniResult::parse_prev(&json, *version) else { continue };
        assert_eq!(read, Ok(result.clone()), "a prevResult is read as an answer would be");
        assert!(result.ips_of("eth0").count() <= result.ips.len());
        Version::ALL.iter().for_each(|to| print(&result, *to));
    }
    Some(())
}

/// Prints a result in a version, and reads it back.
fn print(result: &CniResult, version: Version) {
    let Ok(text) = result.render(version) else {
        assert!(result.ips.is_empty(), "a result with addresses is not printed in {version}");
        return;
    };
    let json = Json::parse(text.as_bytes()).expect("JSON");
    let read = CniResult::parse_prev(&json, version).expect("what was printed");
    assert_eq!(read.render(version).as_ref(), Ok(&text), "printed again");
}
