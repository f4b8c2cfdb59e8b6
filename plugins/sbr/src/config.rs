//! The one key of the sbr plugin.

use cni_core::error::Error;
use cni_core::request::Request;
use serde::Deserialize;

use crate::error::SbrError;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    table: Option<i64>,
}

/// The configured table; `None` if the plugin chooses and fills one.
pub fn table(request: &Request) -> Result<Option<u32>, Error> {
    let Keys { table } = request.decode()?;
    let checked = |table: i64| u32::try_from(table).ok().filter(|number| *number != 0).ok_or(SbrError::Table { table });
    Ok(table.map(checked).transpose()?)
}
