//! Control messages for the process that runs a session.

use std::time::Duration;

use super::{
    AppendRequest, ChangeBatch, ControlMessage, LASTS, Lease, LeaseRequest, Message, SessionStore,
    StoreError, append_with, claim, create, header, id, is_conflict, moment, said,
};

/// Appends under a lease, and handles control messages up to a number.
async fn handle(
    store: &dyn SessionStore,
    lease: &Lease,
    expected: u64,
    handled: u64,
) -> Result<u64, StoreError> {
    let changes = said(&["heard"]);
    let header = store.header(&lease.id).await.unwrap().unwrap();
    let batch = ChangeBatch { first: header.length, changes: &changes };
    let write = AppendRequest::new(&lease.id, expected, batch, moment(1));
    store.append(AppendRequest { handled: Some(handled), lease: Some(lease), ..write }).await
}

/// Returns the control messages that are there, and checks that their numbers grow.
async fn collected(store: &dyn SessionStore, lease: &Lease) -> (Vec<u64>, Vec<ControlMessage>) {
    let posted = store.take_control(lease).await.unwrap();
    assert!(posted.is_sorted_by(|a, b| a.number < b.number), "{posted:?}");
    posted.into_iter().map(|it| (it.number, it.control)).unzip()
}

pub(super) async fn control_messages_come_in_order_and_stay_until_a_write_handles_them(
    store: &dyn SessionStore,
) {
    create(store, &header("a"), &[]).await;
    let controls = [
        ControlMessage::SendMessage(Message::user("hi")),
        ControlMessage::Stop,
        ControlMessage::Cancel,
    ];
    for control in &controls {
        store.send_control(&id("a"), control).await.unwrap();
    }
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    let (numbers, found) = collected(store, &lease).await;
    assert_eq!(found, controls);
    assert_eq!(collected(store, &lease).await.1, controls);
    append_with(store, "a", 1, 0, &["other"], Some(&lease), moment(1)).await.unwrap();
    assert_eq!(collected(store, &lease).await.1, controls);
    handle(store, &lease, 2, numbers[1]).await.unwrap();
    assert_eq!(collected(store, &lease).await, (vec![numbers[2]], vec![ControlMessage::Cancel]));
    store.release(&lease).await.unwrap();
    store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    let lost = store.take_control(&lease).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
    let lease = store.lease(&id("a"), claim("you", moment(1))).await.unwrap();
    assert_eq!(collected(store, &lease).await.1, [ControlMessage::Cancel, ControlMessage::Stop]);
}

pub(super) async fn a_lease_knows_which_control_messages_were_sent_before_it(
    store: &dyn SessionStore,
) {
    create(store, &header("a"), &[]).await;
    create(store, &header("b"), &[]).await;
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    assert_eq!(lease.last_control, 0);
    store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    let (numbers, _) = collected(store, &lease).await;
    assert_eq!(store.renew(&lease, moment(2), LASTS).await.unwrap().last_control, 0);
    store.release(&lease).await.unwrap();
    store.send_control(&id("b"), &ControlMessage::Stop).await.unwrap();
    let lease = store.lease(&id("a"), claim("me", moment(2))).await.unwrap();
    assert_eq!(lease.last_control, numbers[0]);
    handle(store, &lease, 1, numbers[0]).await.unwrap();
    store.release(&lease).await.unwrap();
    let lease = store.lease(&id("a"), claim("me", moment(3))).await.unwrap();
    assert_eq!(lease.last_control, numbers[0]);
}

pub(super) async fn no_number_of_a_control_message_is_used_again(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    create(store, &header("b"), &[]).await;
    let mut before = 0;
    for expected in 1..4 {
        let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
        store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
        store.send_control(&id("b"), &ControlMessage::Stop).await.unwrap();
        let (numbers, _) = collected(store, &lease).await;
        assert!(numbers.len() == 1 && numbers[0] > before, "{numbers:?} after {before}");
        before = numbers[0];
        handle(store, &lease, expected, before).await.unwrap();
        assert_eq!(collected(store, &lease).await.1, []);
        store.release(&lease).await.unwrap();
    }
    store.delete(&id("b"), moment(1)).await.unwrap();
    store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    let (numbers, _) = collected(store, &lease).await;
    assert!(numbers.len() == 1 && numbers[0] > before, "{numbers:?} after {before}");
}

pub(super) async fn a_write_that_fails_handles_no_control_message(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    let lost = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    store.release(&lost).await.unwrap();
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    let (numbers, _) = collected(store, &lease).await;
    is_conflict(&handle(store, &lease, 7, numbers[0]).await);
    assert!(handle(store, &lost, 1, numbers[0]).await.is_err());
    assert_eq!(collected(store, &lease).await.1, [ControlMessage::Stop]);
    // What is acknowledged again handles it no less than the first time.
    for _ in 0..2 {
        let first = ChangeBatch { first: 0, changes: &said(&["heard"]) };
        let (id, handled, lease) = (id("a"), Some(numbers[0]), Some(&lease));
        let write =
            AppendRequest { handled, lease, ..AppendRequest::new(&id, 1, first, moment(1)) };
        assert_eq!(store.append(write).await.unwrap(), 2);
    }
    assert_eq!(collected(store, &lease).await.1, []);
}

pub(super) async fn the_holder_of_a_lease_is_known_without_taking_it(store: &dyn SessionStore) {
    let holder = async |time| store.holder(&id("a"), moment(time)).await.unwrap();
    assert_eq!(holder(1).await, None);
    create(store, &header("a"), &[]).await;
    assert_eq!(holder(1).await, None);
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    assert_eq!(holder(2).await.as_deref(), Some("me"));
    assert_eq!(store.renew(&lease, moment(2), LASTS).await.unwrap().number, lease.number);
    store.release(&lease).await.unwrap();
    assert_eq!(holder(3).await, None);
    let ends = LeaseRequest { ttl: Duration::ZERO, ..claim("me", moment(3)) };
    store.lease(&id("a"), ends).await.unwrap();
    assert_eq!(holder(4).await, None);
}
