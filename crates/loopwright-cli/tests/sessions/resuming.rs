//! However a run ends before its answer, and however it is taken up again: no finished call is made again, and the
//! model is shown what came before.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Place;
use crate::server::{Reply, delta, error, streamed, streamed_call};
use crate::world::{mark, until_asleep};

/// How a run ends, after one call has been made.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Interrupt,
    InterruptTwice,
    Terminate,
    Kill,
    Refused,
    BrokenStream,
    InterruptInAnswer,
    Steps,
    Cancelled,
    /// No process reads the answer any more.
    ClosedOutput,
    /// Killed, and killed again while it was resumed.
    KillInResume,
    /// No file may grow any more while the call is made.
    DiskFull,
}

/// How it is taken up again.
#[derive(Clone, Copy, Debug)]
enum Way {
    Continue,
    Message,
    Chat,
    Job,
    Fork,
}

const WAYS: [Way; 5] = [Way::Continue, Way::Message, Way::Chat, Way::Job, Way::Fork];

impl Ending {
    fn reply(self) -> Option<Reply> {
        match self {
            Self::Refused => Some(error(400, "no")),
            Self::BrokenStream => {
                Some(Reply::Stream(vec![delta(json!({"content": "As far"})), Value::Null]))
            }
            // One piece of text, and then none for as long as anybody waits.
            Self::InterruptInAnswer => Some(Reply::Flood(1)),
            // More than a pipe holds.
            Self::ClosedOutput => Some(Reply::Flood(200_000)),
            Self::Steps | Self::DiskFull => None,
            _ => Some(Reply::Nothing),
        }
    }

    /// Returns the first call. It is made once, also if it waits until the disk is full.
    fn call(self) -> Reply {
        let wait = match self {
            Self::DiskFull => format!("; [ -e go ] || sleep {}", Self::nap()),
            _ => String::new(),
        };
        streamed_call("", &format!("echo made >> made{wait}"))
    }

    /// A time that no other test sleeps.
    fn nap() -> String {
        format!("32{}", std::process::id())
    }

    /// Starts the run.
    fn start(self, place: &Place) -> Child {
        let options: &[&str] =
            if matches!(self, Self::Steps) { &["--max-steps", "1"] } else { &[] };
        let line = place.line(&[options, &["go"]].concat());
        if !matches!(self, Self::DiskFull) {
            return place.world.start(&line);
        }
        // A write beyond a limit is an error then, as on a full disk.
        let run = place.world.command(&line);
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.arg(run.get_program()).args(run.get_args());
        let variables = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).current_dir(place.world.path("project"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Ends the run, and returns the last request if there was another one.
    fn end(self, place: &Place, child: &mut Child) -> Option<Value> {
        match self {
            Self::Interrupt => kill("-INT", child),
            Self::InterruptTwice => {
                kill("-INT", child);
                kill("-INT", child);
            }
            Self::Terminate => kill("-TERM", child),
            Self::Kill => kill("-KILL", child),
            Self::InterruptInAnswer => {
                // The text is on its way; it is shown before the signal is heard.
                std::thread::sleep(Duration::from_millis(300));
                kill("-INT", child);
            }
            Self::Cancelled => {
                let id = session(place);
                assert_eq!(place.sessions(&["cancel", &id]).status, 0);
            }
            Self::ClosedOutput => drop(child.stdout.take()),
            Self::KillInResume => {
                kill("-KILL", child);
                child.wait().unwrap();
                let mut resumed = place.world.start(&place.line(&["--continue"]));
                let request = place.server.request();
                kill("-KILL", &resumed);
                resumed.wait().unwrap();
                return Some(request);
            }
            Self::DiskFull => {
                let asleep = until_asleep(&Self::nap());
                let process = child.id().to_string();
                let limit = Command::new("prlimit").args(["--fsize=0", "--pid", &process]).status();
                assert!(limit.unwrap().success());
                fs::write(place.world.path("project/go"), "").unwrap();
                Command::new("kill").arg(asleep.to_string()).status().unwrap();
            }
            Self::Refused | Self::BrokenStream | Self::Steps => {}
        }
        None
    }
}

fn kill(signal: &str, child: &Child) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

fn session(place: &Place) -> String {
    place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned()
}

/// Runs until the ending, takes it up again and returns what is wrong.
fn problems(ending: Ending, way: Way) -> Vec<String> {
    let again = matches!(ending, Ending::KillInResume).then_some(Reply::Nothing);
    // A message to a step that was interrupted follows it, and is answered by another one.
    let is_message = matches!(way, Way::Message | Way::Job);
    let (done, answer) = (streamed("done", "stop"), is_message.then(|| streamed("yes", "stop")));
    let replies = [Some(ending.call()), ending.reply(), again, Some(done), answer];
    let place = Place::new(replies.into_iter().flatten());
    let mut child = ending.start(&place);
    let mut last = place.server.request();
    if ending.reply().is_some() {
        last = place.server.request();
    }
    last = ending.end(&place, &mut child).unwrap_or(last);
    let output = child.wait_with_output().unwrap();
    let (ended, told) = (output.status, String::from_utf8_lossy(&output.stderr).into_owned());
    let id = session(&place);
    let done = match way {
        Way::Continue => place.run(&["--continue"]),
        Way::Message => place.run(&["--continue", "and now?"]),
        Way::Chat => {
            let model = ["-m", "openai-compatible/test", "--base-url", &place.server.url];
            let line = [&["chat", "--continue"], &model[..]].concat();
            place.world.run_with(&line, "/continue\n/quit\n")
        }
        Way::Job => {
            let model = ["-m", "openai-compatible/test", "--base-url", &place.server.url];
            let submit = [&["submit", "--session", &id], &model[..], &["and now?"]].concat();
            assert_eq!(place.world.run(&submit).status, 0);
            place.world.run(&[&["worker", "--exit-when-idle"], &model[..]].concat())
        }
        Way::Fork => {
            assert_eq!(place.sessions(&["fork", &id]).status, 0);
            place.run(&["--continue"])
        }
    };
    let mut problems = Vec::new();
    let resume = format!("resume with: loopwright run --resume {} ", &id[..8]);
    if matches!(ending, Ending::DiskFull) && !told.contains(&resume) {
        problems.push(format!("it does not say how to resume: {told}"));
    }
    let closed = "stopped: standard output was closed";
    if matches!(ending, Ending::ClosedOutput) && !told.contains(closed) {
        problems.push(format!("it does not say why it stopped: {told}"));
    }
    if done.status != 0 {
        problems.push(format!("{} after {ended}: {done:?}", done.status));
    }
    let made = fs::read_to_string(place.world.path("project/made")).unwrap_or_default();
    if made != "made\n" {
        problems.push(format!("the call was made {} times", made.lines().count()));
    }
    let Some(next) = place.server.taken() else {
        problems.push(format!("the model was not called again: {ended} {done:?}"));
        return problems;
    };
    let final_request = std::iter::from_fn(|| place.server.taken()).last();
    let heard = messages(final_request.as_ref().unwrap_or(&next));
    if is_message && !Value::from(heard).to_string().contains("and now?") {
        problems.push(format!("the message is not answered: {ended}"));
    }
    let (before, after) = (messages(&last), messages(&next));
    if !after.starts_with(&before) || (ending.reply().is_none() && after.len() < 4) {
        problems.push(format!("the next request is {after:?} after {before:?}"));
    }
    let text = Value::from(after).to_string();
    if matches!(ending, Ending::InterruptInAnswer) && !text.contains("xxxx") {
        problems.push(format!("the interrupted answer is lost: {text}"));
    }
    problems
}

fn messages(request: &Value) -> Vec<Value> {
    request["messages"].as_array().cloned().unwrap_or_default()
}

/// Tries two ways on, or with `LOOPWRIGHT_LONG` all of them.
fn resumes(ending: Ending) {
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    let first = ending as usize;
    let ways = (0..WAYS.len()).map(|at| WAYS[(first + at) % WAYS.len()]);
    let ways = ways.take(if is_long { WAYS.len() } else { 2 });
    let found: Vec<String> = ways
        .flat_map(|way| problems(ending, way).into_iter().map(move |it| format!("{way:?}: {it}")))
        .collect();
    assert!(found.is_empty(), "{ending:?}:\n{}", found.join("\n"));
}

#[test]
fn an_interrupted_run_resumes() {
    resumes(Ending::Interrupt);
}

#[test]
fn a_run_that_was_interrupted_twice_resumes() {
    resumes(Ending::InterruptTwice);
}

#[test]
fn a_terminated_run_resumes() {
    resumes(Ending::Terminate);
}

#[test]
fn a_killed_run_resumes() {
    resumes(Ending::Kill);
}

#[test]
fn a_run_that_the_provider_refused_resumes() {
    resumes(Ending::Refused);
}

#[test]
fn a_run_whose_answer_broke_off_resumes() {
    resumes(Ending::BrokenStream);
}

#[test]
fn a_run_that_was_interrupted_in_an_answer_resumes_and_keeps_the_answer_so_far() {
    resumes(Ending::InterruptInAnswer);
}

#[test]
fn a_run_that_reached_its_limit_resumes() {
    resumes(Ending::Steps);
}

#[test]
fn a_run_that_was_cancelled_from_elsewhere_resumes() {
    resumes(Ending::Cancelled);
}

#[test]
fn a_command_that_was_killed_in_its_middle_did_not_happen_and_is_run_again() {
    let mark = mark();
    let command = format!("echo made >> made; [ -e flag ] || sleep {mark}");
    let place = Place::new([streamed_call("", &command), streamed("done", "stop")]);
    let mut child = place.world.start(&place.line(&["go"]));
    place.server.request();
    until_asleep(&mark);
    kill("-KILL", &child);
    child.wait().unwrap();
    let made = place.world.path("project/made");
    assert!(!made.exists(), "nothing of it is real");
    fs::write(place.world.path("project/flag"), "").unwrap();
    let done = place.run(&["--continue"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(fs::read_to_string(made).unwrap(), "made\n");
    let last = Value::from(messages(&place.server.taken().unwrap())).to_string();
    assert!(
        last.contains("(no output)") && !last.contains("interrupted after it started"),
        "{last}"
    );
}

#[test]
fn a_run_whose_output_was_closed_resumes() {
    resumes(Ending::ClosedOutput);
}

#[test]
fn a_run_that_was_killed_while_it_was_resumed_resumes() {
    resumes(Ending::KillInResume);
}

#[test]
fn a_run_whose_disk_was_full_resumes() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        println!("skipped: `prlimit`, which lets no file grow, is missing");
        return;
    }
    resumes(Ending::DiskFull);
}
