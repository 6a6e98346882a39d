use loopwright_core::{BoxError, CallableHook, Flow, ToolDecision};

fn go_on() -> Result<Flow, BoxError> {
    Ok(Flow::Continue)
}

fn run() -> Result<ToolDecision, BoxError> {
    Ok(ToolDecision::Run)
}

fn main() {
    // Before a tool it is decided about a call, before a step about the run.
    let _tools = CallableHook::new("tools").before_tool(|_call, _state, _cx| go_on());
    let _steps = CallableHook::new("steps").before_step(|_state, _cx| run());
}
