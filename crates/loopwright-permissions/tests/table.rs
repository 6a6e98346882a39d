//! A table of calls, rules and decisions.

use loopwright_permissions::{Mode, Table};
use serde_json::Value;

use crate::support::policy;

const ROWS: &str = include_str!("data/commands.jsonl");

#[test]
fn every_row_gets_its_decision() {
    let mut failures = Vec::new();
    let mut count = 0;
    let mut group: Option<Value> = None;
    let mut rows = String::new();
    let mut check = |group: &Option<Value>, rows: &str| {
        let Some(group) = group else { return };
        let rules: Vec<String> = serde_json::from_value(group["rules"].clone()).unwrap();
        let mode: Mode = serde_json::from_value(group["mode"].clone()).unwrap();
        let policy = policy(mode, &rules);
        let table = Table::parse(rows).unwrap();
        count += table.len();
        let name = &group["group"];
        failures.extend(table.failures(&policy).iter().map(|failure| format!("{name} {failure}")));
    };
    for line in ROWS.lines() {
        if line.starts_with("{\"group\"") {
            check(&group, &rows);
            group = Some(serde_json::from_str(line).unwrap());
            rows.clear();
        } else {
            rows.push_str(line);
            rows.push('\n');
        }
    }
    check(&group, &rows);
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 800, "{count}");
}
