//! Drivers.

use std::{fmt, sync::Arc};

use loopwright_core::Driver;

use crate::capabilities::capability;

/// Sets the driver.
#[derive(Clone)]
pub struct UseDriver(Arc<dyn Driver>);

impl UseDriver {
    /// Sets a driver.
    pub fn new(driver: impl Driver + 'static) -> Self {
        Self(Arc::new(driver))
    }

    /// Sets a driver that is shared with other owners.
    pub fn from_arc(driver: Arc<dyn Driver>) -> Self {
        Self(driver)
    }
}

capability!(UseDriver, "use_driver", |it, agent| {
    agent.driver.set(Arc::clone(&it.0));
});

impl fmt::Debug for UseDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UseDriver").field(&self.0.name()).finish()
    }
}

/// Wraps the final driver of the agent.
#[derive(Clone)]
pub struct UseDriverDecorator(Arc<WrapDriver>);

type WrapDriver = dyn Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync;

impl UseDriverDecorator {
    /// Adds a wrapper. Later wrappers enclose this one.
    pub fn new(wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }
}

capability!(UseDriverDecorator, "use_driver_decorator", |it, agent| {
    let wrap = Arc::clone(&it.0);
    agent.driver.wrap(move |driver| wrap(driver));
});

impl fmt::Debug for UseDriverDecorator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseDriverDecorator")
    }
}
