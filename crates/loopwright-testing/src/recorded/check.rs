//! Checks a folder of recordings.

use std::{path::Path, sync::Arc};

use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    delivery::{Chunking, Mutation},
    meaning,
    play::play,
    read::Subject,
    report::{Failure, Report},
    resend::{after_failures, broken, recorded_failure},
    scenario::{FolderError, Scenario, read_folder},
    wholeness::{cut, interrupt},
};

/// The scope of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// The number of cuts and retries to try.
    pub depth: Depth,
    /// Checks only recordings whose names contain this.
    pub only: Option<String>,
}

/// The thoroughness of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// A sample.
    Quick,
    /// Everything.
    #[default]
    Full,
}

/// Recordings that are checked at the same time.
const AT_ONCE: usize = 4;

/// Checks the recordings of a folder, several at once. Call it on a runtime with I/O and time.
///
/// # Errors
///
/// Returns an error if the folder cannot be used.
pub async fn check_folder(folder: &Path, options: &CheckOptions) -> Result<Report, FolderError> {
    let mut scenes = read_folder(folder)?;
    if let Some(only) = &options.only {
        scenes.retain(|scene| scene.recording.name.contains(only.as_str()));
    }
    Ok(check(scenes, options.depth).await)
}

/// Checks scenes, several at once.
pub(crate) async fn check(scenes: Vec<Scenario>, depth: Depth) -> Report {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (index, scene) in scenes.into_iter().enumerate() {
        let permits = Arc::clone(&permits);
        tasks.spawn(async move {
            let _permit = permits.acquire().await;
            let name = scene.recording.name.clone();
            let checked = tokio::spawn(async move { check_scene(&scene, depth).await }).await;
            (index, checked.unwrap_or_else(|error| panicked(name, &error.to_string())))
        });
    }
    let mut reports = Vec::new();
    while let Some(report) = tasks.join_next().await {
        reports.extend(report);
    }
    reports.sort_by_key(|(index, _)| *index);
    let mut all = Report::default();
    for (_, report) in reports {
        all.add(report);
    }
    all
}

fn panicked(recording: String, what: &str) -> Report {
    let what = what.to_owned();
    let failure = Failure { recording, exchange: 0, check: "panic", what };
    Report { scenarios: 1, failures: vec![failure], ..Report::default() }
}

async fn check_scene(scene: &Scenario, depth: Depth) -> Report {
    let name = scene.recording.name.clone();
    let subjects = match Subject::all(scene) {
        Ok(subjects) => subjects,
        Err(wire) => return Report { skipped: vec![(name, wire)], ..Report::default() },
    };
    let mut checked = Checked { name, report: Report::default() };
    checked.report.scenarios = 1;
    checked.report.exchanges = subjects.len();
    for subject in &subjects {
        checked.check_reading(subject);
        let ambiguous = checked.check_cuts(subject, depth);
        checked.check_sending(subject, &ambiguous, depth).await;
    }
    if scene.expectation.script.is_some() {
        let played = play(scene, &subjects).await;
        checked.report.requests = played.requests;
        for (index, what) in played.problems {
            checked.fail(index, "loop", what);
        }
        for (index, what) in played.notes {
            checked.note(index, "loop", what);
        }
    }
    checked.report
}

struct Checked {
    name: String,
    report: Report,
}

impl Checked {
    fn failure(&self, exchange: usize, check: &'static str, what: String) -> Failure {
        Failure { recording: self.name.clone(), exchange, check, what }
    }

    fn fail(&mut self, exchange: usize, check: &'static str, what: String) {
        let failure = self.failure(exchange, check, what);
        self.report.failures.push(failure);
    }

    fn note(&mut self, exchange: usize, check: &'static str, what: String) {
        let note = self.failure(exchange, check, what);
        self.report.notes.push(note);
    }

    /// Decodes a response whole, in pieces, and rewritten. Each problem is reported once.
    fn check_reading(&mut self, subject: &Subject<'_>) {
        let body = subject.body();
        let whole = meaning::problems(&subject.read([body]), subject.expected);
        for problem in &whole {
            self.fail(subject.index, "answer", problem.clone());
        }
        let mut again = |name: String, body: &[u8], chunking: Chunking| {
            let outcome = subject.read(chunking.pieces(body));
            for problem in meaning::problems(&outcome, subject.expected) {
                if !whole.contains(&problem) {
                    self.fail(subject.index, "delivery", format!("{name}: {problem}"));
                }
            }
        };
        again("awkward pieces".to_owned(), body, Chunking::Awkward);
        again("one byte at a time".to_owned(), body, Chunking::One);
        if subject.response().is_event_stream() {
            for mutation in Mutation::ALL {
                let body = mutation.apply(body);
                again(format!("{mutation:?}"), &body, Chunking::Whole);
                again(format!("{mutation:?} in awkward pieces"), &body, Chunking::Awkward);
            }
        }
    }

    /// Returns the places where only the transport can tell whether an answer is whole.
    fn check_cuts(&mut self, subject: &Subject<'_>, depth: Depth) -> Vec<usize> {
        let wholeness = cut(subject, depth);
        for problem in wholeness.problems {
            self.fail(subject.index, "cut", problem);
        }
        for problem in interrupt(subject, depth) {
            self.fail(subject.index, "interruption", problem);
        }
        if wholeness.without_usage > 0 {
            let count = wholeness.without_usage;
            self.note(subject.index, "cut", format!("{count} cuts lose nothing but the usage"));
        }
        if !wholeness.ambiguous.is_empty() {
            let places = &wholeness.ambiguous;
            let what = format!("only the transport tells that it is not whole at {places:?}");
            self.note(subject.index, "cut", what);
        }
        wholeness.ambiguous
    }

    async fn check_sending(&mut self, subject: &Subject<'_>, ambiguous: &[usize], depth: Depth) {
        let is_answer = subject.expected.error.is_none()
            && subject.expected.finish_reason.as_deref() != Some("error");
        let problems = if !subject.response().is_success() {
            recorded_failure(subject).await
        } else if is_answer && (subject.index == 0 || depth == Depth::Full) {
            let mut problems = after_failures(subject).await;
            problems.extend(broken(subject, ambiguous, depth).await);
            problems
        } else {
            Vec::new()
        };
        for problem in problems {
            self.fail(subject.index, "resend", problem);
        }
    }
}

#[cfg(test)]
mod tests;
