//! Recorded traffic of providers: replaying, comparing and checking.
//!
//! A folder contains [`Recording`]s, `*.json`, and for each one in `expected/` the meaning of its
//! responses, an [`Expectation`]. [`check_folder`] runs all checks: that every wire of this build
//!
//! - decodes each response, in one piece, byte by byte, and after every valid rewriting of its
//!   stream;
//! - never accepts a part of a response as complete, wherever it is cut;
//! - retries after a transient failure, with exactly the same bytes, and not after any other;
//! - encodes the recorded requests, in a conversation that is replayed from the first to the last.
//!
//! Its parts can be used on their own: [`ReplayServer`] responds on this machine as a provider did,
//! [`compare`] lists the differences between requests, and [`request_problems`] lists the reasons
//! why a provider would reject one.

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
