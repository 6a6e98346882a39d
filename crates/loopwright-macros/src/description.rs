//! The description of a tool for the model.

use syn::{Attribute, Expr, ExprLit, Lit, Meta, MetaNameValue};

use crate::problems;

/// Returns what the doc comments say, line by line, without the indentation they share; empty if
/// there are none.
pub(crate) fn of(attributes: &[Attribute]) -> syn::Result<String> {
    let mut text = String::new();
    for attribute in attributes {
        if let Some(value) = doc(attribute) {
            text.push_str(&literal(value)?);
            text.push('\n');
        }
    }
    Ok(without_indentation(&text).trim().to_owned())
}

/// Whether this is a doc comment, and not an instruction for rustdoc.
pub(crate) fn is_doc_comment(attribute: &Attribute) -> bool {
    doc(attribute).is_some()
}

fn doc(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue { path, value, .. }) if path.is_ident("doc") => Some(value),
        _ => None,
    }
}

fn literal(value: &Expr) -> syn::Result<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
        Expr::Group(group) => literal(&group.expr),
        _ => Err(problems::error(
            value,
            "`#[tool]` cannot read this text: pass it as `description = …`",
        )),
    }
}

fn without_indentation(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let shared = text.lines().filter(|line| !line.trim().is_empty()).map(indentation).min();
    let shared = shared.unwrap_or(0);
    let lines = text.lines().map(|line| line.get(shared..).unwrap_or_default().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}
