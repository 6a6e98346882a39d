-- What decides who runs a job, and when. These are NULL in rows that an earlier version wrote: no needs, priority 0.
ALTER TABLE jobs ADD COLUMN needs TEXT COLLATE "C";
ALTER TABLE jobs ADD COLUMN priority BIGINT;
ALTER TABLE jobs ADD COLUMN principal TEXT COLLATE "C";
ALTER TABLE jobs ADD COLUMN start_at BIGINT;
-- The place in line of a job that can run; NULL before.
ALTER TABLE jobs ADD COLUMN turn BIGINT;
-- 1 for a job that waits for another one of its session, 2 for one that waits for its start.
ALTER TABLE jobs ADD COLUMN held BIGINT;

CREATE INDEX jobs_in_line ON jobs (needs, priority DESC, turn, number)
    WHERE status = 'queued' AND turn IS NOT NULL;
CREATE INDEX jobs_in_line_by_principal ON jobs (needs, priority, principal, turn)
    WHERE status = 'queued' AND turn IS NOT NULL;
CREATE INDEX jobs_before_line ON jobs (ready_at, number)
    WHERE status = 'queued' AND turn IS NULL AND held IS NULL;
CREATE INDEX jobs_behind ON jobs (session, number) WHERE held = 1;
CREATE INDEX jobs_delayed ON jobs (ready_at) WHERE held = 2;
CREATE INDEX jobs_in_order ON jobs (session, number)
    WHERE status IN ('queued', 'running') AND (held IS NULL OR held = 1);
CREATE INDEX jobs_running ON jobs (until) WHERE status = 'running';
CREATE INDEX jobs_running_by_session ON jobs (session) WHERE status = 'running';

-- Once a job no longer runs, the next one of its session can. Programs of earlier versions cause this, too. The lock of the
-- session keeps this apart from transactions that put a job behind another one. Workers that wait are notified of jobs that
-- can run.
CREATE FUNCTION loopwright.jobs_next() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'running' THEN
        PERFORM key FROM loopwright.sessions WHERE key = NEW.session FOR NO KEY UPDATE;
        UPDATE loopwright.jobs SET held = NULL WHERE number = (
            SELECT MIN(number) FROM loopwright.jobs WHERE session = NEW.session AND held = 1
        );
    END IF;
    IF FOUND OR NEW.status = 'queued' THEN
        PERFORM pg_notify('loopwright_jobs', '');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_next AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN ((OLD.status = 'running' AND NEW.status <> 'running') OR NEW.status = 'queued')
    EXECUTE FUNCTION loopwright.jobs_next();

CREATE FUNCTION loopwright.jobs_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('loopwright_jobs', '');
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_new AFTER INSERT ON jobs FOR EACH STATEMENT
    EXECUTE FUNCTION loopwright.jobs_new();
