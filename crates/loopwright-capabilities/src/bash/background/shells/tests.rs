use super::*;

fn shell(outcome: Option<ExitOutcome>) -> Shell {
    let said = Said { outcome, ..Said::default() };
    Shell { stop: CancellationToken::new(), said: watch::Sender::new(said) }
}

/// Some commands of each run.
fn shells(runs: &[(&str, usize, Option<ExitOutcome>)]) -> Shells {
    let shells = Shells::default();
    let all = runs.iter().flat_map(|(run, count, outcome)| vec![(*run, *outcome); *count]);
    for (number, (run, outcome)) in (1..).zip(all) {
        shells.table().shells.insert((run.to_owned(), number), shell(outcome));
    }
    shells
}

#[tokio::test]
async fn only_commands_of_the_same_run_that_still_run_count() {
    let ended = Some(ExitOutcome::Exited(0));
    let runs = [("a", MAX - 1, None), ("a", MAX, ended), ("b", MAX, None)];
    let shells = shells(&runs);
    assert!(shells.check("a").is_ok() && shells.check("c").is_ok());
    assert!(matches!(shells.check("b"), Err(BashError::TooManyBackground(MAX))));
}

#[test]
fn unread_output_is_kept_up_to_a_limit_and_lost_bytes_are_counted() {
    let mut said = Said::default();
    said.add(b"ab");
    said.add(b"c");
    assert_eq!((&said.bytes[..], said.lost), (&b"abc"[..], 0));
    said.add(&vec![b'x'; MAX_UNREAD]);
    assert_eq!((said.bytes.len(), said.lost), (MAX_UNREAD, 3));
}

#[test]
fn output_that_was_read_is_not_returned_again() {
    let shell = shell(None);
    shell.said.send_modify(|it| it.add(&vec![b'x'; MAX_UNREAD + 7]));
    let taken = shell.take();
    assert_eq!((taken.bytes.len(), taken.lost), (MAX_UNREAD, 7));
    assert_eq!(shell.take(), Said::default());
}
