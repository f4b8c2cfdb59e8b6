//! The macro that implements `Plugin`: each command calls a function in a file of its own.

/// Has commands of a [`Plugin`](crate::run::Plugin) answered by functions with the trait's arguments, in modules beside
/// the `impl`: `add` by `add::add`, and so on; `find_missing` by `missing::find_missing`, `examine` by `config::Config::load`.
///
/// ```
/// # use cni_core::{error::Error, request::Request, result::CniResult};
/// # use cni_plugin::{host::Host, journal::Journal, run::Plugin};
/// # mod add {
/// #     use super::*;
/// #     pub fn add(_: &Request, _: &mut Journal<'_>) -> Result<CniResult, Error> { Ok(CniResult::default()) }
/// # }
/// # mod del {
/// #     use super::*;
/// #     pub fn del(_: &Request, _: &mut dyn Host) -> Result<(), Error> { Ok(()) }
/// # }
/// # mod check {
/// #     use super::*;
/// #     pub fn check(_: &Request, _: &mut dyn Host) -> Result<(), Error> { Ok(()) }
/// # }
/// struct Nothing;
///
/// impl Plugin for Nothing {
///     fn kind(&self) -> &'static str {
///         "nothing"
///     }
///
///     cni_plugin::commands!(add, del, check);
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! commands {
    (@ add) => {
        fn add(
            &self,
            request: &::cni_core::request::Request,
            journal: &mut $crate::journal::Journal<'_>,
        ) -> ::std::result::Result<::cni_core::result::CniResult, ::cni_core::error::Error> {
            add::add(request, journal)
        }
    };
    (@ examine) => {
        fn examine(
            &self,
            request: &::cni_core::request::Request,
        ) -> ::std::result::Result<(), ::cni_core::error::Error> {
            config::Config::load(request).map(|_| ())
        }
    };
    (@ gc) => {
        fn gc(
            &self,
            request: &::cni_core::request::Request,
            valid: &::cni_core::valid::ValidAttachments,
            host: &mut dyn $crate::host::Host,
        ) -> ::std::result::Result<(), ::cni_core::error::Error> {
            gc::gc(request, valid, host)
        }
    };
    (@ find_missing) => {
        fn find_missing(
            &self,
            request: &::cni_core::request::Request,
            host: &mut dyn $crate::host::Host,
        ) -> ::std::result::Result<::std::vec::Vec<$crate::missing::MissingPart>, ::cni_core::error::Error> {
            missing::find_missing(request, host)
        }
    };
    (@ find_missing_records) => {
        fn find_missing_records(
            &self,
            request: &::cni_core::request::Request,
            is_next: &dyn ::std::ops::Fn(&::cni_core::names::Attachment) -> bool,
            host: &mut dyn $crate::host::Host,
        ) -> ::std::result::Result<$crate::missing::MissingRecords, ::cni_core::error::Error> {
            missing::find_missing_records(request, is_next, host)
        }
    };
    (@ $command:ident) => {
        fn $command(
            &self,
            request: &::cni_core::request::Request,
            host: &mut dyn $crate::host::Host,
        ) -> ::std::result::Result<(), ::cni_core::error::Error> {
            $command::$command(request, host)
        }
    };
    ($($command:ident),+) => {
        $($crate::commands!(@ $command);)+
    };
}
