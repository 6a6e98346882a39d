//! The points of the lifecycle.

use std::{fmt, ops::BitOr};

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A point of the lifecycle at which hooks are called.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum HookPoint {
            $($(#[$doc])* $name,)*
        }

        impl HookPoint {
            /// All points, in the order of a run.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name of the point in events.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

points! {
    /// Once, before the first step.
    BeforeExecution = "before_execution",
    /// Before each step.
    BeforeStep = "before_step",
    /// Before a model call.
    BeforeInference = "before_inference",
    /// After a model responded.
    AfterInference = "after_inference",
    /// Before a tool runs.
    BeforeTool = "before_tool",
    /// After a tool call, whether the tool ran or not.
    AfterTool = "after_tool",
    /// After a step failed.
    OnError = "on_error",
    /// After each step.
    AfterStep = "after_step",
    /// Before the execution ends.
    OnStop = "on_stop",
    /// Once, after the last step.
    AfterExecution = "after_execution",
}

/// A set of hook points.
///
/// ```
/// use loopwright_core::{HookPoint, HookPoints};
///
/// let points = HookPoint::BeforeTool | HookPoint::AfterTool;
/// assert!(points.contains(HookPoint::AfterTool));
/// assert_eq!(HookPoints::ALL.iter().count(), 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HookPoints(u16);

impl HookPoints {
    /// No point.
    pub const NONE: Self = Self(0);
    /// Every point.
    pub const ALL: Self = Self((1 << HookPoint::ALL.len()) - 1);

    /// Returns the set of these points.
    pub fn from_points(points: impl IntoIterator<Item = HookPoint>) -> Self {
        points.into_iter().fold(Self::NONE, |set, point| set | Self::from(point))
    }

    /// Returns `true` if a point is in the set.
    pub fn contains(self, point: HookPoint) -> bool {
        self.0 & Self::from(point).0 != 0
    }

    /// Returns the points of the set.
    pub fn iter(self) -> impl Iterator<Item = HookPoint> {
        HookPoint::ALL.iter().copied().filter(move |point| self.contains(*point))
    }
}

impl From<HookPoint> for HookPoints {
    fn from(point: HookPoint) -> Self {
        Self(1 << point as u16)
    }
}

impl BitOr for HookPoints {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for HookPoint {
    type Output = HookPoints;

    fn bitor(self, other: Self) -> HookPoints {
        HookPoints::from(self) | HookPoints::from(other)
    }
}

impl fmt::Debug for HookPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
