use std::sync::Arc;

use super::*;
use crate::status::SessionStatus;

fn write(id: &SessionId) -> Write<'_> {
    Write {
        id,
        expected: 1,
        batch: Batch { first: 0, changes: &[] },
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
    let batch = Batch { first: 1, changes: &[] };
    let [a, b]: [Arc<str>; 2] = ["/a".into(), "/b".into()];
    let writes = [
        write(&id),
        Write { expected: 2, ..write(&id) },
        Write { batch, ..write(&id) },
        Write { status: Some(SessionStatus::Active), ..write(&id) },
        Write { title: Some(&a), ..write(&id) },
        Write { workdir: Some(&a), ..write(&id) },
        Write { workdir: Some(&b), ..write(&id) },
        Write { parent: Some(&parent), ..write(&id) },
        Write { workdir: Some(&a), parent: Some(&parent), ..write(&id) },
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
