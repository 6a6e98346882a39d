//! One option as it was written, and what its value may be.

use std::{str::FromStr, time::Duration};

use proc_macro2::Ident;
use syn::{
    Error, Expr, ExprLit, Lit, LitInt, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{Parse, ParseStream},
};

use crate::{name, options::Approval, problems};

/// One option as it was written.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    value: Option<Expr>,
}

/// What a call does to the world, as `loopwright_core::SideEffects` has it.
pub(crate) struct SideEffects {
    pub(crate) name: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) may_be_retried: bool,
}

const SIDE_EFFECTS: [SideEffects; 4] = [
    SideEffects { name: "read_only", variant: "ReadOnly", may_be_retried: true },
    SideEffects { name: "idempotent", variant: "Idempotent", may_be_retried: true },
    SideEffects { name: "resumable", variant: "Resumable", may_be_retried: false },
    SideEffects { name: "at_most_once", variant: "AtMostOnce", may_be_retried: false },
];

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = Ident::parse_any(input)
            .map_err(|_| input.error("expected an option, such as `timeout = \"30s\"`"))?;
        let ends = || input.is_empty() || input.peek(Token![,]);
        if ends() {
            return Ok(Self { key, value: None });
        }
        if !input.peek(Token![=]) {
            return Err(input.error(format!("expected a comma, or `{key} = …`")));
        }
        input.parse::<Token![=]>()?;
        if ends() {
            let message = format!("`{key}` has no value; write one after the `=`");
            return Err(problems::error(key, message));
        }
        Ok(Self { key, value: Some(input.parse()?) })
    }
}

impl Entry {
    pub(crate) fn repeated(&self) -> Error {
        problems::error(&self.key, format!("`{}` is set twice", self.key))
    }

    /// Returns text that can be read now.
    pub(crate) fn string(&self, example: &str) -> syn::Result<&LitStr> {
        let value = self.value(example)?;
        match value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if is_blank(text) => {
                let message = format!("`{}` is empty; set it, or omit it", self.key);
                Err(problems::error(text, message))
            }
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
            _ => Err(self.unlike(example)),
        }
    }

    /// Returns text, or an expression that makes some, such as `include_str!(…)`.
    pub(crate) fn text(&self) -> syn::Result<Expr> {
        let example = "\"Reads a page.\"";
        match self.value(example)? {
            made @ (Expr::Macro(_) | Expr::Path(_)) => Ok(made.clone()),
            value => self.string(example).map(|_| value.clone()),
        }
    }

    /// Returns a name that providers accept.
    pub(crate) fn name(&self) -> syn::Result<LitStr> {
        let name = self.string("\"read_page\"")?;
        match name::name_error(&name.value()) {
            Some(complaint) => Err(problems::error(name, complaint)),
            None => Ok(name.clone()),
        }
    }

    /// Returns a time that is more than none.
    pub(crate) fn time(&self) -> syn::Result<Duration> {
        let value = self.value("\"30s\"")?;
        let time = match value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                humantime::parse_duration(&text.value()).ok()
            }
            Expr::Lit(ExprLit { lit: Lit::Int(seconds), .. }) => {
                whole(seconds).map(Duration::from_secs)
            }
            _ => None,
        };
        match time {
            Some(Duration::ZERO) => {
                let message = "`timeout` must be longer than zero; set a longer time, or omit the \
                    option";
                Err(problems::error(value, message))
            }
            Some(time) => Ok(time),
            None => {
                let message = "expected a duration, such as `\"500ms\"`, `\"30s\"` or `\"5m\"`, \
                               or a whole number of seconds";
                Err(problems::error(value, message))
            }
        }
    }

    /// Returns effects, written as text or as a bare word.
    pub(crate) fn side_effects(&self) -> syn::Result<&'static SideEffects> {
        let example = "\"idempotent\"";
        let value = self.value(example)?;
        let name = match value {
            Expr::Path(word) if word.path.get_ident().is_some() => {
                word.path.require_ident()?.to_string()
            }
            _ => self.string(example)?.value(),
        };
        SIDE_EFFECTS.iter().find(|effects| effects.name == name).ok_or_else(|| {
            let names = SIDE_EFFECTS.each_ref().map(|effects| effects.name);
            problems::error(value, unknown("kind of side effects", &name, &names))
        })
    }

    /// Returns names of parameters, written as text or as a bare word.
    pub(crate) fn parameters(&self) -> syn::Result<LitStr> {
        let example = "\"path\"";
        match self.value(example)? {
            Expr::Path(word) if word.path.get_ident().is_some() => {
                let word = word.path.require_ident()?;
                Ok(LitStr::new(&word.to_string(), word.span()))
            }
            _ => self.string(example).cloned(),
        }
    }

    /// Returns a question, or the function that makes one of the arguments.
    pub(crate) fn approval(&self) -> syn::Result<Approval> {
        let example = "\"Send the money?\"";
        match self.value(example)? {
            Expr::Path(function) => Ok(Approval::PerCall(function.path.clone())),
            _ => Ok(Approval::Always(self.string(example)?.clone())),
        }
    }

    /// Returns how often a call is tried.
    pub(crate) fn attempts(&self) -> syn::Result<u32> {
        let value = self.value("3")?;
        let attempts = match value {
            Expr::Lit(ExprLit { lit: Lit::Int(attempts), .. }) => whole(attempts),
            _ => None,
        };
        attempts.filter(|attempts| *attempts > 0).ok_or_else(|| {
            let message = "expected the maximum number of attempts, including the first: a whole \
                number of at least 1";
            problems::error(value, message)
        })
    }

    /// Returns whether the option is on, which it is if it is there.
    pub(crate) fn flag(&self) -> syn::Result<bool> {
        let Some(value) = &self.value else { return Ok(true) };
        let message = format!(
            "`{}` takes no value; write only the option's name, or omit the option",
            self.key
        );
        Err(problems::error(value, message))
    }

    /// Returns the private module of a crate. A crate's name becomes a path from the root, so that
    /// no module of that name stands in its way.
    pub(crate) fn private(&self) -> syn::Result<Path> {
        let example = "\"loopwright_core\"";
        let text = self.string(example)?;
        let mut path = text.parse_with(Path::parse_mod_style).map_err(|_| self.unlike(example))?;
        let first = path.segments.first().map(|segment| segment.ident.to_string());
        if !matches!(first.as_deref(), Some("crate" | "self" | "super")) {
            path.leading_colon = Some(Token![::](text.span()));
        }
        path.segments.push(Ident::new("__private", text.span()).into());
        Ok(path)
    }

    fn value(&self, example: &str) -> syn::Result<&Expr> {
        let missing = || {
            let message = format!("`{0}` needs a value, such as `{0} = {example}`", self.key);
            problems::error(&self.key, message)
        };
        self.value.as_ref().map(ungrouped).ok_or_else(missing)
    }

    fn unlike(&self, example: &str) -> Error {
        let message = format!("expected something like `{} = {example}`", self.key);
        problems::error(&self.value, message)
    }
}

/// Says that there is no such thing, and what there is.
pub(crate) fn unknown(kind: &str, given: &str, known: &[&str]) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(&given.to_lowercase(), name);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) > 0.8) {
        Some(name) => format!("unknown {kind} `{given}`; did you mean `{name}`?"),
        None => format!("unknown {kind} `{given}`; available: `{}`", known.join("`, `")),
    }
}

fn is_blank(text: &LitStr) -> bool {
    text.value().trim().is_empty()
}

/// Sees through what `macro_rules!` puts around an expression.
fn ungrouped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Group(group) => ungrouped(&group.expr),
        _ => expression,
    }
}

/// Reads a number without a suffix; `30s` is one with a suffix.
fn whole<N: FromStr<Err: std::fmt::Display>>(number: &LitInt) -> Option<N> {
    if !number.suffix().is_empty() {
        return None;
    }
    number.base10_parse().ok()
}
