use super::*;

#[test]
fn weaker_tiers_are_tried_only_when_they_are_accepted() {
    let policy = SandboxPolicy::in_dir(".");
    assert_eq!(candidates(&policy), [Backend::Namespaces, Backend::Bubblewrap]);
    let policy = policy.allow_weaker(Backend::Landlock).allow_weaker(Backend::Bubblewrap);
    assert_eq!(candidates(&policy), [Backend::Namespaces, Backend::Bubblewrap, Backend::Landlock]);
}

#[test]
fn changes_that_are_discarded_are_never_made_without_confinement() {
    let policy = SandboxPolicy::in_dir(".").allow_weaker(Backend::Host);
    let strong = [Backend::Namespaces, Backend::Bubblewrap];
    assert_eq!(candidates(&policy), [&strong[..], &[Backend::Host]].concat());
    assert_eq!(candidates(&policy.discard_changes()), strong);
}

#[test]
fn a_driver_that_is_named_has_no_second() {
    let policy =
        SandboxPolicy::in_dir(".").allow_weaker(Backend::Host).with_backend(Backend::Docker);
    assert_eq!(candidates(&policy), [Backend::Docker]);
}

#[test]
fn a_policy_survives_being_stored() {
    let policy = SandboxPolicy::in_dir("/work")
        .read("/a")
        .hide("b")
        .with_env("C", "d")
        .allow_weaker(Backend::Landlock)
        .with_backend(Backend::Host);
    let stored = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<SandboxPolicy>(&stored).unwrap(), policy);
}
