//! The routes as data, from which the router and the `OpenAPI` document are created.

use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{principal::Role, server::Server};

/// A route with one method.
pub(crate) struct Operation {
    /// The method, in lower case.
    pub(crate) method: &'static str,
    /// The path, with its parameters in braces.
    pub(crate) path: &'static str,
    /// The ID of the operation.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) security: Security,
    /// The parameters that are not in the path.
    pub(crate) parameters: &'static [Parameter],
    /// The body of the request, if it has one.
    pub(crate) body: Option<Content>,
    pub(crate) responses: &'static [Response],
    pub(crate) handler: fn() -> MethodRouter<Server>,
}

/// What a request has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Nothing.
    Public,
    /// Credentials with this role.
    Role(Role),
}

pub(crate) const READ: Security = Security::Role(Role::Read);
pub(crate) const RUN: Security = Security::Role(Role::Run);
pub(crate) const APPROVE: Security = Security::Role(Role::Approve);
pub(crate) const ADMIN: Security = Security::Role(Role::Admin);

/// Writes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A parameter in the query or in a header.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// `query` or `header`.
    pub(crate) place: &'static str,
    pub(crate) about: &'static str,
    /// The type of JSON Schema.
    pub(crate) kind: &'static str,
}

/// A response that is no error.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) content: Content,
}

/// The body of a request with a type.
pub(crate) const fn json_body<T: JsonSchema>() -> Content {
    Content::Json(schema_of::<T>)
}

/// The body of a request or a response.
pub(crate) enum Content {
    None,
    Json(SchemaOf),
    /// Another media type.
    Other(&'static str),
}

/// A JSON response of a type.
pub(crate) const fn json<T: JsonSchema>(status: u16, about: &'static str) -> Response {
    Response { status, about, content: Content::Json(schema_of::<T>) }
}

pub(crate) const fn other(status: u16, about: &'static str, media_type: &'static str) -> Response {
    Response { status, about, content: Content::Other(media_type) }
}

pub(crate) const fn empty(status: u16, about: &'static str) -> Response {
    Response { status, about, content: Content::None }
}

pub(crate) const IDEMPOTENCY_KEY: Parameter = Parameter {
    name: "Idempotency-Key",
    place: "header",
    about: "A key chosen by the client. A request repeated with the same key takes effect once.",
    kind: "string",
};

pub(crate) const IF_NONE_MATCH: Parameter = Parameter {
    name: "If-None-Match",
    place: "header",
    about: "The `ETag` of the response that the client already has. If nothing has changed, the \
        response has status 304.",
    kind: "string",
};

pub(crate) const LIMIT: Parameter = Parameter {
    name: "limit",
    place: "query",
    about: "The maximum number of entries per page, from 1 to 100; 20 by default.",
    kind: "integer",
};

pub(crate) const CURSOR: Parameter = Parameter {
    name: "cursor",
    place: "query",
    about: "The `next` value of the previous page.",
    kind: "string",
};
