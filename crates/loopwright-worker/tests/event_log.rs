//! What the event log of a session has of a job's run.

use loopwright_broadcast::{BroadcastConfig, BroadcastEnvelope};
use loopwright_sessions::{SessionLog, SessionStore as _};
use loopwright_testing::FakeModel;
use tokio_util::sync::CancellationToken;

use crate::worker::{World, agent, id};

#[tokio::test]
async fn every_entry_of_a_job_s_run_names_the_permission_mode_that_every_event_names() {
    for mode in [Some("unconfined"), None] {
        let world = World::with(&["a"]).await;
        world.push("a", "1").await;
        let labelled = agent(&FakeModel::echo().with_fragment_size(1))
            .with(|parts| parts.event_sinks.add_mode_label(move || mode));
        let worker = world.worker(&labelled).with_event_log(BroadcastConfig::standard());
        worker.run(&CancellationToken::new()).await;
        let entries = world.store.read_log(&id("a"), SessionLog::Events, 0, 99).await.unwrap();
        let envelopes =
            entries.iter().map(|it| serde_json::from_slice::<BroadcastEnvelope>(&it.body).unwrap());
        let modes: Vec<_> = envelopes.map(|it| it.permission_mode).collect();
        assert!(modes.len() > 2, "{modes:?}");
        assert_eq!(modes, vec![mode.map(str::to_owned); modes.len()]);
    }
}
