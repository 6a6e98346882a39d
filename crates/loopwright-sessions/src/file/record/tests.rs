use super::*;

fn record() -> Record {
    let id = SessionId::new("a").unwrap();
    let header = SessionHeader::new(id.clone(), "agent", Timestamp::from_millis(7));
    Record {
        kind: Kind::Rewind,
        version: u64::MAX,
        status: SessionStatus::Suspended,
        length: 3,
        count: 2,
        branch: u32::MAX,
        updated_at: header.updated_at,
        from: Some(ForkPoint { session: id, branch: 1, at: 3 }),
        title: Some("about".into()),
        print: Some(print([0xab; 16])),
        workdir: None,
        parent: None,
        handled: 8,
        slot: 9,
        session: Some(Box::new(CreationRecord::of(&header, 5))),
    }
}

#[test]
fn a_head_is_read_as_it_was_written() {
    for kind in Kind::ALL {
        let record = Record { kind, ..record() };
        let head = record.head().unwrap();
        let mark = Mark { kind, branch: u32::MAX, version: u64::MAX, length: 3, count: 2 };
        assert_eq!((Mark::read(&head), Record::read(&head)), (Some(mark), Some(record)));
    }
}

#[test]
fn a_head_that_is_cut_is_none() {
    let head = record().head().unwrap();
    for end in 0..head.len() {
        assert_eq!(Record::read(&head[..end]), None);
    }
    assert_eq!(Mark::read(&[4; 29]), None, "there is no such kind");
}

#[test]
fn the_stored_form_is_this_one() {
    let head = record().head().unwrap();
    let text = str::from_utf8(&head[MARK..]).unwrap();
    let at = "1970-01-01T00:00:00.007Z";
    let agent = r#""agent_name":"agent","agent_label":"agent""#;
    let session = format!(r#"{{"format":1,"id":"a",{agent},"created_at":"{at}","definition":5}}"#);
    let from = r#"{"session":"a","branch":1,"at":3}"#;
    let print = "ab".repeat(16);
    assert_eq!(
        text,
        format!(
            r#"{{"status":"suspended","updated_at":"{at}","from":{from},"title":"about","print":"{print}","handled":8,"slot":9,"session":{session}}}"#
        )
    );
}
