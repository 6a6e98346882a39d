"""What the servers in Python share: sessions in memory, runs as tasks, and their events as server-sent events.

A session is kept as long as the process. Its events have consecutive IDs, and a reader continues after the last one it names. Each
program gives `serve` a function that yields the fragments of an answer. With `--durable`, events are in a SQLite file before readers
see them.
"""

import asyncio
import json
import os
import secrets
import socket
import sqlite3
import sys
import uuid
from pathlib import Path

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

BASE_URL = os.environ["BASE_URL"]
KEY = "sk-none"
# Seconds after which a client gives an answer up: never here.
PATIENCE = 3600
TOKEN = secrets.token_hex(16)
PAGE = 50


class Message(BaseModel):
    text: str


class Log:
    """Events in a SQLite file. Those that wait together are one transaction, which is on disk before readers see them."""

    def __init__(self, path):
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        columns = "session TEXT, number INTEGER, body TEXT, PRIMARY KEY (session, number)"
        self.database.execute(f"CREATE TABLE events ({columns}) WITHOUT ROWID")
        self.waiting, self.wake = [], asyncio.Event()

    def add(self, session, event):
        session.last += 1
        self.waiting.append((session, session.last, event))
        self.wake.set()

    def write(self, batch):
        self.database.execute("BEGIN")
        rows = [(session.id, number, event) for session, number, event in batch]
        self.database.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        self.database.execute("COMMIT")

    async def run(self):
        while True:
            await self.wake.wait()
            self.wake.clear()
            batch, self.waiting = self.waiting, []
            await asyncio.to_thread(self.write, batch)
            for session, _, event in batch:
                session.publish(event)


class Session:
    def __init__(self, log):
        self.id = str(uuid.uuid4())
        self.events, self.log, self.last = [], log, 0
        self.is_running = False
        self.task = None
        self._changed = asyncio.Event()

    def emit(self, kind, **payload):
        event = json.dumps({"type": kind, "session_id": self.id, "payload": payload})
        if self.log:
            self.log.add(self, event)
        else:
            self.publish(event)

    def publish(self, event):
        self.events.append(f"id: {len(self.events) + 1}\ndata: {event}\n\n")
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def run(self, answer, text):
        self.is_running = True
        self.emit("agent.status", status="processing")
        status = "completed"
        try:
            async for fragment in answer(self, text):
                self.emit("agent.stream.chunk", content=fragment)
        except Exception as error:
            status = f"failed: {error}"
        self.is_running = False
        self.emit("agent.status", status=status)

    async def follow(self, after):
        while True:
            changed = self._changed
            if after < len(self.events):
                fresh = "".join(self.events[after:])
                after = len(self.events)
                yield fresh
            elif not self.is_running and self.last <= after:
                return
            else:
                await changed.wait()


def application(answer):
    """Returns the application, which answers messages with the fragments of `answer(session, text)`."""

    async def authorized(authorization: str = Header("")):
        if not secrets.compare_digest(authorization, f"Bearer {TOKEN}"):
            raise HTTPException(401)

    app, sessions, tasks = FastAPI(), {}, []
    log = Log(Path.home() / "events.sqlite") if "--durable" in sys.argv else None
    access = [Depends(authorized)]

    def of(session):
        if found := sessions.get(session):
            return found
        raise HTTPException(404)

    @app.get("/healthz")
    async def health():
        return {"status": "ok"}

    @app.get("/v1/agents", dependencies=access)
    async def agents():
        return {"agents": [{"name": "agent", "description": "Answers."}]}

    @app.get("/v1/sessions", dependencies=access)
    async def listed():
        return {"sessions": [{"id": it} for it in list(sessions)[:PAGE]]}

    @app.post("/v1/sessions", status_code=201, dependencies=access)
    async def create():
        session = Session(log)
        if log and not tasks:
            tasks.append(asyncio.create_task(log.run()))
        sessions[session.id] = session
        return {"id": session.id}

    @app.post("/v1/sessions/{session}/messages", status_code=202, dependencies=access)
    async def send(session: str, message: Message):
        found = of(session)
        if found.is_running:
            raise HTTPException(409)
        # It runs whether or not a client follows it.
        found.task = asyncio.create_task(found.run(answer, message.text))
        await asyncio.sleep(0)
        return {"status": "running"}

    @app.get("/v1/sessions/{session}/events", dependencies=access)
    async def events(session: str, last_event_id: int = Header(0)):
        return StreamingResponse(of(session).follow(last_event_id), media_type="text/event-stream")

    return app


def serve(answer):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16384)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    print(json.dumps({"url": url, "token": TOKEN}), flush=True)
    config = uvicorn.Config(application(answer), log_level="error", access_log=False, backlog=16384)
    uvicorn.Server(config).run(sockets=[listener])
