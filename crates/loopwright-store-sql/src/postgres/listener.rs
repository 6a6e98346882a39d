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
/// The number of notifications that are kept for slow receivers.
const KEPT: usize = 256;
/// The delay before another attempt after the connection was lost.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that receives notifications until it is dropped.
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

/// Listens, and reconnects when the connection is lost.
async fn listen(pool: Pool<Driver>, told: Sender<Arc<str>>, is_on: Arc<AtomicBool>) {
    loop {
        // Waiting readers also poll their log, so nothing is lost if this fails.
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
    // Notifications may have been sent before listening started.
    let mut news: Arc<str> = "".into();
    loop {
        // There may be no receivers at present.
        let _heard_by = told.send(news);
        match listener.try_recv().await? {
            Some(notification) => news = notification.payload().into(),
            None => return Ok(()),
        }
    }
}
