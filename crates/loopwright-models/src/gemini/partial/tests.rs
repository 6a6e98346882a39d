use serde_json::json;

use super::*;

fn build(args: &Value) -> Option<Value> {
    let text = args.to_string();
    let args: Vec<PartialArg<'_>> = serde_json::from_str(&text).unwrap();
    let mut arguments = Map::new();
    args.iter().try_for_each(|arg| put(&mut arguments, arg))?;
    Some(arguments.into())
}

#[test]
fn values_are_put_where_their_paths_lead() {
    let built = build(&json!([
        { "jsonPath": "$.city", "stringValue": "Par" },
        { "jsonPath": "$.city", "stringValue": "is" },
        { "jsonPath": "$.at.hours[0]", "numberValue": 7 },
        { "jsonPath": "$.at.hours[2].to", "numberValue": 9.5 },
        { "jsonPath": "$['a b'][\"c\"]", "boolValue": true },
        { "jsonPath": "$.none", "nullValue": "NULL_VALUE" },
    ]));
    let expect = json!({
        "city": "Paris",
        "at": { "hours": [7, null, { "to": 9.5 }] },
        "a b": { "c": true },
        "none": null,
    });
    assert_eq!(built, Some(expect));
}

#[test]
fn paths_that_make_no_sense_lead_nowhere() {
    let deep = format!("$.a{}", "[0]".repeat(200));
    for path in
        ["", "$", "a", "$.", "$.a.", "$[0]", "$.a[x]", "$.a['b", "$.a[99999999]", "$.a[", &deep]
    {
        assert_eq!(build(&json!([{ "jsonPath": path }])), None, "{path}");
    }
    let through_text = json!([{ "jsonPath": "$.a", "stringValue": "x" }, { "jsonPath": "$.a.b" }]);
    assert_eq!(build(&through_text), None);
}
