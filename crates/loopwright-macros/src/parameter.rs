//! One parameter of the function below `#[tool]`.

use proc_macro2::{Ident, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Pat, PatIdent, PatType, Type, TypeReference};

use crate::{
    problems::Errors,
    types::{self, Obstacle},
};

/// One parameter.
pub(crate) enum Parameter {
    /// What a running tool may use.
    Context,
    /// A field of the tool, which calls borrow.
    State(Box<Type>),
    /// What the model passes.
    Argument(Argument),
}

/// What the model passes.
pub(crate) struct Argument {
    /// The attributes for the description and for the JSON.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) ty: Box<Type>,
}

impl Parameter {
    /// Takes the attributes off a parameter that only an argument has, and returns what it is.
    /// What remains is the parameter of a plain function.
    pub(crate) fn take(input: &mut PatType, problems: &mut Errors) -> Option<Self> {
        let (state, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut input.attrs).into_iter().partition(is_state);
        let (attributes, others) = others.into_iter().partition(is_for_argument);
        input.attrs = others;
        input.attrs.retain(|attribute| is_for_function(attribute, problems));
        if let Some(marker) = state.first() {
            check_marker(marker, &attributes, problems);
            return Some(Self::State(field(&input.ty, problems)));
        }
        if is_context(&input.ty) {
            check_context(&input.ty, problems);
            return Some(Self::Context);
        }
        check_type(&input.ty, problems);
        let name = name(&input.pat, problems)?;
        Some(Self::Argument(Argument { attributes, name, ty: input.ty.clone() }))
    }

    /// Returns what the model passes, if that is what it is.
    pub(crate) fn as_argument(&self) -> Option<&Argument> {
        match self {
            Self::Context | Self::State(_) => None,
            Self::Argument(argument) => Some(argument),
        }
    }

    /// Returns the type of the tool's field, if that is what it is.
    pub(crate) fn as_state(&self) -> Option<&Type> {
        match self {
            Self::State(ty) => Some(ty),
            Self::Context | Self::Argument(_) => None,
        }
    }
}

impl Argument {
    /// Whether attributes say how it is read or described.
    pub(crate) fn is_customized(&self) -> bool {
        self.attributes.iter().any(|attribute| is_one_of(attribute, &["serde", "schemars"]))
    }

    /// Whether the fields of the argument's type are arguments themselves.
    pub(crate) fn is_flattened(&self) -> bool {
        let is_flatten = |token| matches!(token, TokenTree::Ident(ident) if ident == "flatten");
        let serde = self.attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
        let lists = serde.filter_map(|attribute| attribute.meta.require_list().ok());
        lists.flat_map(|list| list.tokens.clone()).any(is_flatten)
    }
}

fn is_state(attribute: &Attribute) -> bool {
    attribute.path().is_ident("state")
}

fn check_marker(marker: &Attribute, attributes: &[Attribute], problems: &mut Errors) {
    if marker.meta.require_path_only().is_err() {
        problems.add(marker, "`#[state]` takes no value");
    }
    for attribute in attributes.iter().filter(|it| !it.path().is_ident("doc")) {
        problems.add(
            attribute,
            "the model does not pass the state of a tool; remove this \
            attribute",
        );
    }
}

/// Returns what a tool keeps so that its calls can borrow it.
fn field(ty: &Type, problems: &mut Errors) -> Box<Type> {
    let Type::Reference(reference) = types::ungrouped(ty) else {
        let taken = ty.to_token_stream().to_string().replace(' ', "");
        problems.add(ty, format!("a call only borrows the state; take `&{taken}`"));
        return Box::new(ty.clone());
    };
    if let Some(mutability) = &reference.mutability {
        problems.add(
            mutability,
            "calls may run concurrently and share the state; take `&…`, with a `Mutex` around \
                the parts that change",
        );
    }
    if let Type::TraitObject(object) = types::ungrouped(&reference.elem) {
        problems.add(
            object,
            "a tool cannot store a bare trait object as its state; take `&Arc<dyn …>`",
        );
        return Box::new(syn::parse_quote!(()));
    }
    reference.elem.clone()
}

fn is_for_argument(attribute: &Attribute) -> bool {
    is_one_of(attribute, &["doc", "serde", "schemars"])
}

fn is_for_function(attribute: &Attribute, problems: &mut Errors) -> bool {
    let is_level = is_one_of(attribute, &["allow", "expect", "warn", "deny", "forbid"]);
    if !is_level {
        let path = attribute.path().to_token_stream().to_string().replace(' ', "");
        problems.add(
            attribute,
            format!(
                "an argument cannot have `#[{path}]`; only doc comments, `#[serde(…)]`, \
                    `#[schemars(…)]` and lint attributes are allowed"
            ),
        );
    }
    is_level
}

fn is_one_of(attribute: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attribute.path().is_ident(name))
}

fn is_context(ty: &Type) -> bool {
    match types::ungrouped(ty) {
        Type::Reference(reference) => types::is_named(&reference.elem, "ToolCx"),
        ty => types::is_named(ty, "ToolCx"),
    }
}

fn check_context(ty: &Type, problems: &mut Errors) {
    if !matches!(types::ungrouped(ty), Type::Reference(TypeReference { mutability: None, .. })) {
        problems.add(ty, "a tool only borrows the context; take `&ToolCx<'_>`");
    }
}

fn check_type(ty: &Type, problems: &mut Errors) {
    match types::obstacle(ty.to_token_stream()) {
        None => {}
        Some(Obstacle::Borrow) => {
            let owned = owned(ty).map_or("an owned type".to_owned(), |ty| format!("`{ty}`"));
            problems.add(
                ty,
                format!("an argument is deserialized from JSON and must be owned; take {owned}"),
            );
        }
        Some(Obstacle::Opaque) => problems.add(
            ty,
            "the schema of an argument is derived from its type; name the type instead of `impl \
                …`",
        ),
    }
}

/// Names what is taken in the place of a reference, where that is sure.
fn owned(ty: &Type) -> Option<String> {
    let Type::Reference(reference) = types::ungrouped(ty) else { return None };
    match types::ungrouped(&reference.elem) {
        Type::Slice(_) => Some("Vec<…>".to_owned()),
        Type::Path(path) => {
            let ident = path.path.get_ident()?.to_string();
            Some(match ident.as_str() {
                "str" => "String".to_owned(),
                "Path" => "PathBuf".to_owned(),
                _ => ident,
            })
        }
        _ => None,
    }
}

fn name(pattern: &Pat, problems: &mut Errors) -> Option<Ident> {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        Pat::Wild(_) => {
            problems.add(pattern, "the model passes arguments by name; give this argument a name");
            None
        }
        _ => {
            problems.add(
                pattern,
                "the model passes arguments by name; give this argument a name, and destructure it \
                    in the body",
            );
            None
        }
    }
}
