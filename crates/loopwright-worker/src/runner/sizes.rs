//! The sizes of the futures of a job, which a worker has in memory while the job runs.

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
fn futures_of_a_job_are_small() {
    let sizes = [(
        "a job",
        size_of_result(|| {
            let runner: &'static JobRunner<'static> = value();
            runner.perform(value())
        }),
        2560,
    )];
    let large = sizes.iter().filter(|(_, size, limit)| size > limit);
    assert_eq!(large.collect::<Vec<_>>(), Vec::<&(&str, usize, usize)>::new());
}
