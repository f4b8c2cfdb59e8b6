//! Adds keys to configurations.

use serde_json::{Map, Value};

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

/// Sets a value at a JSON pointer, and adds the objects and lists on the way.
///
/// # Panics If another kind of value is on the way.
pub fn put(config: &mut Value, pointer: &str, value: Value) {
    let mut place = config;
    for part in pointer.split('/').skip(1) {
        place = match part.parse::<usize>() {
            Ok(0) => {
                if place.get(0).is_none() {
                    *place = Value::Array(vec![Value::Null]);
                }
                &mut place[0]
            }
            _ => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                &mut place[part]
            }
        };
    }
    *place = value;
}
