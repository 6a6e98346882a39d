//! Stored conversations with agents, which continue after a crash.
//!
//! A session is a log of changes in a [`SessionStore`], with a small [`SessionHeader`]. A
//! [`SessionRuntime`] loads a session, runs an action on it and saves the changes. While an agent
//! runs, every checkpoint is saved at once, so that no step is lost or repeated after a crash.

mod id;
mod status;
mod header;
mod session;
mod store;
mod owner;
mod memory;
mod file;
mod error;
mod journal;
mod repository;
mod kept;
mod event;
mod hook;
mod supervisor;
mod jobs;
mod labels;
mod schedule;
mod scheduler;
mod ledger;
mod client_tools;
mod action;
mod actions;
mod runtime;
mod chat;
mod sessions;
mod steps;
mod subagents;
mod undo;
mod event_log;
mod follow;
mod slim;
mod shown;
mod slow;
mod waiters;

pub mod conformance;
pub mod rules;
pub mod stored;

#[cfg(all(feature = "files", target_os = "linux"))]
pub use crate::undo::{FileCall, SessionFiles, UnknownChanges};
pub use crate::{
    action::{ActionCx, SessionAction, action_fn},
    actions::{
        ChangeBudget, ChangeModel, ChangeSystemPrompt, ClearSession, ContinueRun, DecideCall,
        ForkSession, ResumeSession, SendMessage, SuspendSession, UpdateTask, WriteMetadata,
    },
    chat::{Chat, ChatError, ChatStream, ChatUpdate},
    client_tools::ClientTools,
    error::SessionError,
    event::{SessionEvent, SessionListener, SessionSnapshot},
    event_log::EventLog,
    file::{AppendMode, FileStore},
    follow::{EventFollower, FollowEvent},
    header::{
        ForkPoint, InvalidSessionCursor, SessionCursor, SessionHeader, SessionList, SessionQuery,
        SessionRelation, SessionScope,
    },
    hook::{SessionHook, SessionHooks, SessionStage},
    id::{InvalidJobId, InvalidSessionId, JobId, PrincipalTag, SessionId},
    jobs::{ClaimedJob, Job, JobOutcome, JobQuery, JobRecord, JobStatus, JobTask},
    kept::{CacheLimits, SessionCache},
    labels::{InvalidJobLabel, JobLabel, JobLabels},
    ledger::{Allowance, AllowanceRequest, DaySpend, LEDGER_DAY, UsageLedger},
    memory::MemoryStore,
    owner::Owner,
    repository::{SessionRepository, snapshot_owner},
    runtime::SessionRuntime,
    schedule::{Schedule, ScheduleSession},
    scheduler::{ClaimRequest, JobNews, JobQueue, PushOutcome, Scheduler},
    session::{AgentSession, SessionFactory},
    sessions::Sessions,
    shown::{DecideShown, DecideThen, InvalidRequestAddress, RequestAddress, ShownRequest},
    slim::{
        SlimCall, SlimContinuation, SlimError, SlimExecution, SlimMessage, SlimMetadata,
        SlimSerializationConfig, SlimState, SlimStep, SlimUsage,
    },
    slow::{ReportingStore, StoreWait, WaitReporter},
    status::{InvalidTransition, SessionStatus},
    steps::{RewindPoint, has_words, last_turn, step_end},
    store::{
        AppendRequest, ChangeBatch, ControlMessage, Finding, Lease, LeaseRequest, LoadedSession,
        LogEntry, NewSession, Posted, ReclaimStats, Salvaged, SessionLog, SessionStore, StoreError,
        WAIT_LIMIT,
    },
    subagents::{mark_subagent_lost, open_calls, open_subagents},
    supervisor::RunSupervisor,
    waiters::{ForeignWrites, LogWaiter, LogWaiters},
};
