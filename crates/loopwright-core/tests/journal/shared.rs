//! What a journal and a tool both need, such as the only connection to a database.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::lock::Mutex;
use loopwright_core::{
    BoxError, ChangeRecord, IdempotencyKey, Journal, JournalError, NoArgs, RunOptions, Seq, tool_fn,
};
use loopwright_testing::{MemoryJournal, MockTool, ScenarioStep, block_on, yield_times};
use serde_json::json;

use crate::support::{agent, asked, journaled, replay};

/// A journal that needs a connection for each append.
struct Connected(MemoryJournal, Arc<Mutex<()>>);

#[async_trait]
impl Journal for Connected {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        let _connection = self.1.lock().await;
        self.0.append(first, changes).await
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        self.0.child(call)
    }
}

#[test]
fn a_call_that_holds_what_the_journal_needs_goes_on_while_another_outcome_is_recorded() {
    let (journal, connection) = (MemoryJournal::new(), Arc::new(Mutex::new(())));
    let taken = Arc::clone(&connection);
    let write = tool_fn("write", "", move |_: NoArgs| {
        let connection = Arc::clone(&taken);
        async move {
            let _connection = connection.lock_owned().await;
            yield_times(3).await;
            Ok::<_, BoxError>("written")
        }
    });
    let calls = ScenarioStep::tool_calls([("write", json!({})), ("look", json!({}))]);
    let agent = agent([calls, "done".into()])
        .with_tool(MockTool::returning("look", "", "seen"))
        .with_tool(write);
    let connected = Arc::new(Connected(journal.clone(), connection));
    let options = RunOptions { journal: Some(connected), ..journaled(&journal) };
    let state = block_on(agent.start(asked(), options).finish());
    assert_eq!((state.text().as_str(), replay(&journal)), ("done", state.clone()));
}
