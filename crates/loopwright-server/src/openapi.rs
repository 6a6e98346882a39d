//! The `OpenAPI` document, generated from the operations and the types of their bodies.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    operation::{Content, Operation, Security},
    problem::{PROBLEM_JSON, Problem},
    router,
};

/// Returns the `OpenAPI` 3.1 document of all routes.
pub fn document() -> Value {
    // OpenAPI 3.1 has the schemas of JSON Schema 2020-12, in a place of its own.
    let settings = SchemaSettings::draft2020_12()
        .with(|it| it.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in router::operations() {
        let described = described(&operation, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Loopwright",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions with agents over HTTP. Errors are problem documents (RFC 9457).",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn described(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses(operation, generator),
    });
    let parameters = parameters(operation);
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(content) = operation.body.as_ref().and_then(|it| content(it, generator)) {
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described["security"] = match operation.security {
        Security::Public => json!([]),
        Security::Role(role) => {
            described["description"] = json!(format!("Requires role `{role}`."));
            json!([{ "bearer": [] }])
        }
    };
    described
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let in_path =
        operation.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let others = operation.parameters.iter().map(|it| {
        json!({
            "name": it.name, "in": it.place, "description": it.about,
            "schema": { "type": it.kind },
        })
    });
    in_path.chain(others).collect()
}

fn responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for response in operation.responses {
        let mut described = json!({ "description": response.about });
        if let Some(content) = content(&response.content, generator) {
            described["content"] = content;
        }
        responses.insert(response.status.to_string(), described);
    }
    let problem = generator.subschema_for::<Problem>();
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "A problem.",
            "content": { PROBLEM_JSON: { "schema": problem } },
        }),
    );
    responses.into()
}

fn content(content: &Content, generator: &mut SchemaGenerator) -> Option<Value> {
    match content {
        Content::None => None,
        Content::Json(schema) => {
            Some(json!({ "application/json": { "schema": schema(generator) } }))
        }
        Content::Other(media_type) => Some(json!({ *media_type: {} })),
    }
}
