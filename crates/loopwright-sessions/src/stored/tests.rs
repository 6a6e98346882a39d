use std::sync::Arc;

use loopwright_core::{Change, Edit};

use super::*;
use crate::status::SessionStatus;

fn write(id: &SessionId) -> AppendRequest<'_> {
    AppendRequest {
        id,
        expected: 1,
        batch: ChangeBatch { first: 0, changes: &[] },
        status: None,
        title: None,
        workdir: None,
        parent: None,
        handled: None,
        lease: None,
        now: Timestamp::from_millis(0),
    }
}

#[test]
fn writes_of_which_anything_differs_are_known_apart() {
    let (id, parent) = (SessionId::new("a").unwrap(), SessionId::new("b").unwrap());
    let batch = ChangeBatch { first: 1, changes: &[] };
    let [a, b]: [Arc<str>; 2] = ["/a".into(), "/b".into()];
    let writes = [
        write(&id),
        AppendRequest { expected: 2, ..write(&id) },
        AppendRequest { batch, ..write(&id) },
        AppendRequest { status: Some(SessionStatus::Active), ..write(&id) },
        AppendRequest { title: Some(&a), ..write(&id) },
        AppendRequest { workdir: Some(&a), ..write(&id) },
        AppendRequest { workdir: Some(&b), ..write(&id) },
        AppendRequest { parent: Some(&parent), ..write(&id) },
        AppendRequest { workdir: Some(&a), parent: Some(&parent), ..write(&id) },
    ];
    let mut prints: Vec<_> = writes.iter().map(|it| fingerprint(it, b"")).collect();
    prints.push(fingerprint(&write(&id), b"[]"));
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), writes.len() + 1);
}

#[test]
fn intact_changes_that_end_too_early_have_a_gap_at_their_end() {
    let id = SessionId::new("a").unwrap();
    let batches: [StoredBatch; 0] = [];
    let missing: Range<Seq> = 0..3;
    assert_eq!(decode_intact(&id, 3, &batches), (Vec::new(), vec![missing]));
    assert_eq!(decode_intact(&id, 0, &batches), (Vec::new(), Vec::new()));
}

#[test]
fn a_checksum_is_the_crc_32_of_the_body() {
    assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
}

#[test]
fn many_changes_are_read_in_order_by_several_threads() {
    let id = SessionId::new("a").unwrap();
    let title = "x".repeat(1_000);
    let change = |number: u64| {
        let edit = Edit::SystemPrompt(Some(format!("{number} {title}").into()));
        let change = Change::StateEdited { by: "test".into(), edit };
        ChangeRecord { at: Timestamp::from_millis(number), change }
    };
    let changes: Vec<_> = (0..600).map(change).collect();
    let batch = |(first, changes): (u64, &[ChangeRecord])| StoredBatch {
        first: first * 7,
        count: changes.len(),
        body: serde_json::to_vec(changes).unwrap(),
        sum: None,
    };
    let batches: Vec<_> = (0..).zip(changes.chunks(7)).map(batch).collect();
    assert!(batches.iter().map(|it| it.body.len()).sum::<usize>() > SPREAD);
    assert_eq!(decode_batches(&id, 600, &batches).unwrap(), changes);
    let mut damaged = batches;
    damaged[50].body.pop();
    assert!(matches!(decode_batches(&id, 600, &damaged), Err(StoreError::Corrupt { .. })));
}
