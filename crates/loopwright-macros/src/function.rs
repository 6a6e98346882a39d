//! The function below `#[tool]`.

use proc_macro2::TokenStream;
use syn::{
    Attribute, Expr, FnArg, LitStr, ReturnType, Safety, Signature, Token, Visibility,
    ext::IdentExt as _,
    parse::{Parse, ParseStream},
    parse_quote,
};

use crate::{description, name, parameter::Parameter, problems::Errors, types};

/// Variables of what `#[derive(JsonSchema)]` makes.
const VARIABLES: [&str; 2] = ["generator", "schema"];

/// The function below `#[tool]`.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// Tokens: whether they make sense is for the compiler to say.
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !begins_function(&input.fork()) {
            return Err(input.error("`#[tool]` goes on an `async fn`"));
        }
        Ok(Self { attributes, visibility, signature: input.parse()?, body: input.parse()? })
    }
}

impl Function {
    /// Reports what no tool can be.
    pub(crate) fn check(&self, problems: &mut Errors) {
        let signature = &self.signature;
        if let Some(constness) = &signature.constness {
            problems.add(constness, "a tool cannot be `const`: it runs when the model calls it");
        }
        if signature.asyncness.is_none() {
            problems.add(signature.fn_token, "a tool is an `async fn`: write `async` before `fn`");
        }
        if let Safety::Unsafe(keyword) = &signature.safety {
            problems.add(
                keyword,
                "a tool cannot be `unsafe`: the model that calls it cannot uphold safety \
                    conditions; put an `unsafe` block into the body",
            );
        }
        if let Some(abi) = &signature.abi {
            problems.add(abi, "a tool cannot be `extern`: only the agent loop calls it");
        }
        if let Some(variadic) = &signature.variadic {
            problems.add(variadic, "a tool cannot be variadic: it takes a fixed list of arguments");
        }
        self.check_generics(problems);
        self.check_ident(problems);
    }

    /// A struct without fields forbids variables of its name, also where the arguments of the
    /// module's tools are derived.
    fn check_ident(&self, problems: &mut Errors) {
        let ident = &self.signature.ident;
        if VARIABLES.iter().any(|variable| ident == variable) {
            problems.add(
                ident,
                format!(
                    "a function of this name conflicts with `#[derive(JsonSchema)]`; rename the \
                        function, and keep the tool's name with `name = \"{ident}\"`"
                ),
            );
        }
    }

    fn check_generics(&self, problems: &mut Errors) {
        let generics = &self.signature.generics;
        if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
            problems.add(
                generics,
                "a tool cannot be generic: the model sees one schema; use concrete types",
            );
        } else if generics.lifetimes().next().is_some() {
            problems.add(
                generics,
                "a tool cannot have lifetimes: arguments are owned, \
                 and the context is taken as `&ToolCx<'_>`",
            );
        }
    }

    /// Takes off the parameters what they say to the model, and returns it. What remains is the
    /// signature of a plain function.
    pub(crate) fn take_parameters(&mut self, problems: &mut Errors) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        let mut has_context = false;
        for input in &mut self.signature.inputs {
            let parameter = match input {
                FnArg::Typed(input) => Parameter::take(input, problems),
                FnArg::Receiver(receiver) => {
                    problems.add(
                        receiver,
                        "a tool cannot take `self`: put `#[tool]` on a free function and pass \
                            its state as `#[state] name: &Type`",
                    );
                    None
                }
            };
            let is_context = matches!(parameter, Some(Parameter::Context));
            if is_context && has_context {
                problems.add(input, "a tool can take the context only once; remove this parameter");
            }
            has_context |= is_context;
            parameters.extend(parameter);
        }
        parameters
    }

    /// Returns the function's name as that of a tool.
    pub(crate) fn name(&self, problems: &mut Errors) -> LitStr {
        let ident = &self.signature.ident;
        let name = ident.unraw().to_string();
        if let Some(complaint) = name::name_error(&name) {
            let remedy = "give the tool another name with `name = \"…\"`";
            problems.add(ident, format!("{complaint}; {remedy}"));
        }
        LitStr::new(&name, ident.span())
    }

    /// Returns what the doc comments say.
    pub(crate) fn description(&self, problems: &mut Errors) -> Expr {
        let ident = &self.signature.ident;
        let description = description::of(&self.attributes);
        match &description {
            Ok(text) if text.is_empty() => problems.add(
                ident,
                "the tool has no description for the model; write a doc comment above the \
                    function, or `description = \"…\"`",
            ),
            Ok(_) => {}
            Err(error) => problems.add_error(error.clone()),
        }
        let text = LitStr::new(&description.unwrap_or_default(), ident.span());
        parse_quote!(#text)
    }

    /// Whether this is a method, and so where no struct can be.
    pub(crate) fn is_method(&self) -> bool {
        self.signature.receiver().is_some()
    }

    /// Whether the function may fail: it returns a `Result` of whatever crate.
    pub(crate) fn is_fallible(&self) -> bool {
        match &self.signature.output {
            ReturnType::Default => false,
            ReturnType::Type(_, output) => types::is_named(output, "Result"),
        }
    }
}

fn begins_function(input: ParseStream<'_>) -> bool {
    loop {
        if input.peek(Token![fn]) {
            return true;
        }
        let is_qualifier = input.peek(Token![const])
            || input.peek(Token![async])
            || input.peek(Token![unsafe])
            || input.peek(Token![extern])
            || input.peek(LitStr);
        if !is_qualifier || input.parse::<proc_macro2::TokenTree>().is_err() {
            return false;
        }
    }
}
