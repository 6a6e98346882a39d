//! The sizes of the futures of a run, which each session has in memory while it waits.

use loopwright_core::{AgentState, Run};

use super::*;

/// Returns the size of a function's result. The function is not called.
fn size_of_result<R>(_: impl FnOnce() -> R) -> usize {
    size_of::<R>()
}

/// Has any type, in functions that are not called.
fn value<T>() -> T {
    unreachable!("only the type is used")
}

#[test]
fn futures_of_a_run_have_little_room_besides_the_run() {
    let sizes = [
        ("a session", size_of::<AgentSession>(), 24),
        ("a run", size_of::<Run>(), 1024),
        ("drive", size_of_result(|| value::<&'static RunSupervisor>().drive(value())), 1536),
        (
            "an action",
            size_of_result(|| {
                let cx: &'static ActionCx<'static> = value();
                cx.run(value(), value::<AgentState>())
            }),
            1792,
        ),
        (
            "an action with a lease",
            size_of_result(|| {
                let (runtime, action): (&'static SessionRuntime, &'static dyn SessionAction) =
                    value();
                runtime.execute_leased(value(), value(), action, value(), value())
            }),
            4096,
        ),
        (
            "a request",
            size_of_result(|| {
                let (runtime, action): (&'static SessionRuntime, &'static dyn SessionAction) =
                    value();
                runtime.execute(value(), action)
            }),
            2048,
        ),
    ];
    let large = sizes.iter().filter(|(_, size, limit)| size > limit);
    assert_eq!(large.collect::<Vec<_>>(), Vec::<&(&str, usize, usize)>::new());
}
