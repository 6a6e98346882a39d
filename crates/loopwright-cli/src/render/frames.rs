//! Fragments of text, joined into what a terminal shows at once.

use std::time::{Duration, Instant};

use loopwright_core::{AgentEvent, StreamFragment, events::StreamDelta};

use super::UiEvent;

/// The time between two pieces of text. Fragments that come faster are joined.
const FRAME: Duration = Duration::from_millis(40);

/// Joins the fragments of one answer. The order of notes stays.
#[derive(Debug)]
pub(super) struct Frames {
    is_paced: bool,
    /// Fragments that are not shown yet.
    waiting: Option<UiEvent>,
    /// When text was last shown.
    shown: Option<Instant>,
}

impl Frames {
    /// Joins fragments if `is_paced` is `true`; otherwise, each note is shown as it comes.
    pub(super) fn new(is_paced: bool) -> Self {
        Self { is_paced, waiting: None, shown: None }
    }

    /// Returns the time until fragments are to be shown. `None` means that none wait.
    pub(super) fn rest(&self, now: Instant) -> Option<Duration> {
        self.waiting.as_ref()?;
        let shown = self.shown.map_or(FRAME, |it| now.saturating_duration_since(it));
        Some(FRAME.saturating_sub(shown))
    }

    /// Returns the fragments that wait, to show them now.
    pub(super) fn take(&mut self, now: Instant) -> Option<UiEvent> {
        let waiting = self.waiting.take();
        if waiting.is_some() {
            self.shown = Some(now);
        }
        waiting
    }

    /// Returns what is shown now that a note comes, in order.
    pub(super) fn pass(&mut self, note: UiEvent, now: Instant) -> impl Iterator<Item = UiEvent> {
        let (earlier, note) = if !self.is_paced || fragment(&note).is_none() {
            (self.take(now), Some(note))
        } else {
            let is_joined = self.waiting.as_mut().is_some_and(|it| join(it, &note));
            let earlier = if is_joined { None } else { self.waiting.replace(note) };
            let is_due = self.rest(now).is_some_and(|it| it.is_zero());
            (earlier, is_due.then(|| self.take(now)).flatten())
        };
        earlier.into_iter().chain(note)
    }
}

/// Returns the fragment of a text or of reasoning.
fn fragment(note: &UiEvent) -> Option<&StreamDelta> {
    match note {
        UiEvent::Event(_, AgentEvent::StreamDelta(it)) => match it.delta {
            StreamFragment::Text(_) | StreamFragment::Reasoning(_) => Some(it),
            _ => None,
        },
        _ => None,
    }
}

/// Adds a fragment to another one of the same answer. Returns `false` if it is of another kind or answer.
fn join(waiting: &mut UiEvent, note: &UiEvent) -> bool {
    let (UiEvent::Event(source, AgentEvent::StreamDelta(first)), UiEvent::Event(of, _)) =
        (waiting, note)
    else {
        return false;
    };
    let Some(more) = fragment(note) else { return false };
    if source != of || (first.step, first.aside) != (more.step, more.aside) {
        return false;
    }
    match (&mut first.delta, &more.delta) {
        (StreamFragment::Text(text), StreamFragment::Text(more))
        | (StreamFragment::Reasoning(text), StreamFragment::Reasoning(more)) => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Source;
    use super::*;

    fn delta(step: u32, delta: &StreamFragment) -> UiEvent {
        let event = json!({"type": "stream_delta", "step": step, "delta": delta});
        UiEvent::Event(Source::default(), serde_json::from_value(event).unwrap())
    }

    fn text(text: &str) -> UiEvent {
        delta(1, &StreamFragment::Text(text.to_owned()))
    }

    /// Writes notes as short words.
    fn shown(notes: impl Iterator<Item = UiEvent>) -> Vec<String> {
        let word = |note: UiEvent| match note {
            UiEvent::Line(line) => line,
            UiEvent::Event(_, AgentEvent::StreamDelta(it)) => match it.delta {
                StreamFragment::Text(text) => text,
                StreamFragment::Reasoning(text) => format!("({text})"),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        notes.map(word).collect()
    }

    #[test]
    fn fragments_that_come_fast_are_shown_together_and_the_first_one_at_once() {
        let (mut frames, start) = (Frames::new(true), Instant::now());
        let mut pass = |note, at| shown(frames.pass(note, start + Duration::from_millis(at)));
        assert_eq!(pass(text("a"), 0), ["a"]);
        assert_eq!(pass(text("b"), 10), [""; 0]);
        assert_eq!(pass(text("c"), 39), [""; 0]);
        assert_eq!(pass(text("d"), 40), ["bcd"]);
        assert_eq!(pass(text("e"), 41), [""; 0]);
        let now = start + Duration::from_millis(50);
        assert_eq!(frames.rest(now), Some(Duration::from_millis(30)));
        assert_eq!(shown(frames.take(now).into_iter()), ["e"]);
        assert_eq!(frames.rest(now), None);
        let later = start + Duration::from_millis(300);
        assert_eq!(shown(frames.pass(text("f"), later)), ["f"]);
    }

    #[test]
    fn other_notes_and_other_answers_come_after_the_fragments_before_them() {
        let (mut frames, now) = (Frames::new(true), Instant::now());
        let mut pass = |note| shown(frames.pass(note, now));
        let thought = |text: &str| delta(1, &StreamFragment::Reasoning(text.to_owned()));
        assert_eq!(pass(text("a")), ["a"]);
        assert_eq!(pass(text("b")), [""; 0]);
        assert_eq!(pass(UiEvent::Line("line".to_owned())), ["b", "line"]);
        assert_eq!(pass(text("c")), [""; 0]);
        assert_eq!(pass(thought("d")), ["c"]);
        assert_eq!(pass(thought("e")), [""; 0]);
        assert_eq!(pass(delta(2, &StreamFragment::Text("f".to_owned()))), ["(de)"]);
        assert_eq!(pass(delta(2, &StreamFragment::End)), ["f", "End"]);
    }

    #[test]
    fn programs_get_each_fragment_by_itself() {
        let (mut frames, now) = (Frames::new(false), Instant::now());
        let mut pass = |note| shown(frames.pass(note, now));
        assert_eq!([pass(text("a")), pass(text("b"))], [["a"], ["b"]]);
    }
}
