//! What `#[tool]` makes of a function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Expr, LitStr, ReturnType, parse_quote, spanned::Spanned as _};

use crate::{
    description,
    function::Function,
    options::Options,
    parameter::{Argument, Parameter},
    problems::Problems,
};

/// Expands `#[tool(options)] item`.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut problems = Problems::default();
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
    match problems.into_compile_errors() {
        None => expansion.tool(),
        Some(errors) if expansion.function.is_method() => errors,
        Some(errors) => expansion.placeholder(&errors),
    }
}

/// A tool, about to be written down.
struct Expansion {
    options: Options,
    function: Function,
    parameters: Vec<Parameter>,
    name: LitStr,
    description: Expr,
}

impl Expansion {
    fn new(options: Options, mut function: Function, problems: &mut Problems) -> Self {
        function.check(problems);
        let parameters = function.take_parameters(problems);
        let name = options.name.clone().unwrap_or_else(|| function.name(problems));
        let given = options.description.clone();
        let description = given.unwrap_or_else(|| function.description(problems));
        Self { options, function, parameters, name, description }
    }

    fn tool(&self) -> TokenStream {
        let ident = &self.function.signature.ident;
        let cfgs = self.attributes(Place::Everywhere);
        let (unit_struct, run) = (self.unit_struct(), self.run());
        let (arguments, tool) = (self.arguments(), self.implementation());
        quote! {
            #unit_struct

            #(#cfgs)*
            const _: () = {
                // A binding cannot have the name of a unit struct, but it can have that of a
                // function: with this one in scope, a parameter may be called like the tool.
                #[allow(dead_code, non_snake_case)]
                fn #ident() {}

                #run
                #arguments
                #tool
            };
        }
    }

    /// Stands in for a tool that cannot be made, so that its users do not fail as well.
    fn placeholder(&self, errors: &TokenStream) -> TokenStream {
        let p = &self.options.private;
        let ident = &self.function.signature.ident;
        let cfgs = self.attributes(Place::Everywhere);
        let unit_struct = self.unit_struct();
        quote! {
            #errors
            #unit_struct

            #(#cfgs)*
            #[automatically_derived]
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
        }
    }

    fn unit_struct(&self) -> TokenStream {
        let p = &self.options.private;
        let Function { visibility, signature, .. } = &self.function;
        let ident = &signature.ident;
        let cfgs = self.attributes(Place::Everywhere);
        let attributes = self.attributes(Place::Struct);
        let has_docs = self.function.attributes.iter().any(description::is_doc_comment);
        let documentation = (!has_docs).then(|| self.documentation());
        quote! {
            #(#cfgs)*
            #documentation
            #(#attributes)*
            #[derive(#p::std::clone::Clone, #p::std::marker::Copy, #p::std::fmt::Debug)]
            #[allow(non_camel_case_types)]
            #visibility struct #ident;
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
                #[allow(unreachable_pub, clippy::missing_errors_doc, clippy::unused_async)]
                #visibility #run #body
            }
        }
    }

    fn arguments(&self) -> TokenStream {
        let p = &self.options.private;
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
            #[allow(unreachable_pub)]
            pub struct __Arguments {
                #(#fields,)*
            }
        }
    }

    fn implementation(&self) -> TokenStream {
        let p = &self.options.private;
        let Self { name, description, .. } = self;
        let ident = &self.function.signature.ident;
        let options = self.options.expression().map(|options| {
            quote! {
                fn options(&self) -> #p::ToolOptions {
                    #options
                }
            }
        });
        let output = self.output();
        quote! {
            #[automatically_derived]
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

    /// Returns the call and what is made of its answer. If that is not possible, the compiler points
    /// at the type that the function returns.
    fn output(&self) -> TokenStream {
        let p = &self.options.private;
        let passed = self.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(__cx),
            Parameter::Argument(Argument { name, .. }) => quote!(__arguments.#name),
        });
        let answer = quote!(Self::run(#(#passed),*).await);
        let place = match &self.function.signature.output {
            ReturnType::Default => Span::call_site(),
            ReturnType::Type(_, output) => Span::call_site().located_at(output.span()),
        };
        if self.function.is_fallible() {
            quote_spanned! {place=>
                #p::IntoToolOutput::into_tool_output(
                    #answer.map_err(#p::std::convert::Into::<#p::BoxError>::into)?
                )
            }
        } else {
            quote_spanned!(place=> #p::IntoToolOutput::into_tool_output(#answer))
        }
    }

    fn attributes(&self, place: Place) -> impl Iterator<Item = &Attribute> {
        let attributes = self.function.attributes.iter();
        attributes.filter(move |attribute| Place::all_of(attribute).contains(&place))
    }
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
