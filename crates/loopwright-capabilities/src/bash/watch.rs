//! Watching what commands print while they run.

use std::fmt;
use std::sync::Arc;

use loopwright_core::ToolCx;

/// Receives what a command prints, piece by piece. It must not block.
pub type OutputSink = Box<dyn FnMut(&[u8]) + Send>;

/// Returns the sink of a call.
type Begin = dyn Fn(&ToolCx<'_>) -> OutputSink + Send + Sync;

/// What watches the output of commands while they run. The default watches nothing. The model receives the output when
/// the command has ended, whatever watches it.
#[derive(Clone, Default)]
pub struct OutputWatch(Option<Arc<Begin>>);

impl OutputWatch {
    /// Watches each call with the sink that `begin` returns for it.
    pub fn new(begin: impl Fn(&ToolCx<'_>) -> OutputSink + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(begin)))
    }

    pub(super) fn begin(&self, cx: &ToolCx<'_>) -> OutputSink {
        match &self.0 {
            Some(begin) => begin(cx),
            None => Box::new(|_: &[u8]| {}),
        }
    }
}

impl fmt::Debug for OutputWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputWatch").field(&self.0.is_some()).finish()
    }
}
