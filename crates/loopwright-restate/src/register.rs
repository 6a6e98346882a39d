//! Registration of workers.

use serde_json::json;

use crate::{error::RestateError, ingress::Address};

/// Registers the address of a worker, or of the load balancer in front of workers, with the administration of Restate. An address
/// that is registered stays as it is.
///
/// # Errors
///
/// Returns an error if Restate cannot be reached, or cannot reach the worker.
pub async fn register(admin_url: &str, worker_url: &str) -> Result<(), RestateError> {
    let body = json!({ "uri": worker_url }).to_string();
    Address::new(admin_url)?.post("/deployments", body, None).await.map(|_| ())
}
