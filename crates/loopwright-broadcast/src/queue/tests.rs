use std::collections::BTreeSet;

use loopwright_testing::block_on;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item(u32, DropPriority);

impl Queued for Item {
    fn worth(&self) -> DropPriority {
        self.1
    }
}

fn numbers(taken: Option<Taken<Item>>) -> (u64, Vec<u32>) {
    let taken = taken.unwrap();
    (taken.dropped, taken.items.iter().map(|it| it.0).collect())
}

#[test]
fn fragments_go_before_events_and_what_is_kept_stays() {
    let (entrance, mut exit) = queue(2);
    let items = [
        DropPriority::Event,
        DropPriority::Fragment,
        DropPriority::Kept,
        DropPriority::Event,
        DropPriority::Event,
        DropPriority::Kept,
    ];
    for (number, worth) in (0..).zip(items) {
        assert!(entrance.push(Item(number, worth)));
    }
    assert_eq!((entrance.dropped(), entrance.waiting()), (2, 4));
    assert_eq!(numbers(block_on(exit.take(3))), (2, vec![2, 3, 4]));
    assert_eq!(numbers(block_on(exit.take(3))), (0, vec![5]));
}

#[test]
fn a_closed_queue_can_be_drained() {
    let (entrance, mut exit) = queue(2);
    entrance.push(Item(0, DropPriority::Event));
    entrance.close();
    assert!(!entrance.push(Item(1, DropPriority::Event)));
    assert_eq!(numbers(block_on(exit.take(9))), (0, vec![0]));
    assert_eq!(block_on(exit.take(9)), None);
}

#[test]
fn a_queue_without_a_receiver_does_not_wait() {
    let (entrance, exit) = queue(2);
    entrance.push(Item(0, DropPriority::Kept));
    drop(exit);
    assert!(!entrance.push(Item(1, DropPriority::Kept)));
    assert_eq!(entrance.waiting(), 0);
}

fn worths() -> impl Strategy<Value = Vec<DropPriority>> {
    let worth = prop_oneof![
        Just(DropPriority::Fragment),
        Just(DropPriority::Event),
        Just(DropPriority::Kept)
    ];
    prop::collection::vec(worth, 0..60)
}

proptest! {
    #[test]
    fn whatever_comes_is_taken_in_order_or_counted(
        worths in worths(), capacity in 0_usize..8, every in 1_usize..20, most in 1_usize..5,
    ) {
        let (entrance, mut exit) = queue(capacity);
        let (mut taken, mut dropped) = (Vec::new(), 0);
        for (number, worth) in (0..).zip(&worths) {
            entrance.push(Item(number, *worth));
            let (waiting, kept) = (entrance.waiting(), worths.iter().filter(|it| **it == DropPriority::Kept));
            prop_assert!(waiting <= capacity + kept.count());
            if (number as usize).is_multiple_of(every) && waiting > 0 {
                let (lost, items) = numbers(block_on(exit.take(most)));
                dropped += lost;
                taken.extend(items);
            }
        }
        entrance.close();
        while let Some(batch) = block_on(exit.take(most)) {
            dropped += batch.dropped;
            taken.extend(batch.items.iter().map(|it| it.0));
        }
        prop_assert!(taken.is_sorted());
        prop_assert_eq!(taken.len() as u64 + entrance.dropped(), worths.len() as u64);
        // What was dropped last is told with what is taken next, if anything is.
        prop_assert!(dropped <= entrance.dropped());
        let taken: BTreeSet<u32> = taken.into_iter().collect();
        let kept = (0..).zip(&worths).filter(|(_, it)| **it == DropPriority::Kept);
        prop_assert!(kept.into_iter().all(|(number, _)| taken.contains(&number)));
    }
}
