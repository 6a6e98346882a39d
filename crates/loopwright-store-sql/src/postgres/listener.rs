//! Notifications about log entries of other processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{Postgres as Driver, pool::Pool, postgres::PgListener};
use tokio::{
    sync::broadcast::{Sender, channel},
    task::JoinHandle,
};

use crate::database::LogNotification;

/// The channel for notifications about log entries.
pub(super) const CHANNEL: &str = "loopwright_notes";
/// How many pieces of news are kept for those who are slow.
const KEPT: usize = 256;
/// How long nothing is tried after the connection was lost.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that hears of notes, until this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    told: Sender<Arc<str>>,
    is_on: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn start(pool: Pool<Driver>) -> Self {
        let (told, _) = channel(KEPT);
        let is_on = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(listen(pool, told.clone(), Arc::clone(&is_on)));
        Self { told, is_on, task }
    }

    pub(super) fn news(&self) -> LogNotification {
        LogNotification { heard: self.told.subscribe(), is_on: Arc::clone(&self.is_on) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens, and starts again when the connection is lost.
async fn listen(pool: Pool<Driver>, told: Sender<Arc<str>>, is_on: Arc<AtomicBool>) {
    loop {
        // Those who wait look at a log themselves, whatever happens here.
        let _lost = hear(&pool, &told, &is_on).await;
        is_on.store(false, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(
    pool: &Pool<Driver>,
    told: &Sender<Arc<str>>,
    is_on: &AtomicBool,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    is_on.store(true, Ordering::Relaxed);
    // Something may have been told before this began.
    let mut news: Arc<str> = "".into();
    loop {
        // No process may be waiting at present.
        let _heard_by = told.send(news);
        match listener.try_recv().await? {
            Some(notification) => news = notification.payload().into(),
            None => return Ok(()),
        }
    }
}
