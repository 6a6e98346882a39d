//! The usage and the cost of all attempts of a request.

use loopwright_core::{
    ModelError,
    messages::{Cost, InferenceResponse, Usage},
};

use crate::model_info::ModelInfo;

/// Counts what attempts consume. Once something was consumed that has no known price, the cost of it
/// all is not known.
#[derive(Debug)]
pub(crate) struct CostTracker {
    info: Option<ModelInfo>,
    usage: Usage,
    cost: Option<Cost>,
}

impl CostTracker {
    /// Prices what a model consumes, as far as it is known.
    pub(crate) fn new(info: Option<ModelInfo>) -> Self {
        Self { info, usage: Usage::default(), cost: Some(Cost::ZERO) }
    }

    /// Puts what was consumed in all into an answer. What the provider says of the cost counts.
    pub(crate) fn settle(&mut self, response: &mut InferenceResponse) {
        self.add(response.usage, response.cost);
        response.usage = self.usage;
        response.cost = self.cost.filter(|_| self.is_priced());
    }

    /// Puts what was consumed so far into an error.
    pub(crate) fn charge(&mut self, error: &mut ModelError) {
        self.add(error.usage, error.cost);
        error.usage = self.usage;
        error.cost = self.cost.filter(|_| self.usage.total() > 0);
    }

    /// Returns an error with what was consumed so far.
    pub(crate) fn charged(&mut self, mut error: ModelError) -> ModelError {
        self.charge(&mut error);
        error
    }

    fn add(&mut self, usage: Usage, cost: Option<Cost>) {
        self.usage += usage;
        if usage.total() > 0 || cost.is_some() {
            let cost = cost.or_else(|| self.info.as_ref()?.cost(&usage));
            self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
        }
    }

    /// Returns `true` if a cost means something: nothing consumed of a model without prices costs an
    /// unknown amount, because the provider may just not have told.
    fn is_priced(&self) -> bool {
        self.usage.total() > 0 || self.info.as_ref().is_some_and(|info| info.prices.is_some())
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::{ModelErrorKind, messages::Message};

    use super::*;
    use crate::price::{Price, Prices};

    fn priced() -> ModelInfo {
        let (input, output) = (Price::from_dollars(1.0), Price::from_dollars(2.0));
        let prices = Prices { input, output, ..Prices::free() };
        ModelInfo { prices: Some(prices), ..ModelInfo::default() }
    }

    fn settled(account: &mut CostTracker, usage: Usage, cost: Option<Cost>) -> InferenceResponse {
        let response = InferenceResponse::new(Message::assistant("a"), usage);
        let mut response = InferenceResponse { cost, ..response };
        account.settle(&mut response);
        response
    }

    fn failed(usage: Usage) -> ModelError {
        ModelError { usage, ..ModelError::new(ModelErrorKind::Unavailable, "no") }
    }

    fn micros(micros: u64) -> Cost {
        Cost::from_picodollars(micros * 1_000_000)
    }

    #[test]
    fn failed_attempts_are_paid_too() {
        let mut account = CostTracker::new(Some(priced()));
        let mut error = failed(Usage::new(10, 0));
        account.charge(&mut error);
        assert_eq!((error.usage, error.cost), (Usage::new(10, 0), Some(micros(10))));
        let response = settled(&mut account, Usage::new(20, 5), None);
        assert_eq!((response.usage, response.cost), (Usage::new(30, 5), Some(micros(40))));
    }

    #[test]
    fn an_attempt_that_consumed_nothing_costs_nothing() {
        let mut account = CostTracker::new(Some(priced()));
        let mut error = failed(Usage::default());
        account.charge(&mut error);
        assert_eq!(error.cost, None);
        assert_eq!(settled(&mut account, Usage::new(1, 1), None).cost, Some(micros(3)));
    }

    #[test]
    fn the_cost_of_an_unknown_model_is_not_known() {
        let mut account = CostTracker::new(None);
        assert_eq!(settled(&mut account, Usage::new(1, 1), None).cost, None);
        assert_eq!(settled(&mut CostTracker::new(None), Usage::default(), None).cost, None);
    }

    #[test]
    fn the_cost_that_the_provider_reports_counts() {
        let mut account = CostTracker::new(Some(priced()));
        assert_eq!(settled(&mut account, Usage::new(1, 1), Some(micros(7))).cost, Some(micros(7)));
        let mut account = CostTracker::new(None);
        account.charge(&mut failed(Usage::new(1, 0)));
        assert_eq!(settled(&mut account, Usage::new(1, 1), Some(micros(7))).cost, None);
    }
}
