//! A crate depends only on crates of lower floors.

use std::{collections::BTreeMap, env, process::Command};

use serde_json::{Value, json};

use crate::WORKSPACE;

#[test]
fn every_dependency_points_down() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(WORKSPACE)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = problems(&metadata);
    println!("figure: dependencies of crates that do not point down: {}", problems.len());
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_dependency_on_the_same_or_a_higher_floor_is_a_problem() {
    check(
        &[member("low", 1, &["same", "high"]), member("same", 1, &[]), member("high", 2, &["low"])],
        &[
            "`low` (floor 1) may not depend on `same` (floor 1)",
            "`low` (floor 1) may not depend on `high` (floor 2)",
        ],
    );
}

#[test]
fn a_build_dependency_counts_and_a_dev_dependency_does_not() {
    let mut low = member("low", 0, &["built_with", "tested_with"]);
    low["dependencies"][0]["kind"] = json!("build");
    low["dependencies"][1]["kind"] = json!("dev");
    check(
        &[low, member("built_with", 1, &[]), member("tested_with", 1, &[])],
        &["`low` (floor 0) may not depend on `built_with` (floor 1)"],
    );
}

#[test]
fn a_member_without_a_floor_is_a_problem() {
    let mut lost = member("lost", 0, &[]);
    lost["metadata"] = Value::Null;
    check(
        &[lost, member("high", 2, &["lost", "serde"])],
        &["`lost` has no floor: add `[package.metadata.ladder] floor = …` to its manifest"],
    );
}

#[test]
fn a_workspace_without_members_is_a_problem() {
    check(&[], &["the metadata names no member"]);
}

#[track_caller]
fn check(packages: &[Value], expect: &[&str]) {
    assert_eq!(problems(&json!({ "packages": packages })), expect);
}

/// A package as `cargo metadata` describes it.
fn member(name: &str, floor: u64, dependencies: &[&str]) -> Value {
    let dependencies: Vec<Value> =
        dependencies.iter().map(|name| json!({ "name": name, "kind": null })).collect();
    json!({
        "name": name,
        "metadata": { "ladder": { "floor": floor } },
        "dependencies": dependencies,
    })
}

/// Describes every member without a floor and every dependency that does not point down.
fn problems(metadata: &Value) -> Vec<String> {
    let members = items(&metadata["packages"]);
    if members.is_empty() {
        return vec!["the metadata names no member".to_owned()];
    }
    let floors: BTreeMap<&str, u64> =
        members.iter().filter_map(|member| Some((name(member), floor(member)?))).collect();
    members.iter().flat_map(|member| problems_of(member, &floors)).collect()
}

fn problems_of(member: &Value, floors: &BTreeMap<&str, u64>) -> Vec<String> {
    let from = name(member);
    let Some(floor) = floor(member) else {
        return vec![format!(
            "`{from}` has no floor: add `[package.metadata.ladder] floor = …` to its manifest"
        )];
    };
    items(&member["dependencies"])
        .iter()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| floors.get_key_value(name(dependency)))
        .filter(|&(_, &reached)| reached >= floor)
        .map(|(to, reached)| {
            format!("`{from}` (floor {floor}) may not depend on `{to}` (floor {reached})")
        })
        .collect()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

fn floor(package: &Value) -> Option<u64> {
    package["metadata"]["ladder"]["floor"].as_u64()
}
