//! The sizes of the futures of a model call, which each run has in memory while a model responds.

use super::*;
use crate::http::HttpResponse;

/// Returns the size of a function's result. The function is not called.
fn size_of_result<R>(_: impl FnOnce() -> R) -> usize {
    size_of::<R>()
}

/// Has any type, in functions that are not called.
fn value<T>() -> T {
    unreachable!("only the type is used")
}

#[test]
fn futures_of_a_model_call_do_not_grow() {
    let sizes = [
        ("a response", size_of::<HttpResponse>(), 512),
        (
            "to send a request",
            size_of_result(|| {
                let http: &'static Http = value();
                http.post(value(), value(), value())
            }),
            2048,
        ),
        (
            "to receive a response",
            size_of_result(|| {
                let model: &'static RemoteModel = value();
                let decoder = |_: ErrorContext| -> ResponseDecoder { value() };
                model.receive(value(), value(), decoder, value(), value())
            }),
            3072,
        ),
        (
            "an exchange",
            size_of_result(|| {
                let model: &'static RemoteModel = value();
                let decoder = |_: ErrorContext| -> ResponseDecoder { value() };
                model.exchange(value(), decoder, value(), value())
            }),
            3584,
        ),
        (
            "a call",
            size_of_result(|| {
                let model: &'static RemoteModel = value();
                model.answer(value(), value(), value())
            }),
            6144,
        ),
    ];
    let large = sizes.iter().filter(|(_, size, limit)| size > limit);
    assert_eq!(large.collect::<Vec<_>>(), Vec::<&(&str, usize, usize)>::new());
}
