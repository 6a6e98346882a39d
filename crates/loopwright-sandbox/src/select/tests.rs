use super::*;

#[test]
fn weaker_tiers_are_tried_only_when_they_are_accepted() {
    let policy = Policy::in_dir(".");
    assert_eq!(candidates(&policy), [Tier::Namespaces, Tier::Bubblewrap]);
    let policy = policy.accept(Tier::Landlock).accept(Tier::Bubblewrap);
    assert_eq!(candidates(&policy), [Tier::Namespaces, Tier::Bubblewrap, Tier::Landlock]);
}

#[test]
fn a_driver_that_is_named_has_no_second() {
    let policy = Policy::in_dir(".").accept(Tier::Host).driver(Tier::Docker);
    assert_eq!(candidates(&policy), [Tier::Docker]);
}

#[test]
fn a_policy_survives_being_stored() {
    let policy = Policy::in_dir("/work")
        .read("/a")
        .hide("b")
        .env("C", "d")
        .accept(Tier::Landlock)
        .driver(Tier::Host);
    let stored = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&stored).unwrap(), policy);
}
