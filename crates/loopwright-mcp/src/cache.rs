//! Answers that a server says may be used again for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::ServerResult;

/// The longest time that an answer is used.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Answers that are kept. When there are more, all are forgotten.
const MAX_ANSWERS: usize = 256;

/// Answers by method, and the address or the page within it; with the time until which each may be used.
type Answers = HashMap<(&'static str, String), (ServerResult, Instant)>;

/// The answers of a server that may be used again. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache(Arc<Mutex<Answers>>);

pub(crate) const LIST: &str = "resources/list";
pub(crate) const TEMPLATES: &str = "resources/templates/list";
pub(crate) const READ: &str = "resources/read";
pub(crate) const PROMPTS: &str = "prompts/list";

impl Cache {
    /// Returns an answer that may still be used at a time.
    pub(crate) fn get(
        &self,
        method: &'static str,
        key: &str,
        now: Instant,
    ) -> Option<ServerResult> {
        let answers = self.lock();
        let (answer, until) = answers.get(&(method, key.to_owned()))?;
        (now < *until).then(|| answer.clone())
    }

    /// Keeps an answer as long as the server allows; most answers are not kept.
    pub(crate) fn keep(
        &self,
        method: &'static str,
        key: &str,
        answer: &ServerResult,
        now: Instant,
    ) {
        let age = ttl(answer).unwrap_or_default().min(MAX_AGE);
        let Some(until) = now.checked_add(age).filter(|_| !age.is_zero()) else { return };
        let mut answers = self.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert((method, key.to_owned()), (answer.clone(), until));
    }

    pub(crate) fn forget_resource(&self, uri: &str) {
        self.lock().remove(&(READ, uri.to_owned()));
    }

    pub(crate) fn forget_resources(&self) {
        self.lock().retain(|(method, _), _| *method == PROMPTS);
    }

    pub(crate) fn forget_prompts(&self) {
        self.lock().retain(|(method, _), _| *method != PROMPTS);
    }

    /// Forgets everything, as another process of the server may say something else.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ttl(answer: &ServerResult) -> Option<Duration> {
    let milliseconds = match answer {
        ServerResult::ListResourcesResult(it) => it.ttl_ms,
        ServerResult::ListResourceTemplatesResult(it) => it.ttl_ms,
        ServerResult::ReadResourceResult(it) => it.ttl_ms,
        ServerResult::ListPromptsResult(it) => it.ttl_ms,
        _ => None,
    };
    milliseconds.map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ListPromptsResult, ReadResourceResult};

    use super::*;

    fn read(milliseconds: u64) -> ServerResult {
        ServerResult::ReadResourceResult(
            ReadResourceResult::new(Vec::new()).with_ttl_ms(milliseconds),
        )
    }

    #[test]
    fn an_answer_is_used_until_its_time_is_over_or_the_server_reports_a_change() {
        let (cache, now) = (Cache::default(), Instant::now());
        cache.keep(READ, "a", &read(1_000), now);
        cache.keep(READ, "b", &read(u64::MAX), now);
        cache.keep(READ, "c", &read(0), now);
        let prompts = ListPromptsResult::default().with_ttl_ms(1_000);
        cache.keep(PROMPTS, "", &ServerResult::ListPromptsResult(prompts), now);
        let kept = |key: &str, after| cache.get(READ, key, now + after).is_some();
        let almost = Duration::from_millis(999);
        assert_eq!([kept("a", almost), kept("a", Duration::from_secs(1))], [true, false]);
        assert_eq!([kept("b", almost), kept("b", MAX_AGE)], [true, false]);
        assert!(!kept("c", Duration::ZERO));
        cache.forget_resource("b");
        assert!(!kept("b", Duration::ZERO) && kept("a", Duration::ZERO));
        cache.forget_resources();
        assert!(!kept("a", Duration::ZERO) && cache.get(PROMPTS, "", now).is_some());
        cache.forget_prompts();
        assert!(cache.get(PROMPTS, "", now).is_none());
    }
}
