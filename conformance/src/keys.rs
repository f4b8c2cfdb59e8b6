//! Configurations with other keys than most.

use serde_json::Value;

/// Sets keys of an object, those of a second object.
///
/// # Panics
/// When the second is no object.
#[track_caller]
pub fn set(object: &mut Value, keys: &Value) {
    for (key, value) in keys.as_object().expect("an object of keys") {
        object[key] = value.clone();
    }
}

/// Returns an object with more keys, or other values for keys that it has.
///
/// # Panics
/// As [`set`].
#[must_use]
#[track_caller]
pub fn with(object: &Value, keys: &Value) -> Value {
    let mut object = object.clone();
    set(&mut object, keys);
    object
}
