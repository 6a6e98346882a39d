use loopwright_core::{CallableHook, Flow, ToolDecision};

fn main() {
    // Before a tool it is decided about a call, before a step about the run.
    let _tools = CallableHook::new("tools").before_tool(|_call, _state, _cx| Ok(Flow::Continue));
    let _steps = CallableHook::new("steps").before_step(|_state, _cx| Ok(ToolDecision::Run));
}
