//! Tools by name.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use loopwright_core::{RegistryError, ToolRegistry};
use loopwright_testing::MockTool;

fn tool(name: &str) -> MockTool {
    MockTool::returning(name, &format!("Is {name}."), name)
}

#[test]
fn a_registry_holds_tools_and_factories_and_calls_a_factory_once() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let mut registry = ToolRegistry::new();
    registry.register(tool("ready"));
    registry.register_factory("lazy", move || {
        counter.fetch_add(1, SeqCst);
        tool("lazy")
    });
    assert!(registry.contains("lazy") && registry.contains("ready") && !registry.contains("other"));
    assert_eq!(made.load(SeqCst), 0);
    let (one, again) = (registry.get("lazy").unwrap(), registry.clone().get("lazy").unwrap());
    assert!(Arc::ptr_eq(one.name(), again.name()), "a copy of the registry has the same tool");
    assert_eq!((&**one.name(), registry.all().len()), ("lazy", 2));
    assert_eq!(made.load(SeqCst), 1);
}

#[test]
fn names_come_in_a_fixed_order_factories_first() {
    let mut registry = ToolRegistry::new();
    registry.register(tool("c"));
    registry.register(tool("a"));
    registry.register_factory("d", || tool("d"));
    registry.register_factory("b", || tool("b"));
    assert_eq!(registry.names().collect::<Vec<_>>(), ["b", "d", "c", "a"]);
    assert_eq!(registry.len(), 4);
}

#[test]
fn a_tool_that_is_there_wins_over_one_that_would_have_to_be_made() {
    let mut registry = ToolRegistry::new();
    registry.register_factory("look", || -> MockTool { panic!("it is not made") });
    registry.register(tool("look"));
    assert_eq!(registry.get("look").unwrap().descriptor().description(), "Is look.");
    assert_eq!(registry.len(), 1);
}

#[test]
fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
    let mut registry = ToolRegistry::new();
    registry.register(tool("look"));
    registry.register_factory("draw", || tool("draw"));
    let error = registry.get("loook").unwrap_err();
    assert_eq!(error, RegistryError { name: "loook".into(), known: "draw, look".into() });
    assert_eq!(error.to_string(), "unknown tool `loook`; available: draw, look");
}
