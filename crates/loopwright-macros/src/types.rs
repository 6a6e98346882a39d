//! What can be told from how a type is written.

use proc_macro2::{TokenStream, TokenTree};
use syn::Type;

/// Whether the last part of a type's path is this name.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    match ungrouped(ty) {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    }
}

/// Sees through what `macro_rules!` and parentheses put around a type.
pub(crate) fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        _ => ty,
    }
}

/// What keeps a type from being that of an argument.
pub(crate) enum Obstacle {
    /// A reference, or a lifetime other than `'static`.
    Borrow,
    /// An `impl Trait`.
    Opaque,
}

/// Finds the first obstacle, however deep in the type it is.
pub(crate) fn obstacle(ty: TokenStream) -> Option<Obstacle> {
    let mut tokens = ty.into_iter();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Punct(punct) if punct.as_char() == '&' => Some(Obstacle::Borrow),
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                tokens.next().filter(|name| name.to_string() != "static").map(|_| Obstacle::Borrow)
            }
            TokenTree::Ident(ident) if ident == "impl" => Some(Obstacle::Opaque),
            TokenTree::Group(group) => obstacle(group.stream()),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
