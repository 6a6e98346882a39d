//! Random commands, for as long as it is wanted.
//!
//! `LOOPWRIGHT_FUZZ_SECONDS` is how long each test continues; without it there are a few rounds, more of them with
//! `LOOPWRIGHT_LONG`. `LOOPWRIGHT_FUZZ_SEED` is where it begins, and is printed.

use std::env;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loopwright_permissions::{Call, Decision, Mode};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};
use serde_json::json;

use crate::support::{decide, policy};
use crate::trees::{render, render_plain, shapes};

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Tries what a strategy makes: for a duration, or a number of rounds, of which there are more in the long form.
#[expect(clippy::print_stdout, reason = "a test that calls it prints where it began")]
fn fuzz<S: Strategy>(
    (rounds, long): (u64, u64),
    strategy: &S,
    test: impl Fn(S::Value) -> TestCaseResult,
) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seed = number("LOOPWRIGHT_FUZZ_SEED").unwrap_or_else(now);
    let duration = number("LOOPWRIGHT_FUZZ_SECONDS").map(Duration::from_secs);
    let rounds = if env::var_os("LOOPWRIGHT_LONG").is_some() { long } else { rounds };
    let started = Instant::now();
    println!("LOOPWRIGHT_FUZZ_SEED={seed}");
    let mut round = 0;
    while duration.map_or(round < rounds, |duration| started.elapsed() < duration) {
        let config = Config {
            cases: 1,
            max_shrink_iters: 400,
            failure_persistence: None,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(seed + round).to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        if let Err(error) = TestRunner::new_with_rng(config, rng).run(strategy, &test) {
            panic!("LOOPWRIGHT_FUZZ_SEED={}: {error}", seed + round);
        }
        round += 1;
    }
    println!("{round} rounds");
}

#[test]
fn a_tree_of_commands_gets_the_strongest_decision_of_its_parts() {
    const DECISIONS: [Decision; 3] = [Decision::Allow, Decision::Ask, Decision::Deny];
    const NAMES: [&str; 3] = ["good", "unknown", "bad"];
    let policy = policy(Mode::Ask, &["allow Bash(good *)", "deny Bash(bad *)"]);
    fuzz((1_500, 30_000), &shapes(3, 5, 24), |shape| {
        let tree = render(&shape, &|kind, number| format!("{} {number}", NAMES[kind]));
        // Arithmetic can run what an output contains.
        let least = usize::from(tree.text.contains("$(( 1 +"));
        let decisions = tree.leaves.iter().copied().chain([least]).map(|kind| DECISIONS[kind]);
        let strongest = decisions.max().unwrap();
        prop_assert_eq!(decide(&policy, &tree.text), strongest, "{}", tree.text);
        Ok(())
    });
}

#[test]
fn every_command_that_bash_accepts_is_seen() {
    if !is_accepted("true") {
        println!("without bash there is nothing to compare with");
        return;
    }
    let policy = policy(Mode::Ask, &["allow Bash(nothing)"]);
    fuzz((150, 3_000), &shapes(1, 6, 40), |shape| {
        let tree = render(&shape, &|_, number| format!("cmd{number}x"));
        prop_assert!(is_accepted(&tree.text), "bash does not accept:\n{}", tree.text);
        let arguments = json!({ "command": tree.text });
        let explanation = policy.explain(&Call::new("bash", &arguments));
        let mut missing = Vec::new();
        for number in 0..tree.leaves.len() {
            // A deny rule for one command finds it, however it is written.
            let rule = format!("deny Bash(cmd{number}x *)");
            let denying = crate::support::policy(Mode::Unconfined, &[rule]);
            if decide(&denying, &tree.text) != Decision::Deny {
                missing.push(number);
            }
        }
        prop_assert!(
            missing.is_empty(),
            "{missing:?} are not seen in\n{}\n{explanation}",
            tree.text
        );
        Ok(())
    });
}

/// Pieces of shell syntax.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "cmdx", " ", " ", "\n", ";", "&", "|", "&&", "||", "(", ")", "{", "}", "$(", "`", "\"", "'",
    "\\", "$", "${", "$((", "))", "<<X", "\nX\n", "<<-'X'", "<", ">", ">>", "<<<", "<(", ">(",
    "&>", "2>&1", "if ", "then ", "else ", "fi", "for ", "x ", "in ", "do ", "done", "case ",
    "esac", ";;", "while ", "function ", "f()", "[[ ", " ]]", "((", "#", "=", "x=", "a[", "]",
    "*", "?", "~", "!", "\t", "$'", "é", "$x", "@", ":-", "coproc ", "time ", "sudo ", "env ",
    "xargs ", "eval ", "sh -c ", "find . -exec ", "cd ", "-c", "--", "\r", "timeout 5 ", "0",
    "\u{a0}", "\\\n",
];

/// Texts of these pieces, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = (0..PIECES.len()).prop_map(|index| PIECES[index].to_owned());
    let other = any::<char>().prop_map(|character| character.to_string());
    proptest::collection::vec(prop_oneof![12 => piece, 1 => other], 0..40)
        .prop_map(|pieces| pieces.concat())
}

#[test]
fn no_text_makes_the_reader_panic() {
    let rules = ["allow Bash(cmdx *)", "deny Bash(rm * x)", "ask Read(.env)", "allow Edit(a/**)"];
    let policies = Mode::ALL.map(|mode| policy(mode, &rules));
    fuzz((2_000, 100_000), &pieces(), |text| {
        for policy in &policies {
            let arguments = json!({ "command": text });
            let call = Call::new("bash", &arguments);
            let verdict = policy.decide(&call);
            let explanation = policy.explain(&call);
            prop_assert_eq!(&verdict, &explanation.verdict);
            // What is suggested allows the call; otherwise nothing is.
            drop(policy.suggest(&call));
        }
        Ok(())
    });
}

#[test]
fn no_text_that_bash_accepts_hides_a_command() {
    if !is_accepted("true") {
        return;
    }
    fuzz((400, 20_000), &pieces(), |text| holds(&text));
}

/// A change of a text: at a place, so many characters are replaced by a piece.
type Change = (prop::sample::Index, usize, usize);

fn changed(text: &str, changes: &[Change]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    // Functions could call each other without an end.
    let pieces: Vec<&&str> = PIECES.iter().filter(|piece| !piece.starts_with('f')).collect();
    for (place, removed, piece) in changes {
        let at = place.index(characters.len() + 1);
        let end = (at + removed).min(characters.len());
        let piece = if *piece == 0 { "" } else { pieces[piece % pieces.len()] };
        characters.splice(at..end, piece.chars());
    }
    characters.into_iter().collect()
}

/// Commands that have the name of another one as data.
const DATA: [&str; 8] = [
    ": \"a\\\";cmdx\"",
    ": \"a\\\\\";:;: ';cmdx'",
    ": cmdx",
    ": 'a;cmdx'",
    ": \"a|cmdx\"",
    ": $'a\\';cmdx'",
    ": a\\;cmdx",
    ": \"${x:-a}\"'&cmdx'",
];

#[test]
fn a_command_that_is_data_is_seen_where_a_change_makes_bash_run_it() {
    if !is_accepted("true") {
        return;
    }
    let change = (any::<prop::sample::Index>(), 0..3_usize, 0..1_000_usize);
    let strategy = (shapes(8, 4, 10), proptest::collection::vec(change, 1..4));
    fuzz((300, 20_000), &strategy, |(shape, changes)| {
        let tree = render_plain(&shape, &|kind, _| DATA[kind].to_owned());
        holds(&changed(&tree.text, &changes))
    });
}

/// Openings of here-documents.
#[rustfmt::skip]
const OPENINGS: &[&str] = &[
    ": <<E", ": <<-E", ": <<'E'", ": <<-\"E\"", ": <<\\E", ": <<E <<-F", ": <<E; : <<'F'", "x=$(: <<E", "{ : <<E", ": <<E |",
    ": <<-E &&", ": \"$(: <<E", ": <<E # c", ": `: <<E", ": <(: <<-E", "f() { : <<E", "if : <<E", ": <<E\\\nF",
];
/// What may stand in their lines.
#[rustfmt::skip]
const LINES: &[&str] = &[
    "E", "E", "\n", "\n", "\t", "\\\n", "cmdx", " ", "F", "\\", "'", "\"", "$(", ")", "`", "${x:-", "}", "$((", "))", "#", ";", "|",
    "\nE\n", "\nF\n", "\\\\", "<<E", "\n\tE\n", "fi", "then ", "EF",
];

#[test]
fn no_here_document_hides_a_command() {
    if !is_accepted("true") {
        return;
    }
    // The first of them decide where a document ends.
    let piece = prop_oneof![4 => 0..8_usize, 1 => 0..LINES.len()];
    let lines = proptest::collection::vec(piece, 0..16);
    fuzz((400, 20_000), &(0..OPENINGS.len(), lines), |(opening, lines)| {
        let lines: String = lines.into_iter().map(|index| LINES[index]).collect();
        holds(&format!("{}\n{lines}\ncmdx\nE\ncmdx", OPENINGS[opening]))
    });
}

/// Returns `true` if bash can read a text.
fn is_accepted(text: &str) -> bool {
    let bash = Command::new("/bin/bash")
        .args(["--norc", "--noprofile", "-n", "-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    bash.is_ok_and(|status| status.success())
}

/// Gives every `cmdx` of a text a number.
fn numbered(text: &str) -> (String, usize) {
    let mut parts = text.split("cmdx");
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for part in parts {
        write!(numbered, "cmd{count}x{part}").unwrap();
        count += 1;
    }
    (numbered, count)
}

/// Lets bash run a text, and holds that a deny rule finds each `cmdx` that ran.
fn holds(text: &str) -> TestCaseResult {
    let (text, count) = numbered(text);
    let readable = policy(Mode::Unconfined, &["deny Bash(nothing *)"]);
    if count == 0 || text.contains('\0') || decide(&readable, &text) != Decision::Allow {
        return Ok(());
    }
    for number in ran(&text, count) {
        let denying = policy(Mode::Unconfined, &[format!("deny Bash(cmd{number}x *)")]);
        let decision = decide(&denying, &text);
        prop_assert_ne!(decision, Decision::Allow, "`cmd{}x` runs in:\n{}", number, text);
    }
    Ok(())
}

#[test]
fn commands_that_bash_runs_are_told_from_data() {
    if is_accepted("true") {
        let text = "cmd0x; : $(cmd1x) 'cmd2x' \"`cmd3x`\" <<E\n$(cmd4x) cmd5x\nE\n# cmd6x";
        assert_eq!(ran(text, 7), [0, 1, 3, 4]);
    }
}

/// Returns the numbers of the commands that bash runs. They complain to the error output, which no substitution takes
/// and a restricted shell may use. Nothing else can run: no program is found, and the shell is
/// restricted.
fn ran(text: &str, count: usize) -> Vec<usize> {
    let functions: Vec<String> = (0..count)
        .map(|number| {
            format!(
                "cmd{number}x() {{ builtin kill ran-{number}-; }}
"
            )
        })
        .collect();
    // Functions that call each other would start processes without an end.
    let script = format!("ulimit -t 1\nreadonly FUNCNEST=4\n{}{text}", functions.concat());
    let mut bash = Command::new("/bin/bash");
    bash.args(["--norc", "--noprofile", "-r", "-c", &script]);
    bash.env_clear().env("PATH", "/nonexistent").current_dir(env::temp_dir());
    let output = output_in_time(&mut bash, Duration::from_secs(10));
    let output = String::from_utf8_lossy(&output);
    (0..count).filter(|number| output.contains(&format!("ran-{number}-"))).collect()
}

/// Returns what a program and its children write until the last of them has ended. Those that take longer are killed:
/// some wait for each other.
fn output_in_time(command: &mut Command, time: Duration) -> Vec<u8> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(child) = command.process_group(0).spawn() else { return Vec::new() };
    let group = format!("-{}", child.id());
    let (ended, waits) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if waits.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
            assert!(kill.is_ok(), "without `kill`, what does not end cannot be ended");
        }
    });
    let output = child.wait_with_output();
    drop(ended);
    watch.join().unwrap();
    output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default()
}

/// Holds that programs that do not end do not hold up the tests.
#[test]
fn what_bash_does_not_end_is_ended() {
    if !is_accepted("true") {
        return;
    }
    let started = Instant::now();
    assert_eq!(ran("function x (cmd0x; x); x", 1), [0]);
    let mut waiting = Command::new("/bin/bash");
    waiting.args(["-c", "echo begun; sleep 600 & wait"]);
    assert_eq!(output_in_time(&mut waiting, Duration::from_millis(500)), b"begun\n");
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
}

/// Texts that are bad for readers that go back or that call themselves.
#[test]
fn hostile_texts_are_read_in_time() {
    let policy = policy(Mode::Ask, &["allow Bash(a *)", "deny Bash(*b*c*d*)", "deny Read(.env)"]);
    let openings = [
        "$(",
        "`",
        "( ",
        "{ ",
        "((",
        "$((",
        "${a:-",
        "\"$(",
        "if ",
        "while ",
        "a <<X\n",
        "a && ",
        "case x in x) ",
        "a | ",
        "f() { ",
        "\\",
        "'",
        "\"",
        "<(",
        "[[ ",
        "a[",
        "a=(",
        "eval '",
        "sh -c \"",
        "sudo ",
        "timeout 1 ",
        "xargs ",
        "env ",
        "a\n",
        "a;",
        "a b ",
        "b c ",
        "*",
        "cd x;",
        "cd x && ",
        "~",
        "$'\\x41",
        "a > b ",
        "# \n",
        "\\\n",
        "x=1 ",
        "é",
        "sudo sh ",
        "sh -c 'x' ",
        "find . -exec ",
    ];
    for opening in openings {
        for count in [30, 1_000, 200_000 / opening.len()] {
            let text = opening.repeat(count);
            let started = Instant::now();
            let decision = decide(&policy, &text);
            let elapsed = started.elapsed();
            assert!(
                elapsed < Duration::from_secs(5),
                "{opening:?} × {count}: {elapsed:?}, {decision}"
            );
        }
    }
}

#[test]
fn texts_in_texts_are_read_in_time() {
    let denying = policy(Mode::Unconfined, &["deny Bash(cmdx *)"]);
    for shells in [
        "sh -c ",
        "sudo sh sh sh sh sh sh ",
        "env -S 'a b' sudo bash -c ",
        "eval ",
        "find . -exec sh -c ",
    ] {
        let mut text = "cmdx".to_owned();
        for depth in 1..8 {
            let texts: Vec<String> = (0..3)
                .map(|number| format!("'{} {number}'", text.replace('\'', r"'\''")))
                .collect();
            text = format!("{shells}{}", texts.join(" "));
            if text.len() > 100_000 {
                break;
            }
            let started = Instant::now();
            let decision = decide(&denying, &text);
            let elapsed = started.elapsed();
            assert!(elapsed < Duration::from_secs(5), "{shells} {depth}: {elapsed:?}");
            // What is too deep is not read, and asks.
            assert_ne!(decision, Decision::Allow, "{shells} {depth}");
        }
    }
}
