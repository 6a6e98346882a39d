use loopwright_core::{
    Change, Edit, Timestamp,
    messages::{Message, SectionName},
};
use loopwright_sessions::SessionId;

use super::*;

fn loaded() -> LoadedSession {
    let id = SessionId::new("a").unwrap();
    let header = SessionHeader {
        length: 1,
        version: 7,
        branch: 2,
        ..SessionHeader::new(id, "helper", Timestamp::from_millis(1))
    };
    let edit = Edit::Append {
        section: SectionName::MESSAGES.into(),
        message: Message::user("line\none \u{2028} two"),
    };
    let change = Change::StateEdited { by: "caller".into(), edit };
    let changes = vec![ChangeRecord { at: Timestamp::from_millis(2), change }];
    LoadedSession { header, definition: AgentDefinition::new("helper", "helps", "Help."), changes }
}

fn written(subagents: Vec<LoadedSession>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_all(&mut bytes, loaded(), subagents).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Imported, SessionsError> {
    Reader::new(Path::new("f"), bytes).read()
}

#[test]
fn a_transfer_is_read_as_it_was_written() {
    let bytes = written(Vec::new());
    assert_eq!(String::from_utf8(bytes.clone()).unwrap().lines().count(), 2);
    let Imported { session, subagents } = read(&bytes).unwrap();
    assert!(!session.state.is_interrupted());
    let (expect, head) = (loaded(), session.head);
    assert_eq!((head.definition, session.changes), (expect.definition, expect.changes));
    assert_eq!(head.header, SessionHeader { branch: 0, ..expect.header });
    assert_eq!(subagents.map(|it| it.len()), Some(0));
}

#[test]
fn a_file_that_lacks_a_sub_agent_is_not_read() {
    let bytes = written(vec![loaded()]);
    assert_eq!(read(&bytes).unwrap().subagents.map(|it| it.len()), Some(1));
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|it| *it == b'\n').collect();
    while lines.len() > 2 {
        lines.pop();
        let error = read(&lines.concat()).err().unwrap().to_string();
        assert!(error.starts_with("f is incomplete: it "), "{error}");
    }
    let more = read(&[&bytes[..], b"{}\n"].concat()).err().unwrap().to_string();
    assert!(more.ends_with("the file has more changes than the session"), "{more}");
}

#[test]
fn an_imported_session_has_at_most_the_limits_of_a_run_without_any() {
    let wide = AgentState::new();
    let budget = |state: AgentState| *state.replay(limited(&wide)).unwrap().budget();
    let limits = budget(wide.clone());
    assert_eq!(
        (limits.steps, limits.tokens, limits.time, limits.cost),
        (Some(STEPS.get()), Some(TOKENS.get()), Some(TIME), None)
    );
    let narrow = Budget { steps: Some(2), ..limits };
    assert_eq!(limited(&AgentState::new().with_budget(narrow)), []);
}

#[test]
fn no_bytes_bring_it_down() {
    let bytes = written(vec![loaded()]);
    for end in 0..bytes.len() - 1 {
        assert!(read(&bytes[..end]).is_err(), "{end}");
        let mut wrong = bytes.clone();
        wrong[end] = 0xff;
        // Some bytes stand in words, where any are allowed; none of them is taken for text.
        assert!(read(&wrong).is_err(), "{end}");
    }
}
