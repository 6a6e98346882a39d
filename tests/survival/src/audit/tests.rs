use loopwright_core::{RunOptions, Timestamp};
use loopwright_testing::{MemoryJournal, block_on};

use super::*;
use crate::script::Script;
use loopwright_agent::{AgentDefinition, LoopFactory as _};

const STEPS: u32 = 4;

/// A whole run and the ledger of a worker that was never killed.
fn run() -> (Vec<Entry>, Vec<ChangeRecord>) {
    let journal = MemoryJournal::new();
    let agent = Script::silent(STEPS).instantiate(&AgentDefinition::default()).unwrap();
    let journaled = std::sync::Arc::new(journal.clone());
    let options = RunOptions { journal: Some(journaled), ..RunOptions::default() };
    let asked = AgentState::new().with_user_message("go");
    drop(block_on(agent.start(asked, options).finish()));
    let changes = journal.changes();
    let mut entries = Vec::new();
    let order = Order::of(&changes);
    let state = AgentState::new().replay(changes.clone()).unwrap();
    let kinds: BTreeMap<String, Kind> = state
        .steps()
        .flat_map(|step| {
            let execution = state.execution().unwrap().id().clone();
            (0..).zip(step.tool_executions()).map(move |(call, (asked, _))| {
                let key = key(&execution, step.number(), call).to_string();
                (key, Kind::of(&asked.name).unwrap())
            })
        })
        .collect();
    let mut pure: Vec<&String> =
        kinds.iter().filter(|it| *it.1 == Kind::Pure).map(|it| it.0).collect();
    for (number, stamped) in (0..).zip(&changes) {
        let changes = vec![stamped.clone()];
        entries.push(Entry::Kept { version: number + 1, first: number, changes });
        match order.0.get(&number) {
            Some(About::Opened(step)) => entries.push(Entry::Asked { step: *step }),
            Some(About::Started(key)) => {
                let (kind, key) = (kinds[key], key.clone());
                entries.push(Entry::Began { kind, key: key.clone() });
                entries.push(Entry::Done { kind, key });
            }
            _ => {}
        }
    }
    for key in pure.drain(..) {
        entries.push(Entry::Done { kind: Kind::Pure, key: key.clone() });
    }
    (entries, changes)
}

#[track_caller]
fn check(change: impl FnOnce(&mut Vec<Entry>, &mut Vec<ChangeRecord>), expect: &str) {
    let (mut entries, mut changes) = run();
    change(&mut entries, &mut changes);
    let found = problems(&entries, &changes, STEPS);
    assert!(found.iter().any(|it| it.contains(expect)), "{found:?}");
}

fn position(entries: &[Entry], is: impl Fn(&Entry) -> bool) -> usize {
    entries.iter().position(is).unwrap()
}

fn is_once(entry: &Entry) -> bool {
    matches!(entry, Entry::Began { kind: Kind::Once, .. })
}

#[test]
fn the_audit_accepts_an_undisturbed_run() {
    let (entries, changes) = run();
    assert_eq!(problems(&entries, &changes, STEPS), [""; 0]);
}

#[test]
fn a_change_that_was_acknowledged_and_is_not_there_is_found() {
    check(|entries, _| entries.insert(20, Entry::Found(Vec::new())), "was kept and is lost");
    check(|_, changes| changes.truncate(5), "was kept and is lost");
    let other = |_: &mut Vec<Entry>, changes: &mut Vec<ChangeRecord>| {
        changes[3].at = Timestamp::from_millis(1);
    };
    check(other, "change 3 was kept and is lost");
}

#[test]
fn an_answer_that_was_paid_again_is_found() {
    check(|entries, _| entries.push(Entry::Asked { step: 2 }), "step 2 was paid again");
}

#[test]
fn a_question_that_was_not_on_record_is_found() {
    check(|entries, _| entries.insert(0, Entry::Asked { step: 1 }), "asked for before it was kept");
}

#[test]
fn an_effect_that_was_repeated_is_found() {
    let again = |entries: &mut Vec<Entry>, _: &mut Vec<ChangeRecord>| {
        let once = entries[position(entries, is_once)].clone();
        entries.push(once);
    };
    check(again, "began 2 times");
}

#[test]
fn an_effect_that_was_not_on_record_is_found() {
    let early = |entries: &mut Vec<Entry>, _: &mut Vec<ChangeRecord>| {
        let once = entries.remove(position(entries, is_once));
        entries.insert(0, once);
    };
    check(early, "is on record 0 times");
}

#[test]
fn an_outcome_without_an_effect_is_found() {
    let never = |entries: &mut Vec<Entry>, _: &mut Vec<ChangeRecord>| {
        entries.retain(|it| !matches!(it, Entry::Done { kind: Kind::Once, .. }));
    };
    check(never, "took effect 0 times");
}

#[test]
fn the_audit_finds_an_unreported_effect() {
    let done = Entry::Done { kind: Kind::Once, key: "elsewhere/1/0".to_owned() };
    check(|entries, _| entries.push(done), "nobody is told");
}

#[test]
fn a_run_that_is_not_over_is_found() {
    check(|_, changes| drop(changes.pop()), "the run ended as");
}
