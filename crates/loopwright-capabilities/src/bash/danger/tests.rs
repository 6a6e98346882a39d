use super::*;
use crate::bash::BashPolicy;

#[track_caller]
fn check(command: &str, expect: Option<&str>) {
    assert_eq!(find(command, &BashPolicy::default().dangerous_patterns), expect, "{command}");
}

#[test]
fn dangerous_commands_are_recognised() {
    check("rm -rf /", Some("rm -rf /"));
    check("sudo  RM   -rf / --no-preserve-root", Some("rm -rf /"));
    check("rm -rf /*", Some("rm -rf /"));
    check("mkfs.ext4 /dev/sda", None);
    check("sudo mkfs /dev/sda", Some("mkfs"));
    check("shutdown now", Some("shutdown"));
    check("dd if=/dev/zero of=/dev/sda", Some("dd if=/dev/zero"));
}

#[test]
fn commands_that_only_begin_like_dangerous_ones_are_not_reported() {
    check("rm -rf /tmp/x", None);
    check("grep shutdowns log", None);
    check("ls", None);
    check("", None);
}
