//! `/v1/usage`: what a principal consumed, and its limits.

use axum::{extract::State, http::StatusCode, response::Response, routing::get};
use loopwright_core::messages::Cost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply;
use crate::{
    operation::{Operation, READ, json},
    principal::Principal,
    problem::Problem,
    server::Server,
};

/// What the principal of the request consumed in the current UTC day, and its limits. A limit that is absent does not
/// exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrincipalUsage {
    /// The principal.
    pub principal: String,
    /// Tokens, input and output. Runs count when they pause or end. Absent for the local user, whose usage is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_today: Option<u64>,
    /// The cost in US dollars, as far as prices are known; absent like the tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd_today: Option<f64>,
    /// The number of runs that are queued or running.
    pub open_runs: u64,
    /// The seconds until the next day.
    pub day_ends_in: u64,
    /// The most requests in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests_per_minute: Option<u32>,
    /// The most runs that are queued or running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_open_runs: Option<u32>,
    /// The most tokens on a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_per_day: Option<u64>,
    /// The highest cost on a day, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd_per_day: Option<f64>,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "get",
        path: "/v1/usage",
        id: "getPrincipalUsage",
        summary: "Read the principal's usage today and its limits",
        security: READ,
        parameters: &[],
        body: None,
        responses: const { &[json::<PrincipalUsage>(200, "The usage.")] },
        handler: || get(usage),
    }]
}

async fn usage(State(server): State<Server>, principal: Principal) -> Result<Response, Problem> {
    let unavailable = || Problem::unavailable("the session store does not record usage");
    let ledger = server.store().ledger().ok_or_else(unavailable)?;
    let tag = principal.tag();
    let today = ledger.spent_today(tag, server.clock().now()).await?;
    let limits = principal.limits().or(server.limits());
    let budgets = tag.map(|_| limits).unwrap_or_default();
    let cost = Cost::from_picodollars(today.picodollars);
    let usage = PrincipalUsage {
        principal: principal.name().to_string(),
        tokens_today: tag.map(|_| today.tokens),
        cost_usd_today: tag.map(|_| cost.dollars()),
        open_runs: ledger.open_jobs(tag).await?,
        day_ends_in: today.left.as_secs(),
        max_requests_per_minute: limits.requests_per_minute.map(Into::into),
        max_open_runs: budgets.open_runs.map(Into::into),
        max_tokens_per_day: budgets.tokens_per_day.map(Into::into),
        max_cost_usd_per_day: budgets.cost_per_day.map(Cost::dollars),
    };
    reply(StatusCode::OK, &usage)
}
