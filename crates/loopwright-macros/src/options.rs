//! What stands between the parentheses of `#[tool(…)]`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{
    Error, Expr, LitStr, Path, Token,
    parse::{ParseStream, Parser as _},
};

use crate::{
    entry::{Entry, SideEffects, unknown},
    problems::{self, Errors},
};

/// The options of a tool.
pub(crate) struct Options {
    /// The name, if it is not the function's.
    pub(crate) name: Option<LitStr>,
    /// What the tool does, if its documentation does not say it; of type `&'static str`.
    pub(crate) description: Option<Expr>,
    /// Where the expansion finds what it needs. `None` means that that could not be read.
    pub(crate) private: Option<Path>,
    instructions: Option<Expr>,
    namespace: Option<LitStr>,
    timeout: Option<Duration>,
    side_effects: Option<&'static SideEffects>,
    /// The parameters that name the files that a call writes; of type `&str`, separated by commas.
    pub(crate) writes: Option<LitStr>,
    /// Which calls need approval.
    pub(crate) approval: Option<Approval>,
    retry: Option<u32>,
    exclusive: bool,
}

/// Which calls of a tool need approval.
pub(crate) enum Approval {
    /// Each, with this question.
    Always(LitStr),
    /// Those for which this function returns a question. It takes references to the arguments.
    PerCall(Path),
}

const KEYS: [&str; 11] = [
    "name",
    "description",
    "instructions",
    "namespace",
    "timeout",
    "side_effects",
    "writes",
    "approval",
    "retry",
    "exclusive",
    "crate",
];

impl Options {
    /// Reads what stands between the parentheses. What cannot be read is left out.
    pub(crate) fn read(tokens: TokenStream, problems: &mut Errors) -> Self {
        let mut options = Self::default();
        let entries = entries(tokens, problems);
        for (index, entry) in entries.iter().enumerate() {
            let is_repeated = entries[..index].iter().any(|earlier| earlier.key == entry.key);
            let set = if is_repeated { Err(entry.repeated()) } else { options.set(entry) };
            set.unwrap_or_else(|error| problems.add_error(error));
        }
        options.check_retry(&entries, problems);
        options.check_writes(problems);
        options
    }

    fn set(&mut self, entry: &Entry) -> syn::Result<()> {
        match entry.key.to_string().as_str() {
            "name" => self.name = Some(entry.name()?),
            "description" => self.description = Some(entry.text()?),
            "instructions" => self.instructions = Some(entry.text()?),
            "namespace" => self.namespace = Some(entry.string("\"web\"")?.clone()),
            "timeout" => self.timeout = Some(entry.time()?),
            "side_effects" => self.side_effects = Some(entry.side_effects()?),
            "writes" => self.writes = Some(entry.parameters()?),
            "approval" => self.approval = Some(entry.approval()?),
            "retry" => self.retry = Some(entry.attempts()?),
            "exclusive" => self.exclusive = entry.flag()?,
            "crate" => {
                self.private = None;
                self.private = Some(entry.private()?);
            }
            key => return Err(problems::error(&entry.key, unknown("option", key, &KEYS))),
        }
        Ok(())
    }

    /// Only what may be run again may be tried again.
    fn check_retry(&self, entries: &[Entry], problems: &mut Errors) {
        let find = |key| entries.iter().find(|entry| entry.key == key);
        let Some(retry) = find("retry") else { return };
        match (find("side_effects"), self.side_effects) {
            (None, _) => problems.add(
                &retry.key,
                "a failed call may have taken effect, so only calls that are safe to repeat are \
                    retried; add `side_effects = \"idempotent\"`, or `side_effects = \
                    \"read_only\"` if the tool only reads",
            ),
            (Some(_), Some(effects)) if !effects.may_be_retried => problems.add(
                &retry.key,
                format!(
                    "a failed call may have taken effect, so only calls that are safe to repeat \
                        are retried, and `side_effects = \"{}\"` does not promise this; declare \
                        `\"read_only\"` or `\"idempotent\"`, or omit `retry`",
                    effects.name
                ),
            ),
            // Effects that could not be read are a problem of their own.
            _ => {}
        }
    }

    /// A tool that only looks writes no file.
    fn check_writes(&self, problems: &mut Errors) {
        let only_looks = self.side_effects.is_some_and(|effects| effects.name == "read_only");
        if let Some(writes) = self.writes.as_ref().filter(|_| only_looks) {
            let message = "a tool with `side_effects = \"read_only\"` writes no files; omit \
                `writes`, or declare other side effects";
            problems.add(writes, message);
        }
    }

    /// Returns the tool's options as an expression, unless they are the default.
    pub(crate) fn expression(&self, p: &Path) -> Option<TokenStream> {
        let some = |value| quote!(#p::std::option::Option::Some(#value));
        let default = quote!(#p::std::default::Default::default());
        let effects = self.side_effects.map(|effects| {
            let variant = Ident::new(effects.variant, Span::call_site());
            quote!(side_effects: #p::SideEffects::#variant)
        });
        let timeout = self.timeout.map(|timeout| {
            let (seconds, nanos) = (timeout.as_secs(), timeout.subsec_nanos());
            let timeout = some(quote!(#p::std::time::Duration::new(#seconds, #nanos)));
            quote!(timeout: #timeout)
        });
        let exclusive = self.exclusive.then(|| quote!(exclusive: true));
        let retry = self
            .retry
            .map(|attempts| quote!(retry: #p::ToolRetry { attempts: #attempts, ..#default }));
        let namespace = self.namespace.as_ref().map(|text| {
            let text = some(quote!(#p::std::convert::From::from(#text)));
            quote!(namespace: #text)
        });
        let instructions = self.instructions.as_ref().map(|text| {
            let text = some(quote!(#p::std::convert::From::from(#text)));
            quote!(instructions: #text)
        });
        let approval = self.approval.as_ref().map(|approval| match approval {
            Approval::Always(text) => {
                let text = quote!(#p::std::convert::From::from(#text));
                quote!(approval: #p::ToolApproval::Always(#text))
            }
            Approval::PerCall(_) => quote!(approval: #p::ToolApproval::PerCall),
        });
        let given = [effects, approval, timeout, exclusive, retry, namespace, instructions];
        let given: Vec<TokenStream> = given.into_iter().flatten().collect();
        (!given.is_empty()).then(|| quote!(#p::ToolOptions { #(#given,)* ..#default }))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            description: None,
            private: Some(syn::parse_quote!(::loopwright::__private)),
            instructions: None,
            namespace: None,
            timeout: None,
            side_effects: None,
            writes: None,
            approval: None,
            retry: None,
            exclusive: false,
        }
    }
}

/// Returns the entries up to the first that is not one.
fn entries(tokens: TokenStream, problems: &mut Errors) -> Vec<Entry> {
    let mut entries = Vec::new();
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            entries.push(input.parse()?);
            if !input.is_empty() {
                let comma = input.parse::<Token![,]>();
                comma.map_err(|error| Error::new(error.span(), "expected a comma"))?;
            }
        }
        Ok(())
    };
    read.parse2(tokens).unwrap_or_else(|error| problems.add_error(error));
    entries
}
