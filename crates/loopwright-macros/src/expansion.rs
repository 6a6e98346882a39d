//! What `#[tool]` makes of a function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Expr, Index, LitStr, Path, ReturnType, Type, parse_quote, spanned::Spanned};

use crate::{
    description,
    function::Function,
    options::{Approval, Options},
    parameter::{Argument, Parameter},
    problems::Errors,
};

/// Expands `#[tool(options)] item`.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut problems = Errors::default();
    let options = Options::read(options, &mut problems);
    let function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            problems.add_error(error);
            let errors = problems.into_compile_errors();
            return quote!(#errors #item);
        }
    };
    let expansion = Expansion::new(options, function, &mut problems);
    match (problems.into_compile_errors(), expansion) {
        (None, Some(expansion)) => expansion.tool(),
        (errors, Some(expansion)) if !expansion.function.is_method() => {
            let placeholder = expansion.placeholder();
            quote!(#errors #placeholder)
        }
        (errors, _) => errors.unwrap_or_default(),
    }
}

/// A tool, about to be written down.
struct Expansion {
    /// Where the names are found that it needs.
    private: Path,
    options: Options,
    function: Function,
    parameters: Vec<Parameter>,
    name: LitStr,
    description: Expr,
    /// The positions of the parameters that name the files that a call writes, if that is declared.
    writes: Option<Vec<usize>>,
}

impl Expansion {
    /// Reports what is wrong with the function. `None`: nothing can be written down at all.
    fn new(mut options: Options, mut function: Function, problems: &mut Errors) -> Option<Self> {
        function.check(problems);
        let parameters = function.take_parameters(problems);
        let name = options.name.take().unwrap_or_else(|| function.name(problems));
        let description = options.description.take();
        let description = description.unwrap_or_else(|| function.description(problems));
        let writes = options.writes.take().map(|names| written(&names, &parameters, problems));
        let private = options.private.take()?;
        Some(Self { private, options, function, parameters, name, description, writes })
    }

    fn tool(&self) -> TokenStream {
        let (fit, arguments) = (self.arguments_fit(), self.arguments());
        let (shared, implementation) = (self.state_is_shared(), self.implementation());
        self.items(&quote!(#fit #shared #arguments #implementation))
    }

    /// Stands in for a tool that cannot be made, so that its users do not fail as well.
    fn placeholder(&self) -> TokenStream {
        let p = &self.private;
        let ident = &self.function.signature.ident;
        self.items(&quote! {
            impl #p::Tool for #ident {
                type Args = ();
                type Output = ();
                type Error = #p::BoxError;

                fn name(&self) -> &str { "" }
                fn description(&self) -> &str { "" }
                async fn call(
                    &self,
                    _: (),
                    _: &#p::ToolCx<'_>,
                ) -> #p::std::result::Result<(), #p::BoxError> {
                    #p::std::result::Result::Ok(())
                }
            }
        })
    }

    /// Returns the struct, the function and what makes a tool of them.
    fn items(&self, implementation: &TokenStream) -> TokenStream {
        let ident = &self.function.signature.ident;
        let cfgs = self.attributes(Place::Everywhere);
        let is_deprecated = |attribute: &Attribute| attribute.path().is_ident("deprecated");
        let deprecated = self.function.attributes.iter().any(is_deprecated);
        // What is deprecated may speak of itself.
        let deprecated = deprecated.then(|| quote!(#[allow(deprecated)]));
        let (definition, run) = (self.definition(), self.run());
        quote! {
            #definition

            #(#cfgs)*
            #deprecated
            const _: () = {
                // A variable cannot have the name of such a struct, but it can have that of a
                // function: with this one in scope, a parameter may be called like the tool.
                #[allow(dead_code, non_snake_case)]
                fn #ident() {}

                #run
                #implementation
            };
        }
    }

    fn state(&self) -> impl Iterator<Item = &Type> {
        self.parameters.iter().filter_map(Parameter::as_state)
    }

    /// Has the compiler point at state that threads cannot share.
    fn state_is_shared(&self) -> TokenStream {
        let p = &self.private;
        let shared = self.state().map(|ty| quote_spanned!(at(ty)=> __is_shared::<#ty>();));
        quote! {
            const _: fn() = || {
                #[allow(dead_code)]
                fn __is_shared<T: #p::std::marker::Send + #p::std::marker::Sync + 'static>() {}
                #(#shared)*
            };
        }
    }

    /// Returns the struct: without fields, or with one for each piece of state.
    fn definition(&self) -> TokenStream {
        let p = &self.private;
        let Function { visibility, signature, .. } = &self.function;
        let ident = &signature.ident;
        let cfgs = self.attributes(Place::Everywhere);
        let attributes = self.attributes(Place::Struct);
        let has_docs = self.function.attributes.iter().any(description::is_doc_comment);
        let documentation = (!has_docs).then(|| self.documentation());
        let mut fields = self.state().map(|ty| quote!(#visibility #ty)).peekable();
        let (derived, fields) = if fields.peek().is_some() {
            (None, Some(quote!((#(#fields),*))))
        } else {
            let derived = quote!(#p::std::clone::Clone, #p::std::marker::Copy, #p::std::fmt::Debug);
            (Some(quote!(#[derive(#derived)])), None)
        };
        quote! {
            #(#cfgs)*
            #documentation
            #(#attributes)*
            #derived
            #[allow(non_camel_case_types)]
            #visibility struct #ident #fields;
        }
    }

    /// Documents a tool that has no doc comment.
    fn documentation(&self) -> Attribute {
        match &self.description {
            // An attribute cannot look at a constant.
            Expr::Path(_) => {
                let text = format!("The tool `{}`.", self.name.value());
                parse_quote!(#[doc = #text])
            }
            description => parse_quote!(#[doc = #description]),
        }
    }

    /// Returns the function as it was written, as an item of the struct.
    fn run(&self) -> TokenStream {
        let Function { visibility, signature, body, .. } = &self.function;
        let ident = &signature.ident;
        let mut run = signature.clone();
        run.ident = Ident::new("run", ident.span());
        let attributes = self.attributes(Place::Function);
        quote! {
            impl #ident {
                /// Calls the function itself, without an agent.
                #(#attributes)*
                #[allow(clippy::missing_errors_doc, clippy::unused_async)]
                #visibility #run #body
            }
        }
    }

    /// Has the compiler look at the types of arguments first: what it says of what is derived below does not tell
    /// a beginner what to do. Attributes may replace what a type does not have.
    fn arguments_fit(&self) -> TokenStream {
        let p = &self.private;
        let plain = self.parameters.iter().filter_map(Parameter::as_argument);
        let plain = plain.filter(|argument| !argument.is_customized());
        let fit = plain.map(|Argument { ty, .. }| quote_spanned!(at(ty)=> __fits::<#ty>();));
        quote! {
            const _: fn() = || {
                #[allow(dead_code)]
                fn __fits<T: #p::ToolArgument>() {}
                #(#fit)*
            };
        }
    }

    fn arguments(&self) -> TokenStream {
        let p = &self.private;
        let path = |name: &str| format!("{p}::{name}", p = quote!(#p)).replace(' ', "");
        let (serde, schemars) = (path("serde"), path("schemars"));
        let arguments: Vec<&Argument> =
            self.parameters.iter().filter_map(Parameter::as_argument).collect();
        let fields = arguments
            .iter()
            .map(|Argument { attributes, name, ty }| quote!(#(#attributes)* #name: #ty));
        // Serde cannot tell which fields are unknown if another type may know them.
        let is_closed = !arguments.iter().any(|argument| argument.is_flattened());
        let closed = is_closed.then(|| quote!(#[serde(deny_unknown_fields)]));
        quote! {
            #[doc(hidden)]
            #[derive(#p::serde::Deserialize, #p::schemars::JsonSchema)]
            #[serde(crate = #serde)]
            #closed
            #[schemars(crate = #schemars)]
            pub struct __Arguments {
                #(#fields,)*
            }
        }
    }

    fn implementation(&self) -> TokenStream {
        let p = &self.private;
        let Self { name, description, .. } = self;
        let ident = &self.function.signature.ident;
        let options = self.options.expression(p).map(|options| {
            quote! {
                #[allow(clippy::needless_update)]
                fn options(&self) -> #p::ToolOptions {
                    #options
                }
            }
        });
        let (writes, approval, output) = (self.writes(), self.approval(), self.output());
        quote_spanned! {at(ident)=>
            impl #p::Tool for #ident {
                type Args = __Arguments;
                type Output = #p::ToolOutput;
                type Error = #p::BoxError;

                fn name(&self) -> &str {
                    #name
                }

                fn description(&self) -> &str {
                    #description
                }

                #options

                #writes

                #approval

                async fn call(
                    &self,
                    __arguments: __Arguments,
                    __cx: &#p::ToolCx<'_>,
                ) -> #p::std::result::Result<#p::ToolOutput, #p::BoxError> {
                    #output
                }
            }
        }
    }

    /// Returns the declaration of the files that a call writes. The compiler is to point at the type of a parameter that
    /// names no file.
    fn writes(&self) -> Option<TokenStream> {
        let p = &self.private;
        let arguments = self.writes.as_ref()?.iter();
        let arguments = arguments.filter_map(|index| self.parameters.get(*index)?.as_argument());
        let paths = arguments.map(|Argument { name, ty, .. }| {
            quote_spanned! {at(ty)=>
                #p::WritePath::add_to(&__arguments.#name, &mut __paths);
            }
        });
        Some(quote! {
            fn writes(&self, __arguments: &__Arguments) -> #p::Writes {
                let mut __paths = #p::std::vec::Vec::new();
                #(#paths)*
                #p::Writes::paths(__paths)
            }
        })
    }

    /// Returns the declaration of the calls that need approval, if it depends on the arguments.
    fn approval(&self) -> Option<TokenStream> {
        let Some(Approval::PerCall(function)) = &self.options.approval else { return None };
        let p = &self.private;
        let arguments = self.parameters.iter().filter_map(Parameter::as_argument);
        let names = arguments.map(|it| &it.name);
        let call = quote_spanned!(at(function)=> #function(#(&__arguments.#names),*));
        Some(quote! {
            fn approval(
                &self,
                __arguments: &__Arguments,
            ) -> #p::std::option::Option<#p::std::string::String> {
                #call
            }
        })
    }

    /// Returns the call and what is made of its answer. The compiler is to point at the type that
    /// the function returns if nothing can be made of it.
    fn output(&self) -> TokenStream {
        let p = &self.private;
        let place = match &self.function.signature.output {
            ReturnType::Default => at(&self.function.signature.ident),
            ReturnType::Type(_, output) => at(output),
        };
        let mut position = 0;
        let passed = self.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(__cx),
            Parameter::State(_) => {
                let index = Index::from(position);
                position += 1;
                quote!(&self.#index)
            }
            Parameter::Argument(Argument { name, .. }) => quote!(__arguments.#name),
        });
        let mut output = quote_spanned!(place=> Self::run(#(#passed),*).await);
        if self.function.is_fallible() {
            output = quote_spanned!(place=> match #output {
                #p::std::result::Result::Ok(__output) => __output,
                #p::std::result::Result::Err(__error) => {
                    return #p::std::result::Result::Err(#p::std::convert::Into::into(__error));
                }
            });
        }
        quote_spanned!(place=> #p::IntoToolOutput::into_tool_output(#output))
    }

    fn attributes(&self, place: Place) -> impl Iterator<Item = &Attribute> {
        let attributes = self.function.attributes.iter();
        attributes.filter(move |attribute| Place::all_of(attribute).contains(&place))
    }
}

/// Finds the parameters that name the files that a call writes; none for `nothing`.
fn written(names: &LitStr, parameters: &[Parameter], problems: &mut Errors) -> Vec<usize> {
    let text = names.value();
    let find = |name: &str| {
        let is_named = |it: &Parameter| it.as_argument().is_some_and(|it| it.name == name);
        parameters.iter().position(is_named)
    };
    if text.trim() == "nothing" && find("nothing").is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for name in text.split(',').map(str::trim) {
        match find(name) {
            Some(index) => found.push(index),
            None => problems.add(
                names,
                format!(
                    "unknown argument `{name}`; list the arguments that contain the paths of written \
                        files, such as `writes = \"from, to\"`, or set `writes = \"nothing\"`"
                ),
            ),
        }
    }
    found
}

/// Where the compiler is to point if it does not accept what is made of some code. The names are
/// still the macro's, and lints know that it is generated.
fn at(code: &impl Spanned) -> Span {
    Span::call_site().located_at(code.span())
}

/// Where an attribute of the function goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On whatever is made.
    Everywhere,
    Struct,
    Function,
}

impl Place {
    fn all_of(attribute: &Attribute) -> &'static [Self] {
        let name = attribute.path().get_ident().map(Ident::to_string);
        match name.as_deref() {
            Some("cfg") => &[Self::Everywhere],
            Some("doc" | "deprecated") => &[Self::Struct],
            Some("allow" | "warn" | "deny" | "forbid") => &[Self::Struct, Self::Function],
            _ => &[Self::Function],
        }
    }
}
