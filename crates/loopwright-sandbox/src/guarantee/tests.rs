use super::*;

#[test]
fn the_best_effort_is_not_enforced_and_not_missing() {
    let guarantees = Guarantees::default()
        .with(Enforcement::Enforced, [Guarantee::FileReads])
        .with(Enforcement::BestEffort, [Guarantee::KillTree]);
    let enforced = Guarantee::ALL.into_iter().filter(|it| guarantees.enforces(*it));
    assert_eq!(enforced.collect::<Vec<_>>(), [Guarantee::FileReads]);
    let missing = guarantees.missing();
    assert_eq!(missing.len(), Guarantee::ALL.len() - 2);
    assert!(!missing.contains(&Guarantee::KillTree));
}
