//! A call of a tool, from its start to its result, including the requests of the server in between.

mod task;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use loopwright_core::{IdempotencyKey, StopSignal, ToolPause};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock,
    CreateTaskResult, ErrorCode, ErrorData, InputRequests, ServerResult, UpdateTaskParams,
    UpdateTaskRequest,
};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::task::TaskGuard;
use crate::client::McpClient;
use crate::config::ServerTransport;
use crate::connection::{Connection, ConnectionInfo};
use crate::elicitation::ElicitationReply;
use crate::error::McpError;
use crate::held::HeldCall;
use crate::input::{InputRound, Kept, Question};
use crate::listeners::{Questions, Report, ServerAsk};
use crate::request::{Arrival, Limits, PendingRequest};
use crate::sampling::{REJECTED, WITHOUT_MODEL};

/// What a call is made for.
#[async_trait]
pub(crate) trait CallHost: Send + Sync {
    /// The call of the agent, under which it waits for the user; `None` if it cannot wait.
    fn key(&self) -> Option<&IdempotencyKey>;

    /// Takes what the server reports.
    fn report(&self, report: Report);

    /// Learns of the connection that the call uses.
    fn connected(&self, info: &ConnectionInfo);

    /// Answers a question of the server.
    async fn answer(&self, question: &Question) -> Answer;
}

/// The answer to a question of a server.
pub(crate) enum Answer {
    /// In the form of the protocol.
    Now(Value),
    /// There is none, for this reason.
    Refused(String),
    /// The user has to decide first.
    Later,
    /// The run stops instead.
    Stop(StopSignal),
}

/// How a call ends.
pub(crate) enum CallEnd {
    /// With a result.
    Done(CallToolResult),
    /// It waits for the user.
    Paused(Box<(Kept, ToolPause)>),
}

/// Why a call has no result.
pub(crate) enum CallFailure {
    /// The server failed.
    Server(Arc<McpError>),
    /// The run stops.
    Stop(StopSignal),
}

impl From<Arc<McpError>> for CallFailure {
    fn from(error: Arc<McpError>) -> Self {
        Self::Server(error)
    }
}

impl From<McpError> for CallFailure {
    fn from(error: McpError) -> Self {
        Self::Server(Arc::new(error))
    }
}

/// A request for a call that waits for its answer.
pub(crate) struct RunningCall {
    connection: Arc<Connection>,
    pending: PendingRequest,
    _count: CallCount,
}

/// Counts a call as long as it is there.
struct CallCount(Arc<AtomicUsize>);

impl Drop for CallCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How far a call is.
enum Stage {
    /// The request has to be sent, with the answers that there are.
    Send,
    /// The server works.
    Wait(Box<RunningCall>),
    /// The server has ended the request, and needs answers.
    Answer(InputRound),
    /// The server works on a task.
    Task(String),
    /// There is a result.
    Done(CallToolResult),
}

/// A call of a tool.
pub(crate) struct ToolCallRun<'a> {
    client: &'a McpClient,
    host: &'a dyn CallHost,
    cancel: &'a CancellationToken,
    params: CallToolRequestParams,
    round: usize,
    task: Option<TaskGuard>,
    /// Questions of the task that have an answer.
    answered: BTreeSet<String>,
    /// When the task is given up.
    ends: Instant,
    /// How many hosts the sandbox had refused before.
    refused_before: usize,
}

impl<'a> ToolCallRun<'a> {
    pub(crate) fn new(
        client: &'a McpClient,
        host: &'a dyn CallHost,
        cancel: &'a CancellationToken,
        params: CallToolRequestParams,
    ) -> Self {
        let ends = Instant::now() + client.server().max_call_time;
        let (round, task, answered) = (0, None, BTreeSet::new());
        let refused_before = client.log().refused_count();
        Self { client, host, cancel, params, round, task, answered, ends, refused_before }
    }

    /// Makes the call.
    pub(crate) async fn start(self) -> Result<CallEnd, CallFailure> {
        self.run(Stage::Send).await
    }

    /// Continues a call that has waited for the user, whose decision is `answer`.
    pub(crate) async fn resume(self, kept: Kept, answer: Answer) -> Result<CallEnd, CallFailure> {
        match kept {
            Kept::Round(mut round) => {
                match answer {
                    Answer::Now(value) => round.reply(value),
                    Answer::Refused(reason) => return Err(self.failed(reason)),
                    Answer::Stop(signal) => return Err(CallFailure::Stop(signal)),
                    Answer::Later => {}
                }
                self.run(Stage::Answer(round)).await
            }
            Kept::Held(_) => {
                let held = self.host.key().and_then(|key| self.client.0.held.take(key));
                let Some(HeldCall { mut running, reply, asked_at, .. }) = held else {
                    let reason = "the server's question was lost when the program exited, because this revision of \
                                  the protocol does not keep questions; the effect of the call is unknown";
                    return Err(self.failed(reason.to_owned()));
                };
                match answer {
                    Answer::Now(value) => drop(reply.send(Ok(value))),
                    Answer::Refused(reason) => drop(reply.send(Err(rejected(reason)))),
                    Answer::Stop(signal) => return Err(CallFailure::Stop(signal)),
                    Answer::Later => {}
                }
                running.pending.release();
                running.pending.extend_limits(asked_at);
                self.run(Stage::Wait(Box::new(running))).await
            }
        }
    }

    async fn run(mut self, mut stage: Stage) -> Result<CallEnd, CallFailure> {
        loop {
            stage = match stage {
                Stage::Send => {
                    let sent = self.client.send_call(self.params.clone(), self.cancel).await?;
                    self.host.connected(&sent.connection.info);
                    Stage::Wait(Box::new(sent))
                }
                Stage::Wait(mut running) => {
                    match self.client.next(&mut running, self.cancel).await? {
                        Arrival::Report(report) => {
                            self.host.report(report);
                            Stage::Wait(running)
                        }
                        Arrival::Ask(ask) => match self.reply(running, ask).await? {
                            Reply::Sent(running) => Stage::Wait(running),
                            Reply::Held(paused) => return Ok(CallEnd::Paused(paused)),
                        },
                        Arrival::Answer(answer) => self.after(&running.connection, answer)?,
                    }
                }
                Stage::Answer(round) => match self.answer(round).await? {
                    Answered::All(stage) => stage,
                    Answered::Later(paused) => {
                        if let Some(task) = &mut self.task {
                            task.keep();
                        }
                        return Ok(CallEnd::Paused(paused));
                    }
                },
                Stage::Task(id) => self.follow(id).await?,
                Stage::Done(mut result) => {
                    if result.is_error == Some(true) {
                        result.content.extend(self.refused());
                    }
                    if let Some(task) = &mut self.task {
                        task.keep();
                    }
                    return Ok(CallEnd::Done(result));
                }
            };
        }
    }

    /// Returns a note about the hosts that the sandbox refused during the call.
    fn refused(&self) -> Option<ContentBlock> {
        let hosts = self.client.log().refused_after(self.refused_before);
        let text = format!(
            "[the server's sandbox refused {}; the user can allow hosts with the server's `network` key]",
            hosts.join(", ")
        );
        (!hosts.is_empty()).then(|| ContentBlock::text(text))
    }

    /// Returns what follows the answer to a request.
    fn after(
        &mut self,
        connection: &Arc<Connection>,
        answer: ServerResult,
    ) -> Result<Stage, CallFailure> {
        Ok(match answer {
            ServerResult::CallToolResult(result) => Stage::Done(result),
            ServerResult::EmptyResult(_) => Stage::Done(CallToolResult::default()),
            ServerResult::InputRequiredResult(required) => {
                let mut round = self.round_of(required.input_requests)?;
                round.request_state = required.request_state;
                Stage::Answer(round)
            }
            ServerResult::CreateTaskResult(CreateTaskResult { task, .. }) => {
                self.guard_task(&connection.requests, &task.task_id);
                Stage::Task(task.task_id)
            }
            _ => return Err(connection.requests.unexpected("tools/call").into()),
        })
    }

    fn round_of(&self, requests: Option<InputRequests>) -> Result<InputRound, CallFailure> {
        let Self { client, round, .. } = self;
        InputRound::new(*round, requests, &client.server().name, &client.0.host)
            .map_err(|reason| self.failed(reason))
    }

    /// Answers what a server asks while it works.
    async fn reply(
        &self,
        mut running: Box<RunningCall>,
        ask: ServerAsk,
    ) -> Result<Reply, CallFailure> {
        let ServerAsk { question, mut reply } = ask;
        let asked_at = Instant::now();
        let answer = tokio::select! {
            biased;
            // The server does not want to know any more.
            () = reply.closed() => return Ok(Reply::Sent(running)),
            answer = self.host.answer(&question) => answer,
        };
        match (answer, self.host.key()) {
            (Answer::Now(value), _) => drop(reply.send(Ok(value))),
            (Answer::Refused(reason), _) => drop(reply.send(Err(rejected(reason)))),
            (Answer::Stop(signal), _) => return Err(CallFailure::Stop(signal)),
            (Answer::Later, Some(key)) if self.client.0.host.holds_calls() => {
                let pause = question.to_pause();
                running.pending.hold();
                let call = HeldCall { key: key.clone(), running: *running, reply, asked_at };
                self.client.0.held.keep(call);
                return Ok(Reply::Held(Box::new((Kept::Held(question), pause))));
            }
            (Answer::Later, _) => drop(reply.send(declined(&question))),
        }
        running.pending.extend_limits(asked_at);
        Ok(Reply::Sent(running))
    }

    /// Answers the questions of a round, as far as they have an answer now.
    async fn answer(&mut self, mut round: InputRound) -> Result<Answered, CallFailure> {
        while let Some(question) = round.question() {
            match self.host.answer(question).await {
                Answer::Now(value) => round.reply(value),
                Answer::Refused(reason) => return Err(self.failed(reason)),
                Answer::Stop(signal) => return Err(CallFailure::Stop(signal)),
                Answer::Later => {
                    let pause = question.to_pause();
                    return Ok(Answered::Later(Box::new((Kept::Round(round), pause))));
                }
            }
        }
        self.round = round.round;
        let Some(id) = round.task else {
            self.params.input_responses = Some(round.responses);
            self.params.request_state = round.request_state;
            return Ok(Answered::All(Stage::Send));
        };
        self.answered.extend(round.responses.keys().cloned());
        let connection = self.client.connection().await?;
        self.guard_task(&connection.requests, &id);
        let params = UpdateTaskParams::new(id.clone(), round.responses);
        let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params));
        self.request(&connection, "tasks/update", request).await?;
        Ok(Answered::All(Stage::Task(id)))
    }

    async fn request(
        &self,
        connection: &Connection,
        method: &'static str,
        request: ClientRequest,
    ) -> Result<ServerResult, CallFailure> {
        let limits = self.client.limits();
        Ok(connection.requests.request(method, request, limits, self.cancel).await?)
    }

    fn failed(&self, reason: String) -> CallFailure {
        self.client.0.failed(reason).into()
    }
}

/// What became of a question that a server asks while it works.
enum Reply {
    /// The server has an answer, and works on.
    Sent(Box<RunningCall>),
    /// The call waits for the user.
    Held(Box<(Kept, ToolPause)>),
}

/// What became of a round of questions.
enum Answered {
    /// All have an answer.
    All(Stage),
    /// The call waits for the user.
    Later(Box<(Kept, ToolPause)>),
}

fn rejected(reason: String) -> ErrorData {
    ErrorData::new(ErrorCode(REJECTED), reason, None)
}

/// The answer where the user cannot decide.
fn declined(question: &Question) -> Result<Value, ErrorData> {
    match question {
        Question::Elicitation(question) => Ok(question.to_result(ElicitationReply::Decline)),
        Question::Sampling(_) => {
            Err(rejected("no user is present to allow the request".to_owned()))
        }
    }
}

impl McpClient {
    /// Calls a tool by its own name and returns its result as JSON. The handler of the [host](crate::McpHost::with_answers)
    /// answers questions of the server; without one, they are declined.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not answer, or refuses the call.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Arc<McpError>> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let cancel = CancellationToken::new();
        let host = WithoutAgent(self);
        match ToolCallRun::new(self, &host, &cancel, params).start().await {
            Ok(CallEnd::Done(result)) => Ok(serde_json::to_value(result).unwrap_or_default()),
            Err(CallFailure::Server(error)) => Err(error),
            Ok(CallEnd::Paused(_)) | Err(CallFailure::Stop(_)) => {
                Err(Arc::new(self.0.failed("the call cannot wait for an answer".to_owned())))
            }
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { idle: self.server().call_timeout, total: self.server().max_call_time }
    }

    /// Sends a call of a tool.
    async fn send_call(
        &self,
        params: CallToolRequestParams,
        cancel: &CancellationToken,
    ) -> Result<RunningCall, Arc<McpError>> {
        let connection = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return Err(Arc::new(self.0.failed("the call was cancelled".to_owned())));
            }
            connection = self.connection() => connection?,
        };
        self.0.check_approval(&params.name).map_err(Arc::new)?;
        self.0.calls.fetch_add(1, Ordering::AcqRel);
        let count = CallCount(Arc::clone(&self.0.calls));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = connection.requests.send("tools/call", request, self.limits(), Questions::Taken);
        let pending = sent.await.inspect_err(|error| self.note_login(error)).map_err(Arc::new)?;
        Ok(RunningCall { connection, pending, _count: count })
    }

    /// Waits for what arrives next. A call that takes too long ends the process of a server that no other call uses.
    async fn next(
        &self,
        running: &mut RunningCall,
        cancel: &CancellationToken,
    ) -> Result<Arrival, Arc<McpError>> {
        let arrived = running.pending.next(cancel).await;
        if let Err(error) = &arrived {
            self.note_login(error);
        }
        if let Err(McpError::Timeout { .. }) = &arrived
            && matches!(self.server().transport, ServerTransport::Stdio(_))
            && self.0.calls.load(Ordering::Acquire) <= 1
        {
            running.connection.close().await;
        }
        arrived.map_err(Arc::new)
    }
}

/// A call that no agent makes.
struct WithoutAgent<'a>(&'a McpClient);

#[async_trait]
impl CallHost for WithoutAgent<'_> {
    fn key(&self) -> Option<&IdempotencyKey> {
        None
    }

    fn report(&self, _: Report) {}

    fn connected(&self, _: &ConnectionInfo) {}

    async fn answer(&self, question: &Question) -> Answer {
        let Question::Elicitation(question) = question else {
            return Answer::Refused(WITHOUT_MODEL.to_owned());
        };
        let reply = match self.0.0.host.answers() {
            Some(answers) => answers.answer(question).await,
            None => ElicitationReply::Decline,
        };
        Answer::Now(question.to_result(reply))
    }
}
