//! Prompts for the agent and its planner.

/// The instructions of the agent.
pub(super) const PARENT: &str = "\
For complex work, such as work with several steps or files, call `plan_with_subagent` before you \
start. Give it a specification with these parts:
- Goal: what to achieve.
- Context: what is known, and where to look.
- Expected outcomes: the results at the end.
- Acceptance criteria: how to check that the results are correct.
- Constraints, if any.
Then follow the plan; if it turns out to be wrong, say so and continue with a better one. Simple \
work needs no plan.";

/// The instructions of the planner.
pub(super) const PLANNER: &str = "\
You plan work that another agent will do. You see a specification, but not the conversation it \
comes from. Find out what you need to know with your tools. Do not do any of the work, and \
change nothing.
Respond with a plan: numbered steps, each small enough to be checked, with the files and \
commands it involves; what is uncertain or risky; and how to check each acceptance criterion. Be \
concise.";

/// What stands in the place of a plan that is empty.
pub(super) const NO_PLAN: &str = "(the planner returned no plan)";
