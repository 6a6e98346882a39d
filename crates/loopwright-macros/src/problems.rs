//! What is wrong with a use of the macro.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// Everything that is wrong, reported at once.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds a problem and points at what it is about.
    pub(crate) fn add(&mut self, place: impl ToTokens, message: impl Display) {
        self.add_error(error(place, message));
    }

    /// Adds a problem that another process found.
    pub(crate) fn add_error(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the problems for the compiler, if there are any.
    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.0.map(|errors| errors.to_compile_error())
    }
}

/// Returns a problem that points at `place`.
pub(crate) fn error(place: impl ToTokens, message: impl Display) -> Error {
    // Spans have no text outside of the compiler, so in unit tests the message itself names the place.
    #[cfg(test)]
    let message = format!("{message} @ {}", place.to_token_stream());
    Error::new_spanned(place, message)
}
