//! Notifications about jobs of all processes.

use std::time::Duration;

use sqlx::{Postgres as Driver, pool::Pool, postgres::PgListener};
use tokio::{
    sync::watch::{self, Receiver, Sender},
    task::JoinHandle,
};

/// The channel that triggers of the table of jobs notify.
const CHANNEL: &str = "loopwright_jobs";
/// The delay before another attempt after the connection was lost.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that receives notifications until it is dropped.
#[derive(Debug)]
pub(super) struct JobListener {
    news: Sender<()>,
    task: JoinHandle<()>,
}

impl JobListener {
    pub(super) fn start(pool: Pool<Driver>) -> Self {
        let news = watch::Sender::new(());
        let task = tokio::spawn(listen(pool, news.clone()));
        Self { news, task }
    }

    pub(super) fn news(&self) -> Receiver<()> {
        self.news.subscribe()
    }
}

impl Drop for JobListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens, and reconnects when the connection is lost.
async fn listen(pool: Pool<Driver>, news: Sender<()>) {
    loop {
        // Workers also poll, so nothing is lost if this fails.
        let _lost = hear(&pool, &news).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(pool: &Pool<Driver>, news: &Sender<()>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    loop {
        // The first news are those that were sent before listening started.
        news.send_replace(());
        if listener.try_recv().await?.is_none() {
            return Ok(());
        }
    }
}
