//! The items, members and tests that a Rust source file declares.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Fields, ImplItem, Item, Meta, TraitItem, Type, UseTree, Visibility};

use super::macros::Macro;

/// The declarations of one source file.
///
/// An item belongs to its file, whichever inline module it is in. A member belongs to the type, trait,
/// variant or module around it. Modules that only tests compile declare nothing but tests. Calls of the
/// file's own macros are expanded.
#[derive(Default)]
pub(super) struct Source {
    items: BTreeSet<String>,
    members: BTreeMap<String, BTreeSet<String>>,
    tests: BTreeSet<String>,
    macros: BTreeMap<String, Macro>,
}

impl Source {
    /// Parses the text of a file.
    pub(super) fn parse(text: &str) -> syn::Result<Self> {
        let mut source = Self::default();
        for item in syn::parse_file(text)?.items {
            source.add(&item, None);
        }
        Ok(source)
    }

    /// Returns the part of the path `Item` or `Owner::member` that the file does not declare.
    pub(super) fn missing(&self, path: &[&str]) -> Option<String> {
        if let [item] = path {
            return (!self.items.contains(*item)).then(|| (*item).to_owned());
        }
        path.windows(2).find_map(|pair| {
            let has_member =
                self.members.get(pair[0]).is_some_and(|members| members.contains(pair[1]));
            (!has_member).then(|| pair.join("::"))
        })
    }

    /// Returns `true` if the file has a test function of this name that is not ignored.
    pub(super) fn has_test(&self, name: &str) -> bool {
        self.tests.contains(name)
    }

    fn add(&mut self, item: &Item, module: Option<&str>) {
        match item {
            Item::Const(it) => self.add_item(module, &it.ident),
            Item::Static(it) => self.add_item(module, &it.ident),
            Item::Type(it) => self.add_item(module, &it.ident),
            Item::TraitAlias(it) => self.add_item(module, &it.ident),
            Item::Macro(it) => {
                if let Some(name) = &it.ident {
                    self.add_item(module, name);
                    let definition = Macro::parse(it.mac.tokens.clone());
                    self.macros.extend(definition.map(|definition| (name.to_string(), definition)));
                } else {
                    self.add_expanded(it, module);
                }
            }
            Item::Fn(it) if is_test(&it.attrs) => self.add_test(&it.sig.ident),
            Item::Fn(it) => self.add_item(module, &it.sig.ident),
            Item::Struct(it) => {
                self.add_item(module, &it.ident);
                self.add_fields(&it.ident, &it.fields);
                self.add_derived(&it.ident, &it.attrs);
            }
            Item::Enum(it) => {
                self.add_item(module, &it.ident);
                self.add_derived(&it.ident, &it.attrs);
                for variant in &it.variants {
                    self.add_member(&it.ident, &variant.ident);
                    self.add_fields(&variant.ident, &variant.fields);
                }
            }
            Item::Trait(it) => {
                self.add_item(module, &it.ident);
                it.items
                    .iter()
                    .filter_map(name_in_trait)
                    .for_each(|name| self.add_member(&it.ident, name));
            }
            Item::Impl(it) => {
                if let Some(owner) = name_of(&it.self_ty) {
                    it.items
                        .iter()
                        .filter_map(name_in_impl)
                        .for_each(|name| self.add_member(owner, name));
                }
            }
            Item::Use(it) if matches!(it.vis, Visibility::Public(_)) => {
                self.add_re_exports(&it.tree, module);
            }
            Item::Mod(it) => self.add_module(it, module),
            _ => {}
        }
    }

    fn add_module(&mut self, module: &syn::ItemMod, around: Option<&str>) {
        let items = module.content.iter().flat_map(|(_, items)| items);
        if is_for_tests(&module.attrs) {
            let mut inner = Self::default();
            items.for_each(|item| inner.add(item, None));
            self.tests.append(&mut inner.tests);
        } else {
            self.add_item(around, &module.ident);
            items.for_each(|item| self.add(item, Some(&module.ident.to_string())));
        }
    }

    fn add_expanded(&mut self, call: &syn::ItemMacro, module: Option<&str>) {
        let called = call.mac.path.get_ident().map(ToString::to_string);
        let called = called.and_then(|name| self.macros.get(&name));
        let expanded = called.and_then(|called| called.expand(call.mac.tokens.clone()));
        let items = expanded.and_then(|tokens| syn::parse2::<syn::File>(tokens).ok());
        items.iter().flat_map(|file| &file.items).for_each(|item| self.add(item, module));
    }

    fn add_item(&mut self, module: Option<&str>, name: &dyn ToString) {
        self.items.insert(name.to_string());
        if let Some(module) = module {
            self.add_member(&module, name);
        }
    }

    fn add_member(&mut self, owner: &dyn ToString, name: &dyn ToString) {
        self.members.entry(owner.to_string()).or_default().insert(name.to_string());
    }

    fn add_test(&mut self, name: &dyn ToString) {
        self.tests.insert(name.to_string());
    }

    fn add_fields(&mut self, owner: &dyn ToString, fields: &Fields) {
        let names = fields.iter().filter_map(|field| field.ident.as_ref());
        names.for_each(|name| self.add_member(owner, name));
    }

    /// Adds the one derived method that users call by its name.
    fn add_derived(&mut self, owner: &dyn ToString, attributes: &[Attribute]) {
        if attributes.iter().any(|it| it.path().is_ident("derive") && mentions(it, "Default")) {
            self.add_member(owner, &"default");
        }
    }

    fn add_re_exports(&mut self, tree: &UseTree, module: Option<&str>) {
        match tree {
            UseTree::Path(path) => self.add_re_exports(&path.tree, module),
            UseTree::Name(name) => self.add_item(module, &name.ident),
            UseTree::Rename(rename) => self.add_item(module, &rename.rename),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_re_exports(tree, module));
            }
            UseTree::Glob(_) => {}
        }
    }
}

fn name_in_trait(item: &TraitItem) -> Option<&syn::Ident> {
    match item {
        TraitItem::Const(it) => Some(&it.ident),
        TraitItem::Fn(it) => Some(&it.sig.ident),
        TraitItem::Type(it) => Some(&it.ident),
        _ => None,
    }
}

fn name_in_impl(item: &ImplItem) -> Option<&syn::Ident> {
    match item {
        ImplItem::Const(it) => Some(&it.ident),
        ImplItem::Fn(it) => Some(&it.sig.ident),
        ImplItem::Type(it) => Some(&it.ident),
        _ => None,
    }
}

/// Returns the name of the type that an `impl` is for, without its path and parameters.
fn name_of(owner: &Type) -> Option<&syn::Ident> {
    match owner {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        Type::Reference(reference) => name_of(&reference.elem),
        Type::Group(group) => name_of(&group.elem),
        Type::Paren(paren) => name_of(&paren.elem),
        _ => None,
    }
}

/// Returns `true` for `#[test]`, `#[tokio::test]` and the like, unless the test is ignored.
fn is_test(attributes: &[Attribute]) -> bool {
    let is_marked = |name: &str| {
        attributes.iter().any(|it| it.path().segments.last().is_some_and(|last| last.ident == name))
    };
    is_marked("test") && !is_marked("ignore")
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| it.path().is_ident("cfg") && mentions(it, "test"))
}

fn mentions(attribute: &Attribute, word: &str) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    list.tokens.to_string().split(|letter: char| !letter.is_alphanumeric()).any(|it| it == word)
}

#[cfg(test)]
mod tests {
    use super::Source;

    const TEXT: &str = r#"
        //! A word in a comment, `Ghost`, declares nothing.
        pub use crate::other::{Shared, Old as New};
        use crate::other::Private;

        #[derive(Clone, Default)]
        pub struct Agent { name: String }

        impl Agent {
            pub const LIMIT: u32 = 1;
            pub fn next(&self) -> &str { "ghost"; self.inner() }
        }
        impl<T> From<T> for Agent { fn from(_: T) -> Self { todo!() } }
        impl Display for crate::other::Elsewhere { fn fmt(&self) {} }

        pub enum Event { Started { at: u64 }, Ended }
        pub trait Hook { type State; const NAME: &str; fn called(&self); }
        pub type Names = Vec<String>;
        pub static ALL: &[u32] = &[];
        pub fn agent() { fn ghost() {} }
        macro_rules! agents { ($($name:ident { $field:ident })*) => { $(struct $name { $field: u8 })* } }
        agents! { Written { once } Twice { again } }
        pub mod parts { pub struct Part; }

        #[cfg(test)]
        mod tests {
            struct Double;
            #[test]
            fn nested() {}
            #[tokio::test(start_paused = true)]
            async fn waits() {}
            #[test]
            #[ignore = "slow"]
            fn ignored() {}
            fn helper() {}
        }
    "#;

    #[test]
    fn every_kind_of_item_is_found() {
        let items = ["Agent", "Event", "Hook", "Names", "ALL", "agent", "agents", "parts", "Part"];
        for item in items.into_iter().chain(["Shared", "New"]) {
            assert_eq!(missing(item), None);
        }
    }

    #[test]
    fn every_kind_of_member_is_found() {
        let of_types =
            ["Agent::name", "Agent::LIMIT", "Agent::next", "Agent::from", "Agent::default"];
        let of_others =
            ["Elsewhere::fmt", "Event::Ended", "Event::Started::at", "parts::Part", "Twice::again"];
        let of_traits = ["Hook::State", "Hook::NAME", "Hook::called"];
        for member in of_types.into_iter().chain(of_others).chain(of_traits) {
            assert_eq!(missing(member), None);
        }
    }

    #[test]
    fn a_name_that_is_only_mentioned_counts_as_missing() {
        for name in ["Ghost", "ghost", "inner", "next", "Private", "Old", "Double", "nested"] {
            assert_eq!(missing(name).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_member_of_another_owner_is_missing() {
        for name in ["Agent::Ended", "Agent::called", "Event::at", "Gone::next", "Event::default"] {
            assert_eq!(missing(name).as_deref(), Some(name));
        }
        assert_eq!(missing("Event::Started::gone").as_deref(), Some("Started::gone"));
    }

    #[test]
    fn only_functions_that_the_test_harness_runs_are_tests() {
        let source = Source::parse(TEXT).unwrap();
        assert!(source.has_test("nested"));
        assert!(source.has_test("waits"));
        for other in ["ignored", "helper", "agent", "next", "ghost"] {
            assert!(!source.has_test(other), "{other}");
        }
    }

    fn missing(path: &str) -> Option<String> {
        Source::parse(TEXT).unwrap().missing(&path.split("::").collect::<Vec<_>>())
    }
}
