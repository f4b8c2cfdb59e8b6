//! The examples of the plugins' pages.

use serde_json::Value;

/// Returns the first example of a page, a network configuration list.
///
/// # Panics
/// When the page has no block of JSON.
pub fn example(page: &str) -> Value {
    let block = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    serde_json::from_str(block).expect("JSON")
}
