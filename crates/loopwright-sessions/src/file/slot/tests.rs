use super::*;

fn header() -> SessionHeader {
    let id = SessionId::new("x".repeat(128)).unwrap();
    SessionHeader::new(id, "agent", Timestamp::from_millis(9))
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let called = SessionHeader { call: Some("call".into()), ..header() };
    for slot in
        [IndexEntry::of(&header()), IndexEntry { is_settled: false, ..IndexEntry::of(&called) }]
    {
        assert_eq!(IndexEntry::read(&slot.to_bytes()), Some(slot));
    }
}

#[test]
fn any_changed_byte_of_an_entry_is_noticed() {
    let bytes = IndexEntry::of(&header()).to_bytes();
    for place in 0..SLOT {
        let mut changed = bytes;
        changed[place] ^= 2;
        assert_eq!(IndexEntry::read(&changed), None, "byte {place}");
    }
    assert_eq!(IndexEntry::read(&bytes[1..]), None);
    assert_eq!(IndexEntry::read(&[0; SLOT]), None);
}

#[test]
fn pending_index_entries_cover_all_possible_sessions() {
    let truth = IndexEntry::of(&header());
    let later = Timestamp::from_millis(10);
    let statuses = truth.statuses | bit(SessionStatus::Deleted);
    let open = IndexEntry { is_settled: false, updated_at: later, statuses, ..truth.clone() };
    assert!(truth.covers(&truth) && open.covers(&truth));
    let wrong = [
        IndexEntry { updated_at: later, ..truth.clone() },
        IndexEntry { updated_at: Timestamp::from_millis(8), ..open.clone() },
        IndexEntry { statuses: bit(SessionStatus::Deleted), ..open.clone() },
        IndexEntry { agent: 1, ..open },
    ];
    for slot in wrong {
        assert!(!slot.covers(&truth), "{slot:?}");
    }
}
