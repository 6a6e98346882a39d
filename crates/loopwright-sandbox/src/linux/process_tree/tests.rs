use std::process::{Child, Command, Stdio};

use super::*;

/// Two processes below this one's child, both of which have said that they are programs of their own.
fn shell() -> Child {
    let each = "sh -c 'echo up; exec sleep 60' &";
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &format!("{each} {each} wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
    for _ in 0..2 {
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    }
    shell
}

fn end(mut shell: Child) {
    for pid in descendants(shell.id().cast_signed()) {
        signal(pid, Signal::KILL);
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn both_ways_to_find_descendants_agree() {
    let shell = shell();
    let pid = shell.id().cast_signed();
    let walked: BTreeSet<i32> = below(pid).into_iter().collect();
    assert_eq!((walked.len(), &walked), (2, &descendants(pid)));
    end(shell);
}

#[test]
fn usage_counts_what_descends_from_a_process() {
    let shell = shell();
    let pid = Pid::from_child(&shell);
    let usage = usage(pid);
    assert_eq!(usage.processes, 2);
    assert!(usage.memory > 4096, "{usage:?}");
    assert!(shares(pid).is_some_and(|shares| shares.own + shares.shared <= usage.memory));
    end(shell);
}

#[test]
fn a_process_that_does_not_exist_uses_nothing() {
    assert_eq!(usage(Pid::from_raw(i32::MAX).unwrap()), Usage::default());
}
