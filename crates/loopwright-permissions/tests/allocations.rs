//! What a decision allocates.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use loopwright_permissions::Decision::{Allow, Ask};
use loopwright_permissions::{Call, Mode, Policy};
use serde_json::{Value, json};

/// The allocator of the system, which counts what the thread allocates.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer comes from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(action: impl FnOnce() -> T) -> (usize, T) {
    let before = COUNT.get();
    let result = action();
    (COUNT.get() - before, result)
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| Box::new(1)).0, 1);
}

#[test]
fn a_decision_without_rules_allocates_nothing() {
    let calls: [(&str, Value); 7] = [
        ("bash", json!({ "command": "cargo test && git push | tee log > out" })),
        ("read_file", json!({ "path": "src/../src/lib.rs" })),
        ("write_file", json!({ "path": "/etc/passwd" })),
        ("todo_write", json!({})),
        ("mcp__server__tool", json!({})),
        ("spawn_subagent", json!({ "subagent": "explorer" })),
        ("load_skill", json!({ "skill_name": "pdf" })),
    ];
    let decisions = calls.each_ref().map(|(tool, arguments)| {
        let policy = Policy::builder("/work/project").mode(Mode::Ask).build();
        let (count, verdict) = allocations(|| policy.decide(&Call::new(tool, arguments)));
        assert_eq!(count, 0, "{tool}");
        verdict.decision
    });
    assert_eq!(decisions, [Ask, Allow, Ask, Allow, Ask, Allow, Ask]);
}

#[test]
fn a_copy_of_a_policy_allocates_nothing() {
    let policy = Policy::builder("/work/project").build();
    assert_eq!(allocations(|| policy.clone()).0, 0);
}
