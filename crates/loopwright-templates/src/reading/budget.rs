//! Limits in files.

use std::time::Duration;

use loopwright_core::{Budget, messages::Cost};

use crate::problem::DiagnosticKind;
use crate::reading::fields::{Fields, Inner};

const SECONDS: &str = "a number of seconds from 0 to 1.8e19";
const MOMENT: &str = "a time such as `2030-01-31T12:00:00Z`";

pub(super) fn read(inner: Inner, fields: &mut Fields<'_>) -> Budget {
    let mut fields = fields.enter(inner);
    let budget = Budget {
        steps: fields.count(&["maxSteps", "max_steps", "steps"]).map(|(_, it)| it),
        tokens: fields.count(&["maxTokens", "max_tokens", "tokens"]).map(|(_, it)| it),
        time: time(&mut fields),
        cost: fields.amount(&["maxCost", "max_cost", "cost"]).map(|(_, it)| Cost::from_dollars(it)),
        deadline: deadline(&mut fields),
    };
    fields.rest();
    budget
}

fn time(fields: &mut Fields<'_>) -> Option<Duration> {
    let (at, seconds) = fields.amount(&["maxSeconds", "max_seconds", "seconds"])?;
    let time = Duration::try_from_secs_f64(seconds).ok();
    if time.is_none() {
        fields.error(at, DiagnosticKind::WrongType { expected: SECONDS });
    }
    time
}

fn deadline(fields: &mut Fields<'_>) -> Option<loopwright_core::Timestamp> {
    let (at, value) = fields.take(&["deadline"])?;
    let moment = value.as_str().and_then(|it| it.trim().parse().ok());
    if moment.is_none() {
        fields.error(at, DiagnosticKind::WrongType { expected: MOMENT });
    }
    moment
}
