//! Recorded traffic with providers: served again, compared, and checked against.
//!
//! A folder holds [`Recording`]s, `*.json`, and beside each in `expected/` what its answers mean, an
//! [`Expectation`]. [`check_folder`] is the whole: it looks whether every wire of this build
//!
//! - understands each answer, in one piece, byte by byte, and after every legal rewriting of its
//!   stream;
//! - never takes a part of an answer for the whole, wherever the answer is cut;
//! - asks again after a failure that may pass, with the very same bytes, and not after any other;
//! - writes the requests that were recorded, in a conversation played from the first to the last.
//!
//! Its parts are of use on their own: [`ReplayServer`] answers on this machine as a provider did,
//! [`compare`] tells in which points requests differ, and [`request_problems`] why a provider would refuse
//! one.

mod scenario;
mod expectation;
mod canon;
mod compare;
mod delivery;
mod server;
mod read;
mod meaning;
mod wholeness;
mod turns;
mod request;
mod play;
mod resend;
mod rules;
mod report;
mod check;

pub use self::{
    check::{CheckOptions, Depth, check_folder},
    compare::{Difference, Severity, compare},
    delivery::{Chunking, Mutation},
    expectation::{
        Expectation, ExpectedAnswer, ExpectedCall, ExpectedError, ExpectedUsage, Script,
    },
    report::{Failure, Report},
    rules::request_problems,
    scenario::{
        FolderError, RecordedExchange, RecordedRequest, RecordedResponse, Recording, Scenario,
        read_folder,
    },
    server::{Delivery, Fault, Received, ReplayServer},
};
