"""Many waiting jobs: copies of one submitted job, and what the log of PostgreSQL says about claims."""

import re
import subprocess
import time

# The parts of a session that copies need. Sums are left out, because they cover the ID.
PARTS = {"definitions": ["body"], "branches": ["branch", "from_session", "from_branch", "at"], "batches": ["branch", "first", "count", "body"]}
FIRST = 1_000_000
LINE = re.compile(r"^(\d+) LOG:  duration: ([\d.]+) ms  (?:(parse|bind|execute) [^:]*|statement): (.*)$")


def sessions(postgres, count):
    """Makes copies of the session of the only job, with the keys from `FIRST` on."""
    names = "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns WHERE table_schema = 'loopwright'"
    names += " AND table_name = 'sessions' AND column_name NOT IN ('key', 'id', 'sum')"
    names = postgres.psql(names, "ours").stdout.strip()
    copy = f"""SET search_path TO loopwright;
        INSERT INTO sessions (key, id, {names}) OVERRIDING SYSTEM VALUE
            SELECT {FIRST} + g, gen_random_uuid()::text, {names} FROM sessions, generate_series(0, {count - 1}) g WHERE key < {FIRST};"""
    for table, columns in PARTS.items():
        columns = ", ".join(columns)
        copy += f"\nINSERT INTO {table} (session, {columns}) SELECT {FIRST} + g, {columns} FROM {table}, generate_series(0, {count - 1}) g WHERE session < {FIRST};"
    postgres.psql(copy, "ours")


def jobs(postgres, count, tenant, first=0):
    """Lets jobs of a tenant stand in line, one for each session from the given one on, as if each had been submitted."""
    postgres.psql(
        f"""SET search_path TO loopwright;
        INSERT INTO jobs (id, session, task, status, ready_at, created_at, updated_at, needs, priority, principal, turn)
            SELECT gen_random_uuid()::text, {FIRST + first} + g, task, 'queued', ready_at, created_at, updated_at, '', 0, '{tenant}', g
            FROM jobs, generate_series(0, {count - 1}) g WHERE session < {FIRST};
        ANALYZE;""",
        "ours",
    )


def forget_first(postgres):
    """Deletes the job that was copied; what arrives later is a copy of its task."""
    postgres.psql("CREATE TABLE task AS SELECT task FROM loopwright.jobs WHERE session < %d; DELETE FROM loopwright.jobs WHERE session < %d" % (FIRST, FIRST), "ours")


class Arrivals:
    """Submits one job for each tenant at a steady rate, over one connection."""

    def __init__(self, postgres, first):
        command = ["psql", postgres.url("ours"), "-XAtq", "-v", "ON_ERROR_STOP=1"]
        self.psql = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        self.first = first

    def one(self, number):
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        self.psql.stdin.write(
            "INSERT INTO loopwright.jobs (id, session, task, status, ready_at, created_at, updated_at, needs, priority, principal) "
            f"SELECT gen_random_uuid()::text, {FIRST + self.first + number}, task, 'queued', {now}, {now}, {now}, '', 0, 'tenant-{number}' FROM task;\n"
        )
        self.psql.stdin.flush()

    def all(self, count, rate):
        began = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            self.one(number)
        self.psql.stdin.close()
        if self.psql.wait():
            raise RuntimeError("a job could not be added")


def claims(log):
    """The milliseconds that each claim took in the database: its query for whether there is work, and its transaction without the
    wait for the disk."""
    spent, ready, is_claim, found = {}, {}, {}, []
    for line in log.splitlines():
        match = LINE.match(line)
        if not match:
            pid = line.split(" ", 1)[0]
            continue
        pid, took, _, sql = match[1], float(match[2]), match[3], match[4]
        if sql.startswith("BEGIN"):
            spent[pid], is_claim[pid] = 0.0, ""
        elif sql.startswith(("COMMIT", "ROLLBACK")):
            # A worker looks for work on one connection, and claims on the same or on another one.
            if is_claim.get(pid) == "ready":
                ready["last"] = spent[pid]
            elif is_claim.get(pid) == "claim":
                found.append(spent[pid] + ready.pop("last", 0.0))
            is_claim[pid] = ""
        else:
            spent[pid] = spent.get(pid, 0.0) + took
            if sql.startswith("SELECT CAST(NULL AS TEXT) AS needs"):
                is_claim[pid] = "ready"
            elif sql.startswith("UPDATE jobs SET status = 'running', claims = claims + 1"):
                is_claim[pid] = "claim"
    return found
