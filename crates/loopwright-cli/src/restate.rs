//! Jobs that Restate delivers.

use std::sync::Arc;

use loopwright_sessions::SessionStore;
use loopwright_worker::{JobCounts, Worker};
use tokio_util::sync::CancellationToken;

use crate::args::jobs::WorkerArgs;
use crate::config::RestateSettings;
use crate::session::SessionsError;

pub(crate) use imp::{RestateJobs, scheduled};

#[cfg(feature = "restate")]
mod imp {
    use loopwright_restate::{
        RestateKey, RestateScheduler, RestateService, RestateStore, RestateWorker,
    };
    use loopwright_worker::WorkerEvent;
    use tokio::net::TcpListener;

    use super::{
        Arc, CancellationToken, JobCounts, RestateSettings, SessionStore, SessionsError, Worker,
        WorkerArgs,
    };
    use crate::console;
    use crate::display::chain;

    /// Returns the store with Restate as its scheduler, if it is configured.
    pub(crate) fn scheduled(
        store: Arc<dyn SessionStore>,
        settings: &RestateSettings,
    ) -> Result<Arc<dyn SessionStore>, SessionsError> {
        if settings.url.is_none() || store.jobs().is_none() {
            return Ok(store);
        }
        Ok(Arc::new(RestateStore::new(scheduler(store, settings)?)))
    }

    fn scheduler(
        store: Arc<dyn SessionStore>,
        settings: &RestateSettings,
    ) -> Result<RestateScheduler, SessionsError> {
        let service = settings.service.as_ref().map(|it| it.value.parse::<RestateService>());
        let service =
            service.transpose().map_err(|error| SessionsError::Usage(error.to_string()))?;
        let url = settings.url.as_ref().map_or("", |it| it.value.as_str());
        RestateScheduler::new(store, url, &service.unwrap_or_default())
            .map_err(|error| SessionsError::Usage(error.to_string()))
    }

    /// The place of a worker in Restate.
    pub(crate) struct RestateJobs {
        scheduler: RestateScheduler,
        listener: TcpListener,
        admin: Option<(String, String)>,
        key: Option<RestateKey>,
    }

    impl RestateJobs {
        /// Listens for the connections of Restate.
        ///
        /// # Errors
        ///
        /// Returns an error if the settings are invalid, or the address is taken.
        pub(crate) fn open(
            args: &WorkerArgs,
            store: Arc<dyn SessionStore>,
            settings: &RestateSettings,
        ) -> Result<Self, SessionsError> {
            let scheduler = scheduler(store, settings)?;
            let key = settings.identity_key.as_ref().map(|it| it.value.parse::<RestateKey>());
            let key = key.transpose().map_err(|error| SessionsError::Usage(error.to_string()))?;
            let address = args.restate_listen;
            let unbound = |source: std::io::Error| {
                SessionsError::Usage(format!(
                    "cannot listen on {address}: {source}; choose another address with \
                     `--restate-listen`"
                ))
            };
            let listener = loopwright_restate::listen(address).map_err(unbound)?;
            let address = listener.local_addr().map_err(unbound)?;
            let own = || format!("http://{address}");
            let reached =
                args.restate_address.as_ref().map_or_else(own, |it| it.as_str().to_owned());
            let admin = args.restate_admin.as_ref().map(|it| (it.as_str().to_owned(), reached));
            Ok(Self { scheduler, listener, admin, key })
        }

        /// Runs the jobs that Restate delivers, until `drain` is cancelled.
        ///
        /// # Errors
        ///
        /// Returns an error if Restate cannot be reached, or not the worker from there.
        pub(crate) async fn run(
            self,
            worker: Worker,
            drain: &CancellationToken,
        ) -> Result<JobCounts, SessionsError> {
            let Self { scheduler, listener, admin, key } = self;
            let worker = RestateWorker::new(worker, scheduler)
                .map_err(|error| SessionsError::Usage(error.to_string()))?;
            let worker = key.into_iter().fold(worker, RestateWorker::with_identity_key);
            let worker = worker.with_listener(|event: &WorkerEvent| {
                if let WorkerEvent::QueueUnavailable(reason) = event {
                    console::warn(reason);
                }
            });
            let register = async {
                if let Some((admin, address)) = admin {
                    loopwright_restate::register(&admin, &address).await?;
                }
                std::future::pending().await
            };
            let run = async {
                let counts = worker.run(listener, drain).await;
                counts
                    .map_err(|error| SessionsError::Usage(format!("cannot serve Restate: {error}")))
            };
            tokio::select! {
                counts = run => counts,
                error = register => {
                    let error: Result<JobCounts, loopwright_restate::RestateError> = error;
                    error.map_err(|error| SessionsError::Usage(chain(&error)))
                }
            }
        }
    }
}

#[cfg(not(feature = "restate"))]
mod imp {
    use super::{
        Arc, CancellationToken, JobCounts, RestateSettings, SessionStore, SessionsError, Worker,
        WorkerArgs,
    };

    fn not_built() -> SessionsError {
        let text = "this program was built without Restate; build it with the feature `restate`";
        SessionsError::Usage(text.to_owned())
    }

    /// Returns the store.
    ///
    /// # Errors
    ///
    /// Returns an error if Restate is configured.
    pub(crate) fn scheduled(
        store: Arc<dyn SessionStore>,
        settings: &RestateSettings,
    ) -> Result<Arc<dyn SessionStore>, SessionsError> {
        if settings.url.is_some() { Err(not_built()) } else { Ok(store) }
    }

    /// The place of a worker in Restate, which this program does not have.
    pub(crate) struct RestateJobs(std::convert::Infallible);

    impl RestateJobs {
        /// Refuses.
        pub(crate) fn open(
            _: &WorkerArgs,
            _: Arc<dyn SessionStore>,
            _: &RestateSettings,
        ) -> Result<Self, SessionsError> {
            Err(not_built())
        }

        /// Never runs.
        #[expect(clippy::unused_async, reason = "with the feature, it waits")]
        pub(crate) async fn run(
            self,
            _: Worker,
            _: &CancellationToken,
        ) -> Result<JobCounts, SessionsError> {
            match self.0 {}
        }
    }
}
